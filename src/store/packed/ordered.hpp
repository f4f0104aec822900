// All keys of a store that has strata, in their order: those of the young generation's index, or of a list of it, and
// those that are packed. Each key once: by its young entry if it has one, else by its newest packed record.
//
//   const layered_links all(young_links, space, strata);
//   index::block b;
//   for (all.seek("layer1/", b); b.size > 0; all.next_block(b)) ...
//
// A block's `next` is its last link: the walk goes on behind that link's key.
//
// Threads: as `young`. Cost: seek and next_block one search in the index and in each stratum, and O(block).
#pragma once

#include "history/heads/history_base.hpp"
#include "index/index.hpp"
#include "stratum/strata.hpp"

namespace icecore::detail {

class layered_links final : public index::ordered_links {
 public:
  /// `young` orders keys; what the references lead to outlives this.
  layered_links(const index::ordered_links& young, const address_space& space, const stratum::strata& packed) noexcept
      : young_(&young), space_(space), packed_(&packed) {}

  void seek(std::string_view key, index::block& out) const override { fill(key, out); }
  void seek_first(index::block& out) const override { fill({}, out); }
  void seek_last(index::block& out) const override;
  bool next_block(index::block& b) const override;
  bool block_before(std::string_view key, index::block& out) const override;
  [[nodiscard]] std::vector<link> split_points(std::size_t count) const override;

 private:
  [[nodiscard]] std::string_view key_of(link l) const;
  /// The links from `key` on.
  void fill(std::string_view key, index::block& out) const;
  /// The same, where `packed` is at its first key that is not less than `key`.
  void merge(std::string_view key, stratum::strata_walk& packed, index::block& out) const;
  /// The last links of `young`, with the packed ones between and behind them that are before `packed`'s end.
  void fill_back(const index::block& young, stratum::strata_walk_back& packed, index::block& out) const;

  const index::ordered_links* young_;
  address_space space_;
  const stratum::strata* packed_;
};

}  // namespace icecore::detail
