// What differs between two versions of a store of 2 N keys, of which 100 were written between them. Only of stores that
// can tell it.
#include <memory>

#include "../measure.hpp"
#include "phases.hpp"

namespace icecore::bench {
namespace {

constexpr std::uint64_t changes = 100;

struct inputs {
  explicit inputs(std::uint64_t count) : n(count), keys(random_keys(0, 2 * n)) {}
  std::uint64_t n;
  key_list keys;
};

void measure(const inputs& in, const run& r) {
  if (!r.kind.tells_differences) return;
  const std::uint64_t count = in.keys.size();
  const auto s = r.open(count + changes, in.keys.key_size(), sizeof(std::uint64_t));
  std::vector<version> inserted(count);
  insert_all(*s, r.threads, in.keys, 0, inserted);
  const version before = s->clock() - 1;
  const auto own = s->new_session();
  random_numbers random(31);
  for (std::uint64_t i = 0; i < changes; ++i) {
    const std::uint64_t value = count + i;
    own->insert(in.keys[(i * (count / changes) + random.below(count / changes)) % count],
                {reinterpret_cast<const char*>(&value), sizeof value});
    own->tag();
  }
  own->commit();
  const auto begin = std::chrono::steady_clock::now();
  const std::uint64_t told = own->count_differences(before, s->clock() - 1);
  const double seconds = seconds_since(begin);
  expect(told == changes, "what differs");
  r.out.add_value("difference", in.n, seconds * 1e9 / static_cast<double>(count), "ns a key");
}

}  // namespace

suite difference_suite() {
  return {.name = "difference",
          .what = "what 100 writes changed in a store of 2 N keys, of stores that can tell",
          .prepare = [](std::uint64_t n) -> std::vector<stage> {
            const auto in = std::make_shared<const inputs>(n);
            return {{.work = [in](const run& r) { measure(*in, r); }}};
          }};
}

}  // namespace icecore::bench
