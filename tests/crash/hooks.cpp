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

namespace icecore::crash {

namespace {

[[nodiscard]] inline bool is_watched(const void* at) noexcept {
  return reinterpret_cast<std::uintptr_t>(at) - watched.base < watched.size;
}

inline void plain_store(const void* at, std::uint64_t size) noexcept {
  if (pending.size != 0) log_pending_store();
  if (is_watched(at)) pending = {static_cast<const std::byte*>(at), size};
}

inline void plain_load() noexcept {
  if (pending.size != 0) log_pending_store();
}

/// Before an atomic operation: fibers may change here.
inline void before_atomic(const volatile void* at, bool writes) noexcept {
  if (pending.size != 0) log_pending_store();
  fibers::point(at, writes);
}

template <class T>
inline void after_atomic_store(const volatile T* at) noexcept {
  const void* plain = const_cast<const T*>(at);
  if (is_watched(plain)) machine::get().stored(static_cast<const std::byte*>(plain), sizeof(T));
}

}  // namespace
}  // namespace icecore::crash

using icecore::crash::after_atomic_store;
using icecore::crash::before_atomic;
using icecore::crash::is_watched;
using icecore::crash::log_pending_store;
using icecore::crash::machine;
using icecore::crash::plain_load;
using icecore::crash::plain_store;

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_mutex_pre_lock(void*, unsigned) {}
void __tsan_mutex_post_lock(void*, unsigned, int) {}

#define ICECORE_ACCESS(size)                                             \
  void __tsan_read##size(void*) { plain_load(); }                        \
  void __tsan_write##size(void* at) { plain_store(at, size); }           \
  void __tsan_unaligned_read##size(void*) { plain_load(); }              \
  void __tsan_unaligned_write##size(void* at) { plain_store(at, size); } \
  void __tsan_volatile_read##size(void*) { plain_load(); }               \
  void __tsan_volatile_write##size(void* at) { plain_store(at, size); }
ICECORE_ACCESS(1)
ICECORE_ACCESS(2)
ICECORE_ACCESS(4)
ICECORE_ACCESS(8)
ICECORE_ACCESS(16)
#undef ICECORE_ACCESS
void __tsan_read_range(void*, std::size_t) { plain_load(); }
void __tsan_write_range(void* at, std::size_t size) { plain_store(at, size); }
void __tsan_vptr_update(void** at, void*) { plain_store(at, sizeof *at); }
void __tsan_vptr_read(void**) { plain_load(); }

#define ICECORE_ATOMIC(bits, type)                                                                                 \
  type __tsan_atomic##bits##_load(const volatile type* at, int) {                                                  \
    before_atomic(at, false);                                                                                      \
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                                                  \
  }                                                                                                                \
  void __tsan_atomic##bits##_store(volatile type* at, type value, int) {                                           \
    before_atomic(at, true);                                                                                       \
    __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                                                 \
    after_atomic_store(at);                                                                                        \
  }                                                                                                                \
  type __tsan_atomic##bits##_exchange(volatile type* at, type value, int) {                                        \
    before_atomic(at, true);                                                                                       \
    const type old = __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);                                             \
    after_atomic_store(at);                                                                                        \
    return old;                                                                                                    \
  }                                                                                                                \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile type* at, type* expected, type value, int, int) {     \
    before_atomic(at, true);                                                                                       \
    const bool done = __atomic_compare_exchange_n(at, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
    if (done) after_atomic_store(at);                                                                              \
    return done;                                                                                                   \
  }                                                                                                                \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile type* at, type* expected, type value, int, int) {       \
    return __tsan_atomic##bits##_compare_exchange_strong(at, expected, value, 0, 0);                               \
  }
#define ICECORE_ATOMIC_FETCH(bits, type, operation)                                  \
  type __tsan_atomic##bits##_fetch_##operation(volatile type* at, type value, int) { \
    before_atomic(at, true);                                                         \
    const type old = __atomic_fetch_##operation(at, value, __ATOMIC_SEQ_CST);        \
    after_atomic_store(at);                                                          \
    return old;                                                                      \
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

void __tsan_atomic_thread_fence(int) { plain_load(); }
void __tsan_atomic_signal_fence(int) { plain_load(); }

// The linker leads the store's calls here (--wrap). A copy of many words may reach the caches in any order.
void* __real_memcpy(void*, const void*, std::size_t);
void* __real_memmove(void*, const void*, std::size_t);
void* __real_memset(void*, int, std::size_t);

void* __wrap_memcpy(void* to, const void* from, std::size_t size) {
  if (size == 0) return to;
  plain_load();
  __real_memcpy(to, from, size);
  if (is_watched(to)) machine::get().stored_block(static_cast<std::byte*>(to), size);
  return to;
}
void* __wrap_memmove(void* to, const void* from, std::size_t size) {
  if (size == 0) return to;
  plain_load();
  __real_memmove(to, from, size);
  if (is_watched(to)) machine::get().stored_block(static_cast<std::byte*>(to), size);
  return to;
}
void* __wrap_memset(void* to, int value, std::size_t size) {
  if (size == 0) return to;
  plain_load();
  __real_memset(to, value, size);
  if (is_watched(to)) machine::get().stored_block(static_cast<std::byte*>(to), size);
  return to;
}

}  // extern "C"
