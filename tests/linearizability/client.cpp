#include "client.hpp"

#include <array>

#include "content.hpp"

namespace icecore::testing {
namespace {

constexpr std::uint32_t own_keys = 150;
constexpr std::uint32_t recent_versions = 40;

}  // namespace

client::client(store& s, client_log& log, const client_options& how)
    : store_(&s), log_(&log), how_(how), state_(mix(how.seed + how.number)) {}

std::uint64_t client::random() { return mix(state_ += 0x9e3779b97f4a7c15U); }

std::uint64_t client::value_of_slot(std::uint32_t ahead) const {
  return std::uint64_t{how_.life + 1} << 40 | std::uint64_t{how_.number} << 32 | (log_->begun() + ahead + 1);
}

std::uint32_t client::own_key() {
  return key_of(key_group::own, static_cast<std::uint32_t>(random() % own_keys), how_.number);
}

/// The same for all clients at about the same time: they race to make it.
std::uint32_t client::fresh_key() const {
  return key_of(key_group::fresh, how_.life << 12 | (log_->begun() / 16 & 0xfff));
}

std::uint32_t client::any_key() {
  const std::uint64_t chance = random();
  const auto number = static_cast<std::uint32_t>(chance >> 32) % contended_keys;
  switch (chance % 8) {
    case 0:
    case 1:
      return own_key();
    case 2:
      return fresh_key();
    case 3:
      return number == 0 ? key_of(key_group::empty_key, 0) : own_key();
    default:
      return key_of(key_group::contended, number);
  }
}

/// Mostly one of the newest, which writers may still be closing.
version client::any_closed() {
  const version open = store_->clock();
  const std::uint64_t chance = random();
  const version back = chance % 4 == 0 ? open : std::min<version>(open, recent_versions);
  return open - 1 - (chance >> 8) % back;
}

void client::run(const std::atomic<bool>& stop) {
  while (!stop.load(std::memory_order_relaxed) && step()) {  // relaxed: sooner or later
  }
}

bool client::step() {
  const std::uint64_t chance = random() % 1000;
  if (chance < 420) return write(chance);
  if (chance < 470) return close_version(chance - 420);
  return read(chance - 470);
}

bool client::write(std::uint64_t chance) {
  if (chance < 300) return insert(any_key());
  if (chance < 370) return remove(any_key());
  return apply();
}

bool client::close_version(std::uint64_t chance) {
  if (chance < 16) return tag(false);
  if (chance < 22) return tag(true);
  if (chance < 28 || chance == 49) {
    operation* const o = log_->begin({.what = chance == 49 ? call::sync : call::latest});
    if (o == nullptr) return false;
    if (chance == 49) {
      store_->sync();
    } else {
      o->version = store_->latest().version();
    }
    client_log::end(*o);
    return true;
  }
  operation* const o = log_->begin({.what = call::clock});
  if (o == nullptr) return false;
  o->version = store_->clock();
  client_log::end(*o);
  return true;
}

bool client::read(std::uint64_t chance) {
  if (chance < 280) return find(any_key());
  if (chance < 510) return find_at(any_key());
  if (chance < 522) return scan(chance % 2 == 0 ? 0 : static_cast<std::uint32_t>(key_group::own) + how_.number);
  if (chance == 522) return scan(all_groups);
  return read_history(any_key());
}

bool client::insert(std::uint32_t key) {
  const std::uint64_t value = value_of_slot();
  const std::string name = key_name(key);
  const std::string bytes = value_bytes(value);
  operation* const o = log_->begin({.value = value, .key = key, .what = call::insert});
  if (o == nullptr) return false;
  o->version = store_->insert(name, bytes);
  client_log::end(*o);
  return true;
}

bool client::remove(std::uint32_t key) {
  const std::string name = key_name(key);
  operation* const o = log_->begin({.key = key, .what = call::remove});
  if (o == nullptr) return false;
  o->version = store_->remove(name).value_or(0);
  client_log::end(*o);
  return true;
}

/// Two to six keys of all kinds, each once; the first is inserted, a third of the others removed.
bool client::apply() {
  std::array<operation, 6> parts{};
  batch together;
  std::uint32_t count = 0;
  for (const std::size_t wanted = 2 + random() % 5; count < wanted;) {
    const std::uint32_t key = any_key();
    const auto placed = std::span(parts).first(count);
    if (std::ranges::find(placed, key, &operation::key) != placed.end()) break;
    operation& part = parts[count];
    part = {.key = key, .what = count > 0 && random() % 3 == 0 ? call::batch_remove : call::batch_insert};
    if (part.what == call::batch_insert) {
      part.value = value_of_slot(count + 1);
      together.insert(key_name(key), value_bytes(part.value));
    } else {
      together.remove(key_name(key));
    }
    ++count;
  }
  operation* const o = log_->begin({.count = count, .what = call::batch}, std::span(parts).first(count));
  if (o == nullptr) return false;
  o->version = store_->apply(together);
  client_log::end(*o);
  return true;
}

bool client::tag(bool named) {
  const std::uint64_t number = named ? value_of_slot() : 0;
  const std::string name = named ? tag_name(number) : std::string();
  const std::string note = named ? tag_note(number) : std::string();
  operation* const o = log_->begin({.value = number, .what = call::tag});
  if (o == nullptr) return false;
  o->version = named ? store_->tag(name, note) : store_->tag();
  client_log::end(*o);
  return true;
}

bool client::find(std::uint32_t key) {
  const std::string name = key_name(key);
  operation* const o = log_->begin({.key = key, .what = call::find});
  if (o == nullptr) return false;
  const auto found = store_->find(name);
  o->value = number_of_value(found);
  client_log::end(*o);
  return true;
}

bool client::find_at(std::uint32_t key) {
  const std::string name = key_name(key);
  const version at = any_closed();
  operation* const o = log_->begin({.version = at, .key = key, .what = call::find_at});
  if (o == nullptr) return false;
  o->value = number_of_value(store_->find(name, at));
  client_log::end(*o);
  return true;
}

bool client::scan(std::uint32_t group) {
  const version at = any_closed();
  operation* const o = log_->begin({.version = at, .key = group, .what = call::digest_at});
  if (o == nullptr) return false;
  o->value = digest(store_->at(at), group);
  client_log::end(*o);
  return true;
}

bool client::read_history(std::uint32_t key) {
  const std::string name = key_name(key);
  operation* const o = log_->begin({.key = key, .what = call::history});
  if (o == nullptr) return false;
  records_digest seen;
  for (const auto& [at, value] : store_->history(name)) {
    seen.add_older({at, number_of_value(value)});
    ++o->count;
  }
  o->value = seen.sum;
  client_log::end(*o);
  return true;
}

std::uint64_t digest(const snapshot& of, std::uint32_t group) {
  std::uint64_t sum = 0;
  std::string last;
  bool first = true;
  const auto bounds = group == all_groups ? key_bounds{} : key_bounds::of_prefix(group_prefix(group));
  for (const auto& [name, bytes] : of.range(bounds)) {
    const std::uint32_t key = key_number(name);
    const std::uint64_t value = number_of_value(bytes);
    if (key == unknown_key || value == garbled || (!first && name <= last)) return garbled;
    sum += digest_of(key, value);
    last = name;
    first = false;
  }
  return sum;
}

}  // namespace icecore::testing
