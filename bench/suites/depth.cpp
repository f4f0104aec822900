// Deep histories: n records spread over keys 10, 1,000 and 100,000 deep (if there are enough records), written in
// random order; finds at random versions; whole histories.
#include <algorithm>
#include <memory>

#include "../measure.hpp"
#include "phases.hpp"

namespace icecore::bench {
namespace {

struct inputs {
  inputs(std::uint64_t records, std::uint64_t depth_of_each)
      : depth(depth_of_each), key_count(records / depth), keys(random_keys(0, key_count)) {
    const auto order = shuffled(key_count * depth, 7);
    written.resize(order.size());
    std::ranges::transform(order, written.begin(), [&](std::uint32_t i) { return i % key_count; });
  }

  std::uint64_t depth;
  std::uint64_t key_count;
  key_list keys;
  std::vector<std::uint32_t> written;  // the key of each record, in the order of writing
};

/// The changes of each key, oldest first; the value of a record is its position in `written`.
using pasts = std::vector<std::vector<recorded_change>>;

/// A key belongs to one thread, so the versions of its records ascend.
double write_all(const inputs& in, store& s, unsigned threads, pasts& past) {
  std::vector<std::vector<std::uint32_t>> of_thread(threads);
  for (std::size_t record = 0; record < in.written.size(); ++record) {
    of_thread[in.written[record] % threads].push_back(static_cast<std::uint32_t>(record));
  }
  std::vector<version> versions(in.written.size());
  const double seconds = timed_sessions(s, threads, [&](session& own, unsigned thread) {
    for (const std::uint64_t record : of_thread[thread]) {
      versions[record] =
          own.insert(in.keys[in.written[record]], {reinterpret_cast<const char*>(&record), sizeof record});
      own.tag();
    }
    own.commit();
  });
  past.assign(in.key_count, {});
  for (std::size_t record = 0; record < in.written.size(); ++record) {
    past[in.written[record]].push_back({versions[record], record});
  }
  return seconds;
}

questions ask(const inputs& in, const pasts& past, std::uint64_t count, version newest) {
  questions asked{.keys = key_list(in.keys.key_size(), count), .at = {}, .expected = {}};
  random_numbers random(8);
  for (std::uint64_t n = 0; n < count; ++n) {
    const std::uint64_t key = random.below(in.key_count);
    const version at = 1 + random.below(newest);
    const auto above = std::ranges::upper_bound(past[key], at, {}, &recorded_change::version);
    std::ranges::copy(in.keys[key], asked.keys.at(n));
    asked.at.push_back(at);
    asked.expected.push_back(above == past[key].begin() ? missing : (above - 1)->value.value());
  }
  return asked;
}

void measure(const inputs& in, const run& r) {
  const auto s = r.open(in.written.size(), in.keys.key_size(), sizeof(std::uint64_t));
  const auto named = [&](const char* what) { return what + std::to_string(in.depth); };
  const auto records = in.written.size();

  pasts past;
  const double write_s = write_all(in, *s, r.threads, past);
  r.out.add(named("insert_"), records, static_cast<double>(records), write_s);

  const questions asked = ask(in, past, records, s->clock() - 1);
  r.out.add(named("find_"), records, static_cast<double>(records), find_all(*s, r.threads, asked));

  for (auto& changes : past) std::ranges::reverse(changes);
  const double history_s =
      history_all(*s, r.threads, in.keys, [&](std::size_t i) { return std::span<const recorded_change>(past[i]); });
  r.out.add(named("history_"), records, static_cast<double>(in.key_count), history_s);
}

}  // namespace

suite depth_suite() {
  return {.name = "depth",
          .what = "histories 10, 1,000 and 100,000 deep: inserts, finds at random versions, whole histories",
          .prepare = [](std::uint64_t n) {
            std::vector<stage> stages;
            for (const std::uint64_t depth : {10U, 1'000U, 100'000U}) {
              if (depth > n) continue;
              const auto in = std::make_shared<const inputs>(n, depth);
              stages.push_back({.work = [in](const run& r) { measure(*in, r); }});
            }
            return stages;
          }};
}

}  // namespace icecore::bench
