#include "run/program/server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "icecore/error.hpp"
#include "run/program/named_files.hpp"
#include "run/program/translation.hpp"

namespace icecore::server {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

constexpr milliseconds for_closing_most{5000};  // of the shutdown limit, kept for closing the databases

log_level level_of(std::string_view event) noexcept {
  const bool bad = event == "database_not_served" || event == "database_not_closed" || event == "device_full";
  return bad ? log_level::error : log_level::info;
}

}  // namespace

running_server::running_server(const configuration& told, log& out, service::group_link* link)
    : told_(told),
      out_(out),
      of_grpc_([&out](bool is_error, std::string_view text) {
        out.write_limited(is_error ? log_level::warning : log_level::debug, "grpc.message", {{"text", text}});
      }),
      slow_(out, told.slow_log.over),
      callers_(told.access) {
  if (!told_.listen.http.empty()) {
    open_http();
    out_.write(log_level::info, "server.starting", {{"http", http_->address()}});
  }
  open_service(link);
  if (!told_.listen.grpc.empty()) {
    doors::grpc_door_options door = grpc_options_of(told_);
    door.observer = metrics_.of_grpc(slow_);
    grpc_.emplace(*service_, std::move(door));
    grpc_->start();
  }
  if (!told_.listen.ucx.empty()) ucx_ = open_job_door(told_, *service_, metrics_, slow_, out_);
  is_open_.store(true, std::memory_order_release);
  for (const auto& [door, address] : addresses()) {
    out_.write(log_level::info, "server.listening", {{"door", door}, {"address", address}});
  }
}

void running_server::open_service(service::group_link* link) {
  service::service_options options = service_options_of(told_);
  options.log = [this](std::string_view event, const std::vector<std::pair<std::string, std::string>>& fields) {
    // Events of the service have at most three fields.
    const auto text = [&](std::size_t i) {
      return i < fields.size() ? fields[i] : std::pair<std::string, std::string>();
    };
    const auto [first, second, third] = std::tuple(text(0), text(1), text(2));
    const std::string name = fmt::format("service.{}", event);
    switch (fields.size()) {
      case 0:
        return out_.write(level_of(event), name);
      case 1:
        return out_.write(level_of(event), name, {{first.first, first.second}});
      case 2:
        return out_.write(level_of(event), name, {{first.first, first.second}, {second.first, second.second}});
      default:
        return out_.write(level_of(event), name,
                          {{first.first, first.second}, {second.first, second.second}, {third.first, third.second}});
    }
  };
  options.link = link;
  service_.emplace(std::move(options));
  if (!told_.access.users) return;
  if (!told_.access.initial_administrator_password_file.empty()) {
    if (service_->users().ensure_root(secret_in(told_.access.initial_administrator_password_file))) {
      out_.write(log_level::info, "access.root_made");
    }
  } else if (service_->users().users(service::principal::anyone()).empty()) {
    throw error(
        errc::bad_input,
        "access.users = true, and there is no user yet: nobody could log in. Give the password of root, whom the "
        "first start makes: access.initial_administrator_password_file");
  }
}

std::string running_server::metrics_text(const http::caller& asking) {
  seen_databases seen;
  if (is_open_.load(std::memory_order_acquire)) {
    seen = callers_.seen_by(asking, *service_);
    if (ucx_) ucx_->show(metrics_);
    if (grpc_) {
      const doors::grpc_door::numbers counted = grpc_->counted();
      metrics_.show("grpc", "refused_of_user", counted.refused_of_user);
      metrics_.show("grpc", "closed_unread", counted.closed_unread);
      metrics_.show("grpc", "cut_stalled", counted.cut_stalled);
      metrics_.show_refused("grpc", "limits.connections_per_user", counted.refused_of_user);
    }
    metrics_.refresh(*service_);
  }
  return metrics_.text(seen);
}

std::vector<std::string> running_server::not_ready(const http::caller& asking) {
  if (stops_.load(std::memory_order_relaxed)) return {"the server stops"};
  if (!is_open_.load(std::memory_order_acquire)) return {"the server starts: it opens its databases"};
  const seen_databases seen = callers_.seen_by(asking, *service_);
  std::vector<std::string> all;
  std::size_t unseen = 0;
  for (const auto& [name, why] : service_->not_ready()) {
    if (seen.sees(name)) {
      all.push_back(fmt::format("database {}: {}", name, why.message));
    } else {
      ++unseen;
    }
  }
  if (unseen != 0) {
    all.push_back(
        fmt::format("databases that are not served as they should be, and whose names need a token: {}", unseen));
  }
  return all;
}

void running_server::open_http() {
  http::options door;
  door.host = told_.listen.http.host;
  door.port = told_.listen.http.port;
  door.tls = tls_files_of(told_);
  door.read_limit = duration_cast<milliseconds>(told_.limits.read_limit);
  http::sources sources;
  sources.metrics = [this](const http::caller& asking) { return metrics_text(asking); };
  sources.not_ready = [this](const http::caller& asking) { return not_ready(asking); };
  http_.emplace(std::move(door), std::move(sources), metrics_.registry(),
                [this](std::string_view event, std::string_view detail) {
                  out_.write_limited(log_level::warning, event, {{"detail", detail}});
                });
}

running_server::~running_server() {
  try {
    stop(std::chrono::steady_clock::now() + told_.server.shutdown_limit);
  } catch (const error& e) {
    out_.write(log_level::error, "server.stopping_failed", {{"why", e.message()}});
  }
}

std::vector<std::pair<std::string, std::string>> running_server::addresses() const {
  std::vector<std::pair<std::string, std::string>> all;
  if (grpc_) {
    network_address at = told_.listen.grpc;
    at.port = grpc_->port();
    all.emplace_back("grpc", at.text());
  }
  if (ucx_) all.emplace_back("ucx", ucx_->address());
  if (http_) all.emplace_back("http", http_->address());
  return all;
}

void running_server::reload() {
  out_.reopen();
  try {
    if (http_) http_->reload_tls();  // gRPC looks at the files by itself
  } catch (const error& e) {
    out_.write(log_level::error, "tls.not_reloaded", {{"why", e.message()}});
  }
  try {
    callers_.reload();
  } catch (const error& e) {
    out_.write(log_level::error, "metrics_token.not_reloaded", {{"why", e.message()}});
  }
}

// A database that is not served does not make a restart worth while: not_ready() tells of it.
std::string running_server::unwell() const { return {}; }

// The HTTP door goes last of the doors, so that probes see the server stop. A call that does not end by itself, such as
// a stream that nobody reads, is cut while there is time left for closing the databases.
void running_server::stop(std::chrono::steady_clock::time_point deadline) {
  if (!service_) return;
  stops_.store(true, std::memory_order_relaxed);
  const milliseconds limit = duration_cast<milliseconds>(told_.server.shutdown_limit);
  const auto calls_end = deadline - std::min(limit / 4, for_closing_most);
  const auto left = [&] {
    return std::max(milliseconds(0), duration_cast<milliseconds>(calls_end - std::chrono::steady_clock::now()));
  };
  // The doors beside each other, so that a slow client of one does not take the time of the other's.
  std::jthread stopping;
  if (ucx_) stopping = std::jthread([&] { ucx_->stop(left()); });
  if (grpc_) grpc_->stop(left());
  if (stopping.joinable()) stopping.join();
  http_.reset();
  grpc_.reset();  // /metrics shows its counters until then, and the other's
  ucx_.reset();
  service_->stop();
  service_.reset();
}

}  // namespace icecore::server
