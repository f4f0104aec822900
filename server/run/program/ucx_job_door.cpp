#include "doors/ucx/door.hpp"

#include <array>
#include <atomic>

#include "icecore/error.hpp"
#include "run/program/job_door.hpp"
#include "run/program/named_files.hpp"

namespace icecore::server {
namespace {

std::string outcome_of(std::uint16_t status) {
  if (status == 0) return "OK";
  return status < 0xFF00U ? "error_" + std::to_string(status) : "not_served";
}

/// Counts calls. Requests are short, a microsecond or two, so their series are found without a lock.
class observer final : public doors::ucx_observer {
 public:
  observer(server_metrics& into, slow_log& slow, log& out) : into_(into), slow_(slow), out_(out) {}

  void finished(const doors::ucx_call_report& what) noexcept override {
    try {
      count(what);
      const auto took = std::chrono::duration_cast<std::chrono::microseconds>(what.took);
      // It waits as long as its client wants.
      if (!slow_.is_slow(took) || what.name == "next_changes") return;
      slow_.record(
          {.door = "ucx",
           .operation = what.name,
           .user = what.user,
           .trace = what.program,
           .outcome = outcome_of(what.status),
           .duration = took,
           .parts = finished_request::known_parts{
               .database = what.database, .request_bytes = what.request_bytes, .answer_bytes = what.answer_bytes}});
    } catch (...) {  // a call that could not be counted has still ended well
    }
  }
  void warned(std::string_view text) noexcept override {
    try {
      out_.write_limited(log_level::warning, "ucx.warning", {{"detail", text}});
    } catch (...) {
    }
  }

 private:
  static constexpr std::size_t operations = 128;

  void count(const doors::ucx_call_report& what) {
    if (what.status != 0 || what.operation >= operations) {
      return into_.count_call("ucx", what.name, outcome_of(what.status), what.took);
    }
    // Acquire, and release below: who finds the pointer sees the series. Two that miss at once find the same one.
    std::atomic<const server_metrics::call_series*>& known = well_[what.operation];
    const server_metrics::call_series* series = known.load(std::memory_order_acquire);
    if (series == nullptr) {
      series = &into_.series_of("ucx", what.name, "OK");
      known.store(series, std::memory_order_release);
    }
    series->count(what.took);
  }

  server_metrics& into_;
  slow_log& slow_;
  log& out_;
  std::array<std::atomic<const server_metrics::call_series*>, operations> well_{};
};

doors::ucx_transports transports_of(ucx_transport which) noexcept {
  switch (which) {
    case ucx_transport::shared_memory:
      return doors::ucx_transports::shared_memory;
    case ucx_transport::tcp:
      return doors::ucx_transports::tcp;
    case ucx_transport::automatic:
      break;
  }
  return doors::ucx_transports::automatic;
}

class ucx_job_door final : public job_door {
 public:
  ucx_job_door(const configuration& told, service::service& all, server_metrics& metrics, slow_log& slow, log& out)
      : at_(told.listen.ucx),
        door_(all, {.host = told.listen.ucx.host,
                    .port = told.listen.ucx.port,
                    .token = secret_in(told.ucx.token_file, job_token_bytes_min),
                    .transports = transports_of(told.ucx.transport),
                    .server_name = told.server.name,
                    .observer = std::make_shared<observer>(metrics, slow, out)}) {
    door_.start();
    at_.port = door_.port();
  }
  [[nodiscard]] std::string address() const override { return at_.text(); }
  void stop(std::chrono::milliseconds limit) override { door_.stop(limit); }
  void show(server_metrics& in) const override {
    const doors::ucx_door_counters is = door_.counters();
    in.show("ucx", "connections_open", is.connections_open);
    in.show("ucx", "connections_accepted", is.connections_accepted);
    in.show("ucx", "requests", is.requests);
    in.show("ucx", "refused_busy", is.refused_busy);
    in.show("ucx", "refused_tokens", is.refused_tokens);
    in.show("ucx", "closed_malformed", is.closed_malformed);
    in.show("ucx", "closed_over_limit", is.closed_over_limit);
    in.show("ucx", "closed_not_reading", is.closed_not_reading);
    in.show_refused("ucx", "limits.request_bytes", is.closed_over_limit);
    in.show_refused("ucx", "limits.output_bytes", is.closed_not_reading);
    in.show_refused("ucx", "limits.in_flight_bytes", is.refused_busy);
    in.show_refused("ucx", "limits.connections", is.refused_full);
  }

 private:
  network_address at_;
  doors::ucx_door door_;
};

}  // namespace

std::unique_ptr<job_door> open_job_door(const configuration& told, service::service& all, server_metrics& metrics,
                                        slow_log& slow, log& out) {
  return std::make_unique<ucx_job_door>(told, all, metrics, slow, out);
}

}  // namespace icecore::server
