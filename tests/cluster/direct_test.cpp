// Ranks of one storage group on one node: each reads and writes the stores of the others in memory.
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "support/ranks.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

class Direct : public ClusterTest {
 protected:
  [[nodiscard]] static cluster_options in_groups_of(int size) {
    cluster_options o = small_buffers();
    o.group_size = size;
    return o;
  }
};

TEST_F(Direct, ranks_of_a_group_are_reached_directly_and_no_others) {
  for (const int size : {1, 2, 3, 100}) {
    const cluster c(MPI_COMM_WORLD, path(), in_groups_of(size));
    for (int r = 0; r < ranks(); ++r) EXPECT_EQ(c.reaches_directly(r), r == rank() || r / size == rank() / size) << r;
  }
  cluster c(MPI_COMM_WORLD, path(), in_groups_of(2));
  EXPECT_EQ(error_of([&] { static_cast<void>(c.reaches_directly(ranks())); }).code, errc::invalid_argument);
}

TEST_F(Direct, what_ranks_share_has_no_name_any_more_once_the_cluster_is_open) {
  const cluster c(MPI_COMM_WORLD, path(), in_groups_of(ranks()));
  // what this process has mapped: other jobs of the machine have files of such names too
  const std::string folder = "/dev/shm/icecore-";
  const std::size_t id_size = 32;
  std::ifstream maps("/proc/self/maps");
  std::size_t shared = 0;
  for (std::string line; std::getline(maps, line);) {
    const std::size_t at = line.find(folder);
    if (at == std::string::npos) continue;
    const std::string name = line.substr(at + folder.size());
    if (name.find('/') != std::string::npos) continue;  // a pool
    ++shared;
    EXPECT_EQ(name.substr(std::min(id_size, name.size())), " (deleted)") << line;
  }
  EXPECT_EQ(shared > 0, ranks() > 1);
}

TEST_F(Direct, a_relaxed_write_is_seen_at_once_without_a_fence) {
  cluster c(MPI_COMM_WORLD, path(), in_groups_of(ranks()));
  for (int owner = 0; owner < ranks(); ++owner) {
    const std::string key = key_of(c, owner, 10 * rank());
    c.insert(key, "value " + std::to_string(rank()));
  }
  MPI_Barrier(MPI_COMM_WORLD);  // not the cluster's
  for (int writer = 0; writer < ranks(); ++writer) {
    for (int owner = 0; owner < ranks(); ++owner) {
      EXPECT_EQ(c.find(key_of(c, owner, 10 * writer)), "value " + std::to_string(writer));
    }
  }
  c.barrier();
}

// Rank 0 neither calls the cluster nor has a thread for it.
TEST_F(Direct, an_owner_takes_no_part) {
  cluster_options o = in_groups_of(ranks());
  o.progress_thread = false;
  cluster c(MPI_COMM_WORLD, path(), o);
  const std::string shared = key_of(c, 0, 1);
  if (rank() == 0) {
    c.insert(shared, "0");
    std::this_thread::sleep_for(50ms);
  } else {
    const std::string own = key_of(c, 0, 1000 + rank());
    c.insert(own, "mine");
    EXPECT_EQ(c.find(own), "mine");
    c.remove(own);
    EXPECT_EQ(c.find(own), std::nullopt);
    batch some;
    some.insert(own, "batched");
    some.insert(own + "/more", "maybe elsewhere");
    if (c.owner_of(own + "/more") == 0) c.apply(some);
    EXPECT_EQ(c.history(own).size(), c.owner_of(own + "/more") == 0 ? 3U : 2U);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(c.find(shared), "0");
}

TEST_F(Direct, versions_are_the_same_cut_whoever_wrote) {
  cluster c(MPI_COMM_WORLD, path(), in_groups_of(ranks()));
  constexpr int rounds = 20;
  const std::string key = key_of(c, 0, 7);
  std::vector<version> closed;
  for (int round = 0; round < rounds; ++round) {
    if (round % ranks() == rank()) c.insert(key, std::to_string(round));
    closed.push_back(c.tag());
  }
  for (int round = 0; round < rounds; ++round) {
    const auto at = closed[static_cast<std::size_t>(round)];
    EXPECT_EQ(c.find(key, at), std::to_string(round));
    EXPECT_EQ(c.at(at).size(), 1U);
  }
  EXPECT_TRUE(c.local().verify().ok());
}

TEST_F(Direct, many_versions_of_one_key_by_all_ranks_keep_their_order_and_come_back) {
  constexpr int each = 500;
  version last = 0;
  {
    cluster c(MPI_COMM_WORLD, path(), in_groups_of(ranks()));
    for (int i = 0; i < each; ++i) c.insert("of all", std::to_string(rank()) + ":" + std::to_string(i));
    c.barrier();
    EXPECT_EQ(c.history("of all").size(), static_cast<std::size_t>(each * ranks()));
    last = c.tag();
    c.close();
  }
  cluster again(MPI_COMM_WORLD, path(), in_groups_of(1));
  const auto past = again.history("of all");
  ASSERT_EQ(past.size(), static_cast<std::size_t>(each * ranks()));
  std::vector<int> next(static_cast<std::size_t>(ranks()), each - 1);
  for (const auto& record : past) {  // newest first
    EXPECT_LE(record.version, last);
    const int who = std::stoi(*record.value);
    EXPECT_EQ(std::stoi(record.value->substr(record.value->find(':') + 1)), next[static_cast<std::size_t>(who)]--);
  }
}

TEST_F(Direct, a_cluster_shares_its_stores_itself) {
  cluster_options o;
  o.store.shared_as = "/dev/shm/mine";
  EXPECT_EQ(error_of([&] { const cluster c(MPI_COMM_WORLD, path(), o); }).code, errc::invalid_argument);
}

}  // namespace
}  // namespace icecore::testing
