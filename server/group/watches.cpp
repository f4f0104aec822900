#include "group/watches.hpp"

#include <algorithm>
#include <utility>

namespace icecore::server::group {

void watchers::wake(icecore::version closed, const std::optional<service::failure>& why) {
  std::map<std::uint64_t, std::function<void()>> waked;
  {
    const std::lock_guard lock(mutex_);
    told_ = std::max(told_, closed);
    if (why && !over_) over_ = why;
    waked.swap(armed_);
  }
  for (const auto& [number, call] : waked) call();
}

// Reads the changes since what it told as a stream, whenever a version was closed.
class cluster_watch final : public service::watch {
 public:
  cluster_watch(service::database& of, std::shared_ptr<watchers> all, const service::watch_request& what,
                icecore::version after)
      : of_(&of), shared_(std::move(all)), what_(what), told_(after) {
    shared_->count_.fetch_add(1, std::memory_order_relaxed);
    const std::lock_guard lock(shared_->mutex_);
    number_ = ++shared_->next_;
  }
  ~cluster_watch() override {
    shared_->count_.fetch_sub(1, std::memory_order_relaxed);
    const std::lock_guard lock(shared_->mutex_);
    shared_->armed_.erase(number_);
  }

  service::watched next(const service::block_limits& limits) override {
    service::watched answer;
    answer.told = told_;
    for (;;) {
      icecore::version newest = 0;
      {
        const std::lock_guard lock(shared_->mutex_);
        if (shared_->over_) service::raise(*shared_->over_);
        newest = shared_->told_;
      }
      if (stream_ == nullptr) {
        if (newest <= told_) return answer;
        stream_ = of_->changes({.after = told_, .up_to = newest, .bounds = what_.bounds, .before = what_.before});
      }
      if (stream_->next(answer.changes, limits)) return answer;
      told_ = stream_->version();
      answer.told = told_;
      stream_.reset();
    }
  }

  void arm(std::function<void()> wake) override {
    {
      const std::lock_guard lock(shared_->mutex_);
      if (!shared_->over_ && stream_ == nullptr && shared_->told_ <= told_) {
        shared_->armed_.insert_or_assign(number_, std::move(wake));
        return;
      }
    }
    wake();
  }

 private:
  service::database* of_;  // open while `over` is empty
  std::shared_ptr<watchers> shared_;
  service::watch_request what_;
  std::uint64_t number_ = 0;
  icecore::version told_;
  std::unique_ptr<service::row_stream> stream_;
};

std::unique_ptr<service::watch> watch_of(service::database& of, std::shared_ptr<watchers> all,
                                         const service::watch_request& what, icecore::version after) {
  return std::make_unique<cluster_watch>(of, std::move(all), what, after);
}

}  // namespace icecore::server::group
