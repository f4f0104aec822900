// Reads a feed: decides where the next changes are found, filters them, waits, and keeps the place.
//
//   feed_reader reader(core, where, place, {.unsynced = true});
//   feed_batch some = reader.next(holds, 1000, 1s);
//
// What it tells, and when (Q7, Q8 in docs/guarantees.md): the versions that are closed, that a power cut would keep,
// and that no writer can stamp any more, in this order of steps:
//   1. read which versions a power cut would keep (store_core::durable_up_to), and the clock;
//   2. wait until the writes that were under way then are complete (settling);
//   3. take the engine that is current then;
//   4. read where records are, and the records (new_records, or a pass over the keys).
// Step 3 or 4 before step 1 would miss what is written in between: behind a compaction it is in another engine.
//
// Threads: one object, one thread.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "icecore/feed.hpp"
#include "query/changes/walk.hpp"
#include "query/feed/new_records.hpp"
#include "query/feed/position.hpp"
#include "store/feed/settling.hpp"

namespace icecore::detail {

/// What a feed is asked for anew in each process.
struct feed_reading {
  bool unsynced = false;
  std::string_view secret{};  ///< of its tokens
};

[[nodiscard]] feed_identity identity_of(const store_core& core, const filter& where, std::string_view secret);

class [[gnu::visibility("hidden")]] feed_reader {
 public:
  feed_reader(store_core& core, filter where, feed_position from, const feed_reading& how);

  /// `holds` is on the engine that it reads. Once all that was found there is told, it goes on with the current engine,
  /// and then so does the pin.
  [[nodiscard]] feed_batch next(pin& holds, std::size_t max, std::chrono::microseconds timeout);
  [[nodiscard]] const feed_position& place() const noexcept { return place_; }
  /// Whether the place's version has the changes now that were counted when it was told.
  [[nodiscard]] bool counts_as_told(const feed_position& place) const noexcept;
  [[nodiscard]] const feed_identity& identity() const noexcept { return identity_; }

 private:
  using clock = std::chrono::steady_clock;

  /// About so many changes are looked for at once; a pass over the keys is worth more.
  static constexpr std::size_t wanted_new = 4096;
  static constexpr std::size_t wanted_of_pass = std::size_t{1} << 20;
  static constexpr std::size_t wanted_items = 4096;

  void require_readable() const;
  void follow(pin& holds);
  [[nodiscard]] version tellable() const;
  bool settle(clock::time_point until);
  void wait(clock::time_point until) const;
  bool load();
  void load_items();
  void fill(std::vector<key_change>& out, std::size_t max);
  void fill_from_block(std::vector<key_change>& out, std::size_t max);
  void pass(std::size_t pending);

  store_core* core_;
  filter where_;
  std::vector<key_range> ranges_;  // of keys that can match
  feed_identity identity_;
  feed_position place_;
  feed_position followed_;  // the place from which on changes were counted with this engine
  bool unsynced_;
  version settled_ = 0;  // versions up to this one may be told

  std::vector<change_at> pending_;  // of whole versions, or of the snapshot
  std::size_t next_pending_ = 0;
  version pending_up_to_ = 0;
  new_records since_;
  std::string items_from_;  // what the bounds of items_ view
  std::shared_ptr<const sorted_keys> kept_;
  std::unique_ptr<change_walk> items_;  // of the snapshot, behind pending_
  change_block block_;
  scratch memory_;
};

}  // namespace icecore::detail
