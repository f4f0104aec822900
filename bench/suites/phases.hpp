// The phases that suites consist of: threads that write, find and extract, each with a session of its own, timed from
// their common start to the end of the last one. Every answer is checked; a wrong one ends the run.
//
// Writes and questions are prepared in advance in the order of use, so that reading them costs little compared with the
// work of even the fastest store.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "suite.hpp"

namespace icecore::bench {

/// The value for a key that is not there; no written value is so large.
inline constexpr std::uint64_t missing = std::numeric_limits<std::uint64_t>::max();

/// Keys of one size, one after another.
class key_list {
 public:
  key_list(std::size_t key_size, std::size_t count) : key_size_(key_size), bytes_(key_size * count) {}
  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size() / key_size_; }
  [[nodiscard]] std::size_t key_size() const noexcept { return key_size_; }
  [[nodiscard]] std::string_view operator[](std::size_t i) const noexcept {
    return {bytes_.data() + i * key_size_, key_size_};
  }
  [[nodiscard]] char* at(std::size_t i) noexcept { return bytes_.data() + i * key_size_; }

 private:
  std::size_t key_size_;
  std::vector<char> bytes_;
};

/// Keys first .. first + count - 1 of a set of random, different 8-byte keys.
[[nodiscard]] key_list random_keys(std::uint64_t first, std::uint64_t count);

/// Keys in the order of `order`.
[[nodiscard]] key_list in_order_of(const key_list& keys, std::span<const std::uint32_t> order);

/// 0 .. count - 1 in random order, the same for one seed.
[[nodiscard]] std::vector<std::uint32_t> shuffled(std::uint64_t count, std::uint64_t seed);

/// 0 .. count - 1 in the order of the keys.
[[nodiscard]] std::vector<std::uint32_t> sorted_order(const key_list& keys);

/// The part of `count` units of work that thread number `thread` of `threads` does.
struct part {
  part(std::uint64_t count, unsigned threads, unsigned thread)
      : begin(count * thread / threads), end(count * (thread + 1) / threads) {}
  std::uint64_t begin, end;
};

/// Runs `work(session, thread)` in `threads` threads; returns the seconds from their common start to the end of the
/// last one. Sessions are made before and ended after.
double timed_sessions(store& s, unsigned threads, const std::function<void(session&, unsigned)>& work);

/// Inserts keys[i] with value first_value + i, with a tag after each; versions[i] becomes its version.
double insert_all(store& s, unsigned threads, const key_list& keys, std::uint64_t first_value,
                  std::span<version> versions);

/// Removes keys[i], with a tag after each; versions[i] becomes its version.
double remove_all(store& s, unsigned threads, const key_list& keys, std::span<version> versions);

/// The arguments of finds, and their expected answers.
struct questions {
  key_list keys;
  std::vector<version> at;
  std::vector<std::uint64_t> expected;  // a value, or `missing`
};

double find_all(store& s, unsigned threads, const questions& asked);
/// Finds in groups of 256.
double find_many_all(store& s, unsigned threads, const questions& asked);

/// Reads the history of each of `keys`; `expected(i)` returns the i-th expected history, newest first. The check is
/// timed, so it must be fast.
double history_all(store& s, unsigned threads, const key_list& keys,
                   const std::function<std::span<const recorded_change>(std::size_t)>& expected);

/// Each thread extracts one snapshot of at most `capacity` pairs; `check(thread, pairs)` is not timed.
double snapshot_in_each(store& s, std::span<const version> at, std::size_t capacity, std::size_t key_size,
                        const std::function<void(unsigned, const pair_columns&)>& check);

/// The bytes of all files below the folder, as their device counts them.
[[nodiscard]] std::uint64_t bytes_of_files(const std::filesystem::path& folder);

/// Throws unless `right`.
void expect(bool right, std::string_view what);

}  // namespace icecore::bench
