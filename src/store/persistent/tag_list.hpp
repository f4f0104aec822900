// The tags of a store with the persistent index, in the order they were made: links to their records, in blocks that
// lie where the index's nodes do. So opening need not search for them.
//
// Threads: one at a time (the caller's lock). Cost: append() O(1), for_each() O(tags).
#pragma once

#include <functional>

#include "index/persistent/nodes/node_space.hpp"

namespace icecore::detail {

class tag_list final : private index::node_finder {
 public:
  explicit tag_list(index::node_space& space) noexcept : space_(space) {}

  /// Makes sure that the next append() needs no memory. errc::no_space.
  void reserve();
  /// Durable after the next fence, or sync. The flush of the tag's record has begun; if the link reaches the media
  /// first, a crash leaves a link that leads to no tag: see recover().
  void append(link tag);
  /// The same, unless the tag is among the newest already: then makes its link durable, in case the process that made
  /// the tag was killed before that.
  void list(link tag);
  /// Call after a crash, when everything there is listed. If the crash cut off a tag's link, or a tag that is linked,
  /// marks the link's place as unused. Looks only at what may have been under way. Durable after the next fence, or
  /// sync, as is the link to the newest block, which a killed process may have left in the caches.
  void recover(const std::function<bool(link)>& was_cut_off);
  /// Leaves evidence of all links (index/persistent/evidence.cpp), durable after the next fence, or sync. Call while
  /// nothing else runs.
  void leave_evidence() const;
  /// Call before anything is appended in this epoch. errc::damaged if the links are not those of which closing left
  /// evidence.
  void require_as_closed() const;
  /// Visits the tags from the newest to the oldest, until `visit` returns false. errc::damaged if a link is missing.
  void for_each(const std::function<bool(link)>& visit) const;

 private:
  [[nodiscard]] format::tag_block& at(link block) const noexcept {
    return *reinterpret_cast<format::tag_block*>(space_.bytes(block));
  }
  [[nodiscard]] link newest() const;
  [[nodiscard]] std::uint64_t digest() const;
  [[nodiscard]] link bounded(link block, link linked_from) const;
  [[nodiscard]] std::size_t first_free(link block) const noexcept;
  [[nodiscard]] link older(link block) const;
  [[nodiscard]] static link place_of(link block, std::size_t i) noexcept;
  [[nodiscard]] bool is_linked(link block) const override;

  /// The first link of each line of a block leads to the block itself: so lines that turned into zeros are detected.
  [[nodiscard]] static constexpr bool is_mark(std::size_t i) noexcept {
    constexpr std::size_t of_a_line = format::cache_line_size / sizeof(std::uint64_t);
    return i == 0 || (i + 1) % of_a_line == 0;  // the block's own link to an older one comes before them
  }
  /// Each writer makes one tag at a time, so no more links than these were under way at a crash.
  static constexpr unsigned under_way_max = 4 * format::writers_max;

  index::node_space& space_;
};

}  // namespace icecore::detail
