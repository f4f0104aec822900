// Feeds of a cluster: what changes on all ranks from a version on, told to one of them.
//
//   icecore::cluster_feed f = c.feed({.after = 7, .where = dear});
//   for (;;) {
//     const icecore::cluster_feed_batch some = f.next(1000, 1s);
//     for (const icecore::cluster_change& change : some.changes) mirror(change.version, change.key, change.value);
//     keep(some.token);                                                   // in a later run: c.feed({.token = kept})
//   }
//
// As icecore::feed without a name: the changes of all ranks' keys, by version, then key, then the oldest first. A
// version is told once it is closed on all ranks, every write to it is complete and, unless `unsynced` was asked for, a
// power cut would keep it on every rank. Nothing is kept in the cluster: the consumer keeps the token, which is good on
// every rank, in later runs, and on a cluster opened for reading.
//
// Threads: one feed belongs to one thread at a time. Any rank alone may have any number of feeds. Where MPI allows one
//   thread only, a rank that waits in next() answers the others, but can close no version meanwhile.
// Lifetime: valid while the cluster is open. Batches are copies.
// Errors: errc::version_lost, version_not_closed, bad_token, saying why; invalid_argument for a request with a name or
//   a secret; rank_failed; unknown_function if `where` calls functions of the caller and keys of another node are
//   asked for.
// Cost: next() asks the ranks whose changes it has told all of for more, all others of them at once: one message there
//   and one back, and each rank what icecore::feed costs. A rank goes on where it was for the last 64 feeds; for others
//   it opens one anew. Memory: at most `max` changes of each rank, and for each as icecore::feed.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "icecore/feed.hpp"

namespace [[gnu::visibility("default")]] icecore {

namespace mpi {
class cluster_core;
class feed_merge;
}  // namespace mpi

/// As key_change, with copies.
struct cluster_change {
  std::string key;
  icecore::version version;
  std::optional<std::string> value;   ///< empty: the key was removed
  std::optional<std::string> before;  ///< what the key showed before; empty: it was not there
  bool first;                         ///< the key never had a value before
  friend bool operator==(const cluster_change&, const cluster_change&) = default;
};

/// As feed_batch.
struct cluster_feed_batch {
  std::vector<cluster_change> changes;
  /// All changes of the versions up to this one are told with this batch. 0 while the snapshot is being told.
  icecore::version told = 0;
  bool is_snapshot = false;  ///< the changes are items of the snapshot
  std::string token;         ///< the place behind this batch: opaque bytes, 54 and those of a key
};

class cluster_feed {
 public:
  cluster_feed(const mpi::cluster_core& core, const feed_request& what);
  ~cluster_feed();
  cluster_feed(cluster_feed&&) noexcept;
  cluster_feed& operator=(cluster_feed&&) noexcept;

  /// At most `max` changes that match, those that follow the ones before. If there are none, it waits for them, at most
  /// so long; the batch is then empty, and `told` and `token` tell how far the feed came.
  [[nodiscard]] cluster_feed_batch next(std::size_t max = 1000, std::chrono::microseconds timeout = {});
  /// The place behind the last batch, or where the feed began.
  [[nodiscard]] std::string token() const;

 private:
  std::unique_ptr<mpi::feed_merge> merge_;
};

}  // namespace icecore
