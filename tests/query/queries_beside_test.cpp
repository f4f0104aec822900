// Kept queries and feeds in a process that reads beside the one that writes: it lists and reads them, changes none, and
// what it reads stays while it has the store open.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/memory/sanitizer.hpp"
#include "icecore/feed.hpp"
#include "icecore/icecore.hpp"
#include "icecore/query.hpp"
#include "store/core.hpp"
#include "support/expect.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

class QueriesBeside : public ::testing::TestWithParam<index_kind> {
 protected:
  scratch folder_;
  std::filesystem::path path_ = folder_ / "written.ice";

  [[nodiscard]] options writing() const {
    options opening;
    opening.index = GetParam();
    opening.durability = durability::operation;
    opening.emulate_durability = true;
    return opening;
  }
  [[nodiscard]] static options reading() {
    options opening;
    opening.access = access::read_only;
    return opening;
  }
  static void fill(store& writer, int keys) {
    for (int i = 0; i < keys; ++i) writer.insert("key " + std::to_string(i), "value " + std::to_string(i));
    writer.tag("filled");
  }
  static std::vector<std::string> rows_of(const query& q) {
    std::vector<std::string> all;
    for (const query_row& row : q.results()) all.push_back(std::string(row.key) + "=" + std::string(*row.value));
    return all;
  }
};

TEST_P(QueriesBeside, are_listed_and_read_as_the_writer_does) {
  store writer(path_, writing());
  fill(writer, 20'000);
  store reader(path_, reading());
  ASSERT_TRUE(reader.beside_writer());
  EXPECT_TRUE(reader.queries().empty());
  query made = writer.start({.name = "sevens", .where = filter("value ~ '7'")});
  EXPECT_EQ(reader.query("sevens").progress().state, query_state::ready);
  static_cast<void>(made.run({.threads = 2}));
  const query seen = reader.query("sevens");
  EXPECT_EQ(seen.progress().state, query_state::finished);
  EXPECT_EQ(seen.progress().rows, made.progress().rows);
  EXPECT_EQ(rows_of(seen), rows_of(made));
  EXPECT_EQ(reader.queries().size(), 1U);
  writer.start({.name = "columns", .where = filter("value ~ '9'"), .select = {"length(value) as size"}}).run();
  EXPECT_EQ(reader.query("columns").rows().size(), writer.query("columns").rows().size());
  EXPECT_GT(reader.query("columns").rows().size(), 0U);
  query before = reader.query("sevens");
  expect_error(errc::read_only, "reading only", [&] { before.drop(); });
  expect_error(errc::read_only, "reading only", [&] { static_cast<void>(before.run()); });
  expect_error(errc::read_only, "reading only", [&] { before.acknowledge(1); });
  expect_error(errc::read_only, "", [&] { static_cast<void>(reader.start({.name = "mine"})); });
  expect_error(errc::no_such_query, "nearest: 'sevens'", [&] { static_cast<void>(reader.query("seven")); });
}

TEST_P(QueriesBeside, space_of_a_dropped_query_is_not_used_again_while_a_reader_has_the_store_open) {
  store writer(path_, writing());
  fill(writer, 5'000);
  writer.start({.name = "first", .where = filter("value ~ '7'")}).run();
  {
    const store reader(path_, reading());
    const query seen = reader.query("first");
    ASSERT_GT(rows_of(seen).size(), 100U);
    query_rows rows = seen.results();
    query_rows::iterator at = rows.begin();
    const std::string read((*at).key);
    writer.query("first").drop();
    const std::uint64_t used = writer.stats().used_bytes;
    for (int i = 0; i < 20; ++i) {
      writer.start({.name = "another " + std::to_string(i), .where = filter("value ~ '3'")}).run();
      writer.query("another " + std::to_string(i)).drop();
    }
    EXPECT_GT(writer.stats().used_bytes, used) << "each is written where none was";
    EXPECT_EQ((*at).key, read);
    expect_error(errc::no_such_query, "'first' was dropped", [&] {
      while (at != std::default_sentinel) ++at;
    });
    expect_error(errc::no_such_query, "", [&] { static_cast<void>(reader.query("first")); });
    EXPECT_TRUE(reader.queries().empty());
  }
  // Nobody observes any more: the space is used again.
  writer.start({.name = "last", .where = filter("value ~ '3'")}).run();
  writer.query("last").drop();
  const std::uint64_t used = writer.stats().used_bytes;
  for (int i = 0; i < 20; ++i) {
    writer.start({.name = "again", .where = filter("value ~ '3'")}).run();
    writer.query("again").drop();
  }
  EXPECT_EQ(writer.stats().used_bytes, used);
}

TEST_P(QueriesBeside, feeds_with_a_name_are_listed_and_read_from_their_place_but_not_acknowledged) {
  store writer(path_, writing());
  fill(writer, 10);
  feed kept = writer.feed({.name = "mirror", .after = 0});
  kept.acknowledge(kept.next(100).token);
  writer.insert("more", "x");
  const version two = writer.tag("two");
  const store reader(path_, reading());
  const auto known = reader.feeds();
  ASSERT_EQ(known.size(), 1U);
  EXPECT_EQ(known[0].name, "mirror");
  EXPECT_EQ(known[0].acknowledged, 1U);
  feed seen = reader.open_feed("mirror");
  const feed_batch told = seen.next(100);
  ASSERT_EQ(told.changes.size(), 1U);
  EXPECT_EQ(told.changes[0].key, "more");
  EXPECT_EQ(told.changes[0].version, two);
  expect_error(errc::read_only, "reading only", [&] { seen.acknowledge(told.token); });
  expect_error(errc::read_only, "reading only", [&] { static_cast<void>(reader.feed({.name = "mine"})); });
  EXPECT_EQ(kept.next(100).changes.size(), 1U) << "the reader has acknowledged nothing";
}

TEST_P(QueriesBeside, a_query_that_another_process_runs_is_running_until_it_is_not) {
#ifdef ICECORE_UNDER_THREAD_SANITIZER
  GTEST_SKIP() << "a child of a process with threads makes some of its own";
#endif
  const shared<std::atomic<int>> step;
  child writing_one([&] {
    store writer(path_, writing());
    fill(writer, 50'000);
    query q = writer.start({.name = "slow", .where = filter("value ~ '7'")});
    run_options how;
    how.keys_per_second = 100'000;
    how.on_progress = [&](const query_progress& p) {
      if (p.examined == 0) return;
      *step = std::max<int>(*step, 1);
      while (*step < 2) std::this_thread::sleep_for(100us);
    };
    static_cast<void>(q.run(how));
    *step = 3;
    while (*step < 4) std::this_thread::sleep_for(100us);
    return 0;
  });
  const deadline soon("a query that runs", 60s);
  while (*step < 1) std::this_thread::sleep_for(100us);
  const store reader(path_, reading());
  const query seen = reader.query("slow");
  EXPECT_EQ(seen.progress().state, query_state::running);
  const auto rows_before = rows_of(seen);
  *step = 2;
  while (*step < 3) std::this_thread::sleep_for(100us);
  EXPECT_EQ(seen.progress().state, query_state::finished);
  const auto all = rows_of(seen);
  ASSERT_GE(all.size(), rows_before.size());
  EXPECT_TRUE(std::equal(rows_before.begin(), rows_before.end(), all.begin()));
  *step = 4;
  EXPECT_EQ(writing_one.wait(), 0);
}

INSTANTIATE_TEST_SUITE_P(Indexes, QueriesBeside,
                         ::testing::Values(index_kind::btree, index_kind::hash, index_kind::persistent));

}  // namespace
}  // namespace icecore::testing
