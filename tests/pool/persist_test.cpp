#include "pool/persist.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "icecore/error.hpp"

namespace icecore {
namespace {

errc code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const error& e) {
    return static_cast<errc>(e.code().value());
  }
  return errc{};
}

TEST(persist, a_failed_sync_poisons_for_ever) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);  // a pipe cannot be synced
  persistence p(ends[1], "a pipe", medium::block_device, durability::tag, nullptr, nullptr, false);
  EXPECT_FALSE(p.poisoned());
  EXPECT_EQ(code_of([&] { p.sync(); }), errc::poisoned);
  EXPECT_TRUE(p.poisoned());
  // now the descriptor is one that could be synced: a retry would "succeed" with data lost
  FILE* file = std::tmpfile();
  ASSERT_EQ(dup2(fileno(file), ends[1]), ends[1]);
  EXPECT_EQ(code_of([&] { p.sync(); }), errc::poisoned);
  (void)std::fclose(file);
  close(ends[0]);
  close(ends[1]);
}

TEST(persist, many_threads_sync_at_once) {
  FILE* file = std::tmpfile();
  persistence p(fileno(file), "a file", medium::block_device, durability::operation, nullptr, nullptr, false);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&p] {
        for (int i = 0; i < 20; ++i) p.sync();
      });
    }
  }
  EXPECT_FALSE(p.poisoned());
  (void)std::fclose(file);
}

TEST(persist, memory_is_flushed_by_lines_under_operation_durability_and_by_pages_else) {
  FILE* file = std::tmpfile();
  const persistence lines(fileno(file), "f", medium::memory, durability::operation, nullptr, nullptr, false);
  EXPECT_TRUE(lines.by_cache_lines());
  EXPECT_FALSE(lines.by_pages());
  const persistence pages(fileno(file), "f", medium::memory, durability::tag, nullptr, nullptr, false);
  EXPECT_FALSE(pages.by_cache_lines());
  EXPECT_TRUE(pages.by_pages());
  EXPECT_STREQ(pages.method(), "fdatasync");
  (void)std::fclose(file);
}

}  // namespace
}  // namespace icecore
