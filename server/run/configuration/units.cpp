#include "run/configuration/units.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <span>

namespace icecore::server {

namespace {

struct unit {
  std::string_view name;
  std::uint64_t factor;
};

// The least unit first: what is written uses the greatest that divides it.
constexpr std::array<unit, 5> byte_units{{{"B", 1},
                                          {"KiB", std::uint64_t{1} << 10},
                                          {"MiB", std::uint64_t{1} << 20},
                                          {"GiB", std::uint64_t{1} << 30},
                                          {"TiB", std::uint64_t{1} << 40}}};
constexpr std::array<unit, 5> duration_units{
    {{"us", 1}, {"ms", 1'000}, {"s", 1'000'000}, {"min", 60'000'000}, {"h", 3'600'000'000}}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The number times its unit, if that is at most `value_max`. A number without a unit needs `bare`.
std::optional<std::uint64_t> parse_with_unit(std::string_view text, std::span<const unit> units, bool bare,
                                             std::uint64_t value_max) {
  const auto digits = static_cast<std::size_t>(std::ranges::find_if_not(text, is_digit) - text.begin());
  const std::optional<std::uint64_t> number = parse_number(text.substr(0, digits));
  if (!number) return std::nullopt;
  std::string_view name = text.substr(digits);
  if (name.empty()) return bare && *number <= value_max ? number : std::nullopt;
  if (name.front() == ' ') name.remove_prefix(1);
  const auto found = std::ranges::find(units, name, &unit::name);
  if (found == units.end() || *number > value_max / found->factor) return std::nullopt;
  return *number * found->factor;
}

std::string text_with_unit(std::uint64_t value, std::span<const unit> units, const unit& of_zero) {
  if (value == 0) return fmt::format("0 {}", of_zero.name);
  std::size_t greatest = 0;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (value % units[i].factor == 0) greatest = i;
  }
  return fmt::format("{} {}", value / units[greatest].factor, units[greatest].name);
}

bool is_ipv4(const std::string& host, in_addr& address) { return inet_pton(AF_INET, host.c_str(), &address) == 1; }
bool is_ipv6(const std::string& host, in6_addr& address) { return inet_pton(AF_INET6, host.c_str(), &address) == 1; }

bool is_host_name(std::string_view host) {
  return !host.empty() && host.size() <= 253 && std::ranges::all_of(host, [](char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' || c == '_';
  });
}

}  // namespace

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  return parse_with_unit(text, byte_units, true, std::numeric_limits<std::uint64_t>::max());
}

std::string bytes_text(std::uint64_t bytes) { return text_with_unit(bytes, byte_units, byte_units[0]); }

std::optional<std::chrono::microseconds> parse_duration(std::string_view text) {
  constexpr auto most = static_cast<std::uint64_t>(std::chrono::microseconds::max().count());
  const std::optional<std::uint64_t> count = parse_with_unit(text, duration_units, false, most);
  if (!count) return std::nullopt;
  return std::chrono::microseconds(*count);
}

std::string duration_text(std::chrono::microseconds duration) {
  return text_with_unit(static_cast<std::uint64_t>(duration.count()), duration_units, duration_units[2]);
}

std::optional<network_address> parse_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::optional<std::uint64_t> port = parse_number(text.substr(colon + 1));
  if (!port || *port > std::numeric_limits<std::uint16_t>::max()) return std::nullopt;
  std::string host(text.substr(0, colon));
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
    in6_addr address;
    if (!is_ipv6(host, address)) return std::nullopt;
  } else if (!is_host_name(host)) {
    return std::nullopt;
  }
  return network_address{host, static_cast<std::uint16_t>(*port)};
}

bool network_address::is_loopback() const {
  in_addr four;
  if (is_ipv4(host, four)) return (ntohl(four.s_addr) >> 24U) == 127;
  in6_addr six;
  if (is_ipv6(host, six)) return IN6_IS_ADDR_LOOPBACK(&six) != 0;
  return host == "localhost";
}

std::string network_address::text() const {
  if (empty()) return {};
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

}  // namespace icecore::server
