// The databases of a service: opened at the start, made, changed and dropped.
#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <exception>
#include <limits>
#include <system_error>
#include <thread>

#include "icecore/error.hpp"
#include "service/names.hpp"
#include "service/state.hpp"
#include "service/store_database.hpp"

namespace icecore::service {
namespace {

bool is_number(const std::string& name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0; });
}

// Without the catalog nobody knows what the databases are, and a new one would give their numbers away again. Of a
// group it is the first server's that counts.
void require_catalog(const service_options& options, const std::filesystem::path& folders) {
  std::error_code ignored;
  if (options.link != nullptr && options.link->index() != 0) return;
  if (std::filesystem::exists(options.data / "catalog.ice", ignored)) return;
  for (const auto& found : std::filesystem::directory_iterator(folders, ignored)) {
    if (!is_number(found.path().filename())) continue;
    throw icecore::error(errc::damaged, fmt::format("{}: the catalog is missing, and there are databases (such as {}): "
                                                    "put catalog.ice back, or restore a snapshot",
                                                    options.data.native(), found.path().native()));
  }
}

// The catalog names a database only once its store is durable. So what is missing now was lost, and a new store in its
// place would show that nothing had ever been written. Of a group, the servers' own files are looked at by its
// clusters.
void require_store(const service_options& options, const std::filesystem::path& folder) {
  const std::filesystem::path store = options.link == nullptr ? folder / "store.ice" : folder;
  std::error_code failed;
  const bool there = std::filesystem::exists(store, failed);
  if (there) return;
  throw icecore::error(
      errc::damaged, fmt::format("{}: {}; the database's store was there: put it back, restore a snapshot, or drop the "
                                 "database",
                                 store.native(), failed ? failed.message() : "No such file or directory"));
}

/// What the engine says of a file that it cannot take for a store is meant for who names a path.
void offer_repair(failure& why) {
  constexpr std::string_view offered = "icecore repair";
  if ((why.code != errc::damaged && why.code != errc::not_a_store) || why.message.find(offered) != why.message.npos) {
    return;
  }
  why.message +=
      "; the database is not served. Keep the file: icecore repair writes what is intact to a new store, or restore a "
      "snapshot";
}

}  // namespace

unsigned service::state::threads_of(unsigned asked) {
  return asked != 0 ? asked : std::max(4U, 2 * std::max(1U, std::thread::hardware_concurrency()));
}

// ---- The start ----

catalog service::state::agreed(const service_options& options) {
  std::optional<catalog> mine;
  steps together(options.link);
  together.agree([&] {
    require_catalog(options, folders_of(options));
    mine.emplace(options.data / "catalog.ice");
    mine->require_place(options.group);
  });
  if (options.link != nullptr) {
    const std::string theirs = options.link->of_first(options.link->index() == 0 ? mine->shared_records() : "");
    together.agree([&] {
      if (options.link->index() != 0) mine->take_shared_records(theirs);
    });
  }
  return std::move(*mine);
}

void service::state::open_all() {
  std::vector<catalog_entry> entries;
  steps(options.link).agree([&] { entries = known.databases(); });
  for (const catalog_entry& entry : entries) {
    served next{.open = nullptr, .why = std::nullopt, .entry = entry};
    bool is_there = false;
    try {
      steps(options.link).agree([&] { require_store(options, folder(entry.number)); });
      is_there = true;
      next.open = make(entry);
    } catch (...) {
      next.why = failure_of(std::current_exception());
      if (is_there) offer_repair(*next.why);
      log("database_not_served", {{"database", entry.settings.name}, {"why", next.why->message}});
    }
    databases.emplace(entry.settings.name, std::move(next));
  }
}

std::shared_ptr<database> service::state::make(const catalog_entry& entry) {
  if (options.link != nullptr) return options.link->open(folder(entry.number), entry.settings, environment());
  return std::make_shared<store_database>(folder(entry.number) / "store.ice", entry.settings, environment());
}

// A folder that the catalog does not name was being made or dropped when the server died. Of a group the first server
// of each node removes it, and no server executes orders before all of them are done, so nobody makes a database
// meanwhile.
void service::state::remove_orphans() const {
  std::error_code ignored;
  if (options.link == nullptr || options.link->leads_node()) {
    for (const auto& found : std::filesystem::directory_iterator(folders_of(options), ignored)) {
      const std::string name = found.path().filename();
      const bool named = std::ranges::any_of(
          databases, [&](const auto& next) { return std::to_string(next.second.entry.number) == name; });
      if (named || !is_number(name)) continue;
      log("folder_removed", {{"folder", found.path()}});
      std::filesystem::remove_all(found.path(), ignored);
    }
  }
  steps(options.link).agree();
}

// The catalog's and the databases' devices may be two in a group.
void service::state::look_at_device() {
  std::uint64_t free = std::numeric_limits<std::uint64_t>::max();
  for (const std::filesystem::path& place : {options.data, folders_of(options), folders_of(options).parent_path()}) {
    struct statvfs now {};
    if (::statvfs(place.c_str(), &now) != 0) continue;  // the first database makes it
    free = std::min(free, std::uint64_t{now.f_bavail} * now.f_frsize);
  }
  const bool room = free >= options.limits.free_disk_bytes;
  if (has_room.exchange(room, std::memory_order_relaxed) != room) {
    log(room ? "device_has_room" : "device_full", {{"free_bytes", std::to_string(free)}});
  }
}

// ---- Making one ----

void service::state::create_here(const database_settings& settings) {
  const std::lock_guard one_at_a_time(making);
  steps together(options.link);
  catalog_entry entry{.number = 0, .settings = settings};
  together.agree([&] {
    const std::lock_guard lock(mutex);
    require_running();
    if (databases.contains(settings.name)) {
      throw icecore::error(errc::database_exists, fmt::format("a database named '{}' exists already", settings.name));
    }
    if (databases.size() >= options.limits.databases) {
      refused.count(kept_limit::databases);
      throw icecore::error(
          errc::limit_reached,
          fmt::format("the server has {} databases, as many as limits.databases allows", databases.size()));
    }
    if (!has_room.load(std::memory_order_relaxed)) {
      refused.count(kept_limit::free_disk_bytes);
      throw icecore::error(errc::no_space, std::string(device_is_full));
    }
    entry.number = known.next_number();
  });
  // A server that failed when another database was made may count otherwise: the first server's number is everyone's.
  if (options.link != nullptr) {
    const std::string first = options.link->of_first(std::to_string(entry.number));
    std::from_chars(first.data(), first.data() + first.size(), entry.number);
  }
  const std::filesystem::path place = folder(entry.number);
  std::shared_ptr<database> made;
  try {
    together.agree([&] {
      known.use_number(entry.number);
      std::filesystem::create_directories(place);
    });
    made = make(entry);
    together.agree([&] {
      if (options.link == nullptr) made->sync();  // a group's is durable when it is made
      // The store has synced its file and its folder; the folder's own name, and that of the folder around it, which
      // this or an earlier process has made, are durable before the catalog names the database.
      keep_names_in(place.parent_path());
      keep_names_in(place.parent_path().parent_path());
    });
    together.agree([&] { known.put(entry); });  // from here on it is there
  } catch (...) {                               // at all servers
    undo_create(entry, std::move(made));
    throw;
  }
  const std::lock_guard lock(mutex);
  databases.emplace(settings.name, served{.open = made, .why = std::nullopt, .entry = entry});
}

// Some servers may have done more of it than others. What cannot be undone either is what a crash could leave, and the
// next start removes it.
void service::state::undo_create(const catalog_entry& entry, std::shared_ptr<database> made) {
  steps ignored(options.link);
  ignored.attempt([&] {
    if (known.find(entry.settings.name)) known.remove(entry.settings.name);
  });
  if (made != nullptr) ignored.attempt([&] { made->close(); });
  made.reset();
  remove_folder(entry, ignored);
}

// Of a group, what the servers have made together: the first server removes it, and then those that lead other nodes
// remove what they still see. So no two servers remove one folder at once, whether nodes share it or not.
void service::state::remove_folder(const catalog_entry& entry, steps& together) const {
  const std::filesystem::path place = folder(entry.number);
  const auto remove = [&] {
    std::error_code error;
    std::filesystem::remove_all(place, error);
    if (!error) return;
    throw icecore::error(errc::io, fmt::format("the folder {} of the database '{}' could not be removed: {}",
                                               place.native(), entry.settings.name, error.message()));
  };
  if (options.link == nullptr) {
    together.attempt(remove);
    return;
  }
  const bool first = options.link->index() == 0;
  if (first) together.attempt(remove);
  static_cast<void>(options.link->everywhere_is(true));  // the first server is done
  if (!first && options.link->leads_node()) together.attempt(remove);
}

// ---- Changing and dropping one ----

void apply(const changed_settings& what, database_settings& to) {
  if (what.rule) to.rule = *what.rule;
  if (what.interval) to.interval = *what.interval;
  if (what.quota_bytes) to.quota_bytes = *what.quota_bytes;
  if (what.owner) to.owner = *what.owner;
}

void service::state::change_here(std::string_view name, const changed_settings& what) {
  const std::lock_guard one_at_a_time(making);
  steps together(options.link);
  std::shared_ptr<database> found;
  catalog_entry before{};
  together.agree([&] {
    const std::lock_guard lock(mutex);
    const served& is = require(principal::anyone(), name, right::administer);
    found = is.open;
    before = is.entry;
  });
  catalog_entry after = before;
  apply(what, after.settings);
  try {
    together.agree([&] {
      if (found != nullptr) found->change(what);
      known.put(after);
    });
  } catch (...) {  // at all servers
    const database_settings& was = before.settings;
    steps ignored(options.link);
    ignored.attempt([&] { known.put(before); });
    ignored.attempt([&] {
      if (found == nullptr) return;
      found->change({.rule = was.rule, .interval = was.interval, .quota_bytes = was.quota_bytes, .owner = was.owner});
    });
    throw;
  }
  const std::lock_guard lock(mutex);
  databases.find(name)->second.entry = after;
}

void service::state::drop_here(std::string_view name) {
  const std::lock_guard one_at_a_time(making);
  steps together(options.link);
  std::shared_ptr<database> found;
  catalog_entry entry{};
  together.agree([&] {
    const std::lock_guard lock(mutex);
    const served& is = require(principal::anyone(), name, right::administer);
    found = is.open;
    entry = is.entry;
  });
  try {
    together.agree([&] { known.remove(name); });  // from here on it is gone
  } catch (...) {                                 // at all servers: those that have removed it have it again
    steps(options.link).attempt([&] { known.put(entry); });
    throw;
  }
  {
    const std::lock_guard lock(mutex);
    databases.erase(databases.find(name));
    if (found != nullptr) found->set_dropped();
  }
  if (found != nullptr) together.attempt([&] { found->close(); });
  remove_folder(entry, together);
  try {
    together.agree();
  } catch (const icecore::error& e) {
    throw icecore::error(static_cast<errc>(e.code().value()),
                         fmt::format("the database '{}' is dropped, but not all of it: {}", name, e.message()));
  }
}

}  // namespace icecore::service
