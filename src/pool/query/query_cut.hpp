// Kept queries in a checkpoint: which segments are copied, and the lists that lead to them in the copy.
//
//   query_cut cut(space, lock_it);              // before the cut of the records
//   ...copy the bytes of cut.segments() to the same places, while queries run, start and are dropped...
//   for (const auto& p : cut.lists(space)) write(p.bytes, p.at);
//
// Why that is right. What a part's line led to at the cut never changes while the query is not dropped. What a runner
// writes behind it meanwhile may be copied in part: a chunk counts only if it is whole and all before it count, and it
// holds the rows that any run gives. A query that was dropped meanwhile may have lost its space to another one: lists()
// leaves it out, and its segments are free in the copy. A query that was started later is not in it.
// The copy's queries are run by nobody.
//
// Threads: one.
#pragma once

#include <vector>

#include "pool/query/query_space.hpp"

namespace icecore {

class query_cut {
 public:
  query_cut() = default;
  /// `lock`: whether others may change the lists; not so in a store that is open for reading. Damaged lists are taken
  /// as far as they can be followed.
  query_cut(query_space& space, bool lock);

  [[nodiscard]] const std::vector<segment>& segments() const noexcept { return segments_; }

  struct piece {
    link at;
    std::vector<std::byte> bytes;
  };
  /// Call it when all segments are copied: what has to be written behind them.
  [[nodiscard]] std::vector<piece> lists(query_space& space, bool lock) const;

 private:
  struct noted_segment {
    segment in;
    std::vector<std::byte> header;
  };
  struct noted {
    link head;
    std::vector<std::byte> bytes;  ///< of the head, the lines of its parts, and the definition; nobody runs it
    std::vector<noted_segment> segments;
  };
  [[nodiscard]] static bool is_there(const query_space& space, const std::vector<link>& heads, const noted& query);

  std::vector<noted> queries_;  // newest first
  std::vector<segment> segments_;
  std::uint64_t broken_ = 0;  // the word behind the oldest one, if it is damaged: the copy tells of it too
};

}  // namespace icecore
