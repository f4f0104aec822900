// Erases keys from all versions, for who must.
//
//   store.forget({.keys = {"user/17"}, .note = "case 4711"});
//   store.forget({.prefixes = {"user/17/"}});
//   store.close();
//   icecore::compact("model.ice");   // from here on no byte of them is in the store's files
//
// The call closes the open version, removes the keys, so that the newest versions do not show them, and notes durably
// that all that was written of them before the call is to go. Versions that were closed before still show them until
// the next compaction. That one leaves nothing of them in any file of the store: no record, no older copy, nothing in
// free space. It also drops the store's kept queries, whose results may hold the keys, and the kept feeds whose filter
// or place has one of them. What is written of a key after the call stays. A tag says when it was, how many keys there
// were, and the note: do not name the keys in the note, nor in the notes and names of other tags, which stay. A query
// that runs then ends with errc::no_such_query, as does a range over its rows that reads on.
//
// Not reached: checkpoints, dumps and other copies, blocks that the file system or the device keeps of what was
// overwritten, and what another process that reads beside the writer still looks at, or a query that has not ended, or
// a range over rows: as long as there is one, the compaction says `erased` = false, and a later one erases the rest.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "icecore/options.hpp"

namespace [[gnu::visibility("default")]] icecore {

struct forget_request {
  std::vector<std::string> keys = {};
  std::vector<std::string> prefixes = {};  ///< all keys that begin with one of them; "": all keys
  std::string_view note = {};              ///< at most forget_note_size_max bytes
  bool tag = true;                         ///< false: no tag tells of it, and the note is not kept
};

inline constexpr std::size_t forget_note_size_max = 60'000;

struct forget_report {
  version up_to = 0;       ///< what was written in later versions stays
  std::uint64_t keys = 0;  ///< that the store had, in whatever version
  std::string tag;         ///< the tag that says so; empty if the request wants none
};

}  // namespace icecore
