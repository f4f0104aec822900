// NUMA: which node a thread runs on, and which node's memory a file should use.
//
//   prefer_node(file, 0, size, 1);       // before the blocks are allocated: pages come from node 1 while it has any
//
// The kernel answers the first; libnuma does the second, if the build has it. Nodes are queried at run time. Where the
// device decides in which memory its pages lie, nothing is done. Threads: any thread may call any function.
#pragma once

#include <cstdint>

#include "pool/file/file.hpp"

namespace icecore {

/// The node of the core that runs this thread now; 0 if the kernel does not report it.
[[nodiscard]] int current_node() noexcept;

/// Throws errc::invalid_argument, naming the path, if this machine has no such node. -1 stands for any node.
void require_node(int node, const std::filesystem::path& path);

/// On a memory file system: pages of the file in this range that any process allocates from now on come from this
/// node's memory while it has room. A hint: a failure changes nothing. `node` -1: no preference.
void prefer_node(const pool_file& file, std::uint64_t from, std::uint64_t to, int node) noexcept;

}  // namespace icecore
