#include "base/checksum.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <string>

namespace icecore {
namespace {

TEST(checksum, is_the_published_crc32c) {
  // the check value of CRC-32C (RFC 3720, appendix B.4, and the CRC catalogue), which inverts before and after
  EXPECT_EQ(crc32c(0xffffffffU, "123456789", 9) ^ 0xffffffffU, 0xe3069283U);
  const std::string zeros(32, '\0');
  EXPECT_EQ(crc32c(0xffffffffU, zeros.data(), zeros.size()) ^ 0xffffffffU, 0x8a9136aaU);
}

RC_GTEST_PROP(checksum, is_the_same_with_and_without_the_instruction, (const std::string& data, std::uint32_t seed)) {
  RC_ASSERT(crc32c(seed, data.data(), data.size()) == crc32c_portable(seed, data.data(), data.size()));
}

TEST(checksum, of_long_data_is_the_same_with_and_without_the_instruction) {
  std::string data(20'000, '\0');
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(mix64(i));
  for (const std::size_t around : {1024U, 2048U, 3072U, 6144U, 9216U, 19'000U}) {
    for (std::size_t size = around - 9; size < around + 9; ++size) {
      for (const std::uint32_t seed : {0U, 1U, 0x80000000U, 0xffffffffU}) {
        EXPECT_EQ(crc32c(seed, data.data() + size % 7, size), crc32c_portable(seed, data.data() + size % 7, size))
            << size;
      }
    }
  }
}

RC_GTEST_PROP(checksum, of_a_word_is_that_of_its_bytes, (std::uint64_t word, std::uint32_t seed)) {
  RC_ASSERT(crc32c(seed, word) == crc32c(seed, &word, sizeof word));
}

RC_GTEST_PROP(checksum, can_be_undone, (const std::string& data, std::uint32_t start)) {
  const std::uint32_t after = crc32c(start, data.data(), data.size());
  RC_ASSERT(crc32c_before(after, crc32c(0, data.data(), data.size()), data.size()) == start);
}

TEST(checksum, of_long_data_can_be_undone) {
  std::string data(200'000, '\0');
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(mix64(i));
  for (const std::size_t size : {0U, 1U, 255U, 256U, 65'535U, 131'072U, 199'999U}) {
    const std::uint32_t start = static_cast<std::uint32_t>(mix64(size + 1));
    EXPECT_EQ(crc32c_before(crc32c(start, data.data(), size), crc32c(0, data.data(), size), size), start) << size;
  }
}

RC_GTEST_PROP(checksum, goes_on_where_it_stopped, (const std::string& a, const std::string& b, std::uint32_t seed)) {
  const std::string both = a + b;
  RC_ASSERT(crc32c(crc32c(seed, a.data(), a.size()), b.data(), b.size()) == crc32c(seed, both.data(), both.size()));
}

}  // namespace
}  // namespace icecore
