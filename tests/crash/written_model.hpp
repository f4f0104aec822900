// What a store must hold of the writes of a story, whatever of them is packed, and whatever has expired.
//
//   story_writes all;                                     // by operation, with the versions that the calls returned
//   std::string wrong = judge_writes(s, all, {0b1011});   // operations 0, 1 and 3 have happened, and no other
//
// Sums of contents do not do: a compaction keeps of several writes of a key in one version the last, and drops what
// only expired versions show. So a content is reduced to what the versions show that can be read, and to the present,
// and that must be what the writes come to. Which write of one version is a key's last is known as far as one had
// returned before the other was called.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "content.hpp"

namespace icecore::crash {

struct story_write {
  std::string key;
  version at = 0;
  std::optional<std::string> value;  ///< empty: removed
};

struct story_writes {
  struct operation {
    std::vector<story_write> writes{};
    std::uint64_t tags = 0;      ///< sum of those that it made
    unsigned writer = 0;         ///< calls its operations one by one
    std::uint64_t called = 0;    ///< a count of calls and returns
    std::uint64_t returned = 0;  ///< 0: not yet
  };
  std::vector<story_write> before{};  ///< the histories with which the story begins, the oldest first
  std::uint64_t tags_before = 0;
  std::vector<operation> operations{};

  /// With the histories and tags of this store.
  [[nodiscard]] static story_writes behind(const store& s);
};

/// The records of a key in one version. Which of them is the last may be unknown.
struct written_group {
  version at = 0;
  std::vector<const story_write*> last;
  std::vector<const story_write*> all;
};
using written_groups = std::map<std::string, std::vector<written_group>, std::less<>>;

/// Of the operations that have happened (bits), by key, the oldest version first.
[[nodiscard]] written_groups groups_of(const story_writes& of, std::uint64_t happened);

/// What is wrong with the store, if one of these sets of operations (bits) is all that has happened; empty: nothing.
[[nodiscard]] std::string judge_writes(const store& s, const story_writes& of, const std::vector<std::uint64_t>& any);

}  // namespace icecore::crash
