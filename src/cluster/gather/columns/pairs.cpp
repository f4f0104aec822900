#include "cluster/gather/columns/pairs.hpp"

#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

namespace icecore::ranks {
namespace {

constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;
constexpr std::size_t cache_line_bytes = 64;

// relaxed everywhere: a buffer is freed by the thread that abandoned its requests, or by a thread that synchronised
// with that one
std::atomic<bool> kept_for_mpi{false};

std::size_t round_up(std::size_t bytes, std::size_t unit) noexcept { return (bytes + unit - 1) / unit * unit; }

column column_of(std::uint64_t count, std::uint64_t width, std::uint64_t bytes) {
  column made;
  made.width = width;
  made.bytes = buffer<char>(bytes);
  if (width == 0) {
    made.offsets = buffer<std::uint64_t>(count + 1);
    made.offsets[0] = 0;
    made.offsets[count] = bytes;
  }
  return made;
}

void copy(const column_view& from, std::size_t count, column& to) noexcept {
  if (to.width == 0) {
    for (std::size_t i = 0; i < count; ++i) to.offsets[i] = from.begin_of(i);
  }
  if (to.bytes.size() > 0) std::memcpy(to.bytes.data(), from.bytes, to.bytes.size());
}

column_view narrowed(const column_view& from, std::size_t count) noexcept {
  if (from.width != 0 || count == 0) return from;
  const std::uint64_t width = from.begin_of(1);
  bool same = width != 0;
  for (std::size_t i = 0; same && i < count; ++i) same = from.begin_of(i + 1) == (i + 1) * width;
  return same ? column_view{width, nullptr, from.bytes} : from;
}

}  // namespace

void* detail::allocate(std::size_t bytes) {
  const bool large = bytes >= 2 * huge_page_bytes;
  const std::size_t unit = large ? huge_page_bytes : cache_line_bytes;
  if (bytes > SIZE_MAX - unit) throw std::bad_alloc();
  const std::size_t size = round_up(bytes, unit);
  void* const memory = std::aligned_alloc(unit, size);
  if (memory == nullptr) throw std::bad_alloc();
  if (large) madvise(memory, size, MADV_HUGEPAGE);  // if refused, small pages work too, only slower
  return memory;
}

void detail::release::operator()(void* memory) const noexcept {
  if (!kept_for_mpi.load(std::memory_order_relaxed)) std::free(memory);
}

void keep_all_buffers() noexcept { kept_for_mpi.store(true, std::memory_order_relaxed); }

std::size_t pairs_view::lower_bound(std::string_view key) const noexcept {
  std::size_t from = 0;
  for (std::size_t remaining = count; remaining > 0;) {
    const std::size_t half = remaining / 2;
    if (keys[from + half] < key) {
      from += half + 1;
      remaining -= half + 1;
    } else {
      remaining = half;
    }
  }
  return from;
}

extent extent_of(const pairs_view& of) noexcept {
  return {of.count, of.keys.width, of.keys.begin_of(of.count), of.values.width, of.values.begin_of(of.count)};
}

std::uint64_t bytes_of(const extent& of) noexcept {
  const std::uint64_t offsets = (of.count + 1) * sizeof(std::uint64_t);
  return of.key_bytes + of.value_bytes + (of.key_width == 0 ? offsets : 0) + (of.value_width == 0 ? offsets : 0);
}

pairs::pairs(const extent& size)
    : keys(column_of(size.count, size.key_width, size.key_bytes)),
      values(column_of(size.count, size.value_width, size.value_bytes)),
      count_(size.count) {}

pairs_view view_of(const columns& extracted) noexcept {
  const byte_column& keys = extracted.keys;
  const byte_column& values = extracted.values;
  return {keys.offsets.empty() ? 0 : keys.offsets.size() - 1,
          {0, keys.offsets.data(), keys.bytes.data()},
          {0, values.offsets.data(), values.bytes.data()}};
}

pairs_view narrowed(const pairs_view& from) noexcept {
  return {from.count, narrowed(from.keys, from.count), narrowed(from.values, from.count)};
}

pairs_view view_of(const fixed_columns& filled, std::size_t count) noexcept {
  return {count,
          {filled.key_size, nullptr, static_cast<const char*>(filled.keys)},
          {filled.value_size, nullptr, static_cast<const char*>(filled.values)}};
}

pairs copy_of(const pairs_view& from) {
  pairs made(extent_of(from));
  copy(from.keys, from.count, made.keys);
  copy(from.values, from.count, made.values);
  return made;
}

}  // namespace icecore::ranks
