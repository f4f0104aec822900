#include "pool/checked_word.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace icecore {
namespace {

RC_GTEST_PROP(checked_word, gives_its_number_back, (std::uint32_t seed, std::uint64_t number, std::uint64_t offset)) {
  number &= format::stamp_version_mask;
  const word_codec codec(seed);
  const std::uint64_t word = codec.encode(number, offset);
  RC_ASSERT((word & format::stamp_version_mask) == number);
  RC_ASSERT(codec.valid(word, offset));
  RC_ASSERT(codec.valid(word | format::stamp_persisted, offset));
}

RC_GTEST_PROP(checked_word, shows_every_single_flipped_bit,
              (std::uint32_t seed, std::uint64_t number, std::uint64_t offset)) {
  const word_codec codec(seed);
  const std::uint64_t word = codec.encode(number & format::stamp_version_mask, offset);
  for (unsigned bit = 0; bit < 63; ++bit) RC_ASSERT(!codec.valid(word ^ (std::uint64_t{1} << bit), offset));
}

TEST(checked_word, of_another_place_is_rarely_valid) {
  const word_codec codec(1);
  int valid = 0;
  for (std::uint64_t i = 1; i <= 10'000; ++i) valid += codec.valid(codec.encode(i, 64), 64 + 8 * i) ? 1 : 0;
  EXPECT_LT(valid, 5);  // 15 bits of check: one in 32,768 by chance
}

}  // namespace
}  // namespace icecore
