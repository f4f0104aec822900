#include "phases.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <random>
#include <stdexcept>

#include "../measure.hpp"
#include "../timed.hpp"

namespace icecore::bench {

key_list random_keys(std::uint64_t first, std::uint64_t count) {
  key_list keys(sizeof(std::uint64_t), count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t key = random_key(first + i);
    std::memcpy(keys.at(i), &key, sizeof key);
  }
  return keys;
}

key_list in_order_of(const key_list& keys, std::span<const std::uint32_t> order) {
  key_list ordered(keys.key_size(), order.size());
  for (std::size_t i = 0; i < order.size(); ++i) std::ranges::copy(keys[order[i]], ordered.at(i));
  return ordered;
}

std::vector<std::uint32_t> shuffled(std::uint64_t count, std::uint64_t seed) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(seed));
  return order;
}

std::vector<std::uint32_t> sorted_order(const key_list& keys) {
  std::vector<std::uint32_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, {}, [&](std::uint32_t i) { return keys[i]; });
  return order;
}

void expect(bool right, std::string_view what) {
  if (!right) throw std::runtime_error("a wrong answer: " + std::string(what));
}

double timed_sessions(store& s, unsigned threads, const std::function<void(session&, unsigned)>& work) {
  return timed_with_sessions(
      threads, [&] { return s.new_session(); }, work);
}

double insert_all(store& s, unsigned threads, const key_list& keys, std::uint64_t first_value,
                  std::span<version> versions) {
  return timed_sessions(s, threads, [&](session& own, unsigned thread) {
    const part mine(keys.size(), threads, thread);
    for (std::uint64_t i = mine.begin; i < mine.end; ++i) {
      const std::uint64_t value = first_value + i;
      versions[i] = own.insert(keys[i], {reinterpret_cast<const char*>(&value), sizeof value});
      own.tag();
    }
    own.commit();
  });
}

double remove_all(store& s, unsigned threads, const key_list& keys, std::span<version> versions) {
  return timed_sessions(s, threads, [&](session& own, unsigned thread) {
    const part mine(keys.size(), threads, thread);
    for (std::uint64_t i = mine.begin; i < mine.end; ++i) {
      versions[i] = own.remove(keys[i]);
      own.tag();
    }
    own.commit();
  });
}

double find_all(store& s, unsigned threads, const questions& asked) {
  return timed_sessions(s, threads, [&](session& own, unsigned thread) {
    const part mine(asked.keys.size(), threads, thread);
    std::uint64_t wrong = 0;
    for (std::uint64_t i = mine.begin; i < mine.end; ++i) {
      const auto value = own.find(asked.keys[i], asked.at[i]);
      wrong += (value ? number_of(*value) : missing) != asked.expected[i] ? 1 : 0;
    }
    expect(wrong == 0, "finds");
  });
}

double find_many_all(store& s, unsigned threads, const questions& asked) {
  constexpr std::size_t group = 256;
  return timed_sessions(s, threads, [&](session& own, unsigned thread) {
    const part mine(asked.keys.size(), threads, thread);
    std::vector<std::string_view> keys(group);
    std::vector<std::optional<std::uint64_t>> found(group);
    std::uint64_t wrong = 0;
    for (std::uint64_t begin = mine.begin; begin < mine.end; begin += group) {
      const std::size_t count = std::min<std::uint64_t>(group, mine.end - begin);
      for (std::size_t i = 0; i < count; ++i) keys[i] = asked.keys[begin + i];
      own.find_many({keys.data(), count}, {&asked.at[begin], count}, {found.data(), count});
      for (std::size_t i = 0; i < count; ++i) {
        wrong += found[i].value_or(missing) != asked.expected[begin + i] ? 1 : 0;
      }
    }
    expect(wrong == 0, "finds of many at once");
  });
}

double history_all(store& s, unsigned threads, const key_list& keys,
                   const std::function<std::span<const recorded_change>(std::size_t)>& expected) {
  return timed_sessions(s, threads, [&](session& own, unsigned thread) {
    const part mine(keys.size(), threads, thread);
    std::vector<recorded_change> changes;
    std::uint64_t wrong = 0;
    for (std::uint64_t i = mine.begin; i < mine.end; ++i) {
      changes.clear();
      own.history(keys[i], changes);
      wrong += std::ranges::equal(changes, expected(i)) ? 0 : 1;
    }
    expect(wrong == 0, "histories");
  });
}

double snapshot_in_each(store& s, std::span<const version> at, std::size_t capacity, std::size_t key_size,
                        const std::function<void(unsigned, const pair_columns&)>& check) {
  const auto threads = static_cast<unsigned>(at.size());
  std::vector<pair_columns> pairs(threads, pair_columns(capacity, key_size, sizeof(std::uint64_t)));
  const double seconds =
      timed_sessions(s, threads, [&](session& own, unsigned thread) { own.extract(at[thread], pairs[thread], 1); });
  for (unsigned thread = 0; thread < threads; ++thread) check(thread, pairs[thread]);
  return seconds;
}

std::uint64_t bytes_of_files(const std::filesystem::path& folder) {
  std::uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    struct stat about {};
    if (stat(entry.path().c_str(), &about) == 0 && S_ISREG(about.st_mode)) {
      bytes += static_cast<std::uint64_t>(about.st_blocks) * 512;  // the unit of st_blocks is always 512 bytes
    }
  }
  return bytes;
}

}  // namespace icecore::bench
