// Values of 128 B, 4 KiB and 128 KiB under random keys: inserts, and finds that read and compare the whole value.
#include <algorithm>
#include <memory>

#include "../measure.hpp"
#include "phases.hpp"

namespace icecore::bench {
namespace {

constexpr std::uint64_t bytes_max = std::uint64_t{512} << 20;  // of all values of one size

/// Values differ in their first 8 bytes, which hold the key's number; their other random bytes are the same.
struct inputs {
  inputs(std::uint64_t n, std::size_t size)
      : value_size(size), keys(random_keys(0, std::clamp<std::uint64_t>(bytes_max / size, 1, n))), pattern(size) {
    random_numbers random(11);
    std::ranges::generate(pattern, [&] { return static_cast<char>(random.below(256)); });
  }

  [[nodiscard]] bool is_value_of(std::string_view value, std::uint64_t i) const {
    constexpr std::size_t head = sizeof i;
    return value.size() == value_size && number_of(value.substr(0, head)) == i &&
           std::memcmp(value.data() + head, pattern.data() + head, value_size - head) == 0;
  }

  std::size_t value_size;
  key_list keys;
  std::vector<char> pattern;
};

double insert_values(const inputs& in, store& s, unsigned threads) {
  return timed_sessions(s, threads, [&](session& own, unsigned thread) {
    const part mine(in.keys.size(), threads, thread);
    std::vector<char> value = in.pattern;
    for (std::uint64_t i = mine.begin; i < mine.end; ++i) {
      std::memcpy(value.data(), &i, sizeof i);
      own.insert(in.keys[i], {value.data(), value.size()});
      own.tag();
    }
    own.commit();
  });
}

double find_values(const inputs& in, store& s, unsigned threads) {
  const auto order = shuffled(in.keys.size(), 12);
  const key_list keys = in_order_of(in.keys, order);
  const version newest = s.clock() - 1;
  return timed_sessions(s, threads, [&](session& own, unsigned thread) {
    const part mine(keys.size(), threads, thread);
    for (std::uint64_t i = mine.begin; i < mine.end; ++i) {
      const auto value = own.find(keys[i], newest);
      expect(value && in.is_value_of(*value, order[i]), "a large value");
    }
  });
}

void measure(const inputs& in, const run& r) {
  const auto s = r.open(in.keys.size(), in.keys.key_size(), in.value_size);
  const std::uint64_t n = in.keys.size();
  const auto named = [&](const char* what) { return what + std::to_string(in.value_size); };
  r.out.add(named("insert_"), n, static_cast<double>(n), insert_values(in, *s, r.threads));
  r.out.add(named("find_"), n, static_cast<double>(n), find_values(in, *s, r.threads));
}

}  // namespace

suite values_suite() {
  return {.name = "values",
          .what = "values of 128 B, 4 KiB and 128 KiB, 512 MiB of each at most: inserts, finds that read them whole",
          .prepare = [](std::uint64_t n) {
            std::vector<stage> stages;
            for (const std::size_t size : {128U, 4096U, 131072U}) {
              const auto in = std::make_shared<const inputs>(n, size);
              stages.push_back({.work = [in](const run& r) { measure(*in, r); }});
            }
            return stages;
          }};
}

}  // namespace icecore::bench
