#include "index/btree/node.hpp"

#include <algorithm>
#include <cassert>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/memory/sanitizer.hpp"

namespace icecore::index {
namespace {

/// Compares what is behind the first `from` bytes, which both keys must have in common.
int compare_behind(std::string_view a, std::string_view b, std::size_t from) noexcept {
  return a.substr(std::min(from, a.size())).compare(b.substr(std::min(from, b.size())));
}

}  // namespace

int compare_with_prefix(const node& n, std::string_view key, const key_source& source) noexcept {
  const node_form form = n.form.load();
  if (!form.open || form.prefix_length == 0) return 0;
  const link anchor = n.links[0].load();
  if (anchor == null_link) return 0;  // torn: the caller's validation fails
  return key.substr(0, form.prefix_length).compare(source.key_of(anchor).substr(0, form.prefix_length));
}

place lower_bound_of_equal_heads(const node& n, unsigned first, std::string_view key,
                                 const key_source& source) noexcept {
  const node_form form = n.form.load();
  const std::uint64_t head = n.heads[first].load();
  unsigned end = first + 1;
  while (end < form.count && n.heads[end].load() == head) ++end;
  while (first < end) {
    const unsigned middle = first + (end - first) / 2;
    const link candidate = n.links[middle].load();
    if (candidate == null_link) break;  // torn: the caller's validation fails
    const int order = compare_behind(key, source.key_of(candidate), form.prefix_length);
    if (order == 0) return {middle, candidate};
    if (order < 0) {
      end = middle;
    } else {
      first = middle + 1;
    }
  }
  return {first, null_link};
}

void node::make_room(std::size_t slot, std::size_t count) noexcept {
  std::size_t i = count;
#if defined(__SSE2__) && !defined(ICECORE_UNDER_THREAD_SANITIZER)
  // Two at a time. x86 processors store in order and never tear an aligned half of such a store, so readers see what
  // single stores would show them. (The manuals promise this of aligned 16 bytes only; the copies of arrays of
  // references in Java's virtual machines rely on it, too.) The thread sanitizer does not know that, so it gets single
  // stores.
  const auto move_two = [this](std::size_t end) {
    const auto move = [end](auto* values) {
      static_assert(sizeof *values == 8);
      const __m128i two = _mm_loadu_si128(reinterpret_cast<const __m128i*>(values + end - 2));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(values + end - 1), two);
    };
    move(heads);
    move(links);
  };
  for (; i >= slot + 8; i -= 8) {
    move_two(i);
    move_two(i - 2);
    move_two(i - 4);
    move_two(i - 6);
  }
  for (; i >= slot + 2; i -= 2) move_two(i);
#endif
  for (; i > slot; --i) {
    heads[i].store(heads[i - 1].load());
    links[i].store(links[i - 1].load());
  }
}

void node::take_slots(const node& other, unsigned first, node_form other_form) noexcept {
  assert(first <= other_form.count);
  node_form mine = form.load();
  assert(mine.count == 0);
  mine.count = static_cast<std::uint16_t>(other_form.count - first);
  mine.prefix_length = other_form.prefix_length;
  mine.key_size = other_form.key_size;
  mine.uniform = other_form.uniform;
  for (unsigned i = 0; i < mine.count; ++i) {
    heads[i].store(other.heads[first + i].load());
    links[i].store(other.links[first + i].load());
  }
  form.store(mine);
}

void node::drop_slots(unsigned first) noexcept {
  node_form mine = form.load();
  assert(first <= mine.count);
  for (unsigned i = first; i < mine.count; ++i) heads[i].store(no_head);
  mine.count = static_cast<std::uint16_t>(first);
  form.store(mine);
}

void node::refresh_open() noexcept {
  node_form mine = form.load();
  mine.open = low.load() == null_link || high.load() == null_link;
  form.store(mine);
}

// Relaxed, all accesses to last and run: inside the lock, or before it as a guess that the upgrade confirms.
void node::note_insert(unsigned slot) noexcept {
  constexpr std::int16_t run_max = 1000;
  const unsigned before = last.load(std::memory_order_relaxed);
  const std::int16_t length = run.load(std::memory_order_relaxed);
  std::int16_t now = 0;
  if (slot == before + 1) now = static_cast<std::int16_t>(length > 0 ? std::min<int>(length + 1, run_max) : 1);
  if (slot == before) now = static_cast<std::int16_t>(length < 0 ? std::max<int>(length - 1, -run_max) : -1);
  run.store(now, std::memory_order_relaxed);
  last.store(static_cast<std::uint16_t>(slot), std::memory_order_relaxed);
}

unsigned node::cut_for_insert(unsigned slot) const noexcept {
  constexpr int stream_min = 16;  // by chance about once in 64^16 inserts
  const unsigned before = last.load(std::memory_order_relaxed);
  const int length = run.load(std::memory_order_relaxed);
  if (slot == before + 1 && length >= stream_min) return slot;
  if (slot == before && length <= -stream_min) return std::max(slot, 1U);
  // Several threads that count upwards together insert slightly out of order.
  if (high.load() == null_link && slot >= slot_count - slot_count / 8) return slot;
  return slot_count / 2;
}

}  // namespace icecore::index
