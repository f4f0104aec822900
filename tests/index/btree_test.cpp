// What only the B+-tree promises: how full its leaves are, and how rarely it reads keys.
#include "index/btree/btree.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "index_model.hpp"

namespace icecore::index {
namespace {

/// The number of links divided by the room for links in all blocks.
double fill_of(const ordered_index& tree) {
  block b;
  std::size_t blocks = 0;
  std::size_t links = 0;
  tree.seek_first(b);
  do {
    ++blocks;
    links += b.size;
  } while (tree.next_block(b));
  return static_cast<double>(links) / static_cast<double>(blocks * slot_count);
}

double fill_after_inserting(const keys& all) {
  key_table table(all.size());
  const auto tree = make_btree(table);
  for (const std::string& key : all) (void)tree->insert(key, table.add(key));
  return fill_of(*tree);
}

TEST(btree, ascending_and_descending_inserts_leave_full_leaves) {
  keys all;
  for (std::uint64_t i = 0; i < 20'000; ++i) all.push_back(big_endian(i));
  EXPECT_GT(fill_after_inserting(all), 0.98);
  std::ranges::reverse(all);
  EXPECT_GT(fill_after_inserting(all), 0.95);
}

TEST(btree, streams_that_ascend_side_by_side_leave_full_leaves) {
  keys all;
  for (std::uint64_t i = 0; i < 10'000; ++i) all.push_back("b/" + big_endian(i));
  for (std::uint64_t i = 0; i < 10'000; ++i) all.push_back("a/" + big_endian(i));
  EXPECT_GT(fill_after_inserting(all), 0.95);
}

TEST(btree, random_inserts_fill_leaves_by_two_thirds) {
  EXPECT_NEAR(fill_after_inserting(random_integers()), 0.69, 0.05);
}

/// Counts how often keys are read.
class counting_keys final : public key_source {
 public:
  explicit counting_keys(const key_source& source) : source_(source) {}
  [[nodiscard]] std::string_view key_of(link entry) const noexcept override {
    ++reads;
    return source_.key_of(entry);
  }
  void prefetch(link entry) const noexcept override { source_.prefetch(entry); }

  mutable std::size_t reads = 0;

 private:
  const key_source& source_;
};

TEST(btree, integer_keys_are_distinguished_by_their_heads) {
  const keys all = random_integers();
  key_table table(all.size());
  const counting_keys counted(table);
  const auto tree = make_btree(counted);
  for (const std::string& key : all) (void)tree->insert(key, table.add(key));
  EXPECT_LT(counted.reads, all.size() / 20);
  counted.reads = 0;
  for (const std::string& key : all) {
    ASSERT_NE(tree->find(key), null_link);
    (void)tree->find(key.substr(0, 7) + static_cast<char>(key[7] ^ 1));
  }
  EXPECT_EQ(counted.reads, 0U);
}

TEST(btree, shared_prefixes_are_left_out_of_heads) {
  keys all;
  for (int i = 0; i < 20'000; ++i) all.push_back("some/long/prefix/of/all/" + std::to_string(1'000'000 + i));
  std::ranges::shuffle(all, std::mt19937_64(5));
  key_table table(all.size());
  const counting_keys counted(table);
  const auto tree = make_btree(counted);
  for (const std::string& key : all) (void)tree->insert(key, table.add(key));
  counted.reads = 0;
  for (const std::string& key : all) ASSERT_NE(tree->find(key), null_link);
  // the key found, and the prefix of open nodes: the root on every path, the edges on few
  EXPECT_LT(counted.reads, all.size() * 5 / 2);
}

TEST(btree, a_small_one_takes_little_memory) {
  key_table table(1000);
  const auto tree = make_btree(table);
  EXPECT_LE(tree->memory_bytes(), 4096U);
  for (std::uint64_t i = 0; i < 1000; ++i) (void)tree->insert(big_endian(i), table.add(big_endian(i)));
  EXPECT_LE(tree->memory_bytes(), 1000U * 22);
}

}  // namespace
}  // namespace icecore::index
