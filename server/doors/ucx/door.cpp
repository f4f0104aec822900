#include "doors/ucx/door.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <thread>

#include "doors/ucx/admission.hpp"
#include "doors/ucx/call.hpp"
#include "icecore/error.hpp"
#include "wire/server/server_endpoint.hpp"
#include "wire/transport/failure.hpp"

namespace icecore::doors {

namespace {

using namespace std::chrono_literals;
using std::chrono::duration_cast;
using std::chrono::milliseconds;

constexpr std::size_t token_bytes_least = 8;

std::uint32_t short_of(std::uint64_t number) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(number, std::numeric_limits<std::uint32_t>::max()));
}

wire::transport transport_of(ucx_transports which) noexcept {
  switch (which) {
    case ucx_transports::shared_memory:
      return wire::transport::shared_memory;
    case ucx_transports::tcp:
      return wire::transport::tcp;
    case ucx_transports::automatic:
      break;
  }
  return wire::transport::automatic;
}

wire::server_limits limits_of(const service::limits& from) {
  wire::server_limits to;
  to.connections_max = short_of(from.connections);
  to.handshake_ms = short_of(static_cast<std::uint64_t>(std::max<std::int64_t>(1, from.read_limit.count())));
  to.frame_ms = to.handshake_ms;
  to.frame_bytes_max = short_of(from.request_bytes);
  // The longest request is let in where nothing else is under way.
  to.bytes_all_max = from.in_flight_bytes == 0
                         ? std::numeric_limits<std::int64_t>::max()
                         : std::max<std::uint64_t>(from.in_flight_bytes, to.frame_bytes_max + 4096ULL);
  to.bytes_in_flight_max = std::max<std::uint64_t>(to.bytes_in_flight_max, to.frame_bytes_max + 4096ULL);
  to.output_bytes_max = from.output_bytes;
  to.output_bytes_slow = from.output_bytes / 4;
  return to;
}

wire::server_settings settings_of(const ucx_parts& parts) {
  const ucx_door_options& options = parts.options;
  wire::server_settings to;
  to.listen = {.host = options.host, .port = options.port};
  to.token = options.token;
  to.ucx.way = transport_of(options.transports);
  to.io_threads =
      options.io_threads != 0 ? options.io_threads : std::clamp(std::thread::hardware_concurrency() / 2, 1U, 8U);
  to.limits = limits_of(parts.all.options().limits);
  return to;
}

std::shared_ptr<ucx_session> session_of(wire::connection& of) {
  return std::static_pointer_cast<ucx_session>(of.session());
}

}  // namespace

struct ucx_door::state final : wire::frame_handler {
  state(service::service& served, const ucx_door_options& opening) : parts(served, opening) {}

  void start();
  void stop(milliseconds limit);

  [[nodiscard]] wire::admission admit(const wire::hello& said, const std::string& peer) override {
    return doors::admit(parts, said, peer);
  }
  void on_open(const std::shared_ptr<wire::connection>& opened) override {
    const auto session = session_of(*opened);
    parts.add(session);
    // stop() sets `stopping` before it ends the sessions in the list, so one of the two ends this one.
    if (parts.is_stopping()) session->end(stops());
  }
  void on_request(wire::request&& asked) override { execute(parts, asked); }
  void on_close(wire::connection& closed, wire::close_reason /*reason*/) override {
    const auto session = session_of(closed);
    parts.remove(session);
    session->end({errc::cancelled, "the client is gone"});
    session->databases.clear();
    session->connections = {};
    session->of_user = user_share();
    if (session->own_token) end_token(session->token);
  }
  void on_warning(const std::string& text) override {
    if (parts.options.observer) parts.options.observer->warned(text);
  }

  // In a group that is an order, which this thread, whose connections wait, does not wait for.
  void end_token(const std::string& token) {
    if (parts.all.options().link == nullptr) return parts.all.users().log_out(token);
    parts.all.threads().post([users = &parts.all.users(), token] {
      try {
        users->log_out(token);
      } catch (const error&) {  // it ends by its time
      }
    });
  }

  static service::failure stops() {
    return {errc::unavailable, "the server is stopping; go on with another one, or when it is back"};
  }

  ucx_parts parts;
  service::executor::repetition looks_at_clock;
  std::optional<wire::server_endpoint> endpoint;
};

std::string ucx_parts::address() const {
  std::string host = options.host;
  if (host.empty() || host == "0.0.0.0" || host == "::") {
    std::array<char, 256> name{};
    if (::gethostname(name.data(), name.size() - 1) == 0) host = name.data();
  }
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  return fmt::format("{}:{}", host, port.load(std::memory_order_relaxed));
}

void ucx_door::state::start() {
  if (parts.options.token.size() < token_bytes_least) {
    throw error(errc::invalid_argument, fmt::format("the token of the UCX door has {} bytes; it needs {} or more",
                                                    parts.options.token.size(), token_bytes_least));
  }
  try {
    endpoint.emplace(settings_of(parts), *this);
  } catch (const wire::failure& e) {
    throw error(errc::unavailable, fmt::format("the UCX door at {}:{} cannot be opened: {}", parts.options.host,
                                               parts.options.port, e.what()));
  }
  parts.port.store(endpoint->address().port, std::memory_order_relaxed);
  parts.all.announce(parts.address());
  looks_at_clock = parts.all.threads().every(50ms, [this] { parts.clock.look(); });
}

void ucx_door::state::stop(milliseconds limit) {
  if (!endpoint) return;
  parts.stopping.store(true, std::memory_order_relaxed);
  parts.end_sessions(stops());
  endpoint->stop(limit);
  parts.wait_until_all_closed();
  looks_at_clock = {};  // the endpoint stays until the end, for its counters
}

ucx_door::ucx_door(service::service& all, ucx_door_options options) : state_(std::make_unique<state>(all, options)) {}

ucx_door::~ucx_door() { stop(milliseconds(0)); }

void ucx_door::start() { state_->start(); }

std::uint16_t ucx_door::port() const noexcept { return state_->parts.port.load(std::memory_order_relaxed); }

ucx_door_counters ucx_door::counters() const noexcept {
  if (!state_->endpoint) return {};
  const wire::server_counters& from = state_->endpoint->counters();
  const auto closed = [&](wire::close_reason why) {
    return from.closed.at(static_cast<std::size_t>(why)).load(std::memory_order_relaxed);
  };
  return {.connections_accepted = from.connections_accepted.load(std::memory_order_relaxed),
          .connections_open = from.connections_open.load(std::memory_order_relaxed),
          .requests = from.requests.load(std::memory_order_relaxed),
          .refused_busy = from.requests_refused_busy.load(std::memory_order_relaxed),
          .closed_malformed = closed(wire::close_reason::malformed),
          .closed_over_limit = closed(wire::close_reason::over_limit),
          .closed_not_reading = closed(wire::close_reason::not_reading),
          .refused_tokens = closed(wire::close_reason::wrong_token),
          .refused_full = from.connections_refused_full.load(std::memory_order_relaxed)};
}

void ucx_door::stop(milliseconds limit) { state_->stop(limit); }

}  // namespace icecore::doors
