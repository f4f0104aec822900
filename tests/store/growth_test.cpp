// Growth in the background: a large file has room before writers need it, and the thread lives as long as the store is
// open.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/memory/sanitizer.hpp"
#include "icecore/icecore.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

std::size_t threads_of_this_process() {
  std::size_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) count += task.exists() ? 1 : 0;
  return count;
}

/// Whether it becomes true; that may take long on a busy machine.
template <class Condition>
bool becomes(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

class Growth : public ::testing::TestWithParam<setting> {
 protected:
  [[nodiscard]] std::filesystem::path path() const { return folder_ / "store.ice"; }
  [[nodiscard]] options opening() const {
    options how = GetParam().options_at(path());
    how.publish_settled = false;  // which has a thread of its own
    return how;
  }

 private:
  scratch folder_{GetParam().where};
};

constexpr std::uint64_t begins_at = std::uint64_t{8} << 20;

/// So much that the thread begins; in values that another test's file does not compress or share.
void fill(store& s) {
  for (int i = 0; s.stats().file_bytes < begins_at; ++i)
    s.insert("fill " + std::to_string(i), std::string(100'000, 'f'));
  s.insert("fill", std::string(200'000, 'f'));  // a further segment: that is when growth is looked at
}

TEST_P(Growth, makes_room_again_when_half_of_it_is_used) {
  store s(path(), opening());
  fill(s);
  const auto room = [&] {
    const statistics now = s.stats();
    return now.file_bytes - now.used_bytes;
  };
  constexpr std::uint64_t enough = std::uint64_t{1} << 20;
  for (int i = 0; i < 60; ++i) {
    s.insert("key " + std::to_string(i), std::string(100'000, 'v'));
    ASSERT_TRUE(becomes([&] { return room() >= enough; })) << i;
  }
  EXPECT_TRUE(s.verify().ok());
}

TEST_P(Growth, beside_writers_that_outrun_it_loses_nothing) {
  constexpr int writers = 3;
  constexpr int writes = 4'000;
  {
    store s(path(), opening());
    std::vector<std::jthread> all;
    for (int w = 0; w < writers; ++w) {
      all.emplace_back([&s, w] {
        for (int i = 0; i < writes; ++i)
          s.insert(std::to_string(w) + " " + std::to_string(i), std::string(static_cast<std::size_t>(i % 1500), 'v'));
      });
    }
    all.clear();
    s.close();
  }
  const store s(path(), GetParam().options_at(path()));
  EXPECT_EQ(s.stats().keys, static_cast<std::uint64_t>(writers) * writes);
  EXPECT_TRUE(s.verify().ok());
}

TEST_P(Growth, begins_when_the_file_is_large_and_ends_when_the_store_is_closed) {
  std::thread([] {}).join();  // with the first thread of a process, a thread sanitizer starts one of its own
  const std::size_t before = threads_of_this_process();
  for (int life = 0; life < 3; ++life) {
    const std::filesystem::path at = path().string() + std::to_string(life);
    options own = GetParam().options_at(at);
    own.publish_settled = false;
    store s(at, own);
    s.insert("key", "value");
    EXPECT_EQ(threads_of_this_process(), before) << "a thread for a small store";
    fill(s);
    EXPECT_EQ(threads_of_this_process(), before + 1);
    const std::uint64_t used = s.stats().used_bytes;
    if (life == 1) s.close();
    if (life != 1) {  // another store ends the first one
      options other;
      other.publish_settled = false;
      s = store(at.string() + " other", other);
    }
    EXPECT_TRUE(becomes([&] { return threads_of_this_process() == before; }));
    EXPECT_LE(std::filesystem::file_size(at), used + (std::uint64_t{8} << 20)) << "not cut";
  }
  options reading;
  reading.access = access::read_only;
  const store s(path().string() + "0", reading);
  EXPECT_EQ(threads_of_this_process(), before);
}

TEST_P(Growth, has_no_thread_if_it_is_turned_off) {
  const std::size_t before = threads_of_this_process();
  options off = opening();
  off.grow_in_background = false;
  store s(path(), off);
  fill(s);
  EXPECT_EQ(threads_of_this_process(), before);
}

TEST_P(Growth, in_a_forked_child_is_not_waited_for) {
  store s(path(), opening());
  fill(s);
  s.insert("key", "value");
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    try {
      s.insert("key", "child's");
      _exit(1);
    } catch (const error& refused) {
      if (refused.code() != errc::forked) _exit(2);
    }
    { [[maybe_unused]] const store ends = std::move(s); }
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  s.insert("key", "parent's");
  EXPECT_EQ(s.find("key"), "parent's");
}

#if !defined(ICECORE_UNDER_THREAD_SANITIZER) && !defined(ICECORE_UNDER_ADDRESS_SANITIZER)  // they take terabytes
/// Whether every other thread of this process sleeps.
bool others_sleep() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(gettid())) continue;
    std::ifstream stat(task.path() / "stat");
    std::string line;
    std::getline(stat, line);
    const std::size_t name_end = line.rfind(')');  // then a space and the state
    if (name_end != std::string::npos && line.size() > name_end + 2 && line[name_end + 2] != 'S') return false;
  }
  return true;
}

TEST_P(Growth, rests_where_the_store_has_no_more_addresses) {
  child limited([&] {
    constexpr rlim_t some = (rlim_t{4} * 67 << 20) + 123'456;  // a quarter is no number of huge pages
    rlim_t pages = 0;                                          // of this process, whatever ran in it before
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t most = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + some;
    const rlimit limit{most, most};
    if (setrlimit(RLIMIT_AS, &limit) != 0) return 1;
    store s(path(), opening());
    try {
      for (int i = 0; i < 1'000'000; ++i) s.insert("fill " + std::to_string(i), std::string(100'000, 'f'));
      return 2;
    } catch (const error& full) {
      if (full.code() != errc::no_space) return 3;
    }
    return becomes(others_sleep) ? 0 : 4;
  });
  EXPECT_EQ(limited.wait(std::chrono::seconds(100)), 0);
}
#endif

INSTANTIATE_TEST_SUITE_P(All, Growth, ::testing::ValuesIn([] {
                           std::vector<setting> all = {{place::tmpfs, durability::none},
                                                       {place::tmpfs, durability::operation, index_kind::persistent},
                                                       {place::tmpfs, durability::none, index_kind::btree, 2}};
                           if (root_of(place::disk)) all.push_back({place::disk, durability::tag});
                           return all;
                         }()),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace icecore::testing
