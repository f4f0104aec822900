// Compaction of a store that several processes share: what each of them sees, and what stays valid.
// shared_compaction_kills_test.cpp is about processes that are killed.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "icecore/icecore.hpp"
#include "store/core.hpp"
#include "support/expect.hpp"
#include "support/model.hpp"
#include "support/process.hpp"
#include "support/promises.hpp"
#include "support/scratch.hpp"
#include "support/shared_store.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

std::string key_of(unsigned i) { return "key-" + std::to_string(1000 + i); }

void require(bool holds, const char* what) {
  promise(holds, [&] { return std::string(what); });
}

/// How far the processes of a test are, and what writers have written.
struct signals {
  static constexpr unsigned writers = 2;
  static constexpr unsigned keys = 80;
  std::atomic<int> step;
  std::atomic<bool> ends;
  std::atomic<std::uint64_t> told;                 ///< a write of this number has returned
  std::atomic<int> turn;                           ///< odd: nobody is to write
  std::atomic<int> stopped_in;                     ///< the turn in which the other process has stopped
  std::atomic<std::uint64_t> last[writers][keys];  ///< the number in the value; 0: removed
};

class SharedCompaction : public SharedStore {
 protected:
  static void fill(store& s, const std::string& value, unsigned keys = 300) {
    for (unsigned i = 0; i < keys; ++i) s.insert(key_of(i), value + std::to_string(i));
  }
  static void require_all(const snapshot& then, const std::string& value, unsigned keys = 300) {
    for (unsigned i = 0; i < keys; ++i) {
      promise(then.find(key_of(i)) == value + std::to_string(i),
              [&] { return "version " + std::to_string(then.version()) + " shows another " + key_of(i); });
    }
  }
  shared<signals> log_;
};

/// The two take turns. Steps of turn n: 4 n + 1: the first process has written; + 2: so has the other; + 3: the store
/// is packed; + 4: the other has looked.
TEST_P(SharedCompaction, attached_process_goes_on_reading_and_writing) {
  constexpr int turns = 4;
  child other([&] {
    wait_for(log_, 1);
    store s(path_, beside());
    for (int turn = 0; turn < turns; ++turn) {
      const std::string now = std::to_string(turn);
      wait_for(log_, 4 * turn + 1);
      require_all(s.latest(), "value " + now + " ");
      s.insert("of the other", now);
      const version before = s.latest().version();
      log_->step = 4 * turn + 2;
      wait_for(log_, 4 * turn + 3);
      require_all(s.latest(), "value " + now + " ");
      require_all(s.at(before), "value " + now + " ");
      require(s.find("of the other")->bytes() == now, "its own write");
      require(s.find("of the first")->bytes() == now, "what was written behind the compaction");
      require(s.at(before).find("of the first") != std::optional<std::string_view>(now), "a later write in a version");
      require(s.remove(key_of(7)).has_value() && !s.find(key_of(7)), "a packed key is removed");
      require(!s.remove(key_of(7)), "and not removed twice");
      require(s.insert_new(key_of(7), "again").has_value(), "and enters again");
      require(!s.insert_new(key_of(8), "again"), "a packed key is there");
      batch two;
      two.insert("batched", now);
      two.insert_new("new " + now, now);
      require(s.apply_if(two).has_value() && !s.apply_if(two), "a batch with a condition");
      // more than fits into segments that the other process has made
      for (int i = 0; i < 4 << turn; ++i) s.insert("large " + std::to_string(i), now + std::string(300'000, 'l'));
      require(s.history(key_of(3)).oldest_first().size() == static_cast<std::size_t>(turn) + 1,
              "a history over strata");
      require(s.tags().size() == static_cast<std::size_t>(turn) + 1 && s.find_tag("turn " + now), "the tags");
      require(s.verify().ok(), "verify() of an attached process");
      require(s.stats().packed_keys >= 300, "stats() of an attached process");
      promise_error("expire() of an attached process", errc::invalid_argument, [&] {
        s.expire(std::vector<version_range>{{1, 2}});
      });
      log_->step = 4 * turn + 4;
    }
    return 0;
  });
  store s(path_, first());
  for (int turn = 0; turn < turns; ++turn) {
    const std::string now = std::to_string(turn);
    fill(s, "value " + now + " ");
    s.tag("turn " + now);
    log_->step = 4 * turn + 1;
    wait_for(log_, 4 * turn + 2);
    EXPECT_EQ(s.find("of the other")->bytes(), now);
    EXPECT_TRUE(s.compact({.whole = turn == 2, .on_progress = {}}).packed);
    s.insert("of the first", now);
    log_->step = 4 * turn + 3;
    wait_for(log_, 4 * turn + 4);
  }
  EXPECT_EQ(other.wait(), 0);
  EXPECT_EQ(s.find(key_of(7))->bytes(), "again");
  EXPECT_EQ(s.find("batched")->bytes(), std::to_string(turns - 1));
  EXPECT_TRUE(s.verify().ok());
  s.close();
  EXPECT_TRUE(verify_file(path_).ok());
  store again(path_, GetParam().options_at(path_));
  EXPECT_EQ(again.find("of the other")->bytes(), std::to_string(turns - 1));
  EXPECT_EQ(again.tags().size(), static_cast<std::size_t>(turns));
  for (int i = 0; i < 4 << (turns - 1); ++i) {
    const auto found = again.find("large " + std::to_string(i));
    ASSERT_TRUE(found) << i;
    EXPECT_EQ(found->bytes(), std::to_string(turns - 1) + std::string(300'000, 'l'));
  }
}

/// Each process has keys of its own, and knows what it has written; and it reads any version that it has seen again.
TEST_P(SharedCompaction, beside_processes_that_write_and_scan_no_answer_is_wrong) {
  const auto write_and_scan = [&](unsigned own) {
    wait_for(log_, 1);
    store s(path_, beside());
    std::mt19937 random(own);
    std::vector<std::uint64_t> mine(signals::keys);
    std::vector<std::pair<version, std::vector<std::uint64_t>>> seen;  // what was there in a version that it closed
    const auto name = [&](std::size_t i) { return std::to_string(own) + key_of(static_cast<unsigned>(i)); };
    const auto is = [&](std::optional<std::string_view> found, std::uint64_t number) {
      return number == 0 ? !found : found && std::stoull(std::string(*found)) == number;
    };
    const auto require_version = [&](const snapshot& then, const std::vector<std::uint64_t>& shown) {
      std::size_t there = 0;
      for (const auto& [key, value] : then.prefix(std::to_string(own) + "key-")) {
        ++there;
        const auto i = std::stoul(std::string(key.substr(5))) - 1000;
        promise(is(value, shown[i]),
                [&] { return "version " + std::to_string(then.version()) + ", a scan, " + name(i); });
      }
      require(there == static_cast<std::size_t>(std::ranges::count_if(shown, [](auto n) { return n != 0; })),
              "a scan meets each key once");
      for (std::size_t i = 0; i < shown.size(); ++i) require(is(then.find(name(i)), shown[i]), "a find in a version");
    };
    for (std::uint64_t n = 1; !log_->ends; ++n) {
      if (n % 16 == 0) std::this_thread::sleep_for(1ms);  // or there would be ever more to pack
      const std::size_t i = random() % signals::keys;
      const auto found = s.find(name(i));
      promise(is(found ? std::optional(found->bytes()) : std::nullopt, mine[i]),
              [&] { return "find " + name(i) + " in round " + std::to_string(n); });
      const std::string text = std::to_string(n);
      switch (random() % 6) {
        case 0:
          require(s.remove(name(i)).has_value() == (mine[i] != 0), "a removal");
          mine[i] = 0;
          break;
        case 1: {
          batch both;
          const std::size_t other = (i + 1) % signals::keys;
          both.insert(name(i), text);
          both.insert(name(other), text);
          s.apply(both);
          mine[i] = mine[other] = n;
          break;
        }
        case 2:
          require(s.insert_new(name(i), text).has_value() == (mine[i] == 0), "insert_new");
          if (mine[i] == 0) mine[i] = n;
          break;
        case 3:
          if (n % 8 != 0) break;
          if (seen.size() > 20) seen.erase(seen.begin());
          seen.emplace_back(s.latest().version(), mine);
          require_version(s.at(seen.back().first), mine);
          {
            const auto& [closed, shown] = seen[random() % seen.size()];
            require_version(s.at(closed), shown);
          }
          break;
        default:
          s.insert(name(i), text);
          mine[i] = n;
      }
    }
    for (const auto& [closed, shown] : seen) require_version(s.at(closed), shown);
    for (std::size_t i = 0; i < signals::keys; ++i) log_->last[own][i] = mine[i];
    return 0;
  };
  child one([&] { return write_and_scan(0); });
  child two([&] { return write_and_scan(1); });
  store s(path_, first());
  log_->step = 1;
  unsigned packed = 0;
  for (unsigned n = 0; n < 15; ++n) {
    const auto form = n % 3 == 2 ? compression::zstd : compression::none;
    packed += s.compact({.whole = n % 4 == 3, .compression = form, .on_progress = {}}).packed ? 1 : 0;
    std::this_thread::sleep_for(10ms);
    s.tag("round " + std::to_string(n));
  }
  log_->ends = true;
  EXPECT_EQ(one.wait(), 0);
  EXPECT_EQ(two.wait(), 0);
  EXPECT_GT(packed, 8U);
  const auto expect_last = [&](const store& of) {
    for (unsigned w = 0; w < signals::writers; ++w) {
      for (unsigned i = 0; i < signals::keys; ++i) {
        const auto found = of.find(std::to_string(w) + key_of(i));
        ASSERT_EQ(found ? std::stoull(std::string(found->bytes())) : 0, log_->last[w][i]) << w << " " << i;
      }
    }
    EXPECT_EQ(of.tags().size(), 15U);
    const auto report = of.verify();
    EXPECT_TRUE(report.ok()) << report.damages.front().what;
  };
  expect_last(s);
  s.close();
  expect_last(store(path_, GetParam().options_at(path_)));
}

/// The other process only reads: no write makes it look for the next generation, and its ticker looks now and then.
TEST_P(SharedCompaction, a_reader_sees_each_write_that_has_returned) {
  child other([&] {
    wait_for(log_, 1);
    const store s(path_, beside());
    log_->step = 2;
    while (!log_->ends) {
      const std::uint64_t told = log_->told;
      const std::uint64_t seen = std::stoull(std::string(s.find("counter")->bytes()));
      promise(seen >= told, [&] { return "write " + std::to_string(told) + " is missing"; });
      const std::uint64_t told_before = log_->told;
      const snapshot now = s.latest();
      require(std::stoull(std::string(*now.find("counter"))) >= told_before, "a snapshot shows what had returned");
    }
    return 0;
  });
  store s(path_, first());
  s.insert("counter", "0");
  log_->step = 1;
  wait_for(log_, 2);
  std::thread writer([&] {
    for (std::uint64_t n = 1; !log_->ends; ++n) {
      s.insert("counter", std::to_string(n));
      log_->told = n;
      if (n % 16 == 0) std::this_thread::sleep_for(1ms);
    }
  });
  for (unsigned n = 0; n < 5; ++n) {
    for (const std::uint64_t then = log_->told; log_->told < then + 4;) std::this_thread::sleep_for(100us);
    EXPECT_TRUE(s.compact().packed);
  }
  log_->ends = true;
  writer.join();
  EXPECT_EQ(other.wait(), 0);
}

TEST_P(SharedCompaction, what_another_process_looks_at_stays) {
  child other([&] {
    wait_for(log_, 1);
    std::optional<value> kept;
    {
      store s(path_, beside());
      const snapshot then = s.latest();
      std::optional<value> view = s.find(key_of(5));
      log_->step = 2;
      wait_for(log_, 3);  // it was packed twice, and written meanwhile
      require_all(then, "old ");
      require(view->bytes() == "old 5", "a view");
      require(s.find(key_of(5))->bytes() == "newer 5", "what is there now");
      kept = std::move(view);
    }
    log_->step = 4;
    wait_for(log_, 5);  // once more, behind the end of the store here, and then by another opening
    require(kept->bytes() == "old 5", "a view that is older than the end of its store");
    kept.reset();
    log_->step = 6;
    wait_for(log_, 7);
    return 0;
  });
  store s(path_, first());
  fill(s, "old ");
  log_->step = 1;
  wait_for(log_, 2);
  EXPECT_FALSE(s.compact().erased);
  fill(s, "new ");
  EXPECT_FALSE(s.compact().erased);
  fill(s, "newer ");
  log_->step = 3;
  wait_for(log_, 4);
  EXPECT_FALSE(s.compact().erased);
  fill(s, "newest ");
  s.close();
  s = store(path_, first());
  EXPECT_FALSE(s.compact().erased);
  fill(s, "newer than these ");
  log_->step = 5;
  wait_for(log_, 6);
  EXPECT_TRUE(s.compact().erased);
  log_->step = 7;
  EXPECT_EQ(other.wait(), 0);
}

TEST_P(SharedCompaction, a_process_that_does_nothing_keeps_no_space) {
  child idle([&] {
    wait_for(log_, 1);
    store s(path_, beside());
    require(s.find(key_of(5)).has_value(), "a find");
    log_->step = 2;
    wait_for(log_, 3);
    require(s.find(key_of(5))->bytes() == std::string(1000, 'f') + "5", "what is there now");
    return 0;
  });
  store s(path_, first());
  ASSERT_NO_THROW(s.set_retention({.newest = 1}));
  fill(s, "first ");
  log_->step = 1;
  wait_for(log_, 2);
  std::uint64_t largest = 0;
  std::uint64_t memory = 0;
  const auto shared_blocks = [&] {
    struct stat about {};
    EXPECT_EQ(::stat(common_.c_str(), &about), 0);
    return static_cast<std::uint64_t>(about.st_blocks) * 512;
  };
  for (unsigned round = 0; round < 6; ++round) {
    fill(s, std::string(1000, static_cast<char>('a' + round)));
    s.tag();
    const compaction_report done = s.compact();
    EXPECT_TRUE(done.packed);
    EXPECT_TRUE(done.erased);
    if (round == 2) {
      largest = s.stats().file_bytes;
      memory = shared_blocks();
    }
  }
  EXPECT_LE(s.stats().file_bytes, largest + largest / 4);
  EXPECT_LE(shared_blocks(), memory + memory / 4);
  log_->step = 3;
  EXPECT_EQ(idle.wait(), 0);
}

/// Only the first process knows of free space.
TEST_P(SharedCompaction, what_an_attached_process_writes_uses_space_again) {
  child other([&] {
    wait_for(log_, 1);
    store s(path_, beside());
    for (int round = 0; round < 7; ++round) {
      wait_for(log_, 2 * round + 1);
      fill(s, std::string(3000, static_cast<char>('a' + round)));
      static_cast<void>(s.latest());
      log_->step = 2 * round + 2;
    }
    return 0;
  });
  store s(path_, first());
  ASSERT_NO_THROW(s.set_retention({.newest = 1}));
  std::uint64_t used = 0;
  for (int round = 0; round < 7; ++round) {
    log_->step = 2 * round + 1;
    wait_for(log_, 2 * round + 2);
    EXPECT_TRUE(s.compact().packed);
    if (round == 3) used = s.stats().files[0].used_bytes;
  }
  EXPECT_LE(s.stats().files[0].used_bytes, used + used / 4);
  EXPECT_EQ(other.wait(), 0);
}

/// Steps: 2 n + 1: process n may attach; 2 n + 2: it has; 10: all is packed. All of them are forked before this process
/// has threads.
TEST_P(SharedCompaction, processes_attach_before_it_and_behind_it) {
  std::vector<std::unique_ptr<child>> others;
  for (int n = 0; n < 3; ++n) {
    others.push_back(std::make_unique<child>([&, n] {
      wait_for(log_, 2 * n + 1);
      store own(path_, beside());
      require_all(own.latest(), std::to_string(n) + " ");
      require(own.find("young")->bytes() == std::to_string(n), "what is not packed");
      own.insert("attached " + std::to_string(n), "here");
      require(own.verify().ok(), "verify");
      log_->step = 2 * n + 2;
      wait_for(log_, 10);
      for (unsigned i = 0; i < 3; ++i) require(own.find("attached " + std::to_string(i)).has_value(), "of the others");
      require(own.stats().packed_records > 600, "all is packed");
      return 0;
    }));
  }
  store s(path_, first());
  for (int n = 0; n < 3; ++n) {
    fill(s, std::to_string(n) + " ");
    EXPECT_TRUE(s.compact().packed);
    s.insert("young", std::to_string(n));
    log_->step = 2 * n + 1;
    wait_for(log_, 2 * n + 2);
  }
  EXPECT_TRUE(s.compact().packed);
  log_->step = 10;
  for (const auto& each : others) EXPECT_EQ(each->wait(), 0);
}

TEST_P(SharedCompaction, versions_expire_for_all_processes_but_not_what_they_need) {
  if (GetParam().durability != durability::operation) GTEST_SKIP() << "an attached process starts no query there";
  child other([&] {
    wait_for(log_, 1);
    store s(path_, beside());
    const snapshot fifth = s.at(5);
    query q = s.start({.name = "of 4", .at = 4, .where = filter("true")});
    log_->step = 2;
    wait_for(log_, 3);
    require(fifth.find("a") == "5", "a snapshot that began before");
    require(s.at(4).find("a") == "4" && s.at(9).find("a") == "9", "versions that are kept");
    promise_error("an expired version", errc::version_expired, [&] { static_cast<void>(s.at(5)); });
    promise_error("a query of an expired version", errc::version_expired,
                  [&] { static_cast<void>(s.start({.name = "of 5", .at = 5, .where = filter("true")})); });
    q.run();
    require(q.progress().rows == 1, "a query that was made before");
    return 0;
  });
  store s(path_, first());
  for (unsigned v = 1; v <= 10; ++v) {
    s.insert("a", std::to_string(v));
    ASSERT_EQ(s.tag(), v);
  }
  s.set_retention({.newest = 2});
  log_->step = 1;
  wait_for(log_, 2);
  EXPECT_EQ(s.compact().versions_expired, 7U);
  log_->step = 3;
  EXPECT_EQ(other.wait(), 0);
}

/// As the ranks of a cluster do it: nobody writes at the two instants, and both processes write between them.
TEST_P(SharedCompaction, is_packed_at_the_instants_that_its_caller_chooses) {
  child other([&] {
    wait_for(log_, 1);
    store s(path_, beside());
    for (std::uint64_t n = 1; !log_->ends; ++n) {
      if (const int turn = log_->turn; turn % 2 == 1) {
        log_->stopped_in = turn;
        while (log_->turn == turn) std::this_thread::sleep_for(50us);
      }
      const auto i = static_cast<unsigned>(n % signals::keys);
      require(log_->last[0][i] == 0 || s.find(key_of(i))->bytes() == std::to_string(log_->last[0][i]), "its own write");
      s.insert(key_of(i), std::to_string(n));
      log_->last[0][i] = n;
      if (n % 32 == 0) std::this_thread::sleep_for(1ms);
    }
    return 0;
  });
  store s(path_, first());
  std::uint64_t instants = 0;
  version closed = 0;
  const auto at_one_instant = [&](const std::function<void()>& work) {
    const int turn = ++log_->turn;
    while (log_->stopped_in != turn) std::this_thread::sleep_for(50us);
    ++instants;
    const version before = s.clock();
    work();
    s.skip_to(s.clock() + 2);  // other stores have closed more
    closed += s.clock() - before;
    ++log_->turn;
  };
  const compaction_together together{.at_one_instant = at_one_instant,
                                     .choose_expired = [](auto expired, const auto&) { return expired; }};
  log_->step = 1;
  for (unsigned n = 1; n <= 8; ++n) {
    s.insert("of the first", std::to_string(n));
    const version before = s.clock();
    closed = 0;
    const compaction_report done =
        s.compact({.whole = n % 3 == 0,
                   .on_progress = [&](const progress&) { s.insert("meanwhile", std::to_string(n)); },
                   .together = &together});
    EXPECT_TRUE(done.packed);
    EXPECT_EQ(instants, 2 * n);
    EXPECT_EQ(s.clock() - before, closed);
    EXPECT_EQ(s.find("of the first")->bytes(), std::to_string(n));
    EXPECT_EQ(s.find("meanwhile")->bytes(), std::to_string(n));
  }
  log_->ends = true;
  EXPECT_EQ(other.wait(), 0);
  const auto expect_all = [&](const store& of) {
    for (unsigned i = 0; i < signals::keys; ++i) {
      const auto found = of.find(key_of(i));
      EXPECT_EQ(found ? std::stoull(std::string(found->bytes())) : 0, log_->last[0][i]) << i;
    }
    EXPECT_TRUE(of.verify().ok());
  };
  expect_all(s);
  s.close();
  expect_all(store(path_, GetParam().options_at(path_)));
}

/// The first process writes nothing: what the other one writes is packed.
TEST_P(SharedCompaction, runs_by_itself_beside_a_process_that_writes) {
  child other([&] {
    wait_for(log_, 1);
    store s(path_, beside());
    for (unsigned n = 0; !log_->ends; ++n) {
      fill(s, std::to_string(n) + std::string(200, 'v'), 100);
      require_all(s.latest(), std::to_string(n) + std::string(200, 'v'), 100);
      std::this_thread::sleep_for(1ms);
    }
    return 0;
  });
  options how = first();
  how.compaction = compaction_mode::automatic;
  how.compaction_limits.young_bytes = 100'000;
  store s(path_, how);
  log_->step = 1;
  const auto until = std::chrono::steady_clock::now() + 30s;
  while (s.stats().compactions < 3 && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(10ms);
  EXPECT_GE(s.stats().compactions, 3U);
  EXPECT_EQ(s.stats().compaction_failure, "");
  log_->ends = true;
  EXPECT_EQ(other.wait(), 0);
}

INSTANTIATE_TEST_SUITE_P(EverySetting, SharedCompaction, ::testing::ValuesIn(tmpfs_settings()),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace icecore::testing
