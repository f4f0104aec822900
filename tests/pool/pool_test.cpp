// A pool's space, its segments' headers, and which medium it assumes.
#include "pool/pool.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/checksum.hpp"
#include "failing_calls.hpp"
#include "pool/manifest/manifest.hpp"
#include "pool/pool_set.hpp"
#include "scratch_folder.hpp"

namespace icecore::testing {
namespace {

constexpr std::uint64_t granule = format::granule_size;

options of(durability mode, access how = access::read_write) {
  options opening;
  opening.durability = mode;
  opening.access = how;
  opening.emulate_durability = true;
  return opening;
}

class Pool : public ::testing::Test {
 protected:
  /// Bytes of records that fill this many granules.
  static constexpr std::uint64_t filling(std::uint64_t granules) {
    return granules * granule - sizeof(format::segment_header);
  }

  scratch_folder folder_;
  std::filesystem::path path_ = folder_ / "store.ice";
};

TEST_F(Pool, gives_out_the_smallest_hole_that_is_large_enough_and_keeps_the_rest) {
  pool space(path_, of(durability::none));
  const std::uint64_t small = space.allocate(filling(2)).offset;
  const std::uint64_t large = space.allocate(filling(8)).offset;
  const std::uint64_t end = space.used_end();
  space.add_free(large, 8 * granule);
  space.add_free(small, 2 * granule);
  EXPECT_EQ(space.allocate(filling(2)).offset, small) << "a hole of just that size";
  EXPECT_EQ(space.allocate(filling(3)).offset, large);
  EXPECT_EQ(space.allocate(filling(5)).offset, large + 3 * granule) << "what was left of it";
  EXPECT_EQ(space.used_end(), end);
  EXPECT_EQ(space.allocate(filling(1)).offset, end) << "no hole is left";
}

/// A store into a hole needs a block, and ends the process if the device has none.
TEST_F(Pool, zeroes_no_hole_where_none_can_be_punched) {
  pool space(path_, of(durability::none));
  constexpr std::uint64_t size = 64 * granule;
  const segment s = space.allocate(filling(64));
  std::byte* const content = space.at(s.first_record());
  std::memset(content, 7, size - sizeof(format::segment_header));
  space.clear_content(s);
  const auto blocks = [&] {
    struct stat about {};
    EXPECT_EQ(::stat(path_.c_str(), &about), 0);
    return static_cast<std::uint64_t>(about.st_blocks) * 512;
  };
  const std::uint64_t before = blocks();
  std::memset(content + size / 2, 7, granule);
  const failing_call broken("fallocate", EOPNOTSUPP);
  space.clear_content(s);
  EXPECT_LE(blocks(), before + 2 * granule);
  EXPECT_TRUE(all_zero(content, size - sizeof(format::segment_header)));
}

TEST_F(Pool, knows_a_segment_by_its_header) {
  pool space(path_, of(durability::none));
  const segment s = space.allocate(filling(2));
  EXPECT_TRUE(space.valid_header(s.offset));
  auto& header = *reinterpret_cast<format::segment_header*>(space.at(s.offset));
  const format::segment_header sound = header;
  header.magic ^= 1;
  EXPECT_FALSE(space.valid_header(s.offset));
  header = sound;
  header.granules = 0;
  EXPECT_FALSE(space.valid_header(s.offset));
  header.granules = 1'000'000;
  header.crc = crc32c(crc32c(space.codec().pool_seed(), s.offset), &header, offsetof(format::segment_header, crc));
  EXPECT_FALSE(space.valid_header(s.offset)) << "it would reach beyond the file";
  header = sound;
  header.crc ^= 1;
  EXPECT_FALSE(space.valid_header(s.offset));
  header = sound;
  EXPECT_TRUE(space.valid_header(s.offset));
}

TEST_F(Pool, believes_no_fill_that_no_segment_can_have) {
  pool space(path_, of(durability::none));
  const segment s = space.allocate(filling(2));
  EXPECT_EQ(space.fill_of(s), s.first_record());
  space.set_fill(s, s.end());
  EXPECT_EQ(space.fill_of(s), s.end());
  auto& fill = reinterpret_cast<format::segment_header*>(space.at(s.offset))->fill;
  const std::uint64_t sound = fill;
  fill ^= 1;
  EXPECT_FALSE(space.fill_of(s)) << "its check fails";
  fill = sound | format::stamp_persisted;
  EXPECT_FALSE(space.fill_of(s)) << "a mark that only stamps have";
  space.set_fill(s, s.offset + sizeof(format::segment_header) - 8);
  EXPECT_FALSE(space.fill_of(s)) << "within the header";
  space.set_fill(s, s.end() + 8);
  EXPECT_FALSE(space.fill_of(s)) << "beyond the end";
}

TEST_F(Pool, a_nearly_full_device_gives_just_what_is_needed) {
  pool space(path_, of(durability::none));
  space.grow_ahead();
  const failing_call full("posix_fallocate", ENOSPC, {.times = 1});  // the attempt to grow by more than is needed
  const segment last = space.allocate(filling(20));
  EXPECT_EQ(space.size(), last.end());
}

TEST_F(Pool, a_full_device_gives_the_last_of_its_space_and_then_says_so) {
  pool space(path_, of(durability::none));
  space.grow_ahead();
  const failing_call full("posix_fallocate", ENOSPC);
  while (space.used_end() != space.size()) {
    (void)space.allocate(filling(1));
    space.grow_ahead();  // it fails silently
  }
  expect_failure(errc::no_space, "growing", [&] { (void)space.allocate(filling(1)); });
  EXPECT_EQ(space.used_end(), space.size());
}

TEST_F(Pool, grows_while_there_still_is_room) {
  pool space(path_, of(durability::none));
  for (int i = 0; i < 100; ++i) {
    (void)space.allocate(filling(1));
    space.grow_ahead();
    EXPECT_GT(space.size(), space.used_end()) << "the next one would wait for growing";
  }
}

TEST_F(Pool, a_device_without_room_to_grow_ahead_is_asked_again_when_an_eighth_of_what_it_refused_is_used) {
  pool space(path_, of(durability::none));
  space.grow_ahead();
  std::uint64_t refused = space.size();
  {
    const failing_call full("posix_fallocate", ENOSPC, {.times = 1});
    (void)space.allocate(space.size() - space.used_end() - sizeof(format::segment_header));
    refused += 2 * granule;  // of 16, the least by which it grows
    space.grow_ahead();
  }
  while (space.size() < refused) {
    space.grow_ahead();
    EXPECT_EQ(space.size(), space.used_end()) << "it was not asked";
    (void)space.allocate(filling(1));
  }
  space.grow_ahead();
  EXPECT_GT(space.size(), space.used_end());
}

/// A pool whose file other processes grow as well.
class SharedPool : public Pool {
 protected:
  void SetUp() override {
    space_.share(*with_);
    with_->growing.make_robust();
  }
  void TearDown() override { munmap(with_, sizeof *with_); }
  /// Another process takes the lock for growing, executes `step` and ends while it holds the lock.
  void grow_and_be_killed(const std::function<void()>& step) {
    const pid_t other = fork();
    if (other == 0) {
      with_->growing.lock();
      step();
      _exit(0);
    }
    ASSERT_EQ(waitpid(other, nullptr, 0), other);
  }
  void expect_no_holes() {
    struct stat of_file {};
    ASSERT_EQ(stat(path_.c_str(), &of_file), 0);
    EXPECT_EQ(static_cast<std::uint64_t>(of_file.st_size), space_.size());
    EXPECT_GE(static_cast<std::uint64_t>(of_file.st_blocks) * 512, space_.size());
  }

  pool_space* with_ =
      new (mmap(nullptr, sizeof(pool_space), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) pool_space;
  pool space_{path_, of(durability::none)};
};

TEST_F(SharedPool, what_a_killed_process_added_before_the_root_recorded_it_is_added_again) {
  const std::uint64_t before = space_.size();
  grow_and_be_killed([&] { space_.file().set_size(before + 1000 * granule); });
  (void)space_.allocate(before);
  EXPECT_GT(space_.size(), before);
  expect_no_holes();
}

TEST_F(SharedPool, what_a_killed_process_added_and_recorded_in_the_root_is_taken) {
  const std::uint64_t reported = space_.size() + 1000 * granule;
  grow_and_be_killed([&] {
    space_.file().grow(reported, false);
    space_.roots().update([&](format::root& r) { r.file_size = reported; });
  });
  const failing_call full("posix_fallocate", ENOSPC);  // from now on
  (void)space_.allocate(reported - space_.used_end() - sizeof(format::segment_header));
  EXPECT_EQ(space_.size(), reported);
  expect_no_holes();
  EXPECT_EQ(space_.roots().read().file_size, reported);
}

// For a writer that was killed while it closed: its root, which names a shorter file, may not be on the device yet.
TEST_F(Pool, a_file_longer_than_its_root_says_is_cut_once_the_root_is_durable) {
  const fake_filesystem ext{EXT4_SUPER_MAGIC};
  pool(path_, of(durability::tag)).roots().update([](format::root&) {});
  const auto reported = std::filesystem::file_size(path_);
  const auto longer = reported + 4 * granule;
  std::filesystem::resize_file(path_, longer);
  {
    const failing_call broken("fdatasync", EIO);
    EXPECT_THROW(pool(path_, of(durability::tag)), error);
    EXPECT_EQ(std::filesystem::file_size(path_), longer);
  }
  EXPECT_NO_THROW(pool(path_, of(durability::tag)));
  EXPECT_EQ(std::filesystem::file_size(path_), reported);
}

TEST_F(Pool, without_random_numbers_none_is_made) {
  {
    const failing_call broken("getrandom", ENOSYS);
    expect_failure(errc::io, "getrandom", [&] { const pool none(path_, of(durability::none)); });
  }
  EXPECT_FALSE(std::filesystem::exists(path_)) << "a creation that failed leaves nothing";
  EXPECT_NO_THROW(pool(path_, of(durability::none)));
}

TEST_F(Pool, segments_that_become_one_free_segment_keep_the_page_of_one_header) {
  pool_set pools(path_, of(durability::none));
  std::vector<segment> all;
  for (int i = 0; i < 8; ++i) {
    all.push_back(pools.allocate(filling(1), 0, format::segment_magic, {}));
    std::memset(pools.at(all.back().first_record()), 1, filling(1));
  }
  const link begin = all.front().offset;
  const link end = all.back().end();
  const std::vector<segment> free = give_back(pools, std::move(all));
  ASSERT_EQ(free.size(), 1U);
  EXPECT_EQ(free.front().offset, begin);
  EXPECT_EQ(free.front().end(), end);
  const int file = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  EXPECT_EQ(::lseek(file, static_cast<off_t>(begin), SEEK_DATA), static_cast<off_t>(begin)) << "the header";
  EXPECT_GE(::lseek(file, static_cast<off_t>(begin + format::page_size), SEEK_DATA), static_cast<off_t>(end));
  ::close(file);
}

/// The medium that libpmem2 and the kernel are made to report.
class PoolOnPersistentMemory : public Pool {
 protected:
  void SetUp() override { setenv("PMEM2_FORCE_GRANULARITY", "CACHE_LINE", 1); }
  void TearDown() override { unsetenv("PMEM2_FORCE_GRANULARITY"); }

  fake_filesystem ext_{EXT4_SUPER_MAGIC};
  fake_dax dax_;
};

TEST_F(PoolOnPersistentMemory, every_operation_is_durable_by_its_cache_lines) {
  {
    pool space(path_, of(durability::best_available));
    EXPECT_EQ(space.durability().medium, medium::persistent_memory);
    EXPECT_EQ(space.durability().mode, durability::operation);
    EXPECT_FALSE(space.durability().emulated);
    EXPECT_TRUE(space.persist().by_cache_lines());
    EXPECT_FALSE(space.persist().by_pages());
    space.roots().update([](format::root& r) { r.state = format::root_state::open; });
    const segment s = space.allocate(filling(48));  // grows the file, so its size is synced
    EXPECT_TRUE(space.valid_header(s.offset));
  }
  const pool read(path_, of(durability::best_available, access::read_only));
  EXPECT_EQ(read.durability().medium, medium::persistent_memory);
  EXPECT_EQ(read.durability().mode, durability::operation) << "the last writer's";
  EXPECT_FALSE(read.durability().emulated);
}

TEST_F(PoolOnPersistentMemory, tags_are_durable_by_syncs_where_that_was_asked_for) {
  const pool space(path_, of(durability::tag));
  EXPECT_EQ(space.durability().medium, medium::persistent_memory);
  EXPECT_TRUE(space.persist().by_pages());
}

TEST_F(Pool, truncated_by_another_program_is_not_grown) {
  pool space(folder_ / "pool", of(durability::none));
  const std::uintmax_t cut = std::filesystem::file_size(folder_ / "pool") - format::page_size;
  std::filesystem::resize_file(folder_ / "pool", cut);
  space.grow_ahead();
  EXPECT_EQ(std::filesystem::file_size(folder_ / "pool"), cut);
  EXPECT_TRUE(space.persist().poisoned());
}

TEST_F(Pool, truncated_by_another_program_gets_no_other_root) {
  pool space(folder_ / "pool", of(durability::tag));
  const std::uintmax_t cut = std::filesystem::file_size(folder_ / "pool") - format::page_size;
  std::filesystem::resize_file(folder_ / "pool", cut);
  const std::string before(reinterpret_cast<const char*>(space.base()), 2 * format::page_size);
  expect_failure(errc::poisoned, "truncated", [&] { space.roots().update([](format::root& r) { ++r.clock; }); });
  EXPECT_TRUE(before == std::string_view(reinterpret_cast<const char*>(space.base()), before.size()));
}

TEST_F(PoolOnPersistentMemory, a_growth_whose_size_cannot_be_synced_poisons) {
  pool space(path_, of(durability::operation));
  const failing_call broken("fsync", EIO);
  expect_failure(errc::poisoned, "fsync failed", [&] { (void)space.allocate(filling(48)); });
}

}  // namespace
}  // namespace icecore::testing
