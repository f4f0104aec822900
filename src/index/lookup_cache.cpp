#include "index/lookup_cache.hpp"

#include <sys/mman.h>
#include <cassert>

#include <algorithm>
#include <bit>

#include "base/bytes.hpp"

namespace icecore::index {
namespace {

/// The table grows by the factor `growth` when it has lost one eighth as many words as it has. Most of its entries are
/// then no longer found, so it should not grow too often.
constexpr std::uint64_t driven_out_one_in = 8;
constexpr std::uint64_t growth = 64;

}  // namespace

lookup_cache::lookup_cache(std::uint64_t bytes_max, bool huge_pages, lookup_place* told) noexcept
    : huge_pages_(huge_pages), told_(told) {
  // A hash's lower bits select the line, the upper ones are in the word.
  const std::uint64_t words = std::min(std::bit_floor(bytes_max / sizeof(word)), std::uint64_t{1} << link_bits);
  if (words < words_min) return;
  // Only reserves addresses, without access: no memory is accounted even if overcommit is forbidden.
  const std::uint64_t with_room = words * sizeof(word) + huge_page_bytes;
  void* p = mmap(nullptr, with_room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return;
  mapping_ = static_cast<std::byte*>(p);
  mapping_bytes_ = with_room;
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  std::byte* const base = mapping_ + (huge_page_bytes - address % huge_page_bytes) % huge_page_bytes;
  if (mprotect(base, words_min * sizeof(word), PROT_READ | PROT_WRITE) != 0) return;
  words_ = reinterpret_cast<word*>(base);
  words_max_ = words;
  // relaxed: no other thread uses it yet
  mask_.store(words_min - words_a_line, std::memory_order_relaxed);
  if (told_ != nullptr) told_->is(words_, words_min - words_a_line);
}

lookup_cache::~lookup_cache() {
  if (mapping_ != nullptr) munmap(mapping_, mapping_bytes_);
}

// Two threads at once may lose a word or its tag, or store one twice; both are harmless.
void lookup_cache::put(std::uint64_t hash, link entry, bool is_new) noexcept {
  const std::uint64_t mask = mask_.load(std::memory_order_acquire);  // acquire: as in candidate()
  if (mask == 0) return;
  assert(entry != null_link && (entry & ~link_mask) == 0);
  word* const line = words_ + (hash & mask);
  const std::uint64_t fresh = (hash & ~link_mask) | entry;
  // relaxed, here and below: what is read is only compared, not followed
  const std::uint64_t tags = line[0].load(std::memory_order_relaxed);
  for (std::uint64_t fitting = is_new ? 0 : bytes_equal(tags, tag_of(hash)); fitting != 0; fitting &= fitting - 1) {
    if (line[1 + byte_of(fitting)].load(std::memory_order_relaxed) == fresh) return;  // it is there
  }
  const std::uint64_t empty = bytes_equal(tags, 0);
  const bool full = empty == 0;
  const unsigned place =
      full ? static_cast<unsigned>((entry * 0x9E3779B97F4A7C15U >> 32) * ways >> 32) : byte_of(empty);
  const std::uint64_t tagged = (tags & ~(std::uint64_t{0xFF} << (8 * place))) | tag_of(hash) << (8 * place);
  line[1 + place].store(fresh, std::memory_order_release);  // release: see candidate()
  line[0].store(tagged, std::memory_order_relaxed);
  if (!full || mask + words_a_line >= words_max_) return;
  // relaxed: a count that nothing depends on
  if (driven_out_.fetch_add(1, std::memory_order_relaxed) + 1 >= (mask + words_a_line) / driven_out_one_in)
    grow(is_new);
}

/// Who touches a page first waits for its memory, and a larger table is all touched within a few thousand calls of
/// put(). So for writers another thread has the memory ready. Readers do not ask it: it ends when the last writer has,
/// and in a store that is only read it would not be there.
void lookup_cache::grow(bool for_writer) noexcept {
  // relaxed: which of the two ways is taken
  const std::uint64_t words = mask_.load(std::memory_order_relaxed) + words_a_line;
  if (for_writer && ask_ && std::min(growth * words, words_max_) * sizeof(word) > huge_page_bytes) {
    // relaxed, everywhere: a question, with which nothing is handed over
    if (asked_.exchange(true, std::memory_order_relaxed) || ask_()) return;
    asked_.store(false, std::memory_order_relaxed);
  }
  if (begin_growth()) end_growth();
}

/// Whether the caller is the one who grows it, and there are addresses for that.
bool lookup_cache::begin_growth() noexcept {
  // another thread is growing it. acquire: pairs with the end
  if (growing_.exchange(true, std::memory_order_acquire)) return false;
  // relaxed: only the thread that grows it writes it
  const std::uint64_t words = mask_.load(std::memory_order_relaxed) + words_a_line;
  words_growing_ = std::min(growth * words, words_max_);
  ready_ = words * sizeof(word);
  const std::uint64_t bytes = words_growing_ * sizeof(word);
  // relaxed, all of the count: nothing depends on it
  if (words < words_growing_ && driven_out_.load(std::memory_order_relaxed) >= words / driven_out_one_in) {
    driven_out_.store(0, std::memory_order_relaxed);  // first: if there is no memory, do not ask for it at every call
    if (mprotect(words_, bytes, PROT_READ | PROT_WRITE) == 0) {
      // A hint; a small table is not worth a huge page.
      if (huge_pages_ && bytes >= huge_page_bytes) (void)madvise(words_, bytes, MADV_HUGEPAGE);
      return true;
    }
  }
  growing_.store(false, std::memory_order_release);
  return false;
}

void lookup_cache::end_growth() noexcept {
  mask_.store(words_growing_ - words_a_line, std::memory_order_release);  // release: pairs with candidate()
  if (told_ != nullptr) told_->is(words_, words_growing_ - words_a_line);
  growing_.store(false, std::memory_order_release);
}

bool lookup_cache::make_ready() noexcept {
  constexpr int populate_write = 23;  // MADV_POPULATE_WRITE, which older headers lack
  if (!under_way_ && !begin_growth()) {
    asked_.store(false, std::memory_order_relaxed);
    return false;
  }
  const std::uint64_t bytes = words_growing_ * sizeof(word);
  const std::uint64_t end = std::min(ready_ / huge_page_bytes * huge_page_bytes + huge_page_bytes, bytes);
  // a hint
  (void)madvise(reinterpret_cast<std::byte*>(words_) + ready_, end - ready_, populate_write);
  ready_ = end;
  under_way_ = end < bytes;
  if (under_way_) return true;
  end_growth();
  asked_.store(false, std::memory_order_relaxed);
  return false;
}

}  // namespace icecore::index
