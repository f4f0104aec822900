#include "cluster/gather/request_memory.hpp"

#include <atomic>
#include <new>

namespace icecore::ranks {

request_memory::request_memory(std::size_t size)
    : block_(new(::operator new(sizeof(block) + size)) block{nullptr, size}) {}

void request_memory::abandon() noexcept {
  static std::atomic<block*> abandoned{nullptr};
  if (!block_) return;
  block* const kept = block_.release();
  kept->next = abandoned.load(std::memory_order_relaxed);  // relaxed everywhere: nobody ever reads the list
  while (!abandoned.compare_exchange_weak(kept->next, kept, std::memory_order_relaxed)) {
  }
}

}  // namespace icecore::ranks
