// One store through several sessions: in each, a process opens it and packs it again and again, and others attach,
// write, read and leave. All are killed at random, or none is.
//
//   sharing_round(random, folder / "store").run(deadline);     // throws broken_promise
//
// Of the processes that share a store, one that is killed amid a write may poison it: then all others are told so, and
// the next session opens it again. Nothing else may go wrong, however it ends (ledger.hpp says what is right).
// Threads: one, and the process must have no others: it forks.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "ledger.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {

class sharing_round {
 public:
  struct counts {
    std::uint64_t sessions = 0;
    std::uint64_t kills = 0;
    std::uint64_t kills_of_openers = 0;  ///< of these
    std::uint64_t attached = 0;          ///< how often a process did
    std::uint64_t compactions = 0;       ///< that ended
    std::uint64_t poisoned = 0;          ///< sessions that ended so
    std::uint64_t writes = 0;
    std::uint64_t finds = 0;
    std::uint64_t versions = 0;  ///< that were compared with what they had shown

    void add(const counts& other) noexcept;
  };

  sharing_round(random_numbers& random, const std::filesystem::path& folder);

  void run(std::chrono::steady_clock::time_point until);

  [[nodiscard]] const counts& done() const noexcept { return done_; }
  [[nodiscard]] std::string name() const;

 private:
  /// What processes tell the one that starts them.
  struct notes {
    std::atomic<bool> is_open;
    std::atomic<bool> stops;   ///< all that are attached end
    std::atomic<bool> closes;  ///< the one that opened the store does
    std::atomic<bool> is_poisoned;
    std::atomic<bool> has_failed;
    std::atomic<std::uint64_t> attached;
    std::atomic<std::uint64_t> compactions;
    std::array<char, 1000> failure;
  };

  [[nodiscard]] std::uint64_t draw(std::uint64_t below) { return random_() % below; }
  [[nodiscard]] bool one_in(std::uint64_t n) { return draw(n) == 0; }

  // in the children
  template <class Work>
  [[nodiscard]] int told(const Work& work) const;
  void open(std::uint64_t seed) const;
  void pack(store& s, std::uint64_t seed) const;
  void attach(unsigned writer, std::uint64_t seed) const;
  [[nodiscard]] options opening() const;

  // in the one that starts them
  void session();
  void start(unsigned seat);
  void kill_amid(std::chrono::steady_clock::time_point until);
  void end_all();
  /// Notes an end; 0: by itself.
  void note_end(unsigned seat, int status);
  void look_for_ends();
  void inspect();
  void check_failure() const;

  random_numbers& random_;
  std::filesystem::path path_;
  scratch memory_{place::tmpfs};
  std::filesystem::path common_ = memory_ / "common";
  setting where_;
  unsigned seats_;            // the first one's process opens the store
  bool kills_;                // else all end by themselves
  bool expires_;              // most versions, by the retention
  std::uint64_t life_us_;     // of a process that is attached, about
  std::uint64_t session_us_;  // at most
  std::uint64_t pause_us_;    // between two compactions, at most
  shared<ledger> ledger_;
  shared<notes> notes_;
  std::vector<std::unique_ptr<child>> taken_;  // by seat; null: nobody is there
  bool was_open_ = false;                      // at any time
  counts done_;
};

}  // namespace icecore::testing
