// Finds out which closed versions are settled: no write that could still be stamped with them is under way.
//
//   settling wait(core.clock(), core.writers());
//   if (wait.is_done()) ... all records of versions below wait.open() are complete, and are found by filled_ranges
//
// A tag waits for nobody, so a writer that read the clock before it may stamp its record after it. Readers that come
// through the index need not care: they stamp what they meet. A reader of ranges meets only complete records, so it
// must wait until the writes that were under way are complete. It waits for them, and they for nobody.
//
// Argument: the clock is read first, then all slots, both sequentially consistent, as are a writer's lease and its
//   reading of the clock. A lease that this did not see in its slot comes after that load, so the clock that its writer
//   reads is not smaller than open(). A helper stamps a record with a clock that it read after the record was linked:
//   its writer was leased then. So once the leases that were seen have ended, no stamp below open() can come any more.
//
// Threads: one object, one thread. Cost: a load for each writer.
#pragma once

#include <utility>
#include <vector>

#include "history/clock.hpp"
#include "store/write/writer.hpp"

namespace icecore::detail {

class settling {
 public:
  settling(const version_clock& clock, const writer_set& writers) : writers_(&writers), open_(clock.now()) {
    writers.for_each_slot([&](unsigned number, const writer_slot& slot) {
      const std::uint64_t sequence = slot.sequence.load(std::memory_order_seq_cst);
      if (writer_slot::leased(sequence)) under_way_.emplace_back(number, sequence);
    });
  }

  /// All versions below were closed when this was made.
  [[nodiscard]] version open() const noexcept { return open_; }
  /// Whether these are settled.
  [[nodiscard]] bool is_done() {
    std::erase_if(under_way_, [this](const auto& lease) {
      // acquire: sees what the writer did (W1)
      return writers_->slot(lease.first).sequence.load(std::memory_order_acquire) != lease.second;
    });
    return under_way_.empty();
  }

 private:
  const writer_set* writers_;
  version open_;
  std::vector<std::pair<unsigned, std::uint64_t>> under_way_;
};

}  // namespace icecore::detail
