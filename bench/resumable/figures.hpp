// The measurements of the two figures, each repetition in a process of its own.
#pragma once

#include <filesystem>
#include <vector>

#include "subject.hpp"

namespace icecore::bench::resumable {

struct settings {
  std::uint64_t keys = 100'000;  ///< that may be there; half of them are loaded
  std::vector<unsigned> threads = {1, 2, 4, 8};
  double seconds = 0.4;         ///< of a point of figure 1
  std::uint64_t items = 2'000;  ///< loaded in figure 2; as many keys again may be inserted
  std::vector<std::size_t> item_sizes = {8, 4096, 16384, 32768};
  unsigned repetitions = 3;
  unsigned sleep_us = 100;  ///< of a query, for each item
  std::filesystem::path folder = "/dev/shm";
  std::filesystem::path disk = "/var/tmp";
};

struct mix {
  const char* name;
  unsigned gets, inserts;  // percent; the rest are removes
};
inline constexpr mix write_heavy = {"10/45/45", 10, 45};
inline constexpr mix read_mostly = {"80/20", 80, 20};

/// One result: of figure 1 operations a second, of figure 2 queries a second.
struct outcome {
  double per_second;
  double operations;  ///< done by all threads together
  double bytes;       ///< in use at the end; 0: not known
  double
      per_cpu_second;  ///< of figure 1: operations a second that the threads had a core; what other load changes less
};

/// Figure 1: `threads` threads do operations beside one query.
[[nodiscard]] outcome throughput(const settings& chosen, const kind& of, structure is, const mix& does,
                                 unsigned threads);

/// Figure 2: a query with a kill at half of its items, beside a thread that does operations.
[[nodiscard]] outcome completion(const settings& chosen, const kind& of, structure is, std::size_t item_size);

// For both.

/// Makes every second key of `keys` there.
void load(subject& into, std::uint64_t keys, std::size_t item_size);
/// One operation on a random key.
void operate(subject& on, const mix& does, std::uint64_t keys, std::uint64_t random, std::span<char> item);
/// Sleeps for so long and not much longer.
void sleep_us(unsigned us);

}  // namespace icecore::bench::resumable
