// What a hold leaves in the store's file: behind forgetting, in copies, damaged, behind crashes, among processes.
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>

#include "pool/query/query_format.hpp"
#include "store/core.hpp"
#include "support/file.hpp"
#include "support/held_store.hpp"
#include "support/line_functions.hpp"
#include "support/process.hpp"
#include "support/roots.hpp"
#include "support/shared_store.hpp"

namespace icecore::testing {
namespace {

class HoldOnMedia : public ::testing::Test, protected store_in_memory {};

// ---- Forgetting ----

const std::string secret = "K3y-0f-4-p3rs0n";

TEST_F(HoldOnMedia, forgetting_goes_before_it_and_it_stays) {
  {
    store s(path_, how_);
    for (unsigned i = 0; i < 100; ++i) s.insert(secret + std::to_string(i), "value");
    s.insert("other", "1");
    s.tag();
    // the segment that the hold gets has had rows with the keys
    query q = s.start({.name = "rows", .at = 1, .where = filter("starts_with(value, 'v')"), .select = {"key"}});
    q.run();
    q.drop();
    s.hold_version("one", 1);
    s.insert("other", "2");
    s.tag();
    s.insert("other", "3");
    s.tag();
    s.set_retention({.newest = 1});
    static_cast<void>(s.forget({.prefixes = {secret}, .tag = false}));
    EXPECT_EQ(s.at(1).size(), 101U);
  }
  const compaction_report done = pack();
  EXPECT_TRUE(done.erased);
  EXPECT_EQ(read_file(path_).find(secret), std::string::npos);
  {
    const store s(path_, how_);
    EXPECT_EQ(names_of(s), std::vector<std::string>{"one"});
    EXPECT_EQ(content_of(s.at(1)), (content{{"other", "1"}}));
    expect_expired(s, 2);
    EXPECT_TRUE(s.verify().ok());
  }
  {
    store s(path_, how_);
    s.insert(secret, "again");
    s.tag();
    static_cast<void>(s.forget({.keys = {secret}, .tag = false}));
    static_cast<void>(s.compact());
    static_cast<void>(s.compact());
    EXPECT_EQ(content_of(s.at(1)), (content{{"other", "1"}}));
    EXPECT_EQ(names_of(s), std::vector<std::string>{"one"});
  }
  EXPECT_EQ(read_file(path_).find(secret), std::string::npos);
}

// ---- Copies ----

TEST_F(HoldOnMedia, a_checkpoint_has_it_and_what_it_holds) {
  store s(path_, how_);
  fill(s, 9);
  s.hold_version("four", 4);
  s.hold_version("gone", 5);
  s.set_retention({.newest = 1});
  const checkpoint cut = s.checkpoint();
  s.hold_version("later", 6);
  s.release_version("gone");
  cut.write(folder_ / "copy.ice");
  {
    store copy(folder_ / "copy.ice", how_);
    EXPECT_EQ(names_of(copy), std::vector<std::string>{"four"}) << "one that was released meanwhile is not there";
    static_cast<void>(copy.compact({.whole = true}));
    EXPECT_EQ(content_of(copy.at(4)), expected(4));
    expect_expired(copy, 6);
    copy.release_version("four");
    EXPECT_TRUE(copy.verify().ok());
  }
  EXPECT_EQ(names_of(s), (std::vector<std::string>{"four", "later"}));
}

TEST_F(HoldOnMedia, a_repaired_store_has_it) {
  {
    store s(path_, how_);
    fill(s, 9);
    s.hold_version("four", 4);
    s.hold_version("released", 3);
    s.release_version("released");
    s.set_retention({.newest = 1});
  }
  static_cast<void>(pack());
  {
    store s(path_, how_);
    s.insert(secret, "x");
    s.tag();
    static_cast<void>(s.forget({.keys = {secret}}));  // not yet carried out
  }
  const repair_report report = repair({.from = path_, .to = folder_ / "repaired.ice"});
  EXPECT_TRUE(report.complete());
  EXPECT_EQ(report.holds, 1U);
  EXPECT_EQ(report.queries, 0U);
  store s(folder_ / "repaired.ice", how_);
  EXPECT_EQ(names_of(s), std::vector<std::string>{"four"});
  EXPECT_EQ(content_of(s.at(4)), expected(4));
  static_cast<void>(s.compact({.whole = true}));
  EXPECT_EQ(content_of(s.at(4)), expected(4));
  expect_expired(s, 5);
}

// ---- Damage ----

TEST_F(HoldOnMedia, a_hold_that_is_damaged_is_named_and_lets_nothing_expire) {
  {
    store s(path_, how_);
    fill(s, 9);
    s.hold_version("four", 4);
    s.hold_version("five", 5);
    s.set_retention({.newest = 1});
  }
  std::string file = read_file(path_);
  const std::size_t name = file.find("four");
  ASSERT_NE(name, std::string::npos);
  file[name] = 'F';
  write_file(path_, file);
  const verify_report found = verify_file(path_);
  ASSERT_EQ(found.damages.size(), 1U);
  EXPECT_EQ(found.damages.front().structure, "query");
  EXPECT_NE(found.damages.front().what.find("the definition of a hold fails its checksum"), std::string::npos);
  EXPECT_EQ(pack().versions_expired, 0U);
  {
    store s(path_, how_);
    EXPECT_EQ(names_of(s), std::vector<std::string>{"five"});
    expect_error(errc::damaged, "no hold that can be read is named 'four'", [&] { s.release_version("four"); });
    s.release_version("five");
    static_cast<void>(s.compact({.whole = true}));
    EXPECT_EQ(content_of(s.at(4)), expected(4));
    EXPECT_EQ(content_of(s.at(2)), expected(2));
    // it keeps what it may hold when keys are forgotten
    static_cast<void>(s.forget({.keys = {"of 9"}, .tag = false}));
    static_cast<void>(s.compact({.whole = true}));
    EXPECT_FALSE(s.is_expired(4));
  }
  const repair_report report = repair({.from = path_, .to = folder_ / "repaired.ice"});
  EXPECT_FALSE(report.complete());
  EXPECT_EQ(report.holds, 0U);
  EXPECT_GT(compact(folder_ / "repaired.ice", how_).versions_expired, 0U);
}

TEST_F(HoldOnMedia, each_flipped_byte_of_a_hold_leaves_the_version_or_is_named) {
  {
    store s(path_, how_);
    fill(s, 5);
    s.hold_version("three", 3);
    s.set_retention({.newest = 1});
  }
  const std::string sound = read_file(path_);
  std::vector<std::size_t> places;
  for (std::size_t at = format::query_anchor_offset; at < format::query_anchor_offset + sizeof(format::query_anchor);
       ++at) {
    places.push_back(at);
  }
  const std::size_t name = sound.find("three");
  ASSERT_NE(name, std::string::npos);
  const std::size_t head = name / format::granule_size * format::granule_size;
  for (std::size_t at = head; at < name + 40; ++at) places.push_back(at);
  for (const std::size_t at : places) {
    std::string torn = sound;
    torn[at] = static_cast<char>(torn[at] ^ 0x20);
    write_file(path_, torn);
    SCOPED_TRACE(at);
    const bool is_named = !verify_file(path_).ok();
    try {
      static_cast<void>(pack());
      const store s(path_, how_);
      // Only one that says of itself that it was released may lose its version, and it does not say so by one byte.
      ASSERT_EQ(content_of(s.at(3)), expected(3));
      if (!is_named) {
        ASSERT_EQ(names_of(s), std::vector<std::string>{"three"});
      }
    } catch (const error& e) {
      ASSERT_TRUE(e.code() == errc::damaged && is_named) << e.what();
    }
  }
}

// ---- The format ----

TEST_F(HoldOnMedia, only_a_store_that_held_a_version_has_the_format_that_older_writers_refuse) {
  {
    store s(path_, how_);
    fill(s, 3);
    s.start({.name = "q", .at = 1, .where = filter("true")}).run();
    EXPECT_LT(s.stats().format_minor, format::minor_with_holds);
    s.hold_version("one", 1);
    EXPECT_EQ(s.stats().format_minor, format::minor_with_holds);
    s.release_version("one");
  }
  static_cast<void>(pack());
  const store s(path_, how_);
  EXPECT_EQ(s.stats().format_minor, format::minor_with_holds);
  EXPECT_EQ(s.stats().format_major, format::version_major_with_manifest);
}

// ---- Crashes, in each kind of store ----

class HeldThroughCrashes : public ::testing::TestWithParam<setting> {
 protected:
  [[nodiscard]] options opening() const { return GetParam().options_at(path_); }

  scratch folder_{GetParam().where};
  std::filesystem::path path_ = folder_ / "store.ice";
};

TEST_P(HeldThroughCrashes, a_hold_and_a_release_outlive_a_kill_right_behind_the_call) {
  child writer([&] {
    store s(path_, opening());
    fill(s, 9);
    s.hold_version("four", 4);
    s.hold_version("five", 5);
    s.set_retention({.newest = 1});
    s.release_version("five");
    ::raise(SIGKILL);
    return 0;
  });
  EXPECT_EQ(writer.wait(), -SIGKILL);
  {
    store s(path_, opening());
    EXPECT_EQ(names_of(s), std::vector<std::string>{"four"});
    EXPECT_EQ(content_of(s.at(4)), expected(4));
  }
  static_cast<void>(compact(path_, opening()));
  {
    store s(path_, opening());
    EXPECT_EQ(names_of(s), std::vector<std::string>{"four"});
    EXPECT_EQ(content_of(s.at(4)), expected(4));
    expect_expired(s, 5);
    s.release_version("four");
    s.hold_version("nine", 9);
    EXPECT_TRUE(s.verify().ok());
  }
  static_cast<void>(compact(path_, opening()));
  const store s(path_, opening());
  expect_expired(s, 4);
  EXPECT_EQ(names_of(s), std::vector<std::string>{"nine"});
}

// The file is as the processes saw it. What a device loses on the way is the crash simulator's affair (tests/crash).
TEST_P(HeldThroughCrashes, a_hold_keeps_its_version_from_a_power_cut) {
  child writer([&] {
    store s(path_, opening());
    for (unsigned i = 0; i < 9; ++i) {
      s.insert("key", std::to_string(i));
      s.tag();
    }
    s.hold_version("four", 4);
    s.insert("key", "more");
    s.tag();
    ::raise(SIGKILL);
    return 0;
  });
  EXPECT_EQ(writer.wait(), -SIGKILL);
  for (const placement& each : opening().placements) {
    write_file(each.path, with_roots_changed(read_file(each.path), [](format::root& r) { r.boot_id[0] ^= 0xff; }));
  }
  write_file(path_, with_roots_changed(read_file(path_), [](format::root& r) { r.boot_id[0] ^= 0xff; }));
  store s(path_, opening());
  EXPECT_EQ(names_of(s), std::vector<std::string>{"four"});
  EXPECT_EQ(s.find("key", 4)->bytes(), "3");
  s.set_retention({.newest = 1});
  static_cast<void>(s.compact());
  EXPECT_EQ(s.find("key", 4)->bytes(), "3");
}

INSTANTIATE_TEST_SUITE_P(EverySetting, HeldThroughCrashes, ::testing::ValuesIn(all_settings()),
                         [](const auto& tested) { return tested.param.name(); });

// ---- Processes that share a store ----

class SharedHolds : public SharedStore {};

TEST_P(SharedHolds, an_attached_process_holds_and_releases_where_each_write_is_durable_or_is_told) {
  store s(path_, first());
  fill(s, 9);
  s.hold_version("first's", 3);
  s.set_retention({.newest = 1});
  const auto& persist = s.core().the_pool().persist();
  const bool may_hold = s.durability().mode == durability::operation && !persist.by_pages();
  child other([&] {
    store attached(path_, beside());
    if (names_of(attached) != std::vector<std::string>{"first's"}) return 1;
    if (!may_hold) {
      expect_error(errc::invalid_argument, "", [&] { attached.hold_version("other's", 5); });
      return ::testing::Test::HasFailure() ? 2 : 0;
    }
    if (attached.hold_version("other's", 5) != 5) return 3;
    expect_error(errc::query_exists, "", [&] { attached.hold_version("first's", 5); });
    return ::testing::Test::HasFailure() ? 4 : 0;
  });
  EXPECT_EQ(other.wait(), 0);
  static_cast<void>(s.compact({.whole = true}));
  EXPECT_EQ(content_of(s.at(3)), expected(3));
  EXPECT_EQ(s.is_expired(5), !may_hold);
  child releasing([&] {
    store attached(path_, beside());
    if (content_of(attached.at(3)) != expected(3)) return 1;
    attached.release_version("first's");
    return attached.held_versions().size() == (may_hold ? 1U : 0U) ? 0 : 2;
  });
  EXPECT_EQ(releasing.wait(), 0);
  static_cast<void>(s.compact({.whole = true}));
  expect_expired(s, 3);
  EXPECT_EQ(s.is_expired(5), !may_hold);
}

/// How often the killed process has flushed and fenced, and when it is killed.
unsigned steps = 0;
unsigned last_step = 0;
void count_step() {
  if (steps++ == last_step) kill_this_process();
}

TEST_P(SharedHolds, others_hold_and_release_whenever_a_process_that_does_is_killed) {
  store s(path_, first());
  const auto& persist = s.core().the_pool().persist();
  if (!persist.by_cache_lines()) GTEST_SKIP() << "only the process that opened the store may hold versions";
  fill(s, 9);
  s.hold_version("first's", 3);
  for (const bool releases : {false, true}) {
    bool was_killed = true;
    for (last_step = 0; was_killed; ++last_step) {
      if (releases) s.hold_version("its", 4);
      child killed([&] {
        store attached(path_, beside());
        call_at_line_functions<count_step>(attached);
        if (releases) {
          attached.release_version("its");
        } else {
          attached.hold_version("its", 4);
        }
        return 0;
      });
      was_killed = killed.wait() != 0;
      s.hold_version("other", 5);
      s.hold_version("another", 6);
      std::vector<std::string> names = names_of(s);
      if (std::erase(names, "its") != 0) {
        ASSERT_TRUE(was_killed || !releases);
        s.release_version("its");
      } else {
        ASSERT_TRUE(was_killed || releases);
      }
      ASSERT_EQ(names, (std::vector<std::string>{"first's", "other", "another"})) << releases << last_step;
      s.release_version("other");
      s.release_version("another");
      ASSERT_EQ(names_of(s), std::vector<std::string>{"first's"}) << releases << last_step;
      ASSERT_TRUE(s.verify().ok()) << releases << last_step;
    }
    EXPECT_GT(last_step, 5U);
  }
}

INSTANTIATE_TEST_SUITE_P(Some, SharedHolds,
                         ::testing::Values(setting{place::tmpfs, durability::operation},
                                           setting{place::tmpfs, durability::operation, index_kind::persistent},
                                           setting{place::tmpfs, durability::tag},
                                           setting{place::disk, durability::operation}),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace icecore::testing
