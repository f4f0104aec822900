#include "query/once/token.hpp"

#include <sodium/crypto_auth_hmacsha256.h>
#include <sodium/utils.h>

#include <algorithm>
#include <cstring>

#include "base/checksum.hpp"
#include "base/raise.hpp"
#include "query/tokens/origin.hpp"

namespace icecore::detail {
namespace {

constexpr std::uint8_t layout_number = 1;
constexpr std::uint8_t flag_reverse = 1;
constexpr std::size_t store_at = 2;
constexpr std::size_t version_at = 18;
constexpr std::size_t filter_at = 26;
constexpr std::size_t crc_at = 42;
constexpr std::size_t signature_at = 46;
constexpr std::uint8_t flag_signed = 2;

using signature = std::array<unsigned char, crypto_auth_hmacsha256_BYTES>;
static_assert(sizeof(signature) == 32);

constexpr std::size_t key_at(bool is_signed) noexcept { return signature_at + (is_signed ? sizeof(signature) : 0); }

signature signature_of(std::string_view token, std::string_view secret) noexcept {
  const auto bytes = [](std::string_view s) { return reinterpret_cast<const unsigned char*>(s.data()); };
  const std::string_view key = token.substr(key_at(true));
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, bytes(secret), secret.size());
  crypto_auth_hmacsha256_update(&state, bytes(token), crc_at);
  crypto_auth_hmacsha256_update(&state, bytes(key), key.size());
  signature made;
  crypto_auth_hmacsha256_final(&state, made.data());
  return made;
}

std::uint32_t crc_of(std::string_view token) noexcept {
  const std::uint32_t before = crc32c(0x70616765U, token.data(), crc_at);
  return crc32c(before, token.data() + signature_at, token.size() - signature_at);
}

}  // namespace

std::string make_token(const token_of& from, std::string_view key) {
  const bool is_signed = !from.secret.empty();
  std::string token(key_at(is_signed), '\0');
  token[0] = static_cast<char>(layout_number);
  token[1] = static_cast<char>((from.reverse ? flag_reverse : 0) | (is_signed ? flag_signed : 0));
  const store_id own = id_of(from.store->roots().read());
  std::memcpy(token.data() + store_at, own.data(), own.size());
  std::memcpy(token.data() + version_at, &from.at, sizeof from.at);
  std::memcpy(token.data() + filter_at, from.filter.data(), from.filter.size());
  token += key;
  if (is_signed) {
    const signature made = signature_of(token, from.secret);
    std::memcpy(token.data() + signature_at, made.data(), made.size());
  }
  const std::uint32_t crc = crc_of(token);
  std::memcpy(token.data() + crc_at, &crc, sizeof crc);
  return token;
}

std::string_view key_of_token(const token_of& expected, std::string_view token) {
  if (token.size() < key_at(false) || token.size() > key_at(true) + key_size_max) {
    raise(errc::bad_token, "the token is damaged: it has {} bytes", token.size());
  }
  std::uint32_t crc = 0;
  std::memcpy(&crc, token.data() + crc_at, sizeof crc);
  if (crc != crc_of(token)) raise(errc::bad_token, "the token is damaged: it fails its checksum");
  if (static_cast<std::uint8_t>(token[0]) != layout_number) {
    raise(errc::bad_token, "the token has layout {}; this icecore reads layout {}", static_cast<unsigned>(token[0]),
          layout_number);
  }
  const auto flags = static_cast<std::uint8_t>(token[1]);
  const bool is_signed = (flags & flag_signed) != 0;
  if ((flags & ~(flag_reverse | flag_signed)) != 0 || token.size() < key_at(is_signed)) {
    raise(errc::bad_token, "the token is damaged: flags {} with {} bytes", flags, token.size());
  }
  if (is_signed && expected.secret.empty()) {
    raise(errc::bad_token, "the token is signed; give the secret it was signed with");
  }
  if (!is_signed && !expected.secret.empty()) raise(errc::bad_token, "the token is not signed, but a secret was given");
  if (is_signed) {
    const signature made = signature_of(token, expected.secret);
    if (sodium_memcmp(made.data(), token.data() + signature_at, made.size()) != 0) {  // takes the same time always
      raise(errc::bad_token, "the token is forged, or signed with another secret");
    }
  }
  version at = 0;
  std::memcpy(&at, token.data() + version_at, sizeof at);
  token_origin origin{{}, at, at};
  std::memcpy(origin.store.data(), token.data() + store_at, origin.store.size());
  require_origin(*expected.store, origin, "the token");
  if (at != expected.at) raise(errc::bad_token, "the token is of version {}, not {}", at, expected.at);
  if (std::memcmp(token.data() + filter_at, expected.filter.data(), expected.filter.size()) != 0) {
    raise(errc::bad_token, "the token is of another filter");
  }
  if (((flags & flag_reverse) != 0) != expected.reverse) {
    raise(errc::bad_token, "the token is of the other direction");
  }
  return token.substr(key_at(is_signed));
}

}  // namespace icecore::detail
