#include "pool/file/mapping.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "base/bytes.hpp"
#include "base/raise.hpp"
#include "pool/format.hpp"

namespace icecore {

namespace {

struct deleter {
  void operator()(pmem2_source* source) const noexcept { pmem2_source_delete(&source); }
  void operator()(pmem2_config* config) const noexcept { pmem2_config_delete(&config); }
};

}  // namespace

mapping::mapping(int descriptor, std::string path, std::uint64_t capacity, kind how)
    : path_(std::move(path)),
      capacity_(format::round_up(capacity, huge_page_bytes)),
      kind_(how),
      descriptor_(descriptor) {
  constexpr std::uint64_t least = std::uint64_t{64} << 20;
  while (!reserve()) {
    if (errno != ENOMEM) raise_errno(errno, "mmap", path_);
    // address space may be limited (ulimit -v): take what is available
    capacity_ = format::round_up(capacity_ / 2, huge_page_bytes);
    if (capacity_ < least) {
      raise(errc::io,
            "{}: cannot reserve address space for the store: {} bytes were refused, and so were smaller sizes above "
            "{}; allow the process more address space (ulimit -v)",
            path_, capacity, capacity_);
    }
  }
}

mapping::~mapping() { munmap(reserved_, reserved_bytes_); }

/// Maps the file without any access right: so the kernel accounts no memory even where overcommit is forbidden, and a
/// file system with its own page size aligns the addresses as it needs.
bool mapping::reserve() noexcept {
  const int flags = (kind_ == kind::own ? MAP_PRIVATE : MAP_SHARED) | MAP_NORESERVE;
  void* const found = mmap(nullptr, capacity_ + huge_page_bytes, PROT_NONE, flags, descriptor_, 0);
  if (found == MAP_FAILED) return false;
  reserved_ = static_cast<std::byte*>(found);
  reserved_bytes_ = capacity_ + huge_page_bytes;
  const auto address = reinterpret_cast<std::uintptr_t>(found);
  base_ = reserved_ + (format::round_up(address, huge_page_bytes) - address);
  return true;
}

void mapping::require(std::uint64_t size) const {
  if (size <= capacity_) return;
  raise(errc::no_space, "{}: the store needs {} bytes of address space, but only {} could be reserved", path_, size,
        capacity_);
}

void mapping::extend(std::uint64_t size) {
  if (size <= size_) return;
  require(size);
  const bool first = size_ == 0;
  const bool observed = kind_ == kind::observed;
  if (first && !observed) ask_medium();
  const auto mapped = [&](std::uint64_t end, int flags) {
    void* const at = mmap(base_ + size_, end - size_, observed ? PROT_READ : PROT_READ | PROT_WRITE,
                          flags | MAP_FIXED | MAP_NORESERVE, descriptor_, static_cast<off_t>(size_));
    return at != MAP_FAILED;
  };
  bool done = true;
  if (kind_ == kind::own) {
    done = mapped(size, MAP_PRIVATE);
  } else if (first && observed) {
    done = mapped(capacity_, MAP_SHARED);
  } else if (first) {
    const bool by_pages = granularity_ == PMEM2_GRANULARITY_PAGE;
    done = mapped(capacity_, by_pages ? MAP_SHARED : MAP_SHARED_VALIDATE | MAP_SYNC);
    // Without MAP_SYNC only if libpmem2 was told to assume cache lines. Otherwise a file system that refuses MAP_SYNC
    // here, after it granted it to libpmem2, would break the promise of durability.
    const bool granted = std::getenv("PMEM2_FORCE_GRANULARITY") != nullptr;
    if (!done && !by_pages && granted && (errno == EOPNOTSUPP || errno == EINVAL)) done = mapped(capacity_, MAP_SHARED);
  }
  if (!done) raise_errno(errno, "mmap", path_);
  size_ = size;
}

void mapping::trim(std::uint64_t size) noexcept {
  std::byte* const end = base_ + format::round_up(size, huge_page_bytes);
  const auto kept = static_cast<std::uint64_t>(end - reserved_);
  if (kept >= reserved_bytes_ || munmap(end, reserved_bytes_ - kept) != 0) return;
  reserved_bytes_ = kept;
  capacity_ = std::min(capacity_, size);
}

/// What libpmem2 finds for a mapping of the file's start holds for the whole file.
void mapping::ask_medium() {
  pmem2_source* source_made = nullptr;
  check(pmem2_source_from_fd(&source_made, descriptor_), "pmem2_source_from_fd");
  const std::unique_ptr<pmem2_source, deleter> source(source_made);
  pmem2_config* config_made = nullptr;
  check(pmem2_config_new(&config_made), "pmem2_config_new");
  const std::unique_ptr<pmem2_config, deleter> config(config_made);
  std::size_t length = 0;
  check(pmem2_source_alignment(source.get(), &length), "pmem2_source_alignment");
  check(pmem2_config_set_length(config.get(), length), "pmem2_config_set_length");
  check(pmem2_config_set_required_store_granularity(config.get(), PMEM2_GRANULARITY_PAGE),
        "pmem2_config_set_required_store_granularity");
  check(pmem2_config_set_sharing(config.get(), kind_ == kind::shared ? PMEM2_SHARED : PMEM2_PRIVATE),
        "pmem2_config_set_sharing");
  pmem2_map* map = nullptr;
  check(pmem2_map_new(&map, config.get(), source.get()), "pmem2_map_new");
  granularity_ = pmem2_map_get_store_granularity(map);
  flush_ = pmem2_get_flush_fn(map);
  drain_ = pmem2_get_drain_fn(map);
  pmem2_map_delete(&map);
}

void mapping::check(int result, const char* call) const {
  if (result == 0) return;
  if (result == -ENOMEM) throw std::bad_alloc();
  raise(errc::io, "{}: {} failed: {}", path_, call, pmem2_errormsg());
}

}  // namespace icecore
