// Keys other than random numbers: ascending numbers, and path-like strings with long shared prefixes. Inserts, finds at
// random versions, a snapshot in each thread.
#include <fmt/format.h>

#include <memory>

#include "../measure.hpp"
#include "timeline.hpp"

namespace icecore::bench {
namespace {

constexpr std::size_t path_size = 31;

struct inputs {
  explicit inputs(key_list made) : keys(std::move(made)), sorted(sorted_order(keys)) {}
  key_list keys;
  std::vector<std::uint32_t> sorted;
};

key_list ascending_keys(std::uint64_t count) {
  key_list keys(sizeof(std::uint64_t), count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t big_endian = __builtin_bswap64(i);
    std::memcpy(keys.at(i), &big_endian, sizeof big_endian);
  }
  return keys;
}

/// Like the names of tensors of models, in random order.
key_list path_keys(std::uint64_t count) {
  constexpr std::uint64_t tensors = 1024;  // per layer
  constexpr std::uint64_t layers = 1024;   // per model
  key_list keys(path_size, count);
  const auto order = shuffled(count, 9);
  for (std::uint64_t n = 0; n < count; ++n) {
    const std::uint64_t i = order[n];
    const auto path =
        fmt::format("/models/{:03x}/layers/{:04}/t{:06}", i / (tensors * layers), i / tensors % layers, i % tensors);
    expect(path.size() == path_size, "more keys than the paths have names for");
    std::ranges::copy(path, keys.at(n));
  }
  return keys;
}

void measure(const inputs& in, const run& r) {
  const std::uint64_t n = in.keys.size();
  const auto operations = static_cast<double>(n);
  const auto s = r.open(n, in.keys.key_size(), sizeof(std::uint64_t));

  std::vector<version> inserted(n);
  r.out.add("insert", n, operations, insert_all(*s, r.threads, in.keys, 0, inserted));
  const timeline past(in.keys, inserted, {});
  const version newest = s->clock() - 1;
  r.out.add("find", n, operations, find_all(*s, r.threads, past.ask(n, newest, 10)));
  const std::vector<version> at(r.threads, newest);
  const double seconds = snapshot_in_each(*s, at, n, in.keys.key_size(), [&](unsigned, const pair_columns& pairs) {
    past.check_snapshot(pairs, newest, in.sorted);
  });
  r.out.add("snapshot", n, r.threads, seconds);
}

suite suite_of_keys(std::string name, std::string what, key_list (*make)(std::uint64_t)) {
  return {.name = std::move(name), .what = std::move(what), .prepare = [make](std::uint64_t n) -> std::vector<stage> {
            const auto in = std::make_shared<const inputs>(make(n));
            return {{.work = [in](const run& r) { measure(*in, r); }}};
          }};
}

}  // namespace

suite paths_suite() {
  return suite_of_keys("paths", "path-like keys of 31 bytes with long shared prefixes: inserts, finds, snapshots",
                       path_keys);
}

suite sequential_suite() {
  return suite_of_keys("sequential", "ascending keys, a range for each thread: inserts, finds, snapshots",
                       ascending_keys);
}

}  // namespace icecore::bench
