#include "query/feed/position.hpp"

#include <cstring>

#include "base/checksum.hpp"
#include "base/raise.hpp"
#include "query/tokens/origin.hpp"

namespace icecore::detail {
namespace {

constexpr std::uint8_t feed_layout_number = 2;
constexpr std::uint8_t flag_snapshot = 1;
constexpr std::uint8_t flag_key = 2;
constexpr std::size_t feed_store_at = 2;
constexpr std::size_t feed_version_at = 18;
constexpr std::size_t feed_filter_at = 26;
constexpr std::size_t feed_crc_at = 42;
constexpr std::size_t feed_changes_at = 46;
constexpr std::size_t feed_key_at = 54;

std::uint32_t crc_of_feed_token(std::string_view token) noexcept {
  const std::uint32_t before = crc32c(0x66656564U, token.data(), feed_crc_at);
  return crc32c(before, token.data() + feed_changes_at, token.size() - feed_changes_at);
}

}  // namespace

std::string token_of(const feed_identity& feed, const feed_position& place) {
  std::string token(feed_key_at, '\0');
  token[0] = static_cast<char>(feed_layout_number);
  token[1] = static_cast<char>((place.in_snapshot ? flag_snapshot : 0) | (place.key_known ? flag_key : 0));
  const store_id own = id_of(feed.store->roots().read());
  std::memcpy(token.data() + feed_store_at, own.data(), own.size());
  std::memcpy(token.data() + feed_version_at, &place.at, sizeof place.at);
  std::memcpy(token.data() + feed_filter_at, feed.filter.data(), feed.filter.size());
  std::memcpy(token.data() + feed_changes_at, &place.changes, sizeof place.changes);
  token += place.key;
  const std::uint32_t crc = crc_of_feed_token(token);
  std::memcpy(token.data() + feed_crc_at, &crc, sizeof crc);
  return token;
}

feed_position position_of(const feed_identity& feed, std::string_view token) {
  if (token.size() < feed_key_at || token.size() > feed_key_at + key_size_max) {
    raise(errc::bad_token, "the feed's token is damaged: it has {} bytes", token.size());
  }
  std::uint32_t crc = 0;
  std::memcpy(&crc, token.data() + feed_crc_at, sizeof crc);
  if (crc != crc_of_feed_token(token)) raise(errc::bad_token, "the feed's token is damaged: it fails its checksum");
  if (static_cast<std::uint8_t>(token[0]) != feed_layout_number) {
    raise(errc::bad_token, "the token has layout {}; tokens of feeds that this icecore reads have layout {}",
          static_cast<unsigned>(token[0]), feed_layout_number);
  }
  if (std::memcmp(token.data() + feed_filter_at, feed.filter.data(), feed.filter.size()) != 0) {
    raise(errc::bad_token, "the feed's token is of another filter");
  }
  feed_position place;
  const auto flags = static_cast<std::uint8_t>(token[1]);
  std::memcpy(&place.at, token.data() + feed_version_at, sizeof place.at);
  std::memcpy(&place.changes, token.data() + feed_changes_at, sizeof place.changes);
  place.in_snapshot = (flags & flag_snapshot) != 0;
  place.key_known = (flags & flag_key) != 0;
  place.key = token.substr(feed_key_at);
  if (place.at == 0 && !place.in_snapshot) raise(errc::bad_token, "the feed's token is damaged: it names no version");
  const bool is_within = place.in_snapshot || place.changes > 0;
  token_origin origin{{}, is_within ? place.at : place.at - 1, {}};
  if (is_within) origin.within = place.at;
  std::memcpy(origin.store.data(), token.data() + feed_store_at, origin.store.size());
  require_origin(*feed.store, origin, "the feed's token");
  return place;
}

}  // namespace icecore::detail
