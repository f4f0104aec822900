#include "query/once/token.hpp"

#include "base/raise.hpp"
#include "query/tokens/envelope.hpp"

namespace icecore::detail {
namespace {

constexpr std::uint8_t flag_reverse = 1;
constexpr token_kind of_pages{.name = "the token",
                              .plural = "tokens of pages",
                              .crc_start = 0x70616765U,
                              .layout = 1,
                              .signed_layout = 1,
                              .signed_flag = 2,
                              .flags_known = flag_reverse,
                              .place_min = 0};

}  // namespace

std::string make_token(const token_of& from, std::string_view key) {
  const std::uint8_t flags = from.reverse ? flag_reverse : 0;
  return sealed_token(of_pages, {flags, id_of(from.store->roots().read()), from.at, from.filter}, key, from.secret);
}

std::string_view key_of_token(const token_of& expected, std::string_view token) {
  const auto [head, key] = open_token(of_pages, token, expected.secret);
  require_origin(*expected.store, {head.store, head.at, head.at}, of_pages.name);
  if (head.at != expected.at) raise(errc::bad_token, "the token is of version {}, not {}", head.at, expected.at);
  if (head.filter != expected.filter) raise(errc::bad_token, "the token is of another filter");
  if (((head.flags & flag_reverse) != 0) != expected.reverse) {
    raise(errc::bad_token, "the token is of the other direction");
  }
  return key;
}

}  // namespace icecore::detail
