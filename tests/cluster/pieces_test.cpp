// Answers longer than a message should be: they come in pieces, whole and in order, and the owner's memory is bounded.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/faults.hpp"
#include "support/ranks.hpp"

namespace icecore {
namespace {

using testing::faults;
using testing::key_of;
using testing::rank;
using testing::ranks;

constexpr std::size_t mebibyte = std::size_t{1} << 20;
constexpr std::size_t owner_bytes_max = 16 * mebibyte;

using Pieces = testing::ClusterTest;

cluster_options by_messages() {
  cluster_options o;
  o.group_size = 1;
  o.store.durability = durability::none;
  return o;
}

std::vector<versioned_value> history_at_owner(const cluster& c, std::string_view key) {
  std::vector<versioned_value> past;
  for (const change& each : c.local().history(key))
    past.push_back({each.version, std::optional<std::string>(each.value)});
  return past;
}

TEST_F(Pieces, of_a_history_are_whole_and_in_order) {
  cluster c(MPI_COMM_WORLD, path(), by_messages());
  const int owner = ranks() - 1;
  const std::string key = key_of(c, owner);
  if (rank() == owner) {
    c.insert(key, "");
    c.insert(key, std::string(4 * mebibyte, 'a'));  // as long as a piece
    c.remove(key);
    c.insert(key, std::string(11 * mebibyte, 'b'));  // three pieces of its own
    for (int i = 0; i < 50; ++i) c.insert(key, std::string(200'000, static_cast<char>('c' + i)));
  }
  c.tag();
  if (rank() == owner) {
    c.insert(key, std::string(9 * mebibyte, 'y'));
    c.insert(key, "z");
  }
  c.barrier();
  faults::forget_sends();
  MPI_Barrier(MPI_COMM_WORLD);
  const std::vector<versioned_value> past = c.history(key);
  c.barrier();
  EXPECT_LE(faults::longest_send(), owner_bytes_max / 2);
  if (rank() == owner) {
    EXPECT_EQ(past, history_at_owner(c, key));
    EXPECT_EQ(past.size(), 56U);
  } else {
    ASSERT_EQ(past.size(), 56U);
    EXPECT_EQ(past[0].value, "z");
    EXPECT_EQ(past[1].value, std::string(9 * mebibyte, 'y'));
    for (std::size_t i = 0; i < 50; ++i) {
      EXPECT_EQ(past[2 + i].value, std::string(200'000, static_cast<char>('c' + 49 - static_cast<int>(i)))) << i;
    }
    EXPECT_EQ(past[52].value, std::string(11 * mebibyte, 'b'));
    EXPECT_EQ(past[53].value, std::nullopt);
    EXPECT_EQ(past[54].value, std::string(4 * mebibyte, 'a'));
    EXPECT_EQ(past[55].value, "");
  }
  EXPECT_TRUE(c.history(key_of(c, owner, 1)).empty());
  c.close();
}

TEST_F(Pieces, of_a_history_fit_together_while_it_grows) {
  cluster c(MPI_COMM_WORLD, path(), by_messages());
  const int owner = ranks() - 1;
  const std::string key = key_of(c, owner);
  constexpr int first = 60;
  const auto value_of = [](int number) { return std::to_string(number) + std::string(200'000, 'v'); };
  if (rank() == owner) {
    for (int i = 0; i < first; ++i) c.insert(key, value_of(i));  // all of one version
  }
  c.barrier();
  std::atomic<bool> read{false};
  std::thread writer([&] {
    for (int i = first; rank() == owner && !read.load() && i < 4 * first; ++i) c.insert(key, value_of(i));
  });
  const std::vector<versioned_value> past = c.history(key);
  read.store(true);
  writer.join();
  EXPECT_GE(past.size(), static_cast<std::size_t>(first));
  for (std::size_t i = 0; i < past.size(); ++i) {
    EXPECT_EQ(past[i].value, value_of(static_cast<int>(past.size() - 1 - i))) << i;
  }
  c.close();
}

TEST_F(Pieces, of_the_tags_are_whole_and_in_order) {
  cluster c(MPI_COMM_WORLD, path(), by_messages());
  constexpr int count = 90;
  for (int i = 0; i < count; ++i) c.tag("tag-" + std::to_string(i), std::string(60'000, static_cast<char>('!' + i)));
  faults::forget_sends();
  MPI_Barrier(MPI_COMM_WORLD);
  const std::vector<tag_info> all = c.tags();
  c.barrier();
  EXPECT_LE(faults::longest_send(), owner_bytes_max / 2);
  ASSERT_EQ(all.size(), static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    const tag_info& each = all[static_cast<std::size_t>(i)];
    EXPECT_EQ(each.name, "tag-" + std::to_string(i));
    EXPECT_EQ(each.note, std::string(60'000, static_cast<char>('!' + i)));
  }
  EXPECT_EQ(c.find_tag("tag-7")->version, all[7].version);
  EXPECT_FALSE(c.find_tag("no such tag"));
  c.close();
}

// Blocks of a cursor: the first is small, and what is asked for ahead is nobody's when the cluster closes.
TEST_F(Pieces, of_a_cursor_grow_from_a_small_one) {
  cluster c(MPI_COMM_WORLD, path(), by_messages());
  constexpr int count = 3000;
  for (int i = 0; i < count; ++i) c.insert(key_of(c, rank(), i), std::string(1000, 'v'));
  const cluster_snapshot then = c.at(c.tag());
  faults::forget_sends();
  c.barrier();
  cluster_cursor at = then.cursor();
  at.seek_first();
  ASSERT_TRUE(at.valid());
  c.barrier();
  EXPECT_LE(faults::longest_send(), 4'000U) << "for who wants one item";
  MPI_Barrier(MPI_COMM_WORLD);  // the next blocks are longer, and another rank may ask this one for them
  std::size_t seen = 0;
  for (; at.valid(); at.next()) ++seen;
  EXPECT_EQ(seen, static_cast<std::size_t>(count) * static_cast<std::size_t>(ranks()));
  c.barrier();
  EXPECT_GE(ranks() == 1 ? 200'000U : faults::longest_send(), 200'000U) << "for who wants all";
  EXPECT_LE(faults::longest_send(), 300'000U);
  c.close();
}

TEST_F(Pieces, of_a_cursor_that_seeks_a_key_come_from_its_owner_alone_until_it_goes_on) {
  cluster c(MPI_COMM_WORLD, path(), by_messages());
  constexpr int count = 50;
  for (int i = 0; i < count; ++i) c.insert(key_of(c, rank(), i), "value");
  const cluster_snapshot then = c.at(c.tag());
  const int owner = ranks() - 1;
  const std::string sought = key_of(c, owner, 7);
  cluster_cursor at = then.cursor();
  MPI_Barrier(MPI_COMM_WORLD);  // an answer that a slower rank still waits for is sent before
  faults::forget_sends();
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank() == 0) at.seek(sought);
  MPI_Barrier(MPI_COMM_WORLD);
  const bool talks = ranks() > 1 && (rank() == 0 || rank() == owner);
  EXPECT_EQ(faults::longest_send() > 0, talks);
  MPI_Barrier(MPI_COMM_WORLD);  // rank 0 goes on, and asks the others, only when each has looked
  if (rank() == 0) {
    std::vector<std::string> shown;
    for (; at.valid(); at.next()) shown.emplace_back(at->key);
    std::vector<std::string> expected;
    for (int i = 0; i < count * ranks(); ++i) {
      std::string key = key_of(c, i / count, i % count);
      if (key >= sought) expected.push_back(std::move(key));
    }
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(shown, expected);
  }
  c.barrier();
  c.close();
}

// A function of the caller's knows whole keys; what is sought may be the beginning of one.
TEST_F(Pieces, of_a_cursor_never_make_it_ask_a_function_whose_bytes_are_that_are_no_key) {
  cluster_options o = by_messages();
  constexpr std::size_t key_size = 5;
  o.ownership = ownership::by_function("whole-keys", [](std::string_view key, int ranks) {
    if (key.size() != key_size) throw std::invalid_argument("no key");
    return key.back() % ranks;
  });
  cluster c(MPI_COMM_WORLD, path(), o);
  if (rank() == 0) {
    for (const char last : {'0', '1', '2', '3'}) c.insert(std::string("key-") + last, "value");
  }
  const cluster_snapshot then = c.at(c.tag());
  cluster_cursor at = then.cursor();
  std::string shown;
  for (at.seek("key-"); at.valid(); at.next()) shown += at->key.back();
  EXPECT_EQ(shown, "0123");
  at.seek("key-2");
  ASSERT_TRUE(at.valid());
  EXPECT_EQ(at->key, "key-2");
  c.barrier();
  c.close();
}

TEST_F(Pieces, that_a_cursor_asked_for_ahead_do_not_outlive_the_cluster) {
  std::optional<cluster_cursor> at;
  cluster c(MPI_COMM_WORLD, path(), by_messages());
  for (int i = 0; i < 300; ++i) c.insert(key_of(c, rank(), i), std::string(1000, 'v'));
  at.emplace(c.at(c.tag()).cursor());
  at->seek_first();
  for (int i = 0; i < 2 * ranks(); ++i) at->next();
  c.close();
  at.reset();
}

}  // namespace
}  // namespace icecore
