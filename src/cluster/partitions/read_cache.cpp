#include "cluster/partitions/read_cache.hpp"

namespace icecore::mpi {

std::size_t read_cache::size_of(const entry& one) noexcept {
  constexpr std::size_t overhead = 240;  // list and hash nodes, headers of a string and a message, the reference count
  return overhead + one.key.size() + (one.value.bytes ? one.value.bytes->size() : 0);
}

read_cache::look read_cache::find(std::string_view key) {
  const std::scoped_lock lock(mutex_);
  const auto it = by_key_.find(key);
  if (it == by_key_.end()) return {false, {}, epoch_};
  entries_.splice(entries_.begin(), entries_, it->second);
  return {true, it->second->value, epoch_};
}

void read_cache::keep(const look& before, std::string_view key, const held_value& value) {
  entry one{std::string(key), value};
  const std::size_t size = size_of(one);
  if (size > bytes_max_) return;
  const std::scoped_lock lock(mutex_);
  if (before.epoch != epoch_ || by_key_.contains(key)) return;
  while (bytes_ + size > bytes_max_) {
    const entry& oldest = entries_.back();
    bytes_ -= size_of(oldest);
    by_key_.erase(oldest.key);
    entries_.pop_back();
  }
  entries_.push_front(std::move(one));
  by_key_.emplace(entries_.front().key, entries_.begin());
  bytes_ += size;
}

void read_cache::clear() {
  const std::scoped_lock lock(mutex_);
  ++epoch_;
  by_key_.clear();
  entries_.clear();
  bytes_ = 0;
}

std::size_t read_cache::bytes() const {
  const std::scoped_lock lock(mutex_);
  return bytes_;
}

}  // namespace icecore::mpi
