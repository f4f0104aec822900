// Who uses what a kept query has on media: the run that its head names, and ranges over rows.
//
//   const query_users users(store);
//   if (users.nobody_reads() && !users.is_run(head, space.read(space.head_at(head).runner))) free(...);
//
// A runner is named by a word in the query's head: process number << 32 | epoch of the store << 22 | pid, each cut to
// its bits. It counts while that process lives and the store is in that epoch, so a killed process's query can be taken
// over at once. A process of this opening has its number alone; but the word of an earlier opening may be the same as
// that of this process, so which runs this process has is known here, too.
//
// A query that was dropped may still be run or read: a compaction drops queries that hold forgotten keys, and a run
// ends when it looks at the phase the next time. Until then it writes into the query's segments. So who frees them
// holds the lock of kept queries and asks here. Why that is right: the phase is stored under that lock, and a run
// begins under it and looks at the phase first (query_catalog::begin_run()). So a run of a query that was dropped began
// before, and its word is in the head until it has done its last store there. Ranges: query_readers.hpp.
//
// Threads: any; what says so under the lock of kept queries.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <set>

#include "pool/link.hpp"
#include "store/query_readers.hpp"

namespace icecore::detail {

class opened_store;

/// The kept queries that threads of this process run.
class runs_here {
 public:
  void add(link head) {
    const std::scoped_lock mine(mutex_);
    heads_.insert(head);
  }
  void remove(link head) noexcept {
    const std::scoped_lock mine(mutex_);
    heads_.erase(head);
  }
  [[nodiscard]] bool has(link head) const noexcept {
    const std::scoped_lock mine(mutex_);
    return heads_.contains(head);
  }

 private:
  mutable std::mutex mutex_;
  std::set<link> heads_;
};

class query_users {
 public:
  explicit query_users(const opened_store& of) noexcept : store_(&of) {}

  [[nodiscard]] static std::uint64_t own_pid() noexcept;
  [[nodiscard]] std::uint64_t own_word() const noexcept;
  [[nodiscard]] bool is_of_earlier_opening(std::uint64_t word) const noexcept;
  /// The pid of the living runner that a word names; 0 if there is none. A run of this process may have ended.
  [[nodiscard]] std::uint64_t pid_of(std::optional<std::uint64_t> word) const noexcept;
  /// Whether a thread of a living process runs the query of this head, whose runner's word this is. Under the lock.
  [[nodiscard]] bool is_run(link head, std::optional<std::uint64_t> word) const noexcept;
  /// Whether no range of a living process reads rows of any query. Under the lock.
  [[nodiscard]] bool nobody_reads() const;
  /// Where this process counts its ranges. Under the lock.
  [[nodiscard]] query_readers::counter& own_ranges() const;

  static constexpr unsigned epoch_shift = 22;
  static constexpr unsigned process_shift = 32;
  static constexpr std::uint64_t pid_mask = (std::uint64_t{1} << epoch_shift) - 1;
  static constexpr std::uint64_t epoch_mask = (std::uint64_t{1} << (process_shift - epoch_shift)) - 1;

 private:
  [[nodiscard]] query_readers::alive_function living() const;

  const opened_store* store_;
};

}  // namespace icecore::detail
