// The server as a whole: the service, its doors, its counters and its log, from start to stop.
//
//   running_server server(configuration, log);       // serves when the constructor returns
//   server.reload();                                 // SIGHUP
//   server.stop(deadline);                           // SIGTERM
//
// Start: the HTTP door first, whose /readyz says that the server starts; then the service, which opens the databases;
// then the other doors, so whoever reaches one of them is served.
// Stop: the doors take nothing new, running calls are answered, watches are told; then the databases are closed, which
// makes everything durable.
// Threads: one. Errors: icecore::error of opening and listening; after one, nothing is left running.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "doors/grpc/door.hpp"
#include "doors/grpc/library_log.hpp"
#include "doors/http/door.hpp"
#include "run/configuration/configuration.hpp"
#include "run/log/log.hpp"
#include "run/log/slow_log.hpp"
#include "run/program/job_door.hpp"
#include "run/program/metrics.hpp"
#include "run/program/page_callers.hpp"
#include "service/service.hpp"

namespace icecore::server {

class running_server {
 public:
  /// `link`: of a dependent group; outlives the server. Null: this server is alone, or its group is independent.
  running_server(const configuration& told, log& out, service::group_link* link = nullptr);
  ~running_server();
  running_server(const running_server&) = delete;
  running_server& operator=(const running_server&) = delete;

  /// Where it listens: the door's name and the address.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> addresses() const;
  /// Opens the log, the files of TLS, and the token for metrics, anew.
  void reload();
  /// Why the process should be restarted; empty while it is well.
  [[nodiscard]] std::string unwell() const;
  /// Does nothing the second time.
  void stop(std::chrono::steady_clock::time_point deadline);

 private:
  void open_service(service::group_link* link);
  void open_http();
  [[nodiscard]] std::string metrics_text(const http::caller& asking);
  [[nodiscard]] std::vector<std::string> not_ready(const http::caller& asking);

  configuration told_;
  log& out_;
  doors::library_log of_grpc_;
  slow_log slow_;
  server_metrics metrics_;
  page_callers callers_;
  std::optional<service::service> service_;
  std::optional<doors::grpc_door> grpc_;
  std::unique_ptr<job_door> ucx_;
  std::atomic<bool> stops_{false};  // relaxed: it guards nothing
  // Release when all is open, and acquire by the thread of the HTTP door, which looks at service and doors only then.
  std::atomic<bool> is_open_{false};
  std::optional<http::door> http_;
};

}  // namespace icecore::server
