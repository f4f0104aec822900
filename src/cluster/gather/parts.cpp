#include "cluster/gather/parts.hpp"

#include <algorithm>
#include <climits>

#include "base/raise.hpp"

namespace icecore::ranks {
namespace {

constexpr int words_per_extent = sizeof(extent) / sizeof(std::uint64_t);
static_assert(sizeof(extent) == 5 * sizeof(std::uint64_t), "an extent is sent as five numbers");

/// The width that all nonempty parts share; 0 if there is none.
std::uint64_t common_width(const std::vector<extent>& extents, std::uint64_t extent::*width) {
  std::optional<std::uint64_t> found;
  for (const extent& e : extents) {
    if (e.count == 0) continue;
    if (found && *found != e.*width) return 0;
    found = e.*width;
  }
  return found.value_or(0);
}

/// Gives a column this width. For width 0 it makes offsets in `offsets` if the column had none.
void take_width(column_view& view, std::size_t count, std::size_t width, buffer<std::uint64_t>& offsets) {
  if (view.width == width && (width != 0 || view.offsets != nullptr)) return;
  if (width == 0) {
    offsets = buffer<std::uint64_t>(count + 1);
    for (std::size_t i = 0; i <= count; ++i) offsets[i] = view.begin_of(i);
  }
  view = {width, offsets.data(), view.bytes};
}

void send_column(messages& by, const column_view& from, std::size_t count, int to_rank, int offsets_tag,
                 int bytes_tag) {
  if (count == 0) return;
  if (from.width == 0) by.send(from.offsets, (count + 1) * sizeof(std::uint64_t), to_rank, offsets_tag);
  by.send(from.bytes, from.begin_of(count), to_rank, bytes_tag);
}

/// Receives items [begin, end) of the column; these must be all items if the column has offsets.
void receive_column(messages& by, column& to, std::size_t begin, std::size_t end, int from_rank, int offsets_tag,
                    int bytes_tag) {
  if (begin == end) return;
  if (to.width == 0) {
    by.receive(to.offsets.data(), (end + 1) * sizeof(std::uint64_t), from_rank, offsets_tag);
    by.receive(to.bytes.data(), to.bytes.size(), from_rank, bytes_tag);
  } else {
    by.receive(to.bytes.data() + begin * to.width, (end - begin) * to.width, from_rank, bytes_tag);
  }
}

}  // namespace

std::string readable(std::string_view key) {
  constexpr std::size_t shown_max = 64;
  std::string text;
  for (const char c : key.substr(0, shown_max)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= ' ' && byte <= '~') {
      text += c;
    } else {
      text += fmt::format("\\x{:02x}", byte);
    }
  }
  return key.size() > shown_max ? text + "..." : text;
}

parts::parts(const team& ranks, const pairs_view& own)
    : ranks_(&ranks), own_(own), extents_(static_cast<std::size_t>(ranks.size())) {
  const extent mine = extent_of(own_);
  ranks_->allgather(&mine, words_per_extent, MPI_UINT64_T, extents_.data());
  together(*ranks_, [this] { take_common_layout(); });
}

void parts::take_common_layout() {
  const std::uint64_t key_width = common_width(extents_, &extent::key_width);
  const std::uint64_t value_width = common_width(extents_, &extent::value_width);
  for (extent& e : extents_) {
    e.key_width = key_width;
    e.value_width = value_width;
  }
  take_width(own_.keys, own_.count, key_width, own_key_offsets_);
  take_width(own_.values, own_.count, value_width, own_value_offsets_);
}

extent parts::nothing() const noexcept { return {0, extents_[0].key_width, 0, extents_[0].value_width, 0}; }

extent parts::total() const noexcept {
  extent sum = nothing();
  for (const extent& e : extents_) sum = sum.plus(e);
  return sum;
}

void parts::require_no_common_key(const std::optional<std::string>& known) const {
  int mine = known ? rank() : INT_MAX;
  int first = INT_MAX;
  ranks_->allreduce(&mine, &first, 1, MPI_INT, MPI_MIN);
  if (first == INT_MAX) return;
  std::string key = rank() == first ? *known : std::string();
  int size = static_cast<int>(key.size());
  ranks_->bcast(&size, sizeof size, first);
  key.resize(static_cast<std::size_t>(size));
  ranks_->bcast(key.data(), size, first);
  const std::size_t place = own_.lower_bound(key);
  const bool here = place < own_.count && own_.keys[place] == key;
  const int lowest_mine = here ? rank() : INT_MAX;
  const int highest_mine = here ? rank() : -1;
  int lowest = 0;
  int highest = 0;
  ranks_->allreduce(&lowest_mine, &lowest, 1, MPI_INT, MPI_MIN);
  ranks_->allreduce(&highest_mine, &highest, 1, MPI_INT, MPI_MAX);
  if (lowest == highest) {
    raise(errc::damaged, "rank {} holds the key '{}' twice: its part is not a snapshot", lowest, readable(key));
  }
  raise(errc::damaged, "ranks {} and {} both hold the key '{}': each key must have one owner", lowest, highest,
        readable(key));
}

void send(messages& by, const pairs_view& from, int to_rank) {
  send_column(by, from.keys, from.count, to_rank, key_offsets_tag, key_bytes_tag);
  send_column(by, from.values, from.count, to_rank, value_offsets_tag, value_bytes_tag);
}

void receive(messages& by, pairs& to, int from_rank) { receive(by, to, 0, to.count(), from_rank); }

void receive(messages& by, pairs& to, std::size_t begin, std::size_t end, int from_rank) {
  receive_column(by, to.keys, begin, end, from_rank, key_offsets_tag, key_bytes_tag);
  receive_column(by, to.values, begin, end, from_rank, value_offsets_tag, value_bytes_tag);
}

}  // namespace icecore::ranks
