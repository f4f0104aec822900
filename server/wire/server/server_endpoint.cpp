#include "wire/server/server_endpoint.hpp"

#include <algorithm>

#include "wire/transport/failure.hpp"

namespace icecore::wire {

namespace {

constexpr std::size_t token_bytes_min = 8;

server_settings checked(server_settings settings) {
  server_limits& limits = settings.limits;
  if (settings.token.size() < token_bytes_min)
    throw failure("the token of the job has fewer than 8 bytes: choose a longer one");
  if (settings.io_threads == 0 || settings.io_threads > 256) throw failure("io_threads is 1 to 256");
  if (limits.connections_max == 0 || limits.connections_max > 65'535) throw failure("connections_max is 1 to 65,535");
  if (limits.requests_in_flight_max == 0 || limits.requests_in_flight_max > 65'536) {
    throw failure("requests_in_flight_max is 1 to 65,536");
  }
  if (limits.handshakes_max == 0 || limits.handshake_ms == 0)
    throw failure("handshakes_max and handshake_ms are at least 1");
  if (limits.bytes_in_flight_max < limits.frame_bytes_max + sizeof(frame_header)) {
    throw failure(
        "bytes_in_flight_max is below frame_bytes_max and the 24 bytes of a header: no longest frame could be sent");
  }
  const std::string& host = settings.listen.host;
  if (settings.ucx.network_devices.empty() && (host.starts_with("127.") || host == "::1" || host == "localhost")) {
    settings.ucx.network_devices = "lo";
  }
  return settings;
}

}  // namespace

server_endpoint::server_endpoint(server_settings settings, frame_handler& service)
    : address_(settings.listen), shared_(std::make_shared<server_state>(checked(std::move(settings)), service)) {
  for (std::uint32_t i = 0; i < shared_->settings.io_threads; ++i) {
    io_threads_.push_back(std::make_shared<io_thread>(shared_));
  }
  acceptor_ = std::make_unique<acceptor>(shared_, io_threads_, address_);  // throws before any other thread runs
  for (auto& each : io_threads_) each->start();
}

server_endpoint::~server_endpoint() { stop(std::chrono::seconds(1)); }

void server_endpoint::stop(std::chrono::milliseconds limit) {
  const std::lock_guard lock(stop_mutex_);
  if (std::exchange(stopped_, true)) return;
  const auto deadline = std::chrono::steady_clock::now() + limit;
  acceptor_->stop();
  for (auto& each : io_threads_) each->stop(deadline);
  for (auto& each : io_threads_) each->join();
}

}  // namespace icecore::wire
