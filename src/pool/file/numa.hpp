// NUMA: which node a thread runs on, and in whose memory a file is to lie.
//
//   prefer_node(file, 0, size, 1);       // before the blocks are allocated: pages come from node 1 while it has any
//
// Stands on the kernel for the first and on libnuma for the second, both asked at run time: where there is one node, no
// libnuma, or a device whose pages lie where it lies, nothing is done. Threads: all functions.
#pragma once

#include <cstdint>

#include "pool/file/file.hpp"

namespace icecore {

/// The node of the core that runs this thread just now; 0 where the kernel does not tell.
[[nodiscard]] int current_node() noexcept;

/// The nodes that there are: errc::invalid_argument, naming the path, if `node` is none of them (-1: any).
void require_node(int node, const std::filesystem::path& path);

/// On a memory file system: pages of the file from here to there, allocated from now on by whomever, are taken from
/// this node's memory if it has room. A hint: what fails changes nothing. `node` -1: wherever.
void prefer_node(const pool_file& file, std::uint64_t from, std::uint64_t to, int node) noexcept;

}  // namespace icecore
