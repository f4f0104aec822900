// G3: no thread waits for a reader, and a reader never waits for a stalled writer to publish.
//
// A writer thread is stalled at a random instruction, by a signal handler that waits, while other threads go on. These
// write so little that one segment suffices: a segment is allocated under a lock, which the stalled thread may hold.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <array>
#include <random>
#include <vector>

#include "icecore/icecore.hpp"
#include "support/model.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

std::atomic<bool> stall{false};
std::atomic<bool> stalled{false};

void wait_in_handler(int) {
  stalled.store(true);
  const timespec moment{0, 50'000};
  while (stall.load()) nanosleep(&moment, nullptr);
  stalled.store(false);
}

class Progress : public ::testing::TestWithParam<setting> {
 protected:
  void SetUp() override {
    struct sigaction action {};
    action.sa_handler = wait_in_handler;
    sigaction(SIGUSR1, &action, nullptr);
  }

  /// A thread that has reached `work`: a thread stalled while it starts may hold locks of the C library, or of a
  /// sanitizer.
  template <class Work>
  [[nodiscard]] std::thread begun(const Work& work) {
    has_begun_ = false;
    std::thread thread([this, work] {
      has_begun_ = true;
      work();
    });
    while (!has_begun_) std::this_thread::yield();
    return thread;
  }
  /// Runs `work` while the thread is stalled wherever it happens to be.
  template <class Work>
  static void while_stalled(std::thread& thread, const Work& work) {
    stall = true;
    pthread_kill(thread.native_handle(), SIGUSR1);
    while (!stalled) std::this_thread::yield();
    work();
    stall = false;
    while (stalled) std::this_thread::yield();
  }

  scratch folder_{GetParam().where};
  store store_{folder_ / "progress.ice", GetParam().options()};
  std::atomic<bool> has_begun_{false};
};

TEST_P(Progress, readers_tags_and_writers_of_other_keys_do_not_wait_for_a_stalled_writer) {
  constexpr unsigned keys = 8;
  map<unsigned, std::uint64_t> registers(store_);
  for (unsigned key = 0; key < 2 * keys; ++key) registers.insert(key, 0);
  std::atomic<bool> stop{false};
  std::thread writer = begun([&] {
    for (std::uint64_t n = 1; !stop; ++n) registers.insert(static_cast<unsigned>(n % keys), n);
  });
  const bool durable_tags = GetParam().durability == durability::tag;  // those wait for writers, as promised
  struct seen {
    version closed;
    std::array<std::uint64_t, keys> values;
  };
  std::vector<seen> kept;
  std::mt19937 random(7);
  for (unsigned round = 0; round < 100; ++round) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
    while_stalled(writer, [&] {
      const deadline no_waiting("waiting for a stalled writer", 20s);
      for (unsigned key = 0; key < 2 * keys; ++key) ASSERT_TRUE(registers.find(key).has_value());
      const version closed = durable_tags ? store_.latest().version() : store_.tag();
      const auto then = registers.at(closed);
      kept.push_back({closed, {}});
      for (unsigned key = 0; key < keys; ++key) kept.back().values[key] = then.find(key).value();
      std::size_t count = 0;
      for (const auto& [key, value] : then.range()) count += key < 2 * keys ? 1 : 0;
      ASSERT_EQ(count, 2 * keys);
      for (const auto& [version, value] : registers.history(round % keys)) {
        ASSERT_TRUE(value.has_value());
        break;
      }
      for (unsigned key = keys; key < 2 * keys; ++key) registers.insert(key, round);  // other keys
    });
  }
  stop = true;
  writer.join();
  for (const auto& [closed, values] : kept) {  // the stalled write went on, but not into a closed version
    for (unsigned key = 0; key < keys; ++key) ASSERT_EQ(registers.at(closed).find(key), values[key]);
  }
}

TEST_P(Progress, in_a_skip_list_nobody_waits_for_a_writer_stalled_while_it_adds_a_key) {
  if (GetParam().index != index_kind::skip_list) GTEST_SKIP() << "a leaf of a B+-tree may be locked";
  map<std::uint64_t, std::uint64_t> numbers(store_);
  numbers.insert(0, 0);
  std::atomic<bool> stop{false};
  std::thread writer = begun([&] {
    for (std::uint64_t n = 1; !stop; ++n) numbers.insert(n * 0x9e3779b97f4a7c15U, n);
  });
  std::mt19937 random(13);
  for (unsigned round = 0; round < 100; ++round) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
    while_stalled(writer, [&] {
      const deadline no_waiting("waiting for a stalled writer", 20s);
      const auto then = numbers.at(store_.tag());
      std::size_t count = 0;
      for (const auto& [key, value] : then.range()) {
        ASSERT_EQ(key, value * 0x9e3779b97f4a7c15U);
        ASSERT_EQ(then.find(key), value);
        if (++count == 2000) break;
      }
      ASSERT_GT(count, 0U);
    });
  }
  stop = true;
  writer.join();
}

TEST_P(Progress, a_writer_of_the_same_key_does_not_wait_for_a_stalled_one) {
  map<unsigned, std::uint64_t> registers(store_);
  registers.insert(0, 0);
  std::atomic<bool> stop{false};
  std::thread writer = begun([&] {
    for (std::uint64_t n = 1; !stop; ++n) registers.insert(0, n);
  });
  std::mt19937 random(11);
  for (unsigned round = 0; round < 100; ++round) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
    while_stalled(writer, [&] {
      const deadline no_waiting("waiting for a stalled writer of the same key", 20s);
      for (unsigned i = 0; i < 5; ++i) registers.insert(0, (std::uint64_t{round} << 32) + i);
      ASSERT_EQ(registers.find(0), (std::uint64_t{round} << 32) + 4);
    });
  }
  stop = true;
  writer.join();
}

TEST_P(Progress, writers_and_tags_do_not_wait_for_a_stalled_reader) {
  map<unsigned, std::uint64_t> registers(store_);
  for (unsigned key = 0; key < 500; ++key) registers.insert(key, 0);
  store_.tag();
  std::atomic<bool> stop{false};
  std::thread reader = begun([&] {
    while (!stop) {
      for (const auto& [key, value] : registers.at(version{1}).range())
        promise(value == 0, [] { return std::string("changed"); });
      for (unsigned key = 0; key < 500; ++key) static_cast<void>(registers.find(key));
    }
  });
  std::mt19937 random(13);
  for (unsigned round = 1; round < 100; ++round) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
    while_stalled(reader, [&] {
      const deadline no_waiting("waiting for a stalled reader", 20s);
      for (unsigned key = 0; key < 50; ++key) registers.insert(key * round, round);
      for (unsigned key = 1000 * round; key < 1000 * round + 100; ++key) registers.insert(key, round);  // splits nodes
      store_.tag("round-" + std::to_string(round));
      store_.sync();
    });
  }
  stop = true;
  reader.join();
}

INSTANTIATE_TEST_SUITE_P(EveryDurability, Progress, ::testing::ValuesIn(tmpfs_settings()),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace icecore::testing
