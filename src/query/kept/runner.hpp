// Runs a kept query: threads take its parts in order, walk the version's keys, and keep what matches.
//
//   query_run(q, how).go();                         // until it is finished, or stopped
//
// Each thread walks the index block by block, asks the filter about up to 64 keys at once, and writes a chunk when it
// has worked for `every`, looked at 8,192 keys or gathered `chunk_bytes_max` of rows. On media that are synced by
// pages, one more thread syncs every `every` and then shows the chunks that the sync covered, so that walking goes on
// meanwhile.
//
// Threads: one object, used by the threads that it starts.
// Errors: the first one that a thread meets stops all; what was examined before it is kept. If it is of one key, the
//   part notes key and message; with skip_failed and skip_damaged that key is passed in a chunk of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <vector>

#include "query/kept/kept_query.hpp"
#include "query/once/matching.hpp"

namespace icecore::detail {

class query_run {
 public:
  /// errc::query_busy if it runs already.
  query_run(kept_query& q, const run_options& how);
  ~query_run();
  query_run(const query_run&) = delete;
  query_run& operator=(const query_run&) = delete;

  void go();

 private:
  using clock = std::chrono::steady_clock;

  struct part_work {
    part_work(query_space& space, link head, std::uint16_t number) : log(space, head, number), part(number) {}
    part_log log;
    std::uint16_t part;
    bool complete = false;  // written by its thread before it is handed to the publisher
  };
  struct thread_work;

  void work(unsigned thread);
  [[nodiscard]] std::vector<scan_bounds> left_of(const part_work& part, std::string& after) const;
  template <class Engine>
  bool walk(const Engine& engine, part_work& part, thread_work& own);
  template <class Engine>
  bool take(matching<Engine>& found, const Engine& engine, const walked_entries& entries, part_work& part,
            thread_work& own);
  template <class Engine>
  void take_undamaged(matching<Engine>& found, const Engine& engine, const walked_entries& entries, std::size_t done,
                      part_work& part, thread_work& own);
  void ask(const rows& block, scratch& memory, part_work& part, thread_work& own);
  void ask_one_by_one(const rows& block, const std::exception_ptr& why, scratch& memory, part_work& part,
                      thread_work& own);
  void fail(std::string_view key, const std::exception_ptr& why, bool is_damage, bool skips, part_work& part,
            thread_work& own);
  void keep(const rows& block, row_mask matches, scratch& memory, part_work& part, thread_work& own);
  [[nodiscard]] bool due(thread_work& own) const;
  void write(part_work& part, thread_work& own, bool is_last);
  void finish_part(part_work& part) const;
  [[nodiscard]] bool should_stop();
  void hold_to_rate(std::uint64_t examined);
  void report(bool always);
  void publish_until_done();
  void publish_once();
  void stop() noexcept { stopped_.store(true, std::memory_order_relaxed); }  // relaxed: a hint

  kept_query* q_;
  filter where_;
  std::vector<key_range> ranges_;
  std::shared_ptr<const sorted_keys> kept_;
  const index::ordered_links* links_ = nullptr;
  run_options how_;
  pin holds_;
  const store_core* core_;  // of the pin
  // Read between blocks, whose records have displaced everything else from the nearest caches: no pointer leads there.
  const std::atomic<std::uint64_t>* state_;
  std::optional<std::uint64_t> open_word_;  // what the word of its state is while nobody asks the run to stop
  bool counts_keys_;
  bool begun_run_ = false;  // false: the query was finished before
  clock::time_point begun_;
  std::uint64_t worked_before_us_;
  std::atomic<std::size_t> next_part_{0};
  std::atomic<std::uint64_t> examined_{0};  // in this run, if a limit of keys is asked for
  std::atomic<bool> stopped_{false};
  clock::time_point reported_;

  // of media that are synced by pages
  std::mutex publishing_;
  std::condition_variable ended_;
  bool all_ended_ = false;
  std::vector<std::shared_ptr<part_work>> unpublished_;
};

}  // namespace icecore::detail
