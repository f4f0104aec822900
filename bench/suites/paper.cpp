// The evaluation of IPDPS 2022, section V, on one node: N inserts of random keys, N removes in another order, N inserts
// of other keys, with a tag after each; histories, finds at random versions, snapshots of random versions; a kill, the
// reopening, finds again. Beyond the paper: finds of many keys at once, one snapshot extracted by all threads.
#include <chrono>
#include <memory>

#include "../isolated.hpp"
#include "../measure.hpp"
#include "timeline.hpp"

namespace icecore::bench {
namespace {

constexpr std::size_t value_size = sizeof(std::uint64_t);

/// The same for all stores, except the versions, which the current store returned; they are kept for use after its
/// kill.
struct inputs {
  explicit inputs(std::uint64_t count)
      : n(count),
        keys(random_keys(0, 2 * n)),
        first_half(random_keys(0, n)),
        second_half(random_keys(n, n)),
        removal_order(shuffled(n, 2)),
        to_remove(in_order_of(first_half, removal_order)),
        sorted(sorted_order(keys)),
        inserted(2 * n),
        removed(n),
        newest(1) {}

  [[nodiscard]] timeline past() const { return {keys, inserted.all(), removed.all()}; }

  std::uint64_t n;
  key_list keys, first_half, second_half;
  std::vector<std::uint32_t> removal_order;
  key_list to_remove;
  std::vector<std::uint32_t> sorted;
  shared_array<version> inserted, removed, newest;
};

void write(const inputs& in, const run& r, store& s) {
  const auto n = static_cast<double>(in.n);
  r.out.add("insert", in.n, n, insert_all(s, r.threads, in.first_half, 0, in.inserted.all().first(in.n)));

  std::vector<version> removed(in.n);
  r.out.add("remove", in.n, n, remove_all(s, r.threads, in.to_remove, removed));
  for (std::size_t j = 0; j < in.n; ++j) in.removed[in.removal_order[j]] = removed[j];

  figure& more =
      r.out.add("insert_more", in.n, n, insert_all(s, r.threads, in.second_half, in.n, in.inserted.all().last(in.n)));
  if (r.kind.survives_kill) {
    more.bytes_per_key = static_cast<double>(bytes_of_files(r.folder)) / (2 * n);
  }
}

void histories(const inputs& in, const run& r, store& s) {
  random_numbers random(3);
  std::vector<std::uint32_t> chosen(in.n);
  for (auto& i : chosen) i = static_cast<std::uint32_t>(random.below(2 * in.n));
  const timeline past = in.past();
  std::vector<recorded_change> changes;
  std::vector<std::size_t> ends = {0};
  for (const std::uint32_t i : chosen) {
    past.changes_of(i, changes);
    ends.push_back(changes.size());
  }
  const double seconds = history_all(s, r.threads, in_order_of(in.keys, chosen), [&](std::size_t i) {
    return std::span<const recorded_change>(changes).subspan(ends[i], ends[i + 1] - ends[i]);
  });
  r.out.add("history", in.n, static_cast<double>(in.n), seconds);
}

void snapshots(const inputs& in, const run& r, store& s) {
  const timeline past = in.past();
  random_numbers random(5);
  std::vector<version> at(r.threads);
  for (auto& v : at) v = 1 + random.below(in.newest[0]);
  const double seconds = snapshot_in_each(
      s, at, 2 * in.n, in.keys.key_size(),
      [&](unsigned thread, const pair_columns& pairs) { past.check_snapshot(pairs, at[thread], in.sorted); });
  r.out.add("snapshot", 2 * in.n, r.threads, seconds);
}

void one_snapshot(const inputs& in, const run& r, store& s) {
  if (!r.kind.parallel_extract) return;
  const version at = in.newest[0];
  pair_columns pairs(2 * in.n, in.keys.key_size(), value_size);
  const auto own = s.new_session();
  const auto begin = std::chrono::steady_clock::now();
  own->extract(at, pairs, r.threads);
  const double seconds = seconds_since(begin);
  in.past().check_snapshot(pairs, at, in.sorted);
  r.out.add("one_snapshot", 2 * in.n, 1, seconds);
}

void fill_and_ask(const inputs& in, const run& r) {
  std::ranges::fill(in.removed.all(), 0);
  // Never closed: this process is killed with the store open.
  store* const s = r.open(3 * in.n, in.keys.key_size(), value_size).release();
  write(in, r, *s);
  in.newest[0] = s->clock() - 1;
  const auto n = static_cast<double>(in.n);
  histories(in, r, *s);
  const questions asked = in.past().ask(in.n, in.newest[0], 4);
  r.out.add("find", in.n, n, find_all(*s, r.threads, asked));
  r.out.add("find_many", in.n, n, find_many_all(*s, r.threads, asked));
  snapshots(in, r, *s);
  one_snapshot(in, r, *s);
}

void reopen_and_find(const inputs& in, const run& r) {
  const auto begin = std::chrono::steady_clock::now();
  const auto s = r.open(3 * in.n, in.keys.key_size(), value_size);
  r.out.add("reopen", 2 * in.n, 1, seconds_since(begin));
  const questions asked = in.past().ask(in.n, in.newest[0], 6);
  r.out.add("find_after_reopen", in.n, static_cast<double>(in.n), find_all(*s, r.threads, asked));
}

}  // namespace

suite paper_suite() {
  return {.name = "paper",
          .what = "the paper's: inserts, removes, histories, finds, snapshots, a kill, reopening",
          .prepare = [](std::uint64_t n) -> std::vector<stage> {
            const auto in = std::make_shared<const inputs>(n);
            return {{.work = [in](const run& r) { fill_and_ask(*in, r); }},
                    {.work = [in](const run& r) { reopen_and_find(*in, r); }, .reopens = true}};
          }};
}

}  // namespace icecore::bench
