// Goes forward through what a version shows of a store that has strata, and reads some items at a time: packed ones
// from row to row of their blocks, and between them those of the young generation.
//
//   in_key_order(engine, kept);
//   layered_walk walk(engine, kept, version);
//   for (walk.seek("layer1/"); walk.read(items_ahead::capacity);) use(walk.items());
//
// Threads: one. Lifetime: as the engine. The items are views into the pool.
// Cost: seek() one search in the index and in each stratum; read() a few ns for a packed item.
// Errors: errc::damaged. read() tells the items before a damaged one first, and throws when it is called again.
// Invariant: what a closed version shows does not change. So the key that the young generation has next may be kept:
//   whoever inserts one before it does so in a later version.
#pragma once

#include <array>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "icecore/snapshot.hpp"
#include "store/read/scan.hpp"

namespace icecore::detail {

/// Items that were read in key order.
class [[gnu::visibility("hidden")]] items_ahead {
 public:
  static constexpr std::size_t capacity = index::block::capacity;

  items_ahead() = default;
  items_ahead(const items_ahead&) = delete;
  items_ahead& operator=(const items_ahead&) = delete;
  virtual ~items_ahead() = default;

  [[nodiscard]] std::span<const item> items() const noexcept { return {items_.data(), size_}; }

 protected:
  void add(const item& one) noexcept { items_[size_++] = one; }

  std::array<item, capacity> items_;
  std::size_t size_ = 0;
};

template <class Engine>
class [[gnu::visibility("hidden")]] layered_walk final : public items_ahead {
 public:
  /// `sorted` is what in_key_order() has kept.
  layered_walk(const Engine& core, std::shared_ptr<const sorted_keys> sorted, version at)
      : core_(&core), sorted_(std::move(sorted)), at_(at), packed_(*core.packed(), at) {}

  /// read() goes on with the first key that is not less.
  void seek(std::string_view key);
  /// Replaces items() by the next ones, at most `most`, which is not above the capacity; false, and no items, at the
  /// end. Precondition: seek().
  bool read(std::size_t most);
  /// Calls visit(block, first, end) for the keys from `first` to before `end` of a block, as long as such keys come
  /// next: packed ones that nothing else has, less than `to`. Then replaces items() by some that come next, of which
  /// the last ones may be beyond `to`; false, and no items, at `to`, at the end, or once `visit` has returned false.
  /// Precondition: seek(). After an error seek() must be next.
  template <class Visit>
  bool visit_or_read(std::optional<std::string_view> to, Visit&& visit);
  /// Replaces items() by what these links show. Then read() needs a seek().
  void take(std::span<const link> links, std::span<const link> coming = {}) {
    size_ = 0;
    add_shown(links, coming);
  }

 private:
  [[nodiscard]] const index::ordered_links& young_links() const noexcept {
    return sorted_ ? static_cast<const index::ordered_links&>(*sorted_) : core_->index();
  }
  [[nodiscard]] std::string_view key_of(link young) const { return core_->records().space().record_at(young).key(); }
  [[nodiscard]] bool young_ends() const noexcept { return young_at_ == young_.size; }
  void come_to_young(std::size_t at);
  void read_young(std::size_t most);
  void read_packed(std::size_t most);
  void add_shown(std::span<const link> links, std::span<const link> coming);

  const Engine* core_;
  std::shared_ptr<const sorted_keys> sorted_;  // if the index is in another order
  version at_;
  stratum::strata_walk packed_;
  index::block young_;
  std::size_t young_at_ = 0;    // its size: no more young keys
  std::string_view young_key_;  // there
  std::size_t young_run_ = index::block::capacity;
  std::exception_ptr met_;  // what read() throws from now on, until seek()
};

template <class Engine>
void layered_walk<Engine>::seek(std::string_view key) {
  size_ = 0;
  met_ = nullptr;
  packed_.expect(key);  // the waits for the first packed key and for the first young one overlap
  young_links().seek(key, young_);
  if (young_.size > 0) core_->records().space().prefetch(young_.entries.front());
  packed_.arrive(key);
  std::size_t at = 0;  // mostly the lower bound is the first one
  while (at < young_.size && key_less(key_of(young_.entries[at]), key)) ++at;
  come_to_young(at);
}

template <class Engine>
bool layered_walk<Engine>::read(std::size_t most) {
  size_ = 0;
  if (met_) std::rethrow_exception(met_);
  try {
    while (size_ < most && !(young_ends() && packed_.at_end())) {
      if (young_ends() || (!packed_.at_end() && key_less(packed_.key(), young_key_))) {
        read_packed(most);
      } else {
        read_young(most);
      }
    }
  } catch (const error&) {
    met_ = std::current_exception();  // the walk is between two places, and would not meet it again
    if (size_ == 0) throw;
  }
  return size_ > 0;
}

template <class Engine>
template <class Visit>
bool layered_walk<Engine>::visit_or_read(std::optional<std::string_view> to, Visit&& visit) {
  const auto is_before = [&to](std::string_view key) { return !to || key_less(key, *to); };
  bool goes_on = true;
  const auto visit_run = [&](const stratum::block& b, std::uint32_t first, std::uint32_t end) {
    return goes_on = visit(b, first, end);
  };
  size_ = 0;
  do {
    for (bool visited = true; visited && !packed_.at_end();) {
      const auto bound = young_ends() || !is_before(young_key_) ? to : std::optional(young_key_);
      visited =
          (!bound || key_less(packed_.key(), *bound)) && packed_.visit_run(bound, format::block_entries_max, visit_run);
    }
    if (!goes_on) return false;
    const bool young_is_next = !young_ends() && (packed_.at_end() || young_key_ <= packed_.key());
    if (young_is_next ? !is_before(young_key_) : packed_.at_end() || !is_before(packed_.key())) return false;
    if (young_is_next) {
      read_young(capacity);
    } else {
      read_packed(capacity);
    }
  } while (size_ == 0);
  return true;
}

template <class Engine>
void layered_walk<Engine>::read_packed(std::size_t most) {
  const auto bound = young_ends() ? std::nullopt : std::optional(young_key_);
  const auto show = [this](const stratum::block& b, std::uint32_t first, std::uint32_t end) {
    return b.for_each_at(at_, first, end, [this](std::string_view key, const stratum::packed_record& shown) {
      if (!shown.is_removal()) add({key, core_->packed()->value_of(shown)});
      return true;
    });
  };
  if (packed_.visit_run(bound, most - size_, show)) return;
  // Another stratum has the key, too, or its history goes on in another block.
  if (const auto shown = core_->packed()->shown_at_most(packed_.newest(), at_)) {
    add({packed_.key(), core_->packed()->value_of(core_->packed()->record(*shown))});
  }
  packed_.next();
}

/// The young entries before the next packed key, and that key's.
template <class Engine>
void layered_walk<Engine>::read_young(std::size_t most) {
  const std::size_t enough = std::min({young_.size - young_at_, most - size_, young_run_});
  std::size_t count = 1;
  int order = packed_.at_end() ? -1 : young_key_.compare(packed_.key());
  while (order < 0 && count < enough) {
    const int next = packed_.at_end() ? -1 : key_of(young_.entries[young_at_ + count]).compare(packed_.key());
    if (next > 0) break;
    order = next;
    ++count;
  }
  const std::size_t before = size_;
  try {
    add_shown(entries_of(young_).subspan(young_at_, count), {});
  } catch (const error&) {
    size_ = before;
    if (count == 1) throw;
    young_run_ = 1;  // to tell those before it
    return;
  }
  if (order == 0) packed_.next();
  come_to_young(young_at_ + count);
}

/// The walk comes to this entry of the block, or to the next block's first one.
template <class Engine>
void layered_walk<Engine>::come_to_young(std::size_t at) {
  constexpr std::size_t asked_ahead = 8;
  const address_space& space = core_->records().space();
  if (at == young_.size && young_.size > 0) {
    static_cast<void>(young_links().next_block(young_));
    at = 0;
  }
  const std::size_t asked = at == 0 ? 0 : std::min(young_at_ + asked_ahead, young_.size);
  young_at_ = at;
  for (std::size_t i = std::max(asked, at); i < std::min(at + asked_ahead, young_.size); ++i) {
    space.prefetch(young_.entries[i]);
  }
  if (!young_ends()) young_key_ = key_of(young_.entries[young_at_]);
}

template <class Engine>
void layered_walk<Engine>::add_shown(std::span<const link> links, std::span<const link> coming) {
  std::array<link, index::block::capacity> visible;
  const std::size_t count = visible_records(*core_, {*core_, links, coming}, at_, visible);
  for (std::size_t i = 0; i < count; ++i) add(item_of(*core_, visible[i]));
}

}  // namespace icecore::detail
