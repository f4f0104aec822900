#include "machine.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "fibers.hpp"

namespace icecore::crash {

watched_range watched{0, 0};
pending_store pending{nullptr, 0};

void log_pending_store() noexcept {
  if (pending.size == 0) return;
  const auto store = pending;
  pending.size = 0;
  machine::get().stored(store.at, store.size);
}

simulated_file::simulated_file() {
  void* at = mmap(nullptr, size_max, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  base_ = static_cast<std::byte*>(at);
}

simulated_file::~simulated_file() { munmap(base_, size_max); }

void simulated_file::assign(std::span<const std::byte> content) {
  if (!content.empty()) std::memcpy(base_, content.data(), content.size());
  const std::uint64_t before = std::max(touched_, size_);
  if (content.size() < before) std::memset(base_ + content.size(), 0, before - content.size());
  size_ = touched_ = content.size();
  exists_ = true;
}

void simulated_file::resize(std::uint64_t size) {
  if (size > size_max) std::abort();
  if (size < size_) std::memset(base_ + size, 0, size_ - size);
  size_ = size;
  touched_ = std::max(touched_, size);
}

void simulated_file::remove() {
  resize(0);
  exists_ = false;
}

machine& machine::get() {
  static auto* one = new machine;
  return *one;
}

machine::machine() : files_(files) {}

std::string machine::path(unsigned number) {
  return std::string(root) + (number == recorded ? "/recorded.ice" : "/checked.ice");
}

void machine::start_recording() {
  events_.clear();
  const auto now = files_[recorded].bytes();
  logged_.assign(now.begin(), now.end());
  recording_ = true;
  watched = {reinterpret_cast<std::uintptr_t>(files_[recorded].base()), simulated_file::size_max};
}

trace machine::stop_recording() {
  compare();
  watched = {0, 0};
  recording_ = false;
  return std::move(events_);
}

void machine::note(event e) {
  if (!recording_) return;
  log_pending_store();
  e.writer = fibers::current();
  if (e.what == event::kind::resize) {
    const std::uint64_t before = logged_.size();
    // what a shorter file loses is gone for good when it grows again: zeros stored there
    for (std::uint64_t at = e.value / 8 * 8; at + 8 <= before; at += 8) {
      std::uint64_t word;
      std::memcpy(&word, logged_.data() + at, sizeof word);
      if (word != 0) events_.push_back({event::kind::store, e.writer, 8, at, 0});
    }
    logged_.resize(e.value);
  }
  events_.push_back(e);
}

void machine::stored(const std::byte* at, std::uint64_t size) noexcept {
  if (!recording_) return;
  std::uint64_t offset = static_cast<std::uint64_t>(at - files_[recorded].base());
  const std::uint64_t end = offset + size;
  while (offset < end) {
    const std::uint64_t piece = std::min(end, offset / 8 * 8 + 8) - offset;
    event e{event::kind::store, fibers::current(), static_cast<std::uint8_t>(piece), offset, 0};
    std::memcpy(&e.value, files_[recorded].base() + offset, piece);
    // A file that is being closed has shrunk already: what lies behind its end is nobody's.
    if (offset + piece <= logged_.size()) {
      std::memcpy(logged_.data() + offset, &e.value, piece);
      events_.push_back(e);
    }
    offset += piece;
  }
}

void machine::stored_block(const std::byte* at, std::uint64_t size) {
  if (!recording_) return;
  const std::size_t first = events_.size();
  stored(at, size);
  if (random_() % 2 == 0) std::reverse(events_.begin() + static_cast<std::ptrdiff_t>(first), events_.end());
}

void machine::stored_by_system(const void* at, std::uint64_t size) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  if (recording_ && address - watched.base < watched.size) stored_block(static_cast<const std::byte*>(at), size);
}

void machine::compare() {
  if (!recording_) return;
  log_pending_store();
  const simulated_file& f = files_[recorded];
  if (f.size() == logged_.size() && std::memcmp(f.base(), logged_.data(), logged_.size()) == 0) return;
  std::size_t at = 0;
  while (at < std::min<std::size_t>(f.size(), logged_.size()) && f.base()[at] == logged_[at]) ++at;
  std::fprintf(stderr, "the simulator missed a store at byte %zu of the file (%llu bytes, %zu logged)\n", at,
               static_cast<unsigned long long>(f.size()), logged_.size());
  std::abort();
}

}  // namespace icecore::crash
