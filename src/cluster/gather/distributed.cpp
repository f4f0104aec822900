// Sample sort of parts that are sorted already: samples give the bounds of the sections, each rank cuts its part at
// these bounds and sends each other rank its piece, and every rank merges the pieces it receives.
#include <algorithm>
#include <climits>
#include <numeric>
#include <string>
#include <vector>

#include "cluster/gather/gather.hpp"
#include "cluster/gather/parts.hpp"

namespace icecore::ranks {
namespace {

/// The steps of an all-to-all exchange that are under way at once: enough to hide the latency, few enough for any
/// network's queues.
constexpr int steps_under_way = 4;

/// Keys of this rank at even distances. On every rank a sample stands for about the same number of pairs.
std::vector<std::string_view> own_samples(const parts& all, std::size_t per_rank) {
  const std::uint64_t total = all.total().count;
  const std::uint64_t wanted = std::max<std::uint64_t>(1, per_rank) * static_cast<std::uint64_t>(all.count());
  const pairs_view& own = all.own();
  const std::uint64_t distance = std::max<std::uint64_t>(1, total / wanted);
  std::vector<std::string_view> samples;
  for (std::uint64_t i = distance / 2; i < own.count; i += distance) samples.push_back(own.keys[i]);
  return samples;
}

/// The samples of all ranks, sorted, on every rank.
class all_samples {
 public:
  all_samples(const parts& all, std::size_t per_rank) : all_(&all) {
    together(all.ranks(), [&] { write_own(per_rank); });
    sizes_.resize(static_cast<std::size_t>(all.count()));
    const int own_size = static_cast<int>(own_.size());
    all.ranks().allgather(&own_size, 1, MPI_INT, sizes_.data());
    together(all.ranks(), [&] { make_room(); });
    all.ranks().allgatherv(own_.data(), own_size, MPI_BYTE, bytes_.data(), sizes_, begins_);
    together(all.ranks(), [&] { read_all(); });
  }

  /// The least key of a rank's section; rank 0's section has no lower bound.
  [[nodiscard]] std::string_view bound(int rank) const noexcept {
    const std::size_t i = keys_.size() * static_cast<std::size_t>(rank) / static_cast<std::size_t>(all_->count());
    return i < keys_.size() ? keys_[i] : std::string_view();
  }
  [[nodiscard]] bool empty() const noexcept { return keys_.empty(); }

 private:
  using size_type = std::uint32_t;  // a key has at most 65,535 bytes

  /// Cuts long keys if all samples together would have more bytes than MPI can count: a prefix of a key also serves as
  /// a bound.
  void write_own(std::size_t per_rank) {
    const std::vector<std::string_view> samples = own_samples(*all_, per_rank);
    const std::size_t bytes_max = INT_MAX / static_cast<std::size_t>(all_->count()) / (samples.size() + 1);
    for (const std::string_view sample : samples) {
      if (bytes_max <= sizeof(size_type)) break;
      const std::string_view key = sample.substr(0, bytes_max - sizeof(size_type));
      const auto size = static_cast<size_type>(key.size());
      own_.append(reinterpret_cast<const char*>(&size), sizeof size);
      own_.append(key);
    }
  }

  void make_room() {
    begins_.resize(sizes_.size());
    std::exclusive_scan(sizes_.begin(), sizes_.end(), begins_.begin(), 0);
    bytes_.resize(static_cast<std::size_t>(begins_.back()) + static_cast<std::size_t>(sizes_.back()));
  }

  void read_all() {
    for (std::string_view remaining = bytes_; !remaining.empty();) {
      size_type size = 0;
      remaining.copy(reinterpret_cast<char*>(&size), sizeof size);
      keys_.push_back(remaining.substr(sizeof size, size));
      remaining.remove_prefix(sizeof size + size);
    }
    std::sort(keys_.begin(), keys_.end());
  }

  const parts* all_;
  std::string own_;
  std::vector<int> sizes_;
  std::vector<int> begins_;
  std::string bytes_;
  std::vector<std::string_view> keys_;  // into bytes_
};

/// Sends the pieces of all ranks' parts to the ranks that own the sections.
class exchange {
 public:
  exchange(const parts& all, const all_samples& samples, const gather_options& how)
      : all_(&all), from_(static_cast<std::size_t>(all.count())) {
    together(all.ranks(), [&] { cut(samples); });
    exchange_extents();
    together(all.ranks(), [&] {
      require_room(how, 2 * bytes_of(stretch()));
      make_room();
    });
  }

  void run(std::size_t message_bytes_max) {
    messages m(all_->ranks(), message_bytes_max);
    const int ranks = all_->count();
    for (int i = 1; i < ranks; ++i) {  // each rank starts with another partner
      const int from = (all_->rank() + ranks - i) % ranks;
      const int to = (all_->rank() + i) % ranks;
      receive(m, received_[static_cast<std::size_t>(from)], from);
      send(m, to_[static_cast<std::size_t>(to)], to);
      if (i % steps_under_way == 0) m.wait();
    }
    m.wait();
  }

  /// The pieces of this rank's section.
  [[nodiscard]] std::vector<pairs_view> pieces() const {
    std::vector<pairs_view> views;
    views.reserve(received_.size());
    for (const pairs& p : received_) views.push_back(p.view());
    views[static_cast<std::size_t>(all_->rank())] = to_[static_cast<std::size_t>(all_->rank())];
    return views;
  }

  [[nodiscard]] extent stretch() const noexcept {
    extent sum = all_->nothing();
    for (const extent& e : from_) sum = sum.plus(e);
    return sum;
  }

 private:
  void cut(const all_samples& samples) {
    const pairs_view& own = all_->own();
    std::size_t from = 0;
    for (int r = 0; r < all_->count(); ++r) {
      const bool last = r + 1 == all_->count() || samples.empty();
      const std::size_t to = last ? own.count : std::max(from, own.lower_bound(samples.bound(r + 1)));
      to_.push_back(own.slice(from, to));
      extents_to_.push_back(extent_of(to_.back()));
      from = to;
    }
  }

  void exchange_extents() {
    constexpr int words = sizeof(extent) / sizeof(std::uint64_t);
    all_->ranks().alltoall(extents_to_.data(), words, MPI_UINT64_T, from_.data());
  }

  void make_room() {
    received_.reserve(from_.size());
    for (std::size_t r = 0; r < from_.size(); ++r) {
      const bool mine = r == static_cast<std::size_t>(all_->rank());
      received_.emplace_back(mine ? all_->nothing() : from_[r]);
    }
  }

  const parts* all_;
  std::vector<pairs_view> to_;
  std::vector<extent> extents_to_;
  std::vector<extent> from_;
  std::vector<pairs> received_;
};

}  // namespace

pairs distributed(const team& ranks, const pairs_view& own, const gather_options& how) {
  const parts all(ranks, own);
  const all_samples samples(all, how.samples_per_rank);
  exchange pieces(all, samples, how);
  pairs stretch;
  together(ranks, [&] { stretch = pairs(pieces.stretch()); });
  pieces.run(how.message_bytes_max);
  std::optional<std::string> twice;
  together(ranks, [&] { ranks.work([&] { twice = merge_many(pieces.pieces(), stretch, heads::tournament); }); });
  all.require_no_common_key(twice);
  return stretch;
}

}  // namespace icecore::ranks
