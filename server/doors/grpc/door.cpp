#include "doors/grpc/door.hpp"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <vector>

#include "doors/grpc/calls/call.hpp"
#include "doors/grpc/calls/services.hpp"
#include "doors/grpc/listener.hpp"
#include "doors/grpc/tls.hpp"

namespace icecore::doors {

namespace {

using acceptor = grpc::experimental::ExternalConnectionAcceptor;

int argument(std::int64_t value) {
  return static_cast<int>(std::min<std::int64_t>(value, std::numeric_limits<int>::max()));
}

void set_limits(grpc::ServerBuilder& builder, const grpc_door_options& options, const service::limits& limits) {
  builder.SetMaxReceiveMessageSize(argument(static_cast<std::int64_t>(limits.request_bytes)));
  builder.SetMaxSendMessageSize(-1);
  // Headers come before it is known who calls, and so does the message of a log-in, which looks at its size itself.
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE,
                             argument(static_cast<std::int64_t>(limits.before_login_bytes)));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, argument(options.streams_per_connection));
  // A peer that is gone without a word is found by pings; one that pings more often than this is told to stop.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, argument(options.keepalive.count()));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, argument(options.keepalive_wait.count()));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
  // TLS, HTTP/2's first words and its settings; a request's message has as long (refuse_unread).
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, argument(limits.read_limit.count()));
  // Without a quota gRPC reads ahead as much as clients send.
  grpc::ResourceQuota quota("icecore");
  quota.Resize(std::max<std::size_t>(limits.in_flight_bytes, std::size_t{16} << 20));
  builder.SetResourceQuota(quota);
}

/// Half of the cores are left to what the calls do: applying, syncing, answering.
unsigned polling_threads(unsigned wanted) {
  return wanted != 0 ? wanted : std::clamp(std::thread::hardware_concurrency() / 2, 1U, 8U);
}

}  // namespace

/// The completion queues, each with one thread, which polls the sockets and runs what its events call.
class event_queues {
 public:
  event_queues() = default;
  event_queues(const event_queues&) = delete;
  event_queues& operator=(const event_queues&) = delete;
  ~event_queues() { stop(); }

  void add_to(grpc::ServerBuilder& builder, unsigned count) {
    for (unsigned i = 0; i < count; ++i) queues_.push_back(builder.AddCompletionQueue());
  }
  void start() {
    for (const auto& queue : queues_) threads_.emplace_back([&on = *queue] { run(on); });
  }
  /// No event may be asked for any more. Returns when all that were are told.
  void stop() {
    for (const auto& queue : queues_) queue->Shutdown();
    if (threads_.empty()) {  // gRPC wants them emptied
      for (const auto& queue : queues_) run(*queue);
    }
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    queues_.clear();
  }
  [[nodiscard]] const std::vector<std::unique_ptr<grpc::ServerCompletionQueue>>& all() const noexcept {
    return queues_;
  }

 private:
  static void run(grpc::ServerCompletionQueue& queue) {
    void* tag = nullptr;
    bool well = false;
    while (queue.Next(&tag, &well)) static_cast<queue_event*>(tag)->happened(well);
  }
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues_;
  std::vector<std::thread> threads_;
};

struct grpc_door::state {
  state(service::service& served, grpc_door_options opening) : parts(served, opening) {}

  void start();
  void stop(std::chrono::milliseconds limit);

  door_parts parts;
  std::vector<std::unique_ptr<served_service>> services;
  event_queues queues;
  std::unique_ptr<listener> listens;
  std::unique_ptr<acceptor> accepts;
  std::unique_ptr<grpc::Server> server;
  service::executor::repetition cutting;
  service::executor::repetition refusing;
  std::uint16_t port = 0;
};

void grpc_door::state::start() {
  const grpc_door_options& options = parts.options;
  std::shared_ptr<grpc::ServerCredentials> credentials;
  if (options.tls.certificate.empty()) {
    credentials = grpc::InsecureServerCredentials();
  } else {
    require_tls_1_3();
    credentials = tls_credentials(options.tls);
  }
  listens = std::make_unique<listener>(
      options.host, options.port, parts.all.connections(), parts.users_of_connections, [this](int socket) {
        acceptor::NewConnectionParameters given;
        given.fd = socket;
        accepts->HandleNewConnection(&given);  // closes the socket if the server is stopping
      });

  grpc::ServerBuilder builder;
  set_limits(builder, options, parts.all.options().limits);
  accepts = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
  for (auto* const make : {make_store_calls, make_database_calls, make_version_calls, make_lease_calls, make_user_calls,
                           make_server_calls, make_health_calls, make_reflection_calls, make_old_reflection_calls}) {
    services.push_back(make(parts));
    builder.RegisterService(&services.back()->service());
  }
  queues.add_to(builder, polling_threads(options.polling_threads));
  server = builder.BuildAndStart();
  if (!server) throw error(errc::unavailable, fmt::format("gRPC could not start its server at {}", options.host));
  for (const auto& queue : queues.all()) {
    for (const auto& one : services) one->wait_on(*queue);
  }
  queues.start();
  port = listens->port();
  listens->start();
  cutting = parts.limits.every(std::chrono::seconds(1), [this] {
    parts.cut_stalled(std::chrono::steady_clock::now() - parts.options.stalled_limit);
  });
  const std::chrono::milliseconds read_limit = parts.all.options().limits.read_limit;
  refusing =
      parts.limits.every(std::clamp(read_limit / 4, std::chrono::milliseconds(10), std::chrono::milliseconds(1000)),
                         [this, read_limit] { parts.refuse_unread(std::chrono::steady_clock::now() - read_limit); });
}

void grpc_door::state::stop(std::chrono::milliseconds limit) {
  if (!server) return;
  parts.stopping.store(true, std::memory_order_relaxed);  // the lock that end_streams() takes orders it
  listens->stop();
  parts.end_streams({errc::unavailable, "the server is stopping; go on with another one, or when it is back"});
  server->Shutdown(std::chrono::system_clock::now() + limit);
  server->Wait();
  parts.wait_until_all_closed();
  cutting = {};
  refusing = {};
  queues.stop();  // no call is left that could ask for an event
  server.reset();
  accepts.reset();
}

grpc_door::grpc_door(service::service& all, grpc_door_options options)
    : state_(std::make_unique<state>(all, std::move(options))) {}

grpc_door::~grpc_door() { stop(std::chrono::milliseconds(0)); }

void grpc_door::start() { state_->start(); }

std::uint16_t grpc_door::port() const noexcept { return state_->port; }

grpc_door::numbers grpc_door::counted() const noexcept {
  return {.refused_of_user = state_->parts.users_of_connections.refused(),
          .closed_unread = state_->parts.unread.load(std::memory_order_relaxed),
          .cut_stalled = state_->parts.cut.load(std::memory_order_relaxed)};
}

void grpc_door::stop(std::chrono::milliseconds limit) { state_->stop(limit); }

}  // namespace icecore::doors
