// Stores whose records are placed anew: those of several servers into one, or those of one into the part that a server
// of a group owns.
//
//   const placed done = place_records({.parts = {"a/store.ice", "b/store.ice"}, .each_counts = true, .to = "all.ice"});
//
// Every record of every key comes along, with its version (see numbering.hpp for several servers that count by
// themselves), every tag with its name, note and time, and which versions a power cut took. Records are written in the
// order of their versions, through the calls that any writer uses; so the new store is closed version by version, as
// the old ones were. What is kept beside records (kept queries, feeds) is left out.
// Hidden keys (hidden_keys.hpp): the new store is compacted as far as the old ones; leases stay if that is asked for.
// Durability: the new store is closed and durable when the call returns; a crash before leaves a file that is no
//   closed store of that name in a folder that nobody reads (files.hpp).
// Threads: one. Errors: those of reading and writing stores; damaged. Cost: O(records log parts), 24 bytes of memory a
//   record.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "icecore/options.hpp"

namespace icecore::service {

struct placing {
  std::vector<std::filesystem::path> parts;  ///< closed stores; all records of a key are in one of them
  bool each_counts = false;                  ///< versions of one part mean nothing to the others: independent servers
  /// Whether the new store is to have this key; empty: all.
  std::function<bool(std::string_view key)> owns{};
  bool leases = true;
  std::filesystem::path to;
  icecore::index_kind index = icecore::index_kind::persistent;
  icecore::progress_function on_progress{};
};

struct placed {
  std::uint64_t records = 0;
  std::vector<std::string> tags_left_out{};
  bool renumbered = false;       ///< versions have other numbers than before
  bool leases_left_out = false;  ///< there were some
};

[[nodiscard]] placed place_records(const placing& what);

}  // namespace icecore::service
