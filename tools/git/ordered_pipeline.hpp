// Computes the results of many independent tasks in several threads; one thread takes them in the order of the tasks.
//
//   const auto make_task = [&] { return [reader = open()](std::size_t i) { return reader.read(i); }; };
//   ordered_pipeline<page> pages(first, last, threads, make_task);
//   while (auto p = pages.take()) use(*p);
//
// At most `window` results wait to be taken. No task starts while the waiting results weigh more than `weight_max`
// (Result::weight(), in bytes). The take() that would return a task's result throws the task's exception.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

namespace icecore::cli {

template <typename Result>
class ordered_pipeline {
 public:
  using task = std::function<Result(std::size_t)>;

  /// Runs tasks `first` to `last` - 1. Each thread calls `make_task` once to get a task function of its own.
  ordered_pipeline(std::size_t first, std::size_t last, unsigned threads, std::function<task()> make_task)
      : next_taken_(first), next_begun_(first), last_(last), make_task_(std::move(make_task)) {
    for (unsigned i = 0; i < threads; ++i) {
      threads_.emplace_back([this] { work(); });
    }
  }

  ~ordered_pipeline() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  ordered_pipeline(const ordered_pipeline&) = delete;
  ordered_pipeline& operator=(const ordered_pipeline&) = delete;

  /// The next result; empty after the last one.
  [[nodiscard]] std::optional<Result> take() {
    std::unique_lock lock(mutex_);
    if (next_taken_ >= last_) return std::nullopt;
    changed_.wait(lock, [this] { return results_.contains(next_taken_); });
    outcome taken = std::move(results_.extract(next_taken_).mapped());
    ++next_taken_;
    if (auto* failure = std::get_if<std::exception_ptr>(&taken)) std::rethrow_exception(*failure);
    Result result = std::move(std::get<Result>(taken));
    weight_ -= result.weight();
    lock.unlock();
    changed_.notify_all();
    return result;
  }

 private:
  using outcome = std::variant<Result, std::exception_ptr>;
  static constexpr std::size_t window = 256;
  static constexpr std::uint64_t weight_max = std::uint64_t{1} << 27U;

  void work() {
    std::optional<task> mine;
    while (const auto index = begin()) {
      outcome result = run(mine, *index);
      {
        const std::lock_guard lock(mutex_);
        if (const auto* good = std::get_if<Result>(&result)) weight_ += good->weight();
        results_.emplace(*index, std::move(result));
      }
      changed_.notify_all();
    }
  }

  /// The index of the next task to run; empty if none is left.
  std::optional<std::size_t> begin() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] {
      const bool room = next_begun_ < next_taken_ + window && weight_ < weight_max;
      // The task that take() waits for must never wait for room.
      return stopped_ || next_begun_ >= last_ || room || next_begun_ == next_taken_;
    });
    if (stopped_ || next_begun_ >= last_) return std::nullopt;
    return next_begun_++;
  }

  outcome run(std::optional<task>& mine, std::size_t index) const noexcept {
    try {
      if (!mine) mine = make_task_();
      return (*mine)(index);
    } catch (...) {
      return std::current_exception();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::size_t, outcome> results_;  // computed and not taken yet
  std::size_t next_taken_;
  std::size_t next_begun_;
  std::size_t last_;
  std::uint64_t weight_ = 0;
  bool stopped_ = false;
  std::function<task()> make_task_;
  std::vector<std::thread> threads_;
};

}  // namespace icecore::cli
