// Compaction of a store that threads read and write: what they see, what stays valid, and what a kill leaves.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "icecore/changes.hpp"
#include "icecore/feed.hpp"
#include "icecore/icecore.hpp"
#include "store/core.hpp"
#include "support/expect.hpp"
#include "support/model.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

std::string key_of(std::size_t i) { return "key-" + std::to_string(1000 + i); }

void write_round(store& s, model& m, unsigned keys, std::mt19937& random) {
  for (unsigned i = 0; i < keys / 5; ++i) {
    const std::string key = key_of(random() % keys);
    if (random() % 4 == 0) {
      ASSERT_EQ(s.remove(key).has_value(), m.remove(key).has_value());
    } else {
      const std::string value = std::to_string(random()) + std::string(random() % 50, 'v');
      s.insert(key, value);
      m.insert(key, value);
    }
  }
  const std::int64_t time_ns = 1000 + static_cast<std::int64_t>(m.clock);
  const std::string name = "round " + std::to_string(m.clock);
  const version v = s.tag({.name = name, .time_ns = time_ns});
  ASSERT_EQ(v, m.close_version());
  m.tags.push_back({v, time_ns, name, {}});
}

class LiveCompaction : public ::testing::TestWithParam<setting> {
 protected:
  scratch folder_{GetParam().where};
  std::filesystem::path path_ = folder_ / "live.ice";
  [[nodiscard]] options opening() const { return GetParam().options_at(path_); }
};

TEST_P(LiveCompaction, changes_no_answer_and_the_store_goes_on) {
  model m;
  std::mt19937 random(7);
  for (unsigned session = 0; session < 3; ++session) {
    store s(path_, opening());
    for (unsigned turn = 0; turn < 3; ++turn) {
      for (unsigned round = 0; round < 3; ++round) write_round(s, m, 200, random);
      const auto form = turn % 2 == 0 ? compression::zstd : compression::none;
      const compaction_report done =
          s.compact({.whole = turn == 2, .threads = turn, .compression = form, .on_progress = {}});
      EXPECT_TRUE(done.packed);
      EXPECT_TRUE(done.erased);
      EXPECT_EQ(done.up_to, m.clock - 1);
      EXPECT_EQ(s.core().the_pool().first().file().path(), path_);
      m.pack();
      compare_everything(s, m, 5);
      EXPECT_EQ(s.core().packing().number, 3 * session + turn + 1);
      const auto copy = folder_ / ("copy " + std::to_string(3 * session + turn));
      s.checkpoint().write(copy);
      compare_everything(store(copy, opening()), m, 5);
      const auto report = s.verify();
      EXPECT_TRUE(report.ok()) << report.damages.front().what;
    }
    s.close();
    const auto report = verify_file(path_);
    EXPECT_TRUE(report.ok()) << report.damages.front().what;
    compare_everything(store(path_, opening()), m, 5);
  }
}

TEST_P(LiveCompaction, of_an_empty_store_or_of_nothing_new_does_nothing) {
  store s(path_, opening());
  EXPECT_FALSE(s.compact().packed);
  s.insert("a", "1");
  EXPECT_TRUE(s.compact().packed);
  EXPECT_FALSE(s.compact().packed);
  EXPECT_EQ(s.find("a")->bytes(), "1");
}

TEST_P(LiveCompaction, a_dry_run_tells_what_would_be_left_and_changes_nothing) {
  store s(path_, opening());
  for (unsigned n = 0; n < 5; ++n) {
    for (unsigned i = 0; i < 500; ++i) s.insert(key_of(i), std::to_string(n) + std::string(300, 'v'));
    s.tag();
  }
  s.set_retention({.newest = 1});
  const compaction_report told = s.compact({.dry_run = true, .on_progress = {}});
  EXPECT_FALSE(told.packed);
  EXPECT_EQ(s.stats().packed_records, 0U);
  EXPECT_EQ(s.find(key_of(3), 1)->bytes(), "0" + std::string(300, 'v'));
  EXPECT_LT(told.bytes_after, told.bytes_before);
  const compaction_report done = s.compact();
  EXPECT_EQ(told.versions_expired, done.versions_expired);
  EXPECT_EQ(told.records_dropped, done.records_dropped);
  EXPECT_EQ(told.records, done.records);
  EXPECT_EQ(told.keys, 500U);
  EXPECT_EQ(told.keys, done.keys);
  EXPECT_EQ(told.strata, 1U);
  EXPECT_EQ(told.strata, done.strata);
}

TEST_P(LiveCompaction, views_of_before_stay_valid_and_hold_their_space) {
  store s(path_, opening());
  const std::string large(20'000, 'l');  // packed: larger ones stay where they are
  for (unsigned i = 0; i < 100; ++i) s.insert(key_of(i), large + std::to_string(i));
  const version v = s.tag();
  const auto view = s.find(key_of(7), v);
  const snapshot then = s.at(v);
  EXPECT_FALSE(s.compact().erased);
  for (unsigned i = 0; i < 100; ++i) s.insert(key_of(i), std::string(20'000, 'n'));
  EXPECT_EQ(view->bytes(), large + "7");
  for (unsigned i = 0; i < 100; ++i) ASSERT_EQ(then.find(key_of(i)), large + std::to_string(i));
  EXPECT_EQ(s.find(key_of(3))->bytes(), std::string(20'000, 'n'));
}

TEST_P(LiveCompaction, space_is_used_again) {
  store s(path_, opening());
  ASSERT_NO_THROW(s.set_retention({.newest = 1}));
  std::uint64_t largest = 0;
  for (unsigned round = 0; round < 12; ++round) {
    for (unsigned i = 0; i < 400; ++i) s.insert(key_of(i), std::string(1000, static_cast<char>('a' + round)));
    s.tag();
    const compaction_report done = s.compact();
    EXPECT_TRUE(done.packed);
    EXPECT_TRUE(done.erased);
    if (round == 5) largest = s.stats().file_bytes;
  }
  EXPECT_LE(s.stats().file_bytes, largest + largest / 4);
  EXPECT_EQ(s.find(key_of(399))->bytes(), std::string(1000, 'l'));
}

TEST_P(LiveCompaction, feeds_queries_and_checkpoints_go_on) {
  store s(path_, opening());
  for (unsigned i = 0; i < 300; ++i) s.insert(key_of(i), std::to_string(i));
  const version first = s.tag("first");
  s.sync();
  feed all = s.feed({.after = 0, .unsynced = true});
  std::map<std::string, std::string> told;
  const auto read_feed = [&](std::size_t at_most) {
    for (feed_batch some = all.next(at_most, 0ms); !some.changes.empty(); some = all.next(at_most, 0ms)) {
      for (const key_change& c : some.changes) told[std::string(c.key)] = c.value ? std::string(*c.value) : "";
      if (at_most < 100) break;
    }
  };
  read_feed(50);
  query q = s.start({.name = "kept", .at = first, .where = filter("true")});
  const checkpoint cut = s.checkpoint();
  EXPECT_TRUE(s.compact().packed);
  for (unsigned i = 0; i < 300; i += 3) s.insert(key_of(i), "new");
  s.tag();
  EXPECT_TRUE(s.compact().packed);
  cut.write(folder_ / "copy.ice");
  q.run();
  EXPECT_EQ(q.progress().rows, 300U);
  std::size_t rows = 0;
  for (const auto& row : q.results()) {
    EXPECT_EQ(row.key, key_of(rows++));
  }
  EXPECT_EQ(rows, 300U);
  read_feed(1000);
  EXPECT_EQ(told.size(), 300U);
  for (unsigned i = 0; i < 300; ++i) ASSERT_EQ(told[key_of(i)], i % 3 == 0 ? "new" : std::to_string(i));
  const auto report = verify_file(folder_ / "copy.ice");
  EXPECT_TRUE(report.ok()) << report.damages.front().what;
  store copy(folder_ / "copy.ice");
  EXPECT_EQ(copy.at("first").size(), 300U);
  EXPECT_EQ(copy.find(key_of(0))->bytes(), "0");
}

/// Writers of keys of their own, which know what they have written; readers of any version; a compaction after the
/// other.
TEST_P(LiveCompaction, beside_writers_and_readers_no_answer_is_wrong) {
  constexpr unsigned writers = 2;
  constexpr unsigned keys = 60;
  store s(path_, opening());
  std::atomic<bool> ends{false};
  std::atomic<unsigned> wrong{0};
  std::mutex mutex;
  std::map<version, std::map<std::string, std::string>> seen;  // what a snapshot showed when it was new
  std::vector<std::map<std::string, std::string>> last(writers);
  std::vector<std::thread> threads;
  for (unsigned w = 0; w < writers; ++w) {
    threads.emplace_back([&, w] {
      std::mt19937 random(w);
      auto& mine = last[w];
      for (unsigned n = 0; !ends.load(); ++n) {
        const std::string key = std::to_string(w) + key_of(random() % keys);
        if (n % 32 == 0) std::this_thread::sleep_for(1ms);  // or there would be ever more to pack
        const auto known = mine.find(key);
        const auto found = s.find(key);
        if (found.has_value() != (known != mine.end()) || (found && found->bytes() != known->second)) ++wrong;
        switch (random() % 6) {
          case 0:
            if (s.remove(key).has_value() != (known != mine.end())) ++wrong;
            mine.erase(key);
            break;
          case 1: {
            batch both;
            both.insert(key, "batch" + std::to_string(n));
            both.insert(std::to_string(w) + "beside", std::to_string(n));
            s.apply(both);
            mine[key] = "batch" + std::to_string(n);
            mine[std::to_string(w) + "beside"] = std::to_string(n);
            break;
          }
          case 2:
            if (s.insert_new(key, "new").has_value() != (known == mine.end())) ++wrong;
            if (known == mine.end()) mine[key] = "new";
            break;
          case 3:
            if (n % 50 == 3) s.tag("tag " + std::to_string(w) + "-" + std::to_string(n));
            break;
          default:
            s.insert(key, std::to_string(n) + std::string(random() % 300, 'x'));
            mine[key] = s.find(key)->bytes();
        }
      }
    });
  }
  threads.emplace_back([&] {
    std::mt19937 random(99);
    while (!ends.load()) {
      const snapshot now = s.latest();
      std::map<std::string, std::string> shown;
      for (const auto& [key, value] : now.range()) shown[std::string(key)] = std::string(value);
      std::map<std::string, std::string> before;
      version old = 0;
      {
        const std::scoped_lock lock(mutex);
        seen.emplace(now.version(), shown);
        auto any = seen.begin();
        std::advance(any, random() % seen.size());
        old = any->first;
        before = any->second;
        if (seen.size() > 40) seen.erase(seen.begin());
      }
      std::map<std::string, std::string> again;
      for (const auto& [key, value] : s.at(old).range()) again[std::string(key)] = std::string(value);
      if (again != before) ++wrong;
    }
  });
  unsigned packed = 0;
  for (unsigned n = 0; n < 12; ++n) {
    const auto form = n % 3 == 2 ? compression::zstd : compression::none;
    packed += s.compact({.whole = n % 4 == 3, .compression = form, .on_progress = {}}).packed ? 1 : 0;
    std::this_thread::sleep_for(10ms);
  }
  ends = true;
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong.load(), 0U);
  EXPECT_GT(packed, 5U);
  const std::vector<tag_info> tags = s.tags();
  const auto expect_all = [&](const store& of) {
    for (const auto& mine : last) {
      for (const auto& [key, value] : mine) {
        const auto found = of.find(key);
        ASSERT_TRUE(found) << key;
        EXPECT_EQ(found->bytes(), value);
      }
    }
    for (const auto& [v, shown] : seen) {
      std::map<std::string, std::string> again;
      for (const auto& [key, value] : of.at(v).range()) again[std::string(key)] = std::string(value);
      EXPECT_EQ(again, shown) << "version " << v;
    }
    EXPECT_EQ(of.tags().size(), tags.size());
    const auto report = of.verify();
    EXPECT_TRUE(report.ok()) << report.damages.front().what;
  };
  expect_all(s);
  s.close();
  expect_all(store(path_, opening()));
}

struct acknowledged {
  static constexpr unsigned keys = 1000;
  std::atomic<std::uint64_t> last[keys];  // number of the last write that has returned
  std::atomic<std::uint64_t> begun[keys];
};

TEST_P(LiveCompaction, a_kill_amid_it_loses_nothing_that_was_acknowledged) {
  std::mt19937 random(11);
  const shared<acknowledged> told;
  for (unsigned turn = 0; turn < 8; ++turn) {
    child writer([&] {
      store s(path_, opening());
      std::thread packs([&] {
        for (;;) static_cast<void>(s.compact({.threads = 1, .on_progress = {}}));
      });
      for (std::uint64_t n = turn * 1'000'000 + 1;; ++n) {
        const auto i = static_cast<std::size_t>(n * 7919 % acknowledged::keys);
        told->begun[i].store(n);
        s.insert(key_of(i), std::to_string(n));
        told->last[i].store(n);
        if (n % 64 == 0) std::this_thread::sleep_for(1ms);
        if (n % 100 == 0) s.tag("tag " + std::to_string(n));
      }
      return 0;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + random() % 150));
    writer.kill(SIGKILL);
    EXPECT_EQ(writer.wait(), -SIGKILL);
    store s(path_, opening());
    for (std::size_t i = 0; i < acknowledged::keys; ++i) {
      const std::uint64_t last = told->last[i].load();
      const auto found = s.find(key_of(i));
      const std::uint64_t there = found ? std::stoull(std::string(found->bytes())) : 0;
      ASSERT_TRUE(there == last || there == told->begun[i].load()) << i << ": " << there << " for " << last;
    }
    const auto report = s.verify();
    EXPECT_TRUE(report.ok()) << report.damages.front().what;
  }
}

INSTANTIATE_TEST_SUITE_P(EverySetting, LiveCompaction, ::testing::ValuesIn(tmpfs_settings()),
                         [](const auto& tested) { return tested.param.name(); });

// ---- By itself ----

TEST(AutomaticCompaction, keeps_what_is_not_packed_small_and_can_be_paused) {
  const scratch folder(place::tmpfs);
  options how;
  how.durability = durability::none;
  how.compaction = compaction_mode::automatic;
  how.compaction_limits.young_bytes = 200'000;
  store s(folder / "store.ice", how);
  const auto write_until = [&](auto is_reached) {
    const auto until = std::chrono::steady_clock::now() + 30s;
    for (unsigned n = 0; !is_reached(); ++n) {
      ASSERT_LT(std::chrono::steady_clock::now(), until);
      for (unsigned i = 0; i < 100; ++i) s.insert(key_of(i), std::to_string(n) + std::string(100, 'v'));
      s.tag();
      std::this_thread::sleep_for(1ms);
    }
  };
  write_until([&] { return s.stats().compactions >= 2; });
  EXPECT_EQ(s.stats().compaction_failure, "");
  EXPECT_GT(s.stats().packed_records, 1000U);
  s.pause_compaction();
  const std::uint64_t then = s.stats().compactions;
  const std::uint64_t clock = s.clock();
  write_until([&] { return s.clock() > clock + 300; });
  EXPECT_LE(s.stats().compactions, then + 1);  // one may have been at its end
  s.resume_compaction();
  write_until([&] { return s.stats().compactions >= then + 2; });
  const snapshot first = s.at(1);
  EXPECT_EQ(first.find(key_of(3)), "0" + std::string(100, 'v'));
  s.close();
  EXPECT_TRUE(verify_file(folder / "store.ice").ok());
}

TEST(AutomaticCompaction, keeps_no_forked_child_waiting) {
  const scratch folder(place::tmpfs);
  options how;
  how.durability = durability::none;
  how.compaction = compaction_mode::automatic;
  how.compaction_limits.young_bytes = 1;
  auto s = std::make_unique<store>(folder / "store.ice", how);
  for (unsigned n = 0; n < 10; ++n) {
    for (unsigned i = 0; i < 2000; ++i) s->insert(key_of(i), std::to_string(n));
    child forked([&] {
      s->pause_compaction();
      s->resume_compaction();
      expect_error(errc::forked, "forked child", [&] { static_cast<void>(s->stats()); });
      expect_error(errc::forked, "forked child", [&] { static_cast<void>(s->compact()); });
      s.reset();
      return ::testing::Test::HasFailure() ? 1 : 0;
    });
    EXPECT_EQ(forked.wait(), 0);
  }
  EXPECT_EQ(s->find(key_of(7))->bytes(), "9");
}

// ---- Who refuses ----

TEST(LiveCompactionOfOne, is_packed_while_it_is_verified) {
  const deadline soon("a store that is packed while it is verified", 60s);
  for (const index_kind kind : {index_kind::btree, index_kind::persistent}) {
    const scratch folder(place::tmpfs);
    options how;
    how.durability = kind == index_kind::persistent ? durability::operation : durability::none;
    how.emulate_durability = true;
    how.index = kind;
    store s(folder / "store.ice", how);
    constexpr std::uint64_t told_of = std::uint64_t{70} << 20;  // progress is told each 64 MiB, by one of the threads
    for (const char* key : {"a", "b", "c", "d"}) s.insert(key, std::string(told_of, *key));
    s.tag("first");
    int told = 0;
    const auto report = s.verify([&](const progress&) {
      if (told++ != 0) return;
      EXPECT_TRUE(s.compact().packed);
      s.insert("e", "second");
      s.tag("second");
      EXPECT_TRUE(s.compact({.whole = true, .on_progress = {}}).packed);
      s.insert("f", "third");
    });
    EXPECT_TRUE(report.ok()) << report.damages.front().what;
    EXPECT_GT(told, 0);
    EXPECT_TRUE(s.verify().ok());
    EXPECT_EQ(s.find("e"), "second");
  }
}

TEST(LiveCompactionRefused, by_a_reader_and_with_options_that_mean_nothing) {
  const scratch folder(place::tmpfs);
  const auto path = folder / "store.ice";
  {
    store s(path);
    s.insert("a", "1");
    expect_error(errc::invalid_argument, "compression_level is 99",
                 [&] { static_cast<void>(s.compact({.compression_level = 99, .on_progress = {}})); });
  }
  options reading;
  reading.access = access::read_only;
  store reader(path, reading);
  expect_error(errc::read_only, "for reading only", [&] { static_cast<void>(reader.compact()); });
}

TEST(LiveCompactionRefused, within_a_function_that_it_calls) {
  const scratch folder(place::tmpfs);
  store s(folder / "open.ice");
  store other(folder / "other.ice");
  for (store* each : {&s, &other}) {
    each->insert("key", "1");
    each->tag();
    each->insert("key", "2");
    each->tag();
  }
  const std::vector<version_range> first{{1, 2}};
  unsigned calls = 0;
  compaction_options how;
  how.on_progress = [&](const progress&) {
    ++calls;
    expect_error(errc::invalid_argument, "called by compact()", [&] { static_cast<void>(s.compact()); });
    expect_error(errc::invalid_argument, "called by compact()", [&] { s.expire(first); });
    expect_error(errc::invalid_argument, "called by compact()", [&] { s.lose({}); });
    static_cast<void>(other.compact());
  };
  EXPECT_TRUE(s.compact(how).packed);
  EXPECT_GT(calls, 0U);
  s.insert("key", "3");
  EXPECT_TRUE(s.compact().packed);
}

TEST(LiveCompactionRetention, keeps_what_a_query_needs_that_was_made_before_and_expires_the_rest) {
  const scratch folder(place::tmpfs);
  store s(folder / "store.ice");
  for (unsigned v = 1; v <= 10; ++v) {
    s.insert("a", std::to_string(v));
    ASSERT_EQ(s.tag(), v);
  }
  static_cast<void>(s.start({.name = "of 4", .at = 4, .where = filter("true")}));
  s.set_retention({.newest = 2});
  const snapshot before = s.at(5);
  const compaction_report done = s.compact();
  EXPECT_EQ(done.versions_expired, 7U);
  EXPECT_EQ(s.at(4).find("a"), "4");
  expect_error(errc::version_expired, "version 5", [&] { static_cast<void>(s.at(5)); });
  EXPECT_EQ(before.find("a"), "5");  // it began before
  EXPECT_EQ(s.at(9).find("a"), "9");
}

/// The callback comes behind the decision, and before the gate is shut.
TEST(LiveCompactionRetention, keeps_what_a_query_needs_that_was_made_meanwhile) {
  const scratch folder(place::tmpfs);
  store s(folder / "store.ice");
  for (unsigned v = 1; v <= 10; ++v) {
    s.insert("a", std::to_string(v));
    ASSERT_EQ(s.tag(), v);
  }
  s.set_retention({.newest = 2});
  bool is_made = false;
  const compaction_report done = s.compact({.on_progress = [&](const progress&) {
    if (!is_made) static_cast<void>(s.start({.name = "of 4", .at = 4, .where = filter("true")}));
    is_made = true;
  }});
  EXPECT_TRUE(is_made);
  EXPECT_EQ(done.versions_expired, 7U);
  EXPECT_EQ(s.at(4).find("a"), "4");
  expect_error(errc::version_expired, "version 5", [&] { static_cast<void>(s.at(5)); });
  expect_error(errc::version_expired, "version 5",
               [&] { static_cast<void>(s.start({.name = "of 5", .at = 5, .where = filter("true")})); });
}

/// A kept feed that stands amid a version whose changes become fewer tells that version again, and leaves none out.
TEST(LiveCompactionOfFeeds, an_acknowledgement_amid_a_version_leaves_no_change_out) {
  const scratch folder(place::tmpfs);
  options how;
  how.durability = durability::none;
  store s(folder / "store.ice", how);
  feed told = s.feed({.name = "mirror", .after = 0, .unsynced = true});
  for (const char* value : {"1", "2", "3"}) s.insert("a", value);
  s.insert("b", "1");
  s.insert("c", "1");
  s.tag();
  s.insert("d", "1");
  s.tag();
  const feed_batch some = told.next(3, 0ms);
  ASSERT_EQ(some.changes.size(), 3U);  // a: 1, 2, 3
  ASSERT_TRUE(s.compact().packed);
  told.acknowledge(some.token);
  feed again = s.open_feed("mirror");
  std::map<std::string, std::string> all;
  for (feed_batch more = again.next(100, 0ms); !more.changes.empty(); more = again.next(100, 0ms)) {
    for (const key_change& c : more.changes) all[std::string(c.key)] = std::string(*c.value);
  }
  EXPECT_EQ(all, (std::map<std::string, std::string>{{"a", "3"}, {"b", "1"}, {"c", "1"}, {"d", "1"}}));
  // and the one that was open goes on where it was
  const feed_batch rest = told.next(100, 0ms);
  ASSERT_EQ(rest.changes.size(), 3U);
  EXPECT_EQ(rest.changes.front().key, "b");
}

}  // namespace
}  // namespace icecore::testing
