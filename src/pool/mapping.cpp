#include "pool/mapping.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/raise.hpp"
#include "pool/format.hpp"

namespace icecore {

mapping::mapping(int descriptor, std::string path, std::uint64_t capacity, bool shared)
    : path_(std::move(path)),
      capacity_(format::round_up(capacity, std::uint64_t{2} << 20)),
      shared_(shared),
      descriptor_(descriptor) {
  check(pmem2_source_from_fd(&source_, descriptor), "pmem2_source_from_fd");
  // address space may be limited (ulimit -v): take what there is
  while (pmem2_vm_reservation_new(&reservation_, nullptr, capacity_) != 0) {
    capacity_ = format::round_up(capacity_ / 2, std::uint64_t{2} << 20);
    if (capacity_ < (std::uint64_t{64} << 20)) {
      pmem2_source_delete(&source_);
      raise(errc::io,
            "{}: cannot reserve addresses for the store, neither {} bytes nor, halved again and again, {}: {}; allow "
            "the process more address space (ulimit -v)",
            path_, capacity, capacity_, pmem2_errormsg());
    }
  }
  base_ = static_cast<std::byte*>(pmem2_vm_reservation_get_address(reservation_));
}

mapping::~mapping() {
  for (auto*& map : maps_) pmem2_map_delete(&map);
  pmem2_vm_reservation_delete(&reservation_);
  pmem2_source_delete(&source_);
}

void mapping::require(std::uint64_t size) const {
  if (size <= capacity_) return;
  raise(errc::no_space, "{}: the store would need {} bytes of addresses but only {} could be reserved", path_, size,
        capacity_);
}

void mapping::extend(std::uint64_t size) {
  if (size <= size_) return;
  require(size);
  // Growth asks libpmem2 for nothing: out of memory, it would keep its lock on the reservation (libpmem2 1.12).
  if (shared_ && !maps_.empty()) map_capacity();
  if (maps_capacity_) {
    size_ = size;
    return;
  }
  maps_.reserve(maps_.size() + 1);  // first: if memory runs out here, nothing is to be given back
  pmem2_config* config = nullptr;
  check(pmem2_config_new(&config), "pmem2_config_new");
  pmem2_map* map = nullptr;
  int result = pmem2_config_set_required_store_granularity(config, PMEM2_GRANULARITY_PAGE);
  if (result == 0) result = pmem2_config_set_offset(config, size_);
  if (result == 0) result = pmem2_config_set_length(config, size - size_);
  if (result == 0) result = pmem2_config_set_sharing(config, shared_ ? PMEM2_SHARED : PMEM2_PRIVATE);
  if (result == 0) result = pmem2_config_set_vm_reservation(config, reservation_, size_);
  if (result == 0) result = pmem2_map_new(&map, config, source_);
  pmem2_config_delete(&config);
  check(result, "pmem2_map_new");
  maps_.push_back(map);
  size_ = size;
}

void mapping::map_capacity() {
  if (maps_capacity_ || size_ == capacity_) return;
  // libpmem2 maps only what the file has. Pages that are mapped already keep their mapping.
  const auto map_rest = [this](int kind) {
    return mmap(base_ + size_, capacity_ - size_, PROT_READ | PROT_WRITE, kind | MAP_FIXED | MAP_NORESERVE, descriptor_,
                static_cast<off_t>(size_));
  };
  const bool by_pages = granularity() == PMEM2_GRANULARITY_PAGE;
  void* rest = map_rest(by_pages ? MAP_SHARED : MAP_SHARED_VALIDATE | MAP_SYNC);
  // libpmem2 was told to take cache lines for granted; else a file system that refuses them here, and did not there,
  // would make promises empty
  const bool granted = std::getenv("PMEM2_FORCE_GRANULARITY") != nullptr;
  if (rest == MAP_FAILED && !by_pages && granted && (errno == EOPNOTSUPP || errno == EINVAL))
    rest = map_rest(MAP_SHARED);
  if (rest == MAP_FAILED) raise_errno(errno, "mmap", path_);
  maps_capacity_ = true;
}

pmem2_granularity mapping::granularity() const noexcept { return pmem2_map_get_store_granularity(maps_.front()); }

void mapping::check(int result, const char* call) const {
  if (result == 0) return;
  if (result == -ENOMEM) throw std::bad_alloc();
  raise(errc::io, "{}: {} failed: {}", path_, call, pmem2_errormsg());
}

}  // namespace icecore
