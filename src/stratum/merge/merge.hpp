// Merges records of several generations into extents, without those that no kept version shows.
//
//   merge_rule rule{.kept = kept, .is_oldest = true, .forgotten_up_to = {}};
//   merge_totals told = merge(sources, rule, {.from = "a", .to = "m"}, target);
//
// The sources have disjoint intervals of versions, so that (key, version) orders their records: it does not matter
// which source is younger.
//
// Threads: one call, one thread; several threads may merge different ranges of keys of the same extents.
// Errors: what reading a source and the target raise; then nothing that was written is to be used.
// Cost: O(bytes read) and O(records * sources) comparisons. Memory: one key's removals.
// Invariants:
//   M1. Each version that is kept, and the present, shows the same after the merge: together with what older strata
//       show, unless the sources are the oldest.
//   M2. A removal stays where an older record may lie below: it is left out only if the sources are the oldest and not
//       all versions are kept, or its key is forgotten; and if no older record of its key stays.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "stratum/extent_builder.hpp"
#include "stratum/merge/kept_versions.hpp"
#include "stratum/merge/record_source.hpp"

namespace icecore::stratum {

/// Decides about values that records refer to. Several merges may use one at a time, from several threads.
class referred_values {
 public:
  virtual ~referred_values() = default;
  /// A record of the range refers to it. If it is to be packed with its record from now on, returns it, until the next
  /// call from this thread; errc::damaged.
  [[nodiscard]] virtual std::optional<std::string_view> read(const format::value_reference& value) = 0;
  /// A record that is written refers to it.
  virtual void keep(const format::value_reference& value) = 0;
};

struct merge_rule {
  const kept_versions& kept;
  /// No other stratum has older versions.
  bool is_oldest = false;
  /// Of a key nothing stays up to this version; 0: it is not forgotten. May be empty. Precondition: no other stratum
  /// has a key that is.
  std::function<version(std::string_view key)> forgotten_up_to = {};
  /// Null: no record refers to a value that lies elsewhere.
  referred_values* values = nullptr;
  /// Told how many records were read since the last call. May be empty.
  std::function<void(std::uint64_t records)> on_progress = {};
};

/// A range of keys: from <= key < to. An empty `to` has no end.
struct merge_range {
  std::string_view from = {};
  std::optional<std::string_view> to = {};
};

struct merge_totals {
  std::uint64_t read = 0;  ///< records
  std::uint64_t kept = 0;
  std::uint64_t keys = 0;  ///< of which records were kept
  std::uint64_t extents = 0;
  std::uint64_t bytes = 0;  ///< of the extents
};

/// Where extents are written to.
class extent_target {
 public:
  virtual ~extent_target() = default;
  struct room {
    std::span<std::byte> bytes;  ///< from a multiple of 64 on
    std::uint32_t seed;
    std::uint64_t usual = UINT64_MAX;  ///< the next key begins another extent once keys and values have so many bytes
    std::optional<std::uint64_t> in_page = std::nullopt;  ///< as extent_builder's
  };
  /// Memory for the next extent, whose first record needs `at_least` so many bytes. May throw, errc::no_space for
  /// instance.
  virtual room begin(std::uint64_t at_least) = 0;
  /// The extent is complete, in the first `size` bytes of that memory; the rest is free again.
  virtual void complete(std::uint64_t size) = 0;
};

/// The sources stand at the range's first key or before it; sources that stand behind it have no keys there.
merge_totals merge(std::span<record_source* const> sources, const merge_rule& rule, const merge_range& range,
                   extent_target& target, std::uint64_t block_bytes = block_bytes_usual);

}  // namespace icecore::stratum
