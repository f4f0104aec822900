#include "query/tokens/envelope.hpp"

#include <sodium/crypto_auth_hmacsha256.h>
#include <sodium/utils.h>

#include <cstring>

#include "base/checksum.hpp"
#include "base/raise.hpp"

namespace icecore::detail {
namespace {

constexpr std::size_t store_at = 2;
constexpr std::size_t version_at = 18;
constexpr std::size_t filter_at = 26;
constexpr std::size_t crc_at = 42;
constexpr std::size_t signature_at = 46;

using signature = std::array<unsigned char, crypto_auth_hmacsha256_BYTES>;
static_assert(sizeof(signature) == 32);

constexpr std::size_t place_at(bool is_signed) noexcept { return signature_at + (is_signed ? sizeof(signature) : 0); }

signature signature_of(std::string_view token, std::string_view secret) noexcept {
  const auto bytes = [](std::string_view s) { return reinterpret_cast<const unsigned char*>(s.data()); };
  const std::string_view place = token.substr(place_at(true));
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, bytes(secret), secret.size());
  crypto_auth_hmacsha256_update(&state, bytes(token), crc_at);
  crypto_auth_hmacsha256_update(&state, bytes(place), place.size());
  signature made;
  crypto_auth_hmacsha256_final(&state, made.data());
  return made;
}

std::uint32_t crc_of(const token_kind& kind, std::string_view token) noexcept {
  const std::uint32_t before = crc32c(kind.crc_start, token.data(), crc_at);
  return crc32c(before, token.data() + signature_at, token.size() - signature_at);
}

/// Whether it is signed as it must be, with this secret.
void require_signature(const token_kind& kind, std::string_view token, bool is_signed, std::string_view secret) {
  if (is_signed && secret.empty()) {
    raise(errc::bad_token, "{} is signed; give the secret it was signed with", kind.name);
  }
  if (!is_signed && !secret.empty()) raise(errc::bad_token, "{} is not signed, but a secret was given", kind.name);
  if (!is_signed) return;
  const signature made = signature_of(token, secret);
  if (sodium_memcmp(made.data(), token.data() + signature_at, made.size()) != 0) {  // takes the same time always
    raise(errc::bad_token, "{} is forged, or signed with another secret", kind.name);
  }
}

}  // namespace

std::string sealed_token(const token_kind& kind, const token_head& head, std::string_view place,
                         std::string_view secret) {
  const bool is_signed = !secret.empty();
  std::string token(place_at(is_signed), '\0');
  token[0] = static_cast<char>(is_signed ? kind.signed_layout : kind.layout);
  token[1] = static_cast<char>(head.flags | (is_signed ? kind.signed_flag : 0));
  std::memcpy(token.data() + store_at, head.store.data(), head.store.size());
  std::memcpy(token.data() + version_at, &head.at, sizeof head.at);
  std::memcpy(token.data() + filter_at, head.filter.data(), head.filter.size());
  token += place;
  if (is_signed) {
    const signature made = signature_of(token, secret);
    std::memcpy(token.data() + signature_at, made.data(), made.size());
  }
  const std::uint32_t crc = crc_of(kind, token);
  std::memcpy(token.data() + crc_at, &crc, sizeof crc);
  return token;
}

opened_token open_token(const token_kind& kind, std::string_view token, std::string_view secret) {
  if (token.size() < place_at(false) + kind.place_min ||
      token.size() > place_at(true) + kind.place_min + key_size_max) {
    raise(errc::bad_token, "{} is damaged: it has {} bytes", kind.name, token.size());
  }
  std::uint32_t crc = 0;
  std::memcpy(&crc, token.data() + crc_at, sizeof crc);
  if (crc != crc_of(kind, token)) raise(errc::bad_token, "{} is damaged: it fails its checksum", kind.name);
  const auto layout = static_cast<std::uint8_t>(token[0]);
  if (layout != kind.layout && layout != kind.signed_layout) {
    raise(errc::bad_token, "{} has layout {}; {} that this icecore reads have layout {}", kind.name, layout,
          kind.plural, kind.layout);
  }
  opened_token found;
  found.head.flags = static_cast<std::uint8_t>(token[1]);
  const bool is_signed = kind.signed_flag != 0 ? (found.head.flags & kind.signed_flag) != 0 : layout != kind.layout;
  found.head.flags = static_cast<std::uint8_t>(found.head.flags & ~kind.signed_flag);
  if ((found.head.flags & ~kind.flags_known) != 0 || token.size() < place_at(is_signed) + kind.place_min) {
    raise(errc::bad_token, "{} is damaged: flags {} with {} bytes", kind.name, found.head.flags, token.size());
  }
  require_signature(kind, token, is_signed, secret);
  std::memcpy(found.head.store.data(), token.data() + store_at, found.head.store.size());
  std::memcpy(&found.head.at, token.data() + version_at, sizeof found.head.at);
  std::memcpy(found.head.filter.data(), token.data() + filter_at, found.head.filter.size());
  found.place = token.substr(place_at(is_signed));
  return found;
}

}  // namespace icecore::detail
