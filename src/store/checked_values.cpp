#include "store/checked_values.hpp"

#include <sys/mman.h>

#include <new>

#include "base/raise.hpp"

namespace icecore::detail {

checked_values::checked_values(std::uint64_t capacity)
    : size_bytes_(format::round_up(capacity / format::large_value_size / 8 + 8, format::page_size)) {
  void* at = mmap(nullptr, size_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  bits_ = static_cast<std::atomic<std::uint64_t>*>(at);
}

checked_values::~checked_values() { munmap(bits_, size_bytes_); }

namespace {

std::string_view key_of(const histories& past, record r) {
  return (r.is_entry() ? r : past.at(r.as_update().entry)).key();
}

version version_of(record r) {
  // relaxed: for the message only
  return r.header().stamp.load(std::memory_order_relaxed) & format::stamp_version_mask;
}

}  // namespace

void checked_values::check(const pool& in, const histories& past, link l) {
  const record r = past.at(l);
  if (!r.value_intact()) {
    raise(errc::damaged, "{}: the value of key '{}' in version {} is damaged on media (record at byte {}, {} bytes)",
          in.file().path().native(), key_of(past, r), version_of(r), link_offset(l), r.layout().value_size);
  }
  mark(l);
}

void checked_values::raise_lost(const pool& in, const histories& past, link l) {
  const record r = past.at(l);
  raise(errc::damaged,
        "{}: what key '{}' held from version {} on is lost on media, until its next record; icecore verify names the "
        "place",
        in.file().path().native(), key_of(past, r), version_of(r));
}

}  // namespace icecore::detail
