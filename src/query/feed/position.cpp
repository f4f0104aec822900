#include "query/feed/position.hpp"

#include <cstring>

#include "base/raise.hpp"
#include "query/tokens/envelope.hpp"

namespace icecore::detail {
namespace {

constexpr std::uint8_t flag_snapshot = 1;
constexpr std::uint8_t flag_key = 2;
constexpr std::uint8_t flag_beyond_lost = 4;
constexpr token_kind of_feeds{.name = "the feed's token",
                              .plural = "tokens of feeds",
                              .crc_start = 0x66656564U,
                              .layout = 2,
                              .signed_layout = 3,
                              .signed_flag = 0,
                              .flags_known = flag_snapshot | flag_key | flag_beyond_lost,
                              .place_min = sizeof(feed_position::changes)};

}  // namespace

std::string token_of(const feed_identity& feed, const feed_position& at) {
  const auto flags = static_cast<std::uint8_t>((at.in_snapshot ? flag_snapshot : 0) | (at.key_known ? flag_key : 0) |
                                               (at.beyond_lost ? flag_beyond_lost : 0));
  std::string place(sizeof at.changes, '\0');
  std::memcpy(place.data(), &at.changes, sizeof at.changes);
  place += at.key;
  return sealed_token(of_feeds, {flags, id_of(feed.store->roots().read()), at.at, feed.filter}, place, feed.secret);
}

namespace {

feed_position place_of(const token_head& head, std::string_view place) {
  feed_position found;
  found.at = head.at;
  std::memcpy(&found.changes, place.data(), sizeof found.changes);
  found.in_snapshot = (head.flags & flag_snapshot) != 0;
  found.key_known = (head.flags & flag_key) != 0;
  found.beyond_lost = (head.flags & flag_beyond_lost) != 0;
  found.key = place.substr(sizeof found.changes);
  if (found.at == 0 && !found.in_snapshot) raise(errc::bad_token, "the feed's token is damaged: it names no version");
  return found;
}

}  // namespace

feed_position place_in(std::string_view token) {
  const auto [head, place] = open_token(of_feeds, token, {});
  return place_of(head, place);
}

feed_position position_of(const feed_identity& feed, std::string_view token) {
  const auto [head, place] = open_token(of_feeds, token, feed.secret);
  if (head.filter != feed.filter) raise(errc::bad_token, "the feed's token is of another filter");
  feed_position found = place_of(head, place);
  const bool is_within = found.in_snapshot || found.changes > 0;
  token_origin origin{head.store, is_within ? found.at : found.at - 1, {}};
  if (is_within) origin.within = found.at;
  require_origin(*feed.store, origin, of_feeds.name);
  return found;
}

}  // namespace icecore::detail
