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

void checked_values::check(const pool& in, record r, link l) {
  if (!r.value_intact()) {
    const record entry = r.is_entry() ? r : record(in.at(link_offset(r.as_update().entry)));
    const std::uint64_t word = r.header().stamp.load(std::memory_order_relaxed);  // relaxed: for the message only
    raise(errc::damaged, "{}: the value of key '{}' in version {} is damaged on media (record at byte {}, {} bytes)",
          in.file().path().native(), entry.key(), word & format::stamp_version_mask, link_offset(l),
          r.layout().value_size);
  }
  mark(l);
}

}  // namespace icecore::detail
