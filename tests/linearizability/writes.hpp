// Each key's records after all lives, matched with the operations that wrote them.
//
//   const matched_writes writes(h);             // throws violation: rules 1 to 5, and 9
//   const key_writes* k = writes.of_key(key);
//   k->records[k->state_at(v)] ...
//
// A write that took effect is an event: one insert, one removal, or one batch. An event has one instant; the operation
// that made it bounds that instant (instants.hpp finds out whether there is one).
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "violation.hpp"

namespace icecore::testing {

/// An instant before or after which something happened, and the operation that tells.
struct bound {
  std::int64_t ns = 0;
  place_of_call why{};
};

/// The later of two lower bounds, the earlier of two upper ones.
inline void raise(bound& b, const bound& by) {
  if (by.ns > b.ns) b = by;
}
inline void lower(bound& b, const bound& by) {
  if (by.ns < b.ns) b = by;
}

using event_number = std::uint32_t;
inline constexpr event_number no_event = std::numeric_limits<event_number>::max();

struct event {
  icecore::version version;
  bound earliest;
  bound latest;
};

struct key_record {
  icecore::version version;
  std::uint64_t value;  ///< 0: a removal
  std::uint32_t life;
  event_number by = no_event;
};

/// One key's records, oldest first. State s of the key is that after s of its records.
struct key_writes {
  std::uint32_t key;
  std::vector<key_record> records;

  /// The state of a closed version.
  [[nodiscard]] std::size_t state_at(version v) const;
  /// What state s shows; 0: nothing.
  [[nodiscard]] std::uint64_t value_of_state(std::size_t s) const { return s == 0 ? 0 : records[s - 1].value; }
};

/// Where a value was written: by whom, and which record it is.
struct written {
  place_of_call by;
  std::uint32_t key_index = 0;
  std::uint32_t record = not_found;
  static constexpr std::uint32_t not_found = std::numeric_limits<std::uint32_t>::max();
};

class matched_writes {
 public:
  explicit matched_writes(const history& h);

  [[nodiscard]] const std::vector<key_writes>& keys() const noexcept { return keys_; }
  [[nodiscard]] const key_writes* of_key(std::uint32_t key) const;
  [[nodiscard]] const written* of_value(std::uint64_t value) const;
  [[nodiscard]] std::vector<event>& events() noexcept { return events_; }
  [[nodiscard]] const std::vector<event>& events() const noexcept { return events_; }

  /// Parts of batches that removed a key, with the batch's event: at that instant the key was not there.
  struct batched_removal {
    std::uint32_t key;
    event_number by;
    place_of_call part;
  };
  [[nodiscard]] const std::vector<batched_removal>& batched_removals() const noexcept { return batched_removals_; }
  /// Writes in flight at a crash that had taken effect.
  [[nodiscard]] std::uint64_t in_flight_kept() const noexcept { return in_flight_kept_; }

 private:
  struct removal_group;

  void list_values();
  void assemble_keys();
  void append(std::uint32_t life, const found_key& found);
  void match_inserts();
  void match_batch(place_of_call batch);
  void match_insert(place_of_call insert);
  void match_removals();
  void match_removal_group(const removal_group& g);
  [[nodiscard]] event_number new_event(version at, place_of_call by);
  [[nodiscard]] key_writes& key(std::uint32_t number);

  const history* h_;
  std::vector<key_writes> keys_;
  std::unordered_map<std::uint32_t, std::uint32_t> key_index_;
  std::unordered_map<std::uint64_t, written> values_;
  std::vector<event> events_;
  std::vector<batched_removal> batched_removals_;
  std::uint64_t in_flight_kept_ = 0;
};

}  // namespace icecore::testing
