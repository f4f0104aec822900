#include "cluster/gather/gather.hpp"

#include <algorithm>
#include <climits>
#include <deque>
#include <numeric>
#include <span>
#include <vector>

#include "base/raise.hpp"
#include "base/threads.hpp"
#include "cluster/gather/parts.hpp"

namespace icecore::ranks {
namespace {

/// The bytes of one array on each rank, and where they go in the root's array.
struct array_parts {
  std::vector<std::uint64_t> bytes;
  std::vector<std::uint64_t> begins;  // one more than ranks

  void add(std::uint64_t size) {
    begins.push_back(begins.empty() ? 0 : begins.back() + bytes.back());
    bytes.push_back(size);
  }
  void end() { begins.push_back(begins.back() + bytes.back()); }

  /// Whether one MPI_Gatherv with int counts of `unit` bytes is enough.
  [[nodiscard]] bool fit_one_call(std::uint64_t unit, std::size_t message_bytes_max) const {
    return begins.back() / unit <= INT_MAX && *std::max_element(bytes.begin(), bytes.end()) <= message_bytes_max;
  }
};

std::vector<int> in_units(std::span<const std::uint64_t> bytes, std::uint64_t unit) {
  std::vector<int> units;
  units.reserve(bytes.size());
  for (const std::uint64_t b : bytes) units.push_back(static_cast<int>(b / unit));
  return units;
}

/// Gathers an array of which every rank has a part of whole units.
class array_gathering {
 public:
  array_gathering(const team& ranks, const gather_options& how) : ranks_(&ranks), how_(&how) {}

  [[nodiscard]] bool at_root() const noexcept { return ranks_->rank() == how_->root; }

  void run(const void* own, char* all, const array_parts& sizes, std::uint64_t unit, int tag) const {
    if (sizes.fit_one_call(unit, how_->message_bytes_max)) {
      in_one_call(own, all, sizes, unit);
    } else {
      in_messages(own, all, sizes, tag);
    }
  }

 private:
  void in_one_call(const void* own, char* all, const array_parts& sizes, std::uint64_t unit) const {
    const MPI_Datatype type = unit == sizeof(std::uint64_t) ? MPI_UINT64_T : MPI_BYTE;
    const std::vector<int> counts = in_units(sizes.bytes, unit);
    const std::vector<int> begins = in_units(std::span(sizes.begins).first(counts.size()), unit);
    ranks_->gatherv(own, counts[static_cast<std::size_t>(ranks_->rank())], type, all, counts.data(), begins.data(),
                    how_->root);
  }

  void in_messages(const void* own, char* all, const array_parts& sizes, int tag) const {
    messages m(*ranks_, how_->message_bytes_max);
    if (at_root()) {
      for (std::size_t r = 0; r < sizes.bytes.size(); ++r) {
        m.receive(all + sizes.begins[r], sizes.bytes[r], static_cast<int>(r), tag);
      }
    }
    m.send(own, sizes.bytes[static_cast<std::size_t>(ranks_->rank())], how_->root, tag);
    m.wait();
  }

  const team* ranks_;
  const gather_options* how_;
};

/// Gathers one column of all ranks, rank after rank.
class column_gathering {
 public:
  column_gathering(const parts& all, std::uint64_t extent::*bytes, std::size_t width, const gather_options& how)
      : arrays_(all.ranks(), how), own_count_(all.of(all.rank()).count), width_(width) {
    std::uint64_t first = 0;
    for (int r = 0; r < all.count(); ++r) {
      bytes_.add(all.of(r).*bytes);
      offsets_.add(all.of(r).count * sizeof(std::uint64_t));
      items_.push_back(first);
      first += all.of(r).count;
    }
    bytes_.end();
    offsets_.end();
    items_.push_back(first);
  }

  void run(const column_view& own, column& to, int offsets_tag, int bytes_tag) const {
    const std::uint64_t unit = width_ != 0 && width_ % sizeof(std::uint64_t) == 0 ? sizeof(std::uint64_t) : 1;
    arrays_.run(own.bytes, to.bytes.data(), bytes_, unit, bytes_tag);
    if (width_ != 0) return;
    arrays_.run(own_count_ == 0 ? nullptr : own.offsets, reinterpret_cast<char*>(to.offsets.data()), offsets_,
                sizeof(std::uint64_t), offsets_tag);
    if (arrays_.at_root()) rebase(to.offsets);
  }

 private:
  /// Each rank's offsets count from its own first byte, or from the first byte of the column it was sliced from.
  void rebase(buffer<std::uint64_t>& offsets) const {
    for (std::size_t r = 0; r + 1 < items_.size(); ++r) {
      const std::size_t from = items_[r];
      const std::size_t to = items_[r + 1];
      if (from == to) continue;
      const std::uint64_t shift = bytes_.begins[r] - offsets[from];  // may wrap around; the addition wraps back
      for (std::size_t i = from; i < to; ++i) offsets[i] += shift;
    }
    offsets[items_.back()] = bytes_.begins.back();
  }

  array_gathering arrays_;
  std::size_t own_count_;
  std::size_t width_;
  array_parts bytes_;
  array_parts offsets_;
  std::vector<std::uint64_t> items_;  // the index of each rank's first item, and the end
};

void require_root(const parts& all, const gather_options& how) {
  if (how.root >= 0 && how.root < all.count()) return;
  raise(errc::invalid_argument, "root {} is not a rank: the communicator has ranks 0 to {}", how.root, all.count() - 1);
}

/// Gathers all pairs at the root, which must have room for them `times` times.
pairs gather_parts(const parts& all, const gather_options& how, std::uint64_t times) {
  require_root(all, how);
  const bool root = all.rank() == how.root;
  pairs gathered;
  together(all.ranks(), [&] {
    if (root) require_room(how, times * bytes_of(all.total()));
    gathered = pairs(root ? all.total() : all.nothing());
  });
  column_gathering(all, &extent::key_bytes, all.nothing().key_width, how)
      .run(all.own().keys, gathered.keys, key_offsets_tag, key_bytes_tag);
  column_gathering(all, &extent::value_bytes, all.nothing().value_width, how)
      .run(all.own().values, gathered.values, value_offsets_tag, value_bytes_tag);
  return gathered;
}

/// The part of each rank in the gathered pairs.
std::vector<pairs_view> parts_of(const parts& all, const pairs& gathered) {
  std::vector<pairs_view> views;
  std::size_t from = 0;
  for (int r = 0; r < all.count(); ++r) {
    const std::size_t to = from + all.of(r).count;
    views.push_back(gathered.view().slice(from, to));
    from = to;
  }
  return views;
}

/// More would share the link, and none would arrive earlier.
constexpr int pieces_under_way = 2;

/// One rank's part in opt_merge. Places count ranks from the root on.
class opt_merging {
 public:
  opt_merging(const parts& all, const gather_options& how)
      : all_(&all), how_(&how), place_((all.rank() - how.root + all.count()) % all.count()) {
    extent_from_.reserve(static_cast<std::size_t>(all.count()) + 1);
    extent_from_.push_back(all.nothing());
    for (int p = 0; p < all.count(); ++p) extent_from_.push_back(extent_from_.back().plus(all.of(rank_at(p))));
  }

  /// Makes room for all that will arrive, so that memory runs out before the first message or not at all. Pages that
  /// are not written yet take no memory.
  void make_room() {
    require_room(*how_, bytes_at_once());
    for (int step = 1; stays_after(step); step *= 2) {
      if (place_ + step >= all_->count()) continue;
      received_.emplace_back(between(place_ + step, place_ + 2 * step));
      merged_.emplace_back(between(place_, place_ + 2 * step));
    }
  }

  void run() {
    pairs_view held = all_->own();
    std::size_t round = 0;
    int step = 1;
    for (; stays_after(step); step *= 2) {
      if (place_ + step >= all_->count()) continue;
      take_in(held, received_[round], rank_at(place_ + step), merged_[round]);
      received_[round] = pairs();
      if (round > 0) merged_[round - 1] = pairs();
      held = merged_[round++].view();
    }
    if (place_ == 0) return;
    messages going(all_->ranks(), how_->message_bytes_max);
    const std::size_t piece = piece_of(held);
    for (std::size_t from = 0; from < held.count; from += piece) {
      send(going, held.slice(from, std::min(from + piece, held.count)), rank_at(place_ - step));
    }
    going.wait();
  }

  [[nodiscard]] const std::optional<std::string>& common_key() const noexcept { return common_key_; }
  [[nodiscard]] const std::exception_ptr& failure() const noexcept { return failure_; }

  [[nodiscard]] pairs result() {
    if (place_ != 0) return {};
    return merged_.empty() ? copy_of(all_->own()) : std::move(merged_.back());
  }

 private:
  /// The number of pairs in a message of each column. Columns of variable width are sent in one piece, because their
  /// offsets cannot be used in pieces.
  [[nodiscard]] std::size_t piece_of(const pairs_view& of) const noexcept {
    return of.keys.width == 0 || of.values.width == 0 ? std::max<std::size_t>(1, of.count) : how_->pairs_per_piece;
  }

  /// Receives the pairs of another rank, and merges each piece with `held` while the next ones arrive.
  void take_in(const pairs_view& held, pairs& received, int from_rank, pairs& out) {
    const pairs_view all = received.view();
    const std::size_t piece = piece_of(all);
    const auto end_of = [&](std::size_t from) { return std::min(from + piece, all.count); };
    std::deque<messages> coming;
    std::size_t begun = 0;
    const auto begin_one = [&] {
      if (begun == all.count) return;
      receive(coming.emplace_back(all_->ranks(), how_->message_bytes_max), received, begun, end_of(begun), from_rank);
      begun = end_of(begun);
    };
    for (int i = 0; i < pieces_under_way; ++i) begin_one();
    std::size_t a = 0;
    std::size_t b = 0;
    while (!coming.empty()) {
      coming.front().wait();
      coming.pop_front();
      begin_one();
      const std::size_t b_end = end_of(b);
      const std::size_t a_end = b_end == all.count ? held.count : held.upper_bound(all.keys[b_end - 1]);
      merge(held.slice(a, a_end), all.slice(b, b_end), out, a + b);
      a = a_end;
      b = b_end;
    }
    if (a < held.count) merge(held.slice(a, held.count), all.slice(b, b), out, a + b);
  }

  /// Keeps a failure until the end, so that other ranks do not wait for what this rank must send.
  void merge(const pairs_view& a, const pairs_view& b, pairs& out, std::size_t to) noexcept {
    const std::exception_ptr now = attempt([&] {
      all_->ranks().work([&] {
        auto twice = merge_two(a, b, out, thread_count(how_->threads), to);
        if (twice) common_key_ = std::move(twice);
      });
    });
    if (now) failure_ = now;
  }

  [[nodiscard]] int rank_at(int place) const noexcept { return (place + how_->root) % all_->count(); }

  /// Whether this rank receives in the round of this step, or would if there were more ranks; otherwise it sends.
  [[nodiscard]] bool stays_after(int step) const noexcept { return step < all_->count() && place_ % (2 * step) == 0; }

  /// What the last round of this rank needs: its own pairs, those it receives, and both merged. Earlier rounds need
  /// less.
  [[nodiscard]] std::uint64_t bytes_at_once() const noexcept {
    int step = 1;
    while (stays_after(step)) step *= 2;
    return step == 1 ? 0 : 2 * bytes_of(between(place_, place_ + step));
  }

  /// The extent of all pairs of the ranks at places [from, to).
  [[nodiscard]] extent between(int from, int to) const noexcept {
    const extent& low = extent_from_[static_cast<std::size_t>(from)];
    const extent& high = extent_from_[static_cast<std::size_t>(std::min(to, all_->count()))];
    return {high.count - low.count, low.key_width, high.key_bytes - low.key_bytes, low.value_width,
            high.value_bytes - low.value_bytes};
  }

  const parts* all_;
  const gather_options* how_;
  int place_;
  std::vector<extent> extent_from_;  // by place: of all ranks at lower places
  std::vector<pairs> received_;
  std::vector<pairs> merged_;
  std::optional<std::string> common_key_;
  std::exception_ptr failure_;
};

/// errc::invalid_argument if the first key of a part is not greater than the last key of the part before it.
void require_ascending(const std::vector<pairs_view>& views) {
  std::optional<std::size_t> before;
  for (std::size_t r = 0; r < views.size(); ++r) {
    if (views[r].count == 0) continue;
    if (before && views[*before].keys[views[*before].count - 1] >= views[r].keys[0]) {
      raise(errc::invalid_argument,
            "concatenate: the first key of rank {} is not greater than the last key of rank {}: the ranks do not hold "
            "ascending ranges of keys",
            r, *before);
    }
    before = r;
  }
}

}  // namespace

void require_room(const gather_options& how, std::uint64_t bytes) {
  if (bytes <= how.memory_bytes_max) return;
  raise(errc::invalid_argument, "the extraction needs {} bytes on this rank, but memory_bytes_max allows {}", bytes,
        how.memory_bytes_max);
}

pairs gather(const team& ranks, const pairs_view& own, const gather_options& how) {
  const parts all(ranks, own);
  return gather_parts(all, how, 1);
}

pairs naive_merge(const team& ranks, const pairs_view& own, const gather_options& how) {
  const parts all(ranks, own);
  const pairs gathered = gather_parts(all, how, 2);
  pairs merged;
  std::optional<std::string> twice;
  together(ranks, [&] {
    if (all.rank() != how.root) return;
    merged = pairs(all.total());
    ranks.work([&] { twice = merge_many(parts_of(all, gathered), merged, how.heads); });
  });
  all.require_no_common_key(twice);
  return merged;
}

pairs opt_merge(const team& ranks, const pairs_view& own, const gather_options& how) {
  const parts all(ranks, own);
  require_root(all, how);
  opt_merging merging(all, how);
  together(ranks, [&] { merging.make_room(); });
  merging.run();
  agree(ranks, merging.failure());
  all.require_no_common_key(merging.common_key());
  pairs merged;
  together(ranks, [&] { merged = merging.result(); });
  return merged;
}

pairs concatenate(const team& ranks, const pairs_view& own, const gather_options& how) {
  const parts all(ranks, own);
  pairs gathered = gather_parts(all, how, 1);
  together(ranks, [&] {
    if (all.rank() == how.root) require_ascending(parts_of(all, gathered));
  });
  return gathered;
}

}  // namespace icecore::ranks
