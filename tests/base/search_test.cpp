#include "base/search.hpp"

#include <gtest/gtest.h>

namespace icecore {
namespace {

TEST(Search, counts_the_places_before_the_first_that_does_not_hold) {
  for (std::uint32_t count = 0; count <= 40; ++count) {
    for (std::uint32_t holding = 0; holding <= count; ++holding) {
      const auto holds = [&](std::uint32_t i) {
        EXPECT_LT(i, count);
        return i < holding;
      };
      EXPECT_EQ(count_while(count, holds), holding) << "of " << count;
      if (count == 16) {
        EXPECT_EQ(count_while_of_16(holds), holding);
      }
    }
  }
}

}  // namespace
}  // namespace icecore
