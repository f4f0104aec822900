// Mapping memory on the simulated machine: files are in memory already; and other memory of stores is kept from one
// opening to the next, which saves most of its time.
//
// For programs whose mmap, munmap and mprotect the linker leads here (--wrap).
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <vector>

#include "machine.hpp"

namespace {

struct kept_mapping {
  std::byte* at;
  std::size_t bytes;
  std::size_t writable;  // bytes from its start that were ever made writable
  bool used;
};
std::vector<kept_mapping> kept;

// By number: where these are themselves led elsewhere, their names would lead back.
void* real_mmap(void* wish, std::size_t bytes, int protection, int flags, int descriptor, off_t offset) {
  return reinterpret_cast<void*>(syscall(SYS_mmap, wish, bytes, protection, flags, descriptor, offset));
}

kept_mapping* kept_around(const void* at) {
  for (kept_mapping& k : kept) {
    if (at >= k.at && at < k.at + k.bytes) return &k;
  }
  return nullptr;
}

}  // namespace

extern "C" {

int __wrap_mprotect(void* at, std::size_t bytes, int protection);

void* __wrap_mmap(void* wish, std::size_t bytes, int protection, int flags, int descriptor, off_t offset) {
  if (descriptor >= icecore::crash::first_simulated_descriptor)
    return icecore::crash::map_simulated(wish, bytes, descriptor, offset, (flags & MAP_PRIVATE) == 0);
  const int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (wish != nullptr || flags != kind) return real_mmap(wish, bytes, protection, flags, descriptor, offset);
  for (kept_mapping& k : kept) {
    if (k.used || k.bytes != bytes) continue;
    k.used = true;
    if ((protection & PROT_WRITE) != 0 && __wrap_mprotect(k.at, bytes, protection) != 0) return MAP_FAILED;
    return k.at;
  }
  void* at = real_mmap(nullptr, bytes, protection, flags, -1, 0);
  const bool writable = (protection & PROT_WRITE) != 0;
  if (at != MAP_FAILED) kept.push_back({static_cast<std::byte*>(at), bytes, writable ? bytes : 0, true});
  return at;
}

int __wrap_mprotect(void* at, std::size_t bytes, int protection) {
  kept_mapping* k = kept_around(at);
  if (k == nullptr) return static_cast<int>(syscall(SYS_mprotect, at, bytes, protection));
  const auto end = static_cast<std::size_t>(static_cast<std::byte*>(at) + bytes - k->at);
  if (end <= k->writable) return 0;
  k->writable = end;
  return static_cast<int>(syscall(SYS_mprotect, at, bytes, protection));
}

int __wrap_munmap(void* at, std::size_t bytes) {
  if (icecore::crash::unmap_simulated(at)) return 0;
  kept_mapping* k = kept_around(at);
  if (k == nullptr) return static_cast<int>(syscall(SYS_munmap, at, bytes));
  k->used = false;
  constexpr std::size_t cheaper_to_drop = std::size_t{4} << 20;
  if (k->writable > cheaper_to_drop) return madvise(k->at, k->writable, MADV_DONTNEED);
  std::memset(k->at, 0, k->writable);
  return 0;
}

}  // extern "C"
