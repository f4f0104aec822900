#include "link.hpp"

#include <algorithm>

#include "wire/transport/failure.hpp"

namespace icecore::remote::detail {

namespace {

[[noreturn]] void throw_failure(const wire::failure& what, const std::string& server) {
  const std::string message = "no connection to " + server + ": " + what.what();
  switch (what.reason()) {
    case wire::close_reason::wrong_token:
      throw icecore::error(errc::unauthenticated, message);
    case wire::close_reason::other_group:
      throw icecore::error(errc::other_cluster, message);
    case wire::close_reason::too_many_connections:
      throw icecore::error(errc::limit_reached, message);
    default:
      throw icecore::error(errc::unavailable, message);
  }
}

}  // namespace

void throw_answer(const wire::answer& got, const std::string& server) {
  wire::failed_answer why;
  if (got.status >= wire::status_busy || !wire::decoded(got.payload.view(), why)) {
    throw icecore::error(errc::unavailable, "the server " + server + " did not serve the request (status " +
                                                std::to_string(got.status) + "); try again");
  }
  throw icecore::error(static_cast<errc>(got.status), why.message);
}

void require_short_request(std::size_t bytes, const wire::client_endpoint& at, const std::string& server) {
  const std::uint32_t most = at.told().frame_bytes_max;
  if (bytes <= most) return;
  throw icecore::error(errc::limit_reached, "a request of " + std::to_string(bytes) + " bytes: the server " + server +
                                                " takes at most " + std::to_string(most) +
                                                " (limits.request_bytes); write less at once");
}

link::link(wire::client_settings settings, check on_connected)
    : settings_(std::move(settings)),
      on_connected_(std::move(on_connected)),
      name_(settings_.address.host + ":" + std::to_string(settings_.address.port)) {}

endpoint_pointer link::connect(steady_time deadline) {
  const std::lock_guard held(mutex_);
  return present(deadline);
}

endpoint_pointer link::connect(const std::string& database, std::uint32_t& handle, steady_time deadline) {
  const std::lock_guard held(mutex_);
  const endpoint_pointer& endpoint = present(deadline);
  handle = 0;
  if (database.empty()) return endpoint;
  const auto known = databases_.find(database);
  handle = known != databases_.end() ? known->second : open(database, deadline);
  return endpoint;
}

void link::look_up(const std::string& database, steady_time deadline) {
  const std::lock_guard held(mutex_);
  static_cast<void>(present(deadline));
  const auto known = databases_.find(database);
  const std::optional<std::uint32_t> before = known == databases_.end() ? std::nullopt : std::optional(known->second);
  const std::uint32_t handle = open(database, deadline);
  if (!before) return;
  databases_[database] = *before;  // calls with it are under way
  close(handle);
}

void link::lost(const endpoint_pointer& broken) {
  endpoint_pointer last;  // ends outside of the lock: its threads are joined
  const std::lock_guard held(mutex_);
  if (endpoint_ != broken) return;
  last = std::move(endpoint_);
  databases_.clear();
}

void link::forget(const std::string& database) {
  const std::lock_guard held(mutex_);
  const auto known = databases_.find(database);
  if (known == databases_.end()) return;
  close(known->second);
  databases_.erase(known);
}

const endpoint_pointer& link::present(steady_time deadline) {
  if (endpoint_ && endpoint_->ended() == wire::close_reason::none) return endpoint_;
  endpoint_.reset();
  databases_.clear();
  const auto now = std::chrono::steady_clock::now();
  if (now >= deadline) throw icecore::error(errc::deadline_exceeded, "no connection to " + name_ + " in time");
  wire::client_settings settings = settings_;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now);
  settings.connect_limit = std::min(settings.connect_limit, left);
  endpoint_pointer made;
  try {
    made = std::make_shared<wire::client_endpoint>(std::move(settings));
  } catch (const wire::failure& what) {
    throw_failure(what, name_);
  }
  on_connected_(*made, deadline);
  endpoint_ = std::move(made);
  return endpoint_;
}

std::uint32_t link::open(const std::string& database, steady_time deadline) {
  const wire::answer got = endpoint_->call(static_cast<std::uint16_t>(operation_number::open_database), 0,
                                           wire::encoded(wire::open_database_request{.name = database}), deadline);
  if (got.how == wire::outcome::timed_out) {
    throw icecore::error(errc::deadline_exceeded, "the server " + name_ + " did not open the database in time");
  }
  if (got.how != wire::outcome::answered)
    throw icecore::error(errc::unavailable, "the connection to " + name_ + " broke");
  const auto read = read_answer<wire::open_database_answer>(got, name_);
  databases_[database] = read.handle;
  return read.handle;
}

// Nobody waits for the answer: a handle that is not given back ends with the connection.
void link::close(std::uint32_t handle) {
  endpoint_->start(
      static_cast<std::uint16_t>(operation_number::close_database), handle,
      wire::encoded(wire::close_database_request{}), [](const wire::answer& /*none*/) {},
      std::chrono::steady_clock::now() + settings_.connect_limit);
}

}  // namespace icecore::remote::detail
