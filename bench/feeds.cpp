// What feed::next() costs after 100 changes, in stores of several sizes, beside diff(): icecore_feed_costs [KEYS]...
//
// Keys and values of 8 bytes, in /dev/shm, operation durability (emulated). Medians of 101 rounds of 100 changes to
// random keys: all of one version, and each of its own version. Each answer is checked. diff(): median of 5, of the
// last 100 changes: as they were written, once they are packed with all the rest (compact()), and in a process that has
// just opened that store.
#include "icecore/feed.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "icecore/store.hpp"
#include "measure.hpp"

namespace {

using namespace icecore;
using bench::bytes_of;
using bench::require;

constexpr std::uint64_t changes = 100;

/// Microseconds of next() for each round.
std::vector<double> rounds(store& s, feed& f, std::uint64_t keys, bool version_each, bench::random_numbers& random) {
  std::vector<double> us;
  for (int round = 0; round < 101; ++round) {
    for (std::uint64_t i = 0; i < changes; ++i) {
      const std::uint64_t key = bench::random_key(random.below(keys));
      s.insert(bytes_of(key), bytes_of(i));
      if (version_each) s.tag();
    }
    if (!version_each) s.tag();
    const auto begin = std::chrono::steady_clock::now();
    const feed_batch batch = f.next(10 * changes);
    us.push_back(bench::seconds_since(begin) * 1e6);
    require(batch.changes.size() == changes && batch.told == s.clock() - 1, "the changes of a round");
  }
  return us;
}

/// Milliseconds of a difference over the last changes.
double difference_ms(const store& s) {
  std::vector<double> ms;
  for (int i = 0; i < 5; ++i) {
    std::uint64_t found = 0;
    const auto begin = std::chrono::steady_clock::now();
    auto differences = s.diff(s.clock() - 1 - changes, s.clock() - 1);
    for (auto it = differences.begin(); it != differences.end(); ++it) ++found;
    ms.push_back(bench::seconds_since(begin) * 1e3);
    require(found > 0 && found <= changes, "the differences");
  }
  return bench::median(ms);
}

void measure(std::uint64_t keys) {
  const std::filesystem::path path = fmt::format("/dev/shm/icecore-feed-costs-{}.ice", keys);
  std::filesystem::remove(path);
  {
    options opening;
    opening.durability = durability::operation;
    opening.emulate_durability = true;
    store s(path, opening);
    for (std::uint64_t i = 0; i < keys; ++i) {
      const std::uint64_t key = bench::random_key(i);
      s.insert(bytes_of(key), bytes_of(i));
    }
    s.tag();
    feed f = s.feed({});
    bench::random_numbers random(7);
    static_cast<void>(f.next());
    const double one = bench::median(rounds(s, f, keys, false, random));
    const version before = s.clock() - 1;
    const double each = bench::median(rounds(s, f, keys, true, random));
    require(before < s.clock(), "the versions");
    const double diff = difference_ms(s);
    s.compact();
    fmt::print(
        "{:>10} keys: next() {:>7.1f} us (one version), {:>7.1f} us (100 versions); diff {:>8.3f} ms, {:.0f} times; "
        "packed {:.3f} ms",
        keys, one, each, diff, diff * 1e3 / each, difference_ms(s));
  }
  {
    options opening;
    opening.access = access::read_only;
    const store s(path, opening);
    fmt::print(", opened anew {:.3f} ms\n", difference_ms(s));
  }
  std::filesystem::remove(path);
}

}  // namespace

int main(int count, char** arguments) {
  std::vector<std::uint64_t> sizes;
  for (int i = 1; i < count; ++i) sizes.push_back(std::stoull(arguments[i]));
  if (sizes.empty()) sizes = {2'000'000, 10'000'000};
  for (const std::uint64_t keys : sizes) measure(keys);
}
