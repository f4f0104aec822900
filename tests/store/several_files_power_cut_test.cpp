// What a power cut may leave of a store of several files: each file as it was at its last sync, with any of the sectors
// that changed since, at its old or its new length, and without its name until its folder was synced. Checked at every
// sync of a run: creating, sessions, growth, closing.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <random>
#include <string>

#include "icecore/icecore.hpp"
#include "support/boot.hpp"
#include "support/crew.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/scratch.hpp"
#include "support/seed.hpp"

namespace icecore::testing {
namespace {

namespace fs = std::filesystem;

struct file_state {
  std::string durable;  ///< content at its last sync
  std::string working;
  bool named = false;  ///< durably
};
using folder_state = std::map<fs::path, file_state>;

/// Records the state of a folder at each sync while it lives. One at a time.
class recorder {
 public:
  explicit recorder(fs::path folder) : folder_(std::move(folder)) {
    look();
    for (auto& [path, state] : now_) state = {state.working, state.working, true};
    active = this;
  }
  ~recorder() { stop(); }
  recorder(const recorder&) = delete;
  recorder& operator=(const recorder&) = delete;

  static void stop() noexcept { active = nullptr; }

  /// The moments just before each sync, each with the value that `told` had then.
  struct moment {
    folder_state left;
    int reported;
  };
  std::vector<moment> moments;
  int reported = 0;

  void before_sync() {
    look();
    moments.push_back({now_, reported});
  }
  void after_sync(const fs::path& of) {
    look();
    if (of == folder_) {
      for (auto& [path, state] : now_) state.named = true;
    } else if (const auto found = now_.find(of); found != now_.end()) {
      found->second.durable = found->second.working;
    }
  }

  static recorder* active;

 private:
  void look() {
    for (auto& [path, state] : now_) state.working.clear();
    for (const auto& entry : fs::directory_iterator(folder_)) now_[entry.path()].working = read_file(entry.path());
  }

  fs::path folder_;
  folder_state now_;
};
recorder* recorder::active = nullptr;

template <class Call>
int recorded(int descriptor, const Call& call) {
  if (recorder::active == nullptr) return call();
  recorder::active->before_sync();
  const int result = call();
  std::error_code failed;
  recorder::active->after_sync(fs::read_symlink("/proc/self/fd/" + std::to_string(descriptor), failed));
  return result;
}

/// A random one of the states in which a power cut may leave a file.
std::string cut(const file_state& file, std::mt19937_64& random) {
  constexpr std::size_t sector = 512;
  const auto new_in_eight = static_cast<unsigned>(random() % 9);
  std::string image = random() % 2 == 0 ? file.durable : file.working;
  for (std::size_t at = 0; at < image.size(); at += sector) {
    const std::string& from = random() % 8 < new_in_eight ? file.working : file.durable;
    const std::size_t size = std::min(sector, image.size() - at);
    const std::size_t there = at < from.size() ? std::min(size, from.size() - at) : 0;
    image.replace(at, there, from, at < from.size() ? at : 0, there);
    image.replace(at + there, size - there, size - there, '\0');
  }
  change_boot(image);
  return image;
}

}  // namespace
}  // namespace icecore::testing

extern "C" {
int fdatasync(int descriptor) {
  return icecore::testing::recorded(descriptor, [&] { return static_cast<int>(syscall(SYS_fdatasync, descriptor)); });
}
int fsync(int descriptor) {
  return icecore::testing::recorded(descriptor, [&] { return static_cast<int>(syscall(SYS_fsync, descriptor)); });
}
}

namespace icecore::testing {
namespace {

class SeveralFilesPowerCut : public ::testing::TestWithParam<unsigned> {
 protected:
  /// On a memory file system, where every sync is called and is fast.
  [[nodiscard]] static options plain() {
    return setting{.where = place::tmpfs, .durability = durability::tag}.options();
  }
  [[nodiscard]] options making(const fs::path& folder) const {
    options o = plain();
    for (unsigned n = 1; n < GetParam(); ++n) o.placements.push_back({folder / ("further-" + std::to_string(n)), -1});
    return o;
  }
  [[nodiscard]] static fs::path first(const fs::path& folder) { return folder / "first.ice"; }

  /// Writes a key to each file, in a version of its own. It is durable when this returns.
  void write(store& s, crew& threads, int round) const {
    for (unsigned n = 0; n < GetParam(); ++n) {
      threads.run(n, [&] { s.insert("round " + std::to_string(round) + " " + std::to_string(n), value(round)); });
    }
    s.tag();
    if (recorder::active != nullptr) recorder::active->reported = round;
  }
  [[nodiscard]] static std::string value(int round) {
    return std::string(round % 3 == 2 ? 700'000 : 100, static_cast<char>('a' + round));
  }

  void expect_all_left(const recorder& run, bool may_be_made, int images) const {
    std::mt19937_64 random(test_seed());
    for (std::size_t i = 0; i < run.moments.size(); ++i) {
      for (int image = 0; image < images; ++image) {
        SCOPED_TRACE("sync " + std::to_string(i) + " of " + std::to_string(run.moments.size()) + ", image " +
                     std::to_string(image));
        const scratch elsewhere;
        const bool killed = image == 0;  // everything written is there
        for (const auto& [path, state] : run.moments[i].left) {
          if (!killed && !state.named && random() % 2 == 0) continue;
          write_file(elsewhere.path() / path.filename(), killed ? state.working : cut(state, random));
        }
        options opening = may_be_made ? making(elsewhere.path()) : plain();
        opening.accept_copy = true;
        for (int again = 0; again < 2; ++again) {
          store s(first(elsewhere.path()), opening);
          if (image == 0) {
            EXPECT_EQ(s.stats().files.size(), GetParam());  // it reads everything that the process maps
          }
          for (int round = 0; round <= run.moments[i].reported; ++round) {
            for (unsigned n = 0; n < GetParam(); ++n) {
              const std::string key = "round " + std::to_string(round) + " " + std::to_string(n);
              if (round == 0 && may_be_made) continue;  // that round did not happen
              EXPECT_EQ(s.find(key), value(round)) << key;
            }
          }
          EXPECT_TRUE(s.verify().ok());
          s.insert("after", "the cut");
          s.close();
        }
        if (HasFailure()) return;
      }
    }
  }

  scratch folder_;
};

TEST_P(SeveralFilesPowerCut, while_they_are_made_leaves_none_or_all) {
  recorder run(folder_.path());
  {
    crew threads(GetParam());
    store s(first(folder_.path()), making(folder_.path()));
    write(s, threads, 1);
    s.close();
  }
  recorder::stop();
  EXPECT_GT(run.moments.size(), 10U);
  expect_all_left(run, true, 8);
}

TEST_P(SeveralFilesPowerCut, in_a_session_leaves_all_that_was_durable) {
  crew threads(GetParam());
  {
    store s(first(folder_.path()), making(folder_.path()));
    write(s, threads, 0);
    s.close();
  }
  recorder run(folder_.path());
  for (int session = 0; session < 2; ++session) {
    store s(first(folder_.path()), plain());
    for (int round = 1; round < 4; ++round) write(s, threads, 3 * session + round);
    s.close();
  }
  recorder::stop();
  EXPECT_GT(run.moments.size(), 30U);
  expect_all_left(run, false, 3);
}

// What a power cut at the beginning of a session left is opened, and that opening is cut off too.
TEST_P(SeveralFilesPowerCut, twice_while_a_session_begins_leaves_all_that_was_durable) {
  {
    crew threads(GetParam());
    store s(first(folder_.path()), making(folder_.path()));
    write(s, threads, 0);
    s.close();
  }
  recorder run(folder_.path());
  const store s(first(folder_.path()), plain());
  recorder::stop();
  for (const auto& moment : run.moments) {
    const scratch elsewhere;
    for (const auto& [path, state] : moment.left) write_file(elsewhere.path() / path.filename(), state.working);
    options opening = plain();
    opening.accept_copy = true;
    recorder again(elsewhere.path());
    { const store recovered(first(elsewhere.path()), opening); }
    recorder::stop();
    expect_all_left(again, false, 1);
    if (HasFailure()) return;
  }
}

// The remains of a creation are not a store yet, and belong to none: another store may be made of them, with one file
// or others.
TEST_P(SeveralFilesPowerCut, what_is_left_of_a_creation_can_become_another_store) {
  recorder run(folder_.path());
  { const store s(first(folder_.path()), making(folder_.path())); }
  recorder::stop();
  bool seen_unfinished = false;
  for (const auto& moment : run.moments) {
    const scratch elsewhere;
    for (const auto& [path, state] : moment.left) {
      if (!state.working.empty()) write_file(elsewhere.path() / path.filename(), state.working);
    }
    options existing = plain();
    existing.creation = creation::open_existing;
    existing.accept_copy = true;
    bool is_store = true;
    try {
      const store s(first(elsewhere.path()), existing);
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::no_such_store) << e.message();
      seen_unfinished = seen_unfinished || e.message().find("was cut off") != std::string::npos;
      is_store = false;
    }
    if (is_store) continue;
    if (fs::exists(first(elsewhere.path()))) {  // a reader reports it as an empty file
      expect_error(errc::not_a_store, "", [&] { (void)verify_file(first(elsewhere.path())); });
    }
    store other(first(elsewhere.path()), plain());
    other.insert("a", "1");
    EXPECT_EQ(other.stats().files.size(), 1U);
    other.close();
    EXPECT_EQ(store(first(elsewhere.path()), plain()).find("a"), "1");
  }
  EXPECT_TRUE(seen_unfinished);
}

INSTANTIATE_TEST_SUITE_P(Files, SeveralFilesPowerCut, ::testing::Values(2U, 3U),
                         [](const auto& one) { return std::to_string(one.param) + "_files"; });

}  // namespace
}  // namespace icecore::testing
