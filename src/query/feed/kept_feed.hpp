// A feed that the store keeps: its definition and how far it is acknowledged.
//
//   auto found = kept_feed::find(core, "mirror");       // null if there is none
//   found->acknowledge(place, counts);                   // durable when it returns
//
// Two places are kept, each with a sequence and a checksum. An acknowledgement overwrites the older one and is durable
// before it returns. So whatever a crash tears, the newer one of before is intact, and counts. A place that a killed
// process has stored, but not made durable, may be found in the caches: it is made durable before anybody goes on from
// it, since a power cut must not take the consumer back to a place before one that it was shown.
//
// Threads: any; changes are made under shared_state::queries, by any process that shares the store.
// Errors: errc::damaged for a definition or places that fail their checksums; errc::no_such_query once it is dropped.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "pool/query/feed_places.hpp"
#include "query/feed/feed_definition.hpp"
#include "query/feed/position.hpp"
#include "query/kept/catalog.hpp"

namespace icecore::detail {

class [[gnu::visibility("hidden")]] kept_feed {
 public:
  /// Null if no feed has this name. errc::damaged if one that cannot be read may have it.
  [[nodiscard]] static std::unique_ptr<kept_feed> find(const store_core& core, std::string_view name);
  /// A new one, durable when this returns. errc::query_exists if there is one by now.
  [[nodiscard]] static std::unique_ptr<kept_feed> make(const store_core& core, const feed_definition& what,
                                                       const feed_position& place);
  /// All that can be read, oldest first.
  [[nodiscard]] static std::vector<std::unique_ptr<kept_feed>> all(const store_core& core);

  kept_feed(query_catalog& in, link head, std::array<std::uint64_t, 2> id, feed_definition what);

  [[nodiscard]] const feed_definition& definition() const noexcept { return what_; }
  /// Durable when it returns, unless the store was opened for reading.
  [[nodiscard]] feed_position place() const;
  /// A place before the one that is kept changes nothing. `counts_as_before`: whether the changes of the place's
  /// version are still those that were told; if a compaction has left fewer, that version is told again from its first
  /// one.
  void acknowledge(feed_position place, const std::function<bool()>& counts_as_before);
  void drop();
  /// errc::no_such_query once it was dropped.
  void check_there() const {
    const recovering_lock shared = in_->space().hold();
    require_there();
  }

 private:
  [[nodiscard]] static std::unique_ptr<kept_feed> read(query_catalog& in, link head);
  [[nodiscard]] format::query_head& head() const noexcept { return in_->space().head_at(head_); }
  [[nodiscard]] feed_places places() const noexcept { return {in_->space(), head_}; }
  /// errc::damaged if both places are.
  [[nodiscard]] feed_places::place newest() const;
  void require_there() const;

  query_catalog* in_;
  link head_;
  std::array<std::uint64_t, 2> id_;
  feed_definition what_;
};

}  // namespace icecore::detail
