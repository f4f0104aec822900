#include "group/cluster_database.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "group/one_key.hpp"
#include "group/streams.hpp"
#include "icecore/error.hpp"
#include "service/json_text.hpp"
#include "service/owner.hpp"
#include "service/read/hidden_keys.hpp"
#include "service/write/execution.hpp"

namespace icecore::server::group {
namespace {

using json = nlohmann::json;
using service::found;
using service::outcome;
using service::point;
using service::row_stream;
using service::transaction;

constexpr int execute_number = 1;  // of the update function

icecore::cluster open_cluster(MPI_Comm servers, const std::filesystem::path& folder,
                              const service::database_settings& settings) {
  icecore::cluster_options opening = cluster_options_of(settings);
  if (settings.durability != icecore::durability::best_available) return icecore::cluster(servers, folder, opening);
  try {  // operation durability wherever the devices can give it
    opening.store.durability = icecore::durability::operation;
    return icecore::cluster(servers, folder, opening);
  } catch (const error& e) {
    if (e.code() != errc::not_durable) throw;
  }
  opening.store.durability = icecore::durability::best_available;
  return icecore::cluster(servers, folder, opening);
}

std::int64_t time_ns_of(const service::wall_time& when) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(when.time.time_since_epoch()).count();
}

// The state of one key, as its owner's update finds it.
class one_present final : public service::present {
 public:
  one_present(const std::optional<std::string>& stored, const icecore::store& local, const service::value_codec& codec)
      : stored_(&stored), local_(&local), codec_(&codec) {}
  [[nodiscard]] std::optional<service::present_value> find(std::string_view key) override {
    if (!*stored_) return std::nullopt;
    // Nobody writes the key meanwhile: its writes are updates, which run one at a time.
    icecore::key_history past = local_->history(key);
    const auto record = past.begin();
    return service::present_value{.value = codec_->decode(**stored_, room_),
                                  .version = record == past.end() ? 0 : record->version};
  }
  void for_each(const icecore::key_bounds&, const std::function<bool(std::string_view)>&) override {}

 private:
  const std::optional<std::string>* stored_;
  const icecore::store* local_;
  const service::value_codec* codec_;
  std::string room_;
};

}  // namespace

icecore::cluster_options cluster_options_of(const service::database_settings& settings) {
  icecore::cluster_options opening;
  opening.consistency = icecore::consistency::sequential;
  opening.ownership = icecore::ownership::by_function("icecore-server", [](std::string_view key, int ranks) {
    return static_cast<int>(service::owner_of(key, static_cast<std::uint32_t>(ranks)));
  });
  opening.store.grow_in_background = false;  // as a server's own databases
  opening.store.index = settings.index;
  opening.store.durability = settings.durability;
  return opening;
}

cluster_database::cluster_database(MPI_Comm servers, const std::filesystem::path& folder,
                                   service::database_settings settings, const service::database_environment& around,
                                   service::steps together, order_function everywhere)
    : settings_(std::move(settings)),
      everywhere_(std::move(everywhere)),
      cluster_(open_cluster(servers, folder, settings_)),
      watchers_(std::make_shared<watchers>(0)),
      calls_(settings_.name),
      writes_(settings_.name),
      memory_(around.memory) {
  // The cluster is open on all servers: from here on each step agrees, so that they close it together if one fails.
  together.agree([&] {
    codec_ = service::make_codec(settings_.compression);
    no_leases_.emplace(cluster_->local());
    space_.emplace(cluster_->local(), share_of(settings_.quota_bytes), around.device_has_room, around.refused);
    cluster_->define_update(execute_number, [this](std::string_view key, std::optional<std::string>& value,
                                                   std::string_view input, std::string& output) {
      auto what = unpacked_transaction(input);
      if (!what) throw error(errc::bad_input, "a transaction from another server of the group is damaged");
      what->allowed.memory = memory_;
      bool changed = false;
      output = packed(execute_here(key, value, *what, changed));
      return changed;
    });
    looks_at_space_ = around.pool->every(std::chrono::seconds(1), [this] {
      try {
        space_->look_again();
      } catch (const error&) {  // a store that failed tells its writers
      }
    });
  });
  // From here on every server knows the function. What recovery found may be in no sync yet.
  cluster_->barrier(promises_tags() ? icecore::barrier_level::storage : icecore::barrier_level::memory);
  together.agree([&] {
    MPI_Comm_dup(servers, &servers_);
    if (const auto kept = cluster_->find(service::compacted_key)) {
      compacted_.store(service::number_of_bytes(*kept).value_or(0), std::memory_order_relaxed);
    }
    watchers_->wake(cluster_->clock() - 1, std::nullopt);
    synced_.store(cluster_->clock() - 1, std::memory_order_relaxed);
  });
}

cluster_database::~cluster_database() {
  watchers_->wake(0, service::failure{errc::unavailable, "the database is closed"});
}

cluster_database::shared cluster_database::open() const {
  shared lock = calls_.enter_anyway();
  require_open();
  return lock;
}

void cluster_database::require_open() const {
  if (!cluster_) throw error(errc::unavailable, fmt::format("the database '{}' is closed", settings_.name));
}

// Orders that change or drop the database run on the thread that this one would wait for, and wait for the calls that
// are inside: so no call waits for an order while it is inside. The order looks again whether the database is open.
std::string cluster_database::order_all(const std::string& order) {
  { const shared lock = open(); }
  return everywhere_(order);
}

service::database_settings cluster_database::settings() const {
  const std::lock_guard lock(settings_mutex_);
  return settings_;
}

service::database_status cluster_database::status() const {
  const shared lock = open();
  return {.settings = settings(),
          .statistics = cluster_->local().stats(),
          .newest = cluster_->clock() - 1,
          .durable = promises_tags() ? synced_.load(std::memory_order_relaxed) : cluster_->clock() - 1,
          .compacted = compacted_.load(std::memory_order_relaxed),
          .leases = 0,
          .watches = watchers_->count(),
          .waiting = 0,
          .sick = std::nullopt};
}

// ---- Writing ----

outcome cluster_database::execute_here(std::string_view key, std::optional<std::string>& value, const transaction& what,
                                       bool& changed) {
  space_->require(what);
  one_present now(value, cluster_->local(), *codec_);
  service::executed done = service::execute(what, now, *no_leases_, *codec_);
  // The cluster's gate is shut while a version is closed, so the write belongs to the version that is open now.
  done.answer.version = cluster_->local().clock();
  if (const auto set = done.changed.find(key); set != done.changed.end()) {
    changed = true;
    written_.store(true, std::memory_order_release);
    if (set->second) {
      std::string room;
      value = std::string(codec_->encode(*set->second, room));
    } else {
      value.reset();
    }
  }
  return std::move(done.answer);
}

outcome cluster_database::at_owner(const transaction& what) {
  const std::string_view key = key_of(what);
  for (const auto* list : {&what.then, &what.otherwise}) {
    for (const service::operation& o : *list) {
      if (o.writes()) service::require_client_key(o.key);
    }
  }
  auto came = unpacked_outcome(cluster_->update(key, execute_number, packed(what)));
  if (!came) throw error(errc::bad_input, "an outcome from another server of the group is damaged");
  return std::move(*came);
}

// Keys are spread by a hash, so each server has its share of them.
std::uint64_t cluster_database::share_of(std::uint64_t quota_bytes) const {
  const auto servers = static_cast<std::uint64_t>(cluster_->size());
  return quota_bytes / servers + (quota_bytes % servers != 0 ? 1 : 0);
}

bool cluster_database::is_near(std::string_view key) const noexcept {
  const shared lock = calls_.enter_anyway();
  if (!cluster_) return true;  // it fails at once
  return is_written_here(key);
}

bool cluster_database::is_written_here(std::string_view key) const {
  return cluster_->owner_of(key) == cluster_->rank() &&
         cluster_->local().durability().mode != icecore::durability::operation;
}

// written_ is set after the write, not in the cluster's gate: a close that came between has no need to know of a write
// which is not answered yet, and one that comes after the answer finds it. It is set before as well, in case the store
// fails after it has written.
std::optional<icecore::version> cluster_database::put_at_once(std::string_view key, std::string_view value) {
  const shared lock = open();
  if (!is_written_here(key)) return std::nullopt;
  service::require_client_key(key);
  const service::gate::pass inside = writes_.enter();
  space_->require(key.size() + value.size(), false);
  std::string room;
  const std::string_view stored = codec_->encode(value, room);
  written_.store(true, std::memory_order_release);
  const icecore::version at = cluster_->insert_in_turn(key, stored);
  written_.store(true, std::memory_order_release);
  return at;
}

void cluster_database::write(transaction what, service::completion done) {
  std::optional<outcome> came;
  try {
    const shared lock = open();
    const service::gate::pass inside = writes_.enter();
    came = at_owner(what);
  } catch (...) {
    done(service::failure_of(std::current_exception()));
    return;
  }
  done(std::move(*came));
}

std::uint64_t cluster_database::load(const service::row_block& rows, bool keep) {
  const shared lock = open();
  const service::gate::pass inside = writes_.enter();
  std::uint64_t written = 0;
  transaction one;
  one.then.resize(1);
  service::operation& put = one.then.front();
  put.what = keep ? service::operation::kind::put_new : service::operation::kind::put;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    put.key = rows.keys[i];
    put.value = rows.values[i];
    const outcome came = at_owner(one);
    if (came.results.at(0).is == service::operation_result::state::done) ++written;
  }
  return written;
}

void cluster_database::sync() { order_all(json{{"do", "sync"}}.dump()); }

// ---- Reading ----

void cluster_database::require_kept(icecore::version at) const {
  const icecore::version oldest = compacted_.load(std::memory_order_relaxed);
  if (at >= oldest) return;
  throw error(errc::version_expired,
              fmt::format("version {} was given up by compaction; the oldest that is kept is {}", at, oldest));
}

icecore::version cluster_database::close_open_version(bool durable) {
  return json::parse(order_all(json{{"do", "close"}, {"durable", durable}}.dump())).get<icecore::version>();
}

// Not while this call is inside: `newest` is an order.
icecore::version cluster_database::version_at(const point& at) {
  const icecore::version chosen =
      std::holds_alternative<service::newest>(at) ? close_open_version(false) : closed_version_at(at);
  require_kept(chosen);
  return chosen;
}

icecore::version cluster_database::closed_version_at(const point& at) {
  const shared lock = open();
  if (const auto* const version = std::get_if<icecore::version>(&at)) return cluster_->at(*version).version();
  if (const auto* const tag = std::get_if<service::tag_name>(&at)) return cluster_->at(tag->name).version();
  const std::int64_t time_ns = time_ns_of(std::get<service::wall_time>(at));
  std::optional<icecore::tag_info> last;
  for (icecore::tag_info& next : cluster_->tags()) {
    if (next.time_ns <= time_ns && (!last || next.time_ns >= last->time_ns)) last = std::move(next);
  }
  if (!last) throw error(errc::unknown_tag, "no tag is as old as this time");
  return last->version;
}

icecore::version cluster_database::resolve(const point& at) { return version_at(at); }

std::optional<found> cluster_database::find(std::string_view key, const point& at) {
  if (service::is_hidden(key)) return std::nullopt;
  const bool newest = std::holds_alternative<service::newest>(at);
  const icecore::version version = newest ? icecore::version_max : version_at(at);
  const shared lock = open();
  if (cluster_->owner_of(key) == cluster_->rank()) {
    icecore::key_history past(cluster_->local().hold(), key, version);
    const auto record = past.begin();
    if (record == past.end() || !record->value) return std::nullopt;
    std::string room;
    return found(std::string(codec_->decode(*record->value, room)), record->version);
  }
  if (!newest) {  // the newest record up to that version
    for (icecore::versioned_value& record : cluster_->history(key)) {
      if (record.version > version) continue;
      if (!record.value) return std::nullopt;
      std::string room;
      return found(std::string(codec_->decode(*record.value, room)), record.version);
    }
    return std::nullopt;
  }
  transaction read;
  read.then.push_back({.what = service::operation::kind::get, .key = std::string(key)});
  outcome came = at_owner(read);
  if (came.results.at(0).rows.empty()) return std::nullopt;
  service::row& is = came.results[0].rows[0];
  return found(std::move(is.value), is.version);
}

std::unique_ptr<row_stream> cluster_database::scan(const service::scan_request& what) {
  if (what.versions) {
    throw error(errc::invalid_argument,
                "scans of a group of dependent servers do not tell the versions of the records");
  }
  const icecore::version version = version_at(what.at);
  const shared lock = open();
  return scan_of(cluster_->at(version), what, codec_, [this] { return open(); });
}

std::unique_ptr<row_stream> cluster_database::history(std::string_view key, const point& up_to) {
  const icecore::version version = version_at(up_to);
  const shared lock = open();
  std::vector<icecore::versioned_value> records;
  if (!service::is_hidden(key)) records = cluster_->history(key);
  return history_of(std::move(records), version, codec_);
}

std::unique_ptr<row_stream> cluster_database::differences(const service::difference_request& what) {
  const icecore::version after = version_at(what.after);
  const icecore::version before = version_at(what.before);
  const shared lock = open();
  return differences_of(cluster_->at(before), cluster_->at(after), what.bounds, codec_, [this] { return open(); });
}

std::unique_ptr<row_stream> cluster_database::changes(const service::changes_request& what) {
  const icecore::version up_to = version_at(what.up_to);
  if (what.after > up_to) {
    throw error(errc::invalid_argument,
                fmt::format("changes after version {} up to version {}: the first must not be the "
                            "greater one",
                            what.after, up_to));
  }
  require_kept(what.after);
  icecore::feed_request request;
  request.after = what.after;
  request.unsynced = true;  // versions are made durable by the order that closes them
  const shared lock = open();
  return changes_of(cluster_->feed(request), what, up_to, codec_, [this] { return open(); });
}

std::uint64_t cluster_database::count(const icecore::key_bounds& bounds, const point& at) {
  const auto rows = scan({.bounds = bounds, .at = at, .values = false});
  std::uint64_t sum = 0;
  for (service::row_block block; rows->next(block, {});) sum += block.size();
  return sum;
}

std::unique_ptr<service::watch> cluster_database::watch_changes(const service::watch_request& what) {
  const icecore::version newest = version_at(service::newest{});
  const icecore::version after = what.after.value_or(newest);
  if (after > newest) {
    throw error(errc::version_not_closed,
                fmt::format("a watch after version {}: the newest version is {}", after, newest));
  }
  require_kept(after);
  return watch_of(*this, watchers_, what, after);
}

// ---- Tags and versions: orders ----

// Closes the open version if anything was written in it anywhere. A write that comes after the look is in the version
// that is open then. What fails, the next call does.
icecore::version cluster_database::close_together(bool durable) {
  enum : std::size_t { written, unsynced };
  std::array<int, 2> any{};
  any[written] = written_.exchange(false, std::memory_order_acq_rel) ? 1 : 0;
  any[unsynced] = synced_.load(std::memory_order_relaxed) + 1 < cluster_->clock() ? 1 : 0;
  try {
    if (MPI_Allreduce(MPI_IN_PLACE, any.data(), 2, MPI_INT, MPI_LOR, servers_) != MPI_SUCCESS) {
      throw error(errc::mpi, "MPI_Allreduce failed");
    }
    const icecore::version closed = any[written] != 0 ? cluster_->tag() : cluster_->clock() - 1;
    if (durable || !promises_tags()) tell_watches(closed, any[written] != 0 || any[unsynced] != 0);
    return closed;
  } catch (...) {
    written_.store(true, std::memory_order_release);
    throw;
  }
}

void cluster_database::tell_watches(icecore::version closed, bool sync) {
  if (sync && promises_tags()) {
    cluster_->barrier(icecore::barrier_level::storage);
    synced_.store(closed, std::memory_order_relaxed);
  }
  watchers_->wake(closed, std::nullopt);
}

// An order runs on a thread of the link on every server, and no server closes the database but by an order: so it is
// open at all of them or at none.
std::string cluster_database::execute(const std::string& order) {
  require_open();
  const json what = json::parse(order);
  const std::string& kind = what.at("do").get_ref<const std::string&>();
  icecore::version closed = 0;
  if (kind == "close") {
    closed = close_together(what.at("durable").get<bool>());
  } else if (kind == "tag") {
    const std::string name = what.at("name").get<std::string>();
    const std::string note = what.at("note").get<std::string>();
    icecore::tag_options label{.name = name, .note = note, .time_ns = std::nullopt};
    if (what.contains("time_ns")) label.time_ns = what.at("time_ns").get<std::int64_t>();
    closed = cluster_->tag(label);
    tell_watches(closed, true);
  } else if (kind == "sync") {
    cluster_->barrier(icecore::barrier_level::storage);
    closed = cluster_->clock() - 1;
  } else if (kind == "compact") {
    closed = what.at("oldest").get<icecore::version>();
    written_.store(true, std::memory_order_release);
    if (cluster_->rank() == 0) cluster_->insert(service::compacted_key, service::bytes_of_number(closed));
    cluster_->barrier(icecore::barrier_level::storage);
    compacted_.store(std::max(closed, compacted_.load(std::memory_order_relaxed)), std::memory_order_relaxed);
  } else {
    throw error(errc::bad_input, fmt::format("an unknown order '{}'", kind));
  }
  return json(closed).dump();
}

icecore::version cluster_database::tag(const icecore::tag_options& label) {
  if (label.name.empty() && label.note.empty() && !label.time_ns) return close_open_version(true);
  json order{{"do", "tag"}, {"name", label.name}, {"note", label.note}};
  if (label.time_ns) order["time_ns"] = *label.time_ns;
  return json::parse(order_all(service::json_text(order))).get<icecore::version>();
}

void cluster_database::close_version() { close_open_version(true); }

std::vector<icecore::tag_info> cluster_database::tags() {
  const shared lock = open();
  std::vector<icecore::tag_info> all = cluster_->tags();
  const icecore::version oldest = compacted_.load(std::memory_order_relaxed);
  std::erase_if(all, [&](const icecore::tag_info& tag) { return tag.version < oldest; });
  return all;
}

std::optional<icecore::tag_info> cluster_database::find_tag(const point& at) {
  std::optional<icecore::tag_info> last;
  for (icecore::tag_info& next : tags()) {
    bool chosen = true;  // of `newest`, all are
    if (const auto* const version = std::get_if<icecore::version>(&at)) chosen = next.version == *version;
    if (const auto* const tag = std::get_if<service::tag_name>(&at)) chosen = next.name == tag->name;
    if (const auto* const when = std::get_if<service::wall_time>(&at)) chosen = next.time_ns <= time_ns_of(*when);
    if (chosen && (!last || next.time_ns >= last->time_ns)) last = std::move(next);
  }
  return last;
}

void cluster_database::compact(icecore::version oldest_kept) {
  {
    const shared lock = open();
    if (oldest_kept >= cluster_->clock()) {
      throw error(errc::version_not_closed, fmt::format("compaction to version {}: the newest version is {}",
                                                        oldest_kept, cluster_->clock() - 1));
    }
    require_kept(oldest_kept);
  }
  order_all(json{{"do", "compact"}, {"oldest", oldest_kept}}.dump());
}

// ---- Leases: a group keeps none ----

namespace {

[[noreturn]] void no_leases() {
  throw error(errc::invalid_argument,
              "leases are kept by servers that stand alone, not by groups of dependent servers");
}

}  // namespace

service::lease_info cluster_database::grant(std::chrono::milliseconds, service::lease_number) { no_leases(); }
service::lease_info cluster_database::keep_alive(service::lease_number) { no_leases(); }
service::lease_info cluster_database::lease(service::lease_number, bool) { no_leases(); }
void cluster_database::revoke(service::lease_number, std::function<void(std::string_view)> /*may_remove*/,
                              service::completion done) {
  done(service::failure{errc::invalid_argument, "leases are kept by servers that stand alone"});
}

// ---- The whole ----

void cluster_database::change(const service::changed_settings& what) {
  require_open();
  const std::lock_guard lock(settings_mutex_);
  if (what.rule == service::version_rule::write) {
    throw error(errc::invalid_argument,
                "a group of dependent servers has the rules `every` and `tag`: a version of `write` "
                "would be one cut of all servers for each transaction");
  }
  if (what.rule) settings_.rule = *what.rule;
  if (what.interval) settings_.interval = *what.interval;
  if (what.quota_bytes) {
    settings_.quota_bytes = *what.quota_bytes;
    space_->change(share_of(*what.quota_bytes));
  }
  if (what.owner) settings_.owner = *what.owner;
}

class cluster_database::stillness final : public service::held_still {
 public:
  explicit stillness(cluster_database& of) : of_(&of), open_(of.open()), alone_(of.writes_.exclude()) { meet(); }

  // Nobody writes: after the open version was closed on all servers together, each captures its own store without
  // closing anything. All steps that servers take together come, whatever fails on one of them.
  [[nodiscard]] icecore::checkpoint take() override {
    std::optional<icecore::checkpoint> taken;
    std::exception_ptr failed;
    try {
      of_->close_together(false);
      taken = of_->cluster_->local().checkpoint();
    } catch (...) {
      failed = std::current_exception();
    }
    meet();
    if (failed) std::rethrow_exception(failed);
    return std::move(*taken);
  }

 private:
  void meet() const {
    if (MPI_Barrier(of_->servers_) != MPI_SUCCESS) throw error(errc::mpi, "MPI_Barrier failed");
  }

  cluster_database* of_;
  shared open_;
  std::unique_lock<std::shared_mutex> alone_;
};

std::unique_ptr<service::held_still> cluster_database::hold() { return std::make_unique<stillness>(*this); }

icecore::verify_report cluster_database::verify(const icecore::progress_function& on_progress) {
  const shared lock = open();
  return cluster_->local().verify(on_progress);
}

void cluster_database::close() {
  watchers_->wake(0, service::failure{errc::unavailable, fmt::format("the database '{}' is closed", settings().name)});
  const auto alone = calls_.exclude();
  if (!cluster_) return;
  looks_at_space_ = {};
  cluster_->close();
  cluster_.reset();
  MPI_Comm_free(&servers_);
}

}  // namespace icecore::server::group
