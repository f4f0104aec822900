// The calls that `-fsanitize=thread` makes the compiler emit: each load, store and atomic operation of the store under
// test comes through here. This file itself is compiled without it.
//
// A plain store is reported before it happens, so it is remembered, and logged with its value at the next event of any
// kind. Atomic operations are executed here, and are where fibers may change.
#include <atomic>
#include <cstdint>
#include <cstring>

#include "fibers.hpp"
#include "machine.hpp"
#include "memory_orders.hpp"

namespace icecore::crash {

namespace {

[[nodiscard]] inline bool is_watched(const void* at) noexcept {
  return reinterpret_cast<std::uintptr_t>(at) - watched.base < watched.size;
}

inline void plain_store(const void* at, std::uint64_t size, const void* from) noexcept {
  if (pending.size != 0) log_pending_store();
  memory_orders::at(memory_orders::access::write, at, size, from);
  if (is_watched(at)) pending = {static_cast<const std::byte*>(at), size};
}

inline void plain_load(const void* at, std::uint64_t size, const void* from) noexcept {
  if (pending.size != 0) log_pending_store();
  memory_orders::at(memory_orders::access::read, at, size, from);
}

/// Before an atomic operation: fibers may change here.
inline void before_atomic(const volatile void* at, bool writes) noexcept {
  if (pending.size != 0) log_pending_store();
  fibers::point(at, writes);
}

template <class T>
inline void log_atomic_store(const volatile T* at) noexcept {
  const void* plain = const_cast<const T*>(at);
  if (is_watched(plain)) machine::get().stored(static_cast<const std::byte*>(plain), sizeof(T));
}

template <class T>
inline T show(const volatile T* at, int order, const void* from) noexcept {
  const T newest = __atomic_load_n(at, __ATOMIC_SEQ_CST);
  if (!memory_orders::looking) return newest;
  memory_orders::at(memory_orders::access::atomic_read, at, sizeof(T), from);
  return static_cast<T>(memory_orders::loaded({at, sizeof(T)}, order, newest));
}

template <class T>
inline void after_atomic_store(const volatile T* at, int order, T before, T value, const void* from) noexcept {
  if (memory_orders::looking) {
    memory_orders::at(memory_orders::access::atomic_write, at, sizeof(T), from);
    memory_orders::stored({at, sizeof(T)}, order, before, value);
  }
  log_atomic_store(at);
}

template <class T>
inline void after_exchange(const volatile T* at, int order, T before, const void* from) noexcept {
  if (memory_orders::looking) {
    memory_orders::at(memory_orders::access::atomic_write, at, sizeof(T), from);
    memory_orders::exchanged({at, sizeof(T)}, order, before, __atomic_load_n(at, __ATOMIC_SEQ_CST));
  }
  log_atomic_store(at);
}

template <class T>
inline bool exchange_if(volatile T* at, T* expected, T value, int order, int otherwise, const void* from) noexcept {
  if (__atomic_compare_exchange_n(at, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    after_exchange(at, order, *expected, from);
    return true;
  }
  if (memory_orders::looking) {
    memory_orders::at(memory_orders::access::atomic_read, at, sizeof(T), from);
    memory_orders::exchange_failed({at, sizeof(T)}, otherwise, *expected);
  }
  return false;
}

}  // namespace
}  // namespace icecore::crash

using namespace icecore::crash;

// Who called the hook.
#define ICECORE_FROM __builtin_return_address(0)

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_mutex_pre_lock(void*, unsigned) {}
void __tsan_mutex_post_lock(void*, unsigned, int) {}

#define ICECORE_ACCESS(size)                                                           \
  void __tsan_read##size(void* at) { plain_load(at, size, ICECORE_FROM); }             \
  void __tsan_write##size(void* at) { plain_store(at, size, ICECORE_FROM); }           \
  void __tsan_unaligned_read##size(void* at) { plain_load(at, size, ICECORE_FROM); }   \
  void __tsan_unaligned_write##size(void* at) { plain_store(at, size, ICECORE_FROM); } \
  void __tsan_volatile_read##size(void* at) { plain_load(at, size, ICECORE_FROM); }    \
  void __tsan_volatile_write##size(void* at) { plain_store(at, size, ICECORE_FROM); }
ICECORE_ACCESS(1)
ICECORE_ACCESS(2)
ICECORE_ACCESS(4)
ICECORE_ACCESS(8)
ICECORE_ACCESS(16)
#undef ICECORE_ACCESS
void __tsan_read_range(void* at, std::size_t size) { plain_load(at, size, ICECORE_FROM); }
void __tsan_write_range(void* at, std::size_t size) { plain_store(at, size, ICECORE_FROM); }
void __tsan_vptr_update(void** at, void*) { plain_store(at, sizeof *at, ICECORE_FROM); }
void __tsan_vptr_read(void** at) { plain_load(at, sizeof *at, ICECORE_FROM); }

#define ICECORE_ATOMIC(bits, type)                                                                            \
  type __tsan_atomic##bits##_load(const volatile type* at, int order) {                                       \
    before_atomic(at, false);                                                                                 \
    return show(at, order, ICECORE_FROM);                                                                     \
  }                                                                                                           \
  void __tsan_atomic##bits##_store(volatile type* at, type value, int order) {                                \
    before_atomic(at, true);                                                                                  \
    const type old = __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);                                        \
    after_atomic_store(at, order, old, value, ICECORE_FROM);                                                  \
  }                                                                                                           \
  type __tsan_atomic##bits##_exchange(volatile type* at, type value, int order) {                             \
    before_atomic(at, true);                                                                                  \
    const type old = __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);                                        \
    after_exchange(at, order, old, ICECORE_FROM);                                                             \
    return old;                                                                                               \
  }                                                                                                           \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile type* at, type* expected, type value, int order, \
                                                    int otherwise) {                                          \
    before_atomic(at, true);                                                                                  \
    return exchange_if(at, expected, value, order, otherwise, ICECORE_FROM);                                  \
  }                                                                                                           \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile type* at, type* expected, type value, int order,   \
                                                  int otherwise) {                                            \
    before_atomic(at, true);                                                                                  \
    return exchange_if(at, expected, value, order, otherwise, ICECORE_FROM);                                  \
  }
#define ICECORE_ATOMIC_FETCH(bits, type, operation)                                        \
  type __tsan_atomic##bits##_fetch_##operation(volatile type* at, type value, int order) { \
    before_atomic(at, true);                                                               \
    const type old = __atomic_fetch_##operation(at, value, __ATOMIC_SEQ_CST);              \
    after_exchange(at, order, old, ICECORE_FROM);                                          \
    return old;                                                                            \
  }
#define ICECORE_ATOMICS(bits, type)     \
  ICECORE_ATOMIC(bits, type)            \
  ICECORE_ATOMIC_FETCH(bits, type, add) \
  ICECORE_ATOMIC_FETCH(bits, type, sub) \
  ICECORE_ATOMIC_FETCH(bits, type, and) \
  ICECORE_ATOMIC_FETCH(bits, type, or)  \
  ICECORE_ATOMIC_FETCH(bits, type, xor)
ICECORE_ATOMICS(8, std::uint8_t)
ICECORE_ATOMICS(16, std::uint16_t)
ICECORE_ATOMICS(32, std::uint32_t)
ICECORE_ATOMICS(64, std::uint64_t)
#undef ICECORE_ATOMICS
#undef ICECORE_ATOMIC_FETCH
#undef ICECORE_ATOMIC

void __tsan_atomic_thread_fence(int order) {
  if (pending.size != 0) log_pending_store();
  memory_orders::fenced(order);
}
// Behind a read-modify-write, which is a full fence on x86: fence_after_rmw().
void __tsan_atomic_signal_fence(int order) {
  if (pending.size != 0) log_pending_store();
  memory_orders::fenced(order);
}

// The linker leads the store's calls here (--wrap). A copy of many words may reach the caches in any order.
void* __real_memcpy(void*, const void*, std::size_t);
void* __real_memmove(void*, const void*, std::size_t);
void* __real_memset(void*, int, std::size_t);

void* __wrap_memcpy(void* to, const void* from, std::size_t size) {
  if (size == 0) return to;
  plain_load(from, size, ICECORE_FROM);
  memory_orders::at(memory_orders::access::write, to, size, ICECORE_FROM);
  __real_memcpy(to, from, size);
  if (is_watched(to)) machine::get().stored_block(static_cast<std::byte*>(to), size);
  return to;
}
void* __wrap_memmove(void* to, const void* from, std::size_t size) {
  if (size == 0) return to;
  plain_load(from, size, ICECORE_FROM);
  memory_orders::at(memory_orders::access::write, to, size, ICECORE_FROM);
  __real_memmove(to, from, size);
  if (is_watched(to)) machine::get().stored_block(static_cast<std::byte*>(to), size);
  return to;
}
void* __wrap_memset(void* to, int value, std::size_t size) {
  if (size == 0) return to;
  if (pending.size != 0) log_pending_store();
  memory_orders::at(memory_orders::access::write, to, size, ICECORE_FROM);
  __real_memset(to, value, size);
  if (is_watched(to)) machine::get().stored_block(static_cast<std::byte*>(to), size);
  return to;
}

}  // extern "C"
#undef ICECORE_FROM
