#include "pool/file/persist.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "icecore/error.hpp"
#include "pool/file/cache_lines.hpp"

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

TEST(cache_lines, each_line_that_has_a_byte_of_a_range_is_visited_once) {
  alignas(format::cache_line_size) char bytes[4 * format::cache_line_size];
  const auto visited = [&](std::size_t begin, std::size_t size) {
    std::vector<std::ptrdiff_t> lines;
    for_each_cache_line(bytes + begin, size, [&](const char* line) { lines.push_back(line - bytes); });
    return lines;
  };
  using offsets = std::vector<std::ptrdiff_t>;
  EXPECT_EQ(visited(0, 64), (offsets{0}));
  EXPECT_EQ(visited(0, 65), (offsets{0, 64}));
  EXPECT_EQ(visited(63, 1), (offsets{0}));
  EXPECT_EQ(visited(63, 2), (offsets{0, 64}));
  EXPECT_EQ(visited(70, 150), (offsets{64, 128, 192}));
  EXPECT_EQ(visited(128, 0), (offsets{}));
}

TEST(persist, a_failed_sync_poisons_for_ever) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);  // a pipe cannot be synced
  persistence p(ends[1], "a pipe", medium::block_device, durability::tag, nullptr, nullptr, false);
  EXPECT_FALSE(p.poisoned());
  EXPECT_EQ(code_of([&] { p.sync(); }), errc::poisoned);
  EXPECT_TRUE(p.poisoned());
  // the descriptor could be synced now: a retry would "succeed" with data lost
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

TEST(persist, persistent_memory_is_flushed_by_the_functions_of_its_mapping) {
  static int flushed = 0;
  static int drained = 0;
  FILE* file = std::tmpfile();
  const auto flush = [](const void*, std::size_t) { ++flushed; };
  const auto drain = [] { ++drained; };
  persistence lines(fileno(file), "f", medium::persistent_memory, durability::operation, flush, drain, false);
  EXPECT_STRNE(lines.method(), "eADR");
  EXPECT_FALSE(lines.by_pages());
  lines.persist(&lines, 8);
  EXPECT_EQ(flushed, 1);
  EXPECT_EQ(drained, 1);
  const persistence cached(fileno(file), "f", medium::persistent_memory, durability::operation, flush, drain, true);
  EXPECT_STREQ(cached.method(), "eADR");
  const persistence pages(fileno(file), "f", medium::persistent_memory, durability::tag, flush, drain, false);
  EXPECT_TRUE(pages.by_pages());
  EXPECT_FALSE(pages.by_cache_lines()) << "what is synced need not be flushed";
  (void)std::fclose(file);
}

TEST(persist, functions_are_replaced_only_where_lines_are_flushed) {
  static int flushed = 0;
  const auto flush = [](const void*, std::size_t) { ++flushed; };
  FILE* file = std::tmpfile();
  persistence pages(fileno(file), "f", medium::block_device, durability::tag, nullptr, nullptr, false);
  pages.replace_line_functions(flush, nullptr);
  pages.flush(&pages, 8);
  EXPECT_FALSE(pages.by_cache_lines());
  EXPECT_EQ(flushed, 0);
  persistence lines(fileno(file), "f", medium::memory, durability::operation, nullptr, nullptr, false);
  lines.replace_line_functions(flush, nullptr);
  lines.flush(&lines, 8);
  EXPECT_EQ(flushed, 1);
  (void)std::fclose(file);
}

TEST(persist, a_private_mapping_has_nothing_to_sync) {
  persistence none;
  none.sync_file();
  none.sync();
  EXPECT_FALSE(none.poisoned());
}

TEST(persist, the_first_reason_of_poison_is_the_one_reported) {
  persistence p;
  p.poison("first");
  p.poison("second");
  try {
    p.raise_poisoned();
  } catch (const error& reported) {
    EXPECT_NE(reported.message().find("first"), std::string::npos) << reported.what();
  }
}

}  // namespace
}  // namespace icecore
