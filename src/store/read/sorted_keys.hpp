// Key order for stores whose index is in another one.
//
//   std::shared_ptr<const sorted_keys> kept;                               // with the scan, cursor or difference
//   const index::ordered_links& links = in_key_order(core, kept);
//
// The index itself, if it orders keys. Otherwise a list of all entries there are by now, sorted when it is first
// needed. A reader of a closed version misses nothing: the entries of its keys were in the index before it was closed
// (S1).
//
// Threads: reading from any; in_key_order() as the object it is called for.
// Cost: the first call on a store with the index `hash` O(n log n), with 8 bytes of memory a key; else O(1).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "index/index.hpp"
#include "store/core.hpp"
#include "store/packed/packed_link.hpp"

namespace icecore::detail {

class [[gnu::visibility("hidden")]] sorted_keys final : public index::ordered_links {
 public:
  /// Sorts the entries of the core's index, with this many threads.
  sorted_keys(const store_core& core, unsigned threads);
  /// All keys in order: with those that are packed.
  [[nodiscard]] const index::ordered_links& all() const noexcept {
    return with_packed_ ? static_cast<const index::ordered_links&>(*with_packed_) : *this;
  }
  /// These entries and packed records alone, ascending by their keys.
  sorted_keys(const store_core& core, std::vector<link> sorted);

  void seek(std::string_view key, index::block& out) const override { read_from(bound(key), out); }
  void seek_first(index::block& out) const override { read_from(0, out); }
  void seek_last(index::block& out) const override { static_cast<void>(read_before(entries_.size(), out)); }
  bool next_block(index::block& b) const override {
    read_from(b.next, b);
    return b.size != 0;
  }
  bool block_before(std::string_view key, index::block& out) const override { return read_before(bound(key), out); }
  [[nodiscard]] std::vector<link> split_points(std::size_t count) const override;

 private:
  /// The number of entries whose keys are smaller.
  [[nodiscard]] std::size_t bound(std::string_view key) const;
  void read_from(std::size_t first, index::block& out) const;
  [[nodiscard]] bool read_before(std::size_t end, index::block& out) const;

  [[nodiscard]] std::string_view key_of(link l) const {
    return is_packed(l) ? packed_->key(place_of(l)) : space_.record_at(l).key();
  }

  address_space space_;
  const stratum::strata* packed_;
  std::vector<link> entries_;
  std::optional<layered_links> with_packed_;
};

/// `kept` must be null at the first call, and lives as long as what is returned.
[[nodiscard]] const index::ordered_links& in_key_order(const store_core& core, std::shared_ptr<const sorted_keys>& kept,
                                                       unsigned threads = 1);

}  // namespace icecore::detail
