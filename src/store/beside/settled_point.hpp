// What readers beside the writer may show: the writer's part. A version is settled if it is closed and no write that
// could still be stamped with it is under way. The writer publishes the newest one in the live page, with the end of
// what each file uses; readers in other processes read both and need nothing else of it (settled_records.hpp).
//
//   settled_point point(pools, clock, writers, synced, newest_closed);   // when opening is complete
//   point.publish(v);                                                    // all up to v is known to be settled
//   point.look();                                                        // finds out what is settled by now
//
// A task of the process's ticker looks all the while, so a program that closes versions without a name, and without
// syncs, publishes them too.
//
// Threads: all functions from any thread. No function waits for a writer.
// Cost: look() one load if no version was closed, else a load for each writer.
// Invariants:
//   B1. `settled` never falls while an epoch lasts, and everything of a settled version was written before it was
//       published: who reads it, with acquire, sees the records, their stamps, and the headers of their segments.
//   B2. `settled_end` is published before `settled`: each segment with records of a settled version ends before it.
//   B3. While the words are those of an earlier session, `settled_epoch` is not the root's epoch: each opening for
//       writing makes the root's epoch greater before it changes anything, and sets settled_epoch last.
//   B4. A root that leads to another manifest is stored before any version that is written behind it is published. So a
//       reader that reads the version first has a manifest, or a newer one, in whose era or strata all of it lies. The
//       newest version that a compaction packs is published before the root leads to what it made: the ones before may
//       have expired there. Of a deferred store that cannot be, since the version is not durable before the root is: so
//       readers look whether what the root leads to has later versions, and if so, wait until these are published.
//   B5. Before a root leads to another manifest, the ends of the segments that count with it, those of tags, are
//       published, whether a new version is published or not. So a reader that reads the root first has their ends.
// What a crash leaves: the words are trusted in the boot that wrote them alone. If only the process died, everything
//   that is settled is in the file, and recovery keeps it: all of it is stamped.
#pragma once

#include <mutex>
#include <optional>

#include "base/background/ticker.hpp"
#include "history/durable_point.hpp"
#include "store/feed/settling.hpp"

namespace icecore::detail {

/// What a writer publishes that does not want readers beside it: so they need not wait for it. When opening is
/// complete.
void withhold_settled(const pool_set& in) noexcept;

class settled_point {
 public:
  /// All versions up to `settled` are. `synced`: of a deferred store, whose readers show what a sync has covered; else
  /// null.
  settled_point(pool_set& in, const version_clock& clock, writer_set& writers, const durable_point* synced,
                version settled);

  void publish(version settled) noexcept;
  /// What each file uses by now: before a root leads to another manifest (B5). Nobody writes meanwhile.
  void publish_ends() noexcept;
  /// Not if another thread looks.
  void look() noexcept;
  /// Behind closing a version: publishes it, unless a write is still under way.
  void look_at_once() noexcept;
  /// From now on the process's ticker looks.
  void look_in_background() {
    looks_.emplace([this] {
      look();
      recover_dead();
    });
  }

 private:
  void publish_locked(version settled) noexcept;
  void look_locked() noexcept;
  void store_ends() noexcept;
  void recover_dead() noexcept;

  pool_set* pool_;
  const version_clock* clock_;
  writer_set* writers_;
  const durable_point* synced_;
  std::mutex mutex_;
  version published_ = 0;
  std::optional<settling> under_way_;
  std::optional<ticking_task> looks_;  // last: it uses the others
};

}  // namespace icecore::detail
