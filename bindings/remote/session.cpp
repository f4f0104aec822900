#include "session.hpp"

#include <algorithm>
#include <thread>

#include "wire/transport/failure.hpp"

namespace icecore::remote::detail {

namespace {

constexpr std::string_view scheme = "ucx://";

std::vector<wire::socket_address> addresses_of(std::string_view text) {
  std::string_view rest = text;
  if (!rest.starts_with(scheme)) {
    throw icecore::error(errc::invalid_argument, "the address \"" + std::string(text) +
                                                     "\" is not understood: write ucx://HOST:PORT, or a list "
                                                     "ucx://HOST:PORT,HOST:PORT");
  }
  rest.remove_prefix(scheme.size());
  std::vector<wire::socket_address> found;
  for (;;) {
    const std::size_t comma = rest.find(',');
    try {
      found.push_back(wire::parse_address(std::string(rest.substr(0, comma))));
    } catch (const wire::failure& what) {
      throw icecore::error(errc::invalid_argument, "in the address \"" + std::string(text) + "\": " + what.what());
    }
    if (comma == std::string_view::npos) return found;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace

session::session(std::string_view address, const options& opening) : options_(opening), group_name_(opening.group) {
  const std::vector<wire::socket_address> addresses = addresses_of(address);
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    wire::client_settings settings;
    settings.address = addresses[i];
    settings.token = options_.token;
    settings.user = options_.user;
    settings.secret = options_.password;
    settings.name = options_.name;
    settings.ucx.network_devices = options_.network_devices;
    settings.connect_limit = options_.connect_limit;
    links_.push_back(std::make_unique<link>(
        std::move(settings), [this, i](wire::client_endpoint& to, steady_time by) { check_place(i, to, by); }));
  }
  // A list that is wrong is refused here, not at the first key of a server that is not the one that was meant.
  const steady_time deadline = in(std::min(options_.deadline, options_.connect_limit));
  if (independent()) {
    for (const auto& each : links_) static_cast<void>(each->connect(deadline));
    return;
  }
  for (std::size_t i = 0; i < links_.size(); ++i) {
    try {
      static_cast<void>(links_[i]->connect(deadline));
      preferred_.store(i, std::memory_order_relaxed);
      return;
    } catch (const icecore::error& why) {
      if (why.code() != errc::unavailable || i + 1 == links_.size()) throw;
    }
  }
}

void session::check_place(std::size_t server, wire::client_endpoint& connected, steady_time deadline) {
  const std::string& name = links_[server]->name();
  const wire::answer got = connected.call(static_cast<std::uint16_t>(operation_number::group), 0,
                                          wire::encoded(wire::group_request{}), deadline);
  if (got.how != wire::outcome::answered) {
    throw icecore::error(errc::unavailable, "the server " + name + " did not say which one of its group it is");
  }
  const auto told = read_answer<wire::group_answer>(got, name);
  const std::string where = "the server " + name + " says that it is number " + std::to_string(told.place.index) +
                            " of " + std::to_string(told.place.size) + " servers of the group \"" + told.place.name +
                            "\"";
  const std::lock_guard held(group_mutex_);
  if (!independent()) {
    if (!group_name_.empty() && told.place.name != group_name_) {
      throw icecore::error(errc::other_cluster, where + ", not of \"" + group_name_ + "\"");
    }
    if (told.place.size > 1 && !told.dependent) {
      throw icecore::error(errc::other_cluster,
                           where + ", which are independent: give the list of all of them, and that grouping");
    }
    return;
  }
  if (told.dependent) throw icecore::error(errc::other_cluster, where + ", which are dependent: choose that grouping");
  if (told.place.size != links_.size() || told.place.index != server) {
    throw icecore::error(errc::other_cluster, where + ", but in the list it is number " + std::to_string(server) +
                                                  " of " + std::to_string(links_.size()) +
                                                  ": give all servers, in the order of their numbers");
  }
  if (group_name_.empty()) group_name_ = told.place.name;
  if (group_name_ != told.place.name) {
    throw icecore::error(errc::other_cluster, where + ", but it must be of the group \"" + group_name_ + "\"");
  }
}

void session::after_failure(const icecore::error& why, unsigned attempt, steady_time deadline) {
  const bool worth_it = why.code() == errc::unavailable;
  const auto pause = std::chrono::milliseconds(std::min(1000U, 10U << std::min(attempt, 7U)));
  if (!worth_it || std::chrono::steady_clock::now() + pause >= deadline) throw why;
  if (!independent() && links_.size() > 1) {
    preferred_.store((preferred_.load(std::memory_order_relaxed) + 1) % links_.size(), std::memory_order_relaxed);
  }
  std::this_thread::sleep_for(pause);
}

bool session::settle(const wire::answer& got, link& to, const endpoint_pointer& endpoint, bool repeatable,
                     unsigned attempt, steady_time deadline) {
  const bool answered = got.how == wire::outcome::answered;
  // The server has taken none of these; a dropped request it may have begun.
  const bool refused = answered && (got.status == wire::status_busy || got.status == wire::status_stopping);
  const bool dropped = answered && got.status == wire::status_dropped;
  if (answered && !refused && !dropped) return true;
  if (got.how == wire::outcome::timed_out) {
    throw icecore::error(errc::deadline_exceeded, "the server " + to.name() + " did not answer in time");
  }
  const bool harmless = repeatable || refused || wire::may_be_repeated(got.how);
  if (!answered || got.status == wire::status_stopping) to.lost(endpoint);
  if (!harmless) {
    throw icecore::error(errc::outcome_unknown, "the connection to " + to.name() +
                                                    " broke before it answered: the write may have taken effect");
  }
  after_failure(icecore::error(errc::unavailable, "the server " + to.name() + " does not answer now"), attempt,
                deadline);
  return false;
}

std::size_t database::only_part(const char* what) const {
  if (all->parts() == 1) return 0;
  throw icecore::error(errc::invalid_argument,
                       std::string(what) +
                           " of several independent servers: a version of one means nothing to the "
                           "others; read at a tag's name, or ask each server by itself");
}

}  // namespace icecore::remote::detail
