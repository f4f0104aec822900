// store::compact() of a process that is attached: the process that opened the store packs it, and what the asker is
// told. asked_compaction_kills_test.cpp is about processes that are killed.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/background/ticker.hpp"
#include "icecore/icecore.hpp"
#include "store/sharing/compaction_answerer.hpp"
#include "support/asked_compaction.hpp"
#include "support/expect.hpp"
#include "support/promises.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

TEST_P(AskedCompaction, packs_as_a_call_of_the_opener_does) {
  child other([&] {
    wait_for(log_, 1);
    store s(path_, beside());
    // No task of this process follows meanwhile.
    std::atomic<bool> rests{false};
    std::atomic<bool> ends{false};
    const ticking_task holds_ticker([&] {
      rests = true;
      while (!ends) std::this_thread::sleep_for(1ms);
    });
    while (!rests) std::this_thread::sleep_for(1ms);
    const auto asker = std::this_thread::get_id();
    std::optional<progress> told;
    const compaction_report done = s.compact({.threads = 2, .on_progress = [&](const progress& now) {
                                                require(std::this_thread::get_id() == asker, "the asker's thread");
                                                require(now.done <= now.total && now.done != 0, "progress");
                                                told = now;
                                              }});
    require(s.opened().hold()->generation() == 2, "it has followed");
    ends = true;
    require(done.packed && done.keys == keys && done.records == keys && done.strata == 1, "the report");
    require(done.bytes_written != 0 && done.bytes_before != 0 && done.up_to == s.clock() - 1, "the rest of it");
    require(told && told->done == keys && told->total == keys && told->what == "packing records", "its last progress");
    require_all(s, "first ");
    require(s.stats().packed_records == keys, "all is packed");
    s.insert("young", "1");
    const compaction_report counted = s.compact({.dry_run = true, .on_progress = {}});
    require(!counted.packed && counted.records == 1 && s.stats().packed_records == keys, "it only counts");
    require(!s.compact({.only_if_expiring = true, .on_progress = {}}).packed, "nothing expires");
    const compaction_report compressed =
        s.compact({.whole = true, .compression = compression::zstd, .compression_level = 9, .on_progress = {}});
    require(compressed.packed && compressed.erased && compressed.records == keys + 1 && compressed.strata == 1,
            "one stratum, and nobody looks at what was before");
    require(s.stats().packed_bytes < s.stats().packed_inflated_bytes, "it is compressed");
    s.set_retention({.newest = 1});
    s.insert("young", "2");
    s.tag();
    require(s.compact({.whole = true, .on_progress = {}}).versions_expired != 0, "versions expire");
    require(!s.compact().packed, "nothing is left");
    log_->step = 2;
    return 0;
  });
  store s(path_, first());
  fill(s, "first ");
  log_->step = 1;
  wait_for(log_, 2);
  EXPECT_EQ(other.wait(), 0);
  EXPECT_EQ(s.stats().packed_records, keys + 1);
  EXPECT_EQ(s.find("young"), "2");
  require_all(s, "first ");
  EXPECT_TRUE(s.verify().ok());
  s.close();
  EXPECT_TRUE(verify_file(path_).ok());
}

TEST_P(AskedCompaction, threads_of_the_asker_go_on_meanwhile) {
  child other([&] {
    wait_for(log_, 1);
    store s(path_, beside());
    std::atomic<std::uint64_t> written{0};
    std::atomic<bool> ends{false};
    std::thread writer([&] {
      for (std::uint64_t n = 1; !ends; ++n) {
        s.insert("counter", std::to_string(n));
        written = n;
        std::this_thread::sleep_for(100us);
      }
    });
    const std::uint64_t before = written;
    // it ends when the other thread has written and read all the while
    try {
      static_cast<void>(s.compact(slow([&](const progress&) {
        require(s.find(key_of(7)) == "first 7", "the progress function reads");
        s.insert("of the function", "written");
        if (written > before + 100) throw std::runtime_error("enough");
      })));
      return 1;
    } catch (const std::runtime_error& enough) {
      require(std::string(enough.what()) == "enough", "its own exception");
    }
    require(s.compact().packed, "it is packed");
    ends = true;
    writer.join();
    require(s.find("counter") == std::to_string(written), "what the thread has written");
    require(s.find("of the function") == "written", "what the function has written");
    return 0;
  });
  store s(path_, first());
  fill(s, "first ");
  log_->step = 1;
  EXPECT_EQ(other.wait(), 0);
  EXPECT_TRUE(s.verify().ok());
}

TEST_P(AskedCompaction, progress_function_that_throws_ends_the_work_of_the_opener) {
  child other([&] {
    wait_for(log_, 1);
    store s(path_, beside());
    int told = 0;
    try {
      static_cast<void>(s.compact(slow([&](const progress&) {
        if (++told == 2) throw std::runtime_error("enough");
      })));
      return 1;
    } catch (const std::runtime_error& enough) {
      require(std::string(enough.what()) == "enough", "its own exception");
    }
    require(told == 2 && s.opened().hold()->generation() == 1, "the store is as it was");
    log_->step = 2;
    wait_for(log_, 3);
    require(s.compact().packed, "and it is packed by the next call");
    return 0;
  });
  store s(path_, first());
  fill(s, "first ");
  log_->step = 1;
  wait_for(log_, 2);
  EXPECT_TRUE(s.compact().packed);  // the opener is free
  s.insert("more", "1");
  log_->step = 3;
  EXPECT_EQ(other.wait(), 0);
  EXPECT_TRUE(s.verify().ok());
}

/// One of them packs, and two threads of the other one only count: none gets the answer of another one.
TEST_P(AskedCompaction, several_askers_are_served_one_after_the_other) {
  child packs([&] {
    wait_for(log_, 1);
    store s(path_, beside());
    for (unsigned n = 0; n < 10; ++n) {
      s.insert("new", std::to_string(n));
      const version written = s.clock();
      const compaction_report done = s.compact();
      require(done.packed && done.up_to >= written, "what was written before the call is packed");
      require(s.find("new") == std::to_string(n), "what was written");
    }
    log_->ends = true;
    return 0;
  });
  child counts([&] {
    wait_for(log_, 1);
    store s(path_, beside());
    in_threads(2, [&](unsigned) {
      while (!log_->ends) {
        require(!s.compact({.dry_run = true, .on_progress = {}}).packed, "it only counts");
        ++log_->count;
      }
    });
    return 0;
  });
  store s(path_, first());
  fill(s, "first ");
  log_->step = 1;
  EXPECT_EQ(packs.wait(), 0);
  EXPECT_EQ(counts.wait(), 0);
  EXPECT_GT(log_->count, 0U);
  EXPECT_TRUE(s.verify().ok());
}

TEST_P(AskedCompaction, mistakes_are_refused_before_the_opener_is_asked) {
  store s(path_, first());
  store attached(path_, beside());
  s.insert("a", "1");
  expect_error(errc::invalid_argument, "compression_level is 20",
               [&] { static_cast<void>(attached.compact({.compression_level = 20, .on_progress = {}})); });
  const compaction_together together{};
  expect_error(errc::invalid_argument, "attached",
               [&] { static_cast<void>(attached.compact({.on_progress = {}, .together = &together})); });
  EXPECT_EQ(asked(s), 0U);
  EXPECT_TRUE(attached.compact().packed);
  EXPECT_EQ(asked(s), 1U);
}

/// The opener would wait for itself.
TEST_P(AskedCompaction, functions_that_it_calls_cannot_call_it_again) {
  store s(path_, first());
  store attached(path_, beside());
  store another(path_, beside());
  fill(s, "first ");
  unsigned refused = 0;
  const auto refuse = [&](store& by) {
    return compaction_options{.on_progress = [&](const progress&) {
      expect_error(errc::invalid_argument, "cannot call compact()", [&] { static_cast<void>(by.compact()); });
      ++refused;
    }};
  };
  EXPECT_TRUE(s.compact(refuse(attached)).packed);
  fill(s, "second ");
  EXPECT_TRUE(attached.compact(refuse(attached)).packed);
  fill(s, "third ");
  EXPECT_TRUE(attached.compact(refuse(another)).packed);
  fill(s, "fourth ");
  EXPECT_TRUE(attached.compact(refuse(s)).packed);
  EXPECT_GE(refused, 4U);
  require_all(another, "fourth ");
}

TEST_P(AskedCompaction, error_of_the_opener_is_the_askers) {
  child opener([&] {
    store s(path_, first());
    for (unsigned i = 0; i < 300; ++i) s.insert(key_of(i), std::string(10'000, static_cast<char>('a' + i % 26)));
    struct stat about {};
    ::stat(path_.c_str(), &about);
    ::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    rlimit small = before;
    small.rlim_cur = static_cast<rlim_t>(about.st_size);
    setrlimit(RLIMIT_FSIZE, &small);
    promise_error("its own call", errc::no_space, [&] {
      try {
        static_cast<void>(s.compact());
      } catch (const error& failure) {
        failure.message().copy(log_->text, sizeof log_->text - 1);
        throw;
      }
    });
    log_->step = 1;
    wait_for(log_, 2);
    setrlimit(RLIMIT_FSIZE, &before);
    log_->step = 3;
    wait_for(log_, 4);
    require(s.verify().ok(), "it is whole");
    return 0;
  });
  wait_for(log_, 1);
  store s(path_, beside());
  for (int n = 0; n < 2; ++n) expect_error(errc::no_space, log_->text, [&] { static_cast<void>(s.compact()); });
  log_->step = 2;
  wait_for(log_, 3);
  EXPECT_TRUE(s.compact().packed);
  log_->step = 4;
  EXPECT_EQ(opener.wait(), 0);
}

/// It is cut off: it would take hours.
TEST_P(AskedCompaction, asker_learns_that_the_opener_closes_the_store) {
  child waits([&] {
    wait_for(log_, 1);
    store s(path_, beside());
    promise_error("a request that is under way", errc::closed,
                  [&] { static_cast<void>(s.compact(slow([&](const progress&) { ++log_->count; }))); });
    promise_error("the next request", errc::closed, [&] { static_cast<void>(s.compact()); });
    return 0;
  });
  child queues([&] {
    wait_for(log_, 2);
    store s(path_, beside());
    log_->step = 3;
    promise_error("a request behind it", errc::closed, [&] { static_cast<void>(s.compact()); });
    return 0;
  });
  store s(path_, first());
  fill(s, "first ");
  log_->step = 1;
  while (log_->count == 0) std::this_thread::sleep_for(1ms);
  log_->step = 2;
  wait_for(log_, 3);
  s.close();
  EXPECT_EQ(waits.wait(), 0);
  EXPECT_EQ(queues.wait(), 0);
  EXPECT_TRUE(verify_file(path_).ok());
  const store again(path_, GetParam().options_at(path_));
  require_all(again, "first ");
}

TEST_P(AskedCompaction, request_that_the_opener_does_not_begin_any_more_is_an_error) {
  child other([&] {
    wait_for(log_, 1);
    store s(path_, beside());
    log_->step = 2;
    promise_error("a request", errc::closed, [&] { static_cast<void>(s.compact()); });
    return 0;
  });
  {
    const store s(path_, first());
    s.opened().answers->end();
    log_->step = 1;
    wait_for(log_, 2);
    while (asked(s) == 0) std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(other.wait(), 0);
}

TEST_P(AskedCompaction, asker_learns_that_the_store_is_poisoned) {
  child other([&] {
    wait_for(log_, 1);
    store s(path_, beside());
    promise_error("a request that is under way", errc::poisoned,
                  [&] { static_cast<void>(s.compact(slow([&](const progress&) { ++log_->count; }))); });
    promise_error("the next request", errc::poisoned, [&] { static_cast<void>(s.compact()); });
    log_->step = 2;
    return 0;
  });
  store s(path_, first());
  fill(s, "first ");
  log_->step = 1;
  while (log_->count == 0) std::this_thread::sleep_for(1ms);
  s.core().the_pool().persist().poison("for a test");
  wait_for(log_, 2);  // the opener still has the store open
  EXPECT_EQ(other.wait(), 0);
  expect_error(errc::poisoned, "for a test", [&] { s.close(); });
}

TEST_P(AskedCompaction, asker_learns_that_the_opener_has_no_thread) {
  store s(path_, first());
  store attached(path_, beside());
  s.core().shared().compaction.served = detail::compaction_request::service::no_thread;
  expect_error(errc::io, "no thread", [&] { static_cast<void>(attached.compact()); });
}

/// A request is a call, which automatic compaction does not keep from its work.
TEST_P(AskedCompaction, runs_while_automatic_compaction_is_paused) {
  options how = first();
  how.compaction = compaction_mode::automatic;
  how.compaction_limits.young_bytes = 1;
  store s(path_, how);
  s.pause_compaction();
  store attached(path_, beside());
  fill(s, "first ");
  EXPECT_TRUE(attached.compact().packed);
  fill(s, "second ");
  s.resume_compaction();
  EXPECT_NO_THROW(static_cast<void>(attached.compact()));
  require_all(attached, "second ");
}

/// Each of the two waits for the other one's compaction, and both are cut off.
TEST_P(AskedCompaction, ends_with_automatic_compaction_when_the_store_is_closed) {
  for (const bool automatic_first : {false, true}) {
    log_->step = 0;
    log_->count = 0;
    child other([&] {
      wait_for(log_, 1);
      store s(path_, beside());
      promise_error("a request", errc::closed,
                    [&] { static_cast<void>(s.compact(slow([&](const progress&) { ++log_->count; }))); });
      return 0;
    });
    options how = first();
    how.compaction = compaction_mode::automatic;
    how.compaction_limits.young_bytes = 1;
    how.compaction_limits.bytes_per_second = 1;
    store s(path_, how);
    const auto is_packing = [&] { return !std::unique_lock(s.opened().compacting, std::try_to_lock).owns_lock(); };
    if (!automatic_first) s.pause_compaction();
    fill(s, automatic_first ? "first " : "second ");
    while (automatic_first && !is_packing()) std::this_thread::sleep_for(1ms);
    log_->step = 1;
    while (automatic_first ? asked(s) == 0 : log_->count == 0) std::this_thread::sleep_for(1ms);
    s.resume_compaction();
    s.close();
    EXPECT_EQ(other.wait(), 0);
  }
}

/// It ends as programs end that have forked: it destroys what it has inherited.
TEST_P(AskedCompaction, forked_child_of_the_opener_neither_answers_nor_ends_the_service) {
  child opener([&] {
    std::optional<store> s(std::in_place, path_, first());
    fill(*s, "first ");
    child ends([&] {
      s.reset();
      return 0;
    });
    require(ends.wait() == 0, "a child ends");
    const child stays([&] {
      log_->step = 1;
      for (int n = 0; n < 60'000 && !log_->ends; ++n) std::this_thread::sleep_for(1ms);  // longer than the opener
      return 0;
    });
    wait_for(log_, 2);
    ::kill(getpid(), SIGKILL);
    return 0;
  });
  wait_for(log_, 1);
  store s(path_, beside());
  EXPECT_TRUE(s.compact().packed);
  s.insert("young", "1");
  log_->step = 2;
  EXPECT_EQ(opener.wait(), -SIGKILL);
  expect_error(errc::invalid_argument, "has ended", [&] { static_cast<void>(s.compact()); });
  log_->ends = true;
}

INSTANTIATE_TEST_SUITE_P(EverySetting, AskedCompaction, ::testing::ValuesIn(tmpfs_settings()),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace icecore::testing
