#include "run/program/metrics.hpp"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "icecore/error.hpp"
#include "icecore/version.hpp"

namespace icecore::server {
namespace {

const prometheus::Histogram::BucketBoundaries& seconds_boundaries() {
  static const prometheus::Histogram::BucketBoundaries all{
      0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0};
  return all;
}

std::string_view grpc_status_name(int status) noexcept {
  static constexpr std::string_view names[] = {
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  const auto index = static_cast<std::size_t>(status);
  return status >= 0 && index < std::size(names) ? names[index] : "UNKNOWN";
}

/// A number that some databases have and others have not: null is not told.
template <typename Number>
std::optional<double> told(const std::optional<Number>& number) {
  return number ? std::optional(static_cast<double>(*number)) : std::nullopt;
}
std::optional<double> told(std::uint64_t number) { return static_cast<double>(number); }
std::optional<double> told(bool is) { return is ? 1 : 0; }

struct database_number {
  const char* what;
  std::optional<double> (*of)(const service::database_status&);
};

/// What icecore_database tells, in the order of docs/operations.md.
constexpr database_number database_numbers[] = {
    {"keys", [](const service::database_status& is) { return told(is.statistics.keys); }},
    {"records", [](const service::database_status& is) { return told(is.statistics.records); }},
    {"tags", [](const service::database_status& is) { return told(is.statistics.tags); }},
    {"newest_version", [](const service::database_status& is) { return told(is.newest); }},
    {"durable_version", [](const service::database_status& is) { return told(is.durable); }},
    {"compacted_version", [](const service::database_status& is) { return told(is.compacted); }},
    {"leases", [](const service::database_status& is) { return told(is.leases); }},
    {"watches", [](const service::database_status& is) { return told(is.watches); }},
    {"waiting", [](const service::database_status& is) { return told(is.waiting); }},
    {"file_bytes", [](const service::database_status& is) { return told(is.statistics.file_bytes); }},
    {"free_bytes", [](const service::database_status& is) { return told(is.statistics.free_bytes); }},
    {"used_bytes", [](const service::database_status& is) { return told(is.statistics.used_bytes); }},
    {"live_bytes", [](const service::database_status& is) { return told(is.statistics.live_bytes); }},
    {"garbage_bytes", [](const service::database_status& is) { return told(is.statistics.garbage_bytes); }},
    {"waiting_bytes", [](const service::database_status& is) { return told(is.statistics.waiting_bytes); }},
    {"index_bytes", [](const service::database_status& is) { return told(is.statistics.index_bytes); }},
    {"packed_keys", [](const service::database_status& is) { return told(is.statistics.packed_keys); }},
    {"packed_records", [](const service::database_status& is) { return told(is.statistics.packed_records); }},
    {"packed_bytes", [](const service::database_status& is) { return told(is.statistics.packed_bytes); }},
    {"packed_inflated_bytes",
     [](const service::database_status& is) { return told(is.statistics.packed_inflated_bytes); }},
    {"strata", [](const service::database_status& is) { return told(is.statistics.strata); }},
    {"block_cache_bytes", [](const service::database_status& is) { return told(is.statistics.block_cache_bytes); }},
    {"block_cache_hits", [](const service::database_status& is) { return told(is.statistics.block_cache_hits); }},
    {"block_cache_misses", [](const service::database_status& is) { return told(is.statistics.block_cache_misses); }},
    {"compactions", [](const service::database_status& is) { return told(is.statistics.compactions); }},
    {"compaction_failed",
     [](const service::database_status& is) { return told(!is.statistics.compaction_failure.empty()); }},
    {"pins", [](const service::database_status& is) { return told(is.statistics.pins); }},
    {"oldest_pin_version", [](const service::database_status& is) { return told(is.statistics.oldest_pin); }},
    {"oldest_pin_seconds",
     [](const service::database_status& is) {
       return is.statistics.oldest_pin ? std::optional(is.statistics.oldest_pin_seconds) : std::nullopt;
     }},
    {"oldest_held_version", [](const service::database_status& is) { return told(is.statistics.oldest_held); }},
    {"given_bytes", [](const service::database_status& is) { return told(is.statistics.given_bytes); }},
    {"written_bytes", [](const service::database_status& is) { return told(is.statistics.written_bytes); }},
    {"write_amplification",
     [](const service::database_status& is) {
       return is.statistics.given_bytes == 0 ? std::nullopt : std::optional(is.statistics.write_amplification());
     }},
    {"recovered_from_crash",
     [](const service::database_status& is) { return told(is.statistics.recovered_from_crash); }},
    {"recovered_instantly", [](const service::database_status& is) { return told(is.statistics.recovered_instantly); }},
};

class grpc_observer final : public doors::call_observer {
 public:
  grpc_observer(server_metrics& into, slow_log& slow) : into_(&into), slow_(&slow) {}
  void finished(const doors::call_report& what) noexcept override {
    try {
      const std::string_view outcome = grpc_status_name(what.status);
      into_->count_call("grpc", what.method, outcome, what.took);
      const auto took = std::chrono::duration_cast<std::chrono::microseconds>(what.took);
      // Those live as long as their client wants.
      const bool endless =
          what.method == "Store.Watch" || what.method == "Leases.KeepAlive" || what.method == "Health.Watch";
      if (endless || !slow_->is_slow(took)) return;
      slow_->record({.door = "grpc",
                     .operation = what.method,
                     .user = what.user,
                     .trace = what.request,
                     .outcome = outcome,
                     .duration = took});
    } catch (...) {  // a call that could not be counted has still ended well
    }
  }

 private:
  server_metrics* into_;
  slow_log* slow_;
};

}  // namespace

server_metrics::server_metrics(std::chrono::nanoseconds database_interval)
    : database_interval_(database_interval),
      call_seconds_(&prometheus::BuildHistogram()
                         .Name("icecore_call_seconds")
                         .Help("The time from a call's arrival to its end, by door and operation")
                         .Register(registry_)),
      calls_(&prometheus::BuildCounter()
                  .Name("icecore_calls_total")
                  .Help("Calls that ended, by door, operation and outcome")
                  .Register(registry_)),
      limit_used_(&prometheus::BuildGauge()
                       .Name("icecore_limit_used")
                       .Help("What is given out of each limit of the configuration")
                       .Register(registry_)),
      limit_most_(&prometheus::BuildGauge()
                       .Name("icecore_limit_most")
                       .Help("Each limit of the configuration, of read_limit in seconds; 0: no limit")
                       .Register(registry_)),
      limit_refused_(&prometheus::BuildGauge()
                          .Name("icecore_limit_refused")
                          .Help("How often a limit was reached since the server started")
                          .Register(registry_)),
      doors_(
          &prometheus::BuildGauge()
               .Name("icecore_door")
               .Help(
                   "Numbers of a door since it was opened, by door and what: connections_open, "
                   "connections_accepted, requests, refused_busy, refused_tokens, closed_malformed, "
                   "closed_over_limit, closed_not_reading; of gRPC refused_of_user (calls over connections_per_user), "
                   "closed_unread (calls whose message took longer than read_limit) and cut_stalled (calls whose "
                   "client did not read)")
               .Register(registry_)),
      databases_(
          &prometheus::BuildGauge()
               .Name("icecore_database")
               .Help("Numbers of each database, by name and what, which docs/operations.md tells one by one: keys, "
                     "records, tags, versions, leases, watches, waiting transactions and pins; bytes of the file, "
                     "of what is live, garbage, waiting, packed, given and written; strata, compactions; how it "
                     "was recovered")
               .Register(registry_)),
      database_sick_(&prometheus::BuildGauge()
                          .Name("icecore_database_not_ready")
                          .Help("1 for a database that is not served as it should be")
                          .Register(registry_)),
      databases_sick_(&prometheus::BuildGauge()
                           .Name("icecore_databases_not_ready")
                           .Help("How many databases are not served as they should be")
                           .Register(registry_)
                           .Add({})) {
  prometheus::BuildGauge()
      .Name("icecore_build_info")
      .Help("1, with the version of the program")
      .Register(registry_)
      .Add({{"version", std::string(library_version())}})
      .Set(1);
}

const server_metrics::call_series& server_metrics::series_of(std::string_view door, std::string_view operation,
                                                             std::string_view outcome) {
  std::string name;
  name.reserve(door.size() + operation.size() + outcome.size() + 2);
  name.append(door).append("\n").append(operation).append("\n").append(outcome);
  {
    const std::shared_lock lock(series_mutex_);
    if (const auto found = series_.find(name); found != series_.end()) return found->second;
  }
  const std::unique_lock lock(series_mutex_);
  const std::string door_text(door);
  const std::string operation_text(operation);
  // Adding what is there already returns it.
  const call_series made{
      .seconds = &call_seconds_->Add({{"door", door_text}, {"operation", operation_text}}, seconds_boundaries()),
      .ended = &calls_->Add({{"door", door_text}, {"operation", operation_text}, {"outcome", std::string(outcome)}})};
  return series_.emplace(std::move(name), made).first->second;
}

void server_metrics::count_call(std::string_view door, std::string_view operation, std::string_view outcome,
                                std::chrono::nanoseconds took) {
  series_of(door, operation, outcome).count(took);
}

std::shared_ptr<doors::call_observer> server_metrics::of_grpc(slow_log& slow) {
  return std::make_shared<grpc_observer>(*this, slow);
}

void server_metrics::show(std::string_view door, std::string_view what, std::uint64_t number) {
  doors_->Add({{"door", std::string(door)}, {"what", std::string(what)}}).Set(static_cast<double>(number));
}

void server_metrics::set_limit(const service::gauge& of) {
  const prometheus::Labels labels{{"limit", of.name()}};
  limit_used_->Add(labels).Set(static_cast<double>(of.used()));
  limit_most_->Add(labels).Set(static_cast<double>(of.most()));
  set_refused(of.name(), of.refused());
}

/// Of these nothing is given out: a call keeps within them or is refused.
void server_metrics::set_settings(const service::limits& are) {
  const auto set = [&](const char* limit, double most) { limit_most_->Add({{"limit", limit}}).Set(most); };
  set("limits.connections_per_user", static_cast<double>(are.connections_per_user));
  set("limits.request_bytes", static_cast<double>(are.request_bytes));
  set("limits.output_bytes", static_cast<double>(are.output_bytes));
  set("limits.before_login_bytes", static_cast<double>(are.before_login_bytes));
  set("limits.transaction_operations", static_cast<double>(are.transaction_operations));
  set("limits.leases", static_cast<double>(are.leases));
  set("limits.free_disk_bytes", static_cast<double>(are.free_disk_bytes));
  set("limits.databases", static_cast<double>(are.databases));
  set("limits.read_limit", std::chrono::duration<double>(are.read_limit).count());
}

void server_metrics::show_refused(std::string_view door, std::string_view limit, std::uint64_t number) {
  const std::lock_guard lock(refresh_mutex_);
  refused_by_doors_[{std::string(limit), std::string(door)}] = number;
}

void server_metrics::set_refused(std::string_view limit, std::uint64_t by_service) {
  std::uint64_t all = by_service;
  for (const auto& [by, number] : refused_by_doors_) all += by.first == limit ? number : 0;
  limit_refused_->Add({{"limit", std::string(limit)}}).Set(static_cast<double>(all));
}

void server_metrics::refresh(service::service& from) {
  const std::lock_guard lock(refresh_mutex_);
  for (const service::gauge* limit : {&from.in_flight_bytes(), &from.connections(), &from.strangers_bytes(),
                                      &from.watches(), &from.health_watches(), &from.open_scans()}) {
    set_limit(*limit);
  }
  set_settings(from.options().limits);
  for (std::size_t i = 0; i < service::kept_limit_names.size(); ++i) {
    set_refused(service::kept_limit_names[i], from.refused().of(static_cast<service::kept_limit>(i)));
  }
  const auto now = std::chrono::steady_clock::now();
  if (refreshed_ != std::chrono::steady_clock::time_point() && now - refreshed_ < database_interval_) return;
  refreshed_ = now;
  refresh_databases(from);
}

// Whatever has the label `database` is told to those alone who see that database: metrics to come, too.
std::string server_metrics::text(const seen_databases& seen) const {
  std::vector<prometheus::MetricFamily> all = registry_.Collect();
  if (!seen.all) {
    const auto is_hidden = [&](const prometheus::ClientMetric& one) {
      return std::ranges::any_of(one.label, [&](const prometheus::ClientMetric::Label& label) {
        return label.name == "database" && !seen.sees(label.value);
      });
    };
    for (prometheus::MetricFamily& family : all) std::erase_if(family.metric, is_hidden);
    std::erase_if(all, [](const prometheus::MetricFamily& family) { return family.metric.empty(); });
  }
  return prometheus::TextSerializer().Serialize(all);
}

void server_metrics::set_database_number(const std::string& database, const char* what, std::optional<double> number) {
  const auto known = database_gauges_.find({database, what});
  if (!number) {
    if (known == database_gauges_.end()) return;
    databases_->Remove(known->second);
    database_gauges_.erase(known);
  } else if (known != database_gauges_.end()) {
    known->second->Set(*number);
  } else {
    prometheus::Gauge& made = databases_->Add({{"database", database}, {"what", what}});
    made.Set(*number);
    database_gauges_.emplace(std::pair(database, what), &made);
  }
}

void server_metrics::refresh_databases(service::service& from) {
  const service::principal everybody = service::principal::anyone();
  std::set<std::string> there;
  for (const service::database_settings& settings : from.list(everybody)) {
    there.insert(settings.name);
    try {
      const auto database = from.find_database(everybody, settings.name);
      const service::database_status is = database->status();
      for (const database_number& each : database_numbers) {
        set_database_number(settings.name, each.what, each.of(is));
      }
    } catch (const icecore::error&) {  // it is not served, which the other numbers tell, or was dropped meanwhile
    }
  }
  limit_used_->Add({{"limit", "limits.databases"}}).Set(static_cast<double>(there.size()));
  std::set<std::string> sick;
  for (const auto& [name, why] : from.not_ready()) sick.insert(name);
  databases_sick_->Set(static_cast<double>(sick.size()));
  for (const std::string& name : there) {
    database_sick_->Add({{"database", name}}).Set(sick.contains(name) ? 1 : 0);
  }
  // Those that were dropped are told no more.
  std::erase_if(database_gauges_, [&](const auto& known) {
    if (there.contains(known.first.first)) return false;
    databases_->Remove(known.second);
    return true;
  });
}

}  // namespace icecore::server
