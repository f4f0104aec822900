// The memory into which frames are inflated, with a bound.
//
//   frame_cache cache(bound_bytes);
//   cache.watch(&viewers);          // from now on frames leave when there is more; without, none does
//   cache.bring(extent, frame);     // the blocks of the frame are in memory
//
// A view of a record leads into an inflated block, and stays valid as long as its pin lives. So a frame leaves in three
// steps, of which the last one waits until no view can lead into it:
//
//   1. clear     The oldest frames lose the bits that say that their blocks were checked. From now on who wants one of
//                these blocks comes to bring() first, which takes the frame back (second chance).
//   2. renew     The viewers get a new number: pins that are taken from now on carry it. All threads pass a barrier.
//   3. give back When no pin of before is left, and nobody has taken the frame back, its pages go to the kernel.
//
// Why nobody reads a page that has gone. Who reads a block took a pin before. It saw the block's bit set, or came to
// bring().
//   - It saw the bit. If its pin is of before step 2, step 3 waits for it. If it carries the new number, it has seen
//     what step 2 published after step 1; so it has seen the bit cleared, unless somebody has set it again since. Who
//     set it had come to bring(), with a pin of before (next item but one), or had taken the frame back, which ended
//     its leaving.
//   - It came to bring(). That and step 3 exclude each other (the mutex): before step 3 it takes the frame back, behind
//     step 3 it inflates it anew.
//   - Between bring() and setting the bit the check of the block passes, and steps 1 and 2 may. Then its pin is of
//     before step 2, so step 3 waits until it has ended, and looks at the bits once more: a frame with a bit stays.
// The order: a bit is set (release) by a thread that saw the frame arrive, and read (acquire) before the block is. The
// end of a pin is a release, too, and step 3 acquires it: so all reads under that pin come before the pages go, and
// before the frame is inflated there anew.
//
// A frame arrives once, whoever else wants it meanwhile waits. Its ancestors arrive before it, and stay while it does.
//
// Pages belong to several frames at their borders: a page goes with the last of these.
//
// Threads: any. watch() runs alone.
// Cost: bring() takes a mutex; inflating happens outside of it. Memory: the bound, what pins look at, and what arrives.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

namespace icecore::stratum {

class framed_blocks;

/// Those who may look at inflated blocks (store/read/pins/).
class viewers {
 public:
  virtual ~viewers() = default;
  /// Who begins to look from now on carries the number that is returned, or a greater one. Everything that the caller
  /// did before is visible to them. Empty if the kernel offers no barrier of all threads: then nothing may leave.
  virtual std::optional<std::uint64_t> renew() = 0;
  /// Whether all who began with a lesser number have ended. Their reads come before what the caller does next.
  virtual bool none_before(std::uint64_t number) = 0;
  /// Whether anybody looks.
  [[nodiscard]] virtual bool any() const = 0;
};

class frame_cache {
 public:
  /// 0: no bound.
  explicit frame_cache(std::uint64_t bound_bytes) : bound_(bound_bytes) {}  // std::bad_alloc: its deque takes memory

  /// Null: frames do not leave any more.
  void watch(viewers* all) noexcept;
  /// errc::damaged. Precondition: the caller holds a pin, if the cache watches viewers. An extent may end only if no
  /// other one of this cache is read any more.
  void bring(const framed_blocks& of, std::uint32_t frame);

  struct counts {
    std::uint64_t bound = 0;
    std::uint64_t bytes = 0;   ///< inflated
    std::uint64_t hits = 0;    ///< a block was read for the first time, and its frame was there
    std::uint64_t misses = 0;  ///< its frame had to be inflated
  };
  [[nodiscard]] counts now() const;

 private:
  struct place {
    const framed_blocks* of;
    std::uint32_t frame;
  };
  struct leaving {
    std::uint64_t number;  // of the viewers that do not matter
    std::deque<place> frames;
  };
  /// The frame is there, and stays until its `users` are one less. Whether it was there.
  bool hold(std::unique_lock<std::mutex>& lock, const framed_blocks& of, std::uint32_t frame);
  void make_room();
  void clear_oldest();
  void give_back();

  const std::uint64_t bound_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  viewers* viewers_ = nullptr;
  std::deque<place> order_;      // as they arrived; not those that leave
  std::deque<leaving> leaving_;  // by number
  std::uint64_t leaving_bytes_ = 0;
  counts counts_;
};

}  // namespace icecore::stratum
