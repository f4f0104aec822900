// A gate that any number of writers pass at once, until a holder shuts it and waits for them to leave.
//
//   { const write_gate::pass through(gate, wait); store.insert(...); }      // each write
//   { const write_gate::hold held(gate, wait); ... }                        // no write is under way in here
//
// Invariants:
//   W1 While a hold exists, no pass exists: a writer that sees the gate shut leaves and waits; a holder waits until
//      every writer that came before it has left.
//   W2 A holder never starves: a shut gate lets no writer in.
// Threads: any number; one hold at a time (holds are collective calls, which one thread of a rank makes).
// Cost: two additions on a cache line that few threads share.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>

namespace icecore::mpi {

class write_gate {
 public:
  class pass {
   public:
    /// `wait(done)` returns when `done()` is true; it is called only while a hold exists.
    template <typename Wait>
    pass(write_gate& gate, Wait&& wait) : inside_(gate.mine()) {
      for (;;) {
        // seq_cst, as shut_ below: either this writer sees the gate shut or the holder sees this writer (W1)
        inside_.fetch_add(1, std::memory_order_seq_cst);
        if (!gate.shut_.load(std::memory_order_seq_cst)) return;
        inside_.fetch_sub(1, std::memory_order_release);
        wait([&gate] { return !gate.shut_.load(std::memory_order_acquire); });  // acquire: pairs with the hold's end
      }
    }
    ~pass() { inside_.fetch_sub(1, std::memory_order_release); }  // release: the holder sees the writes
    pass(const pass&) = delete;
    pass& operator=(const pass&) = delete;

   private:
    std::atomic<int>& inside_;
  };

  class hold {
   public:
    template <typename Wait>
    hold(write_gate& gate, Wait&& wait) : gate_(gate) {
      gate.shut_.store(true, std::memory_order_seq_cst);  // W1, see pass
      try {
        wait([&gate] { return gate.empty(); });
      } catch (...) {
        gate.shut_.store(false, std::memory_order_release);
        throw;
      }
    }
    ~hold() { gate_.shut_.store(false, std::memory_order_release); }  // release: writers see what the holder did
    hold(const hold&) = delete;
    hold& operator=(const hold&) = delete;

   private:
    write_gate& gate_;
  };

 private:
  static constexpr std::size_t cache_line = 64;
  struct alignas(cache_line) counter {
    std::atomic<int> inside{0};
  };

  [[nodiscard]] std::atomic<int>& mine() noexcept {
    return counters_[std::hash<std::thread::id>{}(std::this_thread::get_id()) % counters_.size()].inside;
  }
  [[nodiscard]] bool empty() const noexcept {
    for (const counter& c : counters_) {
      if (c.inside.load(std::memory_order_seq_cst) != 0) return false;  // W1, see pass
    }
    return true;
  }

  std::array<counter, 16> counters_;
  std::atomic<bool> shut_{false};
};

}  // namespace icecore::mpi
