// The tags of a store that processes share, in the order they were made, in memory that all of them map. So a process
// that is attached learns of tags without reading the records.
//
//   const auto place = made.reserve(memory, name, note);     // may fail
//   made.append(memory, place, tagged, time_ns);             // cannot
//
//   made_tags::reader here;                                  // each process has its own
//   made.for_each_new(memory, here, [](tag_info tag) { ... });
//
// Threads: reserve(), append(), repair() and tell_for_killed() under lock(); for_each_new() from any thread of any
//   process, each reader by one thread at a time.
// Cost: O(1) a tag. Memory: 4 bytes a tag, and its name and note with 24 bytes, rounded up to 64.
// Invariants:
//   T1. What a chunk's first `count` references lead to is written and does not change: who sees the count sees it.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/locks/process_lock.hpp"
#include "icecore/options.hpp"
#include "index/arena.hpp"

namespace icecore::detail {

class made_tags {
 public:
  /// A place for a tag with this name and note, and for leading to it. Throws std::bad_alloc; then no tag was changed.
  [[nodiscard]] index::arena_ref reserve(index::arena& memory, std::string_view name, std::string_view note) {
    // relaxed: whoever changes the count holds the caller's lock
    if (last_ == 0 || chunk_at(memory, last_).count.load(std::memory_order_relaxed) == chunk::tags_max) {
      const index::arena_ref fresh = memory.allocate(sizeof(chunk));  // zeroed: an empty chunk
      // release: who finds the chunk sees that it is empty
      (last_ == 0 ? first_ : chunk_at(memory, last_).next).store(fresh, std::memory_order_release);
      last_ = fresh;
    }
    const index::arena_ref place = memory.allocate(sizeof(one_tag) + name.size() + note.size());
    one_tag& tag = tag_at(memory, place);
    tag.name_size = static_cast<std::uint32_t>(name.size());
    tag.note_size = static_cast<std::uint32_t>(note.size());
    std::byte* const bytes = memory.at(place) + sizeof tag;
    if (!name.empty()) std::memcpy(bytes, name.data(), name.size());
    if (!note.empty()) std::memcpy(bytes + name.size(), note.data(), note.size());
    return place;
  }
  /// Precondition: `place` is what the last reserve() returned.
  void append(const index::arena& memory, index::arena_ref place, version tagged, std::int64_t time_ns) noexcept {
    tag_at(memory, place).tagged = tagged;
    tag_at(memory, place).time_ns = time_ns;
    chunk& to = chunk_at(memory, last_);
    const std::uint32_t count = to.count.load(std::memory_order_relaxed);  // relaxed: this thread alone changes it
    to.tags[count] = place;
    to.count.store(count + 1, std::memory_order_release);  // T1
  }

  /// Of all processes: held from reserve() to append().
  [[nodiscard]] process_lock& lock() noexcept { return lock_; }
  /// A process was killed while it held the lock: it may have linked a chunk and not noted it.
  void repair(const index::arena& memory) {
    reader all;
    for_each_new(memory, all, [](const tag_info&) {});
    last_ = all.chunk;
  }
  /// Tells of a tag whose maker was killed, unless it has told of it itself. Throws std::bad_alloc.
  void tell_for_killed(index::arena& memory, const tag_info& tag) {
    bool is_told = false;
    reader all;
    for_each_new(memory, all, [&](const tag_info& told) { is_told |= told.version == tag.version; });
    last_ = all.chunk;  // as repair()
    if (is_told) return;
    append(memory, reserve(memory, tag.name, tag.note), tag.version, tag.time_ns);
  }

  class reader {
    friend made_tags;
    index::arena_ref chunk = 0;
    std::uint32_t seen = 0;  // tags of it
  };
  template <class Visit>
  void for_each_new(const index::arena& memory, reader& here, Visit visit) const {
    if (here.chunk == 0) here.chunk = first_.load(std::memory_order_acquire);  // acquire: as reserve() says
    while (here.chunk != 0) {
      const chunk& in = chunk_at(memory, here.chunk);
      // the next one first: if there is one, this one was full before
      const index::arena_ref next = in.next.load(std::memory_order_acquire);  // acquire: as reserve() says
      const std::uint32_t count = in.count.load(std::memory_order_acquire);   // T1
      for (; here.seen < count; ++here.seen) visit(read(memory, in.tags[here.seen]));
      if (next == 0) return;
      here.chunk = next;
      here.seen = 0;
    }
  }

 private:
  struct one_tag {
    version tagged;
    std::int64_t time_ns;
    std::uint32_t name_size;
    std::uint32_t note_size;
  };
  static_assert(sizeof(one_tag) == 24);
  struct chunk {
    static constexpr std::uint32_t tags_max = 126;
    std::atomic<std::uint32_t> count;
    std::atomic<index::arena_ref> next;
    index::arena_ref tags[tags_max];
  };
  static_assert(sizeof(chunk) == 512);

  [[nodiscard]] static chunk& chunk_at(const index::arena& memory, index::arena_ref at) noexcept {
    return *reinterpret_cast<chunk*>(memory.at(at));
  }
  [[nodiscard]] static one_tag& tag_at(const index::arena& memory, index::arena_ref at) noexcept {
    return *reinterpret_cast<one_tag*>(memory.at(at));
  }
  [[nodiscard]] static tag_info read(const index::arena& memory, index::arena_ref at) {
    const one_tag& tag = tag_at(memory, at);
    const auto* const bytes = reinterpret_cast<const char*>(memory.at(at) + sizeof tag);
    return {tag.tagged, tag.time_ns, std::string(bytes, tag.name_size),
            std::string(bytes + tag.name_size, tag.note_size)};
  }

  std::atomic<index::arena_ref> first_{0};
  index::arena_ref last_ = 0;  // of who appends
  process_lock lock_;
};

}  // namespace icecore::detail
