// Rows that a client reads block by block.
//
// A client may ask for several blocks at a time, in their order. A task on the service's threads serves them one after
// the other; while it runs, further requests only join the queue.
//
// Invariants, under `mutex_`:
//   R1 At most one task serves (`serving_`), and it alone uses `stream_`.
//   R2 Whoever adds to the queue while nobody serves begins a task; the task ends only with an empty queue. So every
//      request is answered.
//   R3 After `over_` is set the queue stays empty.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "doors/ucx/call.hpp"

namespace icecore::doors {

class open_rows : public std::enable_shared_from_this<open_rows> {
 public:
  open_rows(std::unique_ptr<service::row_stream> stream, std::uint32_t block_bytes, service::gauge::share scans)
      : stream_(std::move(stream)), limits_(limits_of(block_bytes)), scans_(std::move(scans)) {}

  /// Sets the handle, which is known only when the rows are in the session's table.
  void is_known_as(std::uint32_t handle) noexcept { handle_ = handle; }
  /// The next block, in this thread's room for blocks until the thread's next one. Only by whoever serves, or before
  /// anybody else knows the rows.
  [[nodiscard]] wire::rows_answer& next_block();
  void ask(std::unique_ptr<call> asking, std::uint64_t block, service::executor& threads);
  /// Requests that wait are answered with it; the stream is let go.
  void end(const service::failure& why);

 private:
  struct waiting {
    std::unique_ptr<call> asking;
    std::uint64_t block;
  };
  [[nodiscard]] static service::block_limits limits_of(std::uint32_t block_bytes) noexcept;
  void serve();
  void answer(call& asking, std::uint64_t block);

  std::unique_ptr<service::row_stream> stream_;  // null: at its end
  service::block_limits limits_;
  service::gauge::share scans_;
  std::uint32_t handle_ = 0;
  std::uint64_t next_ = 0;
  std::size_t values_room_ = 0;  // bytes that the last block's values have taken, and an eighth

  std::mutex mutex_;
  bool serving_ = false;
  std::deque<waiting> queue_;
  std::optional<service::failure> over_;
};

}  // namespace icecore::doors
