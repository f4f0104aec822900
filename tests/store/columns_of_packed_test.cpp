// Columns of keys and values of 8 bytes, extracted from several strata and a young generation, from histories of many
// blocks, too: they hold what finds show.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "icecore/icecore.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

constexpr std::size_t width = sizeof(std::uint64_t);

/// How a store is packed.
struct packing {
  std::string name;
  compression compressed;
  unsigned strata;
  bool young;
  friend void PrintTo(const packing& p, std::ostream* out) { *out << p.name; }
};

class ColumnsOfPacked : public ::testing::TestWithParam<packing> {
 protected:
  ColumnsOfPacked() : store_(folder_ / "packed.ice") {
    write(9'000, 3'000);
    pack();
    for (unsigned more = 1; more < GetParam().strata; ++more) {
      write(600 / more, 0);
      pack();
    }
    if (GetParam().young) write(300, 0);
    EXPECT_EQ(store_.stats().strata, GetParam().strata);
  }

  unsigned below(unsigned end) { return static_cast<unsigned>(random_() % end); }
  [[nodiscard]] std::string bytes(std::uint64_t n) const {
    std::string all(width, '\0');
    std::memcpy(all.data(), &n, width);
    return all;
  }
  std::string any_key() { return "key" + std::to_string(10'000 + below(5'000)); }  // of 8 bytes

  /// Writes of any keys, and of one that so has a history of several blocks.
  void write(unsigned writes, unsigned deep) {
    for (unsigned i = 0; i < writes; ++i) {
      const std::string key = any_key();
      below(4) == 0 ? static_cast<void>(store_.remove(key)) : static_cast<void>(store_.insert(key, bytes(random_())));
      if (below(40) == 0) versions_.push_back(store_.tag());
      for (unsigned more = deep / writes + (below(writes) < deep % writes ? 1 : 0); more > 0; --more) {
        store_.insert("key12z00", bytes(random_()));
        if (below(3) == 0) store_.tag();
      }
    }
    versions_.push_back(store_.tag());
  }
  void pack() {
    compaction_options how;
    how.compression = GetParam().compressed;
    ASSERT_TRUE(store_.compact(how).packed);
  }
  /// What finds show in the version: keys, and values, back to back.
  std::pair<std::string, std::string> shown_in(version v) {
    std::pair<std::string, std::string> all;
    const snapshot then = store_.at(v);
    for (const std::string_view key : store_.keys()) {
      if (const auto found = then.find(key)) all.first.append(key), all.second.append(*found);
    }
    return all;
  }

  scratch folder_{place::tmpfs};
  std::mt19937_64 random_{7};
  store store_;
  std::vector<version> versions_;
};

TEST_P(ColumnsOfPacked, hold_what_finds_show) {
  std::ranges::shuffle(versions_, random_);
  const version newest = *std::ranges::max_element(versions_);
  versions_.resize(std::min<std::size_t>(versions_.size(), 25));
  versions_.push_back(newest);
  for (const version v : versions_) {
    const auto [keys, values] = shown_in(v);
    const std::size_t count = keys.size() / width;
    for (const unsigned threads : {1U, 3U}) {
      for (const std::size_t room : {count, count + 1, count + 5'000}) {
        std::string found_keys(room * width, '-');
        std::string found_values(room * width, '-');
        const snapshot then = store_.at(v);
        ASSERT_EQ(then.extract({found_keys.data(), width, found_values.data(), width, room}, threads), count);
        ASSERT_EQ(found_keys.substr(0, keys.size()), keys) << "version " << v;
        ASSERT_EQ(found_values.substr(0, values.size()), values) << "version " << v;
        std::string alone(room * width, '-');
        ASSERT_EQ(then.extract({.values = alone.data(), .value_size = width, .capacity = room}, threads), count);
        ASSERT_EQ(alone.substr(0, values.size()), values) << "version " << v;
        ASSERT_EQ(then.extract({.keys = alone.data(), .key_size = width, .capacity = room}, threads), count);
        ASSERT_EQ(alone.substr(0, keys.size()), keys) << "version " << v;
      }
      ASSERT_EQ(store_.at(v).size(threads), count);
    }
  }
}

TEST_P(ColumnsOfPacked, that_are_too_short_or_of_another_size_are_refused) {
  const snapshot then = store_.at(versions_.back());
  const std::size_t count = then.size();
  std::string keys(count * 2 * width, '-');
  std::string values(count * 2 * width, '-');
  for (const unsigned threads : {1U, 3U}) {
    EXPECT_THROW(static_cast<void>(then.extract({keys.data(), width, values.data(), width, count - 1}, threads)),
                 error);
    EXPECT_THROW(static_cast<void>(then.extract({keys.data(), width, values.data(), 7, count}, threads)), error);
    EXPECT_THROW(static_cast<void>(then.extract({keys.data(), 9, values.data(), width, count}, threads)), error);
  }
}

TEST_P(ColumnsOfPacked, of_a_page_hold_what_comes_next) {
  for (const version v : {versions_.front(), versions_[versions_.size() / 2], versions_.back()}) {
    const auto [keys, values] = shown_in(v);
    const std::size_t count = keys.size() / width;
    const snapshot then = store_.at(v);
    for (const std::size_t room : {std::size_t{1}, std::size_t{7}, std::size_t{100}, count, count + 1}) {
      for (unsigned i = 0; i < 60; ++i) {
        const std::string from = i == 0 ? std::string() : any_key() + (below(2) == 0 ? std::string(1, '\0') : "");
        std::size_t first = 0;
        while (first < count && std::string_view(keys).substr(first * width, width) < from) ++first;
        const std::size_t expected = std::min(room, count - first);
        std::string found_keys(room * width, '-');
        std::string found_values((room + 1) * width, '-');
        ASSERT_EQ(then.extract_page(from, {found_keys.data(), width, found_values.data(), width, room}), expected);
        ASSERT_EQ(found_keys.substr(0, expected * width), keys.substr(first * width, expected * width));
        ASSERT_EQ(found_values.substr(0, expected * width), values.substr(first * width, expected * width));
        ASSERT_EQ(found_values.substr(room * width), std::string(width, '-')) << "nothing is written behind the room";
        std::string alone(room * width, '-');
        ASSERT_EQ(then.extract_page(from, {.keys = alone.data(), .key_size = width, .capacity = room}), expected);
        ASSERT_EQ(alone.substr(0, expected * width), keys.substr(first * width, expected * width));
      }
    }
    EXPECT_EQ(then.extract_page("", {}), 0U) << "no room";
    EXPECT_EQ(then.extract_page("z", {.capacity = 5}), 0U) << "behind the last key";
  }
}

TEST(ColumnsOfAPage, of_a_store_that_is_not_packed_hold_what_comes_next) {
  for (const index_kind index : {index_kind::btree, index_kind::hash, index_kind::persistent}) {
    const scratch folder(place::tmpfs);
    options how;
    how.index = index;
    store s(folder / "young.ice", how);
    for (unsigned i = 0; i < 300; ++i) s.insert("key" + std::to_string(10'000 + i), "value" + std::to_string(100 + i));
    s.remove("key10005");
    const snapshot then = s.latest();
    std::string keys(200 * width, '-');
    ASSERT_EQ(then.extract_page("key10003", {keys.data(), width, nullptr, 0, 200}), 200U);
    EXPECT_EQ(keys.substr(0, 3 * width), "key10003key10004key10006");
    ASSERT_EQ(then.extract_page("key10298", {keys.data(), width, nullptr, 0, 200}), 2U);
    EXPECT_THROW(static_cast<void>(then.extract_page("", {keys.data(), width, keys.data(), 3, 1})), error);
  }
}

/// A value of another size, and so a block that cannot be copied.
TEST_P(ColumnsOfPacked, tell_of_one_value_of_another_size) {
  const version before = store_.tag();
  store_.insert("key12345", "short");
  const version with = store_.tag();
  store_.insert("key12345", bytes(1));
  const version behind = store_.tag();
  pack();
  std::string keys(6'000 * width, '-');
  std::string values(6'000 * width, '-');
  for (const unsigned threads : {1U, 3U}) {
    const fixed_columns out{keys.data(), width, values.data(), width, 6'000};
    EXPECT_THROW(static_cast<void>(store_.at(with).extract(out, threads)), error);
    for (const version v : {before, behind}) {
      const auto [shown_keys, shown_values] = shown_in(v);
      ASSERT_EQ(store_.at(v).extract(out, threads) * width, shown_keys.size());
      ASSERT_EQ(keys.substr(0, shown_keys.size()), shown_keys);
      ASSERT_EQ(values.substr(0, shown_values.size()), shown_values);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Each, ColumnsOfPacked,
                         ::testing::Values(packing{"one_stratum", compression::none, 1, false},
                                           packing{"compressed", compression::zstd, 1, false},
                                           packing{"young_keys", compression::none, 1, true},
                                           packing{"strata", compression::none, 2, false},
                                           packing{"strata_and_young_keys", compression::zstd, 2, true}),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace icecore::testing
