// What the histories of every store share: where records are, how they are stamped, and how they become durable.
// history.hpp states the invariants H1 to H8.
//
// Threads: all functions from any thread, except where stated.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "history/clock.hpp"
#include "history/durable_point.hpp"
#include "history/record.hpp"
#include "history/version_samples.hpp"
#include "pool/file/persist.hpp"

namespace icecore {

/// The addresses behind links: base[pool] + offset.
class address_space {
 public:
  /// The pool number after those of the files: memory with records that stand for lost ones.
  static constexpr std::uint16_t stand_in_pool = format::files_max;
  static_assert(stand_in_pool < link_pool(format::head_is_second_removal), "a head has a bit beside the link");

  explicit address_space(std::byte* pool_0) noexcept { bases_[0] = pool_0; }
  /// By pool number.
  explicit address_space(std::span<std::byte* const> pools) noexcept { std::ranges::copy(pools, bases_.begin()); }
  [[nodiscard]] std::byte* at(link l) const noexcept { return bases_[link_pool(l)] + link_offset(l); }
  [[nodiscard]] record record_at(link l) const noexcept { return record(at(l)); }
  /// Hints that what the link leads to will be read soon. It may be no link into a pool: then nothing useful happens.
  /// So the address is computed as a number. Always inlined: GCC drops calls of a function that only prefetches.
  [[gnu::always_inline]] void prefetch(link l) const noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(bases_[link_pool(l) % bases_count]) + link_offset(l);
    __builtin_prefetch(reinterpret_cast<const void*>(address));
  }
  /// Only before other threads use it.
  void set_base(std::uint16_t pool, std::byte* base) noexcept { bases_[pool] = base; }

 private:
  /// More than there are pools: prefetch() takes the number of any link modulo this.
  static constexpr std::size_t bases_count = 32;
  static_assert(stand_in_pool < bases_count);
  std::array<std::byte*, bases_count> bases_{};
};

/// The version of a record as it is on media: who only reads stamps none. 0 if it has none, nor its batch.
[[nodiscard, gnu::always_inline]] inline version stamped_already(const address_space& space, link l) noexcept {
  const record r = space.record_at(l);
  // acquire, both: who sees a stamp sees the record; pairs with the CAS or store that set it
  const version own = r.header().stamp.load(std::memory_order_acquire) & format::stamp_version_mask;
  if (own != 0 || !r.batched()) return own;
  return space.record_at(r.batch()).header().stamp.load(std::memory_order_acquire) & format::stamp_version_mask;
}

/// What the end of a write needs to know of its record. It is read before the record's lines are flushed: a read after
/// the fence would wait for the flushed line and delay the reads of the next operation.
struct written_record {
  link at;
  std::uint64_t stamp;
  link entry = null_link;    ///< of an update only
  std::uint64_t before = 0;  ///< of an update only: its entry's head before it
  bool is_second = false;    ///< whether it is its entry's second record
};

/// What a store gives its histories.
struct history_parts {
  address_space space;
  version_clock* clock;
  word_codec codec;
  persistence* persist;
  /// Operation durability: only durable records are returned.
  bool persist_on_read;
  /// Called by a thread that has waited long for another thread's write. When it returns, the writes that killed
  /// processes left unfinished are rolled forward or back; otherwise it throws errc::poisoned.
  std::function<void()> recover_dead_writers;
  /// Only durable records are returned, too, but by versions: readers wait for a sync. Null: they do not.
  const durable_point* synced = nullptr;
};

class history_base {
 public:
  explicit history_base(history_parts parts)
      : space_(parts.space),
        clock_(parts.clock),
        codec_(parts.codec),
        persist_(parts.persist),
        persist_on_read_(parts.persist_on_read),
        recover_dead_writers_(std::move(parts.recover_dead_writers)),
        synced_(parts.synced),
        samples_(std::make_unique<version_samples>()) {}

  [[nodiscard]] record at(link l) const noexcept { return space_.record_at(l); }
  [[nodiscard]] const address_space& space() const noexcept { return space_; }
  /// Only before other threads use it.
  [[nodiscard]] address_space& space() noexcept { return space_; }
  /// Whether operation durability holds, record by record: only durable records are returned, and linked on.
  [[nodiscard]] bool persists_on_read() const noexcept { return persist_on_read_; }

  /// The newest record of an entry, from its head.
  [[nodiscard]] static link newest_of(link entry, std::uint64_t head) noexcept {
    return head == null_link ? entry : head & ~format::head_is_second_removal;
  }
  /// Prefetches the newest record of an entry, for a caller that has other work to do before it links an update on it.
  /// Always inlined: GCC drops calls of a function that only prefetches.
  [[gnu::always_inline]] void prefetch_newest(link entry) const noexcept {
    const std::uint64_t head = at(entry).as_entry().head.load(std::memory_order_relaxed);  // relaxed: a hint
    __builtin_prefetch(space_.at(newest_of(entry, head)));
  }

  /// The version of a record that this thread has sealed; stamps it if it has no stamp. 0: its batch has not taken
  /// effect.
  [[nodiscard, gnu::always_inline]] version stamp_of_own(link l) const noexcept { return stamp_of_own(at(l), l); }
  /// `batched`: whether it may be in a batch; if not, stamping it takes no call.
  [[nodiscard, gnu::always_inline]] version stamp_of_own(record r, link l, bool batched = true) const noexcept {
    assert(batched || !r.batched());
    // acquire: a thread that sees the stamp sees the record; pairs with the CAS that set it
    const std::uint64_t word = r.header().stamp.load(std::memory_order_acquire);
    if (word != 0) return word & format::stamp_version_mask;
    return batched ? stamp_sealed(l) : set_stamp(r, l, clock_->now());
  }
  /// Stamps a sealed record that no other thread can see yet, while readers that look for it wait (H3).
  void stamp_unseen(link fresh) const noexcept {
    const std::uint64_t word = codec_.encode(clock_->now(), fresh + format::stamp_offset);
    // release: as in stamp_sealed(); no other thread can be stamping it
    at(fresh).header().stamp.store(word, std::memory_order_release);
  }
  /// The fence between publishing a new key's entry in the index and stamping it (H3).
  static void fence_after_index_publish() noexcept { std::atomic_thread_fence(std::memory_order_seq_cst); }

  [[nodiscard]] written_record written_of(link l) const noexcept {
    const record r = at(l);
    return written_of(r, l, r.is_update());
  }
  [[nodiscard, gnu::always_inline]] static written_record written_of(record r, link l, bool is_update) noexcept {
    written_record w{.at = l,
                     .stamp = r.header().stamp.load(std::memory_order_relaxed)};  // relaxed: seen by this thread
    if (is_update) {
      w.entry = r.as_update().entry;
      w.before = head_of_older(r);
      w.is_second = r.header().depth == 2;
    }
    return w;
  }
  /// Under operation durability: returns when the record's flushed lines are durable. May throw errc::poisoned.
  [[gnu::always_inline]] void await_flushed(const written_record& fresh) const {
    if (!persist_on_read_) return;
    persist_->sync();
    // release: H5. Any other thread that sets the bit stores the same word
    at(fresh.at).header().stamp.store(fresh.stamp | format::stamp_persisted, std::memory_order_release);
  }
  /// The same for several records.
  void await_flushed(std::span<const link> fresh) const {
    if (!persist_on_read_ || fresh.empty()) return;
    persist_->sync();
    for (const link l : fresh) set_persisted(l);
  }

  /// Adds a sample of a deep history's record (version_samples.hpp). Once for each record, after it is stamped.
  void sample(link l) const { sample(at(l), l); }
  void sample(record r, link l) const {
    if (version_samples::wanted(r.header().depth)) add_sample(r, l);
  }

  /// Everything in these segments up to their positions is durable already. Only before the first operation.
  template <typename Places>
  void set_durable(const Places& places) {
    durable_.clear();
    for (const auto& p : places) durable_.push_back({p.in.offset, p.position});
    std::ranges::sort(durable_, {}, &durable_range::begin);
  }

 protected:
  version stamp_sealed(link l) const noexcept;
  /// Stamps a sealed record with version `v`, unless another thread has stamped it. Returns the record's version.
  [[gnu::always_inline]] version set_stamp(record r, link l, version v) const noexcept {
    std::uint64_t expected = 0;
    const std::uint64_t word = codec_.encode(v, l + format::stamp_offset);
    // release: linking has published the record already; this keeps the record before its stamp on media lines. acquire
    // on failure: the stamp that another thread set is just as good
    if (r.header().stamp.compare_exchange_strong(expected, word, std::memory_order_acq_rel, std::memory_order_acquire))
      return v;
    return expected & format::stamp_version_mask;
  }
  version stamp_batch(link batch) const noexcept;
  /// Depths have 32 bits, so a record on top of the greatest depth would get depth 0.
  [[gnu::always_inline]] void require_room_above(link entry, link top) const {
    if (at(top).header().depth == format::depth_max) [[unlikely]]
      raise_no_room_above(entry);
  }
  [[noreturn]] void raise_no_room_above(link entry) const;
  void add_sample(record r, link l) const;
  /// A plain store is enough: the record is stamped, so only this bit of its word can still change (H4), and any other
  /// thread that sets it stores the same word.
  void set_persisted(link l) const noexcept {
    auto& stamp = at(l).header().stamp;
    // relaxed: this thread has seen the stamp before; release: H5
    stamp.store(stamp.load(std::memory_order_relaxed) | format::stamp_persisted, std::memory_order_release);
  }
  [[nodiscard]] bool was_durable_at_opening(link l) const noexcept;
  /// Whether a reader may rely on a record of this version without looking at the record itself.
  [[nodiscard]] bool covered(version v) const noexcept { return synced_ == nullptr || synced_->covers(v); }
  /// The entry's head before this update was linked.
  [[nodiscard]] static std::uint64_t head_of_older(record update) noexcept {
    const auto& u = update.as_update();
    return u.older == u.entry ? null_link : u.older;
  }

  struct durable_range {
    link begin;
    link end;
  };

  address_space space_;
  version_clock* clock_;
  word_codec codec_;
  persistence* persist_;
  bool persist_on_read_;
  std::function<void()> recover_dead_writers_;
  const durable_point* synced_;
  std::vector<durable_range> durable_;  // ascending
  std::unique_ptr<version_samples> samples_;
};

/// An entry's newest record and the head it was found by. The head leads to that record or, if heads are durable,
/// perhaps to no record (H8).
struct newest_record {
  link newest;
  std::uint64_t head;
};

}  // namespace icecore
