// All interleavings of two writers, each once up to the order of steps that do not touch the same word.
//
//   exhaustive_schedule all;
//   do { ...; fibers::run({a, b}, all); ... judge ... } while (all.next());
//
// Dynamic partial-order reduction (C. Flanagan, P. Godefroid: Dynamic partial-order reduction for model checking
// software, POPL 2005) with sleep sets (P. Godefroid, 1996), by running again from the start: in each run, a step that
// touches the same word as an earlier one of the other writer, one of them storing, and that nothing orders behind it,
// is run the other way round later. Steps are atomic operations, locks, flushes, fences and syncs; between them the
// store has no races (ThreadSanitizer's part), so nothing is lost by not changing writers there.
//
// A writer that reads the same few words again and again without anybody storing is waiting (spinning.hpp), and waits
// until the other one has stored.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "fibers.hpp"
#include "spinning.hpp"

namespace icecore::crash {

class exhaustive_schedule final : public schedule {
 public:
  static constexpr unsigned writers = 2;
  static constexpr std::size_t steps_max = 1'000'000;  ///< of a run; beyond it nothing ends

  unsigned choose(unsigned current, const std::vector<step>& next, const std::vector<bool>& ready) override;

  /// Prepares the next run; false if there is none.
  bool next();

  [[nodiscard]] std::uint64_t runs() const noexcept { return runs_; }
  /// Whether the last run was, from some step on, one that had been made before.
  [[nodiscard]] bool repeated() const noexcept { return repeated_; }
  /// Steps of the last run.
  [[nodiscard]] std::size_t steps() const noexcept { return at_; }

 private:
  struct node {
    unsigned chosen;
    std::uint8_t ready;      // bits: who could have gone on
    std::uint8_t backtrack;  // who must be tried
    std::uint8_t done;       // who was
    std::uint8_t asleep;     // whose next step leads only where an earlier run has been
  };
  struct touched {
    std::array<std::uint32_t, writers> wrote{};  // index of each writer's last store to the word, 0: none
    std::array<std::uint32_t, writers> read{};
    std::array<std::size_t, writers> wrote_at{};  // the node
    std::array<std::size_t, writers> read_at{};
  };
  void begin_run();
  void made(unsigned writer, const step& s, std::size_t node_index);

  std::vector<node> path_;
  std::size_t at_ = 0;
  bool begun_ = false;
  std::uint64_t runs_ = 1;
  std::uint8_t asleep_ = 0;  // of the next node
  bool repeated_ = false;    // the rest of this run is that of an earlier one
  std::unordered_map<std::uint64_t, touched> words_;
  std::array<std::uint32_t, writers> made_{};   // steps made
  std::array<std::uint32_t, writers> knows_{};  // of the other one, steps that are ordered before this one's next
  std::array<spinning, writers> waits_;
  std::array<bool, writers> waiting_{};
};

}  // namespace icecore::crash
