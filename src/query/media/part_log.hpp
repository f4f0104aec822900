// Writes one part's chunks, and finds out after a crash which of them count.
//
//   part_log log(chunks, head, part);
//   log.recover();                                  // where the part stands: position(), rows_so_far() ...
//   log.append(content, room);                      // durable (line-flushed media), then shown
//
// Writing a chunk costs one fence: it is filled behind the one before and flushed; then, after the fence, the part's
// word `newest` is stored and its flush begins, which the next chunk's fence completes. So the word may be one chunk
// behind, but never ahead (R2): a crash between any two steps leaves either an incomplete chunk, which does not count,
// or a complete one, which recover() finds behind the one that the word names.
// On block devices append() does neither; publish() stores the word after a sync that covered the chunk.
//
// Invariants:
//   R1. The word `newest` never names a chunk that was not durable when the word was stored.
//   R2. What recover() finds behind the word is made durable before anything is built on it or shown: after a kill it
//       may be in the caches alone.
//   R3. A part has one runner at a time, and its chunks' intervals of keys are adjacent, without gap or overlap.
// Threads: one thread at a time, except `newest`, which readers follow, and publish(), which another thread calls.
#pragma once

#include <atomic>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "pool/query/chunk.hpp"

namespace icecore::detail {

/// The space that a thread fills with chunks, of one part after the other.
struct chunk_room {
  segment in;
  link position = null_link;
  unsigned near = 0;        ///< which file it prefers
  unsigned size_class = 0;  ///< of the next segment: each is larger than the one before

  [[nodiscard]] std::uint64_t left() const noexcept { return in.size == 0 ? 0 : in.end() - position; }
};

struct chunk_content {
  format::chunk_kind kind;
  bool is_last;
  std::string_view last_key;
  std::span<const std::byte> folded;
  std::span<const std::byte> rows;
  std::uint32_t row_count;
  std::uint32_t examined;
  std::uint32_t begins = 0;  ///< items whose evaluation begins as soon as this is written: note_evaluated() is done
};

class part_log {
 public:
  part_log(query_space& space, link head, std::uint16_t part) noexcept;

  /// Reads where the part stands. `writes`: also makes what was found durable, so that append() may follow.
  void recover(bool writes);
  /// Writes a chunk into `room`, which gets a new segment if it must. errc::no_space leaves the part as it was.
  void append(const chunk_content& what, chunk_room& room);
  /// Notes why the part stops here, unless that is the newest that was noted.
  void note_failure(const chunk_note& why, chunk_room& room);
  /// After a sync: shows what append() had written when pending() was read before the sync.
  [[nodiscard]] link pending() const noexcept {
    return appended_.load(std::memory_order_acquire);  // acquire: the chunk was written before
  }
  void publish(link synced) noexcept;

  [[nodiscard]] const std::optional<chunk>& newest() const noexcept { return newest_; }
  /// The newest one that says how far the part has come; its totals are those of the part.
  [[nodiscard]] const std::optional<chunk>& content() const noexcept { return content_; }
  [[nodiscard]] const chunk_source& chunks() const noexcept { return chunks_; }
  [[nodiscard]] bool is_complete() const noexcept { return newest_ && newest_->is_last(); }
  /// The last key that was examined; empty if none was.
  [[nodiscard]] std::optional<std::string_view> position() const noexcept;
  [[nodiscard]] std::uint64_t rows_so_far() const noexcept { return newest_ ? newest_->rows_so_far() : 0; }
  [[nodiscard]] std::uint64_t examined_so_far() const noexcept { return newest_ ? newest_->examined_so_far() : 0; }
  [[nodiscard]] std::uint64_t repeated() const noexcept { return repeated_; }
  /// Notes that evaluations of items begin, so that a crash shows how many of them happen again.
  void note_evaluated(std::uint64_t so_far) noexcept;

 private:
  void write_chunk(const chunk_content& what, chunk_room& room);
  void show(const chunk& c) noexcept;
  void store_evaluated(std::uint64_t so_far) noexcept;
  void begin(chunk_room& room);
  void move(const segment& to);
  [[nodiscard]] chunk_room segment_of_next() const;
  [[nodiscard]] bool owns_segment_of(link first) const noexcept;
  [[nodiscard]] bool is_used_behind(const chunk_room& place) const noexcept;
  void go_on_in_own_segment(chunk_room& room) const;

  query_space* space_;
  link head_;
  std::uint16_t number_;
  chunk_source chunks_;
  format::query_part* line_;
  link evaluated_at_;  // where its word `evaluated` lies
  word_codec codec_;   // of the pool: no pointer leads to what is used between two blocks of items
  std::optional<chunk> newest_;
  std::optional<chunk> content_;  // the newest one that is not of kind `moved`
  link next_ = null_link;         // where the next chunk goes; null: the part has not begun
  std::uint64_t repeated_ = 0;
  std::uint64_t evaluated_ = 0;  // noted by this run
  std::atomic<link> appended_{null_link};
};

/// The lines of a query's parts, behind its head.
[[nodiscard]] format::query_part& part_line(const query_space& space, link head, std::uint16_t part) noexcept;

/// The newest chunk of the part that may be shown; empty if there is none. errc::damaged.
[[nodiscard]] std::optional<chunk> shown_chunk(const chunk_source& chunks, link head, std::uint16_t part);

/// The newest chunk from this one on that says how far the part has come. errc::damaged.
[[nodiscard]] std::optional<chunk> content_from(const chunk_source& chunks, std::optional<chunk> newest);

}  // namespace icecore::detail
