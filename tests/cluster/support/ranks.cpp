#include "support/ranks.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace icecore::testing {

int rank() {
  int number = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &number);
  return number;
}

int ranks() {
  int count = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &count);
  return count;
}

void ClusterTest::SetUp() {
  char name[64] = "/dev/shm/icecore-cluster-XXXXXX";
  if (rank() == 0 && mkdtemp(name) == nullptr) std::abort();
  MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
  path_ = std::filesystem::path(name) / "store";
}

void ClusterTest::TearDown() {
  int failed = HasFailure() ? 1 : 0;
  int failed_ranks = 0;
  MPI_Allreduce(&failed, &failed_ranks, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (failed_ranks > 0 && failed == 0) ADD_FAILURE() << failed_ranks << " other ranks failed, see above";
  if (rank() == 0) std::filesystem::remove_all(path_.parent_path());
  MPI_Barrier(MPI_COMM_WORLD);
}

std::string key_of(const cluster& c, int owner, int number) {
  for (int tried = 0;; ++tried) {
    std::string key = "key-" + std::to_string(number) + "-" + std::to_string(tried);
    if (c.owner_of(key) == owner) return key;
  }
}

cluster_options small_buffers(consistency mode) {
  cluster_options o;
  o.consistency = mode;
  o.staging_bytes = 2048;
  return o;
}

thrown error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const error& e) {
    return {static_cast<errc>(e.code().value()), e.message()};
  }
  return {errc{0}, "nothing was thrown"};
}

std::uint64_t of_rank_0(std::uint64_t number) {
  MPI_Bcast(&number, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  return number;
}

namespace {

/// Prints failures at once, whole lines, with the rank in front.
class failure_printer : public ::testing::EmptyTestEventListener {
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    const std::string text = "[rank " + std::to_string(rank()) + "] " +
                             (result.file_name() != nullptr ? result.file_name() : "?") + ":" +
                             std::to_string(result.line_number()) + ": " + result.message() + "\n";
    std::fputs(text.c_str(), stderr);
  }
};

}  // namespace
}  // namespace icecore::testing

int main(int argc, char** argv) {
  // one thread of MPI if the test program was told so, as programs that know of none
  const char* single = std::getenv("ICECORE_TEST_SINGLE");
  int level = MPI_THREAD_SINGLE;
  if (single != nullptr) {
    MPI_Init(&argc, &argv);
  } else {
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    if (level != MPI_THREAD_MULTIPLE) {
      std::fputs("this MPI gives no MPI_THREAD_MULTIPLE\n", stderr);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
  ::testing::InitGoogleTest(&argc, argv);
  if (icecore::testing::rank() != 0) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new icecore::testing::failure_printer);  // GoogleTest deletes it
  }
  const int result = RUN_ALL_TESTS();
  MPI_Finalize();
  return result;
}
