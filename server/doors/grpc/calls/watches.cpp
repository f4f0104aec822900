#include "doors/grpc/calls/watches.hpp"

#include <algorithm>
#include <utility>

#include "doors/grpc/messages.hpp"

namespace icecore::doors {

namespace {

constexpr std::chrono::milliseconds progress_least{100};

service::failure gone() { return {errc::cancelled, "the client has ended the watch"}; }

}  // namespace

/// What outlives the stream: the database may wake it late.
class watch_signal {
 public:
  watch_signal(door_parts& door, watch_stream& stream) : door_(door), stream_(stream) {}

  void kick();
  void wake() {
    {
      const std::lock_guard lock(mutex_);
      armed_ = false;
    }
    kick();
  }
  void progress() {
    {
      const std::lock_guard lock(mutex_);
      progress_due_ = true;
    }
    kick();
  }
  void end(const service::failure& why) {
    {
      const std::lock_guard lock(mutex_);
      if (!why_) why_ = why;
    }
    kick();
  }
  void written() {
    {
      const std::lock_guard lock(mutex_);
      writing_ = false;
    }
    kick();
  }

  // What a step does under the lock:
  /// Begins a round: what was asked for until now is taken.
  std::optional<service::failure> begin_round(bool& progress_due) {
    const std::lock_guard lock(mutex_);
    again_ = false;
    progress_due = std::exchange(progress_due_, false);
    if (why_) over_ = true;
    return why_;
  }
  void is_over() {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  void is_writing() {
    const std::lock_guard lock(mutex_);
    writing_ = true;
    busy_ = false;
  }
  [[nodiscard]] bool is_armed() {
    const std::lock_guard lock(mutex_);
    return std::exchange(armed_, true);
  }
  /// True if the step has to go round again; else it must end at once.
  [[nodiscard]] bool ends_step() {
    const std::lock_guard lock(mutex_);
    if (again_) return false;
    busy_ = false;
    return true;
  }

 private:
  door_parts& door_;
  watch_stream& stream_;
  std::mutex mutex_;
  bool busy_ = false;
  bool writing_ = false;
  bool again_ = false;
  bool over_ = false;
  bool armed_ = false;  ///< the database will call wake()
  bool progress_due_ = false;
  std::optional<service::failure> why_;
};

void watch_signal::kick() {
  {
    const std::lock_guard lock(mutex_);
    if (over_) return;
    again_ = true;
    if (busy_ || writing_) return;
    busy_ = true;
  }
  door_.work.post([&stream = stream_] { stream.step(); });
}

void watch_stream::begin(const v1::WatchRequest& request) {
  signal_ = std::make_shared<watch_signal>(door(), *this);
  try {
    hold(request.ByteSizeLong());
    request_ = &request;
    watches_ = door().all.watches().take(1);
  } catch (...) {
    signal_->is_over();
    return finish(ended_by(service::failure_of(std::current_exception())));
  }
  // The door sets `stopping` before it ends the streams in its list, so one of the two ends this one.
  door().add(*this);
  if (door().stopping.load(std::memory_order_relaxed)) signal_->end({errc::unavailable, "the server is stopping"});
  signal_->kick();
}

void watch_stream::was_written(bool taken) {
  if (!taken) signal_->end(gone());
  signal_->written();
}

void watch_stream::cancelled() {
  if (signal_) signal_->end(gone());  // else it has not begun
}

void watch_stream::over() { door().remove(*this); }

void watch_stream::end(const service::failure& why) { signal_->end(why); }

// On a thread of the door, one at a time (W1).
void watch_stream::step() {
  // Keeps the signal when Finish lets gRPC delete this.
  const std::shared_ptr<watch_signal> signal = signal_;
  for (;;) {
    bool progress_due = false;
    if (const auto why = signal->begin_round(progress_due)) return end_by(*why);
    try {
      if (!watch_) {
        open();
        return send({.changes = {}, .told = *request_after_});
      }
      renew_user();
      require(database_->settings(), bounds_, service::right::read);  // rights may have been withdrawn
      service::watched some = watch_->next(service::block_limits{});
      if (!some.changes.empty() || progress_due) return send(std::move(some));
      if (!signal->is_armed()) watch_->arm([signal] { signal->wake(); });
    } catch (...) {
      signal->is_over();
      return end_by(service::failure_of(std::current_exception()));
    }
    if (signal->ends_step()) return;
  }
}

void watch_stream::open() {
  bounds_ = bounds_of(request_->bounds());
  database_ = find(request_->database());
  require(database_->settings(), bounds_, service::right::read);
  // A watch from now on begins at a version that holds everything acknowledged before.
  request_after_ = request_->has_after() ? version{request_->after()} : database_->resolve(service::newest{});
  watch_ = database_->watch_changes({.after = request_after_, .bounds = bounds_, .before = request_->before()});
  if (request_->progress_ms() != 0) {
    const auto interval = std::max(progress_least, std::chrono::milliseconds(request_->progress_ms()));
    progress_ = door().work.every(interval, [signal = signal_] { signal->progress(); });
  }
}

void watch_stream::send(service::watched some) {
  exchange(message_, some.changes);
  message_.set_told(some.told);
  signal_->is_writing();
  write(message_);
}

// The last thing a step does: gRPC may delete this before Finish returns.
void watch_stream::end_by(const service::failure& why) {
  progress_ = {};
  watch_.reset();
  database_.reset();
  watches_ = {};
  finish(ended_by(why));
}

}  // namespace icecore::doors
