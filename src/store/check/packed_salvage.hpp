// What is intact of the strata of a damaged store, key by key, and of which keys and versions records may be lost.
//
//   packed_salvage packed(pools, manifest);
//   packed.for_each_key([&](std::string_view key, const packed_salvage::history& events) {
//     for (const auto& e : events) e.record == null_link ? not_known_from(e.stamped) : use(packed.record(e.record));
//   });
//   for (const finding& f : packed.findings()) ...   // by range of keys
//
// A block is intact if its own checksum holds. Of an extent whose header or fence is damaged the blocks are looked for,
// unless it is compressed: then all of it is lost. What is lost between two intact blocks has keys between theirs. Its
// versions are those of the extent or, if the header does not show them, lie between those of other strata (T1).
//
// Threads: one. Lifetime: the pools; views lead into them, or into inflated memory until let_go().
// Cost: the constructor reads all that is packed, for_each_key() reads it again. Memory: O(blocks), and a bounded cache
// of what is inflated.
// Invariants:
//   D2. If a record of a key may be lost, an event without a record stands in its place: no older one is shown for it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pool/manifest/manifest.hpp"
#include "store/check/salvage.hpp"
#include "store/packed/packed_link.hpp"
#include "stratum/block/values_elsewhere.hpp"
#include "stratum/frames/frame_cache.hpp"

namespace icecore::detail {

class packed_salvage {
 public:
  packed_salvage(const pool_set& pools, const manifest& of);

  struct event {
    version stamped;
    link record;  ///< null_link: from this version on it is not known what the key held, until that of the next event
  };
  using history = std::vector<event>;  ///< the oldest first

  /// In the order of their places. Those that lost something name the keys and versions.
  [[nodiscard]] const std::vector<finding>& findings() const noexcept { return findings_; }
  /// Calls `visit` for each key of which a record is intact, in the order of keys.
  void for_each_key(const std::function<void(std::string_view key, const history& events)>& visit);
  /// Of a key of which for_each_key() knows nothing.
  [[nodiscard]] history lost_of(std::string_view key) const { return events_of(key, {}); }

  [[nodiscard]] stratum::packed_record record(link packed) const;
  /// Of a record that is no removal. errc::damaged, errc::missing_file: it lies elsewhere, and is lost.
  [[nodiscard]] std::string_view value(link packed) const {
    const stratum::packed_record r = record(packed);
    return r.is_elsewhere() ? values_.at(r.reference()) : r.value;
  }
  [[nodiscard]] std::string_view key(link packed) const;
  /// No view of before is used any more: what was inflated for it may be given back.
  void let_go() noexcept { looker_.ended = looker_.number; }

 private:
  /// The one who looks at what is inflated.
  struct looker final : stratum::viewers {
    std::optional<std::uint64_t> renew() override { return ++number; }
    bool none_before(std::uint64_t of) override { return of <= ended; }
    [[nodiscard]] bool any() const override { return true; }
    std::uint64_t number = 0;
    std::uint64_t ended = 0;  // views that were taken before this number was given out
  };
  struct extent_left {
    std::unique_ptr<const stratum::extent> opened;  // null: header or fence is damaged
    const std::byte* begin = nullptr;
    std::vector<std::uint32_t> blocks;  // the intact ones: their numbers or, if not opened, places in units of 64 bytes
    version least = version_max;        // what is known of its versions
    version greatest = 0;
    bool knows_versions = false;      // these are all
    std::optional<std::string> last;  // key, if the last block is intact
  };
  /// Records that are lost between two intact blocks.
  struct lost_records {
    std::uint32_t extent;
    std::uint32_t before;             // number of the intact block behind them, among those of the extent
    std::optional<std::string> from;  // all lost keys are behind it; empty: not known
    bool from_included = true;
    std::optional<std::string> to;  // all lost keys are before it
    bool to_included = true;
    version least = 0;
    version greatest = 0;
    link place = null_link;
    std::string why;
    std::uint64_t keys = 0;  // how many, if the fence tells
  };
  struct known_record {
    std::uint32_t stratum;
    std::uint32_t extent;
    std::uint32_t block;
    event what;
  };
  struct cursor;

  void open(const format::named_extent& named);
  void read_blocks(extent_left& left, const format::named_extent& named);
  void look_for_blocks(extent_left& left, const format::named_extent& named, std::string why);
  void complete(std::uint32_t stratum, version greatest_of_all);
  void complete_keys(lost_records& lost, const stratum::strata::range& in) const;
  void name(const lost_records& lost);
  [[nodiscard]] stratum::block block_of(std::uint32_t extent, std::uint32_t intact) const;
  [[nodiscard]] std::string first_key(std::uint32_t extent) const;
  [[nodiscard]] history events_of(std::string_view key, std::span<const known_record> known) const;

  const pool_set* pools_;
  const manifest* of_;
  mutable looker looker_;
  stratum::values_elsewhere values_;
  std::shared_ptr<stratum::frame_cache> frames_;
  std::vector<extent_left> extents_;
  std::vector<stratum::strata::range> strata_;
  std::vector<std::vector<lost_records>> lost_;  // by stratum, in the order of keys
  std::vector<finding> findings_;
};

}  // namespace icecore::detail
