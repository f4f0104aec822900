// Hints for pages that must be read from a device: what they ask for, and whom they leave alone. Counted in faults that
// had to read, never in time.
#include "base/memory/device_pages.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <thread>
#include <vector>

namespace icecore {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t page = 4096;
constexpr std::size_t file_bytes = std::size_t{16} << 20;
constexpr long tmpfs_magic = 0x01021994;

/// A mapped file on a disk, of which nothing is in memory.
class cold_file {
 public:
  /// Empty if this machine has no folder on a disk.
  static std::optional<std::filesystem::path> folder() {
    const char* const told = std::getenv("ICECORE_TEST_DISK");
    for (const std::filesystem::path& at :
         {std::filesystem::path(told != nullptr ? told : "/var/tmp"), std::filesystem::temp_directory_path()}) {
      struct statfs about {};
      if (::statfs(at.c_str(), &about) == 0 && about.f_type != tmpfs_magic) return at;
    }
    return std::nullopt;
  }

  explicit cold_file(const std::filesystem::path& in) {
    std::string name = in / "icecore-cold-XXXXXX";
    descriptor_ = ::mkstemp(name.data());
    if (descriptor_ < 0) return;
    ::unlink(name.c_str());
    const std::vector<char> bytes(file_bytes, 'x');
    if (::write(descriptor_, bytes.data(), bytes.size()) != static_cast<ssize_t>(file_bytes)) return;
    if (::fsync(descriptor_) != 0 || ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED) != 0) return;
    void* const at = ::mmap(nullptr, file_bytes, PROT_READ, MAP_SHARED, descriptor_, 0);
    if (at != MAP_FAILED) bytes_ = {static_cast<const std::byte*>(at), file_bytes};
  }
  ~cold_file() {
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  cold_file(const cold_file&) = delete;
  cold_file& operator=(const cold_file&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  void forget() const {
    EXPECT_EQ(::madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_DONTNEED), 0);  // mapped pages stay
    EXPECT_EQ(::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED), 0);
  }
  [[nodiscard]] std::size_t pages_in_memory(std::size_t from = 0, std::size_t size = file_bytes) const {
    std::vector<unsigned char> present(size / page);
    EXPECT_EQ(::mincore(const_cast<std::byte*>(bytes_.data()) + from, size, present.data()), 0);
    std::size_t count = 0;
    for (const unsigned char each : present) count += each & 1U;
    return count;
  }

 private:
  int descriptor_ = -1;
  std::span<const std::byte> bytes_;
};

long faults_that_read() {
  rusage used{};
  ::getrusage(RUSAGE_THREAD, &used);
  return used.ru_majflt;
}

void touch(std::span<const std::byte> bytes, std::size_t at) {
  static_cast<void>(*static_cast<const volatile std::byte*>(&bytes[at]));
}

class DevicePages : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto folder = cold_file::folder();
    if (!folder) GTEST_SKIP() << "no folder on a disk";
    file_.emplace(*folder);
    ASSERT_FALSE(file_->bytes().empty());
    if (file_->pages_in_memory() > file_bytes / page / 8) GTEST_SKIP() << "this file system keeps its pages in memory";
  }
  std::optional<cold_file> file_;
};

TEST_F(DevicePages, that_are_asked_for_come_and_no_others) {
  expect_random_reads(file_->bytes());
  constexpr std::size_t from = std::size_t{3} << 20;
  constexpr std::size_t size = std::size_t{1} << 20;
  ask_for(file_->bytes().subspan(from + 100, size - 200));
  for (int turn = 0; turn < 500 && file_->pages_in_memory(from, size) < size / page; ++turn) {
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_EQ(file_->pages_in_memory(from, size), size / page);
  EXPECT_EQ(file_->pages_in_memory(), size / page);
}

TEST_F(DevicePages, of_random_reads_come_alone) {
  expect_random_reads(file_->bytes());
  for (std::size_t at = 0; at < file_bytes; at += std::size_t{1} << 20) touch(file_->bytes(), at + 5000);
  EXPECT_EQ(file_->pages_in_memory(), file_bytes >> 20);
}

TEST_F(DevicePages, a_walk_has_asked_for_what_it_comes_to) {
  expect_random_reads(file_->bytes());
  const long before = faults_that_read();
  for (std::size_t at = 0; at < file_bytes; at += page) {
    if (at % walk_step_bytes == 0) walk_comes_to(file_->bytes(), file_->bytes().data() + at);
    touch(file_->bytes(), at);
  }
  EXPECT_LT(faults_that_read() - before, static_cast<long>(file_bytes / page / 16));
}

TEST_F(DevicePages, a_walk_asks_for_more_and_more_even_if_it_comes_to_the_very_end_of_what_it_asked_for) {
  expect_random_reads(file_->bytes());
  constexpr std::size_t walked = std::size_t{6} << 20;
  for (std::size_t at = 0; at < walked; at += page) {
    if (at % walk_step_bytes == 0) walk_comes_to(file_->bytes(), file_->bytes().data() + at);
    touch(file_->bytes(), at);
  }
  constexpr std::size_t ahead = std::size_t{1} << 20;
  for (int turn = 0; turn < 500 && file_->pages_in_memory(walked, ahead) < ahead / page; ++turn) {
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_EQ(file_->pages_in_memory(walked, ahead), ahead / page);
}

TEST_F(DevicePages, a_second_walk_asks_anew) {
  expect_random_reads(file_->bytes());
  const auto some = file_->bytes().first(std::size_t{1} << 20);
  for (int walk = 0; walk < 2; ++walk) {
    const long before = faults_that_read();
    for (std::size_t at = 0; at < some.size(); at += page) {
      if (at % walk_step_bytes == 0) walk_comes_to(some, some.data() + at);
      touch(some, at);
    }
    EXPECT_LT(faults_that_read() - before, static_cast<long>(some.size() / page / 4)) << "walk " << walk;
    file_->forget();
    touch(file_->bytes(), file_bytes - 1);  // the thread reads
  }
}

TEST_F(DevicePages, a_walk_asks_for_little_at_first) {
  expect_random_reads(file_->bytes());
  walk_comes_to(file_->bytes(), file_->bytes().data());
  touch(file_->bytes(), walk_step_bytes - 1);
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(file_->pages_in_memory(), walk_step_bytes / page);
}

TEST_F(DevicePages, a_thread_that_has_read_nothing_yet_asks) {
  expect_random_reads(file_->bytes());
  long faults = -1;
  std::thread([&] {
    const long before = faults_that_read();
    walk_comes_to(file_->bytes(), file_->bytes().data());
    for (std::size_t at = 0; at < walk_step_bytes; at += page) touch(file_->bytes(), at);
    faults = faults_that_read() - before;
  }).join();
  EXPECT_EQ(faults, 0);
}

TEST_F(DevicePages, a_thread_is_known_to_read_while_it_does) {
  expect_random_reads(file_->bytes());
  EXPECT_TRUE(device_reads::lately()) << "a thread begins as one that reads";
  static_cast<void>(device_reads::renewed());
  EXPECT_FALSE(device_reads::renewed());
  EXPECT_FALSE(device_reads::lately());
  touch(file_->bytes(), std::size_t{9} << 20);
  EXPECT_TRUE(device_reads::renewed());
  EXPECT_TRUE(device_reads::lately());
  touch(file_->bytes(), std::size_t{9} << 20);
  EXPECT_FALSE(device_reads::renewed()) << "the page is there";
  touch(file_->bytes(), std::size_t{11} << 20);
  bool told = false;
  for (int call = 0; call < 64 && !told; ++call) told = device_reads::lately();
  EXPECT_TRUE(told) << "64 calls have asked once";
}

TEST_F(DevicePages, that_are_in_memory_are_not_asked_for) {
  for (std::size_t at = 0; at < file_bytes; at += page) touch(file_->bytes(), at);
  static_cast<void>(device_reads::renewed());
  static_cast<void>(device_reads::renewed());
  for (std::size_t at = 0; at < file_bytes; at += walk_step_bytes) {
    walk_comes_to(file_->bytes(), file_->bytes().data() + at);
    EXPECT_FALSE(device_reads::lately());
  }
}

TEST(DevicePagesOfNothing, hints_for_no_bytes_do_nothing) {
  expect_random_reads({});
  ask_for({});
  const std::byte one{};
  walk_comes_to({&one, 1}, &one);
}

}  // namespace
}  // namespace icecore
