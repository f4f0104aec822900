// A pool: a file, mapped in memory, that holds a store's entries and records and is given out in segments.
//
//   pool p(path, options);
//   segment s = p.allocate(bytes);            // header durable, the rest zero
//   std::byte* at = p.at(s.offset);
//
// A store has one pool or several (pool_set.hpp). Places in a pool are links. In the first pool, whose number is 0, a
// link equals the offset in the file.
//
// Threads: base(), at() and the persistence take no lock; allocate() locks briefly, longer if the file must grow.
// Errors: those of opening (file.hpp); errc::no_space if the device is full, and then nothing has changed.
// Invariants:
//   P3. A segment's header is durable (as far as the mode makes anything durable) before its first record.
//   P4. All bytes of a segment behind its last record are zero.
//   P5. Segments never overlap; each begins on a granule.
//   P7. Where the end of the used part is kept durably (keep_used_end()), each segment's header before that is whole
//       and durable, unless a claim leads there; behind it lies a header at most, or a part of one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "icecore/options.hpp"
#include "pool/checked_word.hpp"
#include "pool/file/file.hpp"
#include "pool/file/mapping.hpp"
#include "pool/file/persist.hpp"
#include "pool/format.hpp"
#include "pool/pool_copy.hpp"
#include "pool/root/file_role.hpp"
#include "pool/root/root.hpp"
#include "pool/space.hpp"

namespace icecore {

struct segment {
  link offset = 0;         ///< of its header
  std::uint64_t size = 0;  ///< bytes with the header
  std::uint32_t generation = 0;

  [[nodiscard]] link first_record() const noexcept { return offset + sizeof(format::segment_header); }
  [[nodiscard]] link end() const noexcept { return offset + size; }
};

class pool {
 public:
  /// Opens or creates the file, as the role wants it, and maps all of it. Does not read records: recovery does.
  pool(const std::filesystem::path& path, const options& opening, const file_role& as = first_file());
  /// Attaches to the pool that another process has open and shares as `with`; repairs and truncates nothing.
  /// errc::invalid_argument if that process has another file open.
  pool(const std::filesystem::path& path, const options& opening, pool_space& with, const file_role& as);
  /// Maps the pool that another process writes, without a lock, for reading what that process has published
  /// (store/beside/). errc::not_a_store or errc::damaged if it has no root yet.
  pool(const std::filesystem::path& path, const options& opening, beside_writer how, const file_role& as);

  /// For a reader beside the writer, which has grown the file to at least `end`: maps it. From any thread.
  void follow(std::uint64_t end) {
    const std::scoped_lock one_at_a_time(following_);
    map(std::max(end, size()));
  }
  /// The same, all that the file has now.
  void follow() { follow(file_.size() / format::page_size * format::page_size); }
  /// Takes over the newest root, if it can be read. errc::unsupported_format
  void follow_root();
  /// From now on other processes may attach; `with` lies in memory that they map. Precondition: no other thread uses
  /// the pool.
  void share(pool_space& with);

  [[nodiscard]] std::uint16_t number() const noexcept { return number_; }
  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] std::byte* at(link place) const noexcept { return base_ + link_offset(place); }
  [[nodiscard]] std::uint64_t size() const noexcept {
    // acquire: the pages up to this size are mapped
    return space_->size.load(std::memory_order_acquire);
  }
  /// Grows the file if little room is left and no other thread is growing it; other threads continue to take the free
  /// space meanwhile. Call it after allocate(), without holding a lock that other threads wait for.
  void grow_ahead() noexcept;
  /// For the thread that grows all files in the background, after it was asked to: the same, but earlier, and so far
  /// that writers do not use it up while the file grows.
  void grow_in_background() noexcept;
  /// Whether so little room is left that grow_in_background() is to be called.
  [[nodiscard]] bool wants_growth() const noexcept {
    // relaxed: a hint
    return room() < room_wanted_.load(std::memory_order_relaxed) / 2;
  }
  /// The size up to which the pool can grow.
  [[nodiscard]] std::uint64_t capacity() const noexcept { return mapping_->capacity(); }
  [[nodiscard]] bool shared() const noexcept { return shared_; }
  /// Whether another process may cut off what lies behind the last segment, when it closes the store. Then what may be
  /// no segment in use is not read through the mapping.
  [[nodiscard]] bool may_be_cut() const noexcept { return space_ != &own_space_ || is_observed(); }
  /// Whether it is open beside the writer.
  [[nodiscard]] bool is_observed() const noexcept { return mapping_->how() == mapping::kind::observed; }
  /// What is mapped. Whoever holds it can read views into the pool, even when the pool has ended.
  [[nodiscard]] std::shared_ptr<const void> memory() const {
    // Space that views lead to is not given back: the lock that says so lives as long as they do. Beside the writer it
    // is that of the engine (pool_file::keep()).
    return std::make_shared<std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(mapping_,
                                                                                                 file_.viewer());
  }
  /// Gives back the addresses that were reserved for growth. The pool cannot grow any more.
  void give_up_growth() noexcept { mapping_->trim(size()); }

  [[nodiscard]] const word_codec& codec() const noexcept { return codec_; }
  [[nodiscard]] root_pages& roots() const noexcept { return *roots_; }
  [[nodiscard]] persistence& persist() const noexcept { return *persist_; }
  [[nodiscard]] const std::shared_ptr<persistence>& persist_of_all() const noexcept { return persist_; }
  [[nodiscard]] pool_file& file() noexcept { return file_; }
  [[nodiscard]] const pool_file& file() const noexcept { return file_; }
  [[nodiscard]] format::live_page& live() const noexcept {
    return *reinterpret_cast<format::live_page*>(base_ + format::live_page_offset);
  }
  [[nodiscard]] const durability_info& durability() const noexcept { return durability_; }
  /// The mode by whose rules a power cut is recovered from; roots name it. `operation`: each record that was linked is
  /// durable. On page media a deferred store goes back to its last certificate.
  [[nodiscard]] icecore::durability recovery_mode() const noexcept {
    return durability_.deferred && persist_->by_pages() ? durability::none : durability_.mode;
  }
  /// Restores the state before the creation of the file.
  void remove_created_file() const noexcept { file_.remove_created_file(); }
  /// 32 hexadecimal digits.
  [[nodiscard]] std::string id() const;
  /// Of a pool that is being made as a copy (options::copy_of): copies the other file's bytes; see pool_copy.
  /// errc::damaged if what lies behind the end of a closed store is not zero.
  void copy_pages(unsigned threads, const std::function<void(std::uint64_t)>& copied);
  /// Call when everything is copied and checked. Makes the copy durable, with a root that differs by `change`.
  void finish_copy(const std::function<void(format::root&)>& change);
  /// The file in which a damage lies.
  [[nodiscard]] const std::string& origin() const noexcept { return source_->path().native(); }
  /// Damaged root pages, in use or not; a file that is too short; bytes behind the end of a closed store.
  [[nodiscard]] std::vector<damage> damages() const;
  /// The newest root was lost, and with it the session that it began or the growth that it recorded: both root pages
  /// are damaged, or a segment lies behind the end of the file that the root names. Only where damage is accepted. The
  /// root says that the store is open and the file as long as it is.
  [[nodiscard]] bool root_unreliable() const noexcept { return !root_loss_.empty(); }

  /// A zeroed segment with room for `bytes` of records, its header durable (P3). Grows the file if it must.
  [[nodiscard]] segment allocate(std::uint64_t bytes) { return allocate(bytes, format::segment_magic, {}); }
  /// The same for another kind of segment. `claim` is called while the segment still has no owner; what `claim` makes
  /// durable says after a crash who owns the segment.
  [[nodiscard]] segment allocate(std::uint64_t bytes, std::uint32_t magic,
                                 const std::function<void(const segment&)>& claim);
  /// Writes the header of a claimed segment, perhaps again after a crash.
  segment format_segment(link offset, std::uint64_t size, std::uint32_t magic);
  /// Durably clears the header of a segment that was claimed, but behind which the end of the used part never moved: it
  /// would be found there, as nobody's, by whoever looks for segments. Does nothing to a segment in use.
  void clear_unused(const segment& claimed);
  /// Durably clears what a crash has left of a segment's header behind the end of the used part, where no claim leads:
  /// it would be found there by whoever looks for segments. Call when the end is known, while no other thread is there.
  void clear_behind_end() noexcept;
  /// The used part reaches that far at least: the owner of a claim says so.
  void use_up_to(std::uint64_t end);
  /// When this returns, no process that was killed was giving out space. For who closes the store.
  void settle();
  /// From now on the checked word at `place` durably holds the end of the last segment as well. It already does now.
  void keep_used_end(std::atomic<std::uint64_t>& word, link place) noexcept {
    logged_end_ = &word;
    logged_end_at_ = place;
  }
  /// That word is there no more, or soon will not be.
  void forget_used_end() noexcept;
  /// Zeroes what lies behind a segment's header. Its blocks go back to the file system, if that can take them.
  void clear_content(const segment& s) noexcept;
  /// Zeroes the header of a segment whose content is zero, and flushes it.
  void clear_header(link offset) noexcept;
  /// Segments of records and of indexes that are made from now on are of this era (manifest/manifest.hpp).
  void set_era(std::uint32_t era) noexcept {
    // relaxed, as its reads: the store orders it and those who allocate (R1 to R3 in store/sharing)
    era_.store(era, std::memory_order_relaxed);
  }
  /// Gives allocate() a hole that recovery found and that is already zero.
  void add_free(link offset, std::uint64_t size);
  /// Bytes that allocate() can take from holes.
  [[nodiscard]] std::uint64_t free_bytes() const;
  /// The largest segment that allocate() can take from a hole, with its header.
  [[nodiscard]] std::uint64_t largest_free_bytes() const;
  /// Takes all holes back.
  [[nodiscard]] std::vector<segment> take_free();
  void set_used_end(std::uint64_t end) noexcept {
    // relaxed: no other thread is there yet
    space_->used_end.store(end, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t used_end() const;

  /// Values from this size on go into the pool by store_value(): their segments are too large to be populated.
#ifdef ICECORE_WRITTEN_VALUE_SIZE
  static constexpr std::uint64_t written_value_size = ICECORE_WRITTEN_VALUE_SIZE;  // for the crash simulator
#else
  static constexpr std::uint64_t written_value_size = std::uint64_t{1} << 20;
#endif
  /// Copies a value, given in parts that lie one behind the other in it, into fresh space that no other thread knows
  /// and that is zero, and returns its checksum. The bytes are as durable as if they had been stored through at(). If
  /// it throws (errc::no_space, errc::io), some of them are there.
  [[nodiscard]] std::uint32_t store_value(link to, std::span<const std::string_view> parts);
  /// Zeroes what store_value() has left.
  void clear_value(link at, std::uint64_t size) noexcept;

  /// The first part of from..end, offsets in the file, that is not in a hole; begins at `end` if there is none. A hole
  /// of a file in memory takes a page as soon as it is read through the mapping, and ends the process if memory is
  /// full: so what may be a hole is read by these parts. On a device a hole costs nothing, and all is one part.
  [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> next_data(std::uint64_t from, std::uint64_t end) const noexcept;
  /// Whether all bytes of from..end are zero; reads no hole.
  [[nodiscard]] bool is_zero(std::uint64_t from, std::uint64_t end) const noexcept;
  /// Whether a page begins here that must not be read, since it is in a hole of a file in memory: it is zero.
  [[nodiscard]] bool is_in_hole(std::uint64_t offset) const noexcept {
    return next_data(offset, offset + format::page_size).first != offset;
  }

  /// Has the file system take blocks for from..end, offsets in the file, and tries to store to the first page.
  /// errc::no_space.
  void require_blocks(std::uint64_t from, std::uint64_t end) {
    if (from == end) return;
    file_.require_blocks(from, end - from);
    populate(from, 1);
  }

  /// The same for a segment: for all pages that a new one has from the start.
  void require_segment(std::uint64_t offset, std::uint64_t size) {
    file_.require_blocks(offset, size);
    populate(offset, populated_of(size));
  }

  [[nodiscard]] format::segment_header& header_of(link offset) const noexcept {
    return *reinterpret_cast<format::segment_header*>(at(offset));
  }
  /// Whether allocate() wrote this header here and the segment lies inside the file.
  [[nodiscard]] bool valid_header(link offset, std::uint32_t magic = format::segment_magic) const noexcept;
  /// The same for a segment of records or of an index, which counts only if it is of the current era.
  [[nodiscard]] bool counts(link offset, std::uint32_t magic = format::segment_magic) const noexcept {
    return valid_header(offset, magic) && header_of(offset).era == era();
  }
  [[nodiscard]] std::uint32_t era() const noexcept { return era_.load(std::memory_order_relaxed); }
  [[nodiscard]] segment segment_at(link offset) const noexcept;
  /// The certified end of a segment's records (its fill); the place of its first record if it has no fill. Empty if the
  /// word is damaged.
  [[nodiscard]] std::optional<link> fill_of(const segment& s) const noexcept;
  void set_fill(const segment& s, link end) const noexcept;
  /// The word in the segment's header that says so.
  [[nodiscard]] std::uint64_t fill_word(const segment& s, link end) const noexcept {
    return codec_.encode(end - s.offset, s.offset + offsetof(format::segment_header, fill));
  }

 private:
  void create(const options& opening, const file_role& as);
  [[nodiscard]] std::uint64_t capacity_for(const options& opening, std::uint64_t size) const;
  void map(std::uint64_t size);
  void write_first_root(const options& opening, const file_role& as);
  void check_format(const format::root& r) const;
  /// That `size` bytes are what the root names, or more.
  void check_size(const format::root& r, const std::byte* pages, std::uint64_t size, const options& opening,
                  const file_role& as) const;
  [[nodiscard]] std::optional<std::uint64_t> segment_behind_end(const format::root& r) const;
  void check_behind_end(format::root& r, std::uint64_t whole_pages, const options& opening);
  [[nodiscard]] format::root stand_in_root(std::uint64_t size, const file_role& as);
  [[nodiscard]] bool is_zero_behind_its_end(const format::root& r) const;
  void check_unused(const format::root& r, const options& opening) const;
  [[noreturn]] void raise_no_root(const std::byte* pages) const;
  void choose_durability(const options& opening, const format::root& r, const file_role& as);
  [[nodiscard]] std::uint64_t size_ahead(std::uint64_t needed) const;
  /// Bytes behind the last segment.
  [[nodiscard]] std::uint64_t room() const noexcept { return size() - std::min(size(), used_end()); }
  void grow_to(std::uint64_t needed);
  [[nodiscard]] bool extend_in_pieces(std::uint64_t end);
  bool extend_ahead(std::uint64_t size);
  void extend_file(std::uint64_t size, bool huge_pages);
  void recover_growth();
  segment take_hole(std::multimap<std::uint64_t, std::uint64_t>::iterator hole, std::uint64_t size, std::uint32_t magic,
                    const std::function<void(std::uint64_t)>& claim);
  segment take_end(std::uint64_t size, std::uint32_t magic, const std::function<void(std::uint64_t)>& claim);
  void move_end(std::uint64_t to) noexcept;
  [[nodiscard]] bool begins_with_zeros(std::uint64_t offset) const noexcept;
  void settle_given_out() noexcept;
  [[nodiscard]] bool can_write_values() const noexcept;
  void populate(std::uint64_t offset, std::uint64_t size);
  /// How much of a new segment of this size is populated: of one for a value that is written in pieces, the header.
  [[nodiscard]] static constexpr std::uint64_t populated_of(std::uint64_t size) noexcept {
    return size <= written_value_size ? size : format::page_size;
  }

  pool_file file_;
  std::uint16_t number_;
  int node_;
  std::unique_ptr<pool_copy> copy_;
  const pool_file* source_;  // where what is read comes from: of a copy that is being made, the other file
  bool shared_;
  bool huge_pages_;                   // requested
  std::shared_ptr<mapping> mapping_;  // shared with views that outlive the pool
  std::mutex following_;
  std::byte* base_ = nullptr;
  std::shared_ptr<persistence> persist_;  // of all files of the store
  unsigned persist_file_ = 0;
  std::unique_ptr<root_pages> roots_;
  word_codec codec_{0};
  durability_info durability_{};
  bool writes_values_ = false;       // store_value() may use pwrite
  std::string root_loss_;            // what was lost with the newest root; empty if nothing was
  std::uint64_t recorded_size_ = 0;  // by the root when the file was opened

  /// The file grows by at least this, unless the device refuses it.
  static constexpr std::uint64_t growth_min = std::uint64_t{1} << 20;
  static constexpr std::uint64_t growth_step_max = std::uint64_t{1} << 30;
  /// After a refusal the file grows only by what is needed until it is this long, so that not every segment asks for
  /// more.
  std::atomic<std::uint64_t> size_refused_{0};
  /// In the background: the room that growth aims at. It follows the rate at which writers use space.
  std::atomic<std::uint64_t> room_wanted_{2 * growth_min};

  pool_space own_space_;
  pool_space* space_ = &own_space_;
  std::atomic<std::uint32_t> era_{0};
  std::atomic<std::uint64_t>* logged_end_ = nullptr;
  link logged_end_at_ = null_link;
  std::multimap<std::uint64_t, std::uint64_t> free_;  // size -> offset in the file; only this process uses them
};

/// Two fields of a segment's header in each of these are one word, so that who looks meanwhile sees both or none.
struct kind_and_size {
  std::uint32_t magic;
  std::uint32_t granules;
};
struct checked_generation {
  std::uint32_t generation;
  std::uint32_t crc;
};
static_assert(offsetof(format::segment_header, magic) % sizeof(kind_and_size) == 0 &&
              offsetof(format::segment_header, granules) == offsetof(format::segment_header, magic) + 4);
static_assert(offsetof(format::segment_header, generation) % sizeof(checked_generation) == 0 &&
              offsetof(format::segment_header, crc) == offsetof(format::segment_header, generation) + 4);

using header_word_type [[gnu::may_alias]] = std::uint64_t;
[[nodiscard]] inline header_word_type& header_word(std::uint32_t& first) noexcept {
  return reinterpret_cast<header_word_type&>(first);
}
[[nodiscard]] inline const header_word_type& header_word(const std::uint32_t& first) noexcept {
  return reinterpret_cast<const header_word_type&>(first);
}

/// The checksum of a segment's header at `at`.
[[nodiscard]] std::uint32_t header_crc(const format::segment_header& h, std::uint32_t pool_seed, link at) noexcept;

}  // namespace icecore
