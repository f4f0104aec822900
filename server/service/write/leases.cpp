#include "service/write/leases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "icecore/error.hpp"
#include "service/read/hidden_keys.hpp"

namespace icecore::service {
namespace {

[[noreturn]] void no_such_lease(lease_number number) {
  throw icecore::error(errc::no_such_lease, fmt::format("no lease has the number {}, or its time is over", number));
}

std::string key_of(lease_number number) { return std::string(lease_prefix) + bytes_of_number(number); }

std::string key_of(std::string_view leased) { return std::string(leased_prefix).append(leased); }

std::uint64_t number_in(std::string_view bytes, std::string_view what) {
  const auto number = number_of_bytes(bytes);
  if (!number) {
    throw icecore::error(errc::damaged,
                         fmt::format("{} of this database has {} bytes instead of 8", what, bytes.size()));
  }
  return *number;
}

}  // namespace

lease_table::lease_table(const icecore::store& from) {
  const icecore::snapshot now = from.latest();
  const clock::time_point begin = clock::now();
  auto granted = now.prefix(lease_prefix);
  for (const auto& [key, value] : granted) {
    lease made;
    made.granted = std::chrono::milliseconds(number_in(value, "the time of a lease"));
    made.until = begin + made.granted;
    leases_.emplace(number_in(key.substr(lease_prefix.size()), "the number of a lease"), std::move(made));
  }
  auto attached = now.prefix(leased_prefix);
  for (const auto& [key, value] : attached) {
    const lease_number number = number_in(value, "the lease of a key");
    const auto found = leases_.find(number);
    if (found == leases_.end()) {
      throw icecore::error(errc::damaged,
                           fmt::format("a key of this database has the lease {}, which is lost", number));
    }
    const std::string leased(key.substr(leased_prefix.size()));
    found->second.keys.insert(leased);
    of_keys_.emplace(leased, number);
  }
  count_all();
}

void lease_table::count_all() noexcept {
  count_.store(leases_.size(), std::memory_order_release);
  busy_.store(leases_.size() + ending_.size(), std::memory_order_release);
}

lease_number lease_table::of(std::string_view key) const {
  if (!any()) return 0;
  const std::lock_guard lock(mutex_);
  const auto found = of_keys_.find(key);
  return found == of_keys_.end() ? 0 : found->second;
}

bool lease_table::is_over(std::string_view key) const {
  if (!any()) return false;
  const std::lock_guard lock(mutex_);
  return is_over_locked(key);
}

bool lease_table::is_over_locked(std::string_view key) const {
  const auto found = of_keys_.find(key);
  if (found == of_keys_.end()) return false;
  const auto of = leases_.find(found->second);
  return of != leases_.end() && of->second.until <= clock::now();
}

bool lease_table::is_hidden(std::string_view key) const {
  if (!any()) return false;
  const std::lock_guard lock(mutex_);
  return ending_.contains(key) || is_over_locked(key);
}

std::set<std::string, std::less<>> lease_table::hidden() const {
  std::set<std::string, std::less<>> all;
  if (!any()) return all;
  const std::lock_guard lock(mutex_);
  const clock::time_point now = clock::now();
  for (const auto& [number, it] : leases_) {
    if (it.until <= now) all.insert(it.keys.begin(), it.keys.end());
  }
  for (const auto& [key, at] : ending_) all.insert(key);
  return all;
}

void lease_table::shown(icecore::version up_to) {
  if (!any()) return;
  const std::lock_guard lock(mutex_);
  if (ending_.empty()) return;
  std::erase_if(ending_, [up_to](const auto& each) { return each.second <= up_to; });
  count_all();
}

bool lease_table::contains(lease_number number) const {
  const std::lock_guard lock(mutex_);
  const auto found = leases_.find(number);
  return found != leases_.end() && found->second.until > clock::now();
}

bool lease_table::is_known(lease_number number) const {
  const std::lock_guard lock(mutex_);
  return leases_.contains(number);
}

std::vector<std::string> lease_table::keys(lease_number number) const {
  const std::lock_guard lock(mutex_);
  const auto found = leases_.find(number);
  if (found == leases_.end()) return {};
  return {found->second.keys.begin(), found->second.keys.end()};
}

const lease_table::lease& lease_table::known(lease_number number) const {
  const auto found = leases_.find(number);
  if (found == leases_.end() || found->second.until <= clock::now()) no_such_lease(number);
  return found->second;
}

lease_info lease_table::about(lease_number number, bool keys) const {
  const std::lock_guard lock(mutex_);
  const lease& it = known(number);
  lease_info info{.number = number,
                  .granted = it.granted,
                  .left = std::chrono::duration_cast<std::chrono::milliseconds>(it.until - clock::now()),
                  .keys = {}};
  if (keys) info.keys.assign(it.keys.begin(), it.keys.end());
  return info;
}

lease_info lease_table::keep_alive(lease_number number) {
  {
    const std::lock_guard lock(mutex_);
    static_cast<void>(known(number));
    lease& it = leases_.find(number)->second;
    it.until = clock::now() + it.granted;
  }
  return about(number, false);
}

std::vector<lease_number> lease_table::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<lease_number> numbers;
  for (const auto& [number, it] : leases_) {
    if (it.until > clock::now()) numbers.push_back(number);
  }
  return numbers;
}

std::vector<lease_number> lease_table::over() const {
  if (!any()) return {};
  const std::lock_guard lock(mutex_);
  std::vector<lease_number> numbers;
  for (const auto& [number, it] : leases_) {
    if (it.until <= clock::now()) numbers.push_back(number);
  }
  return numbers;
}

lease_number lease_table::free_number() const {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  const std::lock_guard lock(mutex_);
  for (;;) {
    // 63 bits: languages without unsigned numbers show it as it is.
    const lease_number number = random() >> 1;
    if (number != 0 && !leases_.contains(number)) return number;
  }
}

// ---- Changes ----

void lease_changes::require(lease_number lease) const {
  if (std::ranges::any_of(granted_, [&](const auto& made) { return made.first == lease; })) return;
  if (std::ranges::find(revoked_, lease) != revoked_.end() || !of_->contains(lease)) no_such_lease(lease);
}

void lease_changes::grant(lease_number lease, std::chrono::milliseconds time) { granted_.emplace_back(lease, time); }

void lease_changes::attach(std::string_view key, lease_number lease) {
  if (lease == 0 && !attached_.contains(key) && of_->of(key) == 0) return;
  attached_.insert_or_assign(std::string(key), lease);
}

lease_number lease_changes::of(std::string_view key) const {
  const auto found = attached_.find(key);
  return found != attached_.end() ? found->second : of_->of(key);
}

void lease_changes::revoke(lease_number lease) { revoked_.push_back(lease); }

void lease_changes::stage(icecore::batch& into) const {
  for (const auto& [number, time] : granted_) {
    into.insert(key_of(number), bytes_of_number(static_cast<std::uint64_t>(time.count())));
  }
  for (const auto& [key, number] : attached_) {
    if (number == 0) {
      into.remove(key_of(key));
    } else {
      into.insert(key_of(key), bytes_of_number(number));
    }
  }
  for (const lease_number number : revoked_) into.remove(key_of(number));
}

void lease_changes::commit(icecore::version at) {
  if (empty()) return;
  const std::lock_guard lock(of_->mutex_);
  const auto now = lease_table::clock::now();
  for (const auto& [number, time] : granted_) {
    lease_table::lease made;
    made.granted = time;
    made.until = now + time;
    of_->leases_.insert_or_assign(number, std::move(made));
  }
  for (const auto& [key, number] : attached_) {
    if (const auto had = of_->of_keys_.find(key); had != of_->of_keys_.end()) {
      if (const auto before = of_->leases_.find(had->second); before != of_->leases_.end()) {
        before->second.keys.erase(key);
        if (at != 0 && before->second.until <= now) of_->ending_.insert_or_assign(key, at);
      }
      of_->of_keys_.erase(had);
    }
    if (number == 0) continue;
    if (const auto of = of_->leases_.find(number); of != of_->leases_.end()) {
      of->second.keys.insert(key);
      of_->of_keys_.emplace(key, number);
    }
  }
  for (const lease_number number : revoked_) of_->leases_.erase(number);
  of_->count_all();
}

}  // namespace icecore::service
