// Tags, syncs, checkpoints, retention and forgetting by processes that are attached: durable as those of the process
// that opened the store, seen by all, and each name made once, whoever is killed.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/memory/sanitizer.hpp"
#include "icecore/icecore.hpp"
#include "store/core.hpp"
#include "store/packed/retention/forgetting.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/model.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"
#include "support/shared_store.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

struct steps {
  std::atomic<int> step;
  std::atomic<int> made;
  std::atomic<int> refused;
  std::atomic<int> killed;
};

class AttachedTags : public SharedStore {
 protected:
  static void insert(store& s, const std::string& key, const std::string& value) { s.insert(key, value); }
  /// What a power cut leaves that keeps what was synced: a copy of the files beside the open store.
  [[nodiscard]] static std::set<std::string> names_of(const store& s) {
    std::set<std::string> names;
    for (const tag_info& tag : s.tags()) EXPECT_TRUE(names.insert(tag.name).second) << tag.name << " twice";
    return names;
  }
};

TEST_P(AttachedTags, a_process_that_is_attached_tags_syncs_and_makes_checkpoints) {
  const shared<steps> log;
  const std::filesystem::path copy = folder_ / "copy.ice";
  child other([&] {
    wait_for(log, 1);
    store s(path_, beside());
    s.insert("b", "2");
    const version one = s.tag("mine", "a note");
    if (s.find_tag("mine")->version != one || s.at("mine").find("b") != "2") return 1;
    s.insert("c", "3");
    s.sync();
    if (GetParam().durability == durability::tag && s.durable_version() < one) return 2;
    try {
      static_cast<void>(s.tag("of the first"));
      return 3;
    } catch (const error& e) {
      if (e.code() != errc::tag_exists) return 4;
    }
    s.checkpoint().write(copy);
    s.set_retention({.tagged = true});
    static_cast<void>(s.forget({.keys = {"a"}}));
    log->step = 2;
    wait_for(log, 3);
    return 0;
  });
  store s(path_, first());
  s.insert("a", "1");
  s.tag("of the first");
  log->step = 1;
  wait_for(log, 2);
  ASSERT_TRUE(s.find_tag("mine"));
  EXPECT_EQ(s.find_tag("mine")->note, "a note");
  EXPECT_EQ(s.at("mine").find("b"), "2");
  expect_error(errc::tag_exists, "'mine' exists already", [&] { s.tag("mine"); });
  EXPECT_EQ(s.find("a"), std::nullopt);
  EXPECT_TRUE(s.retention().tagged);
  EXPECT_TRUE(s.find_tag("forgotten-1"));
  EXPECT_TRUE(s.verify().ok());
  static_cast<void>(s.compact());
  EXPECT_EQ(names_of(s), (std::set<std::string>{"of the first", "mine", "forgotten-1"}));
  log->step = 3;
  EXPECT_EQ(other.wait(), 0);
  s.close();
  {
    const store copied(copy);
    EXPECT_EQ(copied.at("mine").find("b"), "2");
    EXPECT_EQ(copied.find("c"), "3");
    EXPECT_TRUE(copied.verify().ok());
  }
  EXPECT_TRUE(verify_file(path_).ok());
  const store again(path_, GetParam().options_at(path_));
  EXPECT_EQ(names_of(again), (std::set<std::string>{"of the first", "mine", "forgotten-1"}));
}

// A tag waits for a sync between its record and its being shown.
TEST_P(AttachedTags, a_process_that_is_attached_verifies_while_a_thread_of_it_tags) {
  const shared<steps> log;
  child other([&] {
    wait_for(log, 1);
    store s(path_, beside());
    std::atomic<bool> tagged{false};
    std::thread tags([&] {
      for (int i = 0; i < 300; ++i) {
        s.insert("key", std::to_string(i));
        s.tag("tag " + std::to_string(i));
      }
      tagged = true;
    });
    int failed = 0;
    do {
      failed += s.verify().ok() ? 0 : 1;
    } while (!tagged);
    tags.join();
    return failed;
  });
  store s(path_, first());
  log->step = 1;
  EXPECT_EQ(other.wait(), 0);
  EXPECT_TRUE(s.verify().ok());
}

TEST_P(AttachedTags, of_processes_that_make_one_name_one_succeeds) {
#ifdef ICECORE_UNDER_THREAD_SANITIZER
  GTEST_SKIP() << "the thread sanitizer does not see other processes";
#endif
  constexpr int names = 60;
  constexpr int processes = 3;
  const shared<steps> log;
  const auto make_all = [&](store& s) {
    for (int i = 0; i < names; ++i) {
      s.insert("key " + std::to_string(i % 7), std::to_string(i));
      try {
        const version v = s.tag("name " + std::to_string(i));
        if (s.find_tag("name " + std::to_string(i))->version != v) return 1;
        ++log->made;
      } catch (const error& e) {
        if (e.code() != errc::tag_exists) return 2;
        ++log->refused;
      }
    }
    return 0;
  };
  std::vector<std::unique_ptr<child>> others;
  for (int p = 1; p < processes; ++p) {
    others.push_back(std::make_unique<child>([&] {
      wait_for(log, 1);
      store s(path_, beside());
      return make_all(s);
    }));
  }
  store s(path_, first());
  log->step = 1;
  EXPECT_EQ(make_all(s), 0);
  for (int i = 0; i < 4; ++i) static_cast<void>(s.compact());
  for (auto& each : others) EXPECT_EQ(each->wait(), 0);
  EXPECT_EQ(log->made, names);
  EXPECT_EQ(log->refused, names * (processes - 1));
  EXPECT_EQ(names_of(s).size(), static_cast<std::size_t>(names));
  EXPECT_TRUE(s.verify().ok());
  s.close();
  EXPECT_TRUE(verify_file(path_).ok());
}

// With the persistent index survivors go on; with others a kill amid a write poisons the store, and opening recovers
// it.
TEST_P(AttachedTags, a_process_that_is_killed_amid_a_tag_leaves_it_made_or_not) {
#ifdef ICECORE_UNDER_THREAD_SANITIZER
  GTEST_SKIP() << "the thread sanitizer does not see other processes";
#endif
  const deadline soon("kills amid tags", 120s);
  constexpr int rounds = 25;
  const shared<steps> log;
  std::set<std::string> acknowledged;
  for (int round = 0; round < rounds; ++round) {
    log->step = 0;
    log->made = 0;
    child tagging([&] {
      wait_for(log, 1);
      store s(path_, beside());
      for (int i = 0;; ++i) {
        s.insert("key " + std::to_string(i % 5), "x");
        s.tag("tag " + std::to_string(round) + " " + std::to_string(i));
        log->made = i + 1;
      }
      return 0;
    });
    {
      store s(path_, first());
      try {
        log->step = 1;
        while (log->made < 3) std::this_thread::sleep_for(50us);
        std::this_thread::sleep_for(std::chrono::microseconds(round * 97 % 1000));
        tagging.kill(SIGKILL);
        EXPECT_EQ(tagging.wait(), -SIGKILL);
        for (int i = 0; i < log->made; ++i)
          acknowledged.insert("tag " + std::to_string(round) + " " + std::to_string(i));
        s.tag("behind " + std::to_string(round));
        acknowledged.insert("behind " + std::to_string(round));
        // the one that was cut off is made, or can be made
        const std::string next = "tag " + std::to_string(round) + " " + std::to_string(log->made);
        if (!s.find_tag(next)) s.tag(next);
        acknowledged.insert(next);
        const auto names = names_of(s);
        for (const std::string& name : acknowledged) EXPECT_TRUE(names.contains(name)) << name;
        EXPECT_TRUE(s.verify().ok());
        s.close();
      } catch (const error& e) {
        ASSERT_EQ(e.code(), errc::poisoned) << e.message();
        ASSERT_NE(GetParam().index, index_kind::persistent) << e.message();
      }
    }
    std::filesystem::remove(common_);
    const store again(path_, GetParam().options_at(path_));
    const auto names = names_of(again);
    for (const std::string& name : acknowledged) ASSERT_TRUE(names.contains(name)) << name << " in round " << round;
    EXPECT_TRUE(again.verify().ok());
    if (::testing::Test::HasFailure()) return;
  }
}

TEST_P(AttachedTags, tags_and_syncs_go_on_while_the_first_process_packs_the_store) {
#ifdef ICECORE_UNDER_THREAD_SANITIZER
  GTEST_SKIP() << "the thread sanitizer does not see other processes";
#endif
  const shared<steps> log;
  constexpr int turns = 200;
  child other([&] {
    wait_for(log, 1);
    store s(path_, beside());
    for (int i = 0; i < turns; ++i) {
      s.insert("key " + std::to_string(i % 11), std::to_string(i));
      s.tag("turn " + std::to_string(i));
      if (i % 20 == 0) s.sync();
      if (i % 50 == 10) s.checkpoint().write(folder_ / ("copy " + std::to_string(i)));
      if (s.at("turn " + std::to_string(i)).find("key " + std::to_string(i % 11)) != std::to_string(i)) return 1;
    }
    log->step = 2;
    return 0;
  });
  store s(path_, first());
  log->step = 1;
  while (log->step < 2 && !::testing::Test::HasFailure()) static_cast<void>(s.compact());
  EXPECT_EQ(other.wait(), 0);
  for (int i = 0; i < turns; ++i) {
    const std::string name = "turn " + std::to_string(i);
    ASSERT_TRUE(s.find_tag(name)) << name;
    ASSERT_EQ(s.at(name).find("key " + std::to_string(i % 11)), std::to_string(i)) << name;
  }
  s.close();
  EXPECT_TRUE(verify_file(path_).ok());
  const store copied(folder_ / "copy 110");
  EXPECT_EQ(copied.at("turn 110").find("key 0"), "110");
  EXPECT_TRUE(copied.verify().ok());
}

// The file is cut while it is looked at.
TEST_P(AttachedTags, an_attached_process_verifies_while_the_first_one_closes_the_store) {
#ifdef ICECORE_UNDER_THREAD_SANITIZER
  GTEST_SKIP() << "the thread sanitizer does not see other processes";
#endif
  for (int round = 0; round < 5; ++round) {
    const shared<steps> log;
    child other([&] {
      wait_for(log, 1);
      const store s(path_, beside());
      try {
        for (;;) {
          if (!s.verify().ok()) return 1;
          if (log->step < 2) log->step = 2;
        }
      } catch (const error& e) {
        if (e.code() != errc::closed) return 2;
      }
      wait_for(log, 3);  // what verify() was doing when the file was cut
      return detail::forgotten_keys(s.core().the_pool()).segments().empty() ? 0 : 3;
    });
    {
      store s(path_, first());
      for (int i = 0; i < 2'000; ++i) s.insert("key " + std::to_string(round) + " " + std::to_string(i), "x");
      log->step = 1;
      wait_for(log, 2);
      s.close();
    }
    log->step = 3;
    EXPECT_EQ(other.wait(), 0);
  }
}

std::vector<setting> settings() {
  std::vector<setting> all = {
      {place::tmpfs, durability::none},
      {place::tmpfs, durability::tag, index_kind::hash},
      {place::tmpfs, durability::operation, index_kind::skip_list},
      {place::tmpfs, durability::operation, index_kind::persistent},
      {place::tmpfs, durability::tag, index_kind::persistent},
      {place::tmpfs, durability::operation, index_kind::persistent, 2},
  };
  if (root_of(place::disk)) all.push_back({place::disk, durability::tag});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Shared, AttachedTags, ::testing::ValuesIn(settings()),
                         [](const auto& one) { return one.param.name(); });

}  // namespace
}  // namespace icecore::testing
