// Allocations of the schedules' program: what one writer freed and another gets has no races with what the first one
// did.
#include <cstdlib>
#include <new>

#include "memory_orders.hpp"

namespace {

void* given_out(void* at, std::size_t size) {
  if (at == nullptr) throw std::bad_alloc();
  icecore::crash::memory_orders::forget(at, size);
  return at;
}

}  // namespace

void* operator new(std::size_t size) { return given_out(std::malloc(size), size); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto multiple = static_cast<std::size_t>(alignment);
  return given_out(std::aligned_alloc(multiple, (size + multiple - 1) / multiple * multiple), size);
}
void operator delete(void* at) noexcept { std::free(at); }
void operator delete(void* at, std::size_t) noexcept { std::free(at); }
void operator delete(void* at, std::align_val_t) noexcept { std::free(at); }
void operator delete(void* at, std::size_t, std::align_val_t) noexcept { std::free(at); }
