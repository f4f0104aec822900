// Mapping a file: it takes as many addresses as are available, and failures are reported.
#include "pool/file/mapping.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <new>

#include "base/memory/sanitizer.hpp"
#include "failing_calls.hpp"
#include "scratch_folder.hpp"

namespace icecore::testing {
namespace {

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;

/// Bytes of addresses that this process uses.
std::uint64_t address_space() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

class Mapping : public ::testing::Test {
 protected:
  Mapping() : descriptor_(::open((folder_ / "pool").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    EXPECT_EQ(ftruncate(descriptor_, 4 * mebibyte), 0);
  }
  ~Mapping() override { ::close(descriptor_); }

  scratch_folder folder_;
  int descriptor_;
};

TEST_F(Mapping, stays_where_it_is_while_it_grows) {
  mapping grown(descriptor_, "pool", 128 * mebibyte, mapping::kind::shared);
  grown.extend(mebibyte);
  std::byte* const base = grown.base();
  base[mebibyte - 1] = std::byte{7};
  grown.extend(4 * mebibyte);
  grown.extend(2 * mebibyte);  // it is mapped that far already
  EXPECT_EQ(grown.base(), base);
  EXPECT_EQ(grown.size(), 4 * mebibyte);
  base[4 * mebibyte - 1] = std::byte{9};
  EXPECT_EQ(base[mebibyte - 1], std::byte{7});
}

TEST_F(Mapping, takes_half_of_the_addresses_until_there_are_so_many) {
  constexpr std::uint64_t all = std::uint64_t{1} << 62;  // more than any processor has
  mapping smaller(descriptor_, "pool", all, mapping::kind::shared);
  EXPECT_LE(smaller.capacity(), all / 64);
  smaller.extend(mebibyte);
  smaller.base()[mebibyte - 1] = std::byte{7};
}

TEST_F(Mapping, lies_where_huge_pages_can_lie) {
  for (std::uint64_t mebibytes = 64; mebibytes <= 4096; mebibytes *= 4) {
    const mapping m(descriptor_, "pool", mebibytes * mebibyte, mapping::kind::shared);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(m.base()) % (2 * mebibyte), 0);
  }
}

TEST_F(Mapping, gives_all_its_addresses_back) {
  const auto opened_and_closed = [&] {
    mapping m(descriptor_, "pool", 4096 * mebibyte, mapping::kind::shared);
    m.extend(mebibyte);
  };
  opened_and_closed();  // libpmem2 keeps some memory of the first mapping
  const std::uint64_t before = address_space();
  for (int time = 0; time < 16; ++time) opened_and_closed();
  EXPECT_LE(address_space(), before + 16 * mebibyte);
}

#if !defined(ICECORE_UNDER_THREAD_SANITIZER) && !defined(ICECORE_UNDER_ADDRESS_SANITIZER)  // both need addresses too
TEST_F(Mapping, without_addresses_is_refused) {
  rlimit unlimited{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &unlimited), 0);
  const rlimit limited{address_space() + 32 * mebibyte, unlimited.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limited), 0);
  expect_failure(errc::io, "address space",
                 [&] { const mapping none(descriptor_, "pool", 1024 * mebibyte, mapping::kind::shared); });
  ASSERT_EQ(setrlimit(RLIMIT_AS, &unlimited), 0);
}
#endif

TEST_F(Mapping, of_what_cannot_be_mapped_is_reported) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  expect_failure(errc::io, "mmap failed",
                 [&] { const mapping none(ends[0], "pool", 64 * mebibyte, mapping::kind::shared); });
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(Mapping, beyond_its_addresses_is_refused_and_changes_nothing) {
  mapping small(descriptor_, "pool", 64 * mebibyte, mapping::kind::shared);
  small.extend(mebibyte);
  expect_failure(errc::no_space, "could be reserved", [&] { small.extend(65 * mebibyte); });
  EXPECT_EQ(small.size(), mebibyte);
}

TEST_F(Mapping, that_fails_is_reported_and_can_be_tried_again) {
  mapping grown(descriptor_, "pool", 64 * mebibyte, mapping::kind::shared);
  {
    const failing_call broken("pmem2_map_new", -EIO);
    expect_failure(errc::io, "pmem2_map_new failed", [&] { grown.extend(mebibyte); });
  }
  {
    const failing_call broken("pmem2_map_new", -ENOMEM);
    EXPECT_THROW(grown.extend(mebibyte), std::bad_alloc);
  }
  EXPECT_EQ(grown.size(), 0);
  grown.extend(mebibyte);
  EXPECT_EQ(grown.size(), mebibyte);
}

TEST_F(Mapping, a_file_that_is_closed_is_reported_and_can_be_tried_again) {
  mapping m(descriptor_, "pool", 64 * mebibyte, mapping::kind::shared);
  const int kept = dup(descriptor_);
  ::close(descriptor_);
  expect_failure(errc::io, "Bad file descriptor", [&] { m.extend(mebibyte); });
  EXPECT_EQ(m.size(), 0);
  ASSERT_EQ(dup2(kept, descriptor_), descriptor_);
  ::close(kept);
  m.extend(mebibyte);
  m.base()[mebibyte - 1] = std::byte{7};
}

TEST_F(Mapping, for_reading_sees_the_file_and_keeps_stores_to_itself) {
  mapping written(descriptor_, "pool", 64 * mebibyte, mapping::kind::shared);
  written.extend(4 * mebibyte);
  written.base()[0] = std::byte{7};
  written.base()[2 * mebibyte] = std::byte{8};
  mapping read(descriptor_, "pool", 64 * mebibyte, mapping::kind::own);
  read.extend(mebibyte);
  read.extend(4 * mebibyte);
  EXPECT_EQ(read.base()[0], std::byte{7});
  EXPECT_EQ(read.base()[2 * mebibyte], std::byte{8});
  read.base()[0] = std::byte{9};
  EXPECT_EQ(written.base()[0], std::byte{7});
}

TEST_F(Mapping, beside_a_writer_sees_what_others_store_and_cannot_be_stored_to) {
  mapping written(descriptor_, "pool", 64 * mebibyte, mapping::kind::shared);
  written.extend(4 * mebibyte);
  mapping seen(descriptor_, "pool", 64 * mebibyte, mapping::kind::observed);
  seen.extend(mebibyte);
  seen.extend(4 * mebibyte);
  written.base()[2 * mebibyte] = std::byte{8};
  EXPECT_EQ(seen.base()[2 * mebibyte], std::byte{8});
  EXPECT_DEATH(seen.base()[0] = std::byte{9}, "");
}

TEST_F(Mapping, growth_asks_libpmem2_for_no_memory) {
  mapping grown(descriptor_, "pool", 64 * mebibyte, mapping::kind::shared);
  grown.extend(mebibyte);
  const failing_call broken("pmem2_map_new", -ENOMEM);
  EXPECT_NO_THROW(grown.extend(2 * mebibyte));
}

}  // namespace
}  // namespace icecore::testing
