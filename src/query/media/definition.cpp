#include "query/media/definition.hpp"

#include <cstring>

#include "base/byte_stream.hpp"
#include "base/raise.hpp"

namespace icecore::detail {
namespace {

// Later layouts get other numbers; all of them stay readable.
constexpr std::uint16_t layout_plain = 1;
constexpr std::uint16_t layout_with_columns = 2;  ///< ends with selection and totals

void put(byte_writer& out, const std::optional<std::string>& s) {
  out.number<std::uint8_t>(s.has_value() ? 1 : 0);
  if (s) out.text(*s);
}

std::optional<std::string> get_optional(byte_reader& in) {
  if (in.number<std::uint8_t>() == 0) return std::nullopt;
  return std::string(in.text());
}

std::vector<std::string> get_list(byte_reader& in) {
  std::vector<std::string> all;
  for (auto left = in.number<std::uint32_t>(); left > 0; --left) all.emplace_back(in.text());
  return all;
}

void put(byte_writer& out, const std::vector<std::string>& all) {
  out.number(static_cast<std::uint32_t>(all.size()));
  for (const std::string& each : all) out.text(each);
}

std::string_view view(const std::vector<std::byte>& bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::byte> get_bytes(byte_reader& in) {
  const std::string_view text = in.text();
  const auto* at = reinterpret_cast<const std::byte*>(text.data());
  return {at, at + text.size()};
}

}  // namespace

key_bounds query_definition::bounds_of(std::size_t part) const {
  key_bounds b = within;
  if (part > 0) b.from = borders[part - 1];
  if (part < borders.size()) b.to = borders[part];
  return b;
}

std::vector<std::byte> query_definition::encoded() const {
  byte_writer out;
  const bool plain = select.empty() && totals.empty();
  out.number(plain ? layout_plain : layout_with_columns);
  out.text(name);
  out.number(at);
  out.number(static_cast<std::uint8_t>(keeps));
  out.number(created_ns);
  out.text(view(filter));
  put(out, std::vector<std::string>());  // reserved
  put(out, within.from);
  put(out, within.to);
  put(out, borders);
  if (!plain) {
    out.text(view(select));
    out.text(view(totals));
  }
  return out.bytes();
}

query_definition query_definition::decoded(std::span<const std::byte> bytes, const std::string& what) {
  const auto refuse = [&] { raise(errc::damaged, "{}: the query's definition cannot be read", what); };
  byte_reader in(bytes, refuse);
  const auto layout = in.number<std::uint16_t>();
  if (layout != layout_plain && layout != layout_with_columns) {
    raise(errc::unsupported_format, "{}: the query's definition has layout {}; this icecore reads layouts {} and {}",
          what, layout, layout_plain, layout_with_columns);
  }
  query_definition d;
  d.name = in.text();
  d.at = in.number<version>();
  const auto keeps = in.number<std::uint8_t>();
  if (keeps < static_cast<std::uint8_t>(query_keeps::count) || keeps > static_cast<std::uint8_t>(query_keeps::rows)) {
    refuse();
  }
  d.keeps = static_cast<query_keeps>(keeps);
  d.created_ns = in.number<std::int64_t>();
  d.filter = get_bytes(in);
  if (!get_list(in).empty()) refuse();
  d.within.from = get_optional(in);
  d.within.to = get_optional(in);
  d.borders = get_list(in);
  if (layout == layout_with_columns) {
    d.select = get_bytes(in);
    d.totals = get_bytes(in);
  }
  if (!in.at_end() || (d.keeps == query_keeps::rows) == d.select.empty() || d.parts() > parts_max) refuse();
  return d;
}

}  // namespace icecore::detail
