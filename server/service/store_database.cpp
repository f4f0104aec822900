#include "service/store_database.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <future>
#include <utility>
#include <variant>

#include "icecore/changes.hpp"
#include "icecore/feed.hpp"
#include "icecore/history.hpp"
#include "service/read/hidden_keys.hpp"
#include "service/read/streams.hpp"

namespace icecore::service {
namespace {

using namespace std::chrono_literals;

// `best_available` of a server is operation durability wherever the device can give it.
icecore::store open_store(const std::filesystem::path& path, const database_settings& settings) {
  icecore::options opening;
  opening.grow_in_background = false;  // a thread a database: docs/performance.md tells what it gained
  opening.index = settings.index;
  opening.durability = settings.durability;
  // Answers wait for a sync that they share (durable_answers), so the store's writes need not wait.
  opening.deferred_durability = opening.durability == icecore::durability::operation;
  if (settings.durability != icecore::durability::best_available) return icecore::store(path, opening);
  try {
    opening.durability = icecore::durability::operation;
    opening.deferred_durability = true;
    return icecore::store(path, opening);
  } catch (const icecore::error& e) {
    if (e.code() != errc::not_durable) throw;
  }
  opening.durability = icecore::durability::best_available;
  opening.deferred_durability = false;
  return icecore::store(path, opening);
}

}  // namespace

store_database::store_database(const std::filesystem::path& path, database_settings settings,
                               const database_environment& around)
    : around_(around),
      settings_(std::move(settings)),
      gate_(std::make_shared<gate>(settings_.name)),
      store_(std::make_shared<icecore::store>(open_store(path, settings_))),
      life_(std::make_shared<store_life>(store_)),
      codec_(make_codec(settings_.compression)),
      promises_operations_(store_->durability().mode == icecore::durability::operation) {
  leases_.emplace(*store_);
  space_.emplace(*store_, settings_.quota_bytes, around_.device_has_room, around_.refused);
  if (const auto kept = store_->find(compacted_key)) {
    compacted_.store(number_of_bytes(kept->bytes()).value_or(0), std::memory_order_relaxed);
  }
  begin_path();
}

store_database::~store_database() {
  try {
    close();
  } catch (const icecore::error&) {  // whoever wants to know calls close()
  }
}

write_parts store_database::parts() {
  return {.store = &*store_,
          .codec = codec_.get(),
          .leases = &*leases_,
          .pool = around_.pool,
          .promises_operations = promises_operations_,
          .tellable = [this](icecore::version v) { watches_.tellable(v); },
          .compacted =
              [this](icecore::version v) {
                if (v > compacted_.load(std::memory_order_relaxed)) compacted_.store(v, std::memory_order_relaxed);
              },
          .poisoned =
              [this](const failure& why) {
                const std::lock_guard lock(sick_mutex_);
                sick_ = why;
                poisoned_.store(true, std::memory_order_release);
              }};
}

void store_database::begin_path() {
  path_ = make_write_path(settings_.rule, parts());
  const bool applied = settings_.rule == version_rule::write;
  queues_writes_.store(applied, std::memory_order_relaxed);
  finds_at_once_.store(applied || !promises_operations_, std::memory_order_relaxed);
  begin_timers();
}

// The timers' tasks take no lock of the database: close() and change() end them, and wait for them, while they hold it.
void store_database::begin_timers() {
  const auto guarded = [this](const auto& what) {
    try {
      what();
    } catch (...) {
      const std::lock_guard lock(sick_mutex_);
      if (!sick_) sick_ = failure_of(std::current_exception());
    }
  };
  if (settings_.rule == version_rule::every) {
    closes_versions_ =
        around_.pool->every(settings_.interval, [this, guarded] { guarded([this] { path_->close_version(); }); });
  }
  ends_leases_ = around_.pool->every(100ms, [this, guarded] { guarded([this] { end_leases_that_are_over(); }); });
  looks_at_space_ = around_.pool->every(1s, [this, guarded] { guarded([this] { space_->look_again(); }); });
}

void store_database::end_leases_that_are_over() {
  for (const lease_number number : leases_->over()) {
    transaction one;
    one.then.push_back({.what = operation::kind::expire_lease, .key = {}, .lease = number});
    path_->write(std::move(one), [](const result<outcome>&) {});
  }
}

gate::pass store_database::open() const { return gate_->enter(); }

database_settings store_database::settings() const {
  const gate::pass inside = gate_->enter_anyway();
  return settings_;
}

database_status store_database::status() const {
  const gate::pass inside = open();
  database_status now{.settings = settings_,
                      .statistics = store_->stats(),
                      .newest = store_->clock() - 1,
                      .durable = watches_.newest(),
                      .compacted = compacted_.load(std::memory_order_relaxed),
                      .leases = leases_->count(),
                      .watches = watches_.count(),
                      .waiting = path_->waiting(),
                      .sick = {}};
  now.sick = sickness();
  return now;
}

std::optional<failure> store_database::sickness() const {
  const std::lock_guard lock(sick_mutex_);
  return sick_;
}

// ---- Writing ----

void store_database::require_writable() const {
  if (!poisoned_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(sick_mutex_);
  raise(*sick_);
}

void store_database::write(transaction what, completion done) {
  try {
    const gate::pass inside = open();
    require_writable();
    space_->require(what);
    path_->write(std::move(what), done);
  } catch (...) {
    done(failure_of(std::current_exception()));
  }
}

std::optional<icecore::version> store_database::put_at_once(std::string_view key, std::string_view value) {
  if (promises_operations_) return std::nullopt;  // its answer waits for a sync
  const gate::pass inside = open();
  require_writable();
  space_->require(key.size() + value.size(), false);
  return path_->put_at_once(key, value);
}

std::uint64_t store_database::load(const row_block& rows, bool keep) {
  const gate::pass inside = open();
  require_writable();
  space_->require(rows.bytes(), false);
  return path_->load(rows, keep);
}

void store_database::sync() {
  const gate::pass inside = open();
  store_->sync();
}

void store_database::execute_and_wait(transaction what) {
  std::promise<result<outcome>> promised;
  path_->write(std::move(what), [&](result<outcome> came) { promised.set_value(std::move(came)); });
  const result<outcome> came = promised.get_future().get();
  if (const auto* failed = std::get_if<failure>(&came)) raise(*failed);
}

// ---- Reading ----

void store_database::require_kept(icecore::version at) const {
  const icecore::version oldest = compacted_.load(std::memory_order_relaxed);
  if (at >= oldest) return;
  throw icecore::error(errc::version_expired,
                       fmt::format("version {} was given up by compaction; the oldest that is kept is {}", at, oldest));
}

icecore::snapshot store_database::snapshot_at(const point& at) {
  struct chooser {
    store_database* self;
    icecore::snapshot operator()(newest) const { return self->path_->newest(); }
    icecore::snapshot operator()(icecore::version v) const { return self->store_->at(v); }
    icecore::snapshot operator()(const tag_name& tag) const { return self->store_->at(tag.name); }
    icecore::snapshot operator()(const wall_time& when) const { return self->store_->at(when.time); }
  };
  icecore::snapshot chosen = std::visit(chooser{this}, at);
  // Versions that are closed but not durable yet are shown to nobody.
  if (settings_.rule == version_rule::write && !std::holds_alternative<newest>(at)) {
    const icecore::version visible = path_->newest().version();
    if (chosen.version() > visible) {
      throw icecore::error(
          errc::version_not_closed,
          fmt::format("version {} is not durable yet; the newest one that is, is {}", chosen.version(), visible));
    }
  }
  require_kept(chosen.version());
  return chosen;
}

icecore::version store_database::resolve(const point& at) {
  const gate::pass inside = open();
  return snapshot_at(at).version();
}

std::optional<found> store_database::find(std::string_view key, const point& at) {
  const gate::pass inside = open();
  if (is_hidden(key)) return std::nullopt;
  if (std::holds_alternative<newest>(at)) {
    if (leases_->is_hidden(key)) return std::nullopt;
    return path_->find_newest(key);
  }
  const icecore::snapshot then = snapshot_at(at);
  return found_in(icecore::key_history(then.holds(), key, then.version()), then.holds(), *codec_);
}

std::unique_ptr<row_stream> store_database::scan(const scan_request& what) {
  const gate::pass inside = open();
  if (!std::holds_alternative<newest>(what.at) || !leases_->any()) {
    return through(gate_, scan_of(snapshot_at(what.at), what, codec_, {}));
  }
  // Which keys are over, and the version, have to be of one instant: nothing was shown between the two. If writes come
  // too fast for that, a key that was over a moment ago is left out, though it was just written again.
  icecore::snapshot now = snapshot_at(what.at);
  std::set<std::string, std::less<>> over;
  for (int tries = 0; tries < 8; ++tries) {
    over = leases_->hidden();
    icecore::snapshot after = snapshot_at(what.at);
    const bool same = after.version() == now.version();
    now = std::move(after);
    if (same) break;
  }
  // What is over now stays over: the stream may ask later without showing a key that this instant did not have.
  key_test shown;
  if (!over.empty()) shown = [gone = std::move(over)](std::string_view key) { return !gone.contains(key); };
  return through(gate_, scan_of(std::move(now), what, codec_, std::move(shown)));
}

std::unique_ptr<row_stream> store_database::history(std::string_view key, const point& up_to) {
  const gate::pass inside = open();
  const icecore::snapshot then = snapshot_at(up_to);
  icecore::key_history past(then.holds(), is_hidden(key) ? std::string_view() : key, then.version());
  return through(gate_,
                 history_of(std::move(past), compacted_.load(std::memory_order_relaxed), then.version(), codec_));
}

std::unique_ptr<row_stream> store_database::differences(const difference_request& what) {
  const gate::pass inside = open();
  const icecore::snapshot after = snapshot_at(what.after);
  const icecore::snapshot before = snapshot_at(what.before);
  return through(gate_,
                 differences_of(store_->diff(before.version(), after.version(), what.bounds), after.version(), codec_));
}

icecore::feed store_database::feed_after(icecore::version after, const icecore::key_bounds& bounds) const {
  icecore::feed_request request;
  request.after = after;
  request.where = filter_of(bounds);
  // A database that does not promise that operations are durable tells what is closed.
  request.unsynced = !promises_operations_;
  return store_->feed(request);
}

std::unique_ptr<row_stream> store_database::changes(const changes_request& what) {
  const gate::pass inside = open();
  const icecore::version up_to = snapshot_at(what.up_to).version();
  if (what.after > up_to) {
    throw icecore::error(errc::invalid_argument,
                         fmt::format("changes after version {} up to version {}: the first must not be the greater one",
                                     what.after, up_to));
  }
  require_kept(what.after);
  // A feed tells what a sync has covered.
  if (promises_operations_ && up_to > watches_.newest()) store_->sync();
  return through(gate_, changes_of(feed_after(what.after, what.bounds), what, up_to, codec_));
}

std::uint64_t store_database::count(const icecore::key_bounds& bounds, const point& at) {
  scan_request all{.bounds = bounds, .at = at, .values = false};
  const auto rows = scan(all);
  std::uint64_t sum = 0;
  for (row_block block; rows->next(block, {.rows = 4096, .bytes = std::size_t{1} << 20});) sum += block.size();
  return sum;
}

std::unique_ptr<watch> store_database::watch_changes(const watch_request& what) {
  const gate::pass inside = open();
  const icecore::version newest_now = snapshot_at(newest{}).version();
  const icecore::version after = what.after.value_or(newest_now);
  if (after > newest_now) {
    throw icecore::error(errc::version_not_closed,
                         fmt::format("a watch after version {}: the newest version is {}", after, newest_now));
  }
  require_kept(after);
  return watches_.begin(gate_, feed_after(after, what.bounds), after, what, codec_);
}

// ---- Tags and versions ----

icecore::version store_database::tag(const icecore::tag_options& label) {
  const gate::pass inside = open();
  require_writable();
  return path_->tag(label);
}

std::vector<icecore::tag_info> store_database::tags() {
  const gate::pass inside = open();
  std::vector<icecore::tag_info> kept = store_->tags();
  const icecore::version oldest = compacted_.load(std::memory_order_relaxed);
  std::erase_if(kept, [&](const icecore::tag_info& tag) { return tag.version < oldest; });
  return kept;
}

std::optional<icecore::tag_info> store_database::find_tag(const point& at) {
  const gate::pass inside = open();
  struct chooser {
    const icecore::store* store;
    std::optional<icecore::tag_info> operator()(newest) const {
      return store->find_tag_at_time(std::numeric_limits<std::int64_t>::max());
    }
    std::optional<icecore::tag_info> operator()(icecore::version v) const { return store->find_tag(v); }
    std::optional<icecore::tag_info> operator()(const tag_name& tag) const { return store->find_tag(tag.name); }
    std::optional<icecore::tag_info> operator()(const wall_time& when) const {
      using std::chrono::nanoseconds;
      return store->find_tag_at_time(std::chrono::duration_cast<nanoseconds>(when.time.time_since_epoch()).count());
    }
  };
  auto tag = std::visit(chooser{&*store_}, at);
  if (tag && tag->version < compacted_.load(std::memory_order_relaxed)) tag.reset();
  return tag;
}

void store_database::compact(icecore::version oldest_kept) {
  const gate::pass inside = open();
  require_writable();
  const icecore::version newest_now = snapshot_at(newest{}).version();
  if (oldest_kept > newest_now) {
    throw icecore::error(errc::version_not_closed,
                         fmt::format("compaction to version {}: the newest version is {}", oldest_kept, newest_now));
  }
  require_kept(oldest_kept);
  transaction one;
  one.then.push_back({.what = operation::kind::compact, .key = {}, .number = static_cast<std::int64_t>(oldest_kept)});
  execute_and_wait(std::move(one));
}

// ---- Leases ----

lease_info store_database::grant(std::chrono::milliseconds time, lease_number wanted) {
  const gate::pass inside = open();
  require_writable();
  constexpr std::chrono::milliseconds least = 1s;
  constexpr std::chrono::milliseconds most = std::chrono::hours(24 * 3650);
  if (time < least || time > most) {
    throw icecore::error(errc::invalid_argument, fmt::format("a lease of {} ms: leases last from {} to {} ms",
                                                             time.count(), least.count(), most.count()));
  }
  if (leases_->count() >= around_.leases_most) {
    if (around_.refused != nullptr) around_.refused->count(kept_limit::leases);
    throw icecore::error(
        errc::limit_reached,
        fmt::format("the database has {} leases, as many as are allowed (limits.leases)", around_.leases_most));
  }
  const lease_number number = wanted != 0 ? wanted : leases_->free_number();
  transaction one;
  one.then.push_back({.what = operation::kind::grant_lease,
                      .key = {},
                      .number = static_cast<std::int64_t>(time.count()),
                      .lease = number});
  execute_and_wait(std::move(one));
  return leases_->about(number, false);
}

lease_info store_database::keep_alive(lease_number lease) {
  const gate::pass inside = open();
  return leases_->keep_alive(lease);
}

void store_database::revoke(lease_number lease, std::function<void(std::string_view key)> may_remove, completion done) {
  try {
    const gate::pass inside = open();
    require_writable();
    static_cast<void>(leases_->about(lease, false));
    transaction one;
    one.then.push_back({.what = operation::kind::end_lease, .key = {}, .lease = lease});
    one.allowed.may_remove = std::move(may_remove);
    path_->write(std::move(one), done);
  } catch (...) {
    done(failure_of(std::current_exception()));
  }
}

lease_info store_database::lease(lease_number lease, bool keys) {
  const gate::pass inside = open();
  return leases_->about(lease, keys);
}

std::vector<lease_number> store_database::leases() {
  const gate::pass inside = open();
  return leases_->list();
}

// ---- The whole ----

void store_database::change(const changed_settings& what) {
  const std::lock_guard whole(whole_);
  const auto alone = gate_->exclude();
  if (!store_) throw icecore::error(errc::unavailable, fmt::format("the database '{}' is closed", settings_.name));
  if (what.quota_bytes) {
    settings_.quota_bytes = *what.quota_bytes;
    space_->change(*what.quota_bytes);
  }
  if (what.owner) settings_.owner = *what.owner;
  if (!what.rule && !what.interval) return;
  closes_versions_ = {};
  ends_leases_ = {};
  looks_at_space_ = {};
  path_->finish();
  if (what.interval) settings_.interval = *what.interval;
  if (what.rule) settings_.rule = *what.rule;
  path_.reset();
  begin_path();
}

class store_database::stillness final : public held_still {
 public:
  explicit stillness(const store_database& of) : open_(of.open()), writes_(of.path_->hold()), of_(&of) {}
  [[nodiscard]] icecore::checkpoint take() override { return of_->store_->checkpoint(); }
  [[nodiscard]] std::shared_ptr<const void> keep() override { return store_life::keep(of_->life_); }

 private:
  gate::pass open_;
  write_path::held writes_;
  const store_database* of_;
};

std::unique_ptr<held_still> store_database::hold() { return std::make_unique<stillness>(*this); }

icecore::verify_report store_database::verify(const icecore::progress_function& on_progress) {
  const gate::pass inside = open();
  return store_->verify(on_progress);
}

void store_database::close() {
  gate_->shut();
  watches_.end({errc::unavailable, fmt::format("the database '{}' is closed", settings().name)});
  // First all calls leave. What was written is answered while nobody is excluded, since an answer's completion may call
  // the database: it is refused.
  static_cast<void>(gate_->exclude());
  const std::lock_guard whole(whole_);
  if (!store_) return;
  closes_versions_ = {};
  ends_leases_ = {};
  looks_at_space_ = {};
  path_->finish();
  const auto alone = gate_->exclude();
  path_.reset();
  store_.reset();
  const std::shared_ptr<store_life> ending = std::move(life_);
  ending->end();
}

}  // namespace icecore::service
