// The door for programs of the same job (UCX), as the program has it: an interface, since UCX may be missing where the
// server is built.
//
//   std::unique_ptr<job_door> door = open_job_door(configuration, service, metrics, slow, log);     // serves
//   door->stop(30s);
//
// Threads: one. Errors: icecore::error of opening. Lifetime: all that it was given outlives it.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "run/configuration/configuration.hpp"
#include "run/log/log.hpp"
#include "run/log/slow_log.hpp"
#include "run/program/metrics.hpp"
#include "service/service.hpp"

namespace icecore::server {

class job_door {
 public:
  job_door() = default;
  job_door(const job_door&) = delete;
  job_door& operator=(const job_door&) = delete;
  virtual ~job_door() = default;
  /// "HOST:PORT"
  [[nodiscard]] virtual std::string address() const = 0;
  virtual void stop(std::chrono::milliseconds limit) = 0;
  /// Brings what the door has counted up to date, by any thread, also after stop().
  virtual void show(server_metrics& in) const = 0;
};

[[nodiscard]] std::unique_ptr<job_door> open_job_door(const configuration& told, service::service& all,
                                                      server_metrics& metrics, slow_log& slow, log& out);

}  // namespace icecore::server
