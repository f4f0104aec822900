// A stream in which each message of the client gets one answer, then the next one is read.
//
//   class lease_keeper : public conversation {
//     void came() override { begin(false); }
//     void asked() override { decode(request_) ... post a task that calls reply(answer_) and release() ... }
//   };
//
// Reading, answering and writing follow each other. The door may end the stream at any time, and so may a limit, so
// Finish is called by whoever comes first. Threads: those of the queue, of the answer's task and of the door.
#pragma once

#include <mutex>

#include "doors/grpc/calls/serve.hpp"

namespace icecore::doors {

class conversation : public grpc_call, public open_stream {
 public:
  using grpc_call::grpc_call;

  void end(const service::failure& why) override {
    if (!hold_task()) return;
    door().work.post([this, why] {
      finish_once([&] { return ended_by(why); });
      release();
    });
  }

 protected:
  /// A message has come: decode() it, and reply() or finish_once(), now or in a task that hold_task() was asked for.
  virtual void asked() = 0;

  /// `limited`: each message has `limits.read_limit` to arrive.
  void begin(bool limited) {
    limited_ = limited;
    read(limited_);
    door().add(*this);
    // The door sets `stopping` before it ends the streams in its list, so one of the two ends this one.
    if (door().stopping.load(std::memory_order_relaxed)) end({errc::unavailable, "the server is stopping"});
  }
  void reply(const google::protobuf::MessageLite& message) {
    const std::lock_guard lock(mutex_);
    if (!finished_) write(message);
  }
  /// True if a task may use the object until it calls release().
  [[nodiscard]] bool hold_task() {
    const std::lock_guard lock(mutex_);
    if (finished_) return false;  // else the event of the status is still to come
    keep();
    return true;
  }
  template <typename Status>
  void finish_once(const Status& status) {
    {
      const std::lock_guard lock(mutex_);
      if (finished_) return;
      finished_ = true;
    }
    finish(status());
  }

 private:
  void refuse(const status_maker& status) override { finish_once(status); }
  void cancelled() override {
    finish_once([&] { return ended_by(gone()); });
  }
  void over() override { door().remove(*this); }
  void message_came(bool well) override {
    if (well) return asked();
    finish_once([&] { return is_cancelled() ? ended_by(gone()) : ended_well(); });
  }
  void was_written(bool taken) override {
    if (!taken) return finish_once([&] { return ended_by(gone()); });
    const std::lock_guard lock(mutex_);
    if (!finished_) read(limited_);
  }
  static service::failure gone() { return {errc::cancelled, "the client has ended the stream"}; }

  std::mutex mutex_;
  bool finished_ = false;  ///< nothing is begun any more
  bool limited_ = false;
};

}  // namespace icecore::doors
