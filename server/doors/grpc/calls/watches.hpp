// A watch as a stream. Several threads have something to tell it: the database (there are changes), gRPC (the message
// is written; the client has cancelled), the timer (progress is due), the door (it stops). All of them call kick(); one
// step at a time acts on it.
//
// Invariants, under `mutex_` of the part that the stream and the database's wake-up share:
//   W1 At most one step runs or waits to run (`busy_`), and none while gRPC has the message (`writing_`).
//   W2 Whoever kicks while W1 forbids a step leaves `again_`; the step, or the end of the write, looks at it. So no
//      wake-up is lost.
//   W3 Only a step calls Finish, and sets `over_` before it: later kicks do nothing, and nobody uses the stream.
// Threads: steps run on threads of the door, the rest on any. Lifetime: the door's parts outlive it.
#pragma once

#include <memory>
#include <optional>

#include "doors/grpc/calls/streams.hpp"

namespace icecore::doors {

class watch_signal;

class watch_stream : public grpc_call, public open_stream {
 public:
  using grpc_call::grpc_call;
  /// The request must live as long as the stream.
  void begin(const v1::WatchRequest& request);
  void step();
  void end(const service::failure& why) override;

 protected:
  void was_written(bool taken) override;
  void cancelled() override;
  void over() override;

 private:
  void open();
  void send(service::watched some);
  void end_by(const service::failure& why);

  std::shared_ptr<watch_signal> signal_;
  const v1::WatchRequest* request_ = nullptr;
  std::optional<version> request_after_;
  key_bounds bounds_;
  std::shared_ptr<service::database> database_;
  std::unique_ptr<service::watch> watch_;
  service::executor::repetition progress_;
  service::gauge::share watches_;
  v1::Rows message_;
};

}  // namespace icecore::doors
