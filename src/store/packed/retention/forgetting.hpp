// Keys that are to be erased from all versions, as the store's file keeps them until a compaction has done so.
//
//   write_forget_request(pools, up_to, {{"user/17", false}});    // durable when it returns
//   const forgotten_keys gone(pools);
//   gone.up_to("user/17");                                       // what was written up to this version goes
//   forgetting rest(gone);                                       // once a compaction has dropped that
//   if (!rest.finish(store).empty()) ...                         // now nothing of it is left in any file
//
// Each request is in a segment of its own, "IFGT", which no manifest or era concerns: it counts until it is given back.
// A crash before it is durable leaves one that fails its checksum and does not say that it was made: the call has not
// returned. One that says so and fails is damaged.
//
// Threads: forgotten_keys is immutable; a `forgetting` is of one thread at a time. In an open store requests are
// written, looked for and given back under the lock of the queries (query_space::hold()): who looks must not take one
// that is half made for what a crash left.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pool/pool_set.hpp"
#include "pool/query/query_space.hpp"
#include "stratum/strata.hpp"

namespace icecore::detail {

class opened_store;

struct key_to_forget {
  std::string bytes;
  bool is_prefix;
};

segment write_forget_request(pool_set& pools, version up_to, std::span<const key_to_forget> what);

class forgotten_keys {
 public:
  explicit forgotten_keys(const pool_set& pools);

  [[nodiscard]] bool empty() const noexcept { return keys_.empty() && prefixes_.empty(); }
  /// What was written of the key up to this version goes; 0: nothing.
  [[nodiscard]] version up_to(std::string_view key) const;
  /// Whether a stratum has one of the keys.
  [[nodiscard]] bool are_in(const stratum::strata& all, const stratum::strata::range& one) const;
  /// Whether these bytes hold one of the keys or prefixes. An empty one holds no bytes.
  [[nodiscard]] bool are_in(std::string_view bytes) const;
  /// Those that hold requests, also such that a crash cut off.
  [[nodiscard]] const std::vector<segment>& segments() const noexcept { return segments_; }
  /// Those that were made and cannot be read any more: nobody knows their keys.
  [[nodiscard]] const std::vector<damage>& damages() const noexcept { return damages_; }
  /// errc::damaged if there are such.
  void require_intact(const pool_set& pools) const;

 private:
  void read(const pool_set& pools, const segment& s);

  std::map<std::string, version, std::less<>> keys_;
  std::map<std::string, version, std::less<>> prefixes_;
  std::vector<segment> segments_;
  std::vector<damage> damages_;
};

/// What is left to do behind a compaction that has dropped the keys, when the space of what it replaced is given back.
///
/// The first call of finish() drops all kept queries, and the feeds that hold one of the keys. Holds stay: they name a
/// version, and none of its keys. Queries that are made later stay, too: whoever makes them reads an engine that has
/// none of the keys, since nobody looks at the engines before any more.
///
/// What was dropped may still be run or read (query_users.hpp): then its space stays as it is, and a later call goes
/// on. Until one is done, any of this space may be freed and used again, by whichever process; so it is cleared before
/// (query_lock). A crash before the requests are given back leaves all of it to the next compaction.
class forgetting {
 public:
  explicit forgetting(forgotten_keys what) : keys_(std::move(what)) {}

  /// What the keys have left elsewhere goes, and then the requests. Returns what is free space now; nothing if a reader
  /// beside this process may still look at it, or somebody runs a query that was dropped, or reads rows.
  [[nodiscard]] std::vector<segment> finish(opened_store& in);

 private:
  void drop_queries(query_space& space);
  [[nodiscard]] bool clear_queries(query_space& space, const opened_store& in);

  forgotten_keys keys_;
  bool has_dropped_ = false;
};

}  // namespace icecore::detail
