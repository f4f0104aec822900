// Growing a pool file: all of it allocated, on a memory file system in huge pages where the kernel has them.
#include "pool/file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace icecore {
namespace {

constexpr std::uint64_t huge = pool_file::huge_page_bytes;

/// A pool file on a memory file system, removed afterwards.
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

  /// KiB of this process's shared memory that are mapped by huge pages once the whole file is touched.
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

}  // namespace
}  // namespace icecore
