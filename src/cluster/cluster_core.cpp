// Calls that a rank makes alone: reads, writes, fences.
#include "cluster/cluster_core.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace icecore::mpi {
namespace {

void check_size(std::string_view key) {
  if (key.size() <= key_size_max) return;
  throw error(errc::key_too_long, fmt::format("a key of {} bytes: keys have at most {}", key.size(), key_size_max));
}

void check_size(const write_view& one) {
  check_size(one.key);
  if (!one.value || one.value->size() <= value_size_max) return;
  throw error(errc::value_too_large,
              fmt::format("a value of {} bytes: values have at most {}", one.value->size(), value_size_max));
}

}  // namespace

cluster_core::~cluster_core() {
  try {
    close();
  } catch (...) {  // a caller that needs the error calls close()
  }
}

void cluster_core::begin_call() const {
  if (closed_) throw error(errc::closed, "the cluster is closed");
  running_.throw_if_broken();
  running_.step_now_and_then();
}

void cluster_core::check_writes() const {
  if (store_->read_only()) throw error(errc::read_only, fmt::format("{}: was opened for reading only", path_.native()));
  if (allowed() != protection::read_only) return;
  throw error(errc::protection, "read-only protection allows no writes; protect(read_write) allows them again");
}

void cluster_core::check_finds() const {
  if (allowed() != protection::write_only) return;
  throw error(errc::protection, "write-only protection allows no finds; protect(read_write) allows them again");
}

void cluster_core::check_closed(version at) const {
  if (lost_.contains(at)) {
    throw error(
        errc::version_lost,
        fmt::format("{}: version {} is lost: on at least one rank a power cut took writes that were not durable yet",
                    path_.native(), at));
  }
  if (const auto gone = expired_.find(at)) {
    throw error(errc::version_expired,
                fmt::format("{}: version {} has expired: a compaction gave up the versions from {} to {}, as the "
                            "cluster's retention says; the versions before and after them can be read",
                            path_.native(), at, gone->first, gone->end - 1));
  }
  if (at < clock() || (store_->read_only() && at == clock())) return;
  throw error(errc::version_not_closed,
              fmt::format("version {} is not closed yet on all ranks: the open version is {}; "
                          "tag() closes it",
                          at, clock()));
}

bool cluster_core::staging() const noexcept {
  return consistency() == icecore::consistency::relaxed && allowed() != protection::update_only;
}

bool cluster_core::run_background() const {
  bool found = false;
  for (const auto& each : remote_) found |= each->background();
  if (checkpoints_) found |= checkpoints_->background();
  return found;
}

int cluster_core::group_of(int rank) const {
  if (rank < 0 || rank >= ranks_) {
    throw error(errc::invalid_argument, fmt::format("there is no rank {}: the ranks are 0 to {}", rank, ranks_ - 1));
  }
  return groups_[static_cast<std::size_t>(rank)];
}

bool cluster_core::reaches_directly(int rank) const {
  static_cast<void>(group_of(rank));  // throws if there is no such rank
  return rank == rank_ || direct_[static_cast<std::size_t>(rank)];
}

// ---- Writing ----

version cluster_core::write(const write_view& one) {
  begin_call();
  check_size(one);
  partition& to = owner(one.key);
  const write_gate::pass through(gate_, waiting());
  check_writes();
  return staging() ? to.stage(one, clock()) : to.write(one);
}

version cluster_core::insert_many(std::span<const item> items) {
  begin_call();
  std::vector<std::vector<write_view>> by_owner(static_cast<std::size_t>(ranks_));
  for (const item& each : items) {
    const write_view one{each.key, each.value};
    check_size(one);
    by_owner[static_cast<std::size_t>(owner_of(each.key))].push_back(one);
  }
  const write_gate::pass through(gate_, waiting());
  check_writes();
  std::vector<std::pair<int, answer<written>>> answers;
  for (int step = 1; step <= ranks_; ++step) {  // this rank last: meanwhile the others work
    const int to = (rank_ + step) % ranks_;
    const auto& mine = by_owner[static_cast<std::size_t>(to)];
    if (staging()) {
      for (const write_view& one : mine) of(to).stage(one, clock());
    } else if (!mine.empty()) {
      answers.emplace_back(to, of(to).write_many(mine));
    }
  }
  ranks::failure refused;
  for (auto& [from, each] : answers) {
    const written result = each.take();
    if (result.failed == 0 || refused.happened()) continue;
    refused = {result.first.code(), fmt::format("rank {} refused {} of the inserts; the first error: {}", from,
                                                result.failed, result.first.text())};
  }
  if (refused.happened()) refused.raise();
  return clock();
}

int cluster_core::owner_of_all(const batch& operations) const {
  const auto& all = operations.operations();
  const int to = owner_of(all.front().key);
  for (const auto& each : all) {
    const int other = owner_of(each.key);
    if (other == to) continue;
    throw error(errc::invalid_argument, fmt::format("a batch takes effect on one owner, but this one has keys of ranks "
                                                    "{} and {}; owner_of() returns a key's owner",
                                                    to, other));
  }
  return to;
}

version cluster_core::apply(const batch& operations) {
  begin_call();
  if (operations.has_conditions()) {  // what travels for apply() has no room for them
    throw error(errc::invalid_argument, "the batch has conditions (insert_new, replace), which may fail: use apply_if");
  }
  if (operations.empty()) return clock();
  const int to = owner_of_all(operations);
  const write_gate::pass through(gate_, waiting());
  check_writes();
  return of(to).apply(operations);
}

std::optional<version> cluster_core::apply_if(const batch& operations) {
  begin_call();
  if (operations.empty()) return clock();
  const int to = owner_of_all(operations);
  const write_gate::pass through(gate_, waiting());
  check_writes();
  return of(to).apply_if(operations);
}

void cluster_core::define_update(int number, update_function change) {
  begin_call();
  own_->define_update(number, std::move(change));
}

std::string cluster_core::update(std::string_view key, int number, std::string_view input) {
  begin_call();
  check_finds();
  check_size(key);
  partition& at = owner(key);
  const write_gate::pass through(gate_, waiting());
  check_writes();
  return at.update(key, number, input);
}

version cluster_core::insert_in_turn(std::string_view key, std::string_view value) {
  begin_call();
  check_size({key, value});
  const int at = owner_of(key);
  if (at != rank_) {
    throw error(
        errc::invalid_argument,
        fmt::format("insert_in_turn() works on the key's owner: the key is rank {}'s, and this is rank {}", at, rank_));
  }
  const write_gate::pass through(gate_, waiting());
  check_writes();
  return own_->insert_in_turn({key, value});
}

// ---- Reading ----

std::optional<std::string> cluster_core::find(std::string_view key, read_at at) const {
  begin_call();
  at ? check_closed(*at) : check_finds();
  check_size(key);
  const int from = owner_of(key);
  if (at || !is_cached(from)) return of(from).find(key, at);
  return std::optional<std::string>(hold_cached(key, from).bytes);
}

held_value cluster_core::hold_cached(std::string_view key, int owner) const {
  read_cache::look look = cache_.find(key);
  if (look.hit) return std::move(look.value);
  held_value found = of(owner).hold(key);
  cache_.keep(look, key, found);
  return found;
}

bool cluster_core::visit(std::string_view key, const value_visitor& use) const {
  begin_call();
  check_finds();
  check_size(key);
  const int from = owner_of(key);
  const held_value found = is_cached(from) ? hold_cached(key, from) : of(from).hold(key);
  if (found.bytes) use(*found.bytes);
  return found.bytes.has_value();
}

bool cluster_core::contains(std::string_view key, read_at at) const {
  begin_call();
  at ? check_closed(*at) : check_finds();
  check_size(key);
  return owner(key).contains(key, at);
}

found_values cluster_core::find_many(std::span<const std::string_view> keys, read_at at) const {
  begin_call();
  at ? check_closed(*at) : check_finds();
  std::vector<std::vector<std::size_t>> by_owner(static_cast<std::size_t>(ranks_));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    check_size(keys[i]);
    by_owner[static_cast<std::size_t>(owner_of(keys[i]))].push_back(i);
  }
  std::vector<std::pair<int, answer<found_values>>> answers;
  for (int step = 1; step <= ranks_; ++step) {  // this rank last: meanwhile the others work
    const int from = (rank_ + step) % ranks_;
    const auto& places = by_owner[static_cast<std::size_t>(from)];
    if (places.empty()) continue;
    std::vector<std::string_view> theirs;
    theirs.reserve(places.size());
    for (const std::size_t i : places) theirs.push_back(keys[i]);
    answers.emplace_back(from, of(from).find_many(std::move(theirs), at));
  }
  found_values found(keys.size());
  for (auto& [from, each] : answers) {
    found_values values = each.take();
    const auto& places = by_owner[static_cast<std::size_t>(from)];
    for (std::size_t i = 0; i < places.size(); ++i) found[places[i]] = std::move(values[i]);
  }
  return found;
}

std::vector<versioned_value> cluster_core::history(std::string_view key) const {
  begin_call();
  check_finds();
  check_size(key);
  return owner(key).history(key);
}

std::vector<tag_info> cluster_core::tags(std::optional<std::string_view> name) const {
  begin_call();
  return of(0).tags(name);
}

std::uint64_t cluster_core::count(version at) const {
  begin_call();
  std::vector<answer<std::uint64_t>> answers;
  for (int step = 1; step <= ranks_; ++step) answers.push_back(of((rank_ + step) % ranks_).count(at));
  std::uint64_t total = 0;
  for (auto& each : answers) total += each.take();
  return total;
}

std::uint64_t cluster_core::count(version at, const filter& condition) const {
  begin_call();
  std::vector<answer<std::uint64_t>> answers;
  for (int step = 1; step <= ranks_; ++step) answers.push_back(of((rank_ + step) % ranks_).count(at, condition));
  std::uint64_t total = 0;
  for (auto& each : answers) total += each.take();
  return total;
}

/// A token is the number of a rank, 4 bytes, and that rank's token, which carries all checks.
cluster_page cluster_core::page(version at, const filter& condition, const page_limits& limits,
                                std::string_view token) const {
  begin_call();
  const auto begun = std::chrono::steady_clock::now();
  const int step = limits.reverse ? -1 : 1;
  int owner = limits.reverse ? ranks_ - 1 : 0;
  if (!token.empty()) {
    owner = token.size() > sizeof(std::int32_t) ? unpacker(token).number<std::int32_t>() : -1;
    if (owner < 0 || owner >= ranks_) {
      throw error(errc::bad_token,
                  fmt::format("the token is damaged, or of a cluster with more than {} ranks", ranks_));
    }
    token.remove_prefix(sizeof(std::int32_t));
  }
  cluster_page made;
  page_limits left = limits;
  left.token_at_end = true;
  for (;; owner += step, token = {}) {
    cluster_page found = of(owner).page(at, condition, left, token);
    std::ranges::move(found.items, std::back_inserter(made.items));
    made.examined += found.examined;
    made.end = found.end && owner + step == (limits.reverse ? -1 : ranks_);
    left.matches = limits.matches - made.items.size();
    if (limits.examined) left.examined = *limits.examined - made.examined;
    if (limits.time) {
      const auto taken =
          std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begun);
      left.time = std::max(*limits.time - taken, std::chrono::microseconds(0));
    }
    const bool full = left.matches == 0 || left.examined == 0U || left.time == std::chrono::microseconds(0);
    if (made.end && !limits.token_at_end) return made;
    if (full || made.end || !found.end) {
      packer out;
      out.number(static_cast<std::int32_t>(owner));
      made.token = out.take() + found.token;
      return made;
    }
  }
}

// ---- Feeds ----

version cluster_core::newest_not_lost(version v) const noexcept {
  for (const version_range& lost : lost_.ranges()) {
    if (lost.first <= v && v < lost.end) v = lost.first - 1;
  }
  return v;
}

version cluster_core::newest_readable() const {
  begin_call();
  return newest_not_lost(clock() - 1);
}

void cluster_core::wait_for_version(version seen, std::chrono::steady_clock::time_point until) const {
  running_.wait([&] { return newest_not_lost(clock() - 1) > seen || std::chrono::steady_clock::now() >= until; });
}

// ---- Fence and signals ----

void cluster_core::fence(barrier_level level) {
  begin_call();
  fence_all();
  if (level == barrier_level::memory) return;
  const write_gate::pass through(gate_, waiting());  // collective calls rely on no other call closing a version
  std::vector<answer<version>> answers;
  for (int step = 1; step <= ranks_; ++step) answers.push_back(of((rank_ + step) % ranks_).sync());
  for (auto& each : answers) static_cast<void>(each.take());
}

void cluster_core::fence_all() {
  std::vector<std::uint64_t> marks;
  marks.reserve(remote_.size());
  for (const auto& each : remote_) marks.push_back(each->begin_fence());
  for (std::size_t i = 0; i < remote_.size(); ++i) {
    running_.wait([&] { return remote_[i]->fenced(marks[i]); });
  }
  throw_refused();
}

void cluster_core::throw_refused() const {
  ranks::failure first;
  for (int from = 0; from < ranks_; ++from) {
    const written result = of(from).take_refused();
    if (result.failed == 0 || first.happened()) continue;
    first = {result.first.code(),
             fmt::format("rank {} refused {} of the writes that rank {} staged; the first error: {}", from,
                         result.failed, rank_, result.first.text())};
  }
  if (first.happened()) first.raise();
}

void cluster_core::signal_notify(int signum, std::span<const int> ranks) {
  for (const int to : ranks) static_cast<void>(group_of(to));  // throws if there is no such rank
  fence(barrier_level::memory);
  for (const int to : ranks) of(to).signal(signum);
}

void cluster_core::signal_wait(int signum, std::span<const int> ranks) {
  begin_call();
  for (const int from : ranks) static_cast<void>(group_of(from));
  for (const int from : ranks) {
    running_.wait([&] { return signals_.take(from, signum); });
  }
}

}  // namespace icecore::mpi
