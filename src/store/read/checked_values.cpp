#include "store/read/checked_values.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <new>

#include "base/raise.hpp"

namespace icecore::detail {

namespace {

void unmap_all(auto& bits) noexcept {
  for (auto& b : bits) {
    if (b.words != nullptr) munmap(b.words, b.size_bytes);
  }
}

}  // namespace

checked_values::checked_values(const pool_set& of) {
  for (const pool* p : of.files()) {
    const std::uint64_t bytes = std::max(p->capacity(), p->size()) / format::large_value_size / 8 + 8;
    auto& b = bits_[p->number()];
    b.size_bytes = format::round_up(bytes, format::page_size);
    void* at = mmap(nullptr, b.size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
      unmap_all(bits_);
      throw std::bad_alloc();
    }
    b.words = static_cast<std::atomic<std::uint64_t>*>(at);
  }
}

checked_values::~checked_values() { unmap_all(bits_); }

void checked_values::forget() noexcept {
  for (const auto& b : bits_) {
    if (b.words == nullptr || ::madvise(b.words, b.size_bytes, MADV_DONTNEED) == 0) continue;
    for (std::size_t i = 0; i < b.size_bytes / sizeof *b.words; ++i) {  // locked memory
      b.words[i].store(0, std::memory_order_relaxed);                   // relaxed: as mark()
    }
  }
}

namespace {

std::string_view key_of(const history_base& histories, record r) {
  return (r.is_entry() ? r : histories.at(r.as_update().entry)).key();
}

version version_of(record r) {
  // relaxed: used only in the message
  return r.header().stamp.load(std::memory_order_relaxed) & format::stamp_version_mask;
}

}  // namespace

void checked_values::check(const pool_set& in, const history_base& histories, link l) {
  const record r = histories.at(l);
  if (!r.value_intact()) {
    raise(errc::damaged, "{}: the value of key '{}' in version {} is damaged on media (record at byte {}, {} bytes)",
          in.of(l).file().path().native(), key_of(histories, r), version_of(r), link_offset(l), r.layout().value_size);
  }
  mark(l);
}

void checked_values::raise_lost(const pool_set& in, const history_base& histories, link l) {
  const record r = histories.at(l);
  raise(errc::damaged,
        "{}: a record of key '{}' is lost on media: what the key held from version {} until its next record is not "
        "known; icecore verify names the place",
        in.file().path().native(), key_of(histories, r), version_of(r));
}

}  // namespace icecore::detail
