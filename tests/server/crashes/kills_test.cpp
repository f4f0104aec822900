// Servers that are killed while clients write, read, tag and watch, and while databases, users and snapshots are made:
// what was answered or shown is there afterwards.
//
// A child process serves and writes into memory that it shares with this process what it has begun and what was
// answered (load.hpp). It is killed at a random moment; then the folder is opened again and compared. Rounds go on with
// the same folder. $ICECORE_SERVER_KILLS: how many (100 if it is not set); $ICECORE_SERVER_SECONDS: for how long
// instead; $ICECORE_SERVER_SEED (7).
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <optional>
#include <random>
#include <thread>

#include "crashes/effort.hpp"
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
    if (child == 0) serve(folder_->path(), *page_);
    for (int i = 0; i < 10'000 && !came(); ++i) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(later);
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself: " << WEXITSTATUS(status);
  }
  void compare_with_page() {
    service s({.data = *folder_ / "data", .threads = 4});
    for (const std::string& wrong : compare(*page_, s, after::kill)) ADD_FAILURE() << wrong;
    if (!HasFailure()) go_on_from(*page_, s);
    s.stop();
  }

  void begin_folder() {
    folder_.emplace(place::disk);
    make_databases(folder_->path());
    new (page_) progress_page;
  }
  void end_folder() {
    for (unsigned d = 0; d < database_count; ++d) {
      writes_[d] += page_->databases[d].answered[0];
      tags_[d] += page_->databases[d].tags_answered;
    }
    made_ += page_->made.answered;
    users_ += page_->users.answered;
    snapshots_ += page_->snapshots_answered;
  }

  std::optional<scratch> folder_;
  progress_page* page_ = nullptr;
  // what was answered, in all folders
  unsigned long long writes_[database_count] = {};
  unsigned long long tags_[database_count] = {};
  unsigned long long made_ = 0;
  unsigned long long users_ = 0;
  unsigned long long snapshots_ = 0;
};

}  // namespace

TEST_F(KilledServers, keep_what_was_answered_or_shown) {
  const effort asked("ICECORE_SERVER_KILLS", 100);
  std::mt19937_64 random(asked_seed(7));
  std::uint64_t kills = 0;
  for (; asked.wants(kills) && !HasFailure(); ++kills) {
    if (kills % kills_of_a_folder == 0) {
      if (kills > 0) end_folder();
      begin_folder();
    }
    SCOPED_TRACE("kill " + std::to_string(kills + 1));
    kill_one(std::chrono::microseconds(random() % 30'000), kills % 10 == 9  ? moment::made
                                                           : kills % 5 == 4 ? moment::start
                                                                            : moment::answers);
    if (!HasFailure()) compare_with_page();
    if (kills % 50 != 49) continue;
    for (const std::string& wrong : compare_snapshots(*page_, folder_->path())) ADD_FAILURE() << wrong;
  }
  end_folder();
  for (unsigned d = 0; d < database_count; ++d) {
    EXPECT_GT(writes_[d], 0U) << "nothing was written: the kills came too early";
    EXPECT_GT(tags_[d], 0U);
    std::printf("%s: %llu writes answered, %llu tags\n", settings_of(d).name.c_str(), writes_[d], tags_[d]);
  }
  std::printf("%llu kills; %llu databases made, %llu users, %llu snapshots\n", static_cast<unsigned long long>(kills),
              made_, users_, snapshots_);
}

}  // namespace icecore::service::crashes
