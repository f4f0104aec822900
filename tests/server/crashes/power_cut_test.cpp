// Servers whose machine loses its power: what was answered or shown is there afterwards, as each database promises.
//
// A child process serves (load.hpp) on a disk whose syncs are recorded (recorder.hpp). At random moments it is stopped;
// some of the states in which a power cut may leave its folder are opened, and compared with what clients knew then.
// After a few moments the child is killed, and the next one begins with one of these states: so recoveries are cut,
// too. $ICECORE_SERVER_IMAGES: how many images (40 if it is not set); $ICECORE_SERVER_SECONDS: for how long instead;
// $ICECORE_SERVER_SEED (1).
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <random>

#include "crashes/effort.hpp"
#include "crashes/load.hpp"
#include "crashes/recorder.hpp"
#include "icecore/error.hpp"
#include "support/scratch.hpp"

namespace icecore::service::crashes {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using icecore::testing::place;
using icecore::testing::scratch;

constexpr int moments_of_life = 4;
constexpr int images_of_moment = 6;
constexpr unsigned lives_of_folder = 8;
constexpr unsigned pause_us = 1000;

// Pages that processes share.
class shared_page {
 public:
  shared_page()
      : memory_(::mmap(nullptr, sizeof(progress_page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    new (memory_) progress_page;
  }
  ~shared_page() { ::munmap(memory_, sizeof(progress_page)); }
  shared_page(const shared_page&) = delete;
  shared_page& operator=(const shared_page&) = delete;
  progress_page& operator*() const noexcept { return *static_cast<progress_page*>(memory_); }
  progress_page* operator->() const noexcept { return static_cast<progress_page*>(memory_); }

 private:
  void* memory_;
};

class PowerCuts : public ::testing::Test {
 protected:
  // Runs until as many images were compared as are asked for, or something is wrong.
  void run(const effort& asked, std::uint64_t seed, recorder::device kind) {
    std::mt19937_64 random(seed);
    fs::path folder;
    for (unsigned life = 0; asked.wants(compared_) && wrong_.empty(); ++life) {
      if (life % lives_of_folder == 0) {  // small files are copied fast
        if (!folder.empty()) fs::remove_all(folder);
        folder = scratch_ / "new";
        fs::create_directory(folder);
        make_databases(folder);
        new (&*page_) progress_page;
        page_->pause_us = pause_us;
      }
      const fs::path next = scratch_ / std::to_string(life);
      const std::uint64_t made_before = page_->made.answered;
      const std::uint64_t users_before = page_->users.answered;
      const std::uint64_t snapshots_before = page_->snapshots_answered;
      live(folder, next, random, kind);
      writes_ += page_->answers;
      made_ += page_->made.answered - made_before;
      users_ += page_->users.answered - users_before;
      snapshots_ += page_->snapshots_answered - snapshots_before;
      fs::remove_all(folder);
      folder = next;
    }
  }

  std::vector<std::string> wrong_;
  std::uint64_t compared_ = 0;
  std::uint64_t syncs_ = 0;
  std::uint64_t writes_ = 0;
  std::uint64_t made_ = 0;
  std::uint64_t users_ = 0;
  std::uint64_t snapshots_ = 0;
  shared_page page_;

 private:
  // One process; the last image of it stays as `next`.
  void live(const fs::path& folder, const fs::path& next, std::mt19937_64& random, recorder::device kind) {
    page_->answers = 0;
    recorder disk(folder, kind);
    const pid_t child = ::fork();
    if (child == 0) {
      disk.in_child();
      serve(folder, *page_);
    }
    try {
      // Of four processes one loses its power while it begins; others, and the first one, have made something before.
      const std::uint64_t made_before = page_->made.answered;
      for (bool begun = compared_ > 0 && random() % 4 == 0; !begun;
           begun = page_->made.answered > made_before + random() % 4) {
        disk.run(child, 5ms, false);
        disk.resume();
      }
      for (int moment = 0; moment < moments_of_life && wrong_.empty(); ++moment) {
        disk.run(child, std::chrono::microseconds(random() % 60'000), random() % 2 == 0);
        disk.look();
        for (int image = 0; image < images_of_moment && wrong_.empty(); ++image) {
          const bool last = moment + 1 == moments_of_life && image + 1 == images_of_moment;
          const fs::path at = last ? next : scratch_ / "image";
          disk.draw(at, random);
          look_at(at, last);
          if (!last && wrong_.empty()) fs::remove_all(at);
        }
        disk.resume();
      }
    } catch (const std::exception& e) {
      wrong_.emplace_back(e.what());
    }
    syncs_ += disk.syncs();
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    if (wrong_.empty()) go_on(next);
  }

  void look_at(const fs::path& image, bool last) {
    ++compared_;
    try {
      service s({.data = image / "data", .threads = 4});
      wrong_ = compare(*page_, s, after::power_cut);
      s.stop();
      if (wrong_.empty() && compared_ % 8 == 0) wrong_ = compare_snapshots(*page_, image);
    } catch (const icecore::error& e) {
      wrong_.push_back(std::string("the image does not open: ") + e.what());
    }
    if (const char* kept = std::getenv("ICECORE_SERVER_KEEP"); kept != nullptr && !wrong_.empty() && !last) {
      fs::copy(image, kept, fs::copy_options::recursive);
    }
  }

  void go_on(const fs::path& folder) {
    service s({.data = folder / "data", .threads = 4});
    go_on_from(*page_, s);
    s.stop();
  }

  scratch scratch_{place::disk};
};

}  // namespace

TEST_F(PowerCuts, leave_what_was_answered_or_shown) {
  const std::uint64_t seed = asked_seed(1);
  run(effort("ICECORE_SERVER_IMAGES", 40), seed, recorder::device::honest);
  for (const std::string& wrong : wrong_) ADD_FAILURE() << wrong << " (seed " << seed << ", image " << compared_ << ")";
  const auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
  std::printf("%llu images, %llu syncs; answered: %llu writes, %llu databases, %llu users, %llu snapshots\n",
              number(compared_), number(syncs_), number(writes_), number(made_), number(users_), number(snapshots_));
  EXPECT_GT(writes_, 0U);
  EXPECT_GT(made_, 0U);
}

// An answer before its sync is what a device makes of it that tells a sync is done when it has just begun.
TEST_F(PowerCuts, are_seen_to_take_what_a_device_that_lies_had_promised) {
  run(effort(400), 1, recorder::device::lies);
  ASSERT_FALSE(wrong_.empty()) << "none of " << compared_ << " images shows it";
  std::printf("after %llu images: %s\n", static_cast<unsigned long long>(compared_), wrong_[0].c_str());
}

}  // namespace icecore::service::crashes
