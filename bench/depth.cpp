// The cost of depth: finds at random versions of histories 1,000 and 1,000,000 deep.
#include <stdexcept>

#include "icecore/icecore.hpp"
#include "report.hpp"

namespace icecore::bench {
namespace {

struct shape {
  std::uint64_t keys;
  std::uint64_t depth;
  [[nodiscard]] std::string name() const {
    const std::string how_deep = std::to_string(depth).append(" deep");
    return keys == 1 ? std::string("1 key, ").append(how_deep)
                     : std::to_string(keys).append(" keys, each ").append(how_deep);
  }
};

using numbers = map<std::uint64_t, std::uint64_t>;

/// Every key is written in every `keys`-th version: key i of round r in version r * keys + i + 1.
void fill(store& s, const shape& of) {
  numbers all(s);
  for (std::uint64_t round = 0; round < of.depth; ++round) {
    for (std::uint64_t i = 0; i < of.keys; ++i) {
      all.insert(random_key(i), round);
      s.tag();
    }
  }
}

double nanoseconds_a_find(store& s, const shape& of, std::uint64_t finds, std::uint64_t seed) {
  const numbers all(s);
  random_numbers random(seed);
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint64_t n = 0; n < finds; ++n) {
    const std::uint64_t i = random.below(of.keys);
    const std::uint64_t round = random.below(of.depth);
    if (all.find(random_key(i), round * of.keys + i + 1) != round) throw std::runtime_error("a wrong answer: find");
  }
  return seconds_since(begin) * 1e9 / static_cast<double>(finds);
}

}  // namespace

json measure_depth(const settings& chosen) {
  const std::uint64_t deepest = std::min<std::uint64_t>(chosen.keys, 1'000'000);
  const shape shallow_shape{1, 1'000};
  const shape many_shape{1'000, std::max<std::uint64_t>(1, deepest / 1'000)};
  const shape deep_shape{1, deepest};
  constexpr std::uint64_t finds = 500'000;
  struct measured {
    shape of;
    scratch_file file;
    store s;
    std::vector<double> find_ns;
    measured(const settings& in, const shape& what, const char* name)
        : of(what), file(in.folder, name), s(file.path()) {
      tell(std::string("filling: ").append(of.name()));
      fill(s, of);
    }
  };
  measured shallow(chosen, shallow_shape, "icecore-budgets-shallow");
  measured many(chosen, many_shape, "icecore-budgets-many");
  measured deep(chosen, deep_shape, "icecore-budgets-deep");
  for (unsigned repetition = 0; repetition < chosen.repetitions; ++repetition) {
    for (measured* one : {&shallow, &many, &deep}) {
      tell(std::string("finding: ").append(one->of.name()));
      one->find_ns.push_back(nanoseconds_a_find(one->s, one->of, finds, repetition + 1));
    }
  }
  tell("");
  const double deep_ns = median(deep.find_ns);
  table shown({"history", "ns a find", "the deep one is"});
  json result = json::array();
  for (measured* one : {&shallow, &many, &deep}) {
    const double ns = median(one->find_ns);
    shown.add({one->of.name(), fixed(ns, 0), fixed(deep_ns / ns, 2).append(" times that")});
    result.push_back({{"history", one->of.name()},
                      {"keys", one->of.keys},
                      {"depth", one->of.depth},
                      {"find_ns", ns},
                      {"all_ns", one->find_ns},
                      {"deepest_over_this", deep_ns / ns}});
  }
  shown.print();
  return result;
}

}  // namespace icecore::bench
