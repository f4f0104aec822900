// Kept queries of all ranks.
#include <gmock/gmock.h>

#include "support/ranks.hpp"

namespace icecore::testing {
namespace {

using ::testing::HasSubstr;

class Query : public ClusterTest {
 protected:
  static constexpr int keys_each = 300;  // of each rank

  static filter some() { return filter("ends_with(key, '7') or value = 'kept'"); }

  static void fill(cluster& c) {
    for (int i = 0; i < keys_each; ++i) c.insert("key " + std::to_string(rank() * keys_each + i), "value");
    c.barrier();
  }
  /// This rank's rows are its keys' matches; returns how many there are on all ranks.
  static int expect_answer(const cluster& c, const cluster_query& q) {
    const auto then = c.local().at(q.version());
    int wanted = 0;
    const filter where = q.where();
    auto rows = q.results();
    auto row = rows.begin();
    for (const auto& [key, value] : then.range()) {
      if (!where.matches(key, value)) continue;
      EXPECT_NE(row, rows.end());
      if (row == rows.end()) break;
      EXPECT_EQ(row->key, key);
      EXPECT_EQ(row->value, value);
      EXPECT_EQ(row->number, wanted++);
      ++row;
    }
    EXPECT_EQ(row, rows.end());
    int all = 0;
    MPI_Allreduce(&wanted, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return all;
  }
  /// This rank's store by itself, as a crash leaves it.
  [[nodiscard]] store part() const { return store(path() / ("rank-" + std::to_string(rank()) + ".ice")); }
};

TEST_F(Query, answers_for_one_version_on_all_ranks) {
  cluster c(MPI_COMM_WORLD, path(), small_buffers());
  fill(c);
  cluster_query q = c.start({.name = "audit", .where = some()});
  EXPECT_EQ(q.version(), of_rank_0(q.version()));
  EXPECT_EQ(c.clock(), of_rank_0(c.clock()));
  EXPECT_GT(c.clock(), q.version());
  EXPECT_EQ(q.progress().state, query_state::ready);
  c.insert("key " + std::to_string(rank()) + " after 7", "value");
  c.barrier();
  const query_progress done = q.run({.threads = 2});
  EXPECT_EQ(done.state, query_state::finished);
  const auto all = static_cast<std::uint64_t>(keys_each * ranks());
  EXPECT_EQ(done.examined, all);
  EXPECT_EQ(done.rows, all / 10);
  EXPECT_EQ(expect_answer(c, q), static_cast<int>(all / 10));
  const cluster_query counted =
      c.start({.name = "counted", .at = q.version(), .where = some(), .keep = query_keeps::count});
  EXPECT_EQ(counted.version(), q.version());
  c.tag();
  EXPECT_EQ(c.clock(), of_rank_0(c.clock()));
  c.close();
}

TEST_F(Query, goes_on_in_the_next_run_of_the_program) {
  {
    cluster c(MPI_COMM_WORLD, path(), small_buffers());
    fill(c);
    cluster_query q = c.start({.name = "audit", .where = some()});
    const query_progress part = q.run({.every_item = true, .keys = 20});
    EXPECT_EQ(part.state, query_state::paused);
    EXPECT_EQ(part.examined, 20U * static_cast<unsigned>(ranks()));
    c.close();
  }
  cluster c(MPI_COMM_WORLD, path(), small_buffers());
  cluster_query q = c.query("audit");
  EXPECT_EQ(q.progress().examined, 20U * static_cast<unsigned>(ranks()));
  EXPECT_EQ(q.run().state, query_state::finished);
  EXPECT_EQ(expect_answer(c, q), keys_each * ranks() / 10);
  q.acknowledge(3);
  EXPECT_EQ(c.query("audit").acknowledged(), 3);
  q.drop();
  EXPECT_EQ(error_of([&] { static_cast<void>(c.query("audit")); }).code, errc::no_such_query);
  c.close();
}

TEST_F(Query, is_the_same_question_on_all_ranks_or_an_error_on_all) {
  cluster c(MPI_COMM_WORLD, path(), small_buffers());
  fill(c);
  if (ranks() > 1) {
    const std::string own = "of rank " + std::to_string(rank());
    EXPECT_EQ(error_of([&] { static_cast<void>(c.start({.name = own, .where = some()})); }).code,
              errc::invalid_argument);
    const filter mine("key != '" + own + "'");
    EXPECT_EQ(error_of([&] { static_cast<void>(c.start({.name = "one", .where = mine})); }).code,
              errc::invalid_argument);
    EXPECT_EQ(error_of([&] { static_cast<void>(c.query(own)); }).code, errc::invalid_argument);
  }
  EXPECT_EQ(error_of([&] { static_cast<void>(c.query("none")); }).code, errc::no_such_query);
  EXPECT_EQ(error_of([&] { static_cast<void>(c.start({.name = "", .where = some()})); }).code, errc::invalid_argument);
  EXPECT_EQ(error_of([&] { static_cast<void>(c.start({.name = "open", .at = c.clock()})); }).code,
            errc::version_not_closed);
  cluster_query q = c.start({.name = "one", .where = some()});
  EXPECT_EQ(error_of([&] { static_cast<void>(c.start({.name = "one", .where = some()})); }).code, errc::query_exists);
  q.cancel();
  EXPECT_EQ(q.progress().state, query_state::cancelled);
  EXPECT_EQ(error_of([&] { q.run(); }).code, errc::invalid_argument);
  c.insert("goes on", "value");
  c.tag();
  c.close();
}

TEST_F(Query, that_only_some_ranks_have_is_one_that_never_was) {
  if (ranks() == 1) GTEST_SKIP() << "a rank by itself has all of it";
  version at = 0;
  {
    cluster c(MPI_COMM_WORLD, path(), small_buffers());
    fill(c);
    at = c.tag();
    c.close();
  }
  if (rank() == 0) {
    store own = part();
    static_cast<void>(own.start({.name = "begun", .at = at, .where = some()}));
    static_cast<void>(own.start({.name = "found begun", .at = at, .where = some()}));
    own.start({.name = "ran", .at = at, .where = some()}).run();
    own.close();
  }
  cluster c(MPI_COMM_WORLD, path(), small_buffers());
  EXPECT_EQ(error_of([&] { static_cast<void>(c.query("found begun")); }).code, errc::no_such_query);
  cluster_query q = c.start({.name = "begun", .at = at, .where = some()});
  q.run();
  EXPECT_EQ(expect_answer(c, q), keys_each * ranks() / 10);
  // one that has rows is not taken away without being asked
  for (const auto& call : {std::function<void()>([&] { static_cast<void>(c.query("ran")); }),
                           std::function<void()>([&] { static_cast<void>(c.start({.name = "ran", .at = at})); })}) {
    const thrown reported = error_of(call);
    EXPECT_EQ(reported.code, errc::no_such_query);
    EXPECT_THAT(reported.message, HasSubstr("drop_query"));
  }
  EXPECT_EQ(c.local().queries().size(), rank() == 0 ? 2 : 1);
  c.drop_query("ran");
  static_cast<void>(c.start({.name = "ran", .at = at, .where = some()}));
  c.close();
}

TEST_F(Query, is_paused_on_all_ranks_if_a_function_fails_on_one) {
  cluster c(MPI_COMM_WORLD, path(), small_buffers());
  fill(c);
  const std::string bad = key_of(c, ranks() - 1, 0);
  c.insert(bad, "kept");
  c.barrier();
  bool fails = true;
  const filter mine = filter::of("mine", 1, [&](const item& i) {
    if (fails && i.key == bad) throw std::runtime_error("not today");
    return i.value == "kept";
  });
  cluster_query q = c.start({.name = "mine", .where = mine});
  EXPECT_THAT(error_of([&] {
                try {
                  q.run();
                } catch (const error&) {
                  throw;
                } catch (const std::exception& e) {
                  throw error(errc::io, e.what());
                }
              }).message,
              HasSubstr("not today"));
  EXPECT_NE(q.progress().state, query_state::finished);
  fails = false;
  EXPECT_EQ(q.run().state, query_state::finished);
  EXPECT_EQ(q.progress().rows, 1);
  EXPECT_EQ(expect_answer(c, q), 1);
  c.close();
}

TEST_F(Query, is_in_checkpoints_and_in_what_is_restored_from_them) {
  const std::filesystem::path folder = path().string() + "-checkpoint";
  const std::filesystem::path other = path().string() + "-restored";
  {
    cluster c(MPI_COMM_WORLD, path() / "one", small_buffers());
    fill(c);
    c.start({.name = "paused", .where = some()}).run({.every_item = true, .keys = 10});
    static_cast<void>(c.start(
        {.name = "totals", .where = some(), .select = {"length(key) as size"}, .aggregates = {{aggregate::count}}}));
    c.checkpoint(folder).wait();
    c.close();
  }
  {
    cluster c = cluster::restore(MPI_COMM_WORLD, {folder}, other);
    cluster_query q = c.query("paused");
    EXPECT_EQ(q.progress().examined, 10U * static_cast<unsigned>(ranks()));
    EXPECT_EQ(q.run().state, query_state::finished);
    EXPECT_EQ(expect_answer(c, q), keys_each * ranks() / 10);
    c.close();
  }
  {
    // on other ranks than before it keeps what it asks, and begins anew
    cluster c = cluster::restore(MPI_COMM_WORLD, {folder, true}, other.string() + "-anew");
    cluster_query q = c.query("paused");
    EXPECT_EQ(q.progress().state, query_state::ready);
    EXPECT_EQ(q.progress().examined, 0);
    EXPECT_EQ(q.run().state, query_state::finished);
    EXPECT_EQ(expect_answer(c, q), keys_each * ranks() / 10);
    cluster_query totals = c.query("totals");
    EXPECT_EQ(totals.run().rows, static_cast<std::uint64_t>(keys_each * ranks() / 10));
    EXPECT_EQ(totals.rows().columns().at(0).name, "size");
    EXPECT_EQ(totals.local_totals().at(0).value, result_number(totals.rows().size()));
    c.close();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank() == 0) {
    std::filesystem::remove_all(other.string() + "-anew");
    std::filesystem::remove_all(folder);
    std::filesystem::remove_all(other);
  }
}

}  // namespace
}  // namespace icecore::testing
