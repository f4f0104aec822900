#include "index/arena.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "base/memory/sanitizer.hpp"

namespace icecore::index {
namespace {

TEST(arena, hands_out_aligned_zeroed_memory_that_references_lead_to) {
  arena a({});
  for (const std::size_t size : {1U, 63U, 64U, 65U, 1088U, 100'000U, 5'000'000U}) {
    const arena_ref ref = a.allocate(size);
    std::byte* p = a.at(ref);
    EXPECT_NE(ref, 0U);
    EXPECT_EQ(a.ref_of(p), ref);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % arena::unit_bytes, 0U);
    EXPECT_TRUE(std::all_of(p, p + size, [](std::byte b) { return b == std::byte{0}; }));
    std::memset(p, 0xAB, size);
  }
}

TEST(arena, accounts_what_it_hands_out_in_units) {
  arena a({});
  const std::uint64_t before = a.used_bytes();
  (void)a.allocate(65);
  EXPECT_EQ(a.used_bytes(), before + 128);
}

TEST(arena, throws_bad_alloc_at_its_limit_and_stays_usable) {
  arena a({.huge_pages = false, .size_max_bytes = 100'000});
  EXPECT_THROW((void)a.allocate(100'001), std::bad_alloc);
  EXPECT_THROW((void)a.allocate(~std::uint64_t{0}), std::bad_alloc);
  std::uint64_t bytes = arena::unit_bytes;
  const auto fill = [&] {
    for (;; bytes += 1024) std::memset(a.at(a.allocate(1024)), 1, 1024);
  };
  EXPECT_THROW(fill(), std::bad_alloc);
  EXPECT_GT(bytes + 1024, 100'000U);
  EXPECT_LE(a.used_bytes(), 100'000U);
  (void)a.allocate(64);  // the remaining bytes are still available
}

/// Pages of these bytes that have memory.
std::size_t resident_pages(std::byte* from, std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages(bytes / page);
  EXPECT_EQ(mincore(from, bytes, pages.data()), 0);
  return static_cast<std::size_t>(std::ranges::count_if(pages, [](unsigned char p) { return (p & 1U) != 0; }));
}

TEST(arena, has_memory_ready_for_what_it_hands_out_next) {
  constexpr std::size_t megabyte = std::size_t{1} << 20;
  arena a({.huge_pages = false});
  EXPECT_FALSE(a.wanted()) << "a small arena";
  std::memset(a.at(a.allocate(16 * megabyte)), 1, 16 * megabyte);
  ASSERT_TRUE(a.wanted());
  while (a.make_ready()) {
  }
  EXPECT_FALSE(a.wanted());
  std::byte* next = a.at(a.allocate(4 * megabyte));
  next += (4096 - reinterpret_cast<std::uintptr_t>(next) % 4096) % 4096;
  EXPECT_GE(resident_pages(next, 2 * megabyte) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), 2 * megabyte);
  EXPECT_TRUE(a.wanted()) << "half of it is used";
  EXPECT_TRUE(std::all_of(next, next + megabyte, [](std::byte b) { return b == std::byte{0}; }));
}

TEST(arena, at_its_limit_has_ready_what_is_left) {
  constexpr std::size_t megabyte = std::size_t{1} << 20;
  arena a({.huge_pages = false, .size_max_bytes = 9 * megabyte});
  (void)a.allocate(8 * megabyte);
  while (a.make_ready()) {
  }
  EXPECT_FALSE(a.make_ready());
  std::memset(a.at(a.allocate(megabyte / 2)), 1, megabyte / 2);
  EXPECT_THROW((void)a.allocate(megabyte), std::bad_alloc);
}

TEST(arena, threads_get_memory_of_their_own) {
  constexpr std::size_t threads = 8;
  constexpr std::size_t each = 2000;
  arena a({});
  std::vector<std::vector<arena_ref>> taken(threads);
  {
    std::vector<std::jthread> workers;
    for (std::size_t t = 0; t < threads; ++t) {
      workers.emplace_back([&, t] {
        for (std::size_t i = 0; i < each; ++i) {
          taken[t].push_back(a.allocate(1088));
          std::memset(a.at(taken[t].back()), static_cast<int>(t), 1088);
        }
      });
    }
  }
  std::vector<arena_ref> all;
  for (std::size_t t = 0; t < threads; ++t) {
    for (const arena_ref ref : taken[t]) {
      const std::byte* p = a.at(ref);
      ASSERT_TRUE(std::all_of(p, p + 1088, [t](std::byte b) { return b == static_cast<std::byte>(t); }));
      all.push_back(ref);
    }
  }
  std::sort(all.begin(), all.end());
  for (std::size_t i = 1; i < all.size(); ++i) ASSERT_GE(all[i] - all[i - 1], 1088U / arena::unit_bytes);
}

class shared_arena : public ::testing::Test {
 protected:
  shared_arena() : file_(memfd_create("arena", MFD_CLOEXEC)), locks_(opened_again()) {}
  ~shared_arena() override {
    close(file_);
    close(locks_);
  }
  [[nodiscard]] int opened_again() const {
    return open(("/proc/self/fd/" + std::to_string(file_)).c_str(), O_RDWR | O_CLOEXEC);
  }
  int file_;
  int locks_;
};

TEST_F(shared_arena, is_the_same_wherever_it_is_mapped) {
  arena one({.size_max_bytes = 10'000'000, .file = file_, .locks = locks_});
  const arena_ref first = one.allocate(100);
  std::memset(one.at(first), 1, 100);
  one.set_root(1, first);
  arena two({.file = file_, .locks = locks_, .attach = true});
  ASSERT_NE(one.at(first), two.at(first));
  ASSERT_EQ(two.root(1), first);
  EXPECT_EQ(two.root(0), 0U);
  EXPECT_EQ(std::memcmp(two.at(first), one.at(first), 100), 0);
  // both allocate, and never the same bytes
  std::vector<arena_ref> taken;
  for (int i = 0; i < 100; ++i) {
    taken.push_back((i % 2 == 0 ? one : two).allocate(50'000));
    std::memset((i % 2 == 0 ? one : two).at(taken.back()), i, 50'000);
  }
  for (int i = 0; i < 100; ++i) {
    const std::byte* p = (i % 2 == 0 ? two : one).at(taken[static_cast<std::size_t>(i)]);
    ASSERT_TRUE(std::all_of(p, p + 50'000, [i](std::byte b) { return b == static_cast<std::byte>(i); }));
  }
  EXPECT_EQ(one.used_bytes(), two.used_bytes());
  EXPECT_THROW((void)two.allocate(9'000'000), std::bad_alloc);
  EXPECT_THROW((void)one.allocate(9'000'000), std::bad_alloc);
}

TEST_F(shared_arena, cannot_be_attached_to_before_it_is_there) {
  EXPECT_THROW(arena({.file = file_, .locks = locks_, .attach = true}), std::bad_alloc);
  EXPECT_THROW(arena({.file = -1, .attach = true}), std::bad_alloc);
}

TEST_F(shared_arena, tells_which_process_has_ended) {
  arena one({.file = file_, .locks = locks_});
  one.hold(0);
  EXPECT_TRUE(one.is_held(0));  // held by this process itself, whose threads also wait for each other
  EXPECT_FALSE(one.is_held(7));
  int reported[2];
  ASSERT_EQ(pipe(reported), 0);
  const pid_t other = fork();
  if (other == 0) {
    const arena mine({.file = file_, .locks = opened_again(), .attach = true});
    mine.hold(7);
    const char done = 1;
    (void)!write(reported[1], &done, 1);
    for (;;) pause();
  }
  char done = 0;
  ASSERT_EQ(read(reported[0], &done, 1), 1);
  EXPECT_TRUE(one.is_held(7));
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  EXPECT_FALSE(one.is_held(7));
  close(reported[0]);
  close(reported[1]);
}

// A sanitizer's shadow memory needs the address space.
#if !defined(ICECORE_UNDER_ADDRESS_SANITIZER) && !defined(ICECORE_UNDER_THREAD_SANITIZER)
TEST(arena, leaves_a_limited_address_space_to_others) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit limited = before;
  limited.rlim_cur = std::uint64_t{4} << 30;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limited), 0);
  {
    arena one({});
    arena two({});
    std::memset(one.at(one.allocate(1 << 20)), 1, 1 << 20);
    std::memset(two.at(two.allocate(1 << 20)), 1, 1 << 20);
    EXPECT_THROW((void)one.allocate(std::uint64_t{2} << 30), std::bad_alloc);
  }
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
}
#endif

}  // namespace
}  // namespace icecore::index
