#include "machine.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

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

std::byte* memory_for_files(std::size_t bytes) {
  constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;
  constexpr int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const at = mmap(nullptr, bytes + huge_page_bytes, PROT_READ | PROT_WRITE, kind, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  return static_cast<std::byte*>(at) + (huge_page_bytes - address % huge_page_bytes) % huge_page_bytes;
}

machine::machine() {
  std::byte* const at = memory_for_files(stores * files_max * simulated_file::size_max);
  for (unsigned i = 0; i < stores * files_max; ++i) files_.emplace_back(at + i * simulated_file::size_max);
}

std::string machine::folder(unsigned of) { return std::string(root) + (of == recorded ? "/recorded" : "/checked"); }

std::string machine::path(unsigned of, unsigned n) { return folder(of) + (n == 0 ? "/first.ice" : "/secondary.ice"); }

left_files machine::left(unsigned of) noexcept {
  left_files files;
  for (unsigned n = 0; n < files_max; ++n) files[n] = file(of, n).left();
  return files;
}

void machine::assign(unsigned of, const left_files& files) {
  for (unsigned n = 0; n < files_max; ++n) {
    if (files[n].there) {
      file(of, n).assign(files[n].bytes);
    } else {
      file(of, n).remove();
    }
  }
}

void machine::start_recording() {
  events_.clear();
  time_ = std::chrono::hours(24);
  for (unsigned n = 0; n < files_max; ++n) {
    const auto now = file(recorded, n).bytes();
    logged_[n].assign(now.begin(), now.end());
  }
  recording_ = true;
  watched = {reinterpret_cast<std::uintptr_t>(file(recorded).base()), files_max * simulated_file::size_max};
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
    auto& logged = logged_[e.offset / file_apart];
    // events of a second file would be taken for this one's
    if (e.value > file_apart) throw std::length_error("a file of a story is larger than file_apart");
    const std::uint64_t before = logged.size();
    // what a shorter file loses is gone for good when it grows again: zeros stored there
    for (std::uint64_t at = e.value / 8 * 8; at + 8 <= before; at += 8) {
      std::uint64_t word;
      std::memcpy(&word, logged.data() + at, sizeof word);
      if (word != 0) events_.push_back({event::kind::store, e.writer, 8, e.offset + at, 0});
    }
    logged.resize(e.value);
  }
  events_.push_back(e);
}

void machine::stored(const std::byte* at, std::uint64_t size) noexcept {
  if (!recording_) return;
  const auto n =
      static_cast<unsigned>((at - file(recorded).base()) / static_cast<std::ptrdiff_t>(simulated_file::size_max));
  const std::byte* const base = file(recorded, n).base();
  auto& logged = logged_[n];
  auto offset = static_cast<std::uint64_t>(at - base);
  const std::uint64_t end = offset + size;
  while (offset < end) {
    const std::uint64_t piece = std::min(end, offset / 8 * 8 + 8) - offset;
    event e{event::kind::store, fibers::current(), static_cast<std::uint8_t>(piece), n * file_apart + offset, 0};
    std::memcpy(&e.value, base + offset, piece);
    // A file that is being closed has shrunk already: what lies behind its end is nobody's.
    if (offset + piece <= logged.size()) {
      std::memcpy(logged.data() + offset, &e.value, piece);
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
  for (unsigned n = 0; n < files_max; ++n) {
    const simulated_file& f = file(recorded, n);
    const auto& logged = logged_[n];
    if (f.size() == logged.size() && std::memcmp(f.base(), logged.data(), logged.size()) == 0) continue;
    std::size_t at = 0;
    while (at < std::min<std::size_t>(f.size(), logged.size()) && f.base()[at] == logged[at]) ++at;
    std::fprintf(stderr, "the simulator missed a store at byte %zu of file %u (%llu bytes, %zu logged)\n", at, n,
                 static_cast<unsigned long long>(f.size()), logged.size());
    std::abort();
  }
}

}  // namespace icecore::crash
