// What the processes that share a store have written and seen, in memory that survives them.
//
//   shared<ledger> all;
//   own_keys mine(*all, 3);
//   mine.take_over(s);                       // what the writer before this one has left is what it was told
//   mine.write_one(s, random);
//   check_any(s, *all, writers, random);     // a key of whichever writer
//   note(s.latest(), *all);                  // what it shows must never change
//   check_noted(s, *all, 7);
//
// Each key has one writer at a time, which counts its writes: the value tells the number, and every fifth write removes
// the key. A write is noted as begun before the call and as acknowledged behind it. So what a key shows is a write from
// the last acknowledged one, read before the find, to the last one that was begun, read after it.
// Threads: any. Throws broken_promise.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <random>
#include <string>

#include "icecore/store.hpp"

namespace icecore::testing {

struct ledger {
  static constexpr unsigned writers_max = 16;
  static constexpr unsigned keys = 120;  ///< of each writer
  static constexpr unsigned noted_max = 64;

  struct line {
    std::atomic<std::uint64_t> begun;
    std::atomic<std::uint64_t> acknowledged;
  };
  struct noted_version {
    std::atomic<version> at;  ///< 0: none, or one is being noted
    std::atomic<std::uint64_t> digest;
  };
  std::array<std::array<line, keys>, writers_max> lines;
  std::array<noted_version, noted_max> noted;
  std::atomic<unsigned> noted_count;
  std::atomic<std::uint64_t> writes;
  std::atomic<std::uint64_t> finds;
  std::atomic<std::uint64_t> versions_checked;
};

using random_numbers = std::mt19937_64;

/// The keys of one writer.
class own_keys {
 public:
  own_keys(ledger& in, unsigned writer) noexcept : all_(&in), writer_(writer) {}

  /// Checks all of them, and notes which writes that were under way when the last writer was killed took effect. Call
  /// while nobody writes them.
  void take_over(const store& s);
  /// A write, or a batch of several.
  void write_one(store& s, random_numbers& random);

 private:
  [[nodiscard]] ledger::line& line_of(unsigned key) const noexcept { return all_->lines[writer_][key]; }

  ledger* all_;
  unsigned writer_;
};

/// Finds a key of one of the first `writers`.
void check_any(const store& s, ledger& all, unsigned writers, random_numbers& random);
/// Notes what the version shows. Cost: a scan.
void note(const snapshot& s, ledger& all);
/// Whether a noted version shows the same, unless it has expired. Cost: a scan.
void check_noted(const store& s, ledger& all, unsigned number);
/// Throws unless verify() finds nothing.
void check_sound(const verify_report& report, const char* of);

}  // namespace icecore::testing
