// Values of other ranks' keys, cached while no rank may write: the least recently used are dropped first.
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

  /// The result of a find: the value if the cache has it, and the state that `keep` needs to see that the cache was not
  /// cleared meanwhile.
  struct look {
    bool hit = false;
    held_value value{};
    std::uint64_t epoch = 0;
  };
  [[nodiscard]] look find(std::string_view key);
  /// Keeps the owner's answer, in the memory in which it arrived, unless the cache was cleared since the look.
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
