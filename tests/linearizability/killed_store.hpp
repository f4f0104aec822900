// One store through many lives: processes write it with several clients each until they are killed; what they did and
// what is found afterwards is recorded.
//
//   killed_store s(folder / "killed.ice", how, seed);
//   for (int i = 0; i < 10; ++i) s.live();      // throws broken_promise if the store does not open or is damaged
//   check(s.recorded());
//
// A life ends by SIGKILL, at a random moment or at a named point (kill_points.hpp), in the middle of opening, writing,
// closing or reopening. Afterwards processes that only open the store, or give it another index, may be killed too;
// then it is opened for reading, for writing or first one and then the other, and everything in it noted. The seed
// decides all but the interleaving of the threads. shared_lives.cpp: lives of several processes that share the store,
// of which the survivors go on. Threads: one, and the process must have no others: it forks.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <vector>

#include "client.hpp"
#include "kill_points.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {

/// What happened to stores, in numbers.
struct kill_counts {
  std::uint64_t kills = 0;           ///< of processes whose clients wrote
  std::uint64_t by_time = 0;         ///< of these: at a random moment
  std::uint64_t opening = 0;         ///< of these: before the store was open for the first time
  std::uint64_t recovery_kills = 0;  ///< of processes that only opened the store
  std::uint64_t reopenings = 0;      ///< after a clean close, in one life
  std::uint64_t crashes_seen = 0;    ///< inspections that found a store which was not closed
  std::uint64_t read_only = 0;       ///< inspections that opened it for reading only
  std::uint64_t lives = 0;
  std::uint64_t packings = 0;  ///< that returned, while others wrote
  std::uint64_t poisoned = 0;  ///< lives of shared stores that ended so
  std::array<std::uint64_t, kill_points> at_point{};
};

class killed_store {
 public:
  static constexpr std::uint32_t clients = 4;

  killed_store(std::filesystem::path path, setting how, std::uint64_t seed,
               std::chrono::milliseconds life_max = std::chrono::milliseconds(16));

  /// From now on the store is packed while it is written: by the process that opens it, and by some that only recover
  /// it.
  void be_packed() noexcept { is_packed_ = true; }

  /// One more life, its end, and what was found then.
  void live();
  /// The same of several processes that share the store: one opens it, the others attach, and are killed and replaced
  /// while the rest goes on, or until all have been told that a kill has poisoned the store. Throws broken_promise,
  /// too, if one waits for ever: then all have told their stacks, if let_stacks_be_printed() was called.
  void live_shared(std::uint32_t processes);

  [[nodiscard]] const history& recorded() const noexcept { return history_; }
  [[nodiscard]] const kill_counts& counts() const noexcept { return counts_; }

 private:
  struct shared_life;
  struct shared_session;
  class sharing_processes;

  [[nodiscard]] std::uint64_t random();
  [[nodiscard]] std::uint64_t random(std::uint64_t below) { return random() % below; }
  [[nodiscard]] kill_plan draw_plan(bool only_opening);
  [[nodiscard]] options draw_options();
  [[nodiscard]] bool kill_child(child& victim, const kill_plan& plan, shared_life& notes, std::uint64_t after_us);
  void write(const kill_plan& plan, shared_life& notes, std::uint64_t seed);
  void kill_a_recovery();
  void inspect_all();
  void inspect(access how);
  [[nodiscard]] std::vector<found_key> inspect_keys(const store& s);

  std::filesystem::path path_;
  scratch memory_{place::tmpfs};
  setting how_;
  std::uint64_t life_max_us_;
  std::uint64_t state_;
  history history_;
  kill_counts counts_;
  std::map<std::uint32_t, std::vector<found_record>> known_;
  bool created_ = false;
  bool is_packed_ = false;
  std::uint32_t packed_alone_ = 0;  ///< since the last inspection, at most
  bool was_durable_;                ///< it had the durable index, or may have had it
};

}  // namespace icecore::testing
