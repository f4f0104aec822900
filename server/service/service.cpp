#include "service/service.hpp"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <thread>

#include "icecore/error.hpp"
#include "service/catalog.hpp"
#include "service/names.hpp"
#include "service/snapshot/writing.hpp"
#include "service/store_database.hpp"

namespace icecore::service {
namespace {

using namespace std::chrono_literals;
using json = nlohmann::json;

unsigned threads_of(unsigned asked) {
  return asked != 0 ? asked : std::max(4U, 2 * std::max(1U, std::thread::hardware_concurrency()));
}

void require_name(std::string_view name) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); };
  const bool good = !name.empty() && name.size() <= 255 && plain(name.front()) &&
                    std::ranges::all_of(name, [&](char c) { return plain(c) || c == '.' || c == '_' || c == '-'; });
  if (good) return;
  throw icecore::error(
      errc::invalid_argument,
      "a database's name has 1 to 255 letters, digits and '.', '_' or '-', and begins with a letter or digit");
}

void apply(const changed_settings& what, database_settings& to) {
  if (what.rule) to.rule = *what.rule;
  if (what.interval) to.interval = *what.interval;
  if (what.quota_bytes) to.quota_bytes = *what.quota_bytes;
  if (what.owner) to.owner = *what.owner;
}

std::string order_text(std::string_view kind, std::string_view name, json with) {
  return json{{"do", kind}, {"database", name}, {"with", std::move(with)}}.dump();
}

void require_settings(const database_settings& settings) {
  require_name(settings.name);
  if (settings.interval < 1ms || settings.interval > 24h) {
    throw icecore::error(
        errc::invalid_argument,
        fmt::format("an interval of {} ms: versions are closed every 1 ms to every day", settings.interval.count()));
  }
}

}  // namespace

struct service::state {
  explicit state(service_options asked)
      : options(std::move(asked)),
        in_flight("limits.in_flight_bytes", options.limits.in_flight_bytes),
        connections("limits.connections", options.limits.connections),
        watches("limits.watchers", options.limits.watches),
        scans("limits.open_scans", options.limits.open_scans),
        known(agreed(options)),
        users(known.store(), options.users, std::chrono::hours(12), options.link),
        syncing(threads_of(options.threads)),
        blocking(threads_of(options.threads)) {
    if (options.link == nullptr) return;
    snapshots.emplace(group_snapshots::parts{.link = options.link,
                                             .pool = &blocking,
                                             .catalog = &known.store(),
                                             .identity = known.identity(),
                                             .place = options.group,
                                             .databases = [this] { return all_served(); }});
  }
  // The catalog; in a group it has what the first server's has. A server that died while an order was executed may have
  // missed what the first one has done of it, or have done what that one has not.
  static catalog agreed(const service_options& options);

  struct served {
    std::shared_ptr<database> open;  // empty: it could not be opened
    std::optional<failure> why;
    catalog_entry entry;
  };

  void log(std::string_view event, const std::vector<std::pair<std::string, std::string>>& fields) const {
    if (options.log) options.log(event, fields);
  }
  [[nodiscard]] std::filesystem::path folder(std::uint64_t number) const {
    return options.link != nullptr ? options.link->folder(number) : options.data / "databases" / std::to_string(number);
  }
  [[nodiscard]] database_environment environment() {
    return {.pool = &syncing,
            .device_has_room = [this] { return has_room.load(std::memory_order_relaxed); },
            .leases_most = options.limits.leases};
  }
  void look_at_device() {
    struct statvfs now {};
    if (::statvfs(options.data.c_str(), &now) != 0) return;
    const std::uint64_t free = std::uint64_t{now.f_bavail} * now.f_frsize;
    const bool room = free >= options.limits.free_disk_bytes;
    if (has_room.exchange(room, std::memory_order_relaxed) != room) {
      log(room ? "device_has_room" : "device_full", {{"free_bytes", std::to_string(free)}});
    }
  }
  void require_running() const {
    if (stopped) throw icecore::error(errc::unavailable, "the server is stopping");
  }
  served& require(const principal& who, std::string_view name, right what) {
    require_running();
    const auto found = databases.find(name);
    if (found == databases.end() ||
        !who.allows(name, found->second.entry.settings.owner, icecore::key_bounds{}, what)) {
      deny(name);
    }
    return found->second;
  }
  [[nodiscard]] bool may_see(const principal& who, const catalog_entry& entry) const {
    const database_settings& s = entry.settings;
    return who.knows(s.name, s.owner);
  }
  void open_all();
  // What create(), change() and drop() do on this server, once it is known that the user may.
  void create_here(const database_settings& settings);
  void change_here(std::string_view name, const changed_settings& what);
  void drop_here(std::string_view name);
  std::string execute(const std::string& order);
  [[nodiscard]] std::vector<snapshot_source> all_served() const;
  void remove_orphans() const;
  std::shared_ptr<database> make(const catalog_entry& entry);

  service_options options;
  gauge in_flight;
  gauge connections;
  gauge watches;
  gauge scans;
  catalog known;
  access users;
  executor syncing;   // appliers, syncs and timers: its tasks wait for devices alone
  executor blocking;  // what doors do that may wait for the other one
  std::atomic<bool> has_room{true};
  mutable std::mutex mutex;  // databases, stopped; never held while a device is waited for, but by make and drop
  std::map<std::string, served, std::less<>> databases;
  std::map<std::uint32_t, std::string> addresses;  // of the group's servers; guarded by `mutex`, too
  bool stopped = false;
  std::mutex making;  // one database is made, copied or dropped at a time
  std::optional<group_snapshots> snapshots;
  executor::repetition looks_at_device;
};

namespace {

bool is_number(const std::string& name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0; });
}

// Where the databases' folders are.
std::filesystem::path folders_of(const service_options& options) {
  return options.link != nullptr ? options.link->folder(0).parent_path() : options.data / "databases";
}

// Without the catalog nobody knows what the databases are, and a new one would give their numbers away again. Of a
// group it is the first server's that counts.
void require_catalog(const service_options& options) {
  std::error_code ignored;
  if (options.link != nullptr && options.link->index() != 0) return;
  if (std::filesystem::exists(options.data / "catalog.ice", ignored)) return;
  for (const auto& found : std::filesystem::directory_iterator(folders_of(options), ignored)) {
    if (!is_number(found.path().filename())) continue;
    throw icecore::error(errc::damaged, fmt::format("{}: the catalog is missing, and there are databases (such as {}): "
                                                    "put catalog.ice back, or restore a snapshot",
                                                    options.data.native(), found.path().native()));
  }
}

}  // namespace

catalog service::state::agreed(const service_options& options) {
  std::optional<catalog> mine;
  std::optional<failure> failed;
  const auto attempt = [&](const auto& what) {
    try {
      what();
    } catch (...) {
      if (!failed) failed = failure_of(std::current_exception());
    }
  };
  attempt([&] {
    require_catalog(options);
    mine.emplace(options.data / "catalog.ice");
    mine->require_place(options.group);
  });
  if (options.link != nullptr) {
    options.link->agree(failed);
    const std::string theirs = options.link->of_first(options.link->index() == 0 ? mine->shared_records() : "");
    attempt([&] {
      if (options.link->index() != 0) mine->take_shared_records(theirs);
    });
    options.link->agree(failed);
  }
  if (failed) raise(*failed);
  return std::move(*mine);
}

void service::state::open_all() {
  for (const catalog_entry& entry : known.databases()) {
    served next{.open = nullptr, .why = std::nullopt, .entry = entry};
    try {
      next.open = make(entry);
    } catch (...) {
      next.why = failure_of(std::current_exception());
      log("database_not_served", {{"database", entry.settings.name}, {"why", next.why->message}});
    }
    databases.emplace(entry.settings.name, std::move(next));
  }
}

std::shared_ptr<database> service::state::make(const catalog_entry& entry) {
  if (options.link != nullptr) return options.link->open(folder(entry.number), entry.settings);
  return std::make_shared<store_database>(folder(entry.number) / "store.ice", entry.settings, environment());
}

// A folder that the catalog does not name was being made or dropped when the server died. Of a group the first server
// removes it: no order is executed before that one takes orders, so nobody makes a database meanwhile.
void service::state::remove_orphans() const {
  std::error_code ignored;
  if (options.link != nullptr && options.link->index() != 0) return;
  for (const auto& found : std::filesystem::directory_iterator(folders_of(options), ignored)) {
    const std::string name = found.path().filename();
    const bool named = std::ranges::any_of(
        databases, [&](const auto& next) { return std::to_string(next.second.entry.number) == name; });
    if (named || !is_number(name)) continue;
    log("folder_removed", {{"folder", found.path()}});
    std::filesystem::remove_all(found.path(), ignored);
  }
}

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
access& service::users() noexcept { return state_->users; }
executor& service::threads() noexcept { return state_->blocking; }
const std::string& service::identity() const noexcept { return state_->known.identity(); }
gauge& service::in_flight_bytes() noexcept { return state_->in_flight; }
gauge& service::connections() noexcept { return state_->connections; }
gauge& service::watches() noexcept { return state_->watches; }
gauge& service::open_scans() noexcept { return state_->scans; }

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

void service::state::create_here(const database_settings& settings) {
  const std::lock_guard one_at_a_time(making);
  {
    const std::lock_guard lock(mutex);
    require_running();
    if (databases.contains(settings.name)) {
      throw icecore::error(errc::database_exists, fmt::format("a database named '{}' exists already", settings.name));
    }
    if (databases.size() >= options.limits.databases) {
      throw icecore::error(
          errc::limit_reached,
          fmt::format("the server has {} databases, as many as limits.databases allows", databases.size()));
    }
  }
  const catalog_entry entry{.number = known.next_number(), .settings = settings};
  const std::filesystem::path place = folder(entry.number);
  std::shared_ptr<database> made;
  try {
    std::filesystem::create_directories(place);
    made = make(entry);
    if (options.link == nullptr) made->sync();  // a group's is durable when it is made
    // The store has synced its file and its folder; the folder's own name, and that of the folder around it, which
    // this or an earlier process has made, are durable before the catalog names the database.
    keep_names_in(place.parent_path());
    keep_names_in(place.parent_path().parent_path());
    known.put(entry);  // from here on it is there
  } catch (...) {
    made.reset();
    std::error_code ignored;
    std::filesystem::remove_all(place, ignored);
    throw;
  }
  const std::lock_guard lock(mutex);
  databases.emplace(settings.name, served{.open = made, .why = std::nullopt, .entry = entry});
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

void service::state::change_here(std::string_view name, const changed_settings& what) {
  const std::lock_guard one_at_a_time(making);
  std::shared_ptr<database> found;
  catalog_entry entry{};
  {
    const std::lock_guard lock(mutex);
    const served& is = require(principal::anyone(), name, right::administer);
    found = is.open;
    entry = is.entry;
  }
  apply(what, entry.settings);
  if (found != nullptr) found->change(what);
  known.put(entry);
  const std::lock_guard lock(mutex);
  databases.find(name)->second.entry = entry;
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

void service::state::drop_here(std::string_view name) {
  const std::lock_guard one_at_a_time(making);
  std::shared_ptr<database> found;
  std::filesystem::path place;
  {
    const std::lock_guard lock(mutex);
    const served& is = require(principal::anyone(), name, right::administer);
    found = is.open;
    place = folder(is.entry.number);
    known.remove(name);  // from here on it is gone
    databases.erase(databases.find(name));
  }
  if (found != nullptr) found->close();
  std::error_code error;
  std::filesystem::remove_all(place, error);
  // Servers of one node remove one folder together: what one does not find, or finds changed, another one has removed.
  for (int tries = 0; options.link != nullptr && error && tries < 100; ++tries) {
    std::this_thread::sleep_for(10ms);
    error.clear();
    std::filesystem::remove_all(place, error);
  }
  if (error) {
    throw icecore::error(errc::io,
                         fmt::format("the database '{}' is dropped, but its folder {} could not be removed: {}", name,
                                     place.native(), error.message()));
  }
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
  snapshot_report report;
  if (state_->snapshots) {
    report = state_->snapshots->write(to, on_progress);
  } else {
    const std::lock_guard one_at_a_time(state_->making);
    report = write_snapshot_of_server(state_->all_served(), state_->known.store(), identity(), state_->options.group,
                                      to, on_progress);
  }
  state_->log("snapshot_written", {{"folder", to.native()}, {"databases", std::to_string(report.parts.size())}});
  return report;
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
