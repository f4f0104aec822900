// A watch, and the next_changes that waits for it.
//
// Several have something to tell it: the client (a request, the end), the database (there are changes), the clock (the
// request has waited long enough), the door (it stops). All of them call kick(); one step at a time, on a thread of the
// service, acts on it.
//
// Invariants, under `mutex_`:
//   W1 At most one step runs or waits to run (`busy_`), and it alone uses `watch_`.
//   W2 Whoever kicks while a step is busy leaves `again_`, which the step looks at before it ends. No wake-up is lost.
//   W3 Only a step, or whoever finds that none is busy, takes `asking_` to answer it: each request is answered once.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "doors/ucx/call.hpp"

namespace icecore::doors {

class open_watch : public std::enable_shared_from_this<open_watch> {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  open_watch(ucx_parts& door, std::shared_ptr<service::database> of, std::unique_ptr<service::watch> what,
             key_bounds bounds, service::gauge::share watches)
      : door_(door),
        database_(std::move(of)),
        watch_(std::move(what)),
        bounds_(std::move(bounds)),
        watches_(std::move(watches)) {}

  void is_known_as(std::uint32_t handle) noexcept { handle_ = handle; }
  /// One at a time: a second one fails.
  void ask(std::unique_ptr<call> asking, std::chrono::milliseconds wait, service::block_limits limits);
  void kick();
  /// A request that waits is answered with it, and so are all later ones.
  void end(const service::failure& why);

 private:
  void step();
  [[nodiscard]] bool round();
  void wake();

  ucx_parts& door_;
  const std::shared_ptr<service::database> database_;
  std::unique_ptr<service::watch> watch_;
  const key_bounds bounds_;
  service::gauge::share watches_;
  std::uint32_t handle_ = 0;

  std::mutex mutex_;
  bool busy_ = false;
  bool again_ = false;
  bool armed_ = false;  // the database will call wake()
  std::unique_ptr<call> asking_;
  time_point until_{};
  service::block_limits limits_{};
  std::optional<service::failure> over_;
};

}  // namespace icecore::doors
