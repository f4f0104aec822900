#include "cluster/query/feed_merge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>
#include <utility>

#include "base/checksum.hpp"
#include "cluster/cluster_core.hpp"

namespace icecore::mpi {

using namespace std::chrono_literals;

feed_merge::feed_merge(const cluster_core& core, const feed_request& what)
    : core_(&core), where_(what.where), unsynced_(what.unsynced) {
  if (!what.name.empty()) {
    throw error(
        errc::invalid_argument,
        fmt::format("feed '{}': a cluster keeps no feeds by name; keep the token of the last batch", what.name));
  }
  if (!what.secret.empty())
    throw error(errc::invalid_argument, "a cluster signs no tokens of feeds; leave `secret` empty");
  begin_ = place_ = what.token.empty() ? begin_of(what) : place_of(what.token);
  require_readable();
  owners_.resize(static_cast<std::size_t>(core.ranks()));
  for (owner& each : owners_) {
    each.in_snapshot = place_.in_snapshot;
    each.told = place_.in_snapshot ? 0 : place_.at - 1;
  }
}

merged_place feed_merge::begin_of(const feed_request& what) const {
  const version after = what.after.value_or(core_->newest_readable());
  core_->check_closed(after);
  // the empty store has no items
  if (!what.snapshot || after == 0) return {.at = after + 1};
  return {.at = after,
          .in_snapshot = true,
          .key_known = what.behind_key.has_value(),
          .key = what.behind_key.value_or(std::string())};
}

void feed_merge::require_readable() const {
  if (!place_.beyond_lost) core_->check_closed(place_.needs());
}

// ---- Tokens ----
//
//   OFFSET SIZE MEANING
//        0    1  layout of the token: 4 (1 to 3 are those of one store)
//        1    1  flags: 1: within the snapshot; 2: a key is known; 4: beyond_lost
//        2   16  the id of rank 0's pool
//       18    8  the version
//       26   16  the filter's fingerprint
//       42    4  CRC32C of all other bytes
//       46    8  changes of the key in that version that were told
//       54    n  the key

namespace {

constexpr std::uint8_t cluster_feed_layout = 4;
constexpr std::size_t pool_at = 2;
constexpr std::size_t version_at = 18;
constexpr std::size_t filter_at = 26;
constexpr std::size_t crc_at = 42;
constexpr std::size_t changes_at = 46;
constexpr std::size_t key_at = 54;
constexpr std::size_t id_size = 16;

std::uint32_t crc_of_token(std::string_view token) noexcept {
  const std::uint32_t before = crc32c(0x636c6664U, token.data(), crc_at);
  return crc32c(before, token.data() + changes_at, token.size() - changes_at);
}

/// The bytes of 32 hexadecimal digits.
std::array<char, id_size> bytes_of(std::string_view digits) {
  std::array<char, id_size> bytes{};
  for (std::size_t i = 0; i < id_size && 2 * i + 1 < digits.size(); ++i) {
    bytes[i] = static_cast<char>(std::stoi(std::string(digits.substr(2 * i, 2)), nullptr, 16));
  }
  return bytes;
}

}  // namespace

std::string feed_merge::token() const {
  std::string token(key_at, '\0');
  token[0] = static_cast<char>(cluster_feed_layout);
  token[1] =
      static_cast<char>((place_.in_snapshot ? 1 : 0) | (place_.key_known ? 2 : 0) | (place_.beyond_lost ? 4 : 0));
  const auto pool = bytes_of(core_->first_pool());
  std::memcpy(token.data() + pool_at, pool.data(), pool.size());
  std::memcpy(token.data() + version_at, &place_.at, sizeof place_.at);
  const auto filter = where_.fingerprint();
  static_assert(sizeof filter == id_size);
  std::memcpy(token.data() + filter_at, filter.data(), filter.size());
  std::memcpy(token.data() + changes_at, &place_.changes, sizeof place_.changes);
  token += place_.key;
  const std::uint32_t crc = crc_of_token(token);
  std::memcpy(token.data() + crc_at, &crc, sizeof crc);
  return token;
}

merged_place feed_merge::place_of(std::string_view token) const {
  const auto refuse = [](const std::string& why) { throw error(errc::bad_token, "the feed's token is " + why); };
  if (token.size() < key_at || token.size() > key_at + key_size_max) {
    refuse(fmt::format("damaged: it has {} bytes", token.size()));
  }
  if (static_cast<std::uint8_t>(token[0]) != cluster_feed_layout) refuse("none of a feed of a cluster");
  std::uint32_t crc = 0;
  std::memcpy(&crc, token.data() + crc_at, sizeof crc);
  if (crc != crc_of_token(token)) refuse("damaged: it fails its checksum");
  const auto pool = bytes_of(core_->first_pool());
  if (std::memcmp(token.data() + pool_at, pool.data(), pool.size()) != 0) refuse("of another cluster");
  const auto filter = where_.fingerprint();
  if (std::memcmp(token.data() + filter_at, filter.data(), filter.size()) != 0) refuse("of another filter");
  merged_place place;
  const auto flags = static_cast<std::uint8_t>(token[1]);
  place.in_snapshot = (flags & 1U) != 0;
  place.key_known = (flags & 2U) != 0;
  place.beyond_lost = (flags & 4U) != 0;
  std::memcpy(&place.at, token.data() + version_at, sizeof place.at);
  std::memcpy(&place.changes, token.data() + changes_at, sizeof place.changes);
  place.key = token.substr(key_at);
  if (place.at == 0) refuse("damaged: it names no version");
  return place;
}

// ---- Fetching ----

bool feed_merge::fetch(version limit, std::size_t max) {
  std::vector<std::pair<std::size_t, answer<feed_part>>> answers;
  for (int step = 1; step <= core_->ranks(); ++step) {  // this rank last: meanwhile the others work
    const int rank = (core_->rank() + step) % core_->ranks();
    const auto n = static_cast<std::size_t>(rank);
    const owner& from = owners_[n];
    if (!from.waiting.empty() || (!from.in_snapshot && (place_.in_snapshot || from.told >= limit))) continue;
    feed_part_request wanted;
    wanted.where = where_;
    wanted.unsynced = unsynced_;
    wanted.max = max;
    wanted.token = from.token;
    wanted.snapshot = begin_.in_snapshot;
    wanted.after = begin_.in_snapshot ? begin_.at : core_->newest_not_lost(begin_.at - 1);
    if (begin_.in_snapshot && begin_.key_known) wanted.behind_key = begin_.key;
    answers.emplace_back(n, core_->of(rank).feed(wanted));
  }
  std::vector<std::pair<std::size_t, feed_part>> parts;
  parts.reserve(answers.size());
  for (auto& [n, each] : answers) parts.emplace_back(n, each.take());
  bool more = false;
  for (auto& [n, part] : parts) {
    more = more || !part.changes.empty() || part.told > owners_[n].told;
    take(owners_[n], std::move(part));
  }
  return more;
}

void feed_merge::take(owner& from, feed_part&& part) {
  from.token = std::move(part.token);
  from.told = std::max(from.told, part.told);
  from.waiting_are_items = part.is_snapshot;
  if (!part.is_snapshot && (part.told > 0 || !part.changes.empty())) from.in_snapshot = false;
  for (cluster_change& change : part.changes) {
    if (!part.is_snapshot && was_told(from, change)) continue;
    from.waiting.push_back(std::move(change));
  }
}

/// F3: an owner's changes of the version in which the feed began come in the same order each time.
bool feed_merge::was_told(owner& from, const cluster_change& change) const {
  if (begin_.in_snapshot) return false;
  if (change.version < begin_.at) return true;  // what was left of lost versions
  if (!begin_.key_known || change.version != begin_.at) return false;
  if (change.key != begin_.key) return change.key < begin_.key;
  return from.passed++ < begin_.changes;
}

// ---- Telling ----

void feed_merge::tell_items(std::vector<cluster_change>& out, std::size_t max) {
  while (out.size() < max) {
    owner* first = nullptr;
    bool all_are_known = true;
    for (owner& each : owners_) {
      if (!each.in_snapshot) continue;
      if (each.waiting.empty()) {
        all_are_known = false;
      } else if (first == nullptr || each.waiting.front().key < first->waiting.front().key) {
        first = &each;
      }
    }
    if (!all_are_known) return;
    if (first == nullptr) {  // all have told theirs
      place_ = {.at = place_.at + 1};
      return;
    }
    place_.key = first->waiting.front().key;
    place_.key_known = true;
    out.push_back(std::move(first->waiting.front()));
    first->waiting.pop_front();
  }
}

void feed_merge::tell_changes(std::vector<cluster_change>& out, std::size_t max, version limit) {
  const auto order = [](const owner& of) { return std::tie(of.waiting.front().version, of.waiting.front().key); };
  while (out.size() < max) {
    owner* first = nullptr;
    version known = limit;  // all changes up to here wait or are told
    for (owner& each : owners_) {
      if (each.waiting.empty()) {
        known = std::min(known, each.told);
      } else if (first == nullptr || order(each) < order(*first)) {
        first = &each;
      }
    }
    if (first == nullptr || first->waiting.front().version > known) break;  // F1, F2
    cluster_change& told = first->waiting.front();
    if (!place_.key_known || place_.at != told.version || place_.key != told.key) {
      place_ = {.at = told.version, .key_known = true, .key = told.key};
    }
    ++place_.changes;
    out.push_back(std::move(told));
    first->waiting.pop_front();
  }
  settle_place(limit);
}

void feed_merge::settle_place(version limit) {
  version told = limit;
  for (const owner& each : owners_) {
    told = std::min(told, each.waiting.empty() ? each.told : each.waiting.front().version - 1);
  }
  if (told >= place_.at) place_ = {.at = told + 1};
  place_.beyond_lost = core_->is_lost(place_.needs());
}

cluster_feed_batch feed_merge::next(std::size_t max, std::chrono::microseconds timeout) {
  if (max == 0) throw error(errc::invalid_argument, "a batch of at most 0 changes would not move the feed on");
  constexpr std::size_t max_of_owner = 65'536;
  const auto now = clock::now();
  const auto longest = std::chrono::duration_cast<std::chrono::microseconds>(clock::time_point::max() - now);
  const auto until = now + std::clamp(timeout, std::chrono::microseconds(0), longest);
  cluster_feed_batch batch;
  auto pause = 100us;  // between two looks whether owners have made a version durable
  for (;;) {
    const version limit = core_->newest_readable();
    require_readable();
    const bool more = fetch(limit, std::min(max, max_of_owner));
    const version before = place_.at;
    batch.is_snapshot = place_.in_snapshot;
    place_.in_snapshot ? tell_items(batch.changes, max) : tell_changes(batch.changes, max, limit);
    if (!batch.changes.empty()) break;
    if (more || place_.at != before || batch.is_snapshot != place_.in_snapshot) continue;
    if (clock::now() >= until) break;
    const bool all_is_told = place_.at > limit;
    core_->wait_for_version(limit, all_is_told ? until : std::min(until, clock::now() + pause));
    pause = std::min<std::chrono::microseconds>(2 * pause, 20ms);
  }
  batch.is_snapshot = batch.is_snapshot && !batch.changes.empty();
  batch.told = place_.in_snapshot ? 0 : place_.at - 1;
  batch.token = token();
  return batch;
}

}  // namespace icecore::mpi

namespace icecore {

cluster_feed::cluster_feed(const mpi::cluster_core& core, const feed_request& what)
    : merge_(std::make_unique<mpi::feed_merge>(core, what)) {}
cluster_feed::~cluster_feed() = default;
cluster_feed::cluster_feed(cluster_feed&&) noexcept = default;
cluster_feed& cluster_feed::operator=(cluster_feed&&) noexcept = default;

cluster_feed_batch cluster_feed::next(std::size_t max, std::chrono::microseconds timeout) {
  return merge_->next(max, timeout);
}
std::string cluster_feed::token() const { return merge_->token(); }

}  // namespace icecore
