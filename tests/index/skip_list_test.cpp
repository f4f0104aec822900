// What only the skip list promises: how it is built, and how much memory it takes.
#include "index/skip_list/skip_list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "key_table.hpp"

namespace icecore::index {
namespace {

/// The numbers from 0 on as keys of 8 bytes.
class number_keys final : public key_source {
 public:
  explicit number_keys(std::uint64_t count) {
    bytes_.reserve(count * 8);
    for (std::uint64_t i = 0; i < count; ++i) bytes_ += big_endian(i);
  }
  [[nodiscard]] std::string_view key_of(link entry) const noexcept override {
    return std::string_view(bytes_).substr(entry - 8, 8);
  }
  void prefetch(link /*entry*/) const noexcept override {}

 private:
  std::string bytes_;
};

TEST(skip_list, is_built_right_where_towers_take_more_than_a_cache_line) {
  constexpr std::uint64_t count = (std::uint64_t{1} << 22) + 1000;  // one of 4^11 towers has 12 levels
  const number_keys source(count);
  std::vector<link> sorted(count);
  for (std::uint64_t i = 0; i < count; ++i) sorted[i] = (i + 1) * 8;
  skip_list list(source, std::make_shared<arena>(arena_options{}));
  list.build(sorted, 3);
  EXPECT_THAT(list.check(), testing::IsEmpty());
  EXPECT_EQ(list.size(), count);
  EXPECT_LT(list.memory_bytes(), count * 64 + 4096);
  for (std::uint64_t i = 0; i < count; i += 997) ASSERT_EQ(list.find(source.key_of(sorted[i])), sorted[i]);
  EXPECT_EQ(list.find(big_endian(count)), null_link);
}

}  // namespace
}  // namespace icecore::index
