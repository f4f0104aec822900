// When other ranks see a write: relaxed and sequential consistency, fences, barriers, signals.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>

#include <ctime>
#include <optional>
#include <thread>

#include "support/ranks.hpp"

namespace icecore::testing {
namespace {

using ::testing::HasSubstr;

class Consistency : public ClusterTest {
 protected:
  static int next() { return (rank() + 1) % ranks(); }
  static int previous() { return (rank() + ranks() - 1) % ranks(); }
  static bool threads() { return std::getenv("ICECORE_TEST_SINGLE") == nullptr; }
};

TEST_F(Consistency, the_writer_sees_its_own_staged_writes) {
  cluster_options o;
  o.staging_bytes = 64 * 1024 * 1024;  // nothing is sent because a buffer is full
  cluster c(MPI_COMM_WORLD, path(), o);
  const std::string key = key_of(c, next(), 10 * rank());
  const std::string other = key_of(c, next(), 10 * rank() + 1);
  const std::vector<std::string_view> both{key, other};
  c.insert(key, "1");
  EXPECT_EQ(c.find(key), "1");
  c.remove(key);
  EXPECT_EQ(c.find(key), std::nullopt);
  EXPECT_FALSE(c.contains(key));
  c.insert(key, "2");
  EXPECT_EQ(c.find(key), "2") << "a put after a delete";
  c.insert(other, "");
  const auto found = c.find_many(both);
  EXPECT_EQ(found[0], "2");
  EXPECT_EQ(found[1], "");
  EXPECT_EQ(c.history(key).size(), 3U);
  c.fence();
  EXPECT_EQ(c.find(key), "2");
  c.close();
}

TEST_F(Consistency, a_sequential_write_is_seen_when_it_has_returned) {
  cluster c(MPI_COMM_WORLD, path(), small_buffers(consistency::sequential));
  for (int i = 0; i < 20; ++i) {
    const std::string key = key_of(c, i % ranks(), i);
    if (rank() == i % ranks()) c.insert(key, std::to_string(i));
    MPI_Barrier(MPI_COMM_WORLD);  // not the cluster's: nothing is fenced
    if (threads()) {              // without, nobody answers while others wait in MPI_Barrier
      EXPECT_EQ(c.find(key), std::to_string(i));
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
  c.close();
}

TEST_F(Consistency, after_a_fence_others_see_what_was_staged) {
  cluster c(MPI_COMM_WORLD, path());
  const std::string key = key_of(c, next(), rank());
  c.insert(key, "fenced");
  c.fence();
  const int to = next();
  const int from = previous();
  c.signal_notify(7, {&to, 1});
  c.signal_wait(7, {&from, 1});
  EXPECT_EQ(c.local().find(key_of(c, rank(), from)), "fenced");
  c.barrier();
  c.close();
}

TEST_F(Consistency, what_is_staged_migrates_in_the_background) {
  cluster c(MPI_COMM_WORLD, path());
  const std::string key = key_of(c, next(), rank());
  c.insert(key, "soon");
  c.barrier();  // all have begun
  c.insert(key, "later");
  const std::string mine = key_of(c, rank(), previous());
  for (int i = 0; c.find(mine) != "later"; ++i) {
    ASSERT_LT(i, 20'000) << "no fence, and yet it is to come";
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  c.close();
}

TEST_F(Consistency, a_signal_carries_what_was_written_before_it) {
  cluster c(MPI_COMM_WORLD, path());
  const int to = next();
  const int from = previous();
  for (int i = 0; i < 50; ++i) {
    c.insert(key_of(c, (rank() + 1 + i) % ranks(), rank()), std::to_string(i));  // at every owner in turn
    c.signal_notify(i, {&to, 1});
    c.signal_wait(i, {&from, 1});
    const auto found = c.find(key_of(c, (from + 1 + i) % ranks(), from));
    ASSERT_TRUE(found.has_value());
    ASSERT_GE(std::stoi(*found), i);
  }
  c.close();
}

TEST_F(Consistency, signals_are_counted_by_number_and_rank) {
  cluster c(MPI_COMM_WORLD, path());
  std::vector<int> all;
  for (int r = 0; r < ranks(); ++r) all.push_back(r);
  c.signal_notify(1, all);  // itself too
  c.signal_notify(2, all);
  c.signal_notify(1, all);
  c.signal_wait(1, all);
  c.signal_wait(1, all);
  c.signal_wait(2, all);
  const int nobody = ranks();
  EXPECT_EQ(error_of([&] { c.signal_notify(1, {&nobody, 1}); }).code, errc::invalid_argument);
  EXPECT_EQ(error_of([&] { c.signal_wait(1, {&nobody, 1}); }).code, errc::invalid_argument);
  c.barrier();
  c.close();
}

TEST_F(Consistency, changes_at_run_time_both_ways) {
  cluster c(MPI_COMM_WORLD, path(), small_buffers(consistency::sequential));
  for (int i = 0; i < 6; ++i) {
    const auto mode = i % 2 == 0 ? consistency::relaxed : consistency::sequential;
    c.consistency(mode);
    EXPECT_EQ(c.consistency(), mode);
    for (int k = 0; k < 200; ++k) c.insert("k" + std::to_string(k * ranks() + rank()), std::to_string(i));
    c.barrier();
    for (int k = 0; k < 200 * ranks(); k += 13) ASSERT_EQ(c.find("k" + std::to_string(k)), std::to_string(i));
    c.barrier();
  }
  if (ranks() > 1) {
    const auto different = rank() == 0 ? consistency::relaxed : consistency::sequential;
    EXPECT_EQ(error_of([&] { c.consistency(different); }).code, errc::invalid_argument);
    EXPECT_EQ(error_of([&] { c.barrier(rank() == 0 ? barrier_level::memory : barrier_level::storage); }).code,
              errc::invalid_argument);
  }
  c.close();
}

TEST_F(Consistency, a_storage_barrier_makes_durable_what_slower_ranks_wrote_before_it) {
  cluster_options o;
  o.store.durability = durability::tag;
  o.store.emulate_durability = true;
  cluster c(MPI_COMM_WORLD, path(), o);
  if (rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  c.insert(key_of(c, next(), rank()), "durable");
  const version open = c.clock();
  c.barrier(barrier_level::storage);
  EXPECT_EQ(c.clock(), open + 1) << "the same on all ranks, and what was open is closed";
  EXPECT_EQ(c.local().clock(), open + 1);
  EXPECT_EQ(c.local().find(key_of(c, rank(), previous()), open), "durable");
  EXPECT_EQ(c.at(open).size(), static_cast<std::uint64_t>(ranks()));
  c.close();
}

/// No file of this process can grow beyond so many bytes while this lives.
class files_limited {
 public:
  explicit files_limited(rlim_t bytes) : handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~files_limited() {
    setrlimit(RLIMIT_FSIZE, &before_);
    static_cast<void>(signal(SIGXFSZ, handler_));
  }
  files_limited(const files_limited&) = delete;
  files_limited& operator=(const files_limited&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST_F(Consistency, a_staged_write_that_its_owner_refuses_surfaces_and_names_the_owner) {
  if (ranks() == 1) GTEST_SKIP() << "one rank has no other";
  cluster_options o;
  o.group_size = 1;  // within a group nothing is staged
  cluster c(MPI_COMM_WORLD, path(), o);
  std::optional<files_limited> full;
  if (rank() == 0) full.emplace(8'000'000);
  c.barrier();
  const int writer = ranks() - 1;
  if (rank() == writer) {
    for (int i = 0; i < 200; ++i) c.insert(key_of(c, 0, i), std::string(100'000, 'f'));
    const thrown reported = error_of([&] { c.fence(); });
    EXPECT_EQ(reported.code, errc::no_space);
    EXPECT_THAT(reported.message, HasSubstr("rank 0 refused"));
    c.fence();  // it is told once
    for (int i = 200; i < 300; ++i) c.insert(key_of(c, 0, i), std::string(100'000, 'f'));
  }
  const thrown reported = error_of([&] { c.barrier(); });
  EXPECT_EQ(reported.code, errc::no_space) << "on all ranks";
  EXPECT_THAT(reported.message, HasSubstr("rank " + std::to_string(writer) + ": rank 0 refused"));
  c.barrier();
  full.reset();
  if (rank() == writer) c.insert(key_of(c, 0, 1000), "room again");
  c.barrier();
  EXPECT_EQ(c.find(key_of(c, 0, 1000)), "room again");
  c.close();
}

TEST_F(Consistency, many_threads_of_every_rank_write_and_read_at_once) {
  if (!threads()) GTEST_SKIP() << "MPI allows one thread";
  cluster c(MPI_COMM_WORLD, path(), small_buffers());
  ASSERT_TRUE(c.has_progress_thread());
  constexpr int count = 300;
  std::vector<std::thread> clients;
  for (int t = 0; t < 3; ++t) {
    clients.emplace_back([&c, t] {
      const std::string mine = std::to_string(rank()) + "-" + std::to_string(t) + "-";
      for (int i = 0; i < count; ++i) {
        c.insert(mine + std::to_string(i), std::to_string(i));
        EXPECT_EQ(c.find(mine + std::to_string(i)), std::to_string(i));
        if (i % 100 == 0) c.fence();
      }
    });
  }
  for (std::thread& each : clients) each.join();
  const version v = c.tag();
  EXPECT_EQ(c.at(v).size(), static_cast<std::uint64_t>(3 * count * ranks()));
  c.close();
}

TEST_F(Consistency, many_threads_work_without_a_progress_thread_too) {
  if (!threads()) GTEST_SKIP() << "MPI allows one thread";
  cluster_options o = small_buffers(consistency::sequential);
  o.progress_thread = false;
  cluster c(MPI_COMM_WORLD, path(), o);
  EXPECT_FALSE(c.has_progress_thread());
  std::vector<std::thread> clients;
  for (int t = 0; t < 2; ++t) {
    clients.emplace_back([&c, t] {
      for (int i = 0; i < 50; ++i) c.insert(std::to_string(rank()) + "-" + std::to_string(100 * t + i), "x");
    });
  }
  for (std::thread& each : clients) each.join();
  const version v = c.tag();
  EXPECT_EQ(c.at(v).size(), static_cast<std::uint64_t>(100 * ranks()));
  c.barrier();  // until here all ranks answer
  c.close();
}

TEST_F(Consistency, a_rank_outside_the_cluster_s_calls_answers_and_leaves_its_core) {
  if (!threads()) GTEST_SKIP() << "MPI allows one thread";
  cluster c(MPI_COMM_WORLD, path());
  c.insert(key_of(c, rank()), "mine");
  c.barrier();
  if (rank() == 0) {
    for (int r = 0; r < ranks(); ++r) EXPECT_EQ(c.find(key_of(c, r)), "mine");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const std::clock_t before = std::clock();  // of all threads
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const double busy = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  EXPECT_LT(busy, 0.3) << "of one second of idleness";
  MPI_Barrier(MPI_COMM_WORLD);
  c.close();
}

}  // namespace
}  // namespace icecore::testing
