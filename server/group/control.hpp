// The control threads of a dependent group: they execute orders on all ranks in one sequence.
//
//   control c(MPI_COMM_WORLD);
//   c.begin([](const std::string& order) { return execute(order); });
//   const std::string answer = c.everywhere("tag");
//   c.end();                                            // collective
//
// Rank 0 takes the orders of all ranks as they come, one at a time: it sends an order to every rank, executes it
// itself, waits for all ranks' results, and tells the rank that gave it. So orders that are collective calls of a
// cluster meet on all ranks. An order that fails on one rank is told as failed; what other ranks have done of it stays,
// so whoever executes orders lets collective calls agree first. Threads: everywhere() from any thread but the one that
// executes orders. One control thread a rank, which sleeps between looks (at most `pause_max` late).
//
// Every order is answered: it is in the queue or under way until it has an answer, and when the control thread ends,
// however it does, it answers all of both and lets no order in any more (finish()). A rank whose thread ends by a
// failure tells the others, as far as MPI still carries that; theirs end with it, so that they wait for it no longer.
// Errors: errc::mpi; unavailable once the group ends; limit_reached for orders of 2 GiB.
#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "service/transaction.hpp"

namespace icecore::server::group {

class control {
 public:
  using execute_function = std::function<std::string(const std::string&)>;

  /// Collective: duplicates the communicator.
  explicit control(MPI_Comm of);
  /// Ends; not collective if end() was called.
  ~control();
  control(const control&) = delete;
  control& operator=(const control&) = delete;

  void begin(execute_function how);
  /// Returns rank 0's answer.
  std::string everywhere(const std::string& order);
  /// Collective: each rank calls it; returns when no order is executed any more.
  void end();

  // Collective: before begin(), or while an order is executed.
  /// Rank 0's text.
  [[nodiscard]] std::string of_first(const std::string& mine) const;
  /// Throws on all ranks the failure of the first that has one.
  void agree(const std::optional<service::failure>& mine) const;
  [[nodiscard]] bool everywhere_is(bool mine) const;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  /// Whether this rank is the first of those on its node.
  [[nodiscard]] bool leads_node() const noexcept { return leads_node_; }

 private:
  using clock = std::chrono::steady_clock;
  // Between two looks for messages, an eighth of the time since the last one: who sleeps little is often awake, and
  // takes a core from a thread that answers clients.
  static constexpr std::chrono::microseconds pause_min{500};
  static constexpr std::chrono::microseconds pause_max{5000};
  static constexpr std::chrono::microseconds pause_in_order{100};
  using told = std::pair<std::optional<service::failure>, std::string>;  // the failure, or the answer
  struct asked {
    std::string order;
    std::optional<told> result;
  };

  void find_node();
  void work() noexcept;
  void work_as_first();
  void work_as_other();
  [[nodiscard]] told execute(const std::string& order) const;
  [[nodiscard]] told execute_on_all(const std::string& order);
  /// Takes the next order from the queue: from now on it is under way. False if there is none.
  [[nodiscard]] bool take_next();
  void answer(told result);
  /// Sleeps before the next look, at most until an order of this rank comes.
  void rest(clock::time_point last_message);
  void finish(const service::failure& why) noexcept;
  void tell_broken(const service::failure& why) const noexcept;
  /// Throws what another rank's thread has ended with.
  void require_whole() const;

  void send(int to, int what, const std::string& bytes) const;
  /// A message that is there, if there is one.
  [[nodiscard]] std::optional<std::pair<int, std::string>> receive(int from, int what) const;
  [[nodiscard]] std::string await(int from, int what) const;

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  bool leads_node_ = true;
  execute_function how_;
  std::mutex mutex_;
  std::condition_variable answered_;
  std::condition_variable asked_;
  std::deque<std::shared_ptr<asked>> queue_;
  std::shared_ptr<asked> under_way_;  // only the control thread changes it
  bool over_ = false;                 // no order is taken any more
  std::atomic<bool> ending_{false};   // end() was called here
  std::thread thread_;
};

}  // namespace icecore::server::group
