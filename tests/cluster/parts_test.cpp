// The parts a cluster is made of that need no ranks.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "cluster/gather/ranks/kept_memory.hpp"
#include "cluster/messages/backoff.hpp"
#include "cluster/open/manifest.hpp"
#include "cluster/partitions/read_cache.hpp"
#include "cluster/partitions/staging.hpp"
#include "cluster/write_gate.hpp"
#include "icecore/cluster.hpp"

namespace icecore::mpi {
namespace {

TEST(wire, what_is_packed_is_unpacked_and_short_messages_are_errors) {
  packer out;
  out.number(std::uint64_t{1} << 40);
  out.text(std::string_view("a\0b", 3));
  out.optional_text(std::nullopt);
  out.optional_text("");
  unpacker in(out.bytes());
  EXPECT_EQ(in.number<std::uint64_t>(), std::uint64_t{1} << 40);
  EXPECT_EQ(in.text(), std::string_view("a\0b", 3));
  EXPECT_EQ(in.optional_text(), std::nullopt);
  EXPECT_EQ(in.optional_text(), "");
  EXPECT_TRUE(in.at_end());
  EXPECT_THROW(static_cast<void>(in.number<std::uint8_t>()), error);
  for (std::size_t size = 0; size < out.size(); ++size) {
    unpacker part(std::string_view(out.bytes()).substr(0, size));
    EXPECT_THROW(
        {
          static_cast<void>(part.number<std::uint64_t>());
          static_cast<void>(part.text());
          static_cast<void>(part.optional_text());
          static_cast<void>(part.optional_text());
        },
        error)
        << size;
  }
}

TEST(kept_memory, give_back_what_is_large_enough_and_not_much_too_large) {
  using kept_strings = ranks::kept_memory<std::string>;
  constexpr std::size_t size = kept_strings::size_min;
  if (!kept_strings::keeps(size)) GTEST_SKIP() << "the sanitizer watches memory";
  const auto of = [](std::size_t bytes) { return std::string(bytes, 'x'); };
  kept_strings kept;
  kept.give(of(size - 1), size - 1);
  kept.give(of(kept_strings::size_max + 1), kept_strings::size_max + 1);
  EXPECT_EQ(kept.take(size - 1).size(), 0U) << "too small to be worth it, or too large";

  kept.give(of(2 * size), 2 * size);
  EXPECT_EQ(kept.take(2 * size + 1).size(), 0U);
  EXPECT_EQ(kept.take(size).size(), 2 * size);
  EXPECT_EQ(kept.take(size).size(), 0U) << "it is given once";
  kept.give(of(4 * size), 4 * size);
  EXPECT_EQ(kept.take(size).size(), 0U) << "most of it would lie idle";
  EXPECT_EQ(kept.take(4 * size).size(), 4 * size);

  for (std::size_t i = 0; i <= kept_strings::pieces_max; ++i) kept.give(of(size + i), size + i);
  std::size_t pieces = 0;
  while (const std::size_t found = kept.take(size).size()) {
    EXPECT_NE(found, size) << "an old one had to go for the last";
    ++pieces;
  }
  EXPECT_EQ(pieces, kept_strings::pieces_max);
}

TEST(packer, goes_on_in_memory_that_a_message_went_in) {
  constexpr std::size_t large = ranks::kept_memory<std::string>::size_min;
  if (!ranks::kept_memory<std::string>::keeps(large)) GTEST_SKIP() << "the sanitizer watches memory";
  const char* sent_from = nullptr;
  {
    packer first;
    first.make_room(large);
    first.text(std::string(large / 2, 'a'));
    const auto sent = sent_bytes(first.take());
    sent_from = sent->data();
  }
  packer next;
  next.number(std::uint8_t{7});
  next.make_room(large - 1);
  next.text("b");
  EXPECT_EQ(next.bytes().data(), sent_from);
  unpacker in(next.bytes());
  EXPECT_EQ(in.number<std::uint8_t>(), 7);
  EXPECT_EQ(in.text(), "b");
  EXPECT_TRUE(in.at_end());
}

TEST(backoff, sleeps_for_an_eighth_of_the_wait_and_at_most_a_millisecond) {
  using std::chrono::microseconds;
  EXPECT_EQ(backoff::sleep_after(microseconds(0)), backoff::sleep_min);
  EXPECT_EQ(backoff::sleep_after(microseconds(800)), microseconds(100));
  EXPECT_EQ(backoff::sleep_after(microseconds(80'000)), microseconds(1000));
  backoff pause;
  for (int i = 0; i < backoff::spins + backoff::yields + 20; ++i) pause.pause();
  rusage before{};
  rusage after{};
  getrusage(RUSAGE_THREAD, &before);
  pause.pause();
  getrusage(RUSAGE_THREAD, &after);
  EXPECT_GT(after.ru_nvcsw, before.ru_nvcsw) << "it gives its core away until it is woken";
}

TEST(write_gate, holds_every_writer_and_lets_all_go_on) {
  write_gate gate;
  const auto wait = [](auto&& done) {
    while (!done()) std::this_thread::yield();
  };
  std::atomic<bool> stopping{false};
  std::atomic<int> inside{0};
  std::atomic<std::uint64_t> passes{0};
  std::vector<std::thread> writers;
  for (int t = 0; t < 3; ++t) {
    writers.emplace_back([&] {
      while (!stopping) {
        const write_gate::pass through(gate, wait);
        ++inside;
        ++passes;
        --inside;
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t before = passes;
    {
      const write_gate::hold held(gate, wait);
      for (int look = 0; look < 20; ++look) ASSERT_EQ(inside, 0);
    }
    while (passes == before) std::this_thread::yield();  // they do go on
  }
  stopping = true;
  for (std::thread& each : writers) each.join();
}

TEST(staging, finds_the_newest_staged_write_of_every_key) {
  std::mt19937 random(1);
  staged_writes staged;
  std::map<std::string, std::optional<std::string>> model;
  EXPECT_FALSE(staged.find("k").has_value());
  for (int i = 0; i < 3000; ++i) {
    const std::string key = "k" + std::to_string(random() % 700);
    std::optional<std::string> value;
    if (random() % 4 != 0) value = std::to_string(i);
    staged.append({key, value});
    model[key] = value;
  }
  for (int i = 0; i < 800; ++i) {
    const std::string key = "k" + std::to_string(i);
    const auto found = staged.find(key);
    ASSERT_EQ(found.has_value(), model.contains(key));
    if (found) {
      ASSERT_EQ(found->value, model[key]);
    }
  }
  const staged_index index = staged.take_index();
  const std::string request = staged.take_request();
  EXPECT_TRUE(staged.empty());
  EXPECT_FALSE(staged.find("k1").has_value());
  for (const auto& [key, value] : model) {
    const auto found = index.find(request, key);
    ASSERT_TRUE(found.has_value());
    ASSERT_EQ(found->value, value);
  }
}

held_value held(const std::string& value) {
  const auto memory = std::make_shared<const std::string>(value);
  return {*memory, memory};
}

TEST(read_cache, keeps_the_recently_used_within_its_bytes) {
  read_cache cache(20'000);
  for (int i = 0; i < 1000; ++i) {
    const std::string key = std::to_string(i);
    const auto look = cache.find(key);
    ASSERT_FALSE(look.hit);
    cache.keep(look, key, held(std::string(100, 'v')));
    ASSERT_TRUE(cache.find("0").hit) << "used again and again";
    ASSERT_LE(cache.bytes(), 20'000U);
  }
  EXPECT_TRUE(cache.find("999").hit);
  EXPECT_FALSE(cache.find("1").hit);
  cache.keep(cache.find("none"), "none", {});
  EXPECT_TRUE(cache.find("none").hit);
  EXPECT_FALSE(cache.find("none").value.bytes.has_value());
  const auto before = cache.find("late");
  cache.clear();
  EXPECT_FALSE(cache.find("999").hit);
  cache.keep(before, "late", held("from another time"));
  EXPECT_FALSE(cache.find("late").hit);
  cache.keep(cache.find("huge"), "huge", held(std::string(30'000, 'h')));
  EXPECT_FALSE(cache.find("huge").hit);
}

TEST(read_cache, keeps_a_value_where_it_lies_for_whoever_holds_it) {
  read_cache cache(20'000);
  const held_value value = held("value");
  cache.keep(cache.find("key"), "key", value);
  const read_cache::look look = cache.find("key");
  ASSERT_TRUE(look.value.bytes.has_value());
  EXPECT_EQ(look.value.bytes->data(), value.bytes->data()) << "it was copied";
  cache.clear();
  EXPECT_EQ(look.value.bytes, "value");
}

TEST(ownership, of_a_hash_is_even_and_never_changes) {
  const ownership by_hash = ownership::by_hash();
  std::map<int, int> counts;
  for (int i = 0; i < 8000; ++i) ++counts[by_hash.owner_of("key-" + std::to_string(i), 8)];
  for (int r = 0; r < 8; ++r) {
    EXPECT_GT(counts[r], 800);
    EXPECT_LT(counts[r], 1200);
  }
  // what clusters on disk rely on
  EXPECT_EQ(by_hash.owner_of("", 1000), 0);
  EXPECT_EQ(by_hash.owner_of("a", 1000), 985);
  EXPECT_EQ(by_hash.owner_of("icecore", 1000), 347);
  EXPECT_EQ(by_hash.owner_of("a key of more than eight bytes", 1000), 869);
}

TEST(ownership, by_ranges_follows_the_splits) {
  const ownership o = ownership::by_ranges({"b", "d"});
  EXPECT_EQ(o.owner_of("", 3), 0);
  EXPECT_EQ(o.owner_of("az", 3), 0);
  EXPECT_EQ(o.owner_of("b", 3), 1);
  EXPECT_EQ(o.owner_of("d", 3), 2);
  EXPECT_EQ(o.description(), "ranges 62. 64.");
  EXPECT_NO_THROW(o.check(3));
  EXPECT_THROW(o.check(2), error);
  EXPECT_THROW(ownership::by_ranges({"b", "b"}).check(3), error);
}

TEST(manifest, is_read_as_it_was_written) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("icecore-manifest-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  EXPECT_FALSE(read_manifest(folder).has_value());
  const manifest written{"0123", 2, "ranges 62.", {"aa", "bb"}};
  write_manifest(folder, written, 0);
  const auto found = read_manifest(folder);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->id, written.id);
  EXPECT_EQ(found->ranks, 2);
  EXPECT_EQ(found->owner, written.owner);
  EXPECT_EQ(found->pools, written.pools);
  for (const char* text : {"", "icecore cluster 2\n", "icecore cluster 1\nid 1\nranks 2\nowner hash\npool 0 aa\n",
                           "icecore cluster 1\nid 1\nranks x\n"}) {
    std::ofstream(folder / "manifest") << text;
    EXPECT_THROW(static_cast<void>(read_manifest(folder)), error) << text;
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace icecore::mpi
