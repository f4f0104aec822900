#include "run/program/server.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "icecore/error.hpp"
#include "run/program/translation.hpp"

namespace icecore::server {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

log_level level_of(std::string_view event) noexcept {
  const bool bad = event == "database_not_served" || event == "database_not_closed" || event == "device_full";
  return bad ? log_level::error : log_level::info;
}

}  // namespace

std::string secret_in(const file_reference& file) {
  constexpr std::size_t most = 4096;
  const std::filesystem::path path = file.path();
  std::ifstream in(path, std::ios::binary);
  if (!in) throw error(errc::io, fmt::format("{}: cannot be read: {}", path.native(), std::strerror(errno)));
  std::string text(std::istreambuf_iterator<char>(in), {});
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  if (text.empty() || text.size() > most) {
    throw error(errc::bad_input, fmt::format("{}: a secret has 1 to {} bytes in one line, and this has {}",
                                             path.native(), most, text.size()));
  }
  return text;
}

running_server::running_server(const configuration& told, log& out)
    : told_(told), out_(out), slow_(out, told.slow_log.over) {
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
  service_.emplace(std::move(options));
  if (told_.access.users && !told_.access.initial_administrator_password_file.empty()) {
    if (service_->users().ensure_root(secret_in(told_.access.initial_administrator_password_file))) {
      out_.write(log_level::info, "access.root_made");
    }
  }
  if (!told_.listen.grpc.empty()) {
    doors::grpc_door_options door = grpc_options_of(told_);
    door.observer = metrics_.of_grpc(slow_);
    grpc_.emplace(*service_, std::move(door));
    grpc_->start();
  }
  for (const auto& [door, address] : addresses()) {
    out_.write(log_level::info, "server.listening", {{"door", door}, {"address", address}});
  }
}

running_server::~running_server() {
  try {
    stop();
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
  return all;
}

void running_server::reload() { out_.reopen(); }

void running_server::stop() {
  if (!service_) return;
  out_.write(log_level::info, "server.stopping");
  if (grpc_) grpc_->stop(duration_cast<milliseconds>(told_.server.shutdown_limit));
  grpc_.reset();
  service_->stop();
  service_.reset();
  out_.write(log_level::info, "server.stopped");
}

}  // namespace icecore::server
