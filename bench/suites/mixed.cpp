// Concurrent readers and writers: every thread finds keys at random old versions and sometimes updates one.
#include <array>
#include <memory>

#include "../measure.hpp"
#include "timeline.hpp"

namespace icecore::bench {
namespace {

struct inputs {
  explicit inputs(std::uint64_t n) : keys(random_keys(0, n)) {}
  key_list keys;
};

constexpr std::array<std::uint64_t, 2> mixes = {90, 50};  // percent of finds

/// The operation and key of each step of each thread, the same in every run.
random_numbers numbers_of(unsigned thread) { return random_numbers(100 + thread); }

/// `find_percent` of the operations are finds of the loaded data, the others updates: the newest value of key i becomes
/// i + n. Only one thread updates a given key.
double mix(const inputs& in, store& s, unsigned threads, const questions& asked, std::uint64_t find_percent) {
  return timed_sessions(s, threads, [&](session& own, unsigned thread) {
    const part mine(in.keys.size(), threads, thread);
    random_numbers random = numbers_of(thread);
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

/// The newest value of every key is the loaded one, or the one that an update in a mix gave it.
void check(const inputs& in, store& s, unsigned threads) {
  std::vector<bool> updated(in.keys.size());
  for (const std::uint64_t find_percent : mixes) {
    for (unsigned thread = 0; thread < threads; ++thread) {
      const part mine(in.keys.size(), threads, thread);
      random_numbers random = numbers_of(thread);
      for (std::uint64_t i = mine.begin; i < mine.end; ++i) {
        if (random.below(100) >= find_percent) updated[i] = true;
      }
    }
  }
  const auto own = s.new_session();
  const version newest = s.clock() - 1;
  for (std::uint64_t i = 0; i < in.keys.size(); ++i) {
    const auto value = own->find(in.keys[i], newest);
    expect(value && number_of(*value) == (updated[i] ? i + in.keys.size() : i), "a value after all updates");
  }
}

void measure(const inputs& in, const run& r) {
  const std::uint64_t n = in.keys.size();
  const auto s = r.open(3 * n, in.keys.key_size(), sizeof(std::uint64_t));
  std::vector<version> inserted(n);
  insert_all(*s, r.threads, in.keys, 0, inserted);
  const timeline past(in.keys, inserted, {});
  const questions asked = past.ask(n, s->clock() - 1, 13);
  for (const std::uint64_t find_percent : mixes) {
    const double seconds = mix(in, *s, r.threads, asked, find_percent);
    r.out.add("mixed_" + std::to_string(find_percent), n, static_cast<double>(n), seconds);
  }
  check(in, *s, r.threads);
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
