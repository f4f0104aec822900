#include "icecore/store.hpp"

#include <algorithm>
#include <utility>

#include "base/raise.hpp"
#include "store/engine.hpp"
#include "store/packed/retention/expiry.hpp"

namespace icecore {

using detail::with_engine;
using detail::with_writer;

store::store(const std::filesystem::path& path, const options& opening) : core_(detail::open_store(path, opening)) {}

store::~store() = default;
store::store(store&&) noexcept = default;
store& store::operator=(store&&) noexcept = default;

void store::close() {
  if (core_ == nullptr) return;
  const auto core = std::move(core_);  // released even if closing fails
  core->close();
}

const detail::store_core& store::core() const {
  if (core_ == nullptr) raise(errc::closed, "the store is closed");
  return *core_;
}

detail::store_core& store::writable() const {
  if (core_ == nullptr) raise(errc::closed, "the store is closed");
  return *core_;
}

// ---- Writing ----

version store::insert(std::string_view key, std::string_view value) {
  return with_writer(writable(), [&](auto& engine) { return engine.put(key, value); });
}
std::optional<version> store::remove(std::string_view key) {
  return with_writer(writable(), [&](auto& engine) { return engine.remove(key); });
}
std::optional<version> store::insert_new(std::string_view key, std::string_view value) {
  return with_writer(writable(),
                     [&](auto& engine) { return engine.put_if(key, value, {newest_condition::what::no_value}); });
}
std::optional<version> store::replace(std::string_view key, std::string_view value, version expected) {
  return with_writer(writable(), [&](auto& engine) {
    return engine.put_if(key, value, {newest_condition::what::of_version, expected});
  });
}
std::optional<version> store::apply_if(const batch& operations) {
  return with_writer(writable(), [&](auto& engine) { return engine.apply_if(operations); });
}
version store::apply(const batch& operations) {
  return with_writer(writable(), [&](auto& engine) { return engine.apply(operations); });
}
version store::tag() { return writable().tag(); }
version store::tag(std::string_view name, std::string_view note) {
  return writable().tag({.name = name, .note = note});
}
version store::tag(const tag_options& label) { return writable().tag(label); }
void store::skip_to(version open) { writable().skip_to(open); }
void store::lose(const version_ranges& versions) { writable().lose(versions); }
void store::sync() { writable().sync(); }
forget_report store::forget(const forget_request& what) { return writable().forget(what); }
void store::expire(std::span<const version_range> versions) { writable().expire(versions); }
void store::set_retention(const icecore::retention& which) { writable().set_retention(which); }
version store::refresh() { return writable().refresh(); }
version store::durable_version() const {
  const auto& c = core();
  const version durable = c.durable_up_to();  // before the clock, which is then beyond it
  return std::min(durable, c.clock().now() - 1);
}

icecore::checkpoint store::checkpoint() const { return icecore::checkpoint(writable().cut()); }

// ---- Reading ----

namespace {

std::optional<value> held(const std::optional<std::string_view>& found, pin holds) {
  if (!found) return std::nullopt;
  return std::optional<value>(std::in_place, *found, std::move(holds));
}

}  // namespace

pin store::hold() const { return core().take_pin(); }

std::optional<value> store::find(std::string_view key) const {
  const auto& c = core();
  c.check_usable();
  pin holds = c.take_pin();
  return held(with_engine(c, [&](const auto& engine) { return engine.find(key); }), std::move(holds));
}

std::optional<value> store::find(std::string_view key, version at) const {
  const auto& c = core();
  c.check_readable(at);
  pin holds = c.take_pin();
  return held(with_engine(c, [&](const auto& engine) { return engine.find(key, at); }), std::move(holds));
}

pin store::find_many(std::span<const std::string_view> keys, version at,
                     std::span<std::optional<std::string_view>> out) const {
  const snapshot then = this->at(at);
  then.find_many(keys, out);
  return then.holds();
}

pin store::find_many(std::span<const std::string_view> keys, std::span<const version> at,
                     std::span<std::optional<std::string_view>> out) const {
  const auto& c = core();
  if (keys.size() != out.size() || keys.size() != at.size()) {
    raise(errc::invalid_argument, "find_many: {} keys, {} versions and room for {} answers; the three must be equal",
          keys.size(), at.size(), out.size());
  }
  for (const version v : at) c.check_readable(v);
  pin holds = c.take_pin();
  with_engine(c, [&](const auto& engine) { engine.find_many(keys, at.data(), 1, out); });
  return holds;
}

snapshot store::at(version closed) const {
  const auto& c = core();
  c.check_readable(closed);
  return {c.take_pin(), closed};
}

snapshot store::at(std::string_view tag_name) const {
  const auto& c = core();
  const auto tag = c.tags().find(tag_name);
  if (!tag) raise(errc::unknown_tag, "no tag is named '{}'", tag_name);
  c.check_readable(tag->version);
  return {c.take_pin(), tag->version};
}

snapshot store::at(std::chrono::system_clock::time_point time) const {
  const auto& c = core();
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  const auto tag = c.tags().find_at_time(ns);
  if (!tag) raise(errc::unknown_tag, "no tag was made at or before {} ns since 1970", ns);
  c.check_readable(tag->version);
  return {c.take_pin(), tag->version};
}

snapshot store::latest() const {
  auto& c = writable();
  return {c.take_pin(), c.close_version()};
}

key_history store::history(std::string_view key) const {
  pin holds = hold();
  const version shown = with_engine(core(), [](const auto& engine) { return engine.newest_shown(); });
  return {std::move(holds), key, shown};
}

pinned_list<std::string_view> store::keys(const key_bounds& bounds) const {
  pin holds = hold();
  return {with_engine(core(), [&](const auto& engine) { return engine.keys(bounds); }), std::move(holds)};
}

diff_range store::diff(version before, version after, key_bounds bounds) const {
  const auto& c = core();
  c.check_readable(before);
  c.check_readable(after);
  return {c.take_pin(), before, after, std::move(bounds)};
}

// ---- Tags and versions ----

version store::clock() const { return core().clock().now(); }
const version_ranges& store::lost_versions() const { return core().lost(); }
std::span<const version_range> store::expired_versions() const { return core().expired(); }
bool store::is_expired(version v) const { return detail::has_any(core().expired(), v, v); }
retention store::retention() const { return core().kept(); }
std::vector<tag_info> store::tags() const { return core().tags().all(); }
std::optional<tag_info> store::find_tag(std::string_view name) const { return core().tags().find(name); }
std::optional<tag_info> store::find_tag(version tagged) const { return core().tags().find(tagged); }
std::optional<tag_info> store::find_tag_from(version least) const { return core().tags().find_from(least); }
std::optional<tag_info> store::find_tag_at_time(std::int64_t time_ns) const {
  return core().tags().find_at_time(time_ns);
}

// ---- The store itself ----

durability_info store::durability() const { return core().the_pool().durability(); }
statistics store::stats() const { return core().stats(); }
bool store::read_only() const { return core().read_only(); }
bool store::beside_writer() const { return core().beside_writer(); }
const std::filesystem::path& store::path() const { return core().the_pool().file().path(); }
verify_report store::verify(const progress_function& on_progress) const { return core().verify(on_progress); }

}  // namespace icecore
