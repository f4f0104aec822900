// How this rank reaches the store of one owner: its own store and those of its storage group in memory, others by
// messages.
//
// Reads of one key and single writes return when they are done. Calls that address many owners at once begin first and
// are collected later: `answer::take` waits.
// Threads: any number, as the cluster.
// Errors: those of the owner's store; if the owner is another rank, with its number in front.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/messages/wire.hpp"
#include "cluster/read/item_stream.hpp"
#include "icecore/cluster_feed.hpp"
#include "icecore/cluster_snapshot.hpp"
#include "icecore/store.hpp"

namespace icecore::mpi {

/// A result that may not have arrived yet.
template <typename T>
class answer {
 public:
  explicit answer(std::function<T()> take) : take_(std::move(take)) {}
  /// Waits for the result. Call it once.
  [[nodiscard]] T take() { return std::exchange(take_, nullptr)(); }

 private:
  std::function<T()> take_;
};

using found_values = std::vector<std::optional<std::string>>;

/// The value that a find returned, and what keeps its bytes valid as long as this object is held: the memory of a
/// message, or a pin on the store.
struct held_value {
  std::optional<std::string_view> bytes{};
  std::shared_ptr<const void> memory{};
  pin holds{};
};
using value_visitor = std::function<void(std::string_view)>;

/// The newest value, or the one in a closed version.
using read_at = std::optional<version>;
/// How a message says "the newest": no version is as great.
inline constexpr version newest = ~version{0};
/// How a message says that a page has no limit of this kind.
inline constexpr std::uint64_t no_limit = ~std::uint64_t{0};
/// How a message says that a write has no condition: no version is as great.
inline constexpr version unconditional = ~version{0};

/// The result of independent writes.
struct written {
  version at = 0;            ///< the open version
  std::uint64_t failed = 0;  ///< how many the owner refused
  ranks::failure first{};    ///< why the first of them was refused

  void refuse(const ranks::failure& why, std::uint64_t count = 1) noexcept {
    if (failed == 0) first = why;
    failed += count;
  }
};

/// What a feed of the cluster asks one owner for: the next changes of its keys behind a place.
struct feed_part_request {
  filter where{};
  bool unsynced = false;
  std::size_t max = 1;
  std::string token{};  ///< the owner's, of the part before; empty: at the beginning, which is
  version after = 0;    ///< behind this version,
  bool snapshot = false;
  std::optional<std::string> behind_key{};  ///< as feed_request
};
struct feed_part {
  std::vector<cluster_change> changes{};
  version told = 0;
  bool is_snapshot = false;
  std::string token{};
};

class partition {
 public:
  partition() = default;
  virtual ~partition() = default;
  partition(const partition&) = delete;
  partition& operator=(const partition&) = delete;

  [[nodiscard]] virtual std::optional<std::string> find(std::string_view key, read_at at) = 0;
  /// The newest value, without a copy where that is possible.
  [[nodiscard]] virtual held_value hold(std::string_view key) = 0;
  [[nodiscard]] virtual bool contains(std::string_view key, read_at at) = 0;
  [[nodiscard]] virtual answer<found_values> find_many(std::vector<std::string_view> keys, read_at at) = 0;
  [[nodiscard]] virtual std::vector<versioned_value> history(std::string_view key) = 0;
  /// Items in order. When it returns, the request for the first of them has been sent.
  [[nodiscard]] virtual std::unique_ptr<item_stream> scan(const scan_request& wanted) = 0;
  [[nodiscard]] virtual answer<std::uint64_t> count(version at) = 0;
  /// The matches of a filter.
  [[nodiscard]] virtual answer<std::uint64_t> count(version at, const filter& condition) = 0;
  /// A page of the owner's matches; its token is the owner's.
  [[nodiscard]] virtual cluster_page page(version at, const filter& condition, const page_limits& limits,
                                          std::string_view token) = 0;
  /// Waits for nothing to be written: there may be no changes.
  [[nodiscard]] virtual answer<feed_part> feed(const feed_part_request& wanted) = 0;
  /// The tag of this name, or all tags.
  [[nodiscard]] virtual std::vector<tag_info> tags(std::optional<std::string_view> name) = 0;

  /// Writes now; throws if the owner refuses.
  virtual version write(const write_view& one) = 0;
  /// Writes all, in their order.
  [[nodiscard]] virtual answer<written> write_many(std::span<const write_view> many) = 0;
  virtual version apply(const batch& operations) = 0;
  /// Empty if one of the batch's conditions does not hold.
  virtual std::optional<version> apply_if(const batch& operations) = 0;
  /// Runs an update function at the owner.
  virtual std::string update(std::string_view key, int number, std::string_view input) = 0;
  /// Makes the content of the owner's store durable; returns its open version.
  [[nodiscard]] virtual answer<version> sync() = 0;
  virtual void signal(int signum) = 0;
  /// The owner's store was packed: gives up what is kept of it as it was before, so that its space can be used again.
  virtual void follow() {}
  /// Releases the owner's store, which will be closed next. No other call may follow.
  virtual void detach() {}

  // ---- Relaxed consistency: in a store that is reached directly these are ordinary writes ---------------------------

  /// Writes now or later; take_refused() reports what is refused later. `open` is the version the write belongs to.
  virtual version stage(const write_view& one, version open) = 0;
  /// Sends what is staged, and returns a number for fenced().
  virtual std::uint64_t begin_fence() { return 0; }
  /// Whether the writes that were staged before the begin_fence() that returned `mark` are complete.
  [[nodiscard]] virtual bool fenced(std::uint64_t /*mark*/) { return true; }
  /// What the owner refused since the last call.
  [[nodiscard]] virtual written take_refused() { return {}; }
  /// Sends what has been staged long enough. Returns whether there was something to do.
  virtual bool background() { return false; }
  /// Returns when no request that was sent ahead is under way.
  virtual void finish_ahead() noexcept {}
};

}  // namespace icecore::mpi
