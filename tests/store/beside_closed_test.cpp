// Readers of a store that no process writes: they show all that it was closed with, keep no writer out, and what they
// show never changes when writers come and go.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "base/memory/sanitizer.hpp"
#include "icecore/icecore.hpp"
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

options by_default() {
  options opening;
  opening.access = access::read_only;
  return opening;
}

/// Without a lock, wherever that is possible.
options reading() {
  options opening = by_default();
  opening.never_locks = true;
  return opening;
}

/// With a lock.
options reading_alone() {
  options opening = by_default();
  opening.beside_writer = false;
  return opening;
}

/// Refreshes until version `wanted` is shown.
void await(store& reader, version wanted) {
  const deadline soon("a settled version", 60s);
  while (reader.refresh() < wanted) std::this_thread::sleep_for(1ms);
}

class BesideClosed : public ::testing::TestWithParam<setting> {
 protected:
  scratch folder_{GetParam().where};
  std::filesystem::path path_ = folder_ / "closed.ice";

  [[nodiscard]] options writing() const { return GetParam().options_at(path_); }
  [[nodiscard]] store writer() const { return store(path_, writing()); }
  /// In one session, without a tag behind it.
  void write(const std::string& key, const std::string& value) const { writer().insert(key, value); }
};

TEST_P(BesideClosed, a_store_that_holds_nothing_is_followed) {
  writer().close();
  store reader(path_, reading());
  EXPECT_TRUE(reader.beside_writer());
  EXPECT_EQ(reader.clock(), 1U);
  EXPECT_EQ(reader.refresh(), 1U);
  EXPECT_EQ(reader.find("a"), std::nullopt);
  write("a", "1");
  EXPECT_EQ(reader.find("a"), std::nullopt);
  EXPECT_EQ(reader.refresh(), 2U) << "the writer has begun a version of its own";
  EXPECT_EQ(reader.find("a"), "1");
  EXPECT_EQ(reader.find("a", 1), std::nullopt);
}

TEST_P(BesideClosed, what_was_written_without_a_tag_is_shown_and_never_changes) {
  {
    store first = writer();
    first.insert("a", "0");
    first.tag("one");
    first.insert("a", "1");
  }
  store reader(path_, reading());
  EXPECT_EQ(reader.find("a"), "1");
  EXPECT_EQ(reader.clock(), 2U);
  EXPECT_EQ(reader.latest().version(), 2U);
  EXPECT_EQ(reader.at(2).find("a"), "1");
  expect_error(errc::version_not_closed, "refresh()", [&] { static_cast<void>(reader.at(3)); });
  EXPECT_EQ(reader.feed({.after = 1}).next().told, 1U) << "a consumer may come back when nobody observed the store";
  const snapshot then = reader.latest();
  const auto value = then.find("a");
  write("a", "2");
  write("b", "3");
  EXPECT_EQ(reader.find("a"), "1");
  EXPECT_EQ(reader.refresh(), 4U) << "each writer has begun a version of its own";
  EXPECT_EQ(reader.find("a"), "2");
  EXPECT_EQ(reader.find("b"), "3");
  EXPECT_EQ(reader.find("b", 3), std::nullopt);
  EXPECT_EQ(then.find("a"), "1");
  EXPECT_EQ(then.find("b"), std::nullopt);
  EXPECT_EQ(value, "1");
  EXPECT_EQ(reader.at("one").find("a"), "0");
  EXPECT_EQ(reader.stats().keys, 2U);
  EXPECT_TRUE(reader.verify().ok());
  reader.close();
  EXPECT_EQ(value, "1");
}

TEST_P(BesideClosed, a_writer_whom_nobody_observes_goes_on_in_the_open_version) {
  write("a", "1");
  { store reader(path_, reading()); }
  {
    const shared<std::atomic<int>> opened;
    child reader([&]() -> int {
      store s(path_, reading());
      for (*opened = s.beside_writer() ? 1 : 2;;) pause();
    });
    while (*opened == 0) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(*opened, 1);
    reader.kill(SIGKILL);
    EXPECT_EQ(reader.wait(), -SIGKILL);
  }
  { store alone(path_, reading_alone()); }
  store second = writer();
  EXPECT_EQ(second.clock(), 1U);
  EXPECT_EQ(second.find("a"), "1");
}

TEST_P(BesideClosed, an_open_version_without_writes_is_shown_and_stays_empty) {
  {
    store first = writer();
    first.insert("a", "1");
    first.tag("one");
  }
  store reader(path_, reading());
  EXPECT_EQ(reader.refresh(), 2U);
  const snapshot then = reader.at(2);
  store second = writer();
  EXPECT_EQ(second.clock(), 3U);
  second.insert("a", "2");
  second.insert("b", "2");
  second.close();
  EXPECT_EQ(reader.refresh(), 3U);
  EXPECT_EQ(reader.find("a"), "2");
  EXPECT_EQ(then.find("a"), "1");
  EXPECT_EQ(then.find("b"), std::nullopt);
}

TEST_P(BesideClosed, a_reader_beside_a_writer_shows_the_open_version_once_it_is_closed) {
  auto first = std::make_unique<store>(writer());
  first->insert("a", "1");
  const version one = first->tag("one");
  if (GetParam().deferred) first->sync();
  store reader(path_, reading());
  await(reader, one);
  first->insert("a", "2");
  EXPECT_EQ(reader.refresh(), one);
  first.reset();
  EXPECT_EQ(reader.refresh(), one + 1);
  EXPECT_EQ(reader.find("a"), "2");
  EXPECT_EQ(reader.refresh(), one + 1);
  const snapshot then = reader.latest();
  write("a", "3");
  EXPECT_EQ(reader.refresh(), one + 2);
  EXPECT_EQ(then.find("a"), "2");
}

TEST_P(BesideClosed, several_readers_see_the_same_and_a_writer_beside_them) {
  write("a", "1");
  store one(path_, reading());
  store two(path_, reading());
  store second = writer();
  second.insert("a", "2");
  const version closed = second.tag("two");
  if (GetParam().deferred) second.sync();
  store three(path_, reading());
  for (store* reader : {&one, &two, &three}) {
    await(*reader, closed);
    EXPECT_EQ(reader->find("a"), "2");
    EXPECT_EQ(reader->find("a", 1), "1");
    EXPECT_EQ(reader->clock(), closed + 1);
  }
}

TEST_P(BesideClosed, with_beside_writer_off_a_reader_keeps_writers_out_and_shows_the_open_version) {
  write("a", "1");
  store observer(path_, reading());
  store alone(path_, reading_alone());
  EXPECT_FALSE(alone.beside_writer());
  EXPECT_EQ(alone.find("a", alone.clock()), "1");
  expect_error(errc::locked, "open for reading", [&] { static_cast<void>(writer()); });
  alone.close();
  EXPECT_EQ(writer().find("a"), "1");
}

TEST_P(BesideClosed, after_a_kill_a_reader_that_comes_keeps_writers_out_and_one_that_was_there_does_not) {
  write("a", "1");
  store there(path_, reading());
  EXPECT_TRUE(there.beside_writer());
  const shared<std::atomic<bool>> written;
  child crashing([&]() -> int {
    store s = writer();
    s.insert("a", "2");
    s.tag("two");
    s.insert("b", "in the open version");
    if (s.durability().deferred) s.sync();
    for (*written = true;;) pause();
  });
  while (!*written) std::this_thread::sleep_for(1ms);
  await(there, 2);
  crashing.kill(SIGKILL);
  EXPECT_EQ(crashing.wait(), -SIGKILL);
  EXPECT_EQ(there.find("a"), "2");
  {
    store late(path_, by_default());
    EXPECT_FALSE(late.beside_writer());
    EXPECT_EQ(late.find("b"), "in the open version");
    expect_error(errc::locked, "open for reading", [&] { static_cast<void>(writer()); });
    EXPECT_EQ(there.find("a"), "2");
  }
  const version shown = there.refresh();
  const std::uint64_t before = fingerprint(there.at(shown));
  write("c", "recovered");
  EXPECT_GT(there.refresh(), shown);
  EXPECT_EQ(there.find("b"), "in the open version");
  EXPECT_EQ(there.find("c"), "recovered");
  EXPECT_EQ(fingerprint(there.at(shown)), before);
}

TEST_P(BesideClosed, a_reader_shows_all_that_the_model_does_session_after_session) {
  scribe scribes(3, test_seed());
  model expected;
  std::optional<store> reader;
  std::map<version, std::uint64_t> seen;
  for (int session = 0; session < 5; ++session) {
    {
      store s = writer();
      EXPECT_EQ(s.clock(), expected.clock);
      scribes.write(s, expected, 150);
      const std::string name = "session " + std::to_string(session);
      const version v = s.tag({.name = name, .note = {}, .time_ns = 8});
      expected.close_version();
      expected.tags.push_back({v, 8, name, ""});
      scribes.write(s, expected, 50);
      if (session % 2 == 0) {
        EXPECT_EQ(s.insert("session", name), expected.insert("session", name));
      }
    }
    if (!reader) {
      reader.emplace(path_, reading());
    } else {
      static_cast<void>(reader->refresh());
    }
    ASSERT_TRUE(reader->beside_writer());
    compare_everything(*reader, expected);
    store late(path_, reading());
    compare_everything(late, expected);
    seen[expected.clock] = fingerprint(late.latest());
    expected.close_version();  // a version that is shown gets nothing more
    for (const auto& [v, was] : seen) EXPECT_EQ(fingerprint(reader->at(v)), was);
    EXPECT_TRUE(reader->verify().ok());
  }
}

TEST_P(BesideClosed, versions_never_change_while_writers_come_and_go) {
#ifdef ICECORE_UNDER_THREAD_SANITIZER
  GTEST_SKIP() << "a child of a process with threads makes some of its own";
#endif
  const deadline soon("readers of a store that is opened and closed", 120s);
  write("first", "x");
  std::map<version, std::uint64_t> seen;
  store reader(path_, reading());
  const shared<std::atomic<int>> sessions;
  const shared<std::atomic<int>> seen_sessions;  // the reader sees three versions, also if it has no core for long
  const auto look = [&] {
    const int before = *sessions;
    const version shown = reader.refresh();
    seen.try_emplace(shown, fingerprint(reader.at(shown)));
    *seen_sessions = before;
  };
  look();
  child writers([&] {
    for (int session = 0; session < 30; ++session) {
      while ((session == 10 || session == 20) && *seen_sessions < session) std::this_thread::sleep_for(100us);
      store s = writer();
      for (int i = 0; i < 20; ++i) {
        s.insert("key " + std::to_string(i % 7), std::to_string(session) + " " + std::to_string(i));
        if (i % 8 == 0) s.tag();
      }
      ++*sessions;
    }
    return 0;
  });
  while (*sessions < 30) look();
  EXPECT_EQ(writers.wait(), 0);
  static_cast<void>(reader.refresh());
  EXPECT_EQ(reader.find("key 0"), "29 14");
  store last = writer();
  for (const auto& [v, was] : seen) {
    EXPECT_EQ(fingerprint(reader.at(v)), was) << "version " << v;
    EXPECT_EQ(fingerprint(last.at(v)), was) << "version " << v;
  }
  EXPECT_GT(seen.size(), 2U);
}

TEST_P(BesideClosed, what_a_close_that_was_cut_off_left_behind_the_end_is_not_read) {
  write("a", "1");
  const std::string closed = read_file(path_);
  write_file(path_, closed + std::string(1 << 20, 'x'));  // as if the file had not been cut yet
  for (const options& how : {reading_alone(), by_default(), reading()}) EXPECT_EQ(store(path_, how).find("a"), "1");
  write("b", "2");
  EXPECT_EQ(store(path_, reading()).find("b"), "2");
}

/// Locks a file as a process does that is to write it, and has not changed anything yet.
class coming_writer {
 public:
  explicit coming_writer(const std::filesystem::path& file) : descriptor_(::open(file.c_str(), O_RDWR | O_CLOEXEC)) {
    for (const auto& [from, bytes] : {std::pair{off_t{0}, observers}, std::pair{observers + 1, off_t{0}}}) {
      struct flock l {};
      l.l_type = F_WRLCK;
      l.l_whence = SEEK_SET;
      l.l_start = from;
      l.l_len = bytes;
      if (fcntl(descriptor_, F_OFD_SETLK, &l) != 0) throw std::runtime_error("another process has the file open");
    }
  }
  ~coming_writer() { ::close(descriptor_); }
  coming_writer(const coming_writer&) = delete;
  coming_writer& operator=(const coming_writer&) = delete;

 private:
  static constexpr off_t observers = (off_t{1} << 62) - 2;  // docs/format.md
  int descriptor_;
};

TEST_P(BesideClosed, a_reader_waits_for_a_writer_that_comes_and_shows_no_less_than_was_closed) {
  {
    store first = writer();
    for (int i = 0; i < 5; ++i) {
      first.insert("key", std::to_string(i));
      static_cast<void>(first.tag());  // which is not published before the store is closed
    }
  }
  for (const options& how : {reading(), by_default()}) {
    auto coming = std::make_unique<coming_writer>(path_);
    std::jthread goes([&] {
      std::this_thread::sleep_for(30ms);
      coming.reset();
    });
    {
      store reader(path_, how);
      EXPECT_EQ(reader.clock(), 6U);
      EXPECT_EQ(reader.find("key"), "4");
      EXPECT_EQ(reader.find("key", 1), "0");
    }
  }
}

TEST_P(BesideClosed, a_store_opens_while_writers_come_and_cut_its_file_at_the_end) {
#ifdef ICECORE_UNDER_THREAD_SANITIZER
  GTEST_SKIP() << "a child of a process with threads makes some of its own";
#endif
  const deadline soon("openings of a store that is opened and closed", 120s);
  {
    store first = writer();
    first.insert("first", "x");
    first.tag("settled");
  }
  const shared<std::atomic<bool>> done;
  child writers([&] {
    for (int session = 0; session < 40; ++session) {
      store s = writer();
      s.insert("key", std::string(static_cast<std::size_t>(session % 4) * 100'000, 'v'));
    }
    *done = true;
    return 0;
  });
  int opened = 0;
  while (!*done) {
    EXPECT_EQ(store(path_, reading()).find("first"), "x");
    ++opened;
  }
  EXPECT_EQ(writers.wait(), 0);
  EXPECT_GT(opened, 0);
}

TEST_P(BesideClosed, a_writer_that_does_not_publish_says_so_at_once_and_is_followed_when_it_has_closed) {
  write("a", "1");
  store there(path_, reading());
  options quiet = writing();
  quiet.publish_settled = false;
  {
    store withholding(path_, quiet);
    withholding.insert("a", "2");
    withholding.tag("two");
    const auto begin = std::chrono::steady_clock::now();
    expect_error(errc::locked, "publish_settled is off", [&] { store(path_, reading()); });
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 15s) << "a reader waits 30 s for one that is opening the store";
    EXPECT_EQ(there.refresh(), 1U);
  }
  EXPECT_EQ(there.refresh(), 3U);
  EXPECT_EQ(there.find("a"), "2");
}

TEST_P(BesideClosed, a_store_with_kept_queries_is_read_with_a_lock) {
  {
    store first = writer();
    first.insert("a", "1");
    first.tag("one");
    first.start({.name = "all", .at = 1}).run();
  }
  store reader(path_, by_default());
  EXPECT_FALSE(reader.beside_writer());
  EXPECT_EQ(reader.queries().size(), 1U);
  expect_error(errc::locked, "open for reading", [&] { static_cast<void>(writer()); });
}

TEST_P(BesideClosed, who_never_locks_shows_what_a_killed_writer_had_settled_and_lets_another_one_come) {
  write("a", "1");
  const shared<std::atomic<bool>> written;
  child crashing([&]() -> int {
    store s = writer();
    s.insert("a", "2");
    s.tag("two");
    if (s.durability().deferred) s.sync();
    s.insert("a", "in the open version");
    for (*written = true;;) pause();
  });
  while (!*written) std::this_thread::sleep_for(1ms);
  {
    store there(path_, reading());
    await(there, there.find_tag("two") ? there.find_tag("two")->version : 1);
  }
  crashing.kill(SIGKILL);
  EXPECT_EQ(crashing.wait(), -SIGKILL);
  store reader(path_, reading());
  EXPECT_TRUE(reader.beside_writer());
  EXPECT_EQ(reader.find("a"), "2");
  EXPECT_EQ(reader.at("two").find("a"), "2");
  const std::uint64_t before = fingerprint(reader.at("two"));
  store second = writer();
  EXPECT_EQ(second.find("a"), "in the open version");
  second.close();
  static_cast<void>(reader.refresh());
  EXPECT_EQ(reader.find("a"), "in the open version");
  EXPECT_EQ(fingerprint(reader.at("two")), before);
}

TEST_P(BesideClosed, who_never_locks_is_told_where_nothing_is_known_of_what_was_settled) {
  options quiet = writing();
  quiet.publish_settled = false;
  const shared<std::atomic<bool>> written;
  child crashing([&]() -> int {
    store s(path_, quiet);
    s.insert("a", "1");
    for (*written = true;;) pause();
  });
  while (!*written) std::this_thread::sleep_for(1ms);
  expect_error(errc::locked, "publish_settled is off", [&] { store(path_, reading()); });
  crashing.kill(SIGKILL);
  EXPECT_EQ(crashing.wait(), -SIGKILL);
  expect_error(errc::locked, "did not close it", [&] { store(path_, reading()); });
  EXPECT_EQ(store(path_, by_default()).find("a"), "1");
  writer().close();
  EXPECT_EQ(store(path_, reading()).find("a"), "1");
}

TEST_P(BesideClosed, who_never_locks_reads_kept_queries_too_and_changes_none) {
  {
    store first = writer();
    first.insert("a", "1");
    first.tag("one");
    first.start({.name = "all", .at = 1}).run();
  }
  store reader(path_, reading());
  EXPECT_EQ(reader.find("a"), "1");
  ASSERT_EQ(reader.queries().size(), 1U);
  EXPECT_EQ(reader.query("all").progress().state, query_state::finished);
  query_rows rows = reader.query("all").results();
  EXPECT_EQ(rows.begin()->key, "a");
  expect_error(errc::read_only, "queries", [&] { reader.query("all").drop(); });
  write("a", "2");
  static_cast<void>(reader.refresh());
  EXPECT_EQ(reader.find("a"), "2");
  EXPECT_EQ(writer().queries().size(), 1U);
  options wrong = reading();
  wrong.accept_damage = true;
  expect_error(errc::invalid_argument, "never locks", [&] { store(path_, wrong); });
}

TEST_P(BesideClosed, who_never_locks_is_told_of_damage_at_once) {
  {
    store first = writer();
    for (int i = 0; i < 100; ++i) first.insert("key " + std::to_string(i), "value");
    first.tag("last");
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    std::string bytes = read_file(entry.path());
    if (const auto at = bytes.find("key 7"); at != std::string::npos) {
      bytes[at] = 'K';
      write_file(entry.path(), bytes);
    }
  }
  const auto begin = std::chrono::steady_clock::now();
  expect_error(errc::damaged, path_.filename(), [&] { store(path_, reading()); });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 15s) << "a reader waits 30 s for one that is opening the store";
}

TEST_P(BesideClosed, a_reader_that_asks_for_nothing_opens_a_persistent_index_at_once_and_keeps_writers_out) {
  {
    store first = writer();
    first.insert("a", "1");
    first.tag("one");
    first.insert("a", "2");
  }
  store observer(path_, reading());
  store reader(path_, by_default());
  EXPECT_EQ(reader.stats().recovered_instantly, GetParam().index == index_kind::persistent);
  EXPECT_FALSE(observer.stats().recovered_instantly);
  EXPECT_FALSE(reader.beside_writer());
  EXPECT_EQ(reader.find("a"), "2");
  EXPECT_EQ(reader.refresh(), 2U);
  expect_error(errc::locked, "open for reading", [&] { static_cast<void>(writer()); });
  EXPECT_EQ(observer.find("a"), "2");
}

TEST_P(BesideClosed, a_feed_that_waits_tells_what_writers_settle_that_come_and_go) {
  write("a", "1");
  store reader(path_, reading());
  feed changes = reader.feed({.after = 0});
  writer().tag();  // what was written in the open version is told when that is closed
  const auto next = [&] {
    const deadline soon("a change", 60s);
    for (;;) {
      const feed_batch some = changes.next(10, 1s);
      if (!some.changes.empty()) return std::string(some.changes[0].key) + " " + std::string(*some.changes[0].value);
    }
  };
  EXPECT_EQ(next(), "a 1");
  write("b", "2");
  store second = writer();
  if (GetParam().deferred) second.sync();
  EXPECT_EQ(next(), "b 2");
  second.insert("c", "3");
  second.tag("three");
  second.sync();
  EXPECT_EQ(next(), "c 3");
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

INSTANTIATE_TEST_SUITE_P(Stores, BesideClosed, ::testing::ValuesIn(settings()),
                         [](const auto& one) { return one.param.name(); });

}  // namespace
}  // namespace icecore::testing
