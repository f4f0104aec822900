// What a store that is packed by itself does when nobody writes, and when writers are faster than packing.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "icecore/icecore.hpp"
#include "store/core.hpp"
#include "support/file.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

using detail::automatic_compaction;
using detail::opened_store;

std::string key_of(std::uint64_t i) { return "key-" + std::to_string(1'000'000 + i); }

options packs_itself(std::uint64_t young_bytes) {
  options how;
  how.durability = durability::none;
  how.compaction = compaction_mode::automatic;
  how.compaction_limits.young_bytes = young_bytes;
  return how;
}
constexpr std::uint64_t never = std::uint64_t{1} << 40;

/// Fails the test if it takes long.
template <typename Reached>
void wait_until(Reached reached) {
  const auto until = std::chrono::steady_clock::now() + 20s;
  while (!reached()) {
    ASSERT_LT(std::chrono::steady_clock::now(), until);
    std::this_thread::sleep_for(1ms);
  }
}

void wait_for_looks(store& s, std::uint64_t more) {
  const automatic_compaction& looks = *s.core().opened().automatic;
  const std::uint64_t then = looks.looks() + more;
  wait_until([&] { return looks.looks() >= then; });
}

std::string content_of(const std::filesystem::path& file) { return read_file(file); }

// ---- Nobody writes ----

TEST(AutomaticCompactionIdle, gives_back_what_waited_for_a_pin_though_nobody_compacts) {
  const scratch folder(place::tmpfs);
  store s(folder / "store.ice", packs_itself(never));
  for (unsigned i = 0; i < 1000; ++i) s.insert(key_of(i), std::string(1000, 'v'));
  const version v = s.tag();
  std::optional<snapshot> then = s.at(v);
  EXPECT_FALSE(s.compact().erased);
  wait_for_looks(s, 3);
  EXPECT_GT(s.stats().waiting_bytes, 1'000'000U);
  EXPECT_EQ(then->find(key_of(7)), std::string(1000, 'v'));
  const std::uint64_t free = s.stats().free_bytes;
  const std::uint64_t waiting = s.stats().waiting_bytes;
  then.reset();
  wait_until([&] { return s.stats().waiting_bytes == 0; });
  EXPECT_EQ(s.stats().free_bytes, free + waiting);
  EXPECT_EQ(s.stats().compactions, 0U);
  EXPECT_EQ(s.stats().compaction_failure, "");
  EXPECT_EQ(s.at(v).find(key_of(7)), std::string(1000, 'v'));
  for (unsigned i = 0; i < 1000; ++i) s.insert(key_of(i), std::string(1000, 'w'));  // into that space
  EXPECT_EQ(s.at(v).find(key_of(7)), std::string(1000, 'v'));
  s.close();
  EXPECT_TRUE(verify_file(folder / "store.ice").ok());
}

TEST(AutomaticCompactionIdle, forgets_what_that_compaction_was_to_forget_and_no_more) {
  const scratch folder(place::tmpfs);
  const auto path = folder / "store.ice";
  store s(path, packs_itself(never));
  for (const char* key : {"secret-one", "secret-two", "other"}) s.insert(key, "value");
  s.tag();
  static_cast<void>(s.forget({.keys = {"secret-one"}}));
  std::optional<snapshot> then = s.latest();
  EXPECT_FALSE(s.compact().erased);
  static_cast<void>(s.forget({.keys = {"secret-two"}}));  // the next compaction does that
  EXPECT_NE(content_of(path).find("secret-one"), std::string::npos);
  then.reset();
  wait_until([&] { return content_of(path).find("secret-one") == std::string::npos; });
  EXPECT_FALSE(s.at(1).find("secret-one"));
  EXPECT_EQ(s.at(1).find("secret-two"), "value");
  EXPECT_TRUE(s.compact().erased);
  EXPECT_FALSE(s.at(1).find("secret-two"));
  EXPECT_EQ(content_of(path).find("secret"), std::string::npos);
  EXPECT_EQ(s.find("other")->bytes(), "value");
}

TEST(AutomaticCompactionIdle, gives_back_what_a_reader_beside_an_earlier_session_had_held) {
  const scratch folder(place::tmpfs);
  const auto path = folder / "store.ice";
  options reading;
  reading.access = access::read_only;
  std::optional<store> reader;
  {
    store s(path);
    for (unsigned i = 0; i < 1000; ++i) s.insert(key_of(i), std::string(1000, 'v'));
    s.tag("one");
    reader.emplace(path, reading);
    EXPECT_FALSE(s.compact().erased);
  }
  store s(path, packs_itself(never));
  wait_for_looks(s, 2);
  EXPECT_GT(s.stats().waiting_bytes, 1'000'000U);
  reader.reset();
  wait_until([&] { return s.stats().waiting_bytes == 0; });
  EXPECT_EQ(s.find(key_of(7))->bytes(), std::string(1000, 'v'));
}

TEST(AutomaticCompactionIdle, stops_no_writer_when_nothing_was_written) {
  const scratch folder(place::tmpfs);
  store s(folder / "store.ice", packs_itself(never));
  const writer_set& writers = s.core().writers();
  s.insert("a", "1");
  wait_for_looks(s, 2);
  const std::uint64_t shut = writers.gates_shut();
  wait_for_looks(s, 3);
  EXPECT_EQ(writers.gates_shut(), shut);
  s.insert("a", "2");
  wait_for_looks(s, 2);
  EXPECT_GT(writers.gates_shut(), shut);
}

// ---- Slow writers ----

TEST(SlowWriters, begin_as_many_operations_as_they_may_and_no_more) {
  const scratch folder(place::tmpfs);
  store s(folder / "store.ice");
  writer_set& writers = s.core().writers();
  s.insert("before", "1");
  EXPECT_EQ(writers.operations(), 1U);
  batch three;
  for (const char* key : {"x", "y", "z"}) three.insert(key, "1");
  s.apply(three);
  EXPECT_EQ(writers.operations(), 4U);
  const auto naps_some = [&] {
    const std::uint64_t then = writers.naps();
    wait_until([&] { return writers.naps() > then + 3; });
  };
  writers.slow_down(14);
  std::atomic<unsigned> done{0};
  std::thread writes([&] {
    for (unsigned i = 0; i < 50; ++i) {
      s.insert(key_of(i), "v");
      ++done;
    }
  });
  naps_some();
  EXPECT_EQ(done.load(), 10U);
  EXPECT_EQ(writers.operations(), 14U);
  { const writer_set::gate stopped(writers); }  // opening it leaves writers slow
  EXPECT_TRUE(writers.are_slow());
  writers.slow_down(16);
  naps_some();
  EXPECT_EQ(done.load(), 12U);
  EXPECT_EQ(s.find(key_of(11))->bytes(), "v");  // readers do not wait
  EXPECT_FALSE(s.find(key_of(12)));
  writers.end_slow();
  writes.join();
  EXPECT_EQ(done.load(), 50U);
  EXPECT_FALSE(writers.are_slow());
}

TEST(SlowWriters, wait_for_so_many_naps_at_most) {
  const scratch folder(place::tmpfs);
  store s(folder / "store.ice");
  writer_set& writers = s.core().writers();
  writers.slow_down(0);
  s.insert("a", "1");
  EXPECT_EQ(writers.naps(), writer_set::naps_max);
  batch conditional;
  conditional.replace("a", "2", s.clock());
  conditional.insert_new("b", "1");
  EXPECT_TRUE(s.apply_if(conditional));  // shuts the gate, and waits before it does
  EXPECT_EQ(writers.naps(), 2 * writer_set::naps_max);
  EXPECT_EQ(s.find("a")->bytes(), "2");
}

/// Packing is held to a rate that the writers exceed by far.
TEST(SlowWriters, do_not_outrun_packing_so_the_last_round_and_the_young_generation_are_bounded) {
  constexpr unsigned threads = 2;
  constexpr std::uint64_t young_max = 10'000;  // records, about, when a compaction begins
  const scratch folder(place::tmpfs);
  options how = packs_itself(young_max * 80);
  how.compaction_limits.bytes_per_second = 4 << 20;
  store s(folder / "store.ice", how);
  opened_store& opened = s.core().opened();
  std::atomic<bool> ends{false};
  std::vector<std::thread> writers;
  for (unsigned w = 0; w < threads; ++w) {
    writers.emplace_back([&, w] {
      for (std::uint64_t n = 0; !ends; ++n) {
        s.insert(key_of(n % 50'000 * threads + w), std::to_string(n));
      }
    });
  }
  for (std::uint64_t done = 0; done < 2;) {
    std::this_thread::sleep_for(1ms);
    if (s.stats().compactions == done) continue;
    done = s.stats().compactions;
    const std::scoped_lock lock(opened.compacting);
    const auto last = opened.last_compaction;
    EXPECT_GT(last.written, 0U);
    EXPECT_GT(last.last_round, 0U);
    EXPECT_LE(last.last_round, 2048 + threads);
    // as docs/design/0033-compaction-beside-writers.md says
    const std::uint64_t in_first = std::max<std::uint64_t>(last.young, 2048) + last.merged + threads;
    EXPECT_LE(last.written, 2 * in_first + (last.rounds + 1) * 2 * (512 + threads));
  }
  ends = true;
  for (std::thread& t : writers) t.join();
  EXPECT_GT(opened.writers->naps(), 0U);
  EXPECT_FALSE(opened.writers->are_slow());
  EXPECT_EQ(s.stats().compaction_failure, "");
  EXPECT_TRUE(s.verify().ok());
}

TEST(SlowWriters, do_not_wait_for_a_compaction_that_rests) {
  const scratch folder(place::tmpfs);
  options how = packs_itself(100'000);
  how.compaction_limits.bytes_per_second = 1 << 20;
  store s(folder / "store.ice", how);
  writer_set& writers = *s.core().opened().writers;
  std::uint64_t n = 0;
  wait_until([&] {
    for (unsigned i = 0; i < 100; ++i) s.insert(key_of(n++), std::string(100, 'v'));
    return writers.are_slow();
  });
  s.pause_compaction();
  wait_until([&] {
    s.insert(key_of(n++), "v");
    return !writers.are_slow();
  });
  const std::uint64_t naps = writers.naps();
  for (unsigned i = 0; i < 20'000; ++i) s.insert(key_of(n++), "v");  // more than any round lets begin
  EXPECT_EQ(writers.naps(), naps);
  s.resume_compaction();
  const std::uint64_t then = s.stats().compactions;
  wait_until([&] { return s.stats().compactions > then; });
  EXPECT_EQ(s.find(key_of(n - 1))->bytes(), "v");
}

}  // namespace
}  // namespace icecore::testing
