// Readers beside the process that writes: what they show, that it never changes, and what becomes of them when a writer
// is killed, closes the store, or another one opens it.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <random>
#include <thread>

#include "base/memory/sanitizer.hpp"
#include "icecore/icecore.hpp"
#include "store/beside/settled_point.hpp"
#include "store/core.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/fingerprint.hpp"
#include "support/model.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"
#include "support/seed.hpp"
#include "support/several_files.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

options reading() {
  options opening;
  opening.access = access::read_only;
  return opening;
}

void overwrite(const std::filesystem::path& path, std::size_t at, const std::string& bytes) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(at));
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// Refreshes until version `wanted` is shown.
void await(store& reader, version wanted) {
  const deadline soon("a settled version", 60s);
  while (reader.refresh() < wanted) std::this_thread::sleep_for(1ms);
}

class Beside : public ::testing::TestWithParam<setting> {
 protected:
  scratch folder_{GetParam().where};
  std::filesystem::path path_ = folder_ / "written.ice";

  [[nodiscard]] options writing() const { return GetParam().options_at(path_); }
  /// Where durability is deferred, readers show what a sync has covered.
  static void settle(store& writer) {
    if (GetParam().deferred) writer.sync();
  }
};

TEST_P(Beside, a_reader_shows_what_a_named_tag_has_closed_and_not_what_is_open) {
  store writer(path_, writing());
  writer.insert("a", "1");
  const version one = writer.tag("one");
  settle(writer);
  writer.insert("a", "2");
  writer.insert("b", "open");
  store reader(path_, reading());
  EXPECT_TRUE(reader.read_only());
  EXPECT_TRUE(reader.beside_writer());
  EXPECT_FALSE(writer.beside_writer());
  EXPECT_EQ(reader.clock(), one + 1);
  EXPECT_EQ(reader.find("a"), "1");
  EXPECT_EQ(reader.find("b"), std::nullopt);
  EXPECT_EQ(reader.at("one").find("a"), "1");
  EXPECT_EQ(reader.latest().version(), one);
  EXPECT_EQ(reader.stats().keys, 1U);
  expect_error(errc::version_not_closed, "refresh()", [&] { static_cast<void>(reader.at(one + 1)); });
  expect_error(errc::read_only, "reading only", [&] { reader.insert("a", "3"); });
  expect_error(errc::read_only, "reading only", [&] { reader.tag("two"); });
  expect_error(errc::read_only, "reading only", [&] { reader.sync(); });
  EXPECT_EQ(reader.refresh(), one);
  const version two = writer.tag("two");
  settle(writer);
  EXPECT_EQ(writer.refresh(), two);
  const snapshot then = reader.at("one");
  await(reader, two);
  EXPECT_EQ(reader.find("a"), "2");
  EXPECT_EQ(reader.find("b"), "open");
  EXPECT_EQ(then.find("a"), "1");
  EXPECT_EQ(then.find("b"), std::nullopt);
  EXPECT_EQ(reader.tags().size(), 2U);
  EXPECT_EQ(reader.history("a").newest_first().size(), 2U);
  std::vector<std::string> changed;
  for (const difference& d : reader.diff(one, two))
    changed.push_back(std::string(d.key) + " is " + std::string(*d.after));
  EXPECT_EQ(changed, (std::vector<std::string>{"a is 2", "b is open"}));
}

TEST_P(Beside, versions_without_a_name_and_syncs_are_shown_too) {
  store writer(path_, writing());
  store reader(path_, reading());
  EXPECT_EQ(reader.refresh(), 0U);
  for (int i = 0; i < 100; ++i) {
    writer.insert("key " + std::to_string(i), "x");
    writer.tag();
  }
  settle(writer);
  await(reader, 100);
  EXPECT_EQ(reader.at(100).size(), 100U);
  writer.insert("one more", "x");
  if (GetParam().durability == durability::operation && !GetParam().deferred) return;  // sync() closes no version there
  writer.sync();
  EXPECT_EQ(reader.refresh(), 101U);
  EXPECT_EQ(reader.find("one more"), "x");
}

TEST_P(Beside, a_reader_shows_all_that_the_model_does) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  scribe scribes(3, seed);
  model expected;
  store writer(path_, writing());
  scribes.write(writer, expected, 300);
  const auto close = [&] {
    const std::string name = "tag " + std::to_string(expected.tags.size());
    const version v = writer.tag({.name = name, .note = "of this test", .time_ns = 8});
    expected.close_version();
    expected.tags.push_back({v, 8, name, "of this test"});
    return v;
  };
  const version first = close();
  settle(writer);
  store reader(path_, reading());
  await(reader, first);
  compare_everything(reader, expected);
  for (int round = 0; round < 12; ++round) {
    scribes.write(writer, expected, 60);
    const version closed = close();
    settle(writer);
    await(reader, closed);
    if (round % 4 == 3) {
      compare_everything(reader, expected);
    } else {
      compare_histories(reader, expected);
    }
  }
  store late(path_, reading());
  compare_everything(late, expected);
  writer.close();
  compare_everything(reader, expected);
  EXPECT_EQ(reader.refresh(), expected.clock) << "once it is closed, the open version is shown, too";
  compare_everything(reader, expected);
  compare_everything(late, expected);
}

TEST_P(Beside, a_checkpoint_of_a_reader_is_the_store_as_it_shows_it) {
  model expected;
  scribe scribes(2, test_seed());
  store writer(path_, writing());
  scribes.write(writer, expected, 200);
  const version closed = writer.tag({.name = "last", .note = {}, .time_ns = 5});
  expected.close_version();
  expected.tags.push_back({closed, 5, "last", ""});
  settle(writer);
  store reader(path_, reading());
  await(reader, closed);
  writer.insert("later", "x");
  const checkpoint cut = reader.checkpoint();
  EXPECT_EQ(cut.version(), closed);
  writer.tag();
  cut.write(folder_ / "copy.ice");
  store copy(folder_ / "copy.ice", GetParam().options());
  compare_everything(copy, expected);
}

/// Versions never change: their fingerprints stay what they were when they were first shown.
class witness {
 public:
  /// At the newest version, and at some that came since the last look.
  void look(const store& reader, version up_to) {
    const version before = seen_.empty() ? 0 : seen_.rbegin()->first;
    if (up_to <= before) return;
    seen_[up_to] = fingerprint(reader.at(up_to));
    for (int i = 0; i < 4; ++i) {
      const version v = before + 1 + random_() % (up_to - before);
      seen_[v] = fingerprint(reader.at(v));
    }
  }
  void look_again(const store& at) const {
    for (const auto& [v, was] : seen_) EXPECT_EQ(fingerprint(at.at(v)), was) << "version " << v;
  }
  [[nodiscard]] std::size_t size() const noexcept { return seen_.size(); }

 private:
  std::mt19937_64 random_{test_seed()};
  std::map<version, std::uint64_t> seen_;
};

struct progress_of_child {
  std::atomic<bool> stop;
  std::atomic<std::uint64_t> tags;
};

/// Publishes what is closed without waiting for a task that looks.
void settle_named(store& s, std::uint64_t life, unsigned thread, int step) {
  s.tag({.name = std::to_string(life) + " " + std::to_string(thread) + " " + std::to_string(step)});
  if (s.durability().deferred) s.sync();
}

/// Many threads write small things, and close versions all the while.
void write_until_stopped(store& s, progress_of_child& log, std::uint64_t seed) {
  in_threads(3, [&](unsigned t) {
    std::mt19937_64 random(seed * 3 + t);
    for (int i = 0; !log.stop; ++i) {
      if (i % 100 == 99) settle_named(s, seed, t, i);
      const std::string key = std::to_string(random() % 200);
      switch (random() % 16) {
        case 0:
          log.tags = s.tag();
          break;
        case 1:
          s.remove(key);
          break;
        case 2: {
          batch together;
          together.insert(key, "batched");
          together.insert("with " + key, std::string(random() % 100, 'w'));
          s.apply(together);
          break;
        }
        case 3:
          if (i % 8 == 0) s.insert(key, std::string(6000, 'l'));
          break;
        default:
          s.insert(key, std::to_string(random()));
      }
      if (i % 16 == 0) std::this_thread::sleep_for(200us);  // some 100,000 writes a second
    }
  });
}

TEST_P(Beside, a_version_never_changes_whatever_becomes_of_its_writers) {
#ifdef ICECORE_UNDER_THREAD_SANITIZER
  GTEST_SKIP() << "a child of a process with threads makes some of its own";
#endif
  const deadline soon("readers beside writers", 120s);
  const shared<progress_of_child> log;
  witness seen;
  std::optional<store> reader;
  store(path_, writing()).tag("begin");
  for (int life = 0; life < 4; ++life) {
    const bool is_killed = life % 2 == 0;
    log->stop = false;
    log->tags = 0;
    child writer([&] {
      store s(path_, writing());
      write_until_stopped(s, *log, test_seed() + static_cast<std::uint64_t>(life));
      return 0;
    });
    while (log->tags == 0) std::this_thread::sleep_for(1ms);
    if (!reader) reader.emplace(path_, reading());
    ASSERT_TRUE(reader->beside_writer());
    for (int i = 0; i < 20; ++i) {
      std::this_thread::sleep_for(5ms);
      seen.look(*reader, reader->refresh());
    }
    seen.look_again(*reader);
    if (is_killed) writer.kill(SIGKILL);
    log->stop = true;
    EXPECT_EQ(writer.wait(), is_killed ? -SIGKILL : 0);
    static_cast<void>(reader->refresh());
    seen.look_again(*reader);
  }
  EXPECT_GT(seen.size(), 20U);
  store after(path_, writing());
  seen.look_again(after);
  const version closed = after.tag("end");
  settle(after);
  await(*reader, closed);
  seen.look_again(*reader);
  EXPECT_TRUE(reader->verify().ok());
}

TEST_P(Beside, a_killed_reader_leaves_nothing) {
  store writer(path_, writing());
  writer.insert("a", "1");
  writer.tag("one");
  const shared<progress_of_child> log;
  child reader([&]() -> int {
    store s(path_, reading());
    log->tags = 1;
    for (;;) static_cast<void>(s.refresh());
  });
  while (log->tags == 0) std::this_thread::sleep_for(1ms);
  reader.kill(SIGKILL);
  EXPECT_EQ(reader.wait(), -SIGKILL);
  writer.insert("a", "2");
  writer.close();
  EXPECT_EQ(store(path_, writing()).find("a"), "2");
}

TEST_P(Beside, many_keys_and_deep_histories_are_refreshed) {
  store writer(path_, writing());
  for (int i = 0; i < 300; ++i) {
    writer.insert("deep", std::to_string(i));
    writer.tag();
  }
  for (int i = 0; i < 3000; ++i) writer.insert("key " + std::to_string(i), std::string(100, 'v'));
  version closed = writer.tag("many");
  settle(writer);
  store reader(path_, reading());
  await(reader, closed);
  for (version v = 1; v <= 300; ++v) EXPECT_EQ(reader.find("deep", v), std::to_string(v - 1));
  EXPECT_EQ(reader.at(closed).size(4), 3001U);
  for (int i = 0; i < 3000; ++i) writer.insert("key " + std::to_string(i), "again");
  for (int i = 3000; i < 20'000; ++i) writer.insert("key " + std::to_string(i), std::string(100, 'v'));
  closed = writer.tag("more");
  settle(writer);
  const snapshot before = reader.latest();
  await(reader, closed);
  EXPECT_EQ(reader.find("key 7"), "again");
  EXPECT_EQ(before.find("key 7"), std::string(100, 'v'));
  EXPECT_EQ(reader.at(closed).size(), 20'001U);
  EXPECT_EQ(before.size(), 3001U);
}

TEST_P(Beside, a_feed_tells_what_is_refreshed) {
  store writer(path_, writing());
  writer.insert("a", "1");
  const version one = writer.tag("one");
  settle(writer);
  store reader(path_, reading());
  await(reader, one);
  feed changes = reader.feed({.after = one, .unsynced = true});
  EXPECT_TRUE(changes.next().changes.empty());
  writer.insert("a", "2");
  writer.insert("b", "3");
  const version two = writer.tag("two");
  settle(writer);
  await(reader, two);
  const feed_batch found = changes.next();
  EXPECT_EQ(found.told, two);
  ASSERT_EQ(found.changes.size(), 2U);
  EXPECT_EQ(found.changes[0].key, "a");
  EXPECT_EQ(found.changes[1].value, "3");
}

// Threads that read meet a refresh of another thread at every point of it.
TEST_P(Beside, another_threads_refresh_shows_all_of_a_version_at_once) {
  const deadline soon("readers beside a refresh", 120s);
  store writer(path_, writing());
  std::atomic<bool> stop{false};
  const auto write = [&](int i) {
    batch together;
    for (const char* key : {"a", "b"}) together.insert(key, std::to_string(i));
    for (int more = 0; more < 50; ++more) together.insert(std::to_string(i) + " " + std::to_string(more), "x");
    writer.apply(together);
    writer.tag(std::to_string(i));
    settle(writer);
  };
  write(0);
  store reader(path_, reading());
  const auto number = [](const auto& found) { return std::stoi(std::string(*found)); };
  std::thread writes([&] {
    for (int i = 1; i < 300 || !stop; ++i) {
      write(i);
      std::this_thread::sleep_for(1ms);
    }
  });
  std::thread refreshes([&] {
    while (!stop) static_cast<void>(reader.refresh());
  });
  std::thread finds([&] {
    while (!stop) {
      const int first = number(reader.find("a"));
      EXPECT_GE(number(reader.find("b")), first);
      const snapshot then = reader.latest();
      EXPECT_GE(number(then.find("a")), first);
      const version from = reader.clock();
      for (const change& c : reader.history("b").newest_first()) {
        EXPECT_LT(c.version, reader.clock());
        if (c.version < from) break;
      }
    }
  });
  for (int i = 0; i < 5; ++i) {
    const std::filesystem::path to = folder_ / ("copy " + std::to_string(i));
    const checkpoint cut = reader.checkpoint();
    cut.write(to);
    const store copy(to, reading());
    EXPECT_EQ(copy.clock(), cut.version() + 1);
    EXPECT_EQ(fingerprint(copy.at(cut.version())), fingerprint(reader.at(cut.version())));
    const auto all = copy.history("a").newest_first();
    EXPECT_EQ(all.front().version, cut.version());
    const verify_report report = reader.verify();
    EXPECT_TRUE(report.ok()) << report.damages.front().what;
  }
  stop = true;
  for (std::thread* t : {&writes, &refreshes, &finds}) t->join();
}

std::vector<setting> settings() {
  std::vector<setting> all = {
      {place::tmpfs, durability::none},
      {place::tmpfs, durability::none, index_kind::skip_list},
      {place::tmpfs, durability::operation, index_kind::hash},
      {place::tmpfs, durability::tag, index_kind::list},
      {place::tmpfs, durability::operation, index_kind::persistent},
      {place::tmpfs, durability::none, index_kind::btree, 3},
      {place::tmpfs, durability::operation, index_kind::persistent, 2},
  };
  setting deferred{place::tmpfs, durability::operation};
  deferred.deferred = true;
  all.push_back(deferred);
  if (root_of(place::disk)) all.push_back({place::disk, durability::tag});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Stores, Beside, ::testing::ValuesIn(settings()),
                         [](const auto& one) { return one.param.name(); });

class BesideOne : public ::testing::Test {
 protected:
  scratch folder_;
  std::filesystem::path path_ = folder_ / "written.ice";
};

TEST_F(BesideOne, who_does_not_want_that_is_told_that_the_store_is_locked) {
  store writer(path_);
  writer.tag("one");
  options opening = reading();
  opening.beside_writer = false;
  expect_error(errc::locked, std::to_string(getpid()), [&] { const store reader(path_, opening); });
  EXPECT_TRUE(verify_file(path_).ok()) << "which reads beside the writer";
}

TEST_F(BesideOne, a_reader_that_no_writer_meets_keeps_writers_out) {
  store(path_).tag("one");
  store reader(path_, reading());
  EXPECT_FALSE(reader.beside_writer());
  EXPECT_EQ(reader.refresh(), reader.clock());
  expect_error(errc::locked, "for reading", [&] { const store writer(path_); });
}

TEST_F(BesideOne, a_reader_goes_on_with_an_index_that_another_process_changes) {
  store reader = [&] {
    store writer(path_);
    for (int i = 0; i < 5000; ++i) writer.insert("key " + std::to_string(i), "1");
    writer.tag("one");
    return store(path_, reading());
  }();
  const std::uint64_t was = fingerprint(reader.at("one"));
  for (const index_kind kind : {index_kind::persistent, index_kind::hash, index_kind::persistent, index_kind::btree}) {
    options changed;
    changed.index = kind;
    changed.change_index = true;
    store writer(path_, changed);
    writer.insert("key 1", "changed");
    for (int i = 0; i < 3000; ++i) writer.insert(std::to_string(static_cast<int>(kind)) + std::to_string(i), "more");
    const version closed = writer.tag();
    await(reader, closed);
    EXPECT_EQ(fingerprint(reader.at("one")), was);
    EXPECT_EQ(fingerprint(reader.at(closed)), fingerprint(writer.at(closed)));
  }
}

TEST_F(BesideOne, records_that_are_missing_are_told_and_not_left_out) {
  {
    store made(path_);
    for (int i = 0; i < 1000; ++i) made.insert("key " + std::to_string(i), std::string(50, 'v'));
    made.tag("one");
    made.close();
  }
  options opening;
  opening.index = index_kind::btree;
  const store writer(path_, opening);
  std::string bytes = read_file(path_);
  const std::size_t at = bytes.find("key 500");
  ASSERT_NE(at, std::string::npos);
  overwrite(path_, at, "yek");
  expect_error(errc::damaged, "records are missing here", [&] { const store reader(path_, reading()); });
  overwrite(path_, at, "key");
  EXPECT_EQ(store(path_, reading()).find("key 500"), std::string(50, 'v'));
}

TEST_F(BesideOne, kept_queries_are_read_and_left_to_the_writer) {
  store writer(path_);
  writer.insert("a", "1");
  writer.tag("one");
  store reader(path_, reading());
  EXPECT_TRUE(reader.queries().empty());
  writer.start({.name = "all", .at = 1}).run();
  EXPECT_EQ(reader.query("all").progress().rows, 1U);
  expect_error(errc::read_only, "queries", [&] { reader.query("all").cancel(); });
}

// Nobody else may ever wait for a write that a kill cut off.
TEST_F(BesideOne, versions_are_settled_after_a_process_was_killed_amid_a_write) {
  const scratch memory(place::tmpfs);
  options opening;
  opening.index = index_kind::persistent;
  opening.shared_as = memory / "shared";
  store writer(path_, opening);
  const shared<progress_of_child> log;
  for (int i = 0; i < 5; ++i) {
    log->tags = 0;
    child killed([&]() -> int {
      options beside;
      beside.access = access::attached;
      beside.shared_as = memory / "shared";
      store s(path_, beside);
      batch together;
      for (int key = 0; key < 1000; ++key) together.insert(std::to_string(key), std::string(200, 'x'));
      for (;;) {
        s.apply(together);
        log->tags = 1;
      }
    });
    while (log->tags == 0) std::this_thread::sleep_for(1ms);
    killed.kill(SIGKILL);
    EXPECT_EQ(killed.wait(), -SIGKILL);
    const version closed = writer.tag("after kill " + std::to_string(i));
    store reader(path_, reading());
    await(reader, closed);
    EXPECT_EQ(fingerprint(reader.at(closed)), fingerprint(writer.at(closed)));
  }
}

// What was several segments of other uses becomes one of records.
TEST_F(BesideOne, no_version_is_settled_while_a_write_may_still_be_stamped_with_it) {
  options writing;
  writing.publish_settled = false;
  store writer(path_, writing);
  const detail::store_core& core = writer.core();
  const version before = writer.tag();
  detail::settled_point point(core.the_pool(), core.clock(), core.writers(), nullptr, before);
  const auto settled = [&] { return core.the_pool().live().settled.load(); };
  auto write = std::make_unique<writer_lease>(core.writers());
  const version closed = writer.tag();
  for (int looks = 0; looks < 3; ++looks) point.look();
  EXPECT_EQ(settled(), before);
  write.reset();
  point.look();
  EXPECT_EQ(settled(), closed);
}

TEST_F(BesideOne, a_reader_finds_segments_where_others_have_been) {
  const auto open_as = [&](index_kind kind) {
    options opening;
    opening.index = kind;
    opening.change_index = true;
    return store(path_, opening);
  };
  std::optional<store> reader;
  for (int life = 0; life < 3; ++life) {
    {
      store writer = open_as(index_kind::persistent);
      for (int round = 0; round < 8; ++round) {
        const std::string name = std::to_string(life) + " " + std::to_string(round);
        for (int i = 0; i < 1500; ++i) writer.insert(name + " " + std::to_string(i), "x");
        writer.tag(name);
        writer.start({.name = name}).run();
      }
      const version closed = writer.tag();
      if (!reader) reader.emplace(path_, reading());
      await(*reader, closed);
    }
    {
      store writer = open_as(index_kind::btree);
      writer.prune_queries();
      await(*reader, writer.tag());
    }
    store writer(path_);
    for (int i = 0; i < 60; ++i) {
      const auto size = static_cast<std::size_t>(50'000 + i % 8 * 60'000);
      writer.insert("large " + std::to_string(i), std::string(size, static_cast<char>('a' + life)));
    }
    const version closed = writer.tag();
    await(*reader, closed);
    EXPECT_EQ(fingerprint(reader->at(closed)), fingerprint(writer.at(closed)));
  }
}

}  // namespace
}  // namespace icecore::testing
