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
    links_.push_back(std::make_unique<link>(
        settings_of(addresses[i]), [this, i](wire::client_endpoint& to, steady_time by) { check_place(i, to, by); }));
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

wire::client_settings session::settings_of(wire::socket_address address) const {
  wire::client_settings settings;
  settings.address = std::move(address);
  settings.token = options_.token;
  settings.user = options_.user;
  settings.secret = options_.password;
  settings.name = options_.name;
  settings.ucx.network_devices = options_.network_devices;
  settings.connect_limit = options_.connect_limit;
  return settings;
}

wire::group_answer session::ask_place(const std::string& name, wire::client_endpoint& of, steady_time deadline) {
  const wire::answer got =
      of.call(static_cast<std::uint16_t>(operation_number::group), 0, wire::encoded(wire::group_request{}), deadline);
  if (got.how != wire::outcome::answered) {
    throw icecore::error(errc::unavailable, "the server " + name + " did not say which one of its group it is");
  }
  return read_answer<wire::group_answer>(got, name);
}

void session::check_place(std::size_t server, wire::client_endpoint& connected, steady_time deadline) {
  const std::string& name = links_[server]->name();
  const wire::group_answer told = ask_place(name, connected, deadline);
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
    learn(server, told);
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

// ---- Owners of dependent servers ----

namespace {

std::int64_t now_count() noexcept { return std::chrono::steady_clock::now().time_since_epoch().count(); }

std::int64_t count_in(std::chrono::seconds time) noexcept {
  return now_count() + std::chrono::steady_clock::duration(time).count();
}

}  // namespace

void session::learn(std::size_t server, const wire::group_answer& told) {
  constexpr std::size_t most = 65'536;
  if (!told.dependent || told.place.size <= 1 || told.place.size > most) return;
  const bool all = told.members.size() == told.place.size;
  incomplete_.store(!all, std::memory_order_relaxed);
  next_look_.store(count_in(std::chrono::seconds(1)), std::memory_order_relaxed);
  if (!all) return;
  auto made = std::make_unique<owner_map>();
  made->addresses.resize(told.place.size);
  for (const auto& member : told.members) {
    if (member.index >= told.place.size || !made->addresses[member.index].empty()) return;  // it contradicts itself
    made->addresses[member.index] = member.address;
  }
  const owner_map* const known = map_.load(std::memory_order_relaxed);
  if (known != nullptr && known->addresses == made->addresses) return;
  for (std::uint32_t i = 0; i < told.place.size; ++i) {
    auto one = owner_at(made->addresses[i], i, server, told.place.index);
    if (one == nullptr) return;
    made->owners.push_back(std::move(one));
  }
  map_.store(maps_.emplace_back(std::move(made)).get(), std::memory_order_release);
}

std::unique_ptr<session::owner> session::owner_at(const std::string& address, std::uint32_t index, std::size_t server,
                                                  std::uint32_t server_index) {
  auto made = std::make_unique<owner>();
  if (index == server_index) made->to = links_[server].get();
  for (const auto& each : links_) {
    if (made->to == nullptr && each->name() == address) made->to = each.get();
  }
  if (made->to != nullptr) return made;
  wire::client_settings settings;
  try {
    settings = settings_of(wire::parse_address(address));
  } catch (const wire::failure&) {  // forwarding does without
    return nullptr;
  }
  settings.connect_limit = std::min(settings.connect_limit, std::chrono::milliseconds(1000));
  made->own =
      std::make_unique<link>(std::move(settings), [this, index, address](wire::client_endpoint& to, steady_time by) {
        const wire::group_answer is = ask_place(address, to, by);
        if (is.dependent && is.place.index == index) return;
        throw icecore::error(errc::unavailable, "the server " + address + " is another one than the group has told");
      });
  made->to = made->own.get();
  return made;
}

std::size_t session::targets() const noexcept {
  if (independent()) return links_.size();
  const owner_map* const map = map_.load(std::memory_order_acquire);
  return map == nullptr ? 1 : 1 + map->owners.size();
}

std::size_t session::server_of(std::string_view key) const noexcept {
  if (independent()) return part_of(key);
  const owner_map* const map = map_.load(std::memory_order_acquire);
  return map == nullptr ? 0 : 1 + wire::owner_of(key, static_cast<std::uint32_t>(map->owners.size()));
}

link& session::link_of(std::size_t target) noexcept {
  if (independent()) return *links_[target];
  const owner_map* const map = target == 0 ? nullptr : map_.load(std::memory_order_acquire);
  if (map != nullptr && target <= map->owners.size()) {
    const owner& which = *map->owners[target - 1];
    const std::int64_t avoid = which.avoid_until.load(std::memory_order_relaxed);
    if (avoid == 0 || avoid < now_count()) return *which.to;
  }
  return *links_[preferred_.load(std::memory_order_relaxed)];
}

bool session::only_saves_a_hop(const link& which) const noexcept {
  return std::ranges::none_of(links_, [&](const auto& each) { return each.get() == &which; });
}

void session::look_again(steady_time deadline) {
  if (independent() || !incomplete_.load(std::memory_order_relaxed)) return;
  std::int64_t due = next_look_.load(std::memory_order_relaxed);
  const std::int64_t next = count_in(std::chrono::seconds(1));
  if (now_count() < due || !next_look_.compare_exchange_strong(due, next, std::memory_order_relaxed)) return;
  const std::size_t server = preferred_.load(std::memory_order_relaxed);
  try {
    const endpoint_pointer endpoint = links_[server]->connect(deadline);
    const wire::group_answer told = ask_place(links_[server]->name(), *endpoint, deadline);
    const std::lock_guard held(group_mutex_);
    learn(server, told);
  } catch (const icecore::error&) {  // the call itself tells what is wrong
  }
}

void session::forget(const std::string& database) {
  for (const auto& each : links_) each->forget(database);
  const owner_map* const map = map_.load(std::memory_order_acquire);
  if (map == nullptr) return;
  for (const auto& each : map->owners) each->to->forget(database);
}

void session::after_failure(const icecore::error& why, unsigned attempt, steady_time deadline, link& from) {
  if (only_saves_a_hop(from)) {  // the others lead there, too: at once
    const owner_map* const map = map_.load(std::memory_order_acquire);
    for (const auto& each : map->owners) {
      if (each->to != &from) continue;
      // Many calls may have been under way over a link that broke: the first one alone counts. Others go around it too.
      std::int64_t avoid = each->avoid_until.load(std::memory_order_relaxed);
      if (avoid > now_count()) continue;
      const unsigned failures = from.failures();
      const std::int64_t until = count_in(std::chrono::seconds(10U << std::min(6U, failures)));
      if (!each->avoid_until.compare_exchange_strong(avoid, until, std::memory_order_relaxed)) continue;
      if (why.code() == errc::unavailable) from.set_failures(failures + 1);
    }
    if (std::chrono::steady_clock::now() >= deadline) throw why;
    return;
  }
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
  if (answered && !refused && !dropped) {
    if (to.failures() != 0) to.set_failures(0);
    return true;
  }
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
                deadline, to);
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
