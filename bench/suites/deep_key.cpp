// One key with n versions: finds at random ones, before the process is killed and right after the store is opened
// again.
#include <memory>

#include "../isolated.hpp"
#include "../measure.hpp"
#include "phases.hpp"

namespace icecore::bench {
namespace {

constexpr std::uint64_t finds_max = 200'000;

struct inputs {
  explicit inputs(std::uint64_t count) : n(count), key(random_keys(0, 1)), written(n) {}

  [[nodiscard]] questions ask(std::uint64_t seed) const {
    const std::uint64_t count = std::min(n, finds_max);
    questions asked{.keys = key_list(key.key_size(), count), .at = {}, .expected = {}};
    random_numbers random(seed);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t value = random.below(n);
      std::ranges::copy(key[0], asked.keys.at(i));
      asked.at.push_back(written[value]);
      asked.expected.push_back(value);
    }
    return asked;
  }

  std::uint64_t n;
  key_list key;
  shared_array<version> written;  // value i's; kept for use after the kill
};

void find(const inputs& in, const run& r, store& s, const char* what, std::uint64_t seed) {
  const questions asked = in.ask(seed);
  r.out.add(what, in.n, static_cast<double>(asked.at.size()), find_all(s, r.threads, asked));
}

void fill(const inputs& in, const run& r) {
  store* const s = r.open(in.n, in.key.key_size(), sizeof(std::uint64_t)).release();  // never closed, but killed
  const auto own = s->new_session();
  for (std::uint64_t i = 0; i < in.n; ++i) {
    in.written[i] = own->insert(in.key[0], {reinterpret_cast<const char*>(&i), sizeof i});
    own->tag();
  }
  own->commit();
  find(in, r, *s, "find_before", 21);
}

void reopen(const inputs& in, const run& r) {
  const auto s = r.open(in.n, in.key.key_size(), sizeof(std::uint64_t));
  find(in, r, *s, "find_after_opening", 22);
}

}  // namespace

suite deep_key_suite() {
  return {.name = "deep_key",
          .what = "one key with N versions: finds at random ones before a kill, and right after opening",
          .prepare = [](std::uint64_t n) -> std::vector<stage> {
            const auto in = std::make_shared<const inputs>(n);
            return {{.work = [in](const run& r) { fill(*in, r); }},
                    {.work = [in](const run& r) { reopen(*in, r); }, .reopens = true}};
          }};
}

}  // namespace icecore::bench
