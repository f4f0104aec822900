// Versions that are held by a call: no retention and no kind of compaction lets one expire, and nothing but a release
// ends a hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#include "query/kept/catalog.hpp"
#include "store/core.hpp"
#include "support/held_store.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

// ---- Whatever the retention ----

struct policy {
  const char* name;
  retention which;
};

class HeldUnder : public ::testing::TestWithParam<policy>, protected store_in_memory {
 protected:
  static constexpr version last = 30;
  static constexpr version held = 10;  // no policy wants it

  void expect_held(const store& s) const {
    EXPECT_EQ(content_of(s.at(held)), expected(held));
    EXPECT_EQ(s.find("all", held)->bytes(), std::to_string(held));
    EXPECT_FALSE(s.is_expired(held));
    const bool others_expire = !GetParam().which.keeps_all();
    EXPECT_EQ(s.is_expired(held - 1) && s.is_expired(held + 1), others_expire) << GetParam().name;
    EXPECT_EQ(content_of(s.latest()), expected(last));
    EXPECT_TRUE(s.verify().ok());
  }
  void make() const {
    store s(path_, how_);
    fill(s, last);
    EXPECT_EQ(s.hold_version("paper", held), held);
    s.set_retention(GetParam().which);
  }
};

TEST_P(HeldUnder, a_held_version_reads_as_before_behind_a_compaction_until_it_is_released) {
  make();
  static_cast<void>(compact(path_, how_));
  expect_held(store(path_, how_));
  static_cast<void>(compact(path_, how_, {.whole = true}));
  {
    store s(path_, how_);
    expect_held(s);
    s.release_version("paper");
    expect_held(s);  // until the next compaction
  }
  const bool others_expire = !GetParam().which.keeps_all();
  const compaction_report done = pack();
  EXPECT_EQ(done.versions_expired, others_expire ? 1U : 0U);
  const store s(path_, how_);
  EXPECT_TRUE(s.held_versions().empty());
  if (others_expire) {
    expect_expired(s, held);
  } else {
    EXPECT_EQ(content_of(s.at(held)), expected(held));
  }
}

TEST_P(HeldUnder, a_held_version_reads_as_before_behind_a_compaction_of_an_open_store) {
  make();
  store s(path_, how_);
  static_cast<void>(s.compact());
  expect_held(s);
  static_cast<void>(s.compact({.whole = true}));
  expect_held(s);
  s.release_version("paper");
  static_cast<void>(s.compact({.whole = true}));
  EXPECT_EQ(s.is_expired(held), !GetParam().which.keeps_all());
}

TEST_P(HeldUnder, a_dry_run_does_not_count_it) {
  make();
  const compaction_report with = compact(path_, how_, {.whole = true, .dry_run = true});
  store(path_, how_).release_version("paper");
  const compaction_report without = compact(path_, how_, {.whole = true, .dry_run = true});
  const bool others_expire = !GetParam().which.keeps_all();
  EXPECT_EQ(without.versions_expired, with.versions_expired + (others_expire ? 1 : 0));
  EXPECT_EQ(without.records_dropped > with.records_dropped, others_expire);
}

INSTANTIATE_TEST_SUITE_P(Policies, HeldUnder,
                         ::testing::Values(policy{"all", retention::all()}, policy{"tagged", {.tagged = true}},
                                           policy{"newest", {.newest = 4}}, policy{"age", {.younger_than = 24h}},
                                           policy{"hourly", {.hourly = 3}}, policy{"daily", {.daily = 1}},
                                           policy{"weekly", {.weekly = 1}}),
                         [](const auto& tested) { return tested.param.name; });

// ---- One store ----

class Held : public ::testing::Test, protected store_in_memory {};

TEST_F(Held, the_present_is_held_if_no_version_is_named) {
  store s(path_, how_);
  s.insert("key", "1");
  EXPECT_EQ(s.hold_version("now"), 1U);
  s.insert("key", "2");
  EXPECT_EQ(s.find("key", 1)->bytes(), "1");
  EXPECT_EQ(s.hold_version("again"), 2U);
  EXPECT_EQ(s.hold_version("and again"), 2U) << "nothing was written since";
  const auto before = std::chrono::system_clock::now();
  const auto all = s.held_versions();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].name, "now");
  EXPECT_EQ(all[0].version, 1U);
  EXPECT_EQ(all[1].name, "again") << "by version, then name";
  EXPECT_EQ(all[2].version, 2U);
  EXPECT_LE(all[2].created, before);
  EXPECT_GT(all[2].created, before - 1min);
}

TEST_F(Held, histories_before_it_may_go_but_not_what_it_shows) {
  {
    store s(path_, how_);
    fill(s, 9);
    s.hold_version("five", 5);
    s.set_retention({.newest = 1});
  }
  static_cast<void>(pack());
  const store s(path_, how_);
  EXPECT_EQ(s.history("all").newest_first().size(), 2U);
  EXPECT_EQ(content_of(s.at(5)), expected(5));
  expect_error(errc::version_expired, "has expired", [&] { static_cast<void>(s.changes(5, 9)); });
  std::size_t differences = 0;
  for ([[maybe_unused]] const auto& each : s.diff(5, 9)) ++differences;
  EXPECT_EQ(differences, 3U);
}

TEST_F(Held, what_cannot_be_held_is_an_error_and_leaves_nothing) {
  {
    store s(path_, how_);
    fill(s, 6);
    s.set_retention({.newest = 2});
  }
  static_cast<void>(pack());
  store s(path_, how_);
  const auto refuse = [&](errc code, const std::string& part, std::string_view name, version v) {
    expect_error(code, part, [&] { s.hold_version(name, v); });
  };
  refuse(errc::version_expired, "version 3 has expired", "three", 3);
  refuse(errc::version_not_closed, "", "seven", 7);
  refuse(errc::invalid_argument, "1 to 65535 bytes; this one has 0", "", 6);
  refuse(errc::invalid_argument, "this one has 65536", std::string(65'536, 'n'), 6);
  EXPECT_TRUE(s.held_versions().empty());
  const std::string longest(65'535, 'n');
  EXPECT_EQ(s.hold_version(longest, 6), 6U);
  s.hold_version("six", 6);
  refuse(errc::query_exists, "a hold is named 'six' already", "six", 5);
  EXPECT_EQ(names_of(s), (std::vector<std::string>{longest, "six"}));
  expect_error(errc::no_such_query, "no hold is named 'seven'", [&] { s.release_version("seven"); });
  s.release_version(longest);
  s.release_version("six");
  expect_error(errc::no_such_query, "no hold is named 'six'", [&] { s.release_version("six"); });
  s.hold_version("six", 5);  // the name is free again
  s.close();
  options reading = how_;
  reading.access = access::read_only;
  store r(path_, reading);
  EXPECT_EQ(names_of(r), std::vector<std::string>{"six"});
  expect_error(errc::read_only, "opened for reading only", [&] { r.hold_version("one", 5); });
  expect_error(errc::read_only, "opened for reading only", [&] { r.release_version("six"); });
}

TEST_F(Held, a_query_a_feed_a_hold_and_a_tag_may_have_one_name) {
  store s(path_, how_);
  fill(s, 3);
  s.start({.name = "audit", .at = 1, .where = filter("true")}).run();
  static_cast<void>(s.feed({.name = "audit", .after = 3}));
  s.hold_version("audit", 2);
  s.tag("audit");
  EXPECT_EQ(s.queries().size(), 1U);
  EXPECT_EQ(s.feeds().size(), 1U);
  EXPECT_EQ(names_of(s), std::vector<std::string>{"audit"});
  EXPECT_EQ(s.verify().queries, 1U);
  EXPECT_EQ(s.prune_queries({}), 1U);
  s.drop_feed("audit");
  EXPECT_EQ(names_of(s), std::vector<std::string>{"audit"});
  EXPECT_TRUE(s.queries().empty());
  expect_error(errc::no_such_query, "no query is named", [&] { static_cast<void>(s.query("audit")); });
  expect_error(errc::no_such_query, "no feed is named", [&] { static_cast<void>(s.open_feed("audit")); });
}

TEST_F(Held, one_version_stays_until_its_last_hold_is_released) {
  {
    store s(path_, how_);
    fill(s, 9);
    s.hold_version("a", 4);
    s.hold_version("b", 4);
    s.set_retention({.newest = 1});
  }
  EXPECT_EQ(pack().versions_expired, 7U);
  store(path_, how_).release_version("a");
  EXPECT_EQ(pack().versions_expired, 0U);
  EXPECT_EQ(content_of(store(path_, how_).at(4)), expected(4));
  store(path_, how_).release_version("b");
  EXPECT_EQ(pack().versions_expired, 1U);
}

TEST_F(Held, nothing_expires_where_all_that_could_is_held) {
  {
    store s(path_, how_);
    fill(s, 3);
    s.hold_version("one", 1);
    s.hold_version("two", 2);
    s.set_retention({.newest = 1});
  }
  EXPECT_FALSE(compact(path_, how_, {.only_if_expiring = true}).packed);
  store(path_, how_).release_version("one");
  EXPECT_EQ(compact(path_, how_, {.only_if_expiring = true}).versions_expired, 1U);
}

TEST_F(Held, not_even_a_call_to_expire_takes_it) {
  store s(path_, how_);
  fill(s, 6);
  s.hold_version("four", 4);
  const version_range some{3, 6};
  expect_error(errc::invalid_argument, "version 4 cannot expire: it is held as 'four'", [&] { s.expire({&some, 1}); });
  EXPECT_TRUE(s.expired_versions().empty());
  s.release_version("four");
  s.expire({&some, 1});
  expect_expired(s, 4);
}

TEST_F(Held, automatic_compaction_leaves_it) {
  options how = how_;
  how.compaction = compaction_mode::automatic;
  how.compaction_limits.young_bytes = 1 << 16;
  store s(path_, how);
  s.set_retention({.newest = 2});
  fill(s, 20);
  s.hold_version("ten", 10);
  // more than the bound again and again
  const auto until = std::chrono::steady_clock::now() + 60s;
  version next = 21;
  while (s.stats().compactions < 3 || !s.is_expired(11)) {
    ASSERT_LT(std::chrono::steady_clock::now(), until) << s.stats().compaction_failure;
    fill(s, 300, next);
    next += 300;
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(content_of(s.at(10)), expected(10));
  s.release_version("ten");
  while (!s.is_expired(10)) {
    ASSERT_LT(std::chrono::steady_clock::now(), until) << s.stats().compaction_failure;
    fill(s, 300, next);
    next += 300;
    std::this_thread::sleep_for(1ms);
  }
}

TEST_F(Held, a_compaction_that_had_decided_before_the_call_decides_anew) {
  store s(path_, how_);
  fill(s, 9);
  s.set_retention({.newest = 1});
  bool is_held = false;
  const compaction_report done = s.compact({.on_progress = [&](const progress&) {
    if (std::exchange(is_held, true)) return;
    s.hold_version("four", 4);
  }});
  EXPECT_TRUE(is_held);
  EXPECT_EQ(done.versions_expired, 7U);
  EXPECT_EQ(content_of(s.at(4)), expected(4));
  expect_error(errc::version_expired, "has expired", [&] { s.hold_version("five", 5); });
  EXPECT_EQ(names_of(s), std::vector<std::string>{"four"});
}

TEST_F(Held, a_compaction_that_ends_before_the_hold_is_made_leaves_none) {
  store s(path_, how_);
  fill(s, 9);
  s.set_retention({.newest = 1});
  auto& catalog = detail::query_catalog::of(s.core());
  std::atomic<bool> begins{false};
  std::thread holding;
  {
    const std::scoped_lock waits(catalog.mutex());
    holding = std::thread([&] {
      begins = true;
      expect_error(errc::version_expired, "has expired", [&] { s.hold_version("four", 4); });
    });
    while (!begins) std::this_thread::yield();
    std::this_thread::sleep_for(100ms);  // it has found the version, and waits to make the hold
    static_cast<void>(s.compact());
  }
  holding.join();
  EXPECT_TRUE(s.held_versions().empty());
  EXPECT_TRUE(s.verify().ok());
}

TEST_F(Held, a_release_counts_though_its_space_is_not_free_yet) {
  store s(path_, how_);
  fill(s, 9);
  query q = s.start({.name = "q", .at = 9, .where = filter("true")});
  q.run();
  s.hold_version("four", 4);
  s.set_retention({.newest = 1});
  query_rows rows = q.results();
  auto row = rows.begin();  // as long as somebody reads rows no space of queries is given back
  ASSERT_FALSE(row == rows.end());
  s.release_version("four");
  EXPECT_TRUE(s.held_versions().empty());
  static_cast<void>(s.compact());
  expect_expired(s, 4);
  s.hold_version("four", 9);
  EXPECT_EQ(s.held_versions().size(), 1U);
}

TEST_F(Held, threads_that_hold_while_others_compact_find_the_version_or_are_told) {
  store s(path_, how_);
  fill(s, 400);
  s.set_retention({.newest = 1});
  std::vector<version> held;
  std::thread packing([&] {
    for (int i = 0; i < 6; ++i) {
      try {
        static_cast<void>(s.compact({.whole = true}));
      } catch (const error& e) {
        EXPECT_EQ(e.code(), errc::query_busy) << e.what();  // holds came all the time
      }
    }
  });
  for (version v = 1; v <= 60; ++v) {
    try {
      s.hold_version(std::to_string(v), v);
      held.push_back(v);
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::version_expired) << e.what();
    }
  }
  packing.join();
  static_cast<void>(s.compact({.whole = true}));
  EXPECT_EQ(s.held_versions().size(), held.size());
  for (version v = 1; v <= 60; ++v) {
    if (std::ranges::binary_search(held, v)) {
      EXPECT_EQ(content_of(s.at(v)), expected(v));
    } else {
      expect_expired(s, v);
    }
  }
}

}  // namespace
}  // namespace icecore::testing
