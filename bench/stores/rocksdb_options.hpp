// The configuration of RocksDB in all its kinds.
#pragma once

#include <rocksdb/cache.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>

#include <algorithm>

#include "store.hpp"

namespace icecore::bench {

[[nodiscard]] inline rocksdb::Options rocksdb_options(const opening& how) {
  constexpr std::size_t mebibyte = 1 << 20;
  rocksdb::Options options;
  options.create_if_missing = true;
  options.IncreaseParallelism(static_cast<int>(std::max(how.threads, 2U)));
  options.compression = rocksdb::kNoCompression;
  options.bottommost_compression = rocksdb::kNoCompression;
  options.write_buffer_size = 64 * mebibyte;  // larger was slower: a find costs less in a sorted file than in a buffer
  options.max_write_buffer_number = 4;
  options.enable_pipelined_write = true;  // with 8 threads, 1.5 times as many writes
  options.max_open_files = -1;            // keeps all open: the tuning guide's advice if there is enough memory
  options.allow_mmap_reads = true;        // "for data in memory", rocksdb/options.h
  rocksdb::BlockBasedTableOptions table;
  std::size_t cache_bytes = 2048 * mebibyte;
  if (how.memory_bytes != 0) {
    // The kernel's cache has the rest; without it, filters and indexes are what else needs memory, and what malloc
    // keeps: with a cache of the half the kernel killed the process.
    options.allow_mmap_reads = false;
    options.use_direct_reads = !how.reads_ahead;
    cache_bytes = how.reads_ahead ? how.memory_bytes / 8 : how.memory_bytes / 3;
  }
  table.block_cache = rocksdb::NewLRUCache(cache_bytes);
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10, false));
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

}  // namespace icecore::bench
