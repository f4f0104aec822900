// A consumer of a feed, and writers beside it, that are killed again and again: what it consumed and acknowledged, put
// together, is the history of the store, each change once.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "icecore/feed.hpp"
#include "icecore/icecore.hpp"
#include "support/process.hpp"
#include "support/shared_store.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

/// What the consumers wrote: batch after batch. Only the last one may not be acknowledged.
struct consumed {
  static constexpr std::size_t room = std::size_t{64} << 20;
  std::atomic<int> step;  // of the test
  std::atomic<int> kills;
  std::atomic<std::uint64_t> last;  // where the last batch begins, with the size of its token and the token
  std::atomic<std::uint64_t> size;
  char bytes[room];

  void put(std::uint64_t& at, std::string_view text) {
    const auto n = static_cast<std::uint32_t>(text.size());
    if (at + sizeof n + n > room) throw std::runtime_error("more was consumed than there is");
    std::memcpy(bytes + at, &n, sizeof n);
    if (n > 0) std::memcpy(bytes + at + sizeof n, text.data(), n);
    at += sizeof n + n;
  }
  [[nodiscard]] std::string_view get(std::uint64_t& at) const {
    std::uint32_t n = 0;
    std::memcpy(&n, bytes + at, sizeof n);
    const std::string_view text(bytes + at + sizeof n, n);
    at += sizeof n + n;
    return text;
  }
};

std::string line_of(version at, std::string_view key, const std::optional<std::string_view>& value) {
  return std::to_string(at) + ' ' + std::string(key) + (value ? " = " + std::string(*value) : std::string(" -"));
}

/// Consumes until `done` and there is nothing more. It may be killed at any instant.
template <typename Done>
void consume(const store& s, consumed& log, const Done& done) {
  feed f = s.feed({.name = "mirror", .after = 0});
  if (log.last != log.size) {
    std::uint64_t at = log.last;
    if (log.get(at) != f.token()) log.size = log.last.load();  // it was not acknowledged: it comes again
  }
  std::mt19937 random(static_cast<unsigned>(log.size.load()) + 1);
  for (;;) {
    const bool finished = done();
    const feed_batch some = f.next(1 + random() % 40, 2ms);
    if (some.changes.empty()) {
      if (finished) return;
      continue;
    }
    std::uint64_t end = log.size;
    log.last = end;
    log.put(end, some.token);
    log.put(end, std::to_string(some.changes.size()));
    for (const key_change& c : some.changes) log.put(end, line_of(c.version, c.key, c.value));
    log.size = end;
    f.acknowledge(some.token);
  }
}

[[nodiscard]] std::vector<std::string> lines_of(const consumed& log) {
  std::vector<std::string> lines;
  for (std::uint64_t at = 0; at < log.size;) {
    static_cast<void>(log.get(at));
    for (int n = std::stoi(std::string(log.get(at))); n > 0; --n) lines.emplace_back(log.get(at));
  }
  return lines;
}

[[nodiscard]] std::vector<std::string> lines_of(const store& s) {
  std::vector<std::pair<version, std::string>> all;
  const auto keys = s.keys();
  for (const std::string_view key : keys) {
    const auto history = s.history(key).oldest_first();
    for (const auto& [at, value] : history) {
      if (at < s.clock()) all.emplace_back(at, line_of(at, key, value));
    }
  }
  std::ranges::stable_sort(all, {}, &std::pair<version, std::string>::first);
  std::vector<std::string> lines;
  for (auto& [at, line] : all) lines.push_back(std::move(line));
  return lines;
}

void write_some(store& s, std::mt19937& random) {
  const std::string key = "key " + std::to_string(random() % 200);
  if (random() % 6 == 0) {
    batch some;
    for (int i = 0; i < 5; ++i) some.insert("key " + std::to_string(random() % 200), std::to_string(random() % 1000));
    some.remove(key);
    s.apply(some);
  } else if (random() % 5 == 0) {
    s.remove(key);
  } else {
    s.insert(key, std::string(random() % 200, 'v'));
  }
  if (random() % 3 == 0) s.tag();
}

class KilledConsumer : public SharedStore {
 protected:
  shared<consumed> log_;
};

TEST_P(KilledConsumer, of_a_shared_store_has_each_change_once) {
  if (GetParam().index != index_kind::persistent) GTEST_SKIP() << "there a kill during a write poisons all processes";
  child killer([&] {
    wait_for(log_, 1);
    std::mt19937 random(5);
    const auto run = [&](bool to_the_end) {
      child consumer([&] {
        store s(path_, beside());
        consume(s, *log_, [&] { return log_->step >= 2; });
        return 0;
      });
      if (to_the_end) return consumer.wait();
      child writer([&] {  // is killed within writes, too
        store s(path_, beside());
        std::mt19937 writes(static_cast<unsigned>(log_->kills) * 17 + 3);
        while (log_->step < 2) write_some(s, writes);
        return 0;
      });
      std::this_thread::sleep_for(std::chrono::microseconds(500 + random() % 20'000));
      writer.kill(SIGKILL);
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 3'000));
      consumer.kill(SIGKILL);
      ++log_->kills;
      const auto ended = [&](child& one) { return one.wait() == -SIGKILL || log_->step >= 2; };
      return ended(writer) && ended(consumer) ? 0 : 1;
    };
    while (log_->step < 2) {
      if (run(false) != 0) return 2;
    }
    const int code = run(true);
    log_->step = 3;
    return code;
  });
  {
    store s(path_, first());
    log_->step = 1;
    std::mt19937 random(7);
    const auto end = std::chrono::steady_clock::now() + 50s;
    while (log_->kills < 40 && std::chrono::steady_clock::now() < end) {
      for (int i = 0; i < 20; ++i) write_some(s, random);
      std::this_thread::sleep_for(200us);
    }
    s.tag();
    log_->step = 2;
    ASSERT_EQ(killer.wait(), 0);
    EXPECT_GE(log_->kills, 10);
    EXPECT_EQ(lines_of(*log_), lines_of(s));
  }
}

TEST_P(KilledConsumer, with_its_store_goes_on_in_the_next_process) {
  std::mt19937 random(9);
  for (int kills = 0; kills < 30; ++kills) {
    const std::uint64_t before = log_->size;
    child both([&] {
      store s(path_, GetParam().options_at(path_));
      std::mt19937 writes(static_cast<unsigned>(kills) * 31 + 1);
      consume(s, *log_, [&] {
        for (int i = 0; i < 10; ++i) write_some(s, writes);
        return false;
      });
      return 1;
    });
    // So many bytes of lines, however slow the machine is: there have to be lines to compare. Some lives have none.
    const std::uint64_t enough = before + random() % 4'000;
    const auto end = std::chrono::steady_clock::now() + 30s;
    while (log_->size < enough && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(100us);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    both.kill(SIGKILL);
    ASSERT_EQ(both.wait(), -SIGKILL);
  }
  store s(path_, GetParam().options_at(path_));
  s.tag();
  consume(s, *log_, [] { return true; });
  EXPECT_EQ(lines_of(*log_), lines_of(s));
  EXPECT_GT(lines_of(s).size(), 200U);
}

INSTANTIATE_TEST_SUITE_P(All, KilledConsumer,
                         ::testing::Values(setting{place::tmpfs, durability::operation, index_kind::persistent},
                                           setting{place::tmpfs, durability::operation}),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace icecore::testing
