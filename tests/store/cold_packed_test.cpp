// A packed store of which nothing is in memory: walks ask the device for what they come to, finds for what they need
// alone. Counted in faults that had to read and in blocks that came, never in time.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "icecore/icecore.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

constexpr std::uint64_t keys = 60'000;
constexpr std::size_t value_size = 100;  // 6 MB of values
constexpr std::uint64_t page = 4096;

std::string key_of(std::uint64_t i) {
  std::string key(8, '\0');
  for (int byte = 7; byte >= 0; --byte, i >>= 8) key[static_cast<std::size_t>(byte)] = static_cast<char>(i & 0xff);
  return key;
}
/// Digits that look random, so that compressed ones have several frames, too.
std::string value_of(std::uint64_t i) {
  std::string value;
  for (std::uint64_t n = i + 1; value.size() < value_size;) {
    n = n * 6364136223846793005U + 1442695040888963407U;
    value += std::to_string(n);
  }
  value.resize(value_size);
  return value;
}

struct reads {
  long faults;  ///< that had to wait for a page
  long blocks;  ///< of 512 bytes, that the thread's faults and hints have read
};
reads so_far() {
  rusage used{};
  ::getrusage(RUSAGE_THREAD, &used);
  return {used.ru_majflt, used.ru_inblock};
}

/// A packed store of these keys.
void make(const std::filesystem::path& path, compression how) {
  options opening;
  opening.durability = durability::none;
  {
    store made(path, opening);
    for (std::uint64_t i = 0; i < keys; ++i) made.insert(key_of(i), value_of(i));
    made.tag();
  }
  compaction_options packing;
  packing.compression = how;
  ASSERT_EQ(compact(path, opening, packing).keys, keys);
}

void forget_cached(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(::fsync(file), 0);
  EXPECT_EQ(::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED), 0);
  ::close(file);
}

/// The kernel takes away what this process has mapped of the file, as if memory were short.
void forget_mapped(const std::filesystem::path& path) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (!line.ends_with(path.native())) continue;
    const std::size_t begin = std::stoull(line, nullptr, 16);
    const std::size_t end = std::stoull(line.substr(line.find('-') + 1), nullptr, 16);
    static_cast<void>(::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_PAGEOUT));  // NOLINT: an address
  }
}

class ColdPackedStore : public ::testing::TestWithParam<compression> {
 protected:
  static void SetUpTestSuite() {
    if (root_of(place::disk)) folder_.emplace(place::disk);
  }
  static void TearDownTestSuite() { folder_.reset(); }
  void SetUp() override {
    if (!folder_) GTEST_SKIP() << "no folder on a disk";
    path_ = folder_->path() / (GetParam() == compression::none ? "packed.ice" : "compressed.ice");
    if (!std::filesystem::exists(path_)) make(path_, GetParam());
  }

  /// What this thread reads from the device while it does `work` with a store that is cold.
  reads cold(const std::function<void(store&)>& work) {
    forget_cached(path_);
    options how;
    how.access = access::read_only;
    store s(path_, how);
    forget_cached(path_);  // what the kernel has read around the roots
    const reads before = so_far();
    work(s);
    const reads after = so_far();
    return {after.faults - before.faults, after.blocks - before.blocks};
  }
  [[nodiscard]] std::uint64_t pages() const { return std::filesystem::file_size(path_) / page; }

  inline static std::optional<scratch> folder_;
  std::filesystem::path path_;
};

class ColdPackedWalk : public ColdPackedStore {
 protected:
  void expect_asked_ahead(const reads& seen) const {
    if (seen.blocks == 0) GTEST_SKIP() << "this file system does not read from a device";
    EXPECT_LT(seen.faults, static_cast<long>(pages() / 16));
  }
};

TEST_P(ColdPackedWalk, for_each_asks_ahead) {
  std::uint64_t count = 0;
  expect_asked_ahead(
      cold([&](store& s) { s.latest().for_each([&](const item& i) { EXPECT_EQ(i.value, value_of(count++)); }, 1); }));
  EXPECT_EQ(count, keys);
}

TEST_P(ColdPackedWalk, a_cursor_asks_ahead) {
  std::uint64_t count = 0;
  expect_asked_ahead(cold([&](store& s) {
    const snapshot at = s.latest();
    cursor c = at.cursor();
    for (c.seek_first(); c.valid(); c.next()) ASSERT_EQ(c->value, value_of(count++));
  }));
  EXPECT_EQ(count, keys);
}

TEST_P(ColdPackedWalk, a_cursor_that_goes_back_asks_behind) {
  std::uint64_t left = keys;
  expect_asked_ahead(cold([&](store& s) {
    const snapshot at = s.latest();
    cursor c = at.cursor();
    for (c.seek_last(); c.valid(); c.previous()) ASSERT_EQ(c->value, value_of(--left));
  }));
  EXPECT_EQ(left, 0U);
}

TEST_P(ColdPackedWalk, compaction_asks_ahead) {
  path_ = folder_->path() / "packed once more.ice";
  make(path_, GetParam());
  {
    store s(path_);
    s.insert("written since", "1");
    s.tag();
  }
  forget_cached(path_);
  compaction_options how;
  how.whole = true;
  how.threads = 1;
  how.compression = GetParam();
  const reads before = so_far();
  ASSERT_EQ(compact(path_, {}, how).keys, keys + 1);
  const reads after = so_far();
  expect_asked_ahead({after.faults - before.faults, after.blocks - before.blocks});
  std::filesystem::remove(path_);
}

INSTANTIATE_TEST_SUITE_P(Each, ColdPackedWalk, ::testing::Values(compression::none, compression::zstd));

TEST_P(ColdPackedStore, a_find_reads_a_page) {
  constexpr std::uint64_t finds = 50;
  const reads seen = cold([&](store& s) {
    for (std::uint64_t n = 0; n < finds; ++n) {
      const std::uint64_t i = n * (keys / finds) + 7;
      EXPECT_EQ(s.find(key_of(i)), value_of(i));
    }
  });
  // that of its block, and what belongs to the file system
  EXPECT_LE(seen.blocks, static_cast<long>(finds * page / 512 * 5 / 4));
}

TEST_P(ColdPackedStore, a_page_of_a_fence_that_memory_is_short_of_comes_alone) {
  const reads seen = cold([&](store& s) {
    EXPECT_EQ(s.find(key_of(7)), value_of(7));
    forget_mapped(path_);
    EXPECT_EQ(s.find(key_of(keys - 7)), value_of(keys - 7));
  });
  // the block's, and a few of the fence and of what leads to it
  EXPECT_LE(seen.blocks, static_cast<long>(16 * page / 512));
}

TEST_P(ColdPackedStore, find_many_asks_for_all_blocks_before_it_waits_for_one) {
  constexpr std::uint64_t finds = 256;
  std::vector<std::string> wanted;
  for (std::uint64_t n = 0; n < finds; ++n) wanted.push_back(key_of(n * (keys / finds) + 7));
  const std::vector<std::string_view> views(wanted.begin(), wanted.end());
  std::vector<std::optional<std::string_view>> found(finds);
  const reads seen = cold([&](store& s) {
    const pin holds = s.find_many(views, s.clock() - 1, found);
    for (std::uint64_t n = 0; n < finds; ++n) EXPECT_EQ(found[n], value_of(n * (keys / finds) + 7));
  });
  EXPECT_LT(seen.faults, static_cast<long>(finds / 8));
}

INSTANTIATE_TEST_SUITE_P(Each, ColdPackedStore, ::testing::Values(compression::none));

}  // namespace
}  // namespace icecore::testing
