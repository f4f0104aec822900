// What the suites `ycsb` and `recovery` ask of a store: an ordered map that shows the newest value of each key.
//
// Stores that keep versions write a new one and read the newest; the others overwrite. An adaptor is one file,
// <store>_map.cpp, that implements `map` and `map_session` and adds a `store_kind` to the list in kinds.hpp.
//
// Threads: a map is shared by all, a session belongs to one thread. Errors: any exception; it ends the run of this
// store and is shown. Lifetime: sessions end before their map.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "store.hpp"

namespace icecore::bench {

/// What one thread does with a map. What returned is seen by every thread, and survives a kill of the process.
class map_session {
 public:
  map_session() = default;
  virtual ~map_session() = default;
  map_session(const map_session&) = delete;
  map_session& operator=(const map_session&) = delete;

  /// Of a key that is not there.
  virtual void insert(std::string_view key, std::string_view value) = 0;
  /// Of a key that is there.
  virtual void update(std::string_view key, std::string_view value) = 0;
  /// The view is valid until the next call.
  virtual std::optional<std::string_view> read(std::string_view key) = 0;
  /// Fills `out`, which is empty, with the first pairs that are not before `from`, in key order: as many as there are,
  /// `count` at most.
  virtual void scan(std::string_view from, std::size_t count, pair_columns& out) = 0;
};

class map {
 public:
  map() = default;
  virtual ~map() = default;
  map(const map&) = delete;
  map& operator=(const map&) = delete;

  /// Called in the thread that will use the session, while others do the same.
  virtual std::unique_ptr<map_session> new_session() = 0;

  /// Of one that was opened after a kill: throws if it was no recovery. Not measured.
  virtual void check_recovered() const {}
};

}  // namespace icecore::bench
