// Mapping a file: as many addresses as there are, and what fails is told.
#include "pool/mapping.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <new>

#include "failing_calls.hpp"
#include "scratch_folder.hpp"

namespace icecore::testing {
namespace {

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;

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
  mapping grown(descriptor_, "pool", 128 * mebibyte, true);
  grown.extend(mebibyte);
  std::byte* const base = grown.base();
  base[mebibyte - 1] = std::byte{7};
  grown.extend(4 * mebibyte);
  grown.extend(2 * mebibyte);  // it has that already
  EXPECT_EQ(grown.base(), base);
  EXPECT_EQ(grown.size(), 4 * mebibyte);
  base[4 * mebibyte - 1] = std::byte{9};
  EXPECT_EQ(base[mebibyte - 1], std::byte{7});
}

TEST_F(Mapping, takes_half_of_the_addresses_until_there_are_so_many) {
  const failing_call scarce("pmem2_vm_reservation_new", -ENOMEM, {.times = 3});
  const mapping smaller(descriptor_, "pool", 1024 * mebibyte, true);
  EXPECT_EQ(smaller.capacity(), 128 * mebibyte);
}

TEST_F(Mapping, without_addresses_is_refused) {
  const failing_call scarce("pmem2_vm_reservation_new", -ENOMEM);
  expect_failure(errc::io, "address space", [&] { const mapping none(descriptor_, "pool", 1024 * mebibyte, true); });
}

TEST_F(Mapping, beyond_its_addresses_is_refused_and_changes_nothing) {
  mapping small(descriptor_, "pool", 64 * mebibyte, true);
  small.extend(mebibyte);
  expect_failure(errc::no_space, "could be reserved", [&] { small.extend(65 * mebibyte); });
  EXPECT_EQ(small.size(), mebibyte);
}

TEST_F(Mapping, that_fails_is_told_and_can_be_tried_again) {
  mapping grown(descriptor_, "pool", 64 * mebibyte, true);
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

TEST_F(Mapping, growth_that_fails_is_told_and_can_be_tried_again) {
  mapping grown(descriptor_, "pool", 64 * mebibyte, true);
  grown.extend(mebibyte);
  const int kept = dup(descriptor_);
  ::close(descriptor_);
  expect_failure(errc::io, "mmap", [&] { grown.extend(2 * mebibyte); });
  EXPECT_EQ(grown.size(), mebibyte);
  ASSERT_EQ(dup2(kept, descriptor_), descriptor_);
  ::close(kept);
  grown.extend(2 * mebibyte);
  grown.base()[2 * mebibyte - 1] = std::byte{7};
  EXPECT_EQ(grown.size(), 2 * mebibyte);
}

TEST_F(Mapping, growth_asks_libpmem2_for_no_memory) {
  mapping grown(descriptor_, "pool", 64 * mebibyte, true);
  grown.extend(mebibyte);
  const failing_call broken("pmem2_map_new", -ENOMEM);
  EXPECT_NO_THROW(grown.extend(2 * mebibyte));
}

}  // namespace
}  // namespace icecore::testing
