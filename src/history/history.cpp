#include "history/history.hpp"

#include <bit>
#include <cassert>

#include "base/locks/looks.hpp"
#include "base/raise.hpp"
#include "base/threads.hpp"

namespace icecore {
namespace {

/// Whether the last two jumps on the way from a record at this depth down to the entry are equally long. Lengths are
/// 2^k - 1, the greatest that fits first. So they follow from the depth, and no record need be read.
bool last_jumps_are_equal(std::uint32_t depth) noexcept {
  std::uint32_t remaining = depth - 1;
  while (remaining != 0) {
    const std::uint32_t length = (std::uint32_t{1} << (std::bit_width(remaining + 1) - 1)) - 1;
    if (remaining == 2 * length) return true;  // these two jumps reach the entry
    remaining -= length;
  }
  return false;
}

}  // namespace

template <class Heads>
link basic_histories<Heads>::find_older(link newest, version newest_stamped, version v) const {
  const record r = at(newest);
  if (r.header().depth < version_samples::depth_min) return find_by_jumps(newest, v);
  const auto [from, is_near, all_sampled] =
      this->samples_->start(r.as_update().entry, r.header().depth, v, newest, newest_stamped);
  if (!all_sampled) [[unlikely]]
    sample_further(newest);
  if (!is_near) return find_by_jumps(from, v);
  link l = from;
  // between two samples: records written one after the other often lie one after the other, too; fetch all of them
  // while the first is read
  for (unsigned i = 1; i < version_samples::spacing; ++i) {
    __builtin_prefetch(at(l).address() - i * format::cache_line_size);
  }
  for (unsigned i = 0; i <= version_samples::spacing; ++i) {
    const version s = stamp_of(l);
    if (s != 0 && s <= v) return l;
    if (at(l).is_entry()) return null_link;
    l = older(l);
  }
  return find_by_jumps(l, v);  // a sample was missing
}

template <class Heads>
void basic_histories<Heads>::sample_further(link newest) const {
  const record r = at(newest);
  version_samples::turn mine(*this->samples_, r.as_update().entry, r.header().depth, newest);
  link l = mine.next();
  constexpr std::size_t ahead = 16 * format::cache_line_size;  // older records often lie before newer ones
  try {
    for (std::uint32_t i = 0; i < version_samples::turn::records_max && l != null_link; ++i) {
      __builtin_prefetch(at(l).address() - ahead);
      const std::uint32_t depth = at(l).header().depth;
      if (depth < version_samples::depth_min) return;  // slot 0 is filled
      const link below = older(l);
      mine.add(depth, version_samples::wanted(depth) ? stamp_of(l) : 0, l, below);
      l = below;
    }
  } catch (const error&) {  // damage below what the caller looks for: only who reads that learns of it
    mine.give_up();
  }
}

template <class Heads>
link basic_histories<Heads>::find_by_jumps(link newest, version v) const {
  link l = newest;
  for (;;) {
    const version stamped = stamp_of(l);
    if (stamped != 0 && stamped <= v) return l;
    const record r = at(l);
    if (r.is_entry()) return null_link;
    // take a jump that does not overshoot: everything from l down to it is too new (H1)
    const link jump = followed(l, r.as_update().jump);
    l = stamp_of(jump) > v ? jump : older(l);
  }
}

template <class Heads>
bool basic_histories<Heads>::wait_for_stamp(link entry, link l) const {
  backoff wait;
  for (unsigned rounds = 1; stamp_of(l) == 0; ++rounds) {
    // another writer's batch is between its first link and its stamp, which takes microseconds. Batches link their keys
    // in ascending order, so two of them never wait for each other
    if (this->persist_->poisoned()) this->persist_->raise_poisoned();
    if (this->recover_dead_writers_ && rounds % rounds_between_looks == 0) {
      this->recover_dead_writers_();
      if (Heads::was_taken_back(entry, l)) return false;
    }
    wait.pause();
  }
  return true;
}

template <class Heads>
link basic_histories<Heads>::jump_over(link older, std::uint32_t depth) const {
  // skew-binary: two jumps of equal length behind the parent become one
  return last_jumps_are_equal(depth) ? claimed_jump_of(jump_of(older)) : older;
}

template <class Heads>
bool basic_histories<Heads>::link_on_top(link entry, link fresh, std::uint32_t seed, newest_condition wanted) const {
  return link_on_top(entry, fresh, at(fresh).layout(), seed, wanted);
}

template <class Heads>
version basic_histories<Heads>::complete_batch(link batch) const {
  // includes a release: all links, which were made by seq_cst RMWs, come before any thread can stamp the batch (H4)
  at(batch).header().stamp.store(format::stamp_ready, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // H3: ready is visible before the clock is read
  const version v = Heads::stamp_batch(batch);
  assert(v != 0);  // H4
  persist_before_link(batch);
  return v;
}

template <class Heads>
void basic_histories<Heads>::persist_record(link l) const {
  const record r = at(l);
  // acquire: if the bit is set, another thread has completed the flush and the fence (H5)
  std::uint64_t word = r.header().stamp.load(std::memory_order_acquire);
  if ((word & format::stamp_persisted) != 0) return;
  // a batch's record from before opening, with durable heads: its own stamp may not have reached the media
  if (word == 0) {
    static_cast<void>(stamp_of(l));
    word = r.header().stamp.load(std::memory_order_acquire);
  }
  assert(word != 0 && word != format::stamp_ready);
  // The bit stays unset: setting it would dirty a page for nothing.
  if (Heads::was_durable_at_opening(l)) return;
  if (r.batched()) {
    // its bytes were durable before the batch became ready; now the batch's stamp must be
    persist_record(r.batch());
  } else {
    this->persist_->flush(r.address(), r.layout().size());
    this->persist_->sync();
  }
  Heads::set_persisted(l);
}

template class basic_histories<rebuilt_heads>;
template class basic_histories<durable_heads>;
// what reading needs
template link basic_histories<observed_heads>::find_older(link newest, version newest_stamped, version v) const;
template void basic_histories<observed_heads>::persist_record(link l) const;

}  // namespace icecore
