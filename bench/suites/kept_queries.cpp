// What a query that is kept costs beside the same filter asked once, and what a filter costs beside a plain scan.
#include <fmt/format.h>

#include <atomic>
#include <thread>

#include "../measure.hpp"
#include "../stores/icecore_filtered.hpp"
#include "icecore/icecore.hpp"
#include "phases.hpp"
#include "query.hpp"

namespace icecore::bench {
namespace {

constexpr unsigned pairs_of_overheads = 9;
constexpr const char* a_ratio = "ratio";

icecore::snapshot newest(icecore::store& of) { return of.at(of.clock() - 1); }

/// The rows of a query, one key after another.
std::string rows_of(const query& q) {
  std::string keys;
  auto rows = q.results(0, false);
  for (const auto& row : rows) keys.append(row.key);
  return keys;
}

/// Starts a query, runs it to its end and drops it; what running it took. Checks the number of its rows.
cost run_query(icecore::store& s, const query_request& what, const run_options& how, std::uint64_t rows) {
  query q = s.start(what);
  query_progress done{};
  const cost took = timed([&] { done = q.run(how); });
  expect(done.state == query_state::finished && done.rows == rows, "the rows of a query");
  q.drop();
  return took;
}

std::vector<result_values> extract_keys(icecore::store& s, const icecore::filter& where, unsigned threads) {
  return newest(s).extract(where, {"key"}, threads);
}

cost filter_once(icecore::store& s, const icecore::filter& where, unsigned threads, std::uint64_t rows) {
  std::vector<result_values> found;
  const cost took = timed([&] { found = extract_keys(s, where, threads); });
  expect(found.front().size == rows, "the keys of a filter");
  return took;
}

void check_rows(const query_inputs& in, const run& r, icecore::store& s, std::int64_t below) {
  query q = s.start({.name = "checked", .where = icecore_filtered::condition(below)});
  q.run({.threads = r.threads});
  expect(rows_of(q) == in.expected(below), "the keys of a kept query");
  q.drop();
}

/// Keys, and counts alone, at the default `every`.
void default_every(const query_inputs& in, const run& r, icecore::store& s) {
  for (const std::uint64_t thousandth : query_inputs::thousandths) {
    const std::int64_t below = query_inputs::bound_of(thousandth);
    const std::string percent = query_inputs::percent_of(thousandth);
    const icecore::filter where = icecore_filtered::condition(below);
    const std::uint64_t rows = in.expected(below).size() / sizeof(std::uint64_t);
    check_rows(in, r, s, below);
    const auto keys = in_turns(
        pairs_of_overheads, [&] { return filter_once(s, where, r.threads, rows); },
        [&] { return run_query(s, {.name = "kept", .where = where}, {.threads = r.threads}, rows); });
    r.out.add("kept_" + percent, in.n(), static_cast<double>(in.n()), keys.second);
    r.out.add_value(fmt::format("kept_{}_over_filter", percent), in.n(), keys.ratio, a_ratio);
    r.out.add_value(fmt::format("kept_{}_over_filter_cpu", percent), in.n(), keys.cpu_ratio, a_ratio);
    const auto counts = in_turns(
        pairs_of_overheads,
        [&] { return timed([&] { expect(newest(s).count(where, r.threads) == rows, "a count"); }); },
        [&] {
          return run_query(s, {.name = "kept", .where = where, .keep = query_keeps::count}, {.threads = r.threads},
                           rows);
        });
    r.out.add_value(fmt::format("count_{}_over_filter", percent), in.n(), counts.ratio, a_ratio);
    r.out.add_value(fmt::format("count_{}_over_filter_cpu", percent), in.n(), counts.cpu_ratio, a_ratio);
  }
}

void start_and_drop(const query_inputs& in, const run& r, icecore::store& s) {
  constexpr unsigned starts = 20;
  std::vector<double> seconds;
  for (unsigned i = 0; i < starts; ++i) {
    query q = [&] {
      const auto begin = std::chrono::steady_clock::now();
      query started = s.start({.name = "short", .where = icecore_filtered::condition(0)});
      seconds.push_back(seconds_since(begin));
      return started;
    }();
    q.drop();
  }
  r.out.add("start", in.n(), 1, median(seconds));
}

/// Each key's evaluation durable, beside a filter that keeps nothing: of a cheap expression, and of a slow function.
void every_item(const query_inputs& in, const run& r, icecore::store& s) {
  constexpr std::int64_t below = 100'000;  // a tenth matches
  const icecore::filter where = icecore_filtered::condition(below);
  const std::uint64_t rows = in.expected(below).size() / sizeof(std::uint64_t);
  const auto cheap = in_turns(
      3, [&] { return filter_once(s, where, r.threads, rows); },
      [&] { return run_query(s, {.name = "each", .where = where}, {.threads = r.threads, .every_item = true}, rows); });
  const double more_ns = (cheap.second - cheap.first) / static_cast<double>(in.n()) * 1e9 * r.threads;
  r.out.add_value("every_item_more", in.n(), std::max(more_ns, 1e-9), "ns a key");

  static constexpr auto works = std::chrono::microseconds(100);
  constexpr std::uint64_t calls = 2000;
  const auto slow = icecore::filter::of("slow", 1, [](const item& one) {
    const auto until = std::chrono::steady_clock::now() + works;
    while (std::chrono::steady_clock::now() < until) {
    }
    return signed_number_of(one.value) < below;
  });
  std::vector<std::uint64_t> keys;
  for (const filtered_pair& p : in.pairs()) keys.push_back(p.key);
  const auto last = keys.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(calls, keys.size() - 1));
  std::ranges::nth_element(keys, last);
  const auto bound = filtered_pair{*last, 0}.key_bytes();
  std::string hex;
  for (const char byte : bound) hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  const auto few = icecore::filter::all_of({icecore::filter(fmt::format("key < x'{}'", hex)), slow});
  std::uint64_t slow_rows = 0;
  for (const filtered_pair& p : in.pairs()) slow_rows += p.key < *last && p.number < below ? 1 : 0;
  const auto slowly = in_turns(
      3, [&] { return filter_once(s, few, 1, slow_rows); },
      [&] { return run_query(s, {.name = "slow", .where = few}, {.threads = 1, .every_item = true}, slow_rows); });
  r.out.add_value("every_item_of_100_us", calls, slowly.ratio, a_ratio);
}

/// Bytes of the file a match where a tenth matches, and a key examined where all do, and whether dropping gives them
/// back.
void space(const query_inputs& in, const run& r, icecore::store& s) {
  const auto before_and_after = [&](const char* name, const icecore::filter& where) {
    const std::uint64_t before = s.stats().used_bytes;
    query q = s.start({.name = name, .where = where});
    q.run({.threads = r.threads});
    return std::pair(static_cast<double>(s.stats().used_bytes - before), std::move(q));
  };
  auto [of_all, all] = before_and_after("all", icecore::filter("true"));
  r.out.add_value("bytes_a_key_where_all_match", in.n(), of_all / static_cast<double>(in.n()), "bytes");
  constexpr std::int64_t below = 100'000;
  auto [of_tenth, tenth] = before_and_after("tenth", icecore_filtered::condition(below));
  const std::uint64_t rows = in.expected(below).size() / sizeof(std::uint64_t);
  constexpr std::uint64_t rows_min = 1'000'000;  // with fewer, what is left of the newest segment counts for too much
  if (rows >= rows_min) r.out.add_value("bytes_a_match", in.n(), of_tenth / static_cast<double>(rows), "bytes");
  const auto after_one = static_cast<double>(bytes_of_files(r.folder));
  all.drop();
  tenth.drop();
  for (int i = 0; i < 100; ++i) run_query(s, {.name = "one of 100"}, {.threads = r.threads}, in.n());
  r.out.add_value("file_after_100_queries", in.n(), static_cast<double>(bytes_of_files(r.folder)) / after_one, a_ratio);
}

}  // namespace

void measure_kept_queries(const query_inputs& in, const run& r, icecore_filtered& s) {
  space(in, r, s.store());  // first: the file has grown for no other query
  default_every(in, r, s.store());
  start_and_drop(in, r, s.store());
  every_item(in, r, s.store());
}

void measure_filter_costs(const query_inputs& in, const run& r, icecore_filtered& filtered) {
  icecore::store& s = filtered.store();
  constexpr std::int64_t below = 100'000;
  const std::uint64_t rows = in.expected(below).size() / sizeof(std::uint64_t);
  const icecore::filter where = icecore_filtered::condition(below);
  const auto n = static_cast<double>(in.n());

  pair_columns all(in.n(), sizeof(std::uint64_t), sizeof(std::int64_t));
  const auto extract_all = [&] {
    return timed([&] {
      const std::size_t count = newest(s).extract({.keys = all.keys(),
                                                   .key_size = all.key_size(),
                                                   .values = all.values(),
                                                   .value_size = all.value_size(),
                                                   .capacity = all.capacity()},
                                                  r.threads);
      expect(count == in.n(), "an extraction");
    });
  };
  const auto filter_both = [&] {
    return timed([&] {
      expect(newest(s).extract(where, {"key", "number"}, r.threads).front().size == rows, "columns of a filter");
    });
  };
  const auto beside_extract = in_turns(pairs_of_overheads, extract_all, filter_both);
  r.out.add("extract", in.n(), n, beside_extract.first);
  r.out.add_value("filter_10_over_extract", in.n(), beside_extract.ratio, a_ratio);
  r.out.add_value("filter_10_over_extract_cpu", in.n(), beside_extract.cpu_ratio, a_ratio);

  // the same comparison, compiled by the compiler into the same scan
  const auto compiled = icecore::filter::of("compiled", 1, [](std::span<const item> items, std::span<bool> flags) {
    for (std::size_t i = 0; i < items.size(); ++i) flags[i] = signed_number_of(items[i].value) < below;
  });
  const auto beside_compiled = in_turns(
      pairs_of_overheads,
      [&] { return timed([&] { expect(newest(s).count(compiled, r.threads) == rows, "a compiled count"); }); },
      [&] { return timed([&] { expect(newest(s).count(where, r.threads) == rows, "a count"); }); });
  r.out.add_value("expression_over_compiled", in.n(), beside_compiled.ratio, a_ratio);
  r.out.add_value("expression_over_compiled_cpu", in.n(), beside_compiled.cpu_ratio, a_ratio);

  std::vector<double> seconds;
  for (unsigned i = 0; i < 3; ++i) {
    std::atomic<std::uint64_t> found{0};
    seconds.push_back(timed([&] {
                        newest(s).for_each(
                            [&](const item& one) {
                              if (signed_number_of(one.value) < below)
                                found.fetch_add(1, std::memory_order_relaxed);  // a counter
                            },
                            r.threads);
                      }).seconds);
    expect(found.load(std::memory_order_relaxed) == rows, "for_each");
  }
  r.out.add("for_each_10", in.n(), n, median(seconds));
}

/// `threads` writers give keys new numbers while one thread reads a closed version again and again.
void measure_writers_beside(const query_inputs& in, const run& r, icecore_filtered& filtered) {
  icecore::store& s = filtered.store();
  const version at = s.clock() - 1;
  constexpr std::int64_t below = 100'000;
  const std::uint64_t rows = in.expected(below).size() / sizeof(std::uint64_t);
  const icecore::filter where = icecore_filtered::condition(below);
  constexpr double shortest_s = 0.2;

  const auto seconds_a_write_beside = [&](const std::function<void()>& read) {
    std::atomic<bool> ended{false};
    std::atomic<std::uint64_t> written{0};
    std::vector<std::jthread> writers;
    const auto begin = std::chrono::steady_clock::now();
    for (unsigned w = 0; w < r.threads; ++w) {
      writers.emplace_back([&, w] {
        random_numbers random(40 + w);
        std::uint64_t own = 0;
        while (!ended.load(std::memory_order_relaxed)) {  // a hint
          const filtered_pair& p = in.pairs()[random.below(in.n())];
          s.insert(text_of(p.key_bytes()), bytes_of(p.number));
          ++own;
        }
        written.fetch_add(own, std::memory_order_relaxed);  // joining orders it
      });
    }
    do read();
    while (seconds_since(begin) < shortest_s);
    ended.store(true, std::memory_order_relaxed);
    writers.clear();
    const double seconds_a_write = seconds_since(begin) / static_cast<double>(written.load(std::memory_order_relaxed));
    return cost{seconds_a_write, seconds_a_write};  // the process' cores are the reader's too
  };
  const auto beside = in_turns(
      3,
      [&] {
        return seconds_a_write_beside([&] {
          std::uint64_t found = 0;
          s.at(at).for_each([&](const item& one) { found += signed_number_of(one.value) < below ? 1 : 0; }, 1);
          expect(found == rows, "for_each beside writers");
        });
      },
      [&] {
        return seconds_a_write_beside(
            [&] { run_query(s, {.name = "beside writers", .at = at, .where = where}, {}, rows); });
      });
  r.out.add("writes_beside_query", in.n(), 1, beside.second);
  r.out.add_value("writes_beside_query_over_scan", in.n(), 1 / beside.ratio, a_ratio);
}

}  // namespace icecore::bench
