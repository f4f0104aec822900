// The supervisor: store after store, life after life, each store's history checked when its last life is over.
//
//   run_loop({.settings = loop_settings(), .kills = 200});
//
// Store number i has seed `seed` + i and the settings in turn. What fails is kept: the history, the store's file, and
// the command that runs the same plan again. A run that is to take days keeps its counts in a state file, written after
// each store, and goes on from it.
// Threads: one; the process must have no others.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "support/scratch.hpp"

namespace icecore::testing {

/// Every mode in every place there is, with every index, and some with several files.
[[nodiscard]] const std::vector<setting>& loop_settings();

struct loop_options {
  std::vector<setting> settings;
  std::uint32_t processes = 1;  ///< that share a store; with one, several threads of it write
  bool packs = false;           ///< the stores, while they are written; not those that are shared
  std::uint64_t kills = 200;
  std::uint64_t operations = 0;  ///< at least so many
  std::uint64_t lives = 0;       ///< of stores, each with an end and inspections; at least so many
  std::uint64_t seed = 1;
  std::uint64_t seconds_max = 0;  ///< 0: no limit
  std::filesystem::path state;    ///< empty: none
  std::filesystem::path keep = "kill_loop-failures";
  std::filesystem::path save;  ///< empty: sound histories are not saved
  bool quiet = false;
};

/// False if a promise was broken; what, and how to see it again, has been written to the standard error output.
[[nodiscard]] bool run_loop(const loop_options& how);

}  // namespace icecore::testing
