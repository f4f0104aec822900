// All pools of a store: one file, or several, each on a device or in the memory of a NUMA node of its own.
//
//   pool_set pools(path, options);                        // finds the further files by the root of the first
//   segment s = pools.allocate(bytes, pools.number_for(writer));
//   std::byte* at = pools.at(s.offset);                   // a link: pool number and offset
//
// One root decides, that of the first file: clock, certificate, state. The root of a further one tells of this file
// alone: size, end, inode; and its session, by which an old copy is known. docs/design/0009-several-pools.md.
//
// Threads: at(), number_for() and the persistence are free; allocate() and add_free() lock shortly.
// Errors: those of pool; errc::missing_file, naming it, if a file is not there or not this store's.
// Invariants:
//   M1. In a session all files have its number in their roots before anything is written that the session before would
//       not have; until then the first one's root names both.
//   M2. A root of the first file that says "closed" was written when those of all others said it.
//   M3. The root of the first file names the others only when each has a root with the store's id.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pool/file/numa.hpp"
#include "pool/pool.hpp"
#include "pool/root/placements.hpp"

namespace icecore {

class pool_set {
 public:
  /// Opens or creates all files of a store.
  pool_set(const std::filesystem::path& path, const options& opening);
  /// Beside the process that shares them; `with` is of each file.
  pool_set(const std::filesystem::path& path, const options& opening, std::span<pool_space> with);

  /// From now on other processes may attach. `with`: of each file, in memory that they map.
  void share(std::span<pool_space> with);

  // ---- The files ----
  /// How many the store has.
  [[nodiscard]] std::uint16_t count() const noexcept { return count_; }
  /// Those that are there: all, unless damage is accepted. In the order of their numbers, the first one among them.
  [[nodiscard]] const std::vector<pool*>& files() const noexcept { return there_; }
  [[nodiscard]] pool& first() const noexcept { return *pools_[0]; }
  /// Null if it is missing, or if there is no such number.
  [[nodiscard]] pool* find(std::uint16_t number) const noexcept {
    return number < format::files_max ? pools_[number].get() : nullptr;
  }
  /// Precondition: it is there.
  [[nodiscard]] pool& of(link l) const noexcept { return *pools_[link_pool(l)]; }
  /// What is wrong with files that are missing, where damage is accepted.
  struct absent {
    std::uint16_t number;
    std::string what;
  };
  [[nodiscard]] const std::vector<absent>& missing() const noexcept { return missing_; }
  [[nodiscard]] int node_of(std::uint16_t number) const noexcept { return nodes_[number]; }

  // ---- Memory ----
  [[nodiscard]] std::byte* at(link l) const noexcept { return bases_[link_pool(l)] + link_offset(l); }
  [[nodiscard]] std::span<std::byte* const> bases() const noexcept { return bases_; }
  /// Whether so many bytes at `l` are those of a file.
  [[nodiscard]] bool contains(link l, std::uint64_t bytes) const noexcept {
    const pool* p = find(link_pool(l));
    return p != nullptr && link_offset(l) + bytes <= p->size();
  }
  /// Of a link that may lead nowhere, to a file that is missing too: a number, since it may be no pointer.
  void prefetch(link l) const noexcept {
    if (link_pool(l) >= format::files_max) return;
    const auto address = reinterpret_cast<std::uintptr_t>(bases_[link_pool(l)]) + link_offset(l);
    __builtin_prefetch(reinterpret_cast<const void*>(address));
  }
  /// Of all files.
  [[nodiscard]] std::uint64_t size() const noexcept;
  [[nodiscard]] std::uint64_t capacity() const noexcept;

  // ---- What all have in common ----
  [[nodiscard]] bool shared() const noexcept { return first().shared(); }
  [[nodiscard]] const word_codec& codec() const noexcept { return first().codec(); }
  /// Those that decide: the first file's.
  [[nodiscard]] root_pages& roots() const noexcept { return first().roots(); }
  [[nodiscard]] format::live_page& live() const noexcept { return first().live(); }
  [[nodiscard]] persistence& persist() const noexcept { return first().persist(); }
  [[nodiscard]] const durability_info& durability() const noexcept { return first().durability(); }
  [[nodiscard]] std::string id() const { return first().id(); }
  [[nodiscard]] bool root_lost() const noexcept { return first().root_lost(); }
  /// The clock's limit and the certificate are not known, since no root is there or a newer one was lost.
  [[nodiscard]] bool root_unreliable() const noexcept { return first().root_lost() || first().root_outdated(); }
  /// The first.
  [[nodiscard]] const pool_file& file() const noexcept { return first().file(); }
  [[nodiscard]] std::vector<damage> damages() const;

  // ---- Places, for people ----
  /// The file that a damage at `l` lies in.
  [[nodiscard]] const std::string& origin(link l = null_link) const noexcept;
  /// "byte 4711", with the file where there are several.
  [[nodiscard]] std::string place_of(link l) const;
  /// A damage whose place is a link, as its file and the byte in it.
  [[nodiscard]] damage localized(damage found) const;

  // ---- A copy that comes to be (options::copy_of) ----
  [[nodiscard]] bool copying() const noexcept { return first().copy() != nullptr; }
  void bring(link from, link filled, link end) const {
    of(from).copy()->bring(link_offset(from), link_offset(filled), link_offset(end));
  }
  /// All was brought and is what it should be. A crash before its end leaves no store: the first file's root is last.
  void finish_copy();

  // ---- Sessions ----
  /// Writes the roots with which a session begins: the first one's as `change` makes it.
  void start_session(const std::function<void(format::root&)>& change);
  /// Writes the roots of a closed store, and cuts the files to what is used. All data is durable.
  void end_session(const std::function<void(format::root&)>& change);

  // ---- Space ----
  /// The pool for writer `writer`, who runs on this thread: that of its NUMA node; where no file is of the node,
  /// writers take turns with all that are of none.
  [[nodiscard]] std::uint16_t number_for(unsigned writer) const noexcept {
    return count_ == 1 ? std::uint16_t{0} : file_for({nodes_.data(), count_}, current_node(), writer);
  }
  /// pool::grow_ahead() where `place` lies.
  void grow_ahead(link place) noexcept { find(link_pool(place))->grow_ahead(); }
  /// pool::allocate() there; of another pool if its device is full.
  [[nodiscard]] segment allocate(std::uint64_t bytes, std::uint16_t number = 0) {
    return allocate(bytes, number, format::segment_magic, {});
  }
  [[nodiscard]] segment allocate(std::uint64_t bytes, std::uint16_t number, std::uint32_t magic,
                                 const std::function<void(const segment&)>& claim);
  void add_free(link offset, std::uint64_t size) { of(offset).add_free(offset, size); }
  [[nodiscard]] format::segment_header& header_of(link offset) const noexcept { return of(offset).header_of(offset); }
  /// False too where no file is.
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
  void relocate(const options& opening);
  void find_without_root(const options& opening);
  void add(std::unique_ptr<pool> one);
  void undo_creation() const noexcept;

  std::filesystem::path path_;
  std::uint16_t count_ = 1;
  std::array<std::unique_ptr<pool>, format::files_max> pools_;
  std::array<std::byte*, format::files_max> bases_{};
  std::vector<placement> placed_;  // by number
  std::array<int, format::files_max> nodes_{};
  std::vector<pool*> there_;
  std::vector<absent> missing_;
};

/// Whether the file's root says that it is file `number` of the store whose root is `of`.
[[nodiscard]] bool is_file_of(const std::filesystem::path& path, std::uint16_t number, const format::root& of);

/// The session of a copy: its files fit no others.
[[nodiscard]] std::uint64_t session_of_copy(std::uint64_t session) noexcept;

/// The further files of the store at `path` that are there and are its own, whatever state it is in: for whoever
/// removes a store that was never finished. Empty if its root cannot be read.
[[nodiscard]] std::vector<std::filesystem::path> secondary_files(const std::filesystem::path& path);

}  // namespace icecore
