// Insert, remove, find at a random version, snapshot and reopening, with and without flushes, compared with the
// budgets.
//
// The work: `keys` random 8-byte keys with 8-byte values, a tag after every write. The budgets were measured with a
// prototype of the same algorithms on a quiet 2-core virtual machine; they are lower limits. Memory latency bounds
// point operations, so the latency of this machine is measured too.
#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>

#include "icecore/icecore.hpp"
#include "machine_limits.hpp"
#include "report.hpp"

namespace icecore::bench {
namespace {

/// The results of one repetition in one mode with one number of threads.
struct figures {
  double insert_mops, remove_mops, find_mops, snapshot_s, reopen_s;
};

struct quantity {
  const char* name;
  double figures::*value;
  bool is_rate;                          // else seconds, where less is better
  std::array<double, 2> budget_flushed;  // by 1 and 2 threads; 0: none
  std::array<double, 2> budget_unflushed;
};
constexpr std::array<quantity, 5> quantities = {{
    {"insert of a new key, M/s", &figures::insert_mops, true, {3.1, 5.1}, {3.7, 5.4}},
    {"remove, M/s", &figures::remove_mops, true, {3.4, 5.8}, {5.1, 8.2}},
    {"find at a random version, M/s", &figures::find_mops, true, {2.5, 5.0}, {2.5, 5.0}},
    {"one snapshot a thread, s", &figures::snapshot_s, false, {0.045, 0.060}, {0.045, 0.060}},
    {"reopen, s", &figures::reopen_s, false, {0, 0}, {0, 0}},
}};

constexpr std::uint64_t keys_of_budgets = 2'000'000;

/// The time of a random access on the machine of the budgets, in ns.
constexpr double small_page_ns_of_budgets = 194;
constexpr double huge_page_ns_of_budgets = 167;

using numbers = map<std::uint64_t, std::uint64_t>;

void expect(bool right, const char* what) {
  if (!right) throw std::runtime_error(std::string("a wrong answer: ").append(what));
}

double insert_all(store& s, std::uint64_t keys, unsigned threads) {
  return timed_in_threads(threads, [&](unsigned thread) {
    numbers all(s);
    for (std::uint64_t i = keys * thread / threads; i < keys * (thread + 1) / threads; ++i) {
      all.insert(random_key(i), i);
      s.tag();
    }
  });
}

/// In a different order from the order of insertion.
double remove_all(store& s, std::uint64_t keys, unsigned threads) {
  constexpr std::uint64_t stride = 1'000'000'007;  // a prime above any number of keys: visits each key once
  return timed_in_threads(threads, [&](unsigned thread) {
    numbers all(s);
    for (std::uint64_t i = keys * thread / threads; i < keys * (thread + 1) / threads; ++i) {
      expect(all.remove(random_key(i * stride % keys)).has_value(), "remove of a key that is there");
      s.tag();
    }
  });
}

double find_all(store& s, std::uint64_t keys, unsigned threads) {
  const version newest = s.clock() - 1;
  return timed_in_threads(threads, [&](unsigned thread) {
    const numbers all(s);
    random_numbers random(thread + 1);
    const std::uint64_t count = keys / threads;
    std::uint64_t found = 0;
    for (std::uint64_t n = 0; n < count; ++n) {
      const std::uint64_t i = random.below(keys);
      const auto value = all.find(random_key(i), 1 + random.below(newest));
      found += value.has_value() ? 1 : 0;
      expect(value.value_or(i) == i, "find");
    }
    // keys came one by one, and versions are even: about half of the finds look after the insert
    expect(found > count * 4 / 10 && found < count * 6 / 10, "find at a random version");
  });
}

double snapshot_in_each(store& s, std::uint64_t keys, unsigned threads) {
  const numbers all(s);
  const auto now = all.latest();
  std::vector<std::vector<std::uint64_t>> key_columns(threads, std::vector<std::uint64_t>(keys));
  std::vector<std::vector<std::uint64_t>> value_columns(threads, std::vector<std::uint64_t>(keys));
  const double seconds = timed_in_threads(threads, [&](unsigned thread) {
    expect(now.extract(key_columns[thread], value_columns[thread], 1) == keys, "size of the snapshot");
  });
  for (unsigned thread = 0; thread < threads; ++thread) {
    expect(std::ranges::is_sorted(key_columns[thread]), "order of the snapshot");
    for (std::size_t i = 0; i < keys; i += 1 + keys / 1000) {
      expect(random_key(value_columns[thread][i]) == key_columns[thread][i], "values of the snapshot");
    }
  }
  return seconds;
}

figures run_once(const settings& chosen, bool flushed, unsigned threads, unsigned files = 1) {
  const scratch_file file(chosen.folder, "icecore-budgets");
  std::vector<std::unique_ptr<scratch_file>> further;
  options opening;
  for (unsigned n = 1; n < files; ++n) {
    further.push_back(std::make_unique<scratch_file>(chosen.folder, "icecore-budgets-" + std::to_string(n)));
    opening.placements.push_back({further.back()->path(), -1});
  }
  opening.durability = flushed ? durability::operation : durability::none;
  opening.emulate_durability = flushed;
  opening.recovery_threads = threads;
  const auto million_per_second = [&](double seconds) { return static_cast<double>(chosen.keys) / seconds / 1e6; };
  figures result{};
  store s(file.path(), opening);
  result.insert_mops = million_per_second(insert_all(s, chosen.keys, threads));
  result.find_mops = million_per_second(find_all(s, chosen.keys, threads));
  result.snapshot_s = snapshot_in_each(s, chosen.keys, threads);
  s.close();
  const auto begin = std::chrono::steady_clock::now();
  s = store(file.path(), opening);
  result.reopen_s = seconds_since(begin);
  result.remove_mops = million_per_second(remove_all(s, chosen.keys, threads));
  expect(s.latest().size() == 0, "size after all removes");
  return result;
}

/// The measured value relative to the budget: more than 1 is better than the budget.
double ratio(const quantity& q, double measured, double budget) {
  return q.is_rate ? measured / budget : budget / measured;
}

}  // namespace

json measure_points(const settings& chosen) {
  std::map<std::pair<bool, unsigned>, std::vector<figures>> runs;
  const unsigned total = chosen.repetitions;
  for (unsigned repetition = 0; repetition < total; ++repetition) {
    for (const unsigned threads : chosen.threads) {
      for (const bool flushed : {true, false}) {  // interleaved, so changes in the machine's speed affect both
        tell("repetition " + std::to_string(repetition + 1) + " of " + std::to_string(total) + ", " +
             std::to_string(threads) + (threads == 1 ? " thread, " : " threads, ") +
             (flushed ? "flushed" : "unflushed"));
        runs[{flushed, threads}].push_back(run_once(chosen, flushed, threads));
      }
    }
  }
  tell("");
  constexpr std::size_t latency_bytes = std::size_t{256} << 20;
  const double small_page_ns = random_access_ns(latency_bytes, false);
  const double huge_page_ns = random_access_ns(latency_bytes, true);
  table shown(
      {"median of " + std::to_string(total), "threads", "flushed", "budget", "ratio", "unflushed", "budget", "ratio"});
  json rows = json::array();
  for (const auto& q : quantities) {
    for (const unsigned threads : chosen.threads) {
      std::vector<std::string> row = {q.name, std::to_string(threads)};
      json one = {{"quantity", q.name}, {"threads", threads}};
      for (const bool flushed : {true, false}) {
        std::vector<double> values;
        for (const auto& f : runs[{flushed, threads}]) values.push_back(f.*q.value);
        const double measured = median(values);
        const auto& budgets = flushed ? q.budget_flushed : q.budget_unflushed;
        const double budget = threads <= 2 ? budgets[threads - 1] : 0;
        const int digits = q.is_rate ? 2 : 3;
        row.push_back(fixed(measured, digits));
        row.push_back(budget > 0 ? fixed(budget, digits) : "-");
        row.push_back(budget > 0 ? fixed(ratio(q, measured, budget), 2) : "-");
        json& part = one[flushed ? "flushed" : "unflushed"];
        part["median"] = measured;
        part["all"] = values;
        if (budget > 0) part["budget"] = budget;
        if (budget > 0) part["ratio"] = ratio(q, measured, budget);
      }
      shown.add(std::move(row));
      rows.push_back(std::move(one));
    }
  }
  shown.print();
  if (chosen.keys != keys_of_budgets) std::printf("The budgets are for %d keys.\n", static_cast<int>(keys_of_budgets));
  std::printf(
      "A random access takes %.0f ns in 4 KiB pages and %.0f ns in 2 MiB pages; with the budgets %.0f and %.0f.\n",
      small_page_ns, huge_page_ns, small_page_ns_of_budgets, huge_page_ns_of_budgets);
  return {{"access_ns_4k_pages", small_page_ns}, {"access_ns_2m_pages", huge_page_ns}, {"rows", std::move(rows)}};
}

json measure_files(const settings& chosen, unsigned files) {
  constexpr double cost_max = 0.06;
  table shown({"median of " + std::to_string(chosen.repetitions), "threads", "", "one file",
               std::to_string(files) + " files", "cost"});
  json rows = json::array();
  for (const unsigned threads : chosen.threads) {
    for (const bool flushed : {true, false}) {
      std::vector<figures> one;
      std::vector<figures> several;
      for (unsigned repetition = 0; repetition < chosen.repetitions; ++repetition) {
        tell("repetition " + std::to_string(repetition + 1) + ", " + std::to_string(threads) + " threads");
        // pairs, each in the other order than the pair before, so changes in the machine's speed affect both
        for (const bool first : {true, false}) {
          const bool is_one = first == (repetition % 2 == 0);
          (is_one ? one : several).push_back(run_once(chosen, flushed, threads, is_one ? 1 : files));
        }
      }
      for (const auto& q : quantities) {
        const auto median_of = [&](const std::vector<figures>& of) {
          std::vector<double> values;
          for (const auto& f : of) values.push_back(f.*q.value);
          return median(values);
        };
        std::vector<double> costs;  // of each pair
        for (std::size_t i = 0; i < one.size(); ++i) {
          const double ratio = several[i].*q.value / (one[i].*q.value);
          costs.push_back(q.is_rate ? 1 / ratio - 1 : ratio - 1);
        }
        const double cost = median(costs);
        const int digits = q.is_rate ? 2 : 3;
        shown.add({q.name, std::to_string(threads), flushed ? "flushed" : "unflushed", fixed(median_of(one), digits),
                   fixed(median_of(several), digits), fixed(100 * cost, 1) + " %"});
        rows.push_back({{"quantity", q.name},
                        {"threads", threads},
                        {"flushed", flushed},
                        {"one", median_of(one)},
                        {"several", median_of(several)},
                        {"cost", cost},
                        {"budget", cost_max}});
      }
    }
  }
  tell("");
  shown.print();
  std::printf("Budget: %.0f %%. The cost is the median of those of pairs that were measured one after the other.\n",
              100 * cost_max);
  return rows;
}

}  // namespace icecore::bench
