#include "doors/grpc/door.hpp"

#include <fmt/format.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <vector>

#include "doors/grpc/calls/call.hpp"
#include "doors/grpc/calls/services.hpp"
#include "doors/grpc/listener.hpp"
#include "doors/grpc/tls.hpp"
#include "doors/grpc/undecodable.hpp"

namespace icecore::doors {

namespace {

using acceptor = grpc::experimental::ExternalConnectionAcceptor;

int argument(std::int64_t value) {
  return static_cast<int>(std::min<std::int64_t>(value, std::numeric_limits<int>::max()));
}

/// What gRPC has to know before the first server of the process is made.
void prepare_process() {
  static std::once_flag once;
  std::call_once(once, [] {
    grpc::EnableDefaultHealthCheckService(true);
#ifdef ICECORE_GRPC_REFLECTION
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
#endif
  });
}

void set_limits(grpc::ServerBuilder& builder, const grpc_door_options& options, const service::limits& limits) {
  builder.SetMaxReceiveMessageSize(argument(static_cast<std::int64_t>(limits.request_bytes)));
  builder.SetMaxSendMessageSize(-1);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, argument(options.streams_per_connection));
  // A peer that is gone without a word is found by pings; one that pings more often than this is told to stop.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, argument(options.keepalive.count()));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, argument(options.keepalive_wait.count()));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
  builder.AddChannelArgument("grpc.server_handshake_timeout_ms", argument(limits.read_limit.count()));
  // Without a quota gRPC reads ahead as much as clients send.
  grpc::ResourceQuota quota("icecore");
  quota.Resize(std::max<std::size_t>(limits.in_flight_bytes, std::size_t{16} << 20));
  builder.SetResourceQuota(quota);
}

}  // namespace

struct grpc_door::state {
  state(service::service& served, grpc_door_options opening) : parts(served, opening) {}

  void start();
  void stop(std::chrono::milliseconds limit);

  door_parts parts;
  std::vector<std::unique_ptr<grpc::Service>> services;
  std::unique_ptr<listener> listens;
  std::unique_ptr<acceptor> accepts;
  std::unique_ptr<grpc::Server> server;
  service::executor::repetition cutting;
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
  prepare_process();
  listens = std::make_unique<listener>(options.host, options.port, parts.all.connections(), [this](int socket) {
    acceptor::NewConnectionParameters given;
    given.fd = socket;
    accepts->HandleNewConnection(&given);  // closes the socket if the server is stopping
  });

  grpc::ServerBuilder builder;
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(std::make_unique<undecodable_requests>());
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  set_limits(builder, options, parts.all.options().limits);
  accepts = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
  for (auto* const make : {make_store_calls, make_database_calls, make_version_calls, make_lease_calls, make_user_calls,
                           make_server_calls}) {
    services.push_back(make(parts));
    builder.RegisterService(services.back().get());
  }
  server = builder.BuildAndStart();
  if (!server) throw error(errc::unavailable, fmt::format("gRPC could not start its server at {}", options.host));
  port = listens->port();
  listens->start();
  cutting = parts.accounts.every(std::chrono::seconds(1), [this] {
    parts.cut_stalled(std::chrono::steady_clock::now() - parts.options.stalled_limit);
  });
}

void grpc_door::state::stop(std::chrono::milliseconds limit) {
  if (!server) return;
  if (auto* const health = server->GetHealthCheckService(); health != nullptr) health->Shutdown();
  parts.stopping.store(true, std::memory_order_relaxed);  // the lock that end_streams() takes orders it
  listens->stop();
  parts.end_streams({errc::unavailable, "the server is stopping; go on with another one, or when it is back"});
  server->Shutdown(std::chrono::system_clock::now() + limit);
  server->Wait();
  parts.wait_until_all_closed();
  cutting = {};
  server.reset();
  accepts.reset();
}

grpc_door::grpc_door(service::service& all, grpc_door_options options)
    : state_(std::make_unique<state>(all, std::move(options))) {}

grpc_door::~grpc_door() { stop(std::chrono::milliseconds(0)); }

void grpc_door::start() { state_->start(); }

std::uint16_t grpc_door::port() const noexcept { return state_->port; }

void grpc_door::stop(std::chrono::milliseconds limit) { state_->stop(limit); }

}  // namespace icecore::doors
