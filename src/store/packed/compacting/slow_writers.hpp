// Slows the writers of a store that is being packed, so that they do not outrun the packing.
//
//   slow_writers slows(store.writers());
//   slows.begin(young_records, 1);              // so many operations may begin, and one for each record that is packed
//   ... slows.packed(1024); ...                 // from any thread
//   slows.begin(operations_of_a_round(512), 2); // from here on: so many, and one for each two records
//   slows.end();                                // writers go on as ever
//
// A writer's place in the queue is no time but a count: it may begin while writers have begun fewer operations than the
// packing has let them. So what is written while n records are packed is at most `at_once` + n / `records_each`, and at
// most one operation more for each writer, whatever the speed of either.
//
// Threads: packed() any; the others one. Source: RocksDB's delayed_write_rate, which is a number of bytes a second.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "store/write/writer.hpp"

namespace icecore::detail {

class slow_writers {
 public:
  explicit slow_writers(writer_set& of) noexcept : writers_(&of) {}
  ~slow_writers() { end(); }
  slow_writers(const slow_writers&) = delete;
  slow_writers& operator=(const slow_writers&) = delete;

  /// `at_once` operations may begin from here on, and one more for each `records_each` records that are packed.
  void begin(std::uint64_t at_once, std::uint64_t records_each) noexcept {
    records_each_ = records_each;
    // relaxed: packed() is called by threads that are started later
    packed_.store(0, std::memory_order_relaxed);
    from_ = writers_->operations() + at_once;
    is_on_ = true;
    writers_->slow_down(from_);
  }
  void packed(std::uint64_t records) noexcept {
    if (!is_on_) return;
    // relaxed: a count
    const std::uint64_t all = packed_.fetch_add(records, std::memory_order_relaxed) + records;
    writers_->slow_down(from_ + all / records_each_);
  }
  void end() noexcept {
    if (!is_on_) return;
    is_on_ = false;
    writers_->end_slow();
  }

 private:
  writer_set* writers_;
  bool is_on_ = false;
  std::uint64_t from_ = 0;
  std::uint64_t records_each_ = 1;
  std::atomic<std::uint64_t> packed_{0};
};

}  // namespace icecore::detail
