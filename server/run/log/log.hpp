// The server's log: one line an event, written by a thread of its own.
//
//   log out({.format = log_format::json, .level = log_level::info, .file = "/var/log/icecore/server.log"});
//   out.write(log_level::info, "http.listening", {{"address", "127.0.0.1:7481"}});
//   out.write_limited(log_level::warning, "ucx.bad_frame", {{"peer", peer}});     // at most once a second
//   out.reopen();                                                                // after the file was rotated
//
// An event never holds keys or values of users.
//
// Threads: any may call anything. A call formats the line in its own thread, then holds a mutex while it appends it to
// the queue: it never waits for the file or terminal. The queue has a bound; where the file is slower than the events,
// lines are lost and counted, and a line "log.lines_lost" tells how many as soon as there is room. Errors: the
// constructor throws errc::io if the file cannot be opened. Nothing else throws but std::bad_alloc. A line that cannot
// be written (no space) is lost and counted. If the file cannot be opened anew, the old one goes on, and says so.
// Lifetime: the destructor writes what is queued, for at most two seconds. A process that is killed loses what is
// queued. Cost: O(length) a line; memory at most twice `queue_bytes_max`.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "run/log/event_text.hpp"
#include "run/log/log_file.hpp"

namespace icecore::server {

struct log_options {
  log_format format = log_format::json;
  log_level level = log_level::info;  ///< the least that is written
  std::filesystem::path file = {};    ///< empty: standard error
  std::string server = {};            ///< a name that each line holds; may be empty
  std::size_t queue_bytes_max = std::size_t{4} << 20;
};

class log {
 public:
  explicit log(log_options options);
  log(const log&) = delete;
  log& operator=(const log&) = delete;
  ~log();

  /// Whether events of this level are written: ask before you compute expensive fields.
  [[nodiscard]] bool wants(log_level level) const noexcept { return level >= options_.level; }

  void write(log_level level, std::string_view event, std::initializer_list<log_field> fields = {});

  /// Like write, but at most `per_second` events of this name in a second. The number of those that were not written is
  /// the member `suppressed` of the next one, or of a line of its own if there is no next one within about a second.
  void write_limited(log_level level, std::string_view event, std::initializer_list<log_field> fields = {},
                     unsigned per_second = 1);

  /// Asks the writing thread to open the file anew. O(1), for the thread that has received SIGHUP.
  void reopen();

  /// Waits until all that was queued before is written or lost. False if that took longer than `limit`.
  [[nodiscard]] bool flush(std::chrono::milliseconds limit);

  struct counts {
    std::uint64_t lines;  ///< written or queued
    std::uint64_t lost;
  };
  [[nodiscard]] counts count() const;

 private:
  /// How many events of one name this second has seen.
  struct rate {
    std::chrono::steady_clock::time_point begin;
    unsigned written = 0;
    std::uint64_t suppressed = 0;
    log_level level = log_level::info;
  };

  void append(log_level level, std::string_view event, std::span<const log_field> fields, std::uint64_t suppressed);
  void enqueue(std::string_view line);
  void run();
  void write_queued(std::unique_lock<std::mutex>& lock);
  void tell_suppressed(std::chrono::steady_clock::time_point now);
  [[nodiscard]] std::string own_line(std::string_view event, std::initializer_list<log_field> fields) const;

  const log_options options_;
  log_file file_;  ///< of the writing thread alone

  mutable std::mutex mutex_;          ///< guards what follows
  std::condition_variable work_;      ///< there is something to do for the writing thread
  std::condition_variable written_;   ///< it has done it
  std::string queue_;                 ///< whole lines
  std::uint64_t queued_lines_ = 0;    ///< of queue_
  std::uint64_t enqueued_total_ = 0;  ///< lines that ever came into the queue
  std::uint64_t finished_total_ = 0;  ///< of those, the ones that are written or lost
  std::uint64_t lost_ = 0;            ///< ever
  std::uint64_t lost_told_ = 0;       ///< of those, the ones that a line has told
  bool reopen_ = false;
  bool stop_ = false;
  std::chrono::steady_clock::time_point give_up_at_;  ///< once stop_ is set

  std::mutex rates_mutex_;  ///< guards rates_; never held together with mutex_ but in this order: rates_mutex_, mutex_
  std::map<std::string, rate, std::less<>> rates_;

  std::thread writer_;  ///< last: it sees everything above complete
};

}  // namespace icecore::server
