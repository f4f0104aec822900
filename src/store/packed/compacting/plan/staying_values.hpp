// Large values that compactions leave where they were written, and only refer to (docs/design/0038).
//
//   staying_values values(pools, now, packed, moves_values::none);
//   values.look_at_segments();                              // before the records of a young generation are read
//   if (const auto where = values.stays(at, record)) ...    // a record refers to it, instead of having it
//   stratum::merge(sources, {.values = &values, ...}, ...);
//   next.values = values.next();
//
// A value stays if its record takes at least half of its segment: then that segment is never more than half garbage as
// long as a record refers to the value, and garbage as a whole afterwards. Nothing else of the segment counts.
//
// Threads: look_at_segments() and next() while no other function is called; those from any thread.
// Durability: a value that stays is durable when its manifest is. Where lines are flushed its write, or the recovery
// behind a crash, has flushed it; where pages are synced, the manifest's sync covers all that was stored before.
// Errors: those of reading, for what is packed again.
#pragma once

#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "history/record.hpp"
#include "pool/manifest/manifest.hpp"
#include "stratum/merge/merge.hpp"
#include "stratum/strata.hpp"

namespace icecore::detail {

/// Which values are packed with their records, even if they are large.
enum class moves_values : std::uint8_t {
  none,
  unless_alone,  ///< those in whose segments other bytes are left, perhaps of keys that are forgotten; and young ones
  all,
};

/// Whether nothing but zeros is beside the value and its record in its segment. Precondition: a manifest names it, so
/// that nobody writes there.
[[nodiscard]] bool is_alone(const pool_set& pools, const format::named_value& value);

/// errc::value_too_large if a value of so many bytes cannot be packed with its record.
void require_packable(std::uint64_t value_size);

class staying_values final : public stratum::referred_values {
 public:
  /// Smaller ones are packed: a scan reads them in the order of keys.
  static constexpr std::uint64_t size_min = std::uint64_t{32} << 10;

  /// `packed`: what is packed, by the manifest `now`; may be null.
  staying_values(pool_set& pools, const manifest& now, const stratum::strata* packed, moves_values which);

  void look_at_segments();
  /// The place of the value of this young record; nothing if it is to be packed.
  [[nodiscard]] std::optional<format::value_reference> stays(link at, const record& of);

  [[nodiscard]] std::optional<std::string_view> read(const format::value_reference& value) override;
  void keep(const format::value_reference& value) override;

  /// Those to which the strata refer once the merges have taken the place of what they read.
  [[nodiscard]] std::vector<format::named_value> next() const;

 private:
  [[nodiscard]] bool moves(const format::named_value& value) const;

  pool_set* pools_;
  const manifest* now_;
  const stratum::strata* packed_;
  moves_values moves_;
  std::vector<segment> segments_;  // of the young generation that may have such a value, by their places
  mutable std::mutex mutex_;       // of what follows
  std::unordered_map<link, format::named_value> known_;  // by the value's place
  std::unordered_set<link> read_;
  std::unordered_set<link> kept_;
};

}  // namespace icecore::detail
