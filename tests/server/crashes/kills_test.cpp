// Servers that are killed while clients write, read, tag and watch, and while databases, users and snapshots are made:
// what was answered or shown is there afterwards.
//
// A child process serves and writes into memory that it shares with this process what it has begun and what was
// answered (load.hpp). It is killed at a random moment; then the folder is opened again and compared. Rounds go on with
// the same folder. $ICECORE_SERVER_KILLS: how many (100 if it is not set).
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <random>
#include <thread>

#include "crashes/load.hpp"
#include "support/scratch.hpp"

namespace icecore::service::crashes {
namespace {

using namespace std::chrono_literals;
using icecore::testing::place;
using icecore::testing::scratch;

class KilledServers : public ::testing::Test {
 protected:
  void SetUp() override {
    void* memory = ::mmap(nullptr, sizeof(progress_page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    page_ = new (memory) progress_page;
  }
  void TearDown() override { ::munmap(page_, sizeof(progress_page)); }

  enum class moment : std::uint8_t { start, answers, made };  // a process, first answers, a database

  void kill_one(std::chrono::microseconds later, moment since) {
    const std::uint64_t before[] = {page_->databases[0].answered[0], page_->databases[1].answered[0],
                                    page_->made.answered};
    const auto came = [&] {
      if (since == moment::made) return page_->made.answered > before[2];
      return since == moment::start ||
             (page_->databases[0].answered[0] > before[0] && page_->databases[1].answered[0] > before[1]);
    };
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) serve(folder_.path(), *page_);
    for (int i = 0; i < 10'000 && !came(); ++i) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(later);
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself: " << WEXITSTATUS(status);
  }
  void compare_with_page() {
    service s({.data = folder_ / "data", .threads = 4});
    for (const std::string& wrong : compare(*page_, s, after::kill)) ADD_FAILURE() << wrong;
    if (!HasFailure()) go_on_from(*page_, s);
    s.stop();
  }

  scratch folder_{place::disk};
  progress_page* page_ = nullptr;
};

}  // namespace

TEST_F(KilledServers, keep_what_was_answered_or_shown) {
  const char* wanted = std::getenv("ICECORE_SERVER_KILLS");
  const int kills = wanted != nullptr ? std::atoi(wanted) : 100;
  make_databases(folder_.path());
  std::mt19937 random(7);
  for (int i = 0; i < kills && !HasFailure(); ++i) {
    SCOPED_TRACE("kill " + std::to_string(i + 1));
    kill_one(std::chrono::microseconds(random() % 30'000), i % 10 == 9  ? moment::made
                                                           : i % 5 == 4 ? moment::start
                                                                        : moment::answers);
    if (!HasFailure()) compare_with_page();
    if (i % 50 != 49) continue;
    for (const std::string& wrong : compare_snapshots(*page_, folder_.path())) ADD_FAILURE() << wrong;
  }
  for (unsigned d = 0; d < database_count; ++d) {
    EXPECT_GT(page_->databases[d].answered[0], 0U) << "nothing was written: the kills came too early";
    EXPECT_GT(page_->databases[d].tags_answered, 0U);
    std::printf("%s: %llu writes answered, %llu tags\n", settings_of(d).name.c_str(),
                static_cast<unsigned long long>(page_->databases[d].answered[0]),
                static_cast<unsigned long long>(page_->databases[d].tags_answered));
  }
  std::printf("%llu databases made, %llu users, %llu snapshots\n",
              static_cast<unsigned long long>(page_->made.answered),
              static_cast<unsigned long long>(page_->users.answered),
              static_cast<unsigned long long>(page_->snapshots_answered));
}

}  // namespace icecore::service::crashes
