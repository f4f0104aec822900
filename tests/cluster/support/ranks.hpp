// Tests that every rank of an MPI job runs: a failure on any rank fails the test on all.
//
//   using Things = icecore::testing::ClusterTest;
//   TEST_F(Things, hold) { cluster c(MPI_COMM_WORLD, path()); ... }
//
// Rank 0 prints what GoogleTest prints; other ranks print their failures, with their number in front.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <filesystem>
#include <functional>
#include <string>

#include "icecore/cluster.hpp"

namespace icecore::testing {

[[nodiscard]] int rank();
[[nodiscard]] int ranks();

class ClusterTest : public ::testing::Test {
 protected:
  /// A folder in memory that all ranks share, empty at first, gone after the test.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  void SetUp() override;
  void TearDown() override;

 private:
  std::filesystem::path path_;
};

/// A key that belongs to `owner`; each `number` gives another one.
[[nodiscard]] std::string key_of(const cluster& c, int owner, int number = 0);

/// Options with small buffers, so that little data exercises much.
[[nodiscard]] cluster_options small_buffers(consistency mode = consistency::relaxed);

/// The code of the error that `work` throws, and its message to look at.
struct thrown {
  errc code{};
  std::string message;
};
[[nodiscard]] thrown error_of(const std::function<void()>& work);

/// A broadcast of rank 0's number.
[[nodiscard]] std::uint64_t of_rank_0(std::uint64_t number);

/// Whether this is to run longer.
#ifdef ICECORE_LONG_TESTS
inline constexpr bool long_tests = true;
#else
inline constexpr bool long_tests = false;
#endif

}  // namespace icecore::testing
