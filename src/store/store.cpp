#include "icecore/store.hpp"

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "base/raise.hpp"
#include "store/engine.hpp"
#include "store/packed/compacting/compaction_turn.hpp"
#include "store/packed/retention/expiry.hpp"

namespace icecore {

using detail::held_engine;
using detail::with_engine;
using detail::with_writer;

store::store(const std::filesystem::path& path, const options& opening) : opened_(detail::open_store(path, opening)) {}

store::~store() = default;
store::store(store&&) noexcept = default;
store& store::operator=(store&&) noexcept = default;

void store::close() {
  if (opened_ == nullptr) return;
  const auto ending = std::move(opened_);  // released even if closing fails
  ending->close();
}

detail::opened_store& store::opened() const {
  if (opened_ == nullptr) raise(errc::closed, "the store is closed");
  return *opened_;
}

const detail::store_core& store::core() const { return opened().current(); }

// ---- Writing ----

namespace {

/// The key's hash for the lookup cache, of which the line that a write needs is on its way: it comes while a writer is
/// leased, whose locks would wait for it.
std::uint64_t expected_by_writer(const detail::opened_store& store, std::string_view key) {
  const std::uint64_t hash = index::lookup_cache::hash_of(key);
  store.lookups.prefetch(hash);
  return hash;
}

}  // namespace

version store::insert(std::string_view key, std::string_view value) {
  detail::opened_store& to = opened();
  const std::uint64_t hash = expected_by_writer(to, key);
  return with_writer(to, [&](auto& engine, const writer& w) { return engine.put(w, key, hash, value); });
}
version store::insert_parts(std::string_view key, std::span<const std::string_view> value) {
  const value_parts parts(value);
  if (parts.size() >= pool::written_value_size) {
    detail::opened_store& to = opened();
    const std::uint64_t hash = expected_by_writer(to, key);
    return with_writer(to, [&](auto& engine, const writer& w) { return engine.put(w, key, hash, parts); });
  }
  std::string joined;
  joined.reserve(parts.size());
  for (const std::string_view part : value) joined += part;
  return insert(key, joined);
}
std::optional<version> store::remove(std::string_view key) {
  detail::opened_store& to = opened();
  const std::uint64_t hash = expected_by_writer(to, key);
  return with_writer(to, [&](auto& engine, const writer& w) { return engine.remove(w, key, hash); });
}
std::optional<version> store::insert_new(std::string_view key, std::string_view value) {
  return with_writer(opened(), [&](auto& engine, const writer& w) {
    return engine.put_if(w, key, value, {newest_condition::what::no_value});
  });
}
std::optional<version> store::replace(std::string_view key, std::string_view value, version expected) {
  return with_writer(opened(), [&](auto& engine, const writer& w) {
    return engine.put_if(w, key, value, {newest_condition::what::of_version, expected});
  });
}
std::optional<version> store::apply_if(const batch& operations) { return detail::apply_if(opened(), operations); }
version store::apply(const batch& operations) { return detail::apply(opened(), operations); }
version store::tag() { return opened().hold()->tag(); }
version store::tag(std::string_view name, std::string_view note) { return opened().tag({.name = name, .note = note}); }
version store::tag(const tag_options& label) { return opened().tag(label); }
void store::skip_to(version open) { opened().hold()->skip_to(open); }
void store::lose(const version_ranges& versions) {
  opened().check_usable();
  const detail::compaction_turn no_compaction(opened());
  opened().hold()->lose(versions);
}
void store::sync() { opened().hold()->sync(); }
forget_report store::forget(const forget_request& what) { return opened().hold()->forget(what); }
void store::expire(std::span<const version_range> versions) {
  opened().check_usable();
  const detail::compaction_turn no_compaction(opened());
  opened().hold()->expire(versions);
}
void store::set_retention(const icecore::retention& which) { opened().hold()->set_retention(which); }
version store::refresh() { return opened().refresh(); }
version store::durable_version() const {
  const held_engine c = opened().hold();
  const version durable = c->durable_up_to();  // before the clock, which is then beyond it
  return std::min(durable, c->clock().now() - 1);
}

namespace {

/// Calls `f` with the current engine, which is not replaced meanwhile by a thread of this process. `f` calls
/// require_current() under the gate.
template <class F>
auto with_current(detail::opened_store& store, F f) {
  store.check_usable();
  for (;;) {
    static_cast<void>(store.hold());  // follows
    const std::shared_lock same_engine(store.replacing);
    try {
      return f(store.current());
    } catch (const detail::engine_is_behind&) {  // another process has packed the store since
    }
  }
}

}  // namespace

icecore::checkpoint store::checkpoint() const {
  return with_current(opened(), [](auto& core) { return icecore::checkpoint(core.cut()); });
}

// ---- Reading ----

namespace {

/// The same for a find, whose pin is counted meanwhile.
std::uint64_t expected_by_reader(const detail::opened_store& store, std::string_view key) {
  const std::uint64_t hash = index::lookup_cache::hash_of(key);
  store.lookups.prefetch_for_reading(hash);
  return hash;
}

std::optional<value> held(const std::optional<std::string_view>& found, held_engine by) {
  if (!found) return std::nullopt;
  return std::optional<value>(std::in_place, *found, std::move(by).holds());
}

}  // namespace

pin store::hold() const { return opened().take_pin(); }

std::optional<value> store::find(std::string_view key) const {
  const detail::opened_store& in = opened();
  const std::uint64_t hash = expected_by_reader(in, key);
  held_engine c = in.hold();
  c->check_usable();
  const auto found = with_engine(*c, [&](const auto& engine) { return engine.find(key, hash); });
  return held(found, std::move(c));
}

std::optional<value> store::find(std::string_view key, version at) const {
  const detail::opened_store& in = opened();
  const std::uint64_t hash = expected_by_reader(in, key);
  held_engine c = in.hold_for([&](const auto& core) { core.check_readable(at); });
  const auto found = with_engine(*c, [&](const auto& engine) { return engine.find(key, hash, at); });
  return held(found, std::move(c));
}

pin store::find_many(std::span<const std::string_view> keys, version at,
                     std::span<std::optional<std::string_view>> out) const {
  const snapshot then = this->at(at);
  then.find_many(keys, out);
  return then.holds();
}

pin store::find_many(std::span<const std::string_view> keys, std::span<const version> at,
                     std::span<std::optional<std::string_view>> out) const {
  if (keys.size() != out.size() || keys.size() != at.size()) {
    raise(errc::invalid_argument, "find_many: {} keys, {} versions and room for {} answers; the three must be equal",
          keys.size(), at.size(), out.size());
  }
  held_engine c = opened().hold_for([&](const auto& core) {
    for (const version v : at) core.check_readable(v);
  });
  with_engine(*c, [&](const auto& engine) { engine.find_many(keys, at.data(), 1, out); });
  return std::move(c).holds();
}

snapshot store::at(version closed) const {
  return {opened().hold_for([&](const auto& core) { core.check_readable(closed); }).holds(), closed};
}

snapshot store::at(std::string_view tag_name) const {
  const auto tag = find_tag(tag_name);
  if (!tag) raise(errc::unknown_tag, "no tag is named '{}'", tag_name);
  return at(tag->version);
}

snapshot store::at(std::chrono::system_clock::time_point time) const {
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  const auto tag = find_tag_at_time(ns);
  if (!tag) raise(errc::unknown_tag, "no tag was made at or before {} ns since 1970", ns);
  return at(tag->version);
}

snapshot store::latest() const {
  version closed = 0;
  held_engine c = opened().hold_for([&](auto& core) { closed = core.close_version(); });
  return {std::move(c).holds(), closed};
}

key_history store::history(std::string_view key) const {
  held_engine c = opened().hold();
  const version shown = with_engine(*c, [](const auto& engine) { return engine.newest_shown(); });
  return {std::move(c).holds(), key, shown};
}

pinned_list<std::string_view> store::keys(const key_bounds& bounds) const {
  held_engine c = opened().hold();
  auto found = with_engine(*c, [&](const auto& engine) { return engine.keys(bounds); });
  return {std::move(found), std::move(c).holds()};
}

diff_range store::diff(version before, version after, key_bounds bounds) const {
  held_engine c = opened().hold_for([&](const auto& core) {
    core.check_readable(before);
    core.check_readable(after);
  });
  return {std::move(c).holds(), before, after, std::move(bounds)};
}

// ---- Tags and versions ----

version store::clock() const { return opened().clock->now(); }
const version_ranges& store::lost_versions() const { return opened().lost; }
std::vector<version_range> store::expired_versions() const {
  const held_engine c = opened().hold();
  return {c->expired().begin(), c->expired().end()};
}
bool store::is_expired(version v) const {
  const held_engine c = opened().hold();
  return detail::has_any(c->expired(), v, v);
}
retention store::retention() const { return opened().hold()->kept(); }
std::vector<tag_info> store::tags() const { return opened().hold()->tags().all(); }
std::optional<tag_info> store::find_tag(std::string_view name) const { return opened().hold()->tags().find(name); }
std::optional<tag_info> store::find_tag(version tagged) const { return opened().hold()->tags().find(tagged); }
std::optional<tag_info> store::find_tag_from(version least) const { return opened().hold()->tags().find_from(least); }
std::optional<tag_info> store::find_tag_at_time(std::int64_t time_ns) const {
  return opened().hold()->tags().find_at_time(time_ns);
}

// ---- The store itself ----

compaction_report store::compact(const compaction_options& how) { return opened().compact(how); }

namespace {

/// A reader, or a process that is attached, would believe that it has made the writer rest.
void require_may_pack(detail::opened_store& store) {
  const held_engine c = store.hold();
  c->check_writable();
  c->check_first();
}

}  // namespace

void store::pause_compaction() {
  if (opened().automatic != nullptr)
    return opened().automatic->pause();  // also in a forked child, where it does nothing
  require_may_pack(opened());
}
void store::resume_compaction() {
  if (opened().automatic != nullptr) return opened().automatic->resume();
  require_may_pack(opened());
}

durability_info store::durability() const { return opened().pool->durability(); }
statistics store::stats() const {
  return with_current(opened(), [](const auto& core) { return core.stats(); });  // no pin: it counts them
}
bool store::read_only() const { return opened().hold()->read_only(); }
bool store::beside_writer() const { return opened().hold()->beside_writer(); }
const std::filesystem::path& store::path() const { return opened().pool->file().path(); }
verify_report store::verify(const progress_function& on_progress) const {
  // Compactions and refreshes may come meanwhile, also in `on_progress`: the engine stays as long as it is held.
  std::optional<held_engine> of;
  auto filled = with_current(opened(), [&](detail::store_core& core) {
    of.emplace(core.take_pin(), core);
    return core.filled_segments();
  });
  return (*of)->verify(std::move(filled), on_progress);
}

}  // namespace icecore
