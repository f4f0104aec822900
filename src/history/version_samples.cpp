#include "history/version_samples.hpp"

#include <algorithm>
#include <bit>
#include <new>

#include "base/checksum.hpp"

namespace icecore {
namespace {

constexpr std::size_t first_chunk_slots = 64;
constexpr std::size_t chunk_count = 27;  // depths up to 2^32

struct slot_place {
  std::size_t chunk;
  std::size_t index;
};

/// Chunks double in size, so that slots never move.
constexpr slot_place place_of(std::size_t i) noexcept {
  const std::size_t n = i / first_chunk_slots + 1;
  const auto chunk = static_cast<std::size_t>(std::bit_width(n) - 1);
  return {chunk, i - first_chunk_slots * ((std::size_t{1} << chunk) - 1)};
}

constexpr std::size_t index_of(std::uint32_t depth) noexcept {
  return (depth - version_samples::depth_min) / version_samples::spacing;
}

}  // namespace

struct version_samples::history {
  static constexpr std::size_t none = ~std::size_t{0};

  link entry = null_link;
  history* next = nullptr;
  std::atomic<bool> has_turn{false};      // a thread is sampling it
  link turn_next = null_link;             // for who has the turn: the next record to look at; null: the newest
  std::atomic<std::size_t> lowest{none};  // V3: the lowest slot that turns have filled
  std::array<std::atomic<slot*>, chunk_count> chunks{};

  ~history() {
    for (auto& c : chunks) delete[] c.load(std::memory_order_relaxed);  // relaxed: no other thread is left
  }

  [[nodiscard]] const slot* find(std::size_t i) const noexcept {
    const slot_place p = place_of(i);
    const slot* chunk = chunks[p.chunk].load(std::memory_order_acquire);  // acquire: its slots are constructed
    return chunk == nullptr ? nullptr : chunk + p.index;
  }

  slot* make(std::size_t i) noexcept {
    const slot_place p = place_of(i);
    slot* chunk = chunks[p.chunk].load(std::memory_order_acquire);
    if (chunk == nullptr) {
      auto* fresh = new (std::nothrow) slot[first_chunk_slots << p.chunk];
      if (fresh == nullptr) return nullptr;
      // release: as above; acquire on failure: the chunk that another thread made is just as good
      if (chunks[p.chunk].compare_exchange_strong(chunk, fresh, std::memory_order_acq_rel, std::memory_order_acquire)) {
        chunk = fresh;
      } else {
        delete[] fresh;
      }
    }
    return chunk + p.index;
  }
};

version_samples::version_samples()
    : buckets_(std::make_unique<std::atomic<history*>[]>(bucket_count)),
      misses_(std::make_unique<std::atomic<std::uint8_t>[]>(bucket_count)) {}

version_samples::~version_samples() {
  for (std::size_t i = 0; i < bucket_count; ++i) {
    for (history* h = buckets_[i].load(std::memory_order_relaxed); h != nullptr;) {  // relaxed: no other thread is left
      history* next = h->next;
      delete h;
      h = next;
    }
  }
}

std::atomic<version_samples::history*>& version_samples::bucket_of(link entry) const noexcept {
  return buckets_[mix64(entry) % bucket_count];
}

version_samples::history* version_samples::find(link entry) const noexcept {
  history* h = bucket_of(entry).load(std::memory_order_acquire);  // acquire: pairs with the push in add()
  while (h != nullptr && h->entry != entry) h = h->next;
  return h;
}

version_samples::history* version_samples::find_or_make(link entry) noexcept {
  if (history* h = find(entry); h != nullptr) return h;
  auto* fresh = new (std::nothrow) history;
  if (fresh == nullptr) return nullptr;
  fresh->entry = entry;
  auto& bucket = bucket_of(entry);
  fresh->next = bucket.load(std::memory_order_relaxed);  // relaxed here and on failure: the exchange acquires
  // acquire: what `next` leads to is initialized. release: the history is initialized before it is found. Two threads
  // may push one entry's history: then the one pushed later is found first, and what was sampled in the other is
  // missing, which is allowed
  while (!bucket.compare_exchange_weak(fresh->next, fresh, std::memory_order_acq_rel, std::memory_order_relaxed)) {
  }
  return fresh;
}

void version_samples::fill(history& h, std::uint32_t depth, version stamped, link record) noexcept {
  slot* s = h.make(index_of(depth));
  if (s == nullptr) return;
  s->record.store(record, std::memory_order_relaxed);    // relaxed: ordered by the next line (V1)
  s->stamped.store(stamped, std::memory_order_release);  // release: V1
}

void version_samples::add(link entry, std::uint32_t depth, version stamped, link record) noexcept {
  if (history* h = find_or_make(entry); h != nullptr) fill(*h, depth, stamped, record);
}

version_samples::turn::turn(version_samples& in, link entry, std::uint32_t depth, link newest) noexcept {
  if (depth < history_depth_min) return;
  history* h = in.find(entry);
  if (h == nullptr) {
    auto& misses = in.misses_[mix64(entry) % bucket_count];
    // relaxed: only a guess; a count that two threads raise at once may lose one
    const std::uint8_t so_far = misses.load(std::memory_order_relaxed);
    if (so_far < misses_min) {
      misses.store(static_cast<std::uint8_t>(so_far + 1), std::memory_order_relaxed);
      return;
    }
    h = in.find_or_make(entry);
    if (h == nullptr) return;
  }
  if (h->has_turn.load(std::memory_order_relaxed)) return;            // relaxed: only saves others the exchange
  if (h->has_turn.exchange(true, std::memory_order_acquire)) return;  // acquire: pairs with the end of another's turn
  of_ = h;
  next_ = h->turn_next == null_link ? newest : h->turn_next;
}

void version_samples::turn::add(std::uint32_t depth, version stamped, link record, link below) noexcept {
  of_->turn_next = below;
  if (!wanted(depth) || stamped == 0) return;  // 0: of a batch that is not ready; its writer adds it
  fill(*of_, depth, stamped, record);
  const slot* const filled = of_->find(index_of(depth));
  // relaxed: who has the turn wrote it. release: a thread that sees it finds the slot filled (V3)
  if (filled != nullptr && filled->stamped.load(std::memory_order_relaxed) != 0)
    of_->lowest.store(index_of(depth), std::memory_order_release);
}

version_samples::turn::~turn() {
  // release: pairs with the exchange of the next turn
  if (of_ != nullptr && !given_up_) of_->has_turn.store(false, std::memory_order_release);
}

version_samples::place version_samples::start(link entry, std::uint32_t depth, version v, link newest,
                                              version newest_stamped) const noexcept {
  const history* h = find(entry);
  if (h == nullptr) return {newest, false, false};
  const auto is_filled = [h](std::size_t i) {
    const slot* s = h->find(i);
    return s != nullptr && s->stamped.load(std::memory_order_acquire) != 0;  // acquire: V1
  };
  // acquire: V3
  const std::size_t bottom = is_filled(0) ? 0 : h->lowest.load(std::memory_order_acquire);
  const std::size_t all = index_of(depth) + 1;
  if (bottom >= all) return {newest, false, false};
  const std::size_t count = all - bottom;
  const auto stamped_at = [h, bottom](std::size_t i) -> version {
    const slot* s = h->find(bottom + i);
    return s == nullptr ? 0 : s->stamped.load(std::memory_order_acquire);  // acquire: V1
  };
  const auto too_new = [&](std::size_t i) {
    const version stamped = stamped_at(i);
    return stamped == 0 || stamped > v;  // a missing one counts as too new: V2
  };
  // Versions mostly grow evenly with depth: guess the slot, then search outwards from it in doubling steps. A good
  // guess costs one or two cache misses, a bad one no more than a binary search.
  const version first = stamped_at(0);
  if (first > v) return {record_behind(*h, bottom, v, newest), bottom == 0, bottom == 0};
  if (newest_stamped <= first) return {newest, true, bottom == 0};
  const double part = static_cast<double>(v - first) / static_cast<double>(newest_stamped - first);
  const std::size_t guess = std::min(count - 1, static_cast<std::size_t>(part * static_cast<double>(count)));
  std::size_t low = 0;
  std::size_t high = count;
  std::size_t stride = 1;
  if (too_new(guess)) {
    high = guess;
    while (stride <= high && too_new(high - stride)) {
      high -= stride;
      stride *= 2;
    }
    low = stride <= high ? high - stride + 1 : 0;
  } else {
    low = guess + 1;
    while (low + stride <= count && !too_new(low + stride - 1)) {
      low += stride;
      stride *= 2;
    }
    high = std::min(count, low + stride - 1);
  }
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (too_new(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return {low < count ? record_behind(*h, bottom + low, v, newest) : newest, true, bottom == 0};
}

/// The record of slot `i` if it is newer than `v`; else `otherwise`. The search takes a missing slot for too new. It
/// may have been filled meanwhile, with a record that is older than the one that v shows.
link version_samples::record_behind(const history& h, std::size_t i, version v, link otherwise) noexcept {
  const slot* s = h.find(i);
  // acquire: V1
  if (s == nullptr || s->stamped.load(std::memory_order_acquire) <= v) return otherwise;
  return s->record.load(std::memory_order_relaxed);  // relaxed: ordered by the load above
}

}  // namespace icecore
