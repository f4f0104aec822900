#include "service/read/hidden_keys.hpp"

#include <fmt/format.h>

#include "icecore/error.hpp"

namespace icecore::service {

std::string bytes_of_number(std::uint64_t number) {
  std::string bytes(8, '\0');
  for (int i = 7; i >= 0; --i, number >>= 8) bytes[static_cast<std::size_t>(i)] = static_cast<char>(number & 0xff);
  return bytes;
}

std::optional<std::uint64_t> number_of_bytes(std::string_view bytes) noexcept {
  if (bytes.size() != 8) return std::nullopt;
  std::uint64_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<unsigned char>(byte);
  return number;
}

void require_client_key(std::string_view key) {
  // A key with a lease is named behind `leased_prefix`, too.
  constexpr std::size_t most = icecore::key_size_max - leased_prefix.size();
  if (key.size() > most) {
    throw icecore::error(
        errc::key_too_long,
        fmt::format("a key of {} bytes: keys of a server's database have at most {}", key.size(), most));
  }
  if (is_hidden(key)) {
    throw icecore::error(errc::invalid_argument,
                         "keys that begin with a zero byte and 'icecore/' belong to the server; choose another key");
  }
}

bool holds(const icecore::key_bounds& bounds, std::string_view key) noexcept {
  return (!bounds.from || key >= *bounds.from) && (!bounds.to || key < *bounds.to);
}

}  // namespace icecore::service
