// Several processes with one store open: the first shares it, the others attach.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <string>

#include "base/memory/sanitizer.hpp"
#include "icecore/icecore.hpp"
#include "store/core.hpp"
#include "support/expect.hpp"
#include "support/model.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"
#include "support/shared_store.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

[[nodiscard]] std::uint64_t address_of(const store& s) {
  return reinterpret_cast<std::uint64_t>(s.core().the_pool().first().base());
}

struct signals {
  std::atomic<int> step;
  std::atomic<std::uint64_t> count;
};

signals* resting = nullptr;  ///< in a process that stops at its first flush

class Attached : public SharedStore {};

TEST_P(Attached, each_process_sees_at_once_what_the_other_writes) {
  const shared<signals> log;
  child other([&] {
    wait_for(log, 1);
    store s(path_, beside());
    if (s.find("from the first") != "1") return 1;
    s.insert("from the other", "2");
    s.insert("of both", "other");
    s.remove("to go");
    batch some;
    some.insert("batched", "b");
    some.remove("from the first");
    s.apply(some);
    log->step = 2;
    wait_for(log, 3);
    if (s.find("of both") != "first" || s.history("of both").oldest_first().size() != 2) return 2;
    if (s.at(1).find("of both") != "other") return 3;
    std::string all;
    for (const auto& [key, value] : s.at(1).range()) all += std::string(key) + "=" + std::string(value) + ";";
    return all == "batched=b;from the other=2;of both=other;" ? 0 : 4;
  });
  store s(path_, first());
  s.insert("from the first", "1");
  s.insert("to go", "3");
  log->step = 1;
  wait_for(log, 2);
  EXPECT_EQ(s.find("from the other"), "2");
  EXPECT_EQ(s.find("batched"), "b");
  EXPECT_EQ(s.find("from the first"), std::nullopt);
  EXPECT_EQ(s.find("to go"), std::nullopt);
  EXPECT_EQ(s.tag(), 1U);
  s.insert("of both", "first");
  log->step = 3;
  EXPECT_EQ(other.wait(), 0);
  EXPECT_TRUE(s.verify().ok());
  s.close();
  EXPECT_FALSE(std::filesystem::exists(common_));
  EXPECT_TRUE(verify_file(path_).ok());
  EXPECT_EQ(store(path_, GetParam().options()).find("from the other"), "2");
}

TEST_P(Attached, versions_that_are_lost_are_lost_to_whoever_opens_or_attaches_later) {
  version_ranges first_version;
  first_version.add({1, 2});
  {
    store s(path_, first());
    s.insert("a", "1");
    s.tag();
    s.insert("a", "2");
    s.tag();
    s.lose(first_version);
    s.close();
  }
  const auto is_lost = [](const store& s) {
    try {
      static_cast<void>(s.find("a", 1));
      return false;
    } catch (const error& failure) {
      return failure.code() == errc::version_lost && s.find("a", 2) == "2";
    }
  };
  // Before a thread of the store begins: the address sanitizer keeps its locks as they are in a child.
  const shared<signals> log;
  child other([&] {
    wait_for(log, 1);
    store beside_it(path_, beside());
    if (!is_lost(beside_it)) return 1;
    try {
      beside_it.lose(first_version);
      return 2;
    } catch (const error& failure) {
      return failure.code() == errc::invalid_argument ? 0 : 3;
    }
  });
  store s(path_, first());
  EXPECT_EQ(s.stats().recovered_instantly, GetParam().index == index_kind::persistent);
  EXPECT_TRUE(is_lost(s));
  log->step = 1;
  EXPECT_EQ(other.wait(), 0);
}

TEST_P(Attached, each_process_has_the_store_at_an_address_of_its_own) {
  const shared<signals> log;
  store s(path_, first());
  for (int i = 0; i < 200; ++i) s.insert("key " + std::to_string(i), std::string(static_cast<std::size_t>(i) * 7, 'v'));
  log->count = address_of(s);
  child other([&] {
    // What the first process mapped is still mapped: no two mappings of one process have the same address.
    const store beside_it(path_, beside());
    return address_of(beside_it) == log->count ? 1 : 0;
  });
  EXPECT_EQ(other.wait(), 0);
  child writer([&] {
    store same(path_, beside());
    for (int i = 0; i < 400; ++i) {
      const std::string key = "key " + std::to_string(i);
      if (i < 200 && same.find(key) != std::string(static_cast<std::size_t>(i) * 7, 'v')) return 1;
      same.insert(key, "from another address");
    }
    return 0;
  });
  EXPECT_EQ(writer.wait(), 0);
  for (int i = 0; i < 400; ++i) ASSERT_EQ(s.find("key " + std::to_string(i)), "from another address");
  s.close();
  EXPECT_TRUE(verify_file(path_).ok());
}

TEST_P(Attached, many_write_at_once_while_the_first_tags_and_nothing_is_lost) {
  constexpr unsigned others = 4;
  constexpr unsigned each = 3'000;
  const shared<signals> log;
  const auto write = [&](store& s, unsigned who) {
    for (unsigned i = 0; i < each; ++i) {
      const std::string own = std::to_string(who) + "/" + std::to_string(i * 7919 % each);
      s.insert(own, own + std::string(i % 300, 'x'));
      s.insert("of all", std::to_string(who) + ":" + std::to_string(i));
      if (i % 3 == 0) s.remove(own);
    }
  };
  const auto run = [&](unsigned who) {
    return [&, who] {
      wait_for(log, 1);
      store s(path_, beside());
      write(s, who);
      ++log->count;
      wait_for(log, 2);
      return 0;
    };
  };
  child a(run(1));
  child b(run(2));
  child c(run(3));
  child d(run(4));
  store s(path_, first());
  log->step = 1;
  version newest = 0;
  std::vector<std::size_t> sizes;
  while (log->count < others) {
    newest = s.tag();
    sizes.push_back(s.at(newest).size());
    ASSERT_EQ(s.at(newest).size(), sizes.back());
  }
  write(s, 0);
  log->step = 2;
  for (child* one : {&a, &b, &c, &d}) EXPECT_EQ(one->wait(), 0);
  for (unsigned who = 0; who <= others; ++who) {
    for (unsigned i = 0; i < each; ++i) {
      const std::string own = std::to_string(who) + "/" + std::to_string(i * 7919 % each);
      const auto expected = i % 3 == 0 ? std::nullopt : std::optional(own + std::string(i % 300, 'x'));
      ASSERT_EQ(s.find(own), expected);
    }
  }
  EXPECT_EQ(s.history("of all").oldest_first().size(), (others + 1) * each);
  version before = 0;
  std::vector<unsigned> next(others + 1);
  for (const auto& change : s.history("of all").oldest_first()) {
    ASSERT_GE(change.version, before);
    before = change.version;
    const std::string value(*change.value);  // "who:i": each writer's values are in order
    const auto who = static_cast<unsigned>(std::stoul(value));
    ASSERT_EQ(std::stoul(value.substr(value.find(':') + 1)), next[who]++);
  }
  EXPECT_TRUE(s.verify().ok());
  const auto records = s.stats().records;
  EXPECT_EQ(records, (others + 1) * (2 * each + each / 3));
  s.close();
  const store again(path_, GetParam().options());
  EXPECT_EQ(again.stats().records, records);
  EXPECT_EQ(again.history("of all").oldest_first().size(), (others + 1) * each);
}

TEST_P(Attached, any_of_them_may_make_the_file_grow) {
  const shared<signals> log;
  const std::string value(100'000, 'v');
  child other([&] {
    wait_for(log, 1);
    store s(path_, beside());
    for (int i = 0; i < 200; ++i) s.insert("other " + std::to_string(i), value);
    log->step = 2;
    wait_for(log, 3);
    for (int i = 0; i < 200; ++i) {
      if (s.find("first " + std::to_string(i)) != value) return 1;
    }
    return 0;
  });
  store s(path_, first());
  log->step = 1;
  wait_for(log, 2);
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(s.find("other " + std::to_string(i)), value);
    s.insert("first " + std::to_string(i), value);
  }
  log->step = 3;
  EXPECT_EQ(other.wait(), 0);
  EXPECT_TRUE(s.verify().ok());
}

TEST_P(Attached, what_a_killed_process_wrote_is_there_after_opening_again) {
  const shared<signals> log;
  child other([&] {
    wait_for(log, 1);
    store s(path_, beside());
    for (std::uint64_t i = 0;; ++i) {
      s.insert(std::to_string(i), std::to_string(i));
      log->count = i + 1;
    }
    return 0;
  });
  std::uint64_t acknowledged = 0;
  child owner([&] {
    store s(path_, first());
    log->step = 1;
    for (;;) std::this_thread::sleep_for(1s);
    return 0;
  });
  wait_for(log, 1);
  while (log->count < 1'000) std::this_thread::sleep_for(1ms);
  other.kill(SIGKILL);
  EXPECT_EQ(other.wait(), -SIGKILL);
  acknowledged = log->count;
  owner.kill(SIGKILL);
  EXPECT_EQ(owner.wait(), -SIGKILL);
  std::filesystem::remove(common_);
  store s(path_, first());
  for (std::uint64_t i = 0; i < acknowledged; ++i) ASSERT_EQ(s.find(std::to_string(i)), std::to_string(i));
  EXPECT_TRUE(s.verify().ok());
}

TEST_P(Attached, while_an_attached_process_lives_nobody_opens_what_its_dead_owner_left) {
  const shared<signals> log;
  child owner([&] {
    store s(path_, first());
    log->step = 1;
    for (;;) std::this_thread::sleep_for(1s);
    return 0;
  });
  child other([&] {
    wait_for(log, 1);
    store s(path_, beside());
    s.insert("key", "value");
    log->step = 2;
    wait_for(log, 3);
    return 0;
  });
  wait_for(log, 2);
  expect_error(errc::locked, "process", [&] { const store s(path_, GetParam().options()); });
  owner.kill(SIGKILL);
  EXPECT_EQ(owner.wait(), -SIGKILL);
  expect_error(errc::locked, "attached", [&] { const store s(path_, GetParam().options()); });
  options reading;
  reading.access = access::read_only;
  reading.beside_writer = false;
  expect_error(errc::locked, "attached", [&] { const store s(path_, reading); });
  reading.beside_writer = true;  // what the sharing process had published is there
  EXPECT_EQ(store(path_, reading).find("key"), std::nullopt);
  log->step = 3;
  EXPECT_EQ(other.wait(), 0);
  EXPECT_EQ(store(path_, GetParam().options()).find("key"), "value");
}

TEST_P(Attached, a_process_killed_amid_a_write_poisons_the_store_and_makes_nobody_wait) {
  if (GetParam().index == index_kind::persistent) GTEST_SKIP() << "others finish the write: killed_writer_test.cpp";
  const deadline soon("a gate after a killed writer", 60s);
  bool poisoned = false;
  for (int attempt = 0; attempt < 300 && !poisoned; ++attempt) {
    std::filesystem::remove(path_);
    const shared<signals> log;
    child other([&] {
      wait_for(log, 1);
      store s(path_, beside());
      for (std::uint64_t i = 0;; ++i) {
        s.insert("key", std::string(3'000, 'v'));
        log->count = i + 1;
      }
      return 0;
    });
    store s(path_, first());
    log->step = 1;
    while (log->count < 10) std::this_thread::yield();
    other.kill(SIGKILL);
    other.wait();
    try {
      static_cast<void>(s.stats());
    } catch (const error& failure) {
      EXPECT_EQ(failure.code(), errc::poisoned) << failure.message();
      poisoned = true;
      expect_error(errc::poisoned, "killed", [&] { s.insert("a", "b"); });
    }
  }
  EXPECT_TRUE(poisoned) << "no attempt met a writer amid a write";
  std::filesystem::remove(common_);
  EXPECT_TRUE(verify_file(path_).ok());
}

TEST_P(Attached, a_forked_child_keeps_its_killed_parent_neither_alive_nor_attached) {
  if (GetParam().durability != durability::operation || GetParam().where != place::tmpfs) {
    GTEST_SKIP() << "what is shared lies in memory, whatever the mode";
  }
  const shared<signals> log;
  child other([&] {
    wait_for(log, 1);
    store s(path_, beside());
    child forked([&] {
      while (log->step < 3) std::this_thread::sleep_for(1ms);
      return 0;
    });
    s.insert("another", "value");  // it has a segment from now on: taking one also flushes
    resting = &*log;
    s.core().the_pool().persist().replace_line_functions(
        [](const void*, std::size_t) {
          resting->step = 2;
          for (;;) pause();
        },
        [] {});
    s.insert("key", "new");
    return 0;
  });
  {
    store s(path_, first());
    s.insert("key", "old");
    log->step = 1;
    wait_for(log, 2);
    other.kill(SIGKILL);
    EXPECT_EQ(other.wait(), -SIGKILL);
    const deadline soon("a survivor", 50s);
    try {
      EXPECT_EQ(s.stats().records, 3U);
      s.close();
    } catch (const error& failure) {
      EXPECT_EQ(failure.code(), errc::poisoned);
      EXPECT_NE(GetParam().index, index_kind::persistent);
    }
  }
  std::filesystem::remove(common_);
  EXPECT_EQ(store(path_, GetParam().options()).find("key"), "new");
  log->step = 3;
}

TEST_P(Attached, an_attached_process_knows_the_tags_of_before_and_of_now) {
  {
    store s(path_, GetParam().options());
    s.insert("key", "oldest");
    s.tag("before", "made before anyone shared the store");
    s.close();
  }
  const shared<signals> log;
  child other([&] {
    wait_for(log, 1);
    const store s(path_, beside());
    if (s.tags().size() != 1 || s.find_tag("before")->note != "made before anyone shared the store") return 1;
    if (s.at("before").find("key") != "oldest" || s.find_tag("tag 7")) return 2;
    log->step = 2;
    wait_for(log, 3);
    const auto all = s.tags();
    if (all.size() != 301) return 3;
    for (std::size_t i = 0; i < 300; ++i) {
      if (all[i + 1].name != "tag " + std::to_string(i) || all[i + 1].note.size() != i) return 4;
      if (s.at(all[i + 1].name).find("key") != std::to_string(i)) return 5;
      if (s.find_tag_at_time(all[i + 1].time_ns)->time_ns != all[i + 1].time_ns) return 6;
    }
    log->step = 4;
    wait_for(log, 5);  // the first process was killed: what it told stays
    return s.tags().size() == 301 && s.at("tag 299").find("key") == "299" ? 0 : 7;
  });
  child owner([&] {
    store s(path_, first());
    log->step = 1;
    wait_for(log, 2);
    for (std::size_t i = 0; i < 300; ++i) {
      s.insert("key", std::to_string(i));
      s.tag("tag " + std::to_string(i), std::string(i, 'n'));
    }
    log->step = 3;
    for (;;) pause();
    return 1;
  });
  wait_for(log, 4);
  owner.kill(SIGKILL);
  log->step = 5;
  EXPECT_EQ(other.wait(), 0);
}

TEST_P(Attached, an_attached_process_counts_and_verifies_what_there_is) {
  store s(path_, first());
  for (int i = 0; i < 1000; ++i) s.insert("key " + std::to_string(i), "value");
  s.tag("a thousand");
  child other([&] {
    store beside_it(path_, beside());
    beside_it.insert("one more", "value");
    const statistics told = beside_it.stats();
    if (told.keys != 1001 || told.records != 1001 || told.tags != 1 || told.clock != 2) return 1;
#ifdef ICECORE_UNDER_THREAD_SANITIZER
    return 0;  // verify() makes threads, which it does not allow in a child of a process that has some
#else
    return beside_it.verify().ok() ? 0 : 2;
#endif
  });
  EXPECT_EQ(other.wait(), 0);
  EXPECT_TRUE(store(path_, beside()).verify().ok());
  EXPECT_EQ(s.stats().keys, 1001U);
  EXPECT_TRUE(s.verify().ok());
}

TEST_P(Attached, mistakes_are_reported) {
  expect_error(errc::no_such_store, "common", [&] { const store s(path_, beside()); });
  store s(path_, first());
  expect_error(errc::invalid_argument, "shared_as", [&] {
    options without = beside();
    without.shared_as.clear();
    const store attached(path_, without);
  });
  expect_error(errc::locked, "common", [&] { const store second(folder_ / "two.ice", first()); });
  store attached(path_, beside());
  expect_error(errc::invalid_argument, "attached", [&] { attached.pause_compaction(); });
  expect_error(errc::invalid_argument, "attached", [&] { attached.expire(std::vector<version_range>{{1, 2}}); });
  expect_error(errc::invalid_argument, "for writing", [&] {
    options packing = beside();
    packing.compaction = compaction_mode::automatic;
    const store wrong(path_, packing);
  });
  options reading = first();
  reading.access = access::read_only;
  expect_error(errc::invalid_argument, "to share a store, open it for writing", [&] { const store r(path_, reading); });
  store(folder_ / "two.ice", GetParam().options()).close();
  expect_error(errc::invalid_argument, "two.ice", [&] { const store wrong(folder_ / "two.ice", beside()); });
  s.insert("a", "1");
  EXPECT_EQ(attached.find("a"), "1");
  s.close();
  expect_error(errc::closed, "one.ice", [&] { attached.insert("a", "2"); });
  expect_error(errc::closed, "one.ice", [&] { static_cast<void>(attached.find("a")); });
  expect_error(errc::closed, "one.ice", [&] { static_cast<void>(attached.compact()); });
  expect_error(errc::no_such_store, "common", [&] { const store late(path_, beside()); });
}

TEST(AttachedPlace, what_is_shared_must_be_in_memory) {
  const auto disk = root_of(place::disk);
  if (!disk) GTEST_SKIP() << "no disk here";
  const scratch folder(place::disk);
  options opening;
  opening.shared_as = folder / "common";
  expect_error(errc::invalid_argument, "/dev/shm", [&] { const store s(folder / "one.ice", opening); });
  EXPECT_FALSE(std::filesystem::exists(folder / "common"));
}

/// A store whose durability is deferred cannot be shared.
[[nodiscard]] std::vector<setting> settings_to_share() {
  std::vector<setting> all = all_settings();
  std::erase_if(all, [](const setting& s) { return s.deferred; });
  return all;
}

INSTANTIATE_TEST_SUITE_P(EverySetting, Attached, ::testing::ValuesIn(settings_to_share()),
                         [](const auto& tried) { return tried.param.name(); });

}  // namespace
}  // namespace icecore::testing
