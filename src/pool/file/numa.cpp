#include "pool/file/numa.hpp"

#include <sched.h>
#include <sys/mman.h>

#include "base/raise.hpp"
#include "pool/format.hpp"

#ifdef ICECORE_HAS_NUMA
#include <numa.h>
#include <numaif.h>
#endif

namespace icecore {
namespace {

/// The greatest node's number; -1 if it is unknown.
int greatest_node() noexcept {
#ifdef ICECORE_HAS_NUMA
  return numa_available() < 0 ? -1 : numa_max_node();
#else
  return -1;
#endif
}

}  // namespace

int current_node() noexcept {
  unsigned core = 0;
  unsigned node = 0;
  return getcpu(&core, &node) == 0 ? static_cast<int>(node) : 0;
}

void require_node(int node, const std::filesystem::path& path) {
  constexpr int node_max = 4095;
  if (node < -1 || node > node_max) {
    raise(errc::invalid_argument, "{}: NUMA node {} is out of range; nodes are 0 to {}, and -1 means any",
          path.native(), node, node_max);
  }
  const int greatest = greatest_node();
  if (node > greatest && greatest >= 0) {
    raise(errc::invalid_argument, "{}: this machine has no NUMA node {}; its last one is {}", path.native(), node,
          greatest);
  }
}

void prefer_node([[maybe_unused]] const pool_file& file, [[maybe_unused]] std::uint64_t from,
                 [[maybe_unused]] std::uint64_t to, [[maybe_unused]] int node) noexcept {
#ifdef ICECORE_HAS_NUMA
  if (node < 0 || from >= to || node > greatest_node() || !file.on_memory_filesystem()) return;
  // The policy of a file in memory belongs to the file, page by page. A mapping, which may reach beyond the file's end,
  // is only the means to set it. So the policy holds for the blocks that fallocate() takes next, whichever process maps
  // them.
  const std::uint64_t first = from / format::page_size * format::page_size;
  void* const mapped = mmap(nullptr, to - first, PROT_NONE, MAP_SHARED, file.descriptor(), static_cast<off_t>(first));
  if (mapped == MAP_FAILED) return;
  bitmask* const nodes = numa_allocate_nodemask();
  numa_bitmask_setbit(nodes, static_cast<unsigned>(node));
  static_cast<void>(mbind(mapped, to - first, MPOL_PREFERRED, nodes->maskp, nodes->size + 1, 0));
  numa_free_nodemask(nodes);
  munmap(mapped, to - first);
#endif
}

}  // namespace icecore
