// What /metrics tells: calls by door and operation with their latencies, limits with what is given out, databases.
//
//   server_metrics metrics;
//   door_options.observer = metrics.of_grpc(slow);                 // counts calls as they end
//   metrics.refresh(the_service);
//   const std::string text = metrics.text(seen);                   // in the format of Prometheus
//
// The numbers of calls and limits are those of counters that the calls themselves move. The numbers of databases are
// asked for when somebody reads /metrics, once in `database_interval` at most: each costs some milliseconds. A number
// that a database has not, such as the version of its oldest pin where there is none, is not told. Threads: any may
// call anything. Lifetime: the service that was asked about must live during refresh().
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <utility>

#include "doors/grpc/door.hpp"
#include "run/log/slow_log.hpp"
#include "run/program/page_callers.hpp"
#include "service/service.hpp"

namespace icecore::server {

class server_metrics {
 public:
  explicit server_metrics(std::chrono::nanoseconds database_interval = std::chrono::seconds(5));
  server_metrics(const server_metrics&) = delete;
  server_metrics& operator=(const server_metrics&) = delete;

  [[nodiscard]] prometheus::Registry& registry() noexcept { return registry_; }

  /// The calls of one door and operation that ended in one way.
  struct call_series {
    prometheus::Histogram* seconds;
    prometheus::Counter* ended;
    void count(std::chrono::nanoseconds took) const {
      seconds->Observe(std::chrono::duration<double>(took).count());
      ended->Increment();
    }
  };
  /// Lives as long as this.
  [[nodiscard]] const call_series& series_of(std::string_view door, std::string_view operation,
                                             std::string_view outcome);
  /// One call that ended.
  void count_call(std::string_view door, std::string_view operation, std::string_view outcome,
                  std::chrono::nanoseconds took);
  /// The observer of the gRPC door; `slow` outlives it.
  [[nodiscard]] std::shared_ptr<doors::call_observer> of_grpc(slow_log& slow);

  /// What a door has counted by itself since it was opened.
  void show(std::string_view door, std::string_view what, std::uint64_t number);

  /// How often a door's own library has refused because of a limit, since it was opened.
  void show_refused(std::string_view door, std::string_view limit, std::uint64_t number);

  /// Brings the numbers of limits and databases up to date. Called before the registry is collected.
  void refresh(service::service& from);

  /// All metrics in the text format of Prometheus, but for those of databases that `seen` does not see.
  [[nodiscard]] std::string text(const seen_databases& seen) const;

 private:
  void set_limit(const service::gauge& of);
  void set_settings(const service::limits& are);
  void set_refused(std::string_view limit, std::uint64_t by_service);
  void refresh_databases(service::service& from);
  void set_database_number(const std::string& database, const char* what, std::optional<double> number);

  const std::chrono::nanoseconds database_interval_;
  prometheus::Registry registry_;
  prometheus::Family<prometheus::Histogram>* call_seconds_;
  prometheus::Family<prometheus::Counter>* calls_;
  prometheus::Family<prometheus::Gauge>* limit_used_;
  prometheus::Family<prometheus::Gauge>* limit_most_;
  prometheus::Family<prometheus::Gauge>* limit_refused_;
  prometheus::Family<prometheus::Gauge>* doors_;
  prometheus::Family<prometheus::Gauge>* databases_;
  prometheus::Family<prometheus::Gauge>* database_sick_;
  prometheus::Gauge* databases_sick_;  // how many, for those who see no names

  // Series are found by their labels' text, which ends calls without building maps of labels.
  mutable std::shared_mutex series_mutex_;
  std::map<std::string, call_series, std::less<>> series_;

  std::mutex refresh_mutex_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> refused_by_doors_;  // by limit and door
  std::chrono::steady_clock::time_point refreshed_{};
  std::map<std::pair<std::string, std::string>, prometheus::Gauge*> database_gauges_;  // by database and what
};

}  // namespace icecore::server
