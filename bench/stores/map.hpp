// The interface that the suites `ycsb` and `recovery` need: an ordered map that shows the newest value of each key.
//
// Stores with versions write a new version and read the newest one; other stores overwrite. An adaptor is one file,
// <store>_map.cpp, that implements `map` and `map_session` and adds a `store_kind` to the list in kinds.hpp.
//
// Threads: all threads share a map; a session belongs to one thread. Errors: any exception; it ends the run of this
// store, and the run reports it. Lifetime: sessions end before their map.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "store.hpp"

namespace icecore::bench {

/// The operations of one thread. Once a call has returned, all threads see its effect, and it survives a kill of the
/// process.
class map_session {
 public:
  map_session() = default;
  virtual ~map_session() = default;
  map_session(const map_session&) = delete;
  map_session& operator=(const map_session&) = delete;

  /// Precondition: the key is not there.
  virtual void insert(std::string_view key, std::string_view value) = 0;
  /// Precondition: the key is there.
  virtual void update(std::string_view key, std::string_view value) = 0;
  /// The view is valid until the next call.
  virtual std::optional<std::string_view> read(std::string_view key) = 0;
  /// Fills `out`, which is empty, with the first pairs whose keys are not before `from`, in key order: at most `count`,
  /// fewer if there are not so many.
  virtual void scan(std::string_view from, std::size_t count, pair_columns& out) = 0;
};

class map {
 public:
  map() = default;
  virtual ~map() = default;
  map(const map&) = delete;
  map& operator=(const map&) = delete;

  /// Called in the thread that will use the session; other threads may call it at the same time.
  virtual std::unique_ptr<map_session> new_session() = 0;

  /// Brings what was written into the form that the store reads best, and onto the medium. Not measured.
  virtual void settle() {}

  /// For a map opened after a kill: throws unless it really recovered. Not measured.
  virtual void check_recovered() const {}
};

}  // namespace icecore::bench
