// How long one insert takes: of n inserts of random keys, with a tag after each, the 99.9th percentile and the longest.
#include <memory>

#include "../measure.hpp"
#include "../ycsb/histogram.hpp"
#include "phases.hpp"

namespace icecore::bench {
namespace {

struct inputs {
  explicit inputs(std::uint64_t n) : keys(random_keys(0, n)) {}
  key_list keys;
};

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

void measure(const inputs& in, const run& r) {
  const std::uint64_t n = in.keys.size();
  const auto s = r.open(n, in.keys.key_size(), sizeof(std::uint64_t));
  std::vector<ycsb::histogram> taken(r.threads);
  timed_sessions(*s, r.threads, [&](session& own, unsigned thread) {
    const part mine(n, r.threads, thread);
    for (std::uint64_t i = mine.begin; i < mine.end; ++i) {
      const std::uint64_t begin = now_ns();
      own.insert(in.keys[i], {reinterpret_cast<const char*>(&i), sizeof i});
      own.tag();
      taken[thread].add(now_ns() - begin);
    }
    own.commit();
  });
  ycsb::histogram all;
  for (const auto& one : taken) all.add(one);
  constexpr double ns_a_ms = 1e6, ns_a_us = 1e3, percent = 99.9;
  r.out.add_value("insert_p99.9", n, static_cast<double>(all.percentile(percent)) / ns_a_us, "us");
  r.out.add_value("insert_worst", n, static_cast<double>(all.max()) / ns_a_ms, "ms");
  const auto own = s->new_session();
  const auto last = own->find(in.keys[n - 1], s->clock() - 1);
  expect(last && number_of(*last) == n - 1, "the value of the last insert");
}

}  // namespace

suite waits_suite() {
  return {.name = "waits",
          .what = "the 99.9th percentile and the longest of all inserts, each with a tag",
          .prepare = [](std::uint64_t n) -> std::vector<stage> {
            const auto in = std::make_shared<const inputs>(n);
            return {{.work = [in](const run& r) { measure(*in, r); }}};
          }};
}

}  // namespace icecore::bench
