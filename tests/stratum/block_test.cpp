// A block takes the room that its content needs, and its values begin where a reader wants them.
#include <gtest/gtest.h>

#include "packed_model.hpp"
#include "stratum/block/block_builder.hpp"

namespace icecore::stratum {
namespace {

struct written {
  explicit written(const block_builder& b) : memory(b.size()), size(b.size()) {
    size = b.write(memory.get().data(), 5);
    EXPECT_EQ(block::check(memory.get().data(), size, 5), nullptr);
  }
  [[nodiscard]] block get() { return block(memory.get().data()); }
  aligned_bytes memory;
  std::uint64_t size;
};

[[nodiscard]] packed_record value_of(version v, std::string_view value) {
  return {v, format::packed_kind::value, value};
}

TEST(Blocks, long_values_begin_at_multiples_of_eight) {
  block_builder b;
  for (char c = 'a'; c < 'k'; ++c)
    b.add(std::string(3, c), value_of(1, std::string(33U + static_cast<unsigned>(c), c)));
  written w(b);
  for (std::uint32_t i = 0; i < w.get().keys(); ++i) {
    const std::string_view value = w.get().newest_at(i, version_max)->value;
    EXPECT_EQ(value, std::string(33 + 'a' + i, static_cast<char>('a' + i)));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(value.data()) % 8, 0);
  }
}

TEST(Blocks, take_a_slot_a_key_and_a_row_a_record) {
  block_builder even;
  block_builder uneven;
  for (std::uint32_t i = 0; i < 100; ++i) {
    const std::string key{'k', static_cast<char>(i)};
    even.add(key, value_of(2, "12345678"));
    if (i % 2 == 0) uneven.add(key, {.stamped = 3, .kind = format::packed_kind::removal, .value = {}});
    uneven.add(key, value_of(2, "12345678"));
  }
  EXPECT_EQ(written(even).size, (64 + 100 * (2 + 1 + 8) + 16 + 63) / 64 * 64);
  EXPECT_EQ(written(uneven).size, (64 + 100 * (2 + 2 + 1 + 8) + 50 * 1 + 16 + 63) / 64 * 64);
  written w(uneven);
  EXPECT_TRUE(w.get().newest_at(0, 9)->is_removal());
  EXPECT_EQ(w.get().newest_at(0, 2)->value, "12345678");
  EXPECT_EQ(w.get().newest_at(1, 9)->value, "12345678");
}

TEST(Blocks, the_last_key_moves_with_its_records) {
  block_builder b;
  block_builder next;
  b.add("a", value_of(9, "nine"));
  b.add("a", value_of(4, "four"));
  const std::uint64_t before = b.size();
  b.add("bb", value_of(7, "seven"));
  b.add("bb", {.stamped = 6, .kind = format::packed_kind::removal, .value = {}});
  b.move_last_key(next);
  EXPECT_EQ(b.size(), before);
  written left(b);
  written right(next);
  EXPECT_EQ(left.get().keys(), 1);
  EXPECT_EQ(left.get().newest_at(0, 8)->value, "four");
  EXPECT_EQ(right.get().key(0), "bb");
  EXPECT_EQ(right.get().newest_at(0, 9)->value, "seven");
  EXPECT_TRUE(right.get().newest_at(0, 6)->is_removal());
  EXPECT_EQ(right.get().header().least, 6);
  EXPECT_EQ(right.get().header().greatest, 7);
}

TEST(Blocks, the_widest_versions_fit) {
  block_builder b;
  b.add("k", value_of(version_max, "new"));
  b.add("k", value_of(1, "old"));
  written w(b);
  EXPECT_EQ(w.get().newest_at(0, version_max)->stamped, version_max);
  EXPECT_EQ(w.get().newest_at(0, version_max - 1)->value, "old");
}

}  // namespace
}  // namespace icecore::stratum
