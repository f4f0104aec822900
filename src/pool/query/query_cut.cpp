#include "pool/query/query_cut.hpp"

#include "pool/query/feed_places.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <optional>
#include <ranges>
#include <unordered_set>
#include <utility>

namespace icecore {
namespace {

using format::query_head;
using format::query_phase;
using format::segment_header;

/// Sets words of a structure that is written to `at` of the copy, which has the pool's id.
template <class Structure>
class written {
 public:
  written(const pool_set& pools, link at, const Structure& in) : pools_(&pools), at_(at), in_(&in) {}

  void set(std::atomic<std::uint64_t>& word, std::uint64_t number) const noexcept {
    // relaxed, here and below: memory of this thread
    word.store(number == 0 ? 0 : pools_->codec().encode(number, place_of(&word)), std::memory_order_relaxed);
  }
  void set_link(std::atomic<std::uint64_t>& word, link l) const noexcept {
    word.store(pools_->codec().encode_link(l, place_of(&word)), std::memory_order_relaxed);
  }

 private:
  [[nodiscard]] link place_of(const void* word) const noexcept {
    const auto* first = reinterpret_cast<const std::byte*>(in_);
    return at_ + static_cast<std::uint64_t>(static_cast<const std::byte*>(word) - first);
  }
  const pool_set* pools_;
  link at_;
  const Structure* in_;
};

link next_word_of(link segment_at) noexcept { return segment_at + offsetof(segment_header, next_free); }

unsigned class_of(const segment& s) {
  return static_cast<unsigned>(std::ranges::find(format::query_segment_sizes, s.size) -
                               format::query_segment_sizes.begin());
}

/// The segments of a query, of each size class from its newest on; as far as the links lead.
std::vector<segment> segments_of(const query_space& space, const query_head& head) {
  const pool_set& pools = space.pools();
  std::vector<segment> all;
  std::unordered_set<link> seen;
  for (unsigned c = 0; c < format::query_size_classes; ++c) {
    link at = space.read_link(head.segments[c]).value_or(null_link);
    while (at != null_link && pools.valid_header(at, format::query_segment_magic) &&
           pools.segment_at(at).size == format::query_segment_sizes[c] && seen.insert(at).second) {
      all.push_back(pools.segment_at(at));
      at = pools.codec().decode_link(pools.header_of(at).next_free, next_word_of(at)).value_or(null_link);
    }
  }
  return all;
}

}  // namespace

query_cut::query_cut(query_space& space, bool lock) {
  if (!space.ever_used()) return;
  const auto held = lock ? std::optional(space.hold()) : std::nullopt;
  const pool_set& pools = space.pools();
  const auto heads = space.heads([&](link at, const std::string&) {
    broken_ = reinterpret_cast<const std::atomic<std::uint64_t>*>(pools.at(at))->load(std::memory_order_relaxed);
  });
  for (const link at : heads) {
    const query_head& head = space.head_at(at);
    const auto phase = space.read(head.state);
    if (phase == static_cast<std::uint64_t>(query_phase::dropped)) continue;
    const std::uint64_t size =
        sizeof head + std::uint64_t{head.parts} * sizeof(format::query_part) + head.definition_size;
    const std::uint64_t room = pools.segment_at(at).size - sizeof(segment_header);
    const bool is_feed = feed_places::is_feed(space, at);  // whose keys lie behind the definition
    const link head_at = at + sizeof(segment_header);
    noted one{at, space.copied(head_at, head_at + (is_feed ? room : std::min(size, room))), {}};
    auto& copy = *reinterpret_cast<query_head*>(one.bytes.data());
    const written words(pools, head_at, copy);
    words.set(copy.runner, 0);
    words.set(copy.claim, 0);
    if (phase == static_cast<std::uint64_t>(query_phase::pausing)) {
      words.set(copy.state, static_cast<std::uint64_t>(query_phase::open));
    }
    for (const segment& s : segments_of(space, head)) {
      one.segments.push_back({s, space.copied(s.offset, s.first_record())});
      segments_.push_back(s);
    }
    queries_.push_back(std::move(one));
  }
}

bool query_cut::is_there(const query_space& space, const std::vector<link>& heads, const noted& query) {
  if (std::ranges::find(heads, query.head) == heads.end()) return false;
  const auto& now = space.head_at(query.head);
  const auto& then = *reinterpret_cast<const query_head*>(query.bytes.data());
  return now.id[0] == then.id[0] && now.id[1] == then.id[1] &&
         space.read(now.state) != static_cast<std::uint64_t>(query_phase::dropped);
}

std::vector<query_cut::piece> query_cut::lists(query_space& space, bool lock) const {
  std::vector<piece> pieces;
  if (queries_.empty() && broken_ == 0) return pieces;
  std::vector<link> now;
  {
    const auto held = lock ? std::optional(space.hold()) : std::nullopt;
    now = space.heads([](link, const std::string&) {});
    std::erase_if(now, [&](link at) {
      const auto of = std::ranges::find(queries_, at, &noted::head);
      return of == queries_.end() || !is_there(space, now, *of);
    });
  }
  const pool_set& pools = space.pools();
  std::vector<std::byte> anchor_bytes(sizeof(format::query_anchor));
  auto& anchor = *reinterpret_cast<format::query_anchor*>(anchor_bytes.data());
  const written anchor_words(pools, format::query_anchor_offset, anchor);
  link newest = null_link;
  std::array<link, format::query_size_classes> free{};
  bool is_oldest = true;
  for (const noted& query : std::views::reverse(queries_)) {
    if (std::ranges::find(now, query.head) == now.end()) {
      for (const auto& [in, header] : query.segments) {
        pieces.push_back({in.offset, header});
        auto& copy = *reinterpret_cast<segment_header*>(pieces.back().bytes.data());
        copy.owner = 0;
        copy.next_free = pools.codec().encode_link(free[class_of(in)], next_word_of(in.offset));
        free[class_of(in)] = in.offset;
      }
      continue;
    }
    const link head_at = query.head + sizeof(segment_header);
    pieces.push_back({head_at, query.bytes});
    auto& copy = *reinterpret_cast<query_head*>(pieces.back().bytes.data());
    if (std::exchange(is_oldest, false) && broken_ != 0) {
      copy.older.store(broken_, std::memory_order_relaxed);  // relaxed: memory of this thread
    } else {
      written(pools, head_at, copy).set_link(copy.older, newest);
    }
    newest = query.head;
  }
  if (is_oldest && broken_ != 0) {
    anchor.newest.store(broken_, std::memory_order_relaxed);  // relaxed: memory of this thread
  } else {
    anchor_words.set_link(anchor.newest, newest);
  }
  for (unsigned c = 0; c < format::query_size_classes; ++c) anchor_words.set_link(anchor.free[c], free[c]);
  anchor_words.set_link(anchor.claim, null_link);
  pieces.push_back({format::query_anchor_offset, std::move(anchor_bytes)});
  return pieces;
}

}  // namespace icecore
