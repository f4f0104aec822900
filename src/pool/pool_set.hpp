// All pools of a store: one file, or several, each on its own device or in the memory of its own NUMA node.
//
//   pool_set pools(path, options);                        // finds the secondary files by the root of the first
//   segment s = pools.allocate(bytes, pools.number_for(writer));
//   std::byte* at = pools.at(s.offset);                   // a link: pool number and offset
//
// The root of the first file decides: clock, certificate, state. The root of a secondary file describes only that file:
// size, end, inode, and the session, which shows whether the file is an old copy. See
// docs/design/0009-several-pools.md.
//
// Threads: at(), number_for() and the persistence take no lock; allocate() and add_free() lock briefly.
// Errors: those of pool; errc::missing_file, naming the file, if a file is missing or belongs to another store.
// Invariants:
//   M1. The roots of all files name the current session before anything is written that the previous session could not
//       have written. Until then the root of the first file names both sessions.
//   M2. A root of the first file that says "closed" was written when the roots of all other files already said it.
//   M3. The root of the first file names the others only when each of them has a root with the store's id.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/background/background.hpp"
#include "base/background/memory_ahead.hpp"
#include "pool/file/numa.hpp"
#include "pool/pool.hpp"
#include "pool/root/placements.hpp"

namespace icecore {

class pool_set {
 public:
  /// Opens or creates all files of a store.
  pool_set(const std::filesystem::path& path, const options& opening);
  /// Attaches beside the process that shares the files; `with` has one element per file.
  pool_set(const std::filesystem::path& path, const options& opening, std::span<pool_space> with);
  /// Maps all files of a store that another process writes, for reading beside it.
  pool_set(const std::filesystem::path& path, const options& opening, beside_writer how);
  ~pool_set() { end_background_growth(); }
  pool_set(const pool_set&) = delete;
  pool_set& operator=(const pool_set&) = delete;

  /// From now on other processes may attach. `with` has one element per file and lies in memory that they map.
  void share(std::span<pool_space> with);

  // ---- The files ----
  /// The number of files that the store has.
  [[nodiscard]] std::uint16_t count() const noexcept { return count_; }
  /// The files that exist, by number, the first file included. All of them unless damage is accepted.
  [[nodiscard]] const std::vector<pool*>& files() const noexcept { return there_; }
  [[nodiscard]] pool& first() const noexcept { return *pools_[0]; }
  /// Null if the file is missing or no file has this number.
  [[nodiscard]] pool* find(std::uint16_t number) const noexcept {
    return number < format::files_max ? pools_[number].get() : nullptr;
  }
  /// Precondition: the file exists.
  [[nodiscard]] pool& of(link l) const noexcept { return *pools_[link_pool(l)]; }
  /// A missing file and what is wrong with it, where damage is accepted.
  struct absent {
    std::uint16_t number;
    std::string what;
  };
  [[nodiscard]] const std::vector<absent>& missing() const noexcept { return missing_; }
  [[nodiscard]] int node_of(std::uint16_t number) const noexcept { return nodes_[number]; }

  // ---- Memory ----
  [[nodiscard]] std::byte* at(link l) const noexcept { return bases_[link_pool(l)] + link_offset(l); }
  [[nodiscard]] std::span<std::byte* const> bases() const noexcept { return bases_; }
  /// Whether `bytes` bytes at `l` lie inside a file.
  /// Whether that is in the files; of a reader beside the writer, in what they have by now.
  [[nodiscard]] bool contains_by_now(link l, std::uint64_t bytes) const noexcept;
  [[nodiscard]] bool contains(link l, std::uint64_t bytes) const noexcept {
    const pool* p = find(link_pool(l));
    return p != nullptr && link_offset(l) + bytes <= p->size();
  }
  /// `l` may lead nowhere, or into a missing file. So the address is computed as a number: it may be no valid pointer.
  /// Always inlined: GCC drops calls of a function that only prefetches.
  [[gnu::always_inline]] void prefetch(link l) const noexcept {
    if (link_pool(l) >= format::files_max) return;
    const auto address = reinterpret_cast<std::uintptr_t>(bases_[link_pool(l)]) + link_offset(l);
    __builtin_prefetch(reinterpret_cast<const void*>(address));
  }
  /// Beside the writer: files and roots as they are now. errc::no_space if there are no addresses for them;
  /// errc::unsupported_format if an icecore writes them whose format this one cannot read.
  void follow() {
    for (pool* p : there_) {
      p->follow_root();
      p->follow();
    }
  }
  /// Sum over all files.
  [[nodiscard]] std::uint64_t size() const noexcept;
  [[nodiscard]] std::uint64_t capacity() const noexcept;

  // ---- What all files have in common ----
  [[nodiscard]] bool shared() const noexcept { return first().shared(); }
  [[nodiscard]] const word_codec& codec() const noexcept { return first().codec(); }
  /// The roots that decide: those of the first file.
  [[nodiscard]] root_pages& roots() const noexcept { return first().roots(); }
  [[nodiscard]] format::live_page& live() const noexcept { return first().live(); }
  [[nodiscard]] persistence& persist() const noexcept { return first().persist(); }
  [[nodiscard]] const durability_info& durability() const noexcept { return first().durability(); }
  [[nodiscard]] icecore::durability recovery_mode() const noexcept { return first().recovery_mode(); }
  [[nodiscard]] std::string id() const { return first().id(); }
  /// The clock's limit and the certificate are not known, because both root pages or a newer root were lost.
  [[nodiscard]] bool root_unreliable() const noexcept { return first().root_unreliable(); }
  /// The first file.
  [[nodiscard]] const pool_file& file() const noexcept { return first().file(); }
  [[nodiscard]] std::vector<damage> damages() const;

  // ---- Places in error messages ----
  /// The file in which a damage at `l` lies.
  [[nodiscard]] const std::string& origin(link l = null_link) const noexcept;
  /// "byte 4711"; with the file's name if the store has several.
  [[nodiscard]] std::string place_of(link l) const;
  /// Turns a damage whose place is a link into one with a file and a byte in that file.
  [[nodiscard]] damage localized(damage found) const;

  /// Of a store that is being made as a copy (options::copy_of). Call when everything is copied and checked. A crash
  /// before the end leaves no store: the first file's root is written last.
  void finish_copy();

  // ---- Sessions ----
  /// Writes the roots that begin a session; `change` edits that of the first file.
  void start_session(const std::function<void(format::root&)>& change);
  /// Writes the roots of a closed store and truncates the files to their used size. Precondition: all data is durable.
  void end_session(const std::function<void(format::root&)>& change);

  // ---- Space ----
  /// The pool for writer `writer`, which runs on this thread: a file of the thread's NUMA node. If no file belongs to
  /// that node, writers take turns on the files that belong to no node, else on all files.
  [[nodiscard]] std::uint16_t number_for(unsigned writer) const noexcept {
    return count_ == 1 ? std::uint16_t{0} : file_for({nodes_.data(), count_}, current_node(), writer);
  }
  /// Calls pool::grow_ahead() on the file in which `place` lies; or asks the thread that has memory ready, if there is
  /// one. Call it after allocate(), without holding a lock that other threads wait for.
  void grow_ahead(link place) noexcept;
  /// From now on a thread grows the files ahead, once they are large enough that it matters, if a thread can be made.
  /// It has other memory ready as well, which must outlive it, or until the next call names other memory. The first
  /// call: before any other thread uses the store.
  void grow_in_background(std::initializer_list<memory_ahead*> other);
  /// Has that thread look what is wanted. False if there is none.
  bool ask_background() noexcept;
  /// Returns when that thread has ended. No other thread uses the store any more.
  void end_background_growth() noexcept;
  /// Calls pool::allocate() on that file, or on another one if its device is full.
  [[nodiscard]] segment allocate(std::uint64_t bytes, std::uint16_t number = 0) {
    return allocate(bytes, number, format::segment_magic, {});
  }
  [[nodiscard]] segment allocate(std::uint64_t bytes, std::uint16_t number, std::uint32_t magic,
                                 const std::function<void(const segment&)>& claim);
  void add_free(link offset, std::uint64_t size) { of(offset).add_free(offset, size); }
  void set_era(std::uint32_t era) noexcept {
    for (pool* p : there_) p->set_era(era);
  }
  [[nodiscard]] format::segment_header& header_of(link offset) const noexcept { return of(offset).header_of(offset); }
  /// Also false if the file is missing.
  [[nodiscard]] bool valid_header(link offset, std::uint32_t magic = format::segment_magic) const noexcept {
    return contains(offset, sizeof(format::segment_header)) && of(offset).valid_header(offset, magic);
  }
  [[nodiscard]] segment segment_at(link offset) const noexcept { return of(offset).segment_at(offset); }
  [[nodiscard]] std::optional<link> fill_of(const segment& s) const noexcept { return of(s.offset).fill_of(s); }
  void set_fill(const segment& s, link end) const noexcept { of(s.offset).set_fill(s, end); }
  [[nodiscard]] std::uint64_t fill_word(const segment& s, link end) const noexcept {
    return of(s.offset).fill_word(s, end);
  }

 private:
  void make_secondary(const options& opening);
  void open_secondary(const options& opening);
  void copy_secondary(const options& opening);
  void copy_pages(const options& opening);
  void relocate(const options& opening);
  void find_without_root(const options& opening);
  void add(std::unique_ptr<pool> one);
  [[nodiscard]] background* background_growth() noexcept;
  void grow_a_piece() noexcept;
  void remove_created_files() const noexcept;

  std::filesystem::path path_;
  std::uint16_t count_ = 1;
  std::array<std::unique_ptr<pool>, format::files_max> pools_;
  std::array<std::byte*, format::files_max> bases_{};
  std::vector<placement> placed_;  // by number
  std::array<int, format::files_max> nodes_{};
  std::vector<pool*> there_;
  std::vector<absent> missing_;
  /// A smaller file is not worth a thread. Of several, one that is little used does not grow with the others.
  static constexpr std::uint64_t background_growth_from = std::uint64_t{8} << 20;
  struct other_memory {
    memory_ahead* of;
    bool under_way;  // of the thread that has it ready
  };
  bool grows_in_background_ =
      false;                // else writers grow the files; set before another thread uses the store, and stays
  std::mutex other_mutex_;  // of what follows
  std::vector<other_memory> other_memory_;
  std::once_flag growth_begins_;
  std::atomic<background*> growth_{nullptr};  // owned; null until a writer has begun it
};

/// Whether the file's root says that it is file `number` of the store whose root is `of`.
[[nodiscard]] bool is_file_of(const std::filesystem::path& path, std::uint16_t number, const format::root& of);

/// A session number for a copy, so that its files fit no other store's.
[[nodiscard]] std::uint64_t session_of_copy(std::uint64_t session) noexcept;

/// The secondary files of the store at `path` that exist and belong to it, whatever state it is in. For removing a
/// store that was never finished. Empty if the root cannot be read.
[[nodiscard]] std::vector<std::filesystem::path> secondary_files(const std::filesystem::path& path);

}  // namespace icecore
