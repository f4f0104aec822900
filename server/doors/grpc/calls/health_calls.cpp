// Health: gRPC's protocol for probes. It needs no user. gRPC's own service for it would bring threads that compete with
// those of the completion queues (docs/design/0024-completion-queues.md).
#include <grpc/health/v1/health.pb.h>

#include <mutex>

#include "doors/grpc/calls/services.hpp"

namespace icecore::doors {

namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

/// The services of icecore.v1 are served all, or none: while the server stops.
HealthCheckResponse::ServingStatus status_of(const door_parts& door, const std::string& service) {
  constexpr std::string_view ours = "icecore.v1.";
  if (!service.empty() && !service.starts_with(ours)) return HealthCheckResponse::SERVICE_UNKNOWN;
  return door.stopping.load(std::memory_order_relaxed) ? HealthCheckResponse::NOT_SERVING
                                                       : HealthCheckResponse::SERVING;
}

/// One watch of the status: it is told now, and again when the server stops. One message at a time is with gRPC.
class health_watch : public grpc_call, public open_stream {
 public:
  using grpc_call::grpc_call;

  void begin(const std::string& service) {
    service_ = service;
    watches_ = door().all.health_watches().take(1);
    door().add(*this);
    const std::lock_guard lock(mutex_);
    if (!writing_) tell();  // else end() came between
  }
  void end(const service::failure&) override {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    if (!writing_) tell();
  }

 protected:
  [[nodiscard]] bool needs_user() const override { return false; }
  void refuse(const status_maker& status) override {
    const std::lock_guard lock(mutex_);
    end_with(status());
  }
  void cancelled() override {
    const std::lock_guard lock(mutex_);
    if (!writing_) end_with(ended_by({errc::cancelled, "the client has ended the watch"}));
  }
  void over() override { door().remove(*this); }

  void was_written(bool taken) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (!taken || is_cancelled()) {
      end_with(ended_by({errc::cancelled, "the client has ended the watch"}));
    } else if (last_) {
      end_with(ended_by({errc::unavailable, "the server is stopping"}));
    } else if (ending_) {
      tell();
    }
  }

 private:
  void tell() {
    if (finished_) return;
    message_.set_status(status_of(door(), service_));
    last_ = ending_;
    writing_ = true;
    write(message_);
  }
  void end_with(const grpc::Status& status) {
    if (std::exchange(finished_, true)) return;
    watches_ = {};
    finish(status);
  }

  std::string service_;
  HealthCheckResponse message_;
  service::gauge::share watches_;
  std::mutex mutex_;
  bool writing_ = false;
  bool ending_ = false;
  bool last_ = false;  ///< what is being written was made after the end was known
  bool finished_ = false;
};

class health_calls final : public served_service {
 public:
  explicit health_calls(door_parts& door) : served_service(door, "grpc.health.v1.Health") {}
  void wait_on(grpc::ServerCompletionQueue& queue) override {
    wait_for_unary(*this, queue, "Check", &health_calls::check, callers::anybody);
    wait_for_answers(*this, queue, "Watch", &health_calls::watch);
  }

 private:
  void check(unary_call& its, const HealthCheckRequest* request, HealthCheckResponse* response) {
    its.attempt([&](unary_call& c) {
      response->set_status(status_of(c.door(), request->service()));
      if (response->status() == HealthCheckResponse::SERVICE_UNKNOWN) {
        return c.fail_as({grpc::StatusCode::NOT_FOUND, "the server has no such service"});
      }
      c.succeed();
    });
  }
  void watch(health_watch& stream, const HealthCheckRequest* request) { stream.begin(request->service()); }
};

}  // namespace

std::unique_ptr<served_service> make_health_calls(door_parts& door) { return std::make_unique<health_calls>(door); }

}  // namespace icecore::doors
