#include "index/lookup_cache.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace icecore::index {
namespace {

constexpr std::uint64_t page_bytes = 4096;
constexpr std::uint64_t bytes_max = std::uint64_t{4} << 20;

link entry_of(std::uint64_t number) { return 64 * (number + 1); }
std::uint64_t hash_of(std::uint64_t number) { return lookup_cache::hash_of("key " + std::to_string(number)); }

std::uint64_t found_of(const lookup_cache& cache, std::uint64_t count) {
  std::uint64_t found = 0;
  for (std::uint64_t i = 0; i < count; ++i) found += cache.candidate(hash_of(i)) == entry_of(i) ? 1 : 0;
  return found;
}

TEST(lookup_cache, knows_what_was_put_and_nothing_else) {
  lookup_cache cache(bytes_max, false);
  EXPECT_EQ(cache.candidate(hash_of(1)), null_link);
  cache.put(hash_of(1), entry_of(1));
  EXPECT_EQ(cache.candidate(hash_of(1)), entry_of(1));
  EXPECT_EQ(cache.candidate(hash_of(2)), null_link);
  const link in_the_last_file = make_link(format::files_max - 1, 8);
  cache.put(hash_of(2), in_the_last_file);
  EXPECT_EQ(cache.candidate(hash_of(2)), in_the_last_file);
}

TEST(lookup_cache, of_seven_keys_with_one_place_all_are_known_and_an_eighth_takes_the_place_of_one) {
  lookup_cache cache(page_bytes, false);
  constexpr std::uint64_t ways = 7;
  const auto at_one_place = [](std::uint64_t number) { return std::uint64_t{8} | (number + 1) << 52; };
  const auto known = [&](std::uint64_t count) {
    std::uint64_t found = 0;
    for (std::uint64_t i = 0; i < count; ++i) found += cache.candidate(at_one_place(i)) == entry_of(i) ? 1 : 0;
    return found;
  };
  for (std::uint64_t i = 0; i < ways; ++i) {
    cache.put(at_one_place(i), entry_of(i));
    cache.put(at_one_place(0), entry_of(0));  // stored again, it takes no second place
  }
  EXPECT_EQ(known(ways), ways);
  cache.put(at_one_place(ways), entry_of(ways));
  EXPECT_EQ(cache.candidate(at_one_place(ways)), entry_of(ways));
  EXPECT_EQ(known(ways + 1), ways);
}

// All tags are compared in one step, in which one that fits can make the next one seem to fit.
TEST(lookup_cache, of_keys_with_one_place_whose_tags_are_neighbours_each_is_known_as_itself) {
  const auto with_tag = [](std::uint64_t tag) { return std::uint64_t{8} | tag << 45 | std::uint64_t{7} << 52; };
  constexpr std::uint64_t tags = 128;
  for (std::uint64_t first = 0; first < tags; ++first) {
    lookup_cache cache(page_bytes, false);
    for (std::uint64_t second = 0; second < 3; ++second) {
      const std::uint64_t tag = (first ^ second) % tags;
      cache.put(with_tag(tag), entry_of(tag));
      EXPECT_EQ(cache.candidate(with_tag(tag)), entry_of(tag));
    }
    for (std::uint64_t second = 0; second < 3; ++second) {
      const std::uint64_t tag = (first ^ second) % tags;
      EXPECT_EQ(cache.candidate(with_tag(tag)), entry_of(tag)) << "the first tag is " << first;
    }
  }
}

TEST(lookup_cache, grows_with_what_is_looked_up_to_its_bound) {
  lookup_cache cache(bytes_max, true);
  EXPECT_EQ(cache.bytes(), page_bytes);
  constexpr std::uint64_t few = 100;
  for (std::uint64_t i = 0; i < few; ++i) cache.put(hash_of(i), entry_of(i));
  EXPECT_EQ(cache.bytes(), page_bytes) << "few keys need no more";
  EXPECT_EQ(found_of(cache, few), few);
  constexpr std::uint64_t many = bytes_max / 8 / 4;
  for (unsigned round = 0; round < 3; ++round) {  // the table loses entries when it grows
    for (std::uint64_t i = 0; i < many; ++i) cache.put(hash_of(i), entry_of(i));
  }
  EXPECT_EQ(cache.bytes(), bytes_max);
  EXPECT_GT(found_of(cache, many), many * 8 / 10);
  for (std::uint64_t i = 0; i < 8 * many; ++i) cache.put(hash_of(i), entry_of(i));
  EXPECT_EQ(cache.bytes(), bytes_max);
}

TEST(lookup_cache, grows_piece_by_piece_on_another_thread_if_there_is_one) {
  constexpr std::uint64_t large = std::uint64_t{16} << 20;
  constexpr std::uint64_t small = std::uint64_t{256} << 10;
  lookup_cache cache(large, true);
  bool answers = true;
  unsigned asked = 0;
  cache.grow_elsewhere([&] {
    ++asked;
    return answers;
  });
  const auto fill = [&] {
    for (std::uint64_t i = 0; i < 4 * small / 8; ++i) cache.put(hash_of(i), entry_of(i), true);
  };
  fill();
  EXPECT_EQ(cache.bytes(), small) << "a table of less than a huge page grows by itself";
  EXPECT_EQ(asked, 1U);
  EXPECT_TRUE(cache.wanted());
  unsigned pieces = 1;
  for (; cache.make_ready(); ++pieces) EXPECT_EQ(cache.bytes(), small) << "before all is ready";
  EXPECT_EQ(pieces, large / huge_page_bytes);
  EXPECT_EQ(cache.bytes(), large);
  EXPECT_FALSE(cache.wanted());
  fill();
  EXPECT_GT(found_of(cache, small / 8), small / 8 * 8 / 10);
  lookup_cache alone(large, true);
  answers = false;
  alone.grow_elsewhere([&] { return answers; });
  for (std::uint64_t i = 0; i < 4 * small / 8; ++i) alone.put(hash_of(i), entry_of(i), true);
  EXPECT_EQ(alone.bytes(), large) << "nobody else grows it";
  EXPECT_FALSE(alone.wanted());
}

TEST(lookup_cache, takes_no_memory_if_none_is_allowed_and_knows_nothing_then) {
  for (const std::uint64_t bytes : {std::uint64_t{0}, page_bytes - 1}) {
    lookup_cache cache(bytes, false);
    cache.put(hash_of(1), entry_of(1));
    cache.prefetch_for_reading(hash_of(1));
    EXPECT_EQ(cache.candidate(hash_of(1)), null_link);
    EXPECT_EQ(cache.bytes(), 0U);
  }
}

TEST(lookup_cache, tells_where_its_lines_are_when_it_is_made_and_when_it_has_grown) {
  lookup_place place;
  lookup_cache cache(std::uint64_t{1} << 20, false, &place);
  const auto address_of = [&](std::uint64_t hash) { return reinterpret_cast<std::uintptr_t>(place.line_of(hash)); };
  const std::uintptr_t begin = address_of(0);
  EXPECT_NE(begin, 0U);
  EXPECT_EQ(address_of(7), begin);
  EXPECT_EQ(address_of(8), begin + 64);
  EXPECT_EQ(address_of(~std::uint64_t{0}), begin + cache.bytes() - 64);
  const std::uint64_t small = cache.bytes();
  for (std::uint64_t i = 0; cache.bytes() == small; ++i) cache.put(hash_of(i), entry_of(i));
  EXPECT_EQ(address_of(0), begin);
  EXPECT_EQ(address_of(~std::uint64_t{0}), begin + cache.bytes() - 64);
}

TEST(lookup_cache, where_there_are_no_addresses_for_it_there_is_none) {
  lookup_cache cache(std::uint64_t{1} << 62, false);
  cache.put(hash_of(1), entry_of(1));
  EXPECT_EQ(cache.candidate(hash_of(1)), null_link);
  EXPECT_EQ(cache.bytes(), 0U);
}

TEST(lookup_cache, threads_never_get_a_word_that_nobody_put) {
  lookup_cache cache(std::uint64_t{1} << 20, false);
  std::vector<std::thread> threads;
  std::atomic<std::uint64_t> wrong{0};
  constexpr std::uint64_t keys = 50'000;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 4 * keys; ++i) {
        const std::uint64_t number = (i * 7919 + t * 1000) % keys;
        const link found = cache.candidate(hash_of(number));
        // another key's entry is only found if the hashes are equal, which practically never happens
        if (found != null_link && found % 64 != 0) wrong.fetch_add(1);
        if (found != entry_of(number)) cache.put(hash_of(number), entry_of(number));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong.load(), 0U);
  EXPECT_GT(found_of(cache, keys), keys / 2);
}

}  // namespace
}  // namespace icecore::index
