#include "query/once/token.hpp"

#include <cstring>

#include "base/checksum.hpp"
#include "base/raise.hpp"

namespace icecore::detail {
namespace {

constexpr std::uint8_t layout_number = 1;
constexpr std::uint8_t flag_reverse = 1;
constexpr std::size_t store_at = 2;
constexpr std::size_t version_at = 18;
constexpr std::size_t filter_at = 26;
constexpr std::size_t crc_at = 42;
constexpr std::size_t key_at = 46;

std::uint32_t crc_of(std::string_view token) noexcept {
  const std::uint32_t before = crc32c(0x70616765U, token.data(), crc_at);
  return crc32c(before, token.data() + key_at, token.size() - key_at);
}

}  // namespace

std::string make_token(const token_of& from, std::string_view key) {
  std::string token(key_at, '\0');
  token[0] = static_cast<char>(layout_number);
  token[1] = static_cast<char>(from.reverse ? flag_reverse : 0);
  std::memcpy(token.data() + store_at, from.store.data(), from.store.size());
  std::memcpy(token.data() + version_at, &from.at, sizeof from.at);
  std::memcpy(token.data() + filter_at, from.filter.data(), from.filter.size());
  token += key;
  const std::uint32_t crc = crc_of(token);
  std::memcpy(token.data() + crc_at, &crc, sizeof crc);
  return token;
}

std::string_view key_of_token(const token_of& expected, std::string_view token) {
  if (token.size() < key_at || token.size() > key_at + key_size_max) {
    raise(errc::bad_token, "the token is damaged: it has {} bytes", token.size());
  }
  std::uint32_t crc = 0;
  std::memcpy(&crc, token.data() + crc_at, sizeof crc);
  if (crc != crc_of(token)) raise(errc::bad_token, "the token is damaged: it fails its checksum");
  if (static_cast<std::uint8_t>(token[0]) != layout_number) {
    raise(errc::bad_token, "the token has layout {}; this icecore reads layout {}", static_cast<unsigned>(token[0]),
          layout_number);
  }
  version at = 0;
  std::memcpy(&at, token.data() + version_at, sizeof at);
  if (std::memcmp(token.data() + store_at, expected.store.data(), expected.store.size()) != 0) {
    raise(errc::bad_token, "the token is of another store");
  }
  if (at != expected.at) raise(errc::bad_token, "the token is of version {}, not {}", at, expected.at);
  if (std::memcmp(token.data() + filter_at, expected.filter.data(), expected.filter.size()) != 0) {
    raise(errc::bad_token, "the token is of another filter");
  }
  if (((static_cast<std::uint8_t>(token[1]) & flag_reverse) != 0) != expected.reverse) {
    raise(errc::bad_token, "the token is of the other direction");
  }
  return token.substr(key_at);
}

}  // namespace icecore::detail
