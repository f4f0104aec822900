// Growth in the background: the file has room before writers need it, and the thread lives as long as the open store.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "icecore/icecore.hpp"
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
    options made = GetParam().options_at(path());
    made.grow_in_background = true;
    return made;
  }

 private:
  scratch folder_{GetParam().where};
};

TEST_P(Growth, makes_room_before_anything_is_written_and_again_when_half_of_it_is_used) {
  store s(path(), opening());
  const auto room = [&] {
    const statistics now = s.stats();
    return now.file_bytes - now.used_bytes;
  };
  constexpr std::uint64_t enough = std::uint64_t{1} << 20;
  ASSERT_TRUE(becomes([&] { return room() >= enough; }));
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

TEST_P(Growth, ends_when_the_store_is_closed_and_leaves_no_room_in_the_file) {
  std::thread([] {}).join();  // with the first thread of a process, a thread sanitizer starts one of its own
  const std::size_t before = threads_of_this_process();
  for (int life = 0; life < 3; ++life) {
    store s(path(), opening());
    EXPECT_EQ(threads_of_this_process(), before + 1);
    s.insert("key", "value");
    if (life == 1) s.close();
    if (life != 1) s = store(path().string() + std::to_string(life), {});  // ends the first one
    EXPECT_TRUE(becomes([&] { return threads_of_this_process() == before; }));
    constexpr std::uint64_t of_one_segment = std::uint64_t{128} << 10;
    EXPECT_LE(std::filesystem::file_size(path()), of_one_segment + (std::uint64_t{8} << 20)) << "not cut";
  }
  options reading;
  reading.access = access::read_only;
  reading.grow_in_background = true;
  const store s(path(), reading);
  EXPECT_EQ(threads_of_this_process(), before);
}

TEST_P(Growth, in_a_forked_child_is_not_waited_for) {
  store s(path(), opening());
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
