// Values of other ranks' keys, kept while nobody may write: the least recently used go first.
//
// Threads: any number.
// Cost: O(1) an operation.
#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "cluster/partitions/partition.hpp"

namespace icecore::mpi {

class read_cache {
 public:
  explicit read_cache(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  /// Of one find: the value if the cache has it, and what `keep` needs to know that the cache is still the same.
  struct look {
    bool hit = false;
    held_value value{};
    std::uint64_t epoch = 0;
  };
  [[nodiscard]] look find(std::string_view key);
  /// Keeps what the owner answered, in the memory that it came in, unless the cache was cleared since the look.
  void keep(const look& before, std::string_view key, const held_value& value);

  void clear();
  [[nodiscard]] std::size_t bytes() const;

 private:
  struct entry {
    std::string key;
    held_value value;
  };
  [[nodiscard]] static std::size_t size_of(const entry& one) noexcept;

  const std::size_t bytes_max_;
  mutable std::mutex mutex_;
  std::uint64_t epoch_ = 0;
  std::size_t bytes_ = 0;
  std::list<entry> entries_;                                                 // most recently used first
  std::unordered_map<std::string_view, std::list<entry>::iterator> by_key_;  // views of the entries' keys
};

}  // namespace icecore::mpi
