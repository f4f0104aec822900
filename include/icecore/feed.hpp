// Feeds: what changes from a version on, in the order of the versions, told once.
//
//   icecore::feed f = s.feed({.name = "mirror", .after = 7, .where = dear});
//   for (;;) {
//     const icecore::feed_batch some = f.next(1000, 1s);        // waits until a version is closed
//     for (const icecore::key_change& c : some.changes) mirror(c.version, c.key, c.value);
//     f.acknowledge(some.token);                                // durable; the next process goes on behind it
//   }
//
// A feed tells the changes of closed versions, ordered by version, then by key; a key that was written several times in
// one version has a change for each time, the oldest first. It tells a version when a power cut would keep it, or, if
// asked to (`unsynced`), as soon as it is closed. A feed with a name keeps its position in the store; of one without a
// name the client keeps it, as a token, so that it works on stores opened for reading too.
//
// Threads: one feed belongs to one thread at a time. Any number of feeds, in any process, may read one store.
// Lifetime: a feed holds a pin on the store. The views of a batch are valid as long as its `changes` live.
// Durability: acknowledge() returns when the position is durable; Q7 to Q10 in docs/guarantees.md.
// Errors: errc::version_lost if a power cut took a version that was told (only where `unsynced` was asked for);
//   version_not_closed; bad_token, saying why; no_such_query, query_exists for names; read_only.
// Cost: next() O(changes since + writers), whatever the number of keys, while the changes are in the last 2,048
//   segments (128 MiB) that were written since the store was opened. A feed that is further behind, or begins, reads
//   the keys once for each million of changes. Writers wait for no feed. A feed that waits is asleep.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "icecore/changes.hpp"
#include "icecore/filter.hpp"
#include "icecore/pin.hpp"

namespace [[gnu::visibility("default")]] icecore {

namespace detail {
class feed_reader;
class kept_feed;
}  // namespace detail

struct feed_request {
  /// The feed of this name goes on where it was acknowledged; if there is none, it is made. At most 65,535 bytes.
  /// Empty: nothing is kept in the store.
  std::string name{};
  /// The closed version behind which a new feed begins. Empty: the newest one, so that it tells what comes.
  std::optional<icecore::version> after{};
  filter where{};         ///< of changes: docs/filters.md
  bool snapshot = false;  ///< a new feed tells the items of version `after` first, in key order
  /// With `snapshot`: of these the ones with greater keys alone, for a consumer that has the others.
  std::optional<std::string> behind_key{};
  bool unsynced = false;  ///< tells versions as soon as they are closed: a power cut may take what was told
  std::string token{};    ///< of a feed without a name: it goes on behind this batch
  /// Not empty: the feed's tokens are signed with it (HMAC-SHA-256), and acknowledge() and `token` take no others. For
  /// tokens that go through hands that must not choose where the feed goes on. It is not kept in the store.
  std::string secret{};
};

/// What a feed told in one call of next().
struct feed_batch {
  pinned_list<key_change> changes;
  /// All changes of the versions up to this one are told with this batch. 0 while the snapshot is being told.
  icecore::version told = 0;
  /// The changes are items of the snapshot: the version of each is that of the record shown.
  bool is_snapshot = false;
  std::string token;  ///< the place behind this batch: opaque bytes, at most 128 and, in a snapshot, those of a key
};

/// What is known of a feed that the store keeps.
struct feed_info {
  std::string name;
  icecore::version after;         ///< where it began
  icecore::version acknowledged;  ///< all versions up to this one are acknowledged
  bool snapshot;                  ///< whether it began with a snapshot
  std::chrono::system_clock::time_point created;
};

class feed {
 public:
  feed(pin holds, std::unique_ptr<detail::feed_reader> reader, std::unique_ptr<detail::kept_feed> kept);
  ~feed();
  feed(feed&&) noexcept;
  feed& operator=(feed&&) noexcept;

  /// At most `max` changes that match, those that follow the ones before. If there are none, it waits for them, at most
  /// so long; the batch is then empty, and `told` and `token` tell how far the feed came.
  [[nodiscard]] feed_batch next(std::size_t max = 1000, std::chrono::microseconds timeout = {});

  /// Notes durably that the consumer has done with everything up to the end of this batch. A place before the one that
  /// is noted already changes nothing. errc::invalid_argument if the feed has no name; bad_token, saying why.
  void acknowledge(std::string_view token);

  /// Empty of a feed without a name.
  [[nodiscard]] const std::string& name() const noexcept;
  /// The place behind the last batch, or where the feed began.
  [[nodiscard]] std::string token() const;
  /// Takes a feed with a name away. Its objects, in any process, tell errc::no_such_query from then on.
  void drop();

 private:
  pin holds_;
  std::unique_ptr<detail::feed_reader> reader_;
  std::unique_ptr<detail::kept_feed> kept_;
};

}  // namespace icecore
