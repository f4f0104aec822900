// Opening and closing: what is found again, what is refused on all ranks, and that nothing ever hangs.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <thread>

#include "support/ranks.hpp"

namespace icecore::testing {
namespace {

using ::testing::HasSubstr;

class Opening : public ClusterTest {
 protected:
  void make(const cluster_options& o = {}) const {
    cluster c(MPI_COMM_WORLD, path(), o);
    c.insert(key_of(c, (rank() + 1) % ranks(), rank()), std::to_string(rank()));
    if (!c.find_tag("made")) c.tag("made");
    c.close();
  }
  [[nodiscard]] thrown opened(const cluster_options& o = {}, MPI_Comm comm = MPI_COMM_WORLD) const {
    return error_of([&] { cluster c(comm, path(), o); });
  }
  /// What this rank alone does to the folder, while the others wait.
  static void alone(int who, const std::function<void()>& work) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank() == who) work();
    MPI_Barrier(MPI_COMM_WORLD);
  }
  [[nodiscard]] std::filesystem::path pool(int of) const { return path() / ("rank-" + std::to_string(of) + ".ice"); }
  static int last() { return ranks() - 1; }
};

TEST_F(Opening, again_finds_data_versions_and_clock) {
  version clock = 0;
  for (int round = 0; round < 3; ++round) {
    cluster c(MPI_COMM_WORLD, path());
    if (clock != 0) {
      EXPECT_EQ(c.clock(), clock);
    }
    const std::string key = key_of(c, (rank() + 1) % ranks(), rank());
    EXPECT_EQ(c.find(key), round == 0 ? std::nullopt : std::optional(std::to_string(round - 1)));
    c.insert(key, std::to_string(round));
    const version v = c.tag();
    EXPECT_EQ(c.at(v).size(), static_cast<std::uint64_t>(ranks()));
    for (version past = 1; past < v; ++past) EXPECT_EQ(c.find(key, past), std::to_string(past - 1));
    clock = c.clock();
    c.close();
    EXPECT_FALSE(c.is_open());
  }
}

TEST_F(Opening, without_closing_before_loses_nothing) {
  {
    cluster c(MPI_COMM_WORLD, path());
    c.insert(key_of(c, (rank() + 1) % ranks(), rank()), "staged, never fenced");
  }
  cluster c(MPI_COMM_WORLD, path());
  EXPECT_EQ(c.find(key_of(c, (rank() + 1) % ranks(), rank())), "staged, never fenced");
}

TEST_F(Opening, for_reading_only_changes_nothing) {
  cluster_options reading;
  reading.store.access = access::read_only;
  EXPECT_EQ(opened(reading).code, errc::no_such_store);
  make();
  cluster c(MPI_COMM_WORLD, path(), reading);
  EXPECT_EQ(c.at("made").size(), static_cast<std::uint64_t>(ranks()));
  EXPECT_EQ(error_of([&] { c.tag(); }).code, errc::read_only);
  EXPECT_EQ(error_of([&] { c.insert("a", "b"); }).code, errc::read_only);
  c.barrier(barrier_level::storage);
  c.close();
}

TEST_F(Opening, with_another_number_of_ranks_is_refused) {
  make();
  MPI_Comm fewer = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank() == last() ? MPI_UNDEFINED : 0, rank(), &fewer);
  if (fewer != MPI_COMM_NULL) {
    const thrown reported = opened({}, fewer);
    EXPECT_EQ(reported.code, errc::other_cluster);
    EXPECT_THAT(reported.message, HasSubstr("made by " + std::to_string(ranks()) + " ranks"));
    EXPECT_THAT(reported.message, HasSubstr("run with " + std::to_string(ranks())));
    MPI_Comm_free(&fewer);
  }
}

TEST_F(Opening, with_another_ownership_is_refused) {
  make();
  cluster_options o;
  o.ownership = ownership::by_function("mine", [](std::string_view, int) { return 0; });
  const thrown reported = opened(o);
  EXPECT_EQ(reported.code, errc::other_cluster);
  EXPECT_THAT(reported.message, HasSubstr("'hash'"));
  EXPECT_THAT(reported.message, HasSubstr("'function mine'"));
}

TEST_F(Opening, an_error_of_one_rank_is_thrown_on_all) {
  alone(last(), [&] {
    std::filesystem::create_directories(path());
    std::ofstream(pool(last())) << "this is no pool, and long enough to be sure of it: " << std::string(200'000, 'x');
  });
  const thrown reported = opened();
  EXPECT_EQ(reported.code, errc::not_a_store);
  EXPECT_THAT(reported.message, HasSubstr("rank " + std::to_string(last()) + ": "));
}

TEST_F(Opening, a_bad_path_on_one_rank_is_thrown_on_all) {
  alone(0, [&] { std::ofstream(path().parent_path() / "file") << "no folder"; });
  const auto mine = rank() == last() ? path().parent_path() / "file" / "store" : path();
  const thrown reported = error_of([&] { cluster c(MPI_COMM_WORLD, mine, cluster_options()); });
  EXPECT_EQ(reported.code, errc::io);
  EXPECT_THAT(reported.message, HasSubstr("rank " + std::to_string(last()) + ": "));
}

TEST_F(Opening, a_full_device_of_one_rank_is_thrown_on_all) {
  static_cast<void>(signal(SIGXFSZ, SIG_IGN));
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit full{4096, before.rlim_max};
  if (rank() == last()) setrlimit(RLIMIT_FSIZE, &full);
  const thrown reported = opened();
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(reported.code, errc::no_space) << reported.message;
  EXPECT_THAT(reported.message, HasSubstr("rank " + std::to_string(last()) + ": "));
  make();
}

TEST_F(Opening, different_options_are_refused) {
  if (ranks() == 1) GTEST_SKIP() << "one rank has no other";
  cluster_options o;
  o.group_size = rank() == 0 ? 1 : 2;
  EXPECT_EQ(opened(o).code, errc::invalid_argument);
}

TEST_F(Opening, what_cannot_be_an_argument_is_refused) {
  cluster_options o;
  o.ownership = ownership::by_ranges(std::vector<std::string>(static_cast<std::size_t>(ranks()), "a"));
  EXPECT_EQ(opened(o).code, errc::invalid_argument) << "too many splits";
  o.ownership = ownership::by_function("two words", [](std::string_view, int) { return 0; });
  EXPECT_EQ(opened(o).code, errc::invalid_argument);
  o.ownership = ownership::by_function("nothing", nullptr);
  EXPECT_EQ(opened(o).code, errc::invalid_argument);
  EXPECT_EQ(opened({}, MPI_COMM_NULL).code, errc::invalid_argument);
  o.ownership = ownership::by_function("beyond", [](std::string_view, int ranks) { return ranks; });
  cluster c(MPI_COMM_WORLD, path(), o);
  EXPECT_EQ(error_of([&] { c.insert("a", "b"); }).code, errc::invalid_argument);
  c.close();
}

TEST_F(Opening, of_what_misses_a_part_is_refused) {
  make();
  const auto aside = path().parent_path() / "aside";
  alone(0, [&] { std::filesystem::rename(pool(last()), aside); });
  const thrown missing = opened();
  EXPECT_EQ(missing.code, errc::other_cluster) << "a pool is missing";
  EXPECT_THAT(missing.message,
              HasSubstr("rank " + std::to_string(last()) + ": " + pool(last()).native() + ": is missing"));
  EXPECT_FALSE(std::filesystem::exists(pool(last())));
  alone(0, [&] { std::filesystem::rename(aside, pool(last())); });

  alone(0, [&] { std::filesystem::rename(path() / "manifest", aside); });
  EXPECT_EQ(opened().code, errc::other_cluster) << "pools with data, but no manifest";
  alone(0, [&] { std::filesystem::rename(aside, path() / "manifest"); });

  alone(0, [&] { std::ofstream(path() / "manifest", std::ios::app) << "nonsense\n"; });
  const thrown reported = opened();
  EXPECT_EQ(reported.code, errc::other_cluster);
  EXPECT_THAT(reported.message, HasSubstr("manifest"));
}

TEST_F(Opening, a_refused_one_leaves_no_new_pool_behind) {
  if (ranks() == 1) GTEST_SKIP() << "one rank that holds no data is not refused";
  make();
  alone(0, [&] {
    std::filesystem::remove(path() / "manifest");
    std::filesystem::remove(pool(last()));
  });
  EXPECT_EQ(opened().code, errc::other_cluster) << "rank 0 holds data, but there is no manifest";
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_FALSE(std::filesystem::exists(pool(last())));
  EXPECT_TRUE(std::filesystem::exists(pool(0))) << "what was there stays";
}

TEST_F(Opening, of_a_checkpoint_as_if_it_were_a_cluster_is_refused) {
  cluster c(MPI_COMM_WORLD, path());
  c.insert(key_of(c, rank()), "kept");
  c.checkpoint(path() / "then").wait();
  const thrown reported = error_of([&] { cluster never(MPI_COMM_WORLD, path() / "then"); });
  EXPECT_EQ(reported.code, errc::other_cluster);
  EXPECT_THAT(reported.message, HasSubstr("holds a checkpoint, not a cluster"));
  EXPECT_FALSE(std::filesystem::exists(path() / "then" / "rank-0.ice"));
  cluster there = cluster::restore(MPI_COMM_WORLD, {path() / "then"}, path() / "now");
  EXPECT_EQ(there.find(key_of(there, rank())), "kept");
}

TEST_F(Opening, in_different_folders_of_one_node_is_refused) {
  if (ranks() == 1) GTEST_SKIP() << "one rank has one folder";
  const auto mine = path() / (rank() == last() ? "other" : "store");
  const thrown reported = error_of([&] { cluster c(MPI_COMM_WORLD, mine); });
  EXPECT_EQ(reported.code, errc::invalid_argument);
  EXPECT_THAT(reported.message, HasSubstr("in another folder"));
  EXPECT_FALSE(std::filesystem::exists(path() / "store" / "manifest"));
}

TEST_F(Opening, one_folder_by_several_names_is_one_folder) {
  const auto other_name = path().parent_path() / "other name";
  alone(0, [&] {
    std::filesystem::create_directory(path());
    std::filesystem::create_directory_symlink(path(), other_name);
  });
  cluster c(MPI_COMM_WORLD, rank() == last() ? other_name : path() / ".." / "store");
  c.insert(key_of(c, rank()), "x");
  c.barrier();
  EXPECT_EQ(c.find(key_of(c, last())), "x");
}

TEST_F(Opening, pools_that_changed_places_are_refused) {
  if (ranks() == 1) GTEST_SKIP() << "one rank has no other";
  make();
  alone(0, [&] {
    std::filesystem::rename(pool(0), path() / "x");
    std::filesystem::rename(pool(1), pool(0));
    std::filesystem::rename(path() / "x", pool(1));
  });
  const thrown reported = opened();
  EXPECT_EQ(reported.code, errc::other_cluster);
  EXPECT_THAT(reported.message, HasSubstr("put the right file back"));
}

TEST_F(Opening, asks_for_a_new_or_an_old_one) {
  cluster_options o;
  o.store.creation = creation::open_existing;
  EXPECT_EQ(opened(o).code, errc::no_such_store);
  o.store.creation = creation::create_new;
  make(o);
  EXPECT_EQ(opened(o).code, errc::store_exists);
  o.store.creation = creation::open_existing;
  make(o);
}

TEST_F(Opening, on_a_part_of_the_ranks_leaves_the_others_alone) {
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank() % 2, -rank(), &half);  // in the opposite order
  int here = 0;
  MPI_Comm_rank(half, &here);
  {
    cluster c(half, path() / std::to_string(rank() % 2), cluster_options());
    EXPECT_EQ(c.rank(), here);
    c.insert("a", "half " + std::to_string(rank() % 2));
    c.barrier();
    EXPECT_EQ(c.find("a"), "half " + std::to_string(rank() % 2));
  }
  MPI_Comm_free(&half);
}

TEST_F(Opening, two_clusters_at_once_do_not_meet) {
  cluster a(MPI_COMM_WORLD, path() / "a");
  cluster b(MPI_COMM_WORLD, path() / "b");
  a.insert("key", "a");
  b.insert("key", "b");
  a.barrier();
  b.barrier();
  EXPECT_EQ(a.find("key"), "a");
  EXPECT_EQ(b.find("key"), "b");
  const thrown reported = error_of([&] { cluster again(MPI_COMM_WORLD, path() / "a"); });
  EXPECT_EQ(reported.code, errc::locked);
}

TEST_F(Opening, groups_are_as_large_as_asked_for) {
  cluster_options o;
  o.group_size = 2;
  cluster c(MPI_COMM_WORLD, path(), o);
  for (int r = 0; r < ranks(); ++r) EXPECT_EQ(c.group_of(r), r / 2);
  EXPECT_EQ(error_of([&] { static_cast<void>(c.group_of(-1)); }).code, errc::invalid_argument);
  EXPECT_EQ(error_of([&] { static_cast<void>(c.group_of(ranks())); }).code, errc::invalid_argument);
  c.close();
  if (std::getenv("ICECORE_GROUP_SIZE") != nullptr) GTEST_SKIP() << "the environment says how large groups are";
  cluster by_node(MPI_COMM_WORLD, path(), cluster_options());
  for (int r = 0; r < ranks(); ++r) EXPECT_EQ(by_node.group_of(r), 0) << "all on this machine";
}

TEST_F(Opening, ranks_that_call_different_functions_are_reported_and_do_not_hang) {
  if (ranks() == 1) GTEST_SKIP() << "one rank has no other";
  {
    cluster c(MPI_COMM_WORLD, path());
    const thrown reported = error_of([&] {
      if (rank() == 0) {
        c.tag();
      } else {
        c.barrier();
      }
    });
    EXPECT_EQ(reported.code, errc::mpi);
    EXPECT_THAT(reported.message, HasSubstr("tag"));
    EXPECT_THAT(reported.message, HasSubstr("barrier"));
    EXPECT_EQ(error_of([&] { c.insert("a", "b"); }).code, errc::mpi) << "of no use any more";
    EXPECT_EQ(error_of([&] { c.close(); }).code, errc::mpi);
  }
  cluster c(MPI_COMM_WORLD, path());
  c.barrier();
}

TEST_F(Opening, a_rank_that_gives_up_is_noticed_by_the_others) {
  if (ranks() == 1) GTEST_SKIP() << "one rank has no other";
  const thrown reported = error_of([&] {
    cluster c(MPI_COMM_WORLD, path());
    if (rank() == 0) throw error(errc::bad_input, "something of the program's own");
    c.barrier();
    c.barrier();
  });
  EXPECT_EQ(reported.code, rank() == 0 ? errc::bad_input : errc::mpi);
}

TEST_F(Opening, over_and_over_never_hangs) {
  for (int i = 0; i < (long_tests ? 200 : 12); ++i) {
    cluster_options o;
    o.consistency = i % 2 == 0 ? consistency::relaxed : consistency::sequential;
    auto c = std::make_unique<cluster>(MPI_COMM_WORLD, path(), o);
    c->insert("key-" + std::to_string(rank()), std::to_string(i));
    c->barrier();
    EXPECT_EQ(c->tag(), static_cast<version>(i + 1));
    if (i % 3 == 0) c->close();
  }
}

}  // namespace
}  // namespace icecore::testing
