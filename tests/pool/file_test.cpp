// A pool file: growth allocates all of it, on a memory file system in huge pages if the kernel has them; who holds its
// lock; what is reported when a system call fails.
#include "pool/file/file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "base/bytes.hpp"
#include "failing_calls.hpp"
#include "pool/format.hpp"
#include "scratch_folder.hpp"

namespace icecore {
namespace {

constexpr std::uint64_t huge = huge_page_bytes;

/// A pool file on a memory file system; the test removes it afterwards.
class pool_file_in_memory : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::is_directory("/dev/shm")) GTEST_SKIP() << "there is no /dev/shm";
    path_ = "/dev/shm/icecore-file-test-" + std::to_string(getpid());
    file_.emplace(path_, access::read_write, creation::create_new);
    if (!file_->on_memory_filesystem()) GTEST_SKIP() << "/dev/shm is no memory file system";
  }
  void TearDown() override {
    file_.reset();
    std::filesystem::remove(path_);
  }

  [[nodiscard]] std::uint64_t allocated_bytes() const {
    struct stat s {};
    EXPECT_EQ(fstat(file_->descriptor(), &s), 0);
    return static_cast<std::uint64_t>(s.st_blocks) * 512;
  }

  /// KiB of this process's shared memory that huge pages map after the whole file was touched.
  [[nodiscard]] std::uint64_t huge_kibibytes_when_mapped(std::uint64_t size) const {
    void* const reserved = mmap(nullptr, size + huge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const auto address = (reinterpret_cast<std::uintptr_t>(reserved) + huge - 1) / huge * huge;
    auto* const bytes = static_cast<volatile char*>(mmap(reinterpret_cast<void*>(address), size, PROT_READ | PROT_WRITE,
                                                         MAP_SHARED | MAP_FIXED, file_->descriptor(), 0));
    for (std::uint64_t at = 0; at < size; at += 4096) bytes[at] = 1;
    std::uint64_t found = 0;
    std::ifstream in("/proc/self/smaps_rollup");
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("ShmemPmdMapped:")) found = std::strtoull(line.c_str() + 15, nullptr, 10);
    }
    munmap(reserved, size + huge);
    return found;
  }

  std::filesystem::path path_;
  std::optional<pool_file> file_;
};

TEST_F(pool_file_in_memory, is_allocated_whole_wherever_it_grows_from_and_to) {
  std::uint64_t size = 0;
  for (const std::uint64_t to : {huge / 16, huge + 4096, 5 * huge, 5 * huge + 8192, 9 * huge - 4096, 12 * huge}) {
    file_->grow(to, true);
    ASSERT_EQ(file_->size(), to);
    ASSERT_GE(allocated_bytes(), to) << "grown from " << size;
    size = to;
  }
}

TEST_F(pool_file_in_memory, keeps_its_content_when_it_grows) {
  file_->grow(huge / 2, true);
  ASSERT_EQ(pwrite(file_->descriptor(), "kept", 4, static_cast<off_t>(huge / 2 - 4)), 4);
  file_->grow(4 * huge, true);
  char content[4] = {};
  ASSERT_EQ(pread(file_->descriptor(), content, 4, static_cast<off_t>(huge / 2 - 4)), 4);
  EXPECT_EQ(std::string(content, 4), "kept");
}

TEST_F(pool_file_in_memory, has_huge_pages_only_where_they_were_wished_for) {
  file_->grow(4 * huge, true);
  const std::uint64_t wished = huge_kibibytes_when_mapped(4 * huge);
  file_.reset();
  std::filesystem::remove(path_);
  file_.emplace(path_, access::read_write, creation::create_new);
  file_->grow(4 * huge, false);
  const std::uint64_t not_wished = huge_kibibytes_when_mapped(4 * huge);
  if (wished == 0) GTEST_SKIP() << "this kernel gives none (before Linux 6.1, or shmem_enabled is deny)";
  if (not_wished != 0) GTEST_SKIP() << "this file system gives them by itself";
  EXPECT_EQ(wished, 4 * huge / 1024);
}

using testing::expect_failure;
using testing::failing_call;

class pool_file_test : public ::testing::Test {
 protected:
  [[nodiscard]] pool_file made() const { return {path_, access::read_write, creation::open_or_create}; }

  testing::scratch_folder folder_;
  std::filesystem::path path_ = folder_ / "pool.ice";
};

TEST_F(pool_file_test, is_made_where_a_symbolic_link_leads_to) {
  std::filesystem::create_symlink(folder_ / "target", path_);
  (void)made();
  EXPECT_TRUE(std::filesystem::is_regular_file(folder_ / "target"));
}

TEST_F(pool_file_test, a_creation_undone_leaves_what_was_there_before) {
  made().remove_created_file();
  EXPECT_FALSE(std::filesystem::exists(path_));
  std::ofstream(path_).flush();
  const pool_file found = made();
  found.grow(1 << 20, false);
  found.remove_created_file();
  EXPECT_EQ(std::filesystem::file_size(path_), 0U) << "an empty file was there, and is again";
}

TEST_F(pool_file_test, a_growth_that_a_signal_interrupts_goes_on) {
  const pool_file file = made();
  const failing_call interrupted("posix_fallocate", EINTR, {.times = 2});
  file.grow(3 << 20, false);
  EXPECT_EQ(file.size(), 3U << 20);
}

TEST_F(pool_file_test, a_growth_that_fails_is_reported_with_its_sizes_and_leaves_the_size) {
  const pool_file file = made();
  file.grow(1 << 20, false);
  for (const auto& [error, code] : {std::pair{ENOSPC, errc::no_space},
                                    {EDQUOT, errc::no_space},
                                    {EFBIG, errc::no_space},
                                    {EROFS, errc::permission},
                                    {EIO, errc::io}}) {
    const failing_call broken("posix_fallocate", error);
    expect_failure(code, "from 1048576 to 2097152 bytes", [&] { file.grow(2 << 20, false); });
    EXPECT_EQ(file.size(), 1U << 20);
  }
}

TEST_F(pool_file_test, huge_pages_that_cannot_be_had_are_done_without) {
  const testing::fake_filesystem memory(TMPFS_MAGIC);
  const pool_file file = made();
  const failing_call refused("posix_fallocate", EOPNOTSUPP, {.times = 1});
  file.grow(3 * huge, true);
  EXPECT_EQ(file.size(), 3 * huge);
}

TEST_F(pool_file_test, a_file_that_cannot_be_looked_at_is_reported) {
  {
    const failing_call broken("fstat", EIO);
    expect_failure(errc::io, "fstat", [&] { (void)made(); });
  }
  const pool_file file = made();
  const failing_call broken("fstat", EIO);
  expect_failure(errc::io, "fstat", [&] { (void)file.size(); });
  expect_failure(errc::io, "fstat", [&] { (void)file.inode(); });
}

TEST_F(pool_file_test, a_file_that_must_not_be_opened_is_reported) {
  for (const int error : {EACCES, EPERM, EROFS}) {
    const failing_call refused("open", error);
    expect_failure(errc::permission, path_.native(), [&] { (void)made(); });
  }
}

TEST_F(pool_file_test, a_file_system_without_locks_is_refused) {
  const failing_call without("fcntl", ENOLCK);
  expect_failure(errc::io, "the file system refused a lock", [&] { (void)made(); });
}

TEST_F(pool_file_test, who_holds_it_is_reported_as_far_as_it_is_known) {
  const auto open_again = [&] { (void)made(); };
  (void)made();
  const auto read = [&] { const pool_file reader(path_, access::read_only, creation::open_existing); };
  expect_failure(errc::not_a_store, "is empty", read);  // and keeps nobody out
  {
    const pool_file writer = made();
    expect_failure(errc::locked, "has it open for writing", read);
    writer.grow(1 << 20, false);
  }
  {
    const pool_file reader(path_, access::read_only, creation::open_existing);
    expect_failure(errc::locked, "for reading", open_again);
  }
  const pool_file writer = made();
  expect_failure(errc::locked, "has it open for writing", open_again);  // it has not written its pid yet
  writer.grow(1 << 20, false);
  format::live_page page{};
  page.writer_pid = 4'000'000;
  std::strcpy(page.writer_host, "a-host");
  ASSERT_EQ(pwrite(writer.descriptor(), &page, sizeof page, format::live_page_offset), ssize_t{sizeof page});
  expect_failure(errc::locked, "process 4000000 on a-host;", open_again);
  {
    const failing_call unreadable("pread", EIO, {.after = 1});
    expect_failure(errc::locked, "process 4000000 on ;", open_again);
  }
  {
    const failing_call unreadable("pread", EIO);
    expect_failure(errc::locked, "another process has it open for writing", open_again);
  }
  {
    // Some systems return EACCES, and the holder may release the lock before it can be asked for.
    const failing_call refused("fcntl", EACCES, {.times = 2});
    expect_failure(errc::locked, "process 4000000", open_again);
  }
}

TEST_F(pool_file_test, a_name_is_durable_only_if_its_folder_could_be_synced) {
  const pool_file file = made();
  file.sync_with_directory();
  {
    const failing_call broken("fsync", EIO);
    expect_failure(errc::io, "fsync", [&] { file.sync_with_directory(); });
  }
  {
    const failing_call broken("fsync", EIO, {.after = 1});
    expect_failure(errc::io, "of its directory", [&] { file.sync_with_directory(); });
  }
  {
    const failing_call broken("open", EACCES);
    expect_failure(errc::permission, "opening its directory", [&] { file.sync_with_directory(); });
  }
  for (const int error : {EINVAL, ENOTSUP}) {
    const failing_call unable("fsync", error, {.after = 1});
    EXPECT_NO_THROW(file.sync_with_directory()) << "some file systems cannot sync directories";
  }
}

TEST_F(pool_file_test, a_name_without_a_folder_is_one_in_the_working_directory) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(path_.parent_path());
  {
    const pool_file file("bare.ice", access::read_write, creation::create_new);
    EXPECT_NO_THROW(file.sync_with_directory());
  }
  std::filesystem::current_path(before);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "bare.ice"));
}

TEST_F(pool_file_test, a_sync_that_fails_is_reported) {
  const pool_file file = made();
  EXPECT_NO_THROW(file.sync());
  const failing_call broken("fdatasync", EIO);
  expect_failure(errc::io, "fdatasync", [&] { file.sync(); });
}

TEST_F(pool_file_test, a_device_that_reports_nothing_is_taken_for_the_plainest) {
  const pool_file file = made();
  EXPECT_GT(file.device_capacity(), 0U);
  {
    const failing_call silent("fstatvfs", EIO);
    EXPECT_EQ(file.device_capacity(), 0U);
  }
  {
    const testing::fake_dax dax;
    EXPECT_TRUE(file.is_dax());
    const failing_call silent("statx", EIO);
    EXPECT_FALSE(file.is_dax());
  }
}

TEST_F(pool_file_test, memory_is_known_by_its_file_system) {
  for (const unsigned long magic : {0x01021994UL, 0x858458f6UL, 0x958458f6UL}) {  // tmpfs, ramfs, hugetlbfs
    const testing::fake_filesystem reported(magic);
    EXPECT_TRUE(made().on_memory_filesystem());
  }
  const testing::fake_filesystem xfs(0x58465342UL);
  const pool_file file = made();
  EXPECT_FALSE(file.on_memory_filesystem());
  EXPECT_EQ(file.filesystem_name(), "xfs");
  const testing::fake_filesystem unknown(0x1234UL);
  EXPECT_EQ(file.filesystem_name(), "0x1234");
}

}  // namespace
}  // namespace icecore
