#include "service/service.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <system_error>

#include "icecore/error.hpp"
#include "service/json_text.hpp"
#include "service/owner.hpp"
#include "service/state.hpp"

namespace icecore::service {
namespace {

using namespace std::chrono_literals;
using json = nlohmann::json;

void require_name(std::string_view name) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); };
  const bool good = !name.empty() && name.size() <= 255 && plain(name.front()) &&
                    std::ranges::all_of(name, [&](char c) { return plain(c) || c == '.' || c == '_' || c == '-'; });
  if (good) return;
  throw icecore::error(
      errc::invalid_argument,
      "a database's name has 1 to 255 letters, digits and '.', '_' or '-', and begins with a letter or digit");
}

std::string order_text(std::string_view kind, std::string_view name, json with) {
  return json_text(json{{"do", kind}, {"database", name}, {"with", std::move(with)}});
}

void require_settings(const database_settings& settings) {
  require_name(settings.name);
  static_cast<void>(text_of(settings));  // what the catalog cannot keep is refused before anything changes
  if (settings.interval < 1ms || settings.interval > 24h) {
    throw icecore::error(
        errc::invalid_argument,
        fmt::format("an interval of {} ms: versions are closed every 1 ms to every day", settings.interval.count()));
  }
}

}  // namespace

service::service(service_options opening) {
  std::error_code error;
  std::filesystem::create_directories(opening.data / "databases", error);
  if (error) {
    throw icecore::error(errc::io,
                         fmt::format("{}: the data folder cannot be made: {}", opening.data.native(), error.message()));
  }
  state_ = std::make_unique<state>(std::move(opening));
  state_->look_at_device();
  state_->looks_at_device = state_->syncing.every(1s, [it = state_.get()] { it->look_at_device(); });
  state_->open_all();
  state_->remove_orphans();
  if (state_->options.link != nullptr) {
    state_->options.link->executes([it = state_.get()](const std::string& order) { return it->execute(order); });
  }
}

service::~service() {
  try {
    stop();
  } catch (const icecore::error&) {  // whoever wants to know calls stop()
  }
}

const service_options& service::options() const noexcept { return state_->options; }

void service::require_owner(std::string_view key) const {
  const group_place& here = state_->options.group;
  if (state_->options.link != nullptr || here.size <= 1) return;
  const std::uint32_t owner = owner_of(key, here.size);
  if (owner == here.index) return;
  throw icecore::error(
      errc::not_owner,
      fmt::format("the key belongs to server {} of the group \"{}\", and this is server {}: ask that one", owner,
                  here.name, here.index));
}

access& service::users() noexcept { return state_->users; }
executor& service::threads() noexcept { return state_->blocking; }
const std::string& service::identity() const noexcept { return state_->known.identity(); }
gauge& service::in_flight_bytes() noexcept { return state_->in_flight; }
gauge& service::connections() noexcept { return state_->connections; }
gauge& service::strangers_bytes() noexcept { return state_->strangers_bytes; }
gauge& service::watches() noexcept { return state_->watches; }
gauge& service::health_watches() noexcept { return state_->health_watches; }
gauge& service::open_scans() noexcept { return state_->scans; }
refusals& service::refused() noexcept { return state_->refused; }

// ---- Databases ----

std::shared_ptr<database> service::create(const principal& who, database_settings settings) {
  require_settings(settings);
  who.require(settings.name, {}, icecore::key_bounds{}, right::administer);
  if (settings.owner.empty()) settings.owner = who.name();
  if (state_->options.link != nullptr) {
    state_->options.link->everywhere(order_text("create", settings.name, json::parse(text_of(settings))));
  } else {
    state_->create_here(settings);
  }
  state_->log("database_created", {{"database", settings.name}, {"user", who.name()}});
  return find_database(principal::anyone(), settings.name);
}

std::shared_ptr<database> service::find_database(const principal& who, std::string_view name) {
  return find_numbered(who, name).open;
}

numbered_database service::find_numbered(const principal& who, std::string_view name) {
  const std::lock_guard lock(state_->mutex);
  state_->require_running();
  const auto found = state_->databases.find(name);
  if (found == state_->databases.end() || !state_->may_see(who, found->second.entry)) deny(name);
  if (found->second.open == nullptr) {
    throw icecore::error(errc::unavailable,
                         fmt::format("the database '{}' is not served: {}", name, found->second.why->message));
  }
  return {.open = found->second.open, .number = found->second.entry.number};
}

std::vector<database_settings> service::list(const principal& who) {
  const std::lock_guard lock(state_->mutex);
  state_->require_running();
  std::vector<database_settings> seen;
  for (const auto& [name, next] : state_->databases) {
    if (state_->may_see(who, next.entry)) seen.push_back(next.entry.settings);
  }
  return seen;
}

// Unless somebody has dropped it meanwhile, and made another one of that name.
void service::forget_copy(const std::shared_ptr<database>& made, const std::string& name) {
  try {
    if (find_database(principal::anyone(), name) == made) drop(principal::anyone(), name);
  } catch (const icecore::error&) {  // it is gone; why the copy failed is to be told
  }
}

std::shared_ptr<database> service::copy(const principal& who, std::string_view from, const point& at,
                                        database_settings settings) {
  std::shared_ptr<database> source;
  {
    const std::lock_guard lock(state_->mutex);
    source = state_->require(who, from, right::read).open;
  }
  if (source == nullptr) throw icecore::error(errc::unavailable, fmt::format("the database '{}' is not served", from));
  const auto rows =
      source->scan({.at = at});  // before the copy is there, so that what is wrong with `at` leaves nothing
  const std::string name = settings.name;
  std::shared_ptr<database> made = create(who, std::move(settings));
  try {
    for (row_block block; rows->next(block, {.rows = 4096, .bytes = std::size_t{4} << 20});) made->load(block, false);
    made->sync();
  } catch (...) {
    forget_copy(made, name);
    throw;
  }
  return made;
}

void service::change(const principal& who, std::string_view name, const changed_settings& what) {
  {
    const std::lock_guard lock(state_->mutex);
    database_settings wanted = state_->require(who, name, right::administer).entry.settings;
    apply(what, wanted);
    require_settings(wanted);
  }
  if (state_->options.link == nullptr) {
    state_->change_here(name, what);
    return;
  }
  json changes = json::object();
  if (what.rule) changes["rule"] = text_of(*what.rule);
  if (what.interval) changes["interval_ms"] = what.interval->count();
  if (what.quota_bytes) changes["quota_bytes"] = *what.quota_bytes;
  if (what.owner) changes["owner"] = *what.owner;
  state_->options.link->everywhere(order_text("change", name, std::move(changes)));
}

void service::drop(const principal& who, std::string_view name) {
  {
    const std::lock_guard lock(state_->mutex);
    static_cast<void>(state_->require(who, name, right::administer));
  }
  if (state_->options.link != nullptr) {
    state_->options.link->everywhere(order_text("drop", name, json::object()));
  } else {
    state_->drop_here(name);
  }
  state_->log("database_dropped", {{"database", std::string(name)}, {"user", who.name()}});
}

// What the servers of a group do together; permissions were asked for by the server that gave the order.
std::string service::state::execute(const std::string& order) {
  const json what = json::parse(order);
  const std::string kind = what.at("do").get<std::string>();
  const std::string name = what.at("database").get<std::string>();
  const json& with = what.at("with");
  if (kind == "create") {
    database_settings settings = settings_of("order", with.dump());
    settings.name = name;
    create_here(settings);
  } else if (kind == "change") {
    changed_settings changes;
    if (with.contains("rule")) changes.rule = rule_of(with.at("rule").get<std::string>());
    if (with.contains("interval_ms"))
      changes.interval = std::chrono::milliseconds(with.at("interval_ms").get<std::int64_t>());
    if (with.contains("quota_bytes")) changes.quota_bytes = with.at("quota_bytes").get<std::uint64_t>();
    if (with.contains("owner")) changes.owner = with.at("owner").get<std::string>();
    change_here(name, changes);
  } else if (kind == "drop") {
    drop_here(name);
  } else if (kind == "users") {
    users.execute(with.dump());
  } else if (kind == "address") {
    const std::lock_guard lock(mutex);
    addresses[with.at("index").get<std::uint32_t>()] = with.at("address").get<std::string>();
  } else if (kind == "snapshot") {
    return snapshots->execute(with.at("step").get<std::string>(), with.at("to").get<std::string>());
  } else {
    throw icecore::error(errc::bad_input, fmt::format("an unknown order '{}'", kind));
  }
  return {};
}

// ---- Snapshots of the service ----

snapshot_report service::write_snapshot(const principal& who, const std::filesystem::path& to,
                                        const icecore::progress_function& on_progress) {
  if (!who.is_root()) throw icecore::error(errc::denied, "only the role root may write snapshots of the service");
  // The kernel would take the path to end at a zero byte, and another folder would be written.
  if (to.empty() || to.native().find('\0') != std::string::npos) {
    throw icecore::error(errc::invalid_argument, "say the folder that the snapshot is to be, without zero bytes");
  }
  snapshot_report report;
  if (state_->snapshots) {
    report = state_->write_group_snapshot(to, on_progress);
  } else {
    const std::lock_guard one_at_a_time(state_->writing_snapshot);
    report = write_snapshot_of_server({.identity = identity(),
                                       .place = state_->options.group,
                                       .to = to,
                                       .capture = [this] { return state_->capture(); },
                                       .look = [this] { state_->require_running_now(); }},
                                      on_progress);
  }
  state_->log("snapshot_written", {{"folder", to.native()}, {"databases", std::to_string(report.parts.size())}});
  return report;
}

// The servers of a group close a database together when it is dropped, and with it what a snapshot has yet to write of
// it. Then the snapshot begins anew, and has what is there at its new instant.
snapshot_report service::state::write_group_snapshot(const std::filesystem::path& to,
                                                     const icecore::progress_function& on_progress) {
  constexpr int attempts = 10;
  for (int attempt = 1;; ++attempt) {
    try {
      return snapshots->write(to, on_progress);
    } catch (const icecore::error& e) {
      if (e.code() != errc::closed) throw;
      if (attempt < attempts) continue;
      throw icecore::error(errc::unavailable, fmt::format("databases were dropped while the snapshot was written, in "
                                                          "each of {} attempts: {}",
                                                          attempts, e.message()));
    }
  }
}

std::vector<snapshot_part> service::state::capture() {
  const std::lock_guard one_at_a_time(making);
  return captured(all_served(), known.store());
}

std::vector<snapshot_source> service::state::all_served() const {
  const std::lock_guard lock(mutex);
  require_running();
  std::vector<snapshot_source> all;
  for (const auto& [name, next] : databases) {
    if (next.open == nullptr) {
      throw icecore::error(errc::unavailable, fmt::format("the database '{}' is not served ({}), so no snapshot of the "
                                                          "service can be complete; repair or drop it first",
                                                          name, next.why->message));
    }
    all.push_back({.name = name, .number = next.entry.number, .open = next.open});
  }
  return all;
}

// ---- Groups ----

void service::announce(const std::string& address) {
  group_link* const link = state_->options.link;
  if (link == nullptr) return;
  link->everywhere(order_text("address", "", json{{"index", link->index()}, {"address", address}}));
}

std::map<std::uint32_t, std::string> service::announced() const {
  const std::lock_guard lock(state_->mutex);
  return state_->addresses;
}

// ---- Seeing inside, and stopping ----

std::vector<std::pair<std::string, failure>> service::not_ready() const {
  std::vector<std::pair<std::string, failure>> sick;
  std::vector<std::pair<std::string, std::shared_ptr<database>>> served;
  {
    const std::lock_guard lock(state_->mutex);
    for (const auto& [name, next] : state_->databases) {
      if (next.open == nullptr) {
        sick.emplace_back(name, *next.why);
      } else {
        served.emplace_back(name, next.open);
      }
    }
  }
  for (const auto& [name, database] : served) {
    if (const auto why = database->sickness()) sick.emplace_back(name, *why);
  }
  return sick;
}

void service::stop() {
  if (state_ == nullptr) return;
  std::map<std::string, state::served, std::less<>> closing;
  {
    const std::lock_guard lock(state_->mutex);
    if (std::exchange(state_->stopped, true)) return;
    closing.swap(state_->databases);
  }
  state_->looks_at_device = {};
  state_->snapshots.reset();
  {
    const std::lock_guard written(state_->writing_snapshot);  // it is given up at its next look
  }
  std::optional<failure> first;
  for (auto& [name, next] : closing) {
    if (next.open == nullptr) continue;
    try {
      next.open->close();
    } catch (...) {
      failure why = failure_of(std::current_exception());
      state_->log("database_not_closed", {{"database", name}, {"why", why.message}});
      if (!first) first = std::move(why);
    }
  }
  state_->known.store().sync();
  if (first) raise(*first);
}

}  // namespace icecore::service
