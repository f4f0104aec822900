// Kept queries in checkpoints and in repaired stores.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <thread>

#include "icecore/feed.hpp"
#include "kept_answers.hpp"
#include "pool/query/query_space.hpp"
#include "store/core.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

class Copies : public ::testing::TestWithParam<setting> {
 protected:
  [[nodiscard]] options opening() const { return GetParam().options_at(path_); }
  /// For files that lie beside each other, wherever the store's own lie.
  [[nodiscard]] options opening_copy() const {
    options how = opening();
    how.placements.clear();
    return how;
  }

  scratch folder_{GetParam().where};
  std::filesystem::path path_ = folder_ / "store";
  std::filesystem::path copy_ = folder_ / "copy";
};

std::vector<std::string> names_of(const store& s) {
  std::vector<std::string> names;
  for (const query& q : s.queries()) names.push_back(q.name());
  return names;
}

void expect_all_right(store& s) {
  const answers wanted = answer_of(s, 1);
  for (query& q : s.queries()) {
    SCOPED_TRACE(q.name());
    expect_right(q, wanted, q.state() == query_state::finished);
    q.run();
    EXPECT_EQ(q.state(), query_state::finished);
    expect_right(q, wanted, true);
  }
}

TEST_P(Copies, a_checkpoint_holds_queries_and_how_far_they_had_come) {
  store s(path_, opening());
  make_queries(s);
  s.query("finished").acknowledge(7);
  s.checkpoint().write(copy_);
  store copy(copy_, opening_copy());
  const auto report = copy.verify();
  EXPECT_TRUE(report.ok()) << report.damages.front().what;
  EXPECT_EQ(report.queries, 3);
  EXPECT_EQ(names_of(copy), names_of(s));
  query paused = copy.query("paused");
  EXPECT_EQ(paused.progress().examined, 9);
  EXPECT_EQ(paused.progress().repeated, 0);
  EXPECT_EQ(copy.query("finished").state(), query_state::finished);
  EXPECT_EQ(copy.query("finished").acknowledged(), 7);
  expect_all_right(copy);
  query more = copy.start({.name = "more", .where = some()});
  more.run();
  more.drop();
  expect_all_right(s);
}

TEST_P(Copies, a_checkpoint_shows_nothing_that_came_after_it) {
  store s(path_, opening());
  make_queries(s);
  const checkpoint cut = s.checkpoint();
  s.start({.name = "later", .where = some()}).run();
  s.query("counted").drop();
  // takes the space of what was dropped
  for (int i = 0; i < 3; ++i)
    s.start({.name = "again " + std::to_string(i), .where = some()}).run({.every_item = true});
  s.query("paused").run({.every_item = true, .keys = 5});
  cut.write(copy_);
  store copy(copy_, opening_copy());
  EXPECT_TRUE(copy.verify().ok());
  EXPECT_EQ(names_of(copy), (std::vector<std::string>{"finished", "paused"}));
  EXPECT_EQ(copy.query("paused").state(), query_state::paused);
  expect_all_right(copy);
  expect_error(errc::no_such_query, "counted", [&] { static_cast<void>(copy.query("counted")); });
  // the space of what was dropped meanwhile is free in the copy
  const auto size = std::filesystem::file_size(copy_);
  copy.start({.name = "new", .where = some()}).run();
  if (GetParam().where == place::tmpfs) {  // files on a device grow ahead
    EXPECT_EQ(std::filesystem::file_size(copy_), size);
  }
  EXPECT_TRUE(copy.verify().ok());
}

TEST_P(Copies, a_query_that_took_the_place_of_a_dropped_one_is_not_in_an_earlier_checkpoint) {
  store s(path_, opening());
  make_queries(s);
  const auto names = names_of(s);
  const query_space space(s.core().the_pool(), s.core().shared().queries);
  const auto newest = [&space] { return space.heads([](link, const std::string&) {}).front(); };
  query gone = s.start({.name = "gone", .where = some()});
  const link place = newest();
  const checkpoint cut = s.checkpoint();
  gone.drop();
  static_cast<void>(s.start({.name = "came", .where = some()}));
  ASSERT_EQ(newest(), place);
  cut.write(copy_);
  store copy(copy_, opening_copy());
  const auto report = copy.verify();
  EXPECT_TRUE(report.ok()) << report.damages.front().what;
  EXPECT_EQ(names_of(copy), names);
  expect_all_right(copy);
}

TEST_P(Copies, checkpoints_are_right_while_queries_run_and_are_dropped) {
  store s(path_, opening());
  make_queries(s);
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done) {
      query q = s.start({.name = "on and on", .at = 1, .where = some()});
      q.run({.every_item = true});
      q.drop();
    }
  });
  for (int i = 0; i < 8; ++i) {
    const auto to = folder_ / ("copy " + std::to_string(i));
    s.checkpoint().write(to);
    store copy(to, opening_copy());
    const auto report = copy.verify();
    EXPECT_TRUE(report.ok()) << report.damages.front().what;
    EXPECT_GE(copy.queries().size(), 3);
    expect_all_right(copy);
  }
  done = true;
  other.join();
}

TEST_P(Copies, a_store_that_is_read_only_gives_a_checkpoint_with_its_queries) {
  child maker([&] {
    store s(path_, opening());
    make_queries(s);
    ::raise(SIGKILL);
    return 0;
  });
  ASSERT_EQ(maker.wait(), -SIGKILL);
  options reading = opening();
  reading.access = access::read_only;
  const store s(path_, reading);
  s.checkpoint().write(copy_);
  store copy(copy_, opening_copy());
  EXPECT_EQ(copy.queries().size(), 3);
  expect_all_right(copy);
}

TEST_P(Copies, repair_keeps_what_queries_ask_and_they_start_anew) {
  if (GetParam().index == index_kind::persistent) GTEST_SKIP() << "repair reads the records, whatever the index";
  {
    store s(path_, opening());
    make_queries(s);
    s.query("paused").cancel();
  }
  // one record of a key that no filter wants, and one definition
  std::string file = read_file(path_);
  const std::size_t key = file.find("key 100");
  ASSERT_NE(key, std::string::npos);
  file[key] = 'K';
  const std::size_t definition = file.find("counted", file.find("IQRY"));
  ASSERT_NE(definition, std::string::npos);
  file[definition] = 'C';
  write_file(path_, file);
  const repair_report report = repair({.from = path_, .to = copy_});
  EXPECT_EQ(report.queries, 2);
  EXPECT_EQ(std::ranges::count(report.losses, "query", &damage::structure), 1);
  store copy(copy_, opening_copy());
  EXPECT_EQ(names_of(copy), (std::vector<std::string>{"finished", "paused"}));
  for (query& q : copy.queries()) {
    EXPECT_EQ(q.state(), query_state::ready) << q.name();
    EXPECT_EQ(q.progress().examined, 0);
  }
  expect_all_right(copy);
}

TEST_P(Copies, a_free_list_that_is_damaged_keeps_nobody_from_starting) {
  {
    store s(path_, opening());
    make_queries(s);
    s.query("counted").drop();
  }
  std::string file = read_file(path_);
  for (unsigned c = 0; c < format::query_size_classes; ++c) {
    file[format::query_anchor_offset + offsetof(format::query_anchor, free) + 8 * c + 1] ^= 0x10;
  }
  write_file(path_, file);
  store s(path_, opening());
  for (int i = 0; i < 3; ++i) s.start({.name = "new " + std::to_string(i), .where = some()}).run();
  s.query("new 1").drop();
  expect_all_right(s);
  EXPECT_TRUE(s.verify().ok());
}

TEST_P(Copies, space_that_two_threads_free_is_free_once) {
  store s(path_, opening());
  make_queries(s);
  query_space space(s.core().the_pool(), s.core().shared().queries);
  query q = s.start({.name = "twice", .at = 1});
  q.run();
  {
    auto rows = q.results();
    static_cast<void>(rows.begin());
    q.drop();  // not freed: a range is there
  }
  const auto free_it = [&] {
    const recovering_lock lock = space.hold();
    return space.free_dropped([](link) { return false; });
  };
  EXPECT_TRUE(free_it());
  query first = s.start({.name = "first", .at = 1, .where = some()});
  first.run();
  EXPECT_TRUE(free_it());
  query second = s.start({.name = "second", .at = 1, .where = some()});
  second.run();
  const auto report = s.verify();
  EXPECT_TRUE(report.ok()) << report.damages.front().what;
  EXPECT_EQ(report.queries, 5);
  expect_all_right(s);
}

TEST_P(Copies, feeds_go_on_where_they_were_acknowledged_in_checkpoints_and_repaired_stores) {
  if (GetParam().index == index_kind::persistent) GTEST_SKIP() << "repair reads the records, whatever the index";
  const auto told_by = [](store& s, const char* name) {
    std::vector<std::string> keys;
    icecore::feed f = s.open_feed(name);
    const auto batch = f.next(1000);
    for (const auto& c : batch.changes) keys.emplace_back(c.key);
    return keys;
  };
  std::vector<std::string> wanted;
  std::vector<std::string> wanted_of_snapshot;
  {
    store s(path_, opening());
    make_queries(s);
    icecore::feed f = s.feed({.name = "mirror", .after = 0});
    f.acknowledge(f.next(7).token);
    icecore::feed with_snapshot = s.feed({.name = "from a snapshot", .after = 1, .snapshot = true});
    with_snapshot.acknowledge(with_snapshot.next(5).token);
    wanted = told_by(s, "mirror");
    wanted_of_snapshot = told_by(s, "from a snapshot");
    EXPECT_EQ(wanted.size(), keys_of_queries - 7);
    EXPECT_EQ(wanted_of_snapshot.size(), keys_of_queries - 5);
    s.checkpoint().write(copy_);
    s.feed({.name = "dropped", .after = 0}).drop();
  }
  static_cast<void>(repair({.from = path_, .to = folder_ / "repaired"}));
  for (const auto& path : {path_, copy_, folder_ / "repaired"}) {
    options how = opening_copy();
    if (path == path_) how = opening();
    store s(path, how);
    const auto report = s.verify();
    EXPECT_TRUE(report.ok()) << report.damages.front().what;
    EXPECT_EQ(told_by(s, "mirror"), wanted) << path;
    EXPECT_EQ(told_by(s, "from a snapshot"), wanted_of_snapshot) << path;
    icecore::feed f = s.open_feed("mirror");
    f.acknowledge(f.next(3).token);
    EXPECT_EQ(told_by(s, "mirror").size(), keys_of_queries - 10);
  }
  // both places of the one that was acknowledged twice
  std::string file = read_file(path_);
  const std::size_t name = file.find("mirror", file.find("IQRY"));
  ASSERT_NE(name, std::string::npos);
  const std::size_t lines = name - 6 - 2 * sizeof(format::feed_place);
  file[lines + 8] = static_cast<char>(file[lines + 8] ^ 1);
  file[lines + 72] = static_cast<char>(file[lines + 72] ^ 1);
  write_file(path_, file);
  const auto found = verify_file(path_).damages;
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found[0].structure, "query");
  EXPECT_NE(found[0].what.find("feed 'mirror'"), std::string::npos) << found[0].what;
}

INSTANTIATE_TEST_SUITE_P(All, Copies,
                         ::testing::Values(setting{place::tmpfs, durability::operation},
                                           setting{place::disk, durability::tag},
                                           setting{place::tmpfs, durability::operation, index_kind::persistent}),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace icecore::testing
