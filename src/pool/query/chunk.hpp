// Chunks: the progress and the rows of one part of a kept query, as they lie on media.
//
//   chunk_source chunks(space, head);
//   if (const auto c = chunks.at(place, part, expected)) use(c->last_key());
//
// A chunk holds the rows that its keys gave and, with them, how far the part has come: so position and rows are durable
// together or not at all. Chunks of one part follow each other in a segment; a chunk of kind `moved` names the place
// where the part goes on.
//
// Invariants:
//   Q4. A chunk's checksum is seeded with the pool, its segment's reuse count, its place and the query's id, and covers
//       its part, its sequence number and the checksum of the chunk before it. So what an earlier use of the place, or
//       an earlier run after the same chunk, has left there never counts.
//   Q5. A chunk counts if it is intact and every chunk of its part before it counts.
// Threads: reading from any thread: a chunk that counts never changes.
#pragma once

#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pool/query/query_space.hpp"

namespace icecore::detail {

/// A view of a chunk that was checked.
class chunk {
 public:
  chunk(const format::query_chunk& header, link place) noexcept : header_(&header), place_(place) {}

  [[nodiscard]] const format::query_chunk& header() const noexcept { return *header_; }
  [[nodiscard]] link place() const noexcept { return place_; }
  [[nodiscard]] link segment_place() const noexcept { return place_ - header_->in_segment; }
  [[nodiscard]] link end() const noexcept {
    return place_ + format::round_up(size_of(*header_), format::cache_line_size);
  }
  [[nodiscard]] static std::uint64_t size_of(const format::query_chunk& h) noexcept {
    return sizeof h + h.key_size + h.folded_size + h.rows_size;
  }
  [[nodiscard]] std::string_view last_key() const noexcept { return {body(), header_->key_size}; }
  [[nodiscard]] std::span<const std::byte> folded() const noexcept {
    return {bytes() + header_->key_size, header_->folded_size};
  }
  [[nodiscard]] std::span<const std::byte> rows() const noexcept {
    return {bytes() + header_->key_size + header_->folded_size, header_->rows_size};
  }
  [[nodiscard]] bool moved() const noexcept { return header_->kind == format::chunk_kind::moved; }
  /// Whether it says how far the part has come, and has its totals.
  [[nodiscard]] bool says_position() const noexcept { return !moved() && header_->kind != format::chunk_kind::failed; }
  [[nodiscard]] bool is_last() const noexcept { return (header_->flags & format::chunk_is_last) != 0; }
  /// In the part, this chunk's included.
  [[nodiscard]] std::uint64_t rows_so_far() const noexcept { return header_->rows_before + header_->rows; }
  [[nodiscard]] std::uint64_t examined_so_far() const noexcept { return header_->examined_before + header_->examined; }

 private:
  [[nodiscard]] const std::byte* bytes() const noexcept {
    return reinterpret_cast<const std::byte*>(header_) + sizeof *header_;
  }
  [[nodiscard]] const char* body() const noexcept { return reinterpret_cast<const char*>(bytes()); }

  const format::query_chunk* header_;
  link place_;
};

/// What chunks of the kinds `skipped` and `failed` have as their rows: a byte that says whether a record is damaged,
/// and key and message with their sizes before them, 4 bytes each. The key of a skipped one is the chunk's last key.
struct chunk_note {
  static constexpr std::size_t message_max = 1024;

  bool damaged = false;
  std::string key;
  std::string message;

  [[nodiscard]] std::vector<std::byte> encoded() const;
};

/// Which chunks of a query this process has found to be intact: each is summed up once. A chunk that was written anew
/// has another checksum. Threads: any.
class checked_chunks {
 public:
  [[nodiscard]] bool knows(link place, std::uint32_t crc) const noexcept;
  void add(link place, std::uint32_t crc) noexcept;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<link, std::uint32_t> known_;
};

/// The chunks of one query.
class chunk_source {
 public:
  chunk_source(const query_space& space, link head, checked_chunks* checked = nullptr) noexcept
      : space_(&space), head_(&space.head_at(head)), checked_(checked) {}

  /// The chunk at a place, if there is one that is intact and belongs to this part.
  [[nodiscard]] std::optional<chunk> at(link place, std::uint16_t part) const noexcept;
  /// The same, if it follows `before` (empty: if it is the part's first).
  [[nodiscard]] std::optional<chunk> after(const std::optional<chunk>& before, link place,
                                           std::uint16_t part) const noexcept;
  /// The chunk that a word or another chunk leads to. errc::damaged if it is not there.
  [[nodiscard]] chunk require(link place, std::uint16_t part) const;
  /// The note of a chunk that has one. errc::damaged.
  [[nodiscard]] chunk_note note_of(const chunk& c) const;

  /// Whether a segment's first chunk is intact and the query's: then the query has the segment, whatever else its
  /// header says (Q4). A segment whose first chunk is not there has no chunk that was shown.
  [[nodiscard]] bool begins(const segment& in) const noexcept;

  /// Where the chunk behind this one lies, or will lie.
  [[nodiscard]] link place_after(const chunk& c) const noexcept;
  [[nodiscard]] std::uint32_t crc_of(const format::query_chunk& h, link place, std::uint32_t generation) const noexcept;
  [[nodiscard]] const query_space& space() const noexcept { return *space_; }
  [[nodiscard]] const format::query_head& head() const noexcept { return *head_; }

 private:
  const query_space* space_;
  const format::query_head* head_;
  checked_chunks* checked_;
};

}  // namespace icecore::detail
