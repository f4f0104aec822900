#include "client.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <thread>

#include "content.hpp"

namespace icecore::testing {
namespace {

constexpr std::uint32_t own_keys = 150;
constexpr std::uint32_t recent_versions = 40;

/// How often each errand is run, as client::step() numbers them.
constexpr std::array<std::uint32_t, habits::errands> usual_weights = {300, 70, 50, 16, 6, 6, 1, 21, 280, 230, 12, 1, 7};
constexpr std::size_t errand_tag = 3;
constexpr std::size_t errand_named_tag = 4;
constexpr std::size_t errand_sync = 6;
constexpr std::size_t errand_scan_all = 11;
constexpr std::uint32_t scan_all_max = 8;  // it reads every key

}  // namespace

habits::habits(std::uint64_t seed) {
  std::uint64_t state = seed;
  const auto draw = [&] { return mix(state += 0x9e3779b97f4a7c15U); };
  for (std::size_t i = 0; i < errands; ++i) {
    static constexpr std::array<std::uint32_t, 8> factors = {0, 1, 2, 4, 4, 4, 8, 64};
    weights[i] = usual_weights[i] * factors[draw() % factors.size()];
    if (i == errand_scan_all) weights[i] = std::min(weights[i], scan_all_max);
  }
  if (weights[0] == 0) weights[0] = usual_weights[0];  // without inserts there is nothing to see
  contended_eighths = static_cast<std::uint32_t>(draw() % 8);
  fresh_eighths = static_cast<std::uint32_t>(draw() % 8);
  contended_keys = static_cast<std::uint32_t>(1 + draw() % 6);
}

void habits::keep_to_what_attached_may(bool may_tag) {
  if (!may_tag) weights[errand_tag] = 0;
  weights[errand_named_tag] = 0;
  weights[errand_sync] = 0;
}

client::client(store& s, client_log& log, const client_options& how)
    : store_(&s), log_(&log), how_(how), state_(mix(how.seed + how.number)) {
  weight_of_all_ = std::accumulate(how.usual.weights.begin(), how.usual.weights.end(), 0U);
}

std::uint64_t client::random() { return mix(state_ += 0x9e3779b97f4a7c15U); }

std::uint64_t client::value_of_slot(std::uint32_t ahead) const {
  return std::uint64_t{how_.life + 1} << 40 | std::uint64_t{how_.number} << 32 | (log_->begun() + ahead + 1);
}

std::uint32_t client::own_key() {
  return key_of(key_group::own, static_cast<std::uint32_t>(random() % own_keys), how_.seat);
}

/// The same for all clients at about the same time: they race to make it.
std::uint32_t client::fresh_key() const {
  return key_of(key_group::fresh, how_.life << 12 | (log_->begun() / 16 & 0xfff));
}

std::uint32_t client::any_key() {
  const std::uint64_t chance = random();
  const auto number = static_cast<std::uint32_t>(chance >> 32);
  if (chance % 8 < how_.usual.contended_eighths) {
    return key_of(key_group::contended, number % how_.usual.contended_keys);
  }
  if ((chance >> 3) % 8 < how_.usual.fresh_eighths) return fresh_key();
  return number % 32 == 0 ? key_of(key_group::empty_key, 0) : own_key();
}

/// Mostly one of the newest, which writers may still be closing.
version client::any_closed() {
  const version open = store_->clock();
  const std::uint64_t chance = random();
  const version back = chance % 4 == 0 ? open : std::min<version>(open, recent_versions);
  return open - 1 - (chance >> 8) % back;
}

/// That no client of another seat writes, if seats are apart.
std::uint32_t client::key_to_write() {
  constexpr unsigned tries = 8;
  if (how_.seats_apart == 0) return any_key();
  for (unsigned n = 0; n < tries; ++n) {
    const std::uint32_t key = any_key();
    const bool is_own = group_of(key) == static_cast<std::uint32_t>(key_group::own) + how_.seat;
    if (is_own || (group_of(key) < static_cast<std::uint32_t>(key_group::own) &&
                   mix(key) % how_.seats_apart == how_.seat % how_.seats_apart))
      return key;
  }
  return own_key();
}

/// Closes the version in which the key was written last, unless somebody has. False if the log is full.
bool client::begin_to_write(std::uint32_t key) {
  if (how_.seats_apart == 0) return true;
  const auto last = written_.find(key);
  return last == written_.end() || last->second < store_->clock() || latest();
}

void client::note_written(std::uint32_t key, version at) {
  if (how_.seats_apart != 0 && at != 0) written_[key] = at;
}

void client::run(const std::atomic<bool>& stop) {
  if (how_.seats_apart != 0 && !latest()) return;            // whoever had the seat wrote in versions before
  while (!stop.load(std::memory_order_relaxed) && step()) {  // relaxed: sooner or later
  }
}

bool client::step() {
  auto chance = static_cast<std::uint32_t>(random() % weight_of_all_);
  unsigned errand = 0;
  while (chance >= how_.usual.weights[errand]) chance -= how_.usual.weights[errand++];
  switch (errand) {
    case 0:
      return insert(key_to_write());
    case 1:
      return remove(key_to_write());
    case 2:
      return apply();
    case 3:
      return tag(false);
    case 4:
      return tag(true);
    case 5:
      return latest();
    case 6:
      return sync();
    case 7:
      return clock();
    case 8:
      return find(any_key());
    case 9:
      return find_at(any_key());
    case 10:
      return scan(chance % 2 == 0 ? 0 : static_cast<std::uint32_t>(key_group::own) + how_.seat);
    case errand_scan_all:
      return scan(all_groups);
    default:
      return read_history(any_key());
  }
}

bool client::insert(std::uint32_t key) {
  if (!begin_to_write(key)) return false;
  const std::uint64_t value = value_of_slot();
  const std::string name = key_name(key);
  const std::string bytes = value_bytes(value);
  operation* const o = log_->begin({.value = value, .key = key, .what = call::insert});
  if (o == nullptr) return false;
  o->version = store_->insert(name, bytes);
  note_written(key, o->version);
  client_log::end(*o);
  return true;
}

bool client::remove(std::uint32_t key) {
  if (!begin_to_write(key)) return false;
  const std::string name = key_name(key);
  operation* const o = log_->begin({.key = key, .what = call::remove});
  if (o == nullptr) return false;
  o->version = store_->remove(name).value_or(0);
  note_written(key, o->version);
  client_log::end(*o);
  return true;
}

/// Two to six keys of all kinds, each once; the first is inserted, a third of the others removed.
bool client::apply() {
  std::array<std::uint32_t, 6> keys{};
  std::uint32_t count = 0;
  for (const std::size_t wanted = 2 + random() % 5; count < wanted;) {
    const std::uint32_t key = key_to_write();
    const auto placed = std::span(keys).first(count);
    if (std::ranges::find(placed, key) != placed.end()) break;
    if (!begin_to_write(key)) return false;
    keys[count++] = key;
  }
  std::array<operation, 6> parts{};
  batch together;
  for (std::uint32_t n = 0; n < count; ++n) {
    operation& part = parts[n];
    part = {.key = keys[n], .what = n > 0 && random() % 3 == 0 ? call::batch_remove : call::batch_insert};
    if (part.what == call::batch_insert) {
      part.value = value_of_slot(n + 1);
      together.insert(key_name(part.key), value_bytes(part.value));
    } else {
      together.remove(key_name(part.key));
    }
  }
  operation* const o = log_->begin({.count = count, .what = call::batch}, std::span(parts).first(count));
  if (o == nullptr) return false;
  o->version = store_->apply(together);
  for (const operation& part : std::span(parts).first(count)) note_written(part.key, o->version);
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

bool client::latest() {
  operation* const o = log_->begin({.what = call::latest});
  if (o == nullptr) return false;
  o->version = store_->latest().version();
  client_log::end(*o);
  return true;
}

bool client::sync() {
  operation* const o = log_->begin({.what = call::sync});
  if (o == nullptr) return false;
  store_->sync();
  client_log::end(*o);
  return true;
}

bool client::clock() {
  operation* const o = log_->begin({.what = call::clock});
  if (o == nullptr) return false;
  o->version = store_->clock();
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

void pack_again_and_again(store& s, client_log& log, std::uint64_t seed, const std::atomic<bool>& stop) {
  constexpr std::uint32_t least_at_once = 2048;
  std::uint64_t state = seed;
  const auto draw = [&](std::uint64_t below) { return mix(state += 0x9e3779b97f4a7c15U) % below; };
  while (!stop.load(std::memory_order_relaxed)) {  // relaxed: sooner or later
    operation* const o = log.begin({.what = call::compact});
    if (o == nullptr) return;
    static_cast<void>(s.compact({.whole = draw(8) == 0,
                                 .threads = static_cast<unsigned>(1 + draw(2)),
                                 .bytes_at_once = draw(2) == 0 ? least_at_once << draw(5) : 0,
                                 .compression = draw(4) == 0 ? compression::zstd : compression::none}));
    client_log::end(*o);
    std::this_thread::sleep_for(std::chrono::microseconds(draw(1'000)));
  }
}

}  // namespace icecore::testing
