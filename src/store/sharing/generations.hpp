// What the processes that share a store tell each other of its young generations. Each compaction of the open store
// begins another one (packed/compacting/live_compaction.cpp); writer_set::generation() says which one takes the writes.
//
//   const generation_view sees(locks, number);
//   if (writers.generation() == number) ...  // nothing that the generation's engine leads to is given back meanwhile
//
// A process that is attached locks a byte of the shared file for each generation that it may still look at: in its
// file, and in the shared memory. Who packs gives neither back before no byte of an earlier generation is locked. The
// kernel unlocks the bytes of a process that was killed.
//
// Invariants:
//   R1. `of` says of the current generation, and of the one before it, what they are: it is written before the number
//       becomes the current one.
//   R2. From the first root that leads to the next manifest until the next generation is the current one, `change.to`
//       is its number. Whoever finds that the process which had shut the gate was killed completes the change, or finds
//       that no root leads to the manifest.
//   R3. A view is made first, and then the process looks whether the generation still is the current one. Who packs
//       changes the number first, and looks for views then. So one of the two sees the other.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "base/locks/lock_descriptor.hpp"
#include "icecore/version.hpp"
#include "store/write/record_totals.hpp"

namespace icecore::detail {

struct shared_generations {
  struct about {
    std::atomic<std::uint32_t> era{0};  ///< of its segments
    /// Which arena of the shared file has its index: 0 is the one in which this lies, others are its siblings.
    std::atomic<std::uint32_t> arena{0};
  };
  std::array<about, 2> of;  ///< by number % 2
  struct {
    std::atomic<std::uint64_t> to{0};  ///< 0: no change is under way
    std::uint32_t manifest = 0;        ///< its number
    version newest = 0;                ///< what was written up to it is packed
    record_totals left;                ///< what the next generation begins with: tags
  } change;
};

/// Generation n's byte of the shared file is this one plus n; those of processes lie before them.
inline constexpr std::uint64_t generation_bytes_from = std::uint64_t{1} << 32;

class generation_view {
 public:
  /// `locks`: of the shared file, for the views of this process alone. Throws errc::io.
  generation_view(std::shared_ptr<const lock_descriptor> locks, std::uint64_t number);
  ~generation_view();
  generation_view(const generation_view&) = delete;
  generation_view& operator=(const generation_view&) = delete;

 private:
  [[nodiscard]] bool set(short kind) const noexcept;

  std::shared_ptr<const lock_descriptor> locks_;
  std::uint64_t number_;
};

}  // namespace icecore::detail
