// A block takes the room that its content needs, and its values begin where a reader wants them.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>

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

/// Keys and values of 8 bytes, with histories of up to `most` records over a span of versions.
histories_model histories_of_words(std::mt19937_64& random, std::size_t keys, std::size_t most, version span,
                                   unsigned removed_of_8) {
  histories_model model;
  while (model.size() < keys) {
    std::map<version, std::optional<std::string>, std::greater<>> history;
    const std::size_t records = 1 + random() % most;
    while (history.size() < records) {
      history[1 + random() % span] =
          random() % 8 < removed_of_8 ? std::nullopt : std::optional(random_bytes(random, sizeof(std::uint64_t)));
    }
    model[random_bytes(random, sizeof(std::uint64_t))].assign(history.begin(), history.end());
  }
  return model;
}

TEST(Blocks, copy_to_columns_what_a_version_shows) {
  constexpr std::size_t width = sizeof(std::uint64_t);
  std::mt19937_64 random(11);
  for (unsigned round = 0; round < 200; ++round) {
    const std::size_t most = std::array<std::size_t, 4>{1, 2, 3, 40}[round % 4];
    const version span = std::array<version, 5>{50, 200, 60'000, version{1} << 30, version_max}[round % 5];
    const histories_model model = histories_of_words(random, 1 + random() % 90, most, span, round % 3);
    block_builder built;
    for (const auto& [key, history] : model) {
      for (const auto& one : history) built.add(key, as_record(one));
    }
    written w(built);
    const block b = w.get();
    if (!b.copies_to_columns(width, width)) {
      EXPECT_EQ(b.header().value_size, 0);  // of removals alone
      continue;
    }
    std::vector<version> versions{0, b.header().least - 1, b.header().least, b.header().greatest, version_max};
    for (unsigned i = 0; i < 12; ++i) versions.push_back(1 + random() % span);
    for (const version v : versions) {
      const auto first = static_cast<std::uint32_t>(random() % 3 == 0 ? 0 : random() % (b.keys() + 1));
      const auto end =
          static_cast<std::uint32_t>(random() % 3 == 0 ? b.keys() : first + random() % (b.keys() + 1 - first));
      std::string expected_keys;
      std::string expected_values;
      for (std::uint32_t i = first; i < end; ++i) {
        const auto r = b.newest_at(i, v);
        if (!r || r->is_removal()) continue;
        expected_keys += b.key(i);
        expected_values += r->value;
      }
      const std::size_t room = end > first ? (end - first) * width : 0;  // no byte more may be written
      std::vector<std::byte> keys(room);
      std::vector<std::byte> values(room);
      const std::size_t count = b.copy_shown(v, first, end, {keys.data(), values.data()});
      const auto text = [&](const std::vector<std::byte>& of) {
        return std::string(reinterpret_cast<const char*>(of.data()), count * width);
      };
      ASSERT_EQ(count * width, expected_keys.size()) << "round " << round << ", version " << v;
      ASSERT_EQ(text(keys), expected_keys) << "round " << round << ", version " << v;
      ASSERT_EQ(text(values), expected_values) << "round " << round << ", version " << v;
    }
  }
}

TEST(Blocks, of_other_sizes_are_not_copied_to_columns) {
  const auto copies = [](std::string_view key, std::initializer_list<std::string_view> values) {
    block_builder built;
    version v = 100;
    for (const std::string_view value : values) built.add(key, value_of(v--, value));
    written w(built);
    return w.get().copies_to_columns(8, 8);
  };
  EXPECT_TRUE(copies("12345678", {"12345678"}));
  EXPECT_TRUE(copies("12345678", {"12345678", "abcdefgh"}));
  EXPECT_FALSE(copies("1234567", {"12345678"}));
  EXPECT_FALSE(copies("123456789", {"12345678"}));
  EXPECT_FALSE(copies("12345678", {"1234567"}));
  EXPECT_FALSE(copies("12345678", {"12345678", "1234567"}));
}

}  // namespace
}  // namespace icecore::stratum
