// A child process that writes with several threads, tags, closes and reopens, until it is killed; what it was told is
// done it notes in memory it shares with its parent, who checks the store against these notes.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "icecore/store.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {

class kill_loop {
 public:
  kill_loop(std::filesystem::path path, setting how, unsigned seed)
      : path_(std::move(path)), how_(how), random_(seed) {}

  /// Starts a child, kills it after at most `life_max`, reopens the store and compares it with everything that was ever
  /// acknowledged. Throws broken_promise.
  void cycle(std::chrono::milliseconds life_max);

  [[nodiscard]] std::uint64_t acknowledged_writes() const noexcept { return acknowledged_total_; }
  [[nodiscard]] std::uint64_t recoveries() const noexcept { return recoveries_; }

 private:
  static constexpr unsigned writers = 3;
  static constexpr std::uint64_t writes_max = 1 << 18;  // in one life
  static constexpr std::uint64_t tags_max = 1 << 14;

  struct write_notes {
    std::atomic<std::uint64_t> begun;
    std::atomic<std::uint64_t> acknowledged;
    std::atomic<std::uint64_t> seen;  // the greatest counter that a reader saw
    std::array<version, writes_max> versions;
  };
  struct tag_notes {
    std::atomic<std::uint64_t> begun;
    std::atomic<std::uint64_t> acknowledged;
    std::array<version, tags_max> versions;
    std::array<std::uint64_t, tags_max> fingerprints;
  };
  struct notes {
    std::array<write_notes, writers> write;
    tag_notes tag;
    std::atomic<bool> opened;
  };
  struct record {
    version belongs_to;  // 0: in flight when the child was killed
    std::optional<std::string> value;
  };
  using past = std::map<std::string, std::vector<record>>;
  struct kept_tag {
    version closed;
    std::uint64_t fingerprint;
    std::string name;
  };

  int live(notes& log, unsigned seed);
  void write(store& s, notes& log, unsigned thread, const std::atomic<bool>& stop);
  void tag(store& s, notes& log, const std::atomic<bool>& stop);
  static void read(const store& s, notes& log, const std::atomic<bool>& stop);

  /// What write `n` of `thread` does, done to the store or replayed to the past.
  [[nodiscard]] static std::vector<batch::operation> operations_of(unsigned thread, std::uint64_t n);
  static void replay(past& all, unsigned thread, std::uint64_t n, version belongs_to);

  void check(const store& s, const notes& log);
  void check_thread(const store& s, const notes& log, unsigned thread);
  [[nodiscard]] bool matches(const store& s, const past& wanted, unsigned thread, std::string& why) const;
  void check_tags(const store& s, const notes& log);

  std::filesystem::path path_;
  setting how_;
  std::mt19937 random_;
  unsigned life_ = 0;
  std::array<std::uint64_t, writers> done_{};  // writes of earlier lives
  std::array<past, writers> past_;
  std::vector<kept_tag> tags_;
  version clock_ = 1;  // when the last life was checked
  std::uint64_t acknowledged_total_ = 0;
  std::uint64_t recoveries_ = 0;
};

/// Everything a snapshot holds, as one number, order and all.
[[nodiscard]] std::uint64_t fingerprint(const snapshot& of);

}  // namespace icecore::testing
