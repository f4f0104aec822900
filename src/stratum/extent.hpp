// An extent: packed histories of neighbouring keys, immutable, read where it lies.
//
//   const extent e(bytes, {.file = path, .offset = 0, .seed = seed});     // checks header and fence
//   if (const auto r = e.find("layer1/bias", v); r && !r->is_removal()) use(r->value);
//   e.for_each_at(v, "layer1/", [](std::string_view key, const packed_record& r) { ...; return true; });
//
// An extent answers with removals, too: what is older may be elsewhere and must not be shown.
//
// Threads: any. Lifetime: views lead into the extent's bytes.
// Errors: errc::damaged, which names the place, from each function that reads a block whose check fails.
// Cost: find() one miss for the block's heads and one for the record, as a rule; O(log blocks + log keys of a block).
//   The first one that reads a block checks all of it, and inflates its frame if the extent is compressed (frames/).
//   for_each_at() reads in order. Memory: a bit for each block.
// Invariants:
//   E1. A block is read only after block::check() has accepted it, once in this process, or once since it was inflated.
//       Whoever sees the bit that says so (acquire) reads the bytes that were checked before it was set (release): they
//       do not change, but for inflated ones that leave (frames/frame_cache.hpp).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/memory/device_pages.hpp"
#include "stratum/block/block.hpp"
#include "stratum/extent_place.hpp"
#include "stratum/fence.hpp"

namespace icecore::format {
struct framed_header;
}

namespace icecore::stratum {

class frame_cache;
class framed_blocks;

class extent {
 public:
  /// Checks header and fence. errc::damaged if they fail.
  extent(std::span<const std::byte> bytes, extent_place place);
  ~extent();
  extent(extent&& other) noexcept;
  extent& operator=(extent&&) = delete;
  /// The extent that these bytes are, compressed or not. Frames of a compressed one are inflated into `frames`; without
  /// it, each stays once it is inflated.
  [[nodiscard]] static extent open(std::span<const std::byte> bytes, extent_place place,
                                   std::shared_ptr<frame_cache> frames = nullptr);

  [[nodiscard]] const format::extent_header& header() const noexcept { return header_; }
  [[nodiscard]] bool is_compressed() const noexcept { return frames_ != nullptr; }
  /// Bytes on media.
  [[nodiscard]] std::uint64_t media_size() const noexcept { return media_size_; }
  /// Of the header that is first on media.
  [[nodiscard]] std::uint32_t media_crc() const noexcept { return media_crc_; }
  /// What views lead into, if that is not `bytes`; else null.
  [[nodiscard]] std::shared_ptr<const void> inflated_memory() const noexcept;
  [[nodiscard]] std::string_view first_key() const noexcept { return fence_.separator(0); }

  /// The newest record of `key` whose version is at most `v`.
  [[nodiscard]] std::optional<packed_record> find(std::string_view key, version v) const {
    return find(sought_key(key), v);
  }
  [[nodiscard]] std::optional<packed_record> find(const sought_key& key, version v) const;

  /// Calls `visit(record)` for the records of `key` whose versions are at most `v`, newest first, until it returns
  /// false; whether it never did.
  template <class Visit>
  bool for_each_of(std::string_view key, version v, Visit&& visit) const;

  /// Calls `visit(key, record)` for the newest record of each key whose version is at most `v`, in the order of keys
  /// from `from` on, until it returns false; whether it never did.
  template <class Visit>
  bool for_each_at(version v, std::string_view from, Visit&& visit) const {
    bool shown = false;
    return for_each_run(v, from, shown,
                        [&](const block& b, std::uint32_t first) { return b.for_each_at(v, first, b.keys(), visit); });
  }
  /// Calls `visit(block, first)` for blocks whose keys from `first` on show in version `v`, of their records there,
  /// what for_each_at() tells; in order, until it returns false; whether it never did. `shown`: whether the key that
  /// the extent goes on with was shown before; then whether the last key was.
  template <class Visit>
  bool for_each_run(version v, std::string_view from, bool& shown, Visit&& visit) const;

  /// Calls `report(what, offset)` for each part that is damaged or does not agree with the others: `offset` in the
  /// file. Reads all. Cost: O(bytes).
  void verify(const std::function<void(std::string_view what, std::uint64_t offset)>& report) const;

  // ---- A find in steps, so that the waits of many overlap: expect_begin(), begin(), seek(), newest() ----
  struct search {
    std::uint32_t block = fence::none;  ///< none: the key is not there; a group of blocks until begin()
    std::uint32_t key = 0;              ///< a guess
    const std::byte* bytes = nullptr;   ///< the block's, since seek()
    block::row_range rows{};            ///< the key's, since seek()
  };
  /// Asks for what begin() will read.
  [[gnu::always_inline]] void expect_begin(search& s, const sought_key& key) const {
    s.block = fence_.group_of(key);
    fence_.expect_group(s.block);
  }
  /// Asks for what seek() will read. Precondition: expect_begin().
  [[gnu::always_inline]] void begin(search& s, const sought_key& key, version v) const {
    const auto [block, guess] = fence_.find_in(s.block, key, v);
    s.block = block;
    s.key = guess;
    if (block == fence::none) return;
    ask_for_block(block);
    prefetch_slots(block, guess);
  }
  /// Asks for what the whole find will read, if its guess is right: of one find, arrive() is the rest.
  [[nodiscard]] search expect_find(const sought_key& key, version v) const;
  [[nodiscard]] std::optional<packed_record> arrive(const search& s, const sought_key& key, version v) const {
    if (s.block == fence::none) return std::nullopt;
    const block b = block_at(s.block);
    const auto [at, is_there] = b.seek(key, s.key);
    return is_there ? b.newest_at(at, v) : std::nullopt;
  }
  /// Finds the key, and asks for its rows. Precondition, as of seek_near(): there is a block.
  [[gnu::always_inline]] void seek(search& s, const sought_key& key) const {
    const block b = block_at(s.block);
    const auto [at, is_there] = b.seek(key, s.key);
    take_place(s, b, at, is_there);
  }
  /// The same if the key is near the guess. If it may be elsewhere, asks for what seek() reads then, and returns false.
  [[nodiscard, gnu::always_inline]] bool seek_near(search& s, const sought_key& key) const {
    const block b = block_at(s.block);
    const auto [at, is_there, is_known] = b.seek_near(key, s.key);
    if (!is_known) [[unlikely]] {
      s.key = at;
      prefetch_slots(s.block, at);
      return false;
    }
    take_place(s, b, at, is_there);
    return true;
  }
  [[nodiscard, gnu::always_inline]] static std::optional<packed_record> newest(const search& s, version v) {
    if (s.block == fence::none) return std::nullopt;
    return block(s.bytes).newest_in(s.rows, v);
  }

  // ---- For who keeps places of records ----
  /// A record: its block, its key's number there, and where its row begins, from the block's start.
  struct record_at {
    std::uint32_t block;
    std::uint32_t key;
    std::uint64_t row;
  };
  /// Where find() finds it.
  [[nodiscard]] std::optional<record_at> locate(const sought_key& key, version v) const {
    const auto [at, guess] = fence_.find(key, v);
    if (at == fence::none) return std::nullopt;
    ask_for_block(at);
    prefetch_slots_and_rows(at, guess);
    const block b = block_at(at);
    const auto [i, is_there] = b.seek(key, guess);
    const std::uint64_t row = is_there ? b.newest_row_at(i, v) : 0;
    if (row == 0) return std::nullopt;
    return record_at{at, i, row};
  }
  /// The next older record of the same key in this extent.
  [[nodiscard]] std::optional<record_at> older(const record_at& record) const {
    const block b = block_at(record.block);
    const std::uint64_t next = b.row_at(record.row).end;
    if (next < b.rows_end(record.key)) return record_at{record.block, record.key, next};
    if (record.key + 1 != b.keys() || record.block + 1 == blocks() || !goes_on(record.block + 1)) return std::nullopt;
    return record_at{record.block + 1, 0, block_at(record.block + 1).rows_begin(0)};
  }
  /// Whether the block goes on with the key of the one before.
  [[nodiscard]] bool goes_on(std::uint32_t block) const noexcept { return fence_.goes_on(block); }
  /// Whether the block may have records of versions up to `v`; it is not read.
  [[nodiscard]] bool may_have(std::uint32_t block, version v) const noexcept { return fence_.may_have(block, v); }

  /// Calls visit(record) for the newest record in (after, up_to] of each key in each block that may have keys from
  /// `from` to before `to`, until it returns false; whether it never did. Blocks without such records are not read.
  template <class Visit>
  bool for_each_written(version after, version up_to, std::string_view from, std::optional<std::string_view> to,
                        Visit&& visit) const;

  // ---- For who goes from block to block ----
  struct position {
    std::uint32_t block;
    std::uint32_t key;  ///< in the block; its number of keys if the block's are all less
  };
  /// The first key that is not less than `key`, or the end of the block before it; of the first block that has it.
  /// `walks`: a walk towards greater keys begins there, so the blocks behind it are asked for.
  [[nodiscard]] position seek(const sought_key& key, bool walks = true) const { return seek(key, expect(key, walks)); }
  /// The same in two steps, so that who has something else to do need not wait: expect() asks for what seek() reads.
  [[nodiscard]] position expect(const sought_key& key, bool walks = true) const {
    const auto [at, guess] = fence_.find(key, version_max);
    if (at == fence::none) return {fence::none, 0};
    if (place_.on_device && walks) walk_comes_to(media_, media_.data() + media_place(at));
    prefetch_slots_and_rows(at, guess);
    return {at, guess};
  }
  [[nodiscard]] position seek(const sought_key& key, const position& expected) const {
    if (expected.block == fence::none) return {0, 0};
    return {expected.block, block_at(expected.block).seek(key, expected.key).at};
  }
  /// Asks for the first keys of block `i`, and their rows, if there is such a block.
  [[gnu::always_inline]] void prefetch_block(std::uint32_t i) const noexcept {
    if (i < blocks()) prefetch_slots_and_rows(i, 0);
  }
  /// That a walk comes to block `i` from the one before it.
  void walk_to(std::uint32_t i) const noexcept {
    if (place_.on_device && (i == 0 || is_in_next_step(i))) walk_comes_to(media_, media_.data() + media_place(i));
  }
  /// The same of a walk towards lesser keys, which comes from the block behind it.
  void walk_back_to(std::uint32_t i) const noexcept {
    if (place_.on_device && is_in_next_step(i + 1)) ask_for_blocks_before(i);
  }
  [[nodiscard]] std::uint32_t blocks() const noexcept { return fence_.blocks(); }
  /// How many keys the block has; it is not read.
  [[nodiscard]] std::uint32_t keys_in(std::uint32_t block) const noexcept { return fence_.block_at(block).keys; }
  /// Where the block begins on media, or the frame that has it, from the extent's start.
  [[nodiscard]] std::uint64_t media_place(std::uint32_t block) const noexcept;
  /// At most the block's first key, which it is if the block goes on; greater than every key before that.
  [[nodiscard]] std::string_view separator(std::uint32_t block) const noexcept { return fence_.separator(block); }
  /// The block, checked (E1).
  [[nodiscard]] block block_at(std::uint32_t i) const {
    const std::uint64_t word = checked_[i / 64].load(std::memory_order_acquire);  // E1
    if ((word >> (i % 64) & 1) == 0) check_block(i);
    return block(blocks_ + fence_.place(i));
  }

 private:
  [[gnu::always_inline]] void take_place(search& s, const block& b, std::uint32_t at, bool is_there) const noexcept {
    if (is_there) {
      s.bytes = b.bytes();
      s.rows = b.rows_of(at);
      block::prefetch_rows(s.bytes, s.rows);
    } else {
      s.block = fence::none;
    }
  }
  /// Whether a step of a walk (walk_step_bytes) ends between the block and the one before it.
  [[nodiscard]] bool is_in_next_step(std::uint32_t i) const noexcept {
    return fence_.place(i) / walk_step_bytes != fence_.place(i - 1) / walk_step_bytes;
  }
  /// The kernel reads no neighbours of a page that is missing, except in long records, which are read in order.
  void expect_random_reads() const noexcept;
  void ask_for_blocks_before(std::uint32_t i) const noexcept;
  /// For a find, if such finds read from a device lately. A frame is asked for when it is inflated.
  [[gnu::always_inline]] void ask_for_block(std::uint32_t i) const noexcept {
    if (!place_.on_device || frames_ != nullptr || !device_reads::lately()) return;
    ask_for({blocks_ + fence_.place(i), fence_.place(i + 1) - fence_.place(i)});
  }
  /// A compressed one.
  extent(std::span<const std::byte> media, const format::framed_header& header, extent_place place,
         std::shared_ptr<frame_cache> frames);
  void check_block(std::uint32_t i) const;
  [[nodiscard]] const char* block_fails(std::uint32_t i) const noexcept;
  /// The same of a block that may have to be inflated.
  [[nodiscard]] std::optional<std::string> inflated_block_fails(std::uint32_t i) const;
  [[noreturn]] void raise_damaged(std::uint64_t offset, std::string_view what) const;
  /// What lies there, `room` bytes for the extent as it is inflated.
  [[nodiscard]] format::extent_header checked_header(std::span<const std::byte> at, std::uint64_t room) const;
  /// Where the fence of a compressed extent lies on media.
  [[nodiscard]] std::uint64_t framed_fence_of(std::span<const std::byte> media,
                                              const format::framed_header& header) const;
  [[nodiscard]] fence checked_fence(const std::byte* media, std::uint64_t offset) const;
  /// Asks for what seek() will read of block `at` if the guess is right, `count` heads around it. Always inlined, as
  /// the next one: GCC takes a function that only prefetches for one without an effect, and leaves its calls out.
  [[gnu::always_inline]] void prefetch_slots(std::uint32_t at, std::uint32_t guess,
                                             std::uint32_t count = block::heads_at_once) const noexcept {
    const std::byte* const begin = blocks_ + fence_.place(at);
    __builtin_prefetch(begin);
    const std::uint32_t from = guess - std::min(guess, count / 2);
    const std::byte* const first = begin + sizeof(format::block_header) + std::uint64_t{from} * slot_bytes_;
    const std::byte* const last = first + (count - 1) * slot_bytes_;
    for (const std::byte* line = first; line < last; line += format::block_alignment) __builtin_prefetch(line);
    __builtin_prefetch(last);
  }
  /// The same, farther around, for who waits for this key alone; and what newest_at() will read: rows lie about as far
  /// behind the first one as slots do.
  [[gnu::always_inline]] void prefetch_slots_and_rows(std::uint32_t at, std::uint32_t guess) const noexcept {
    constexpr std::uint32_t heads_far = 28;
    prefetch_slots(at, guess, heads_far);
    const format::block_place place = fence_.block_at(at);
    const std::uint64_t begin = std::uint64_t{place.rows_at} * format::block_alignment;
    const std::uint64_t size = fence_.place(at + 1) - fence_.place(at);
    if (begin >= size || place.keys == 0) return;
    prefetch_around(blocks_ + fence_.place(at) + begin + (size - begin) * guess / place.keys);
  }
  [[gnu::always_inline]] static void prefetch_around(const std::byte* at) noexcept {
    for (const int line : {-2, -1, 0, 1, 2}) __builtin_prefetch(at + line * static_cast<int>(format::block_alignment));
  }

  extent_place place_;
  std::span<const std::byte> media_;
  format::extent_header header_;
  fence fence_;
  mutable std::vector<std::atomic<std::uint64_t>> checked_;  // by block, a bit
  std::unique_ptr<const framed_blocks> frames_;              // null: the blocks lie on media
  const std::byte* blocks_;                                  // where the extent begins, as it is inflated
  std::uint32_t slot_bytes_;                                 // of the first block: the others' are mostly the same
  std::uint32_t media_crc_;
  std::uint64_t media_size_;
};

template <class Visit>
bool extent::for_each_of(std::string_view key, version v, Visit&& visit) const {
  const sought_key sought(key);
  auto [at, guess] = fence_.find(sought, v);
  if (at != fence::none) ask_for_block(at);
  for (; at < fence_.blocks(); ++at, guess = 0) {  // none is behind all; the key is the first one of those behind
    prefetch_slots_and_rows(at, guess);
    const block b = block_at(at);
    const auto [i, is_there] = b.seek(sought, guess);
    if (!is_there) return true;
    if (!b.for_each_of(i, v, visit)) return false;
    const bool goes_on = i + 1 == b.keys() && at + 1 < fence_.blocks() && fence_.goes_on(at + 1);
    if (!goes_on) return true;
  }
  return true;
}

template <class Visit>
bool extent::for_each_run(version v, std::string_view from, bool& shown, Visit&& visit) const {
  bool last_shown = std::exchange(shown, false);
  if (header_.least > v) return true;
  auto [at, first] = seek(sought_key(from));
  for (; at < fence_.blocks(); ++at, first = 0) {
    if (first == 0) walk_to(at);
    if (at > 0 && !fence_.goes_on(at)) last_shown = false;
    // So a scan does not read what it does not need, nor inflate it.
    if (last_shown && first == 0 && keys_in(at) == 1) continue;
    if (!may_have(at, v)) continue;  // then it does not go on with a key that was shown
    const block b = block_at(at);
    if (last_shown && first == 0) first = 1;
    const std::uint32_t last = b.keys() - 1;
    if (first > last) continue;
    if (!visit(b, first)) return false;
    const bool may_go_on = at + 1 == fence_.blocks() || fence_.goes_on(at + 1);
    last_shown = may_go_on && b.newest_at(last, v).has_value();
  }
  shown = last_shown;
  return true;
}

template <class Visit>
bool extent::for_each_written(version after, version up_to, std::string_view from, std::optional<std::string_view> to,
                              Visit&& visit) const {
  if (header_.least > up_to || header_.greatest <= after) return true;
  const std::uint32_t first = fence_.find(sought_key(from), version_max).block;
  for (std::uint32_t at = first == fence::none ? 0 : first; at < fence_.blocks(); ++at) {
    if (to && separator(at) >= *to) return true;
    if (!fence_.may_have(at, after, up_to)) continue;
    walk_to(at);
    const block b = block_at(at);
    for (std::uint32_t i = 0; i < b.keys(); ++i) {
      const std::uint64_t row = b.newest_row_at(i, up_to);
      if (row == 0 || b.row_at(row).record.stamped <= after) continue;
      if (!visit(record_at{at, i, row})) return false;
    }
  }
  return true;
}

}  // namespace icecore::stratum
