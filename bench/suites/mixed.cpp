// Readers and writers at once: every thread finds keys at random versions of the past and now and then updates one.
#include <memory>

#include "../measure.hpp"
#include "timeline.hpp"

namespace icecore::bench {
namespace {

struct inputs {
  explicit inputs(std::uint64_t n) : keys(random_keys(0, n)) {}
  key_list keys;
};

/// `find_percent` of the operations are finds of what was loaded, the rest updates: the newest value of key i becomes
/// i + n. Every key's updates are one thread's.
double mix(const inputs& in, store& s, unsigned threads, const questions& asked, std::uint64_t find_percent) {
  return timed_sessions(s, threads, [&](session& own, unsigned thread) {
    const part mine(in.keys.size(), threads, thread);
    random_numbers random(100 + thread);
    std::uint64_t wrong = 0;
    for (std::uint64_t i = mine.begin; i < mine.end; ++i) {
      if (random.below(100) < find_percent) {
        const auto value = own.find(asked.keys[i], asked.at[i]);
        wrong += (value ? number_of(*value) : missing) != asked.expected[i] ? 1 : 0;
      } else {
        const std::uint64_t value = i + in.keys.size();
        own.insert(in.keys[i], {reinterpret_cast<const char*>(&value), sizeof value});
        own.tag();
      }
    }
    own.commit();
    expect(wrong == 0, "finds beside writes");
  });
}

/// The newest value of every key is what was loaded or what an update made of it, and updates are there.
void check(const inputs& in, store& s) {
  const auto own = s.new_session();
  const version newest = s.clock() - 1;
  std::uint64_t updated = 0;
  for (std::uint64_t i = 0; i < in.keys.size(); ++i) {
    const auto value = own->find(in.keys[i], newest);
    expect(value.has_value(), "a key that was updated is gone");
    const std::uint64_t number = number_of(*value);
    expect(number == i || number == i + in.keys.size(), "an updated value");
    updated += number == i ? 0 : 1;
  }
  expect(updated > in.keys.size() / 20, "updates are lost");
}

void measure(const inputs& in, const run& r) {
  const std::uint64_t n = in.keys.size();
  const auto s = r.open(3 * n, in.keys.key_size(), sizeof(std::uint64_t));
  std::vector<version> inserted(n);
  insert_all(*s, r.threads, in.keys, 0, inserted);
  const timeline past(in.keys, inserted, {});
  const questions asked = past.ask(n, s->clock() - 1, 13);
  r.out.add("mixed_90", n, static_cast<double>(n), mix(in, *s, r.threads, asked, 90));
  r.out.add("mixed_50", n, static_cast<double>(n), mix(in, *s, r.threads, asked, 50));
  check(in, *s);
}

}  // namespace

suite mixed_suite() {
  return {.name = "mixed",
          .what = "90 % and 50 % finds at random versions of the past, the rest updates",
          .prepare = [](std::uint64_t n) -> std::vector<stage> {
            const auto in = std::make_shared<const inputs>(n);
            return {{.work = [in](const run& r) { measure(*in, r); }}};
          }};
}

}  // namespace icecore::bench
