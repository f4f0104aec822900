#include "cluster/gather/ranks/request_memory.hpp"

#include <atomic>
#include <new>

#include "cluster/gather/ranks/kept_memory.hpp"

namespace icecore::ranks {

namespace {

struct delete_memory {
  void operator()(void* memory) const noexcept { ::operator delete(memory); }
};
using raw_memory = std::unique_ptr<void, delete_memory>;

kept_memory<raw_memory>& free_blocks() {
  static auto& kept = *new kept_memory<raw_memory>;
  return kept;
}

}  // namespace

request_memory::block* request_memory::new_block(std::size_t size) {
  if (void* const used = free_blocks().take(size).release()) {
    auto* const again = static_cast<block*>(used);
    again->size = size;
    return again;
  }
  return new (::operator new(sizeof(block) + size)) block{nullptr, size, size};
}

void request_memory::free_block::operator()(block* freed) const noexcept {
  free_blocks().give(raw_memory(freed), freed->capacity);
}

request_memory::request_memory(std::size_t size) : block_(new_block(size)) {}

void request_memory::abandon() noexcept {
  static std::atomic<block*> abandoned{nullptr};
  if (!block_) return;
  block* const kept = block_.release();
  kept->next = abandoned.load(std::memory_order_relaxed);  // relaxed everywhere: no thread ever reads the list
  while (!abandoned.compare_exchange_weak(kept->next, kept, std::memory_order_relaxed)) {
  }
}

}  // namespace icecore::ranks
