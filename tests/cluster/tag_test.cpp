// Tags: one number, one cut, on all ranks.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "support/ranks.hpp"

namespace icecore::testing {
namespace {

using ::testing::HasSubstr;

class Tag : public ClusterTest {};

TEST_F(Tag, has_one_number_on_all_ranks) {
  cluster c(MPI_COMM_WORLD, path());
  for (int i = 0; i < 20; ++i) {
    const version open = c.clock();
    EXPECT_EQ(open, of_rank_0(open));
    if (i % 3 == rank()) c.insert("a", std::to_string(i));
    const version v = c.tag();
    EXPECT_EQ(v, open);
    EXPECT_EQ(c.local().clock(), v + 1);
    EXPECT_EQ(c.clock(), v + 1);
  }
  c.close();
}

TEST_F(Tag, covers_what_was_staged_before_and_nothing_after) {
  cluster c(MPI_COMM_WORLD, path());
  std::vector<std::string> keys;
  for (int r = 0; r < ranks(); ++r) keys.push_back(key_of(c, r, rank()));
  std::vector<version> tags;
  for (int i = 0; i < 5; ++i) {
    for (const std::string& key : keys) c.insert(key, std::to_string(i));
    tags.push_back(c.tag());
  }
  for (const std::string& key : keys) c.insert(key, "after");
  c.barrier();
  for (std::size_t i = 0; i < tags.size(); ++i) {
    for (int r = 0; r < ranks(); ++r) {
      for (int owner = 0; owner < ranks(); ++owner) {
        ASSERT_EQ(c.find(key_of(c, owner, r), tags[i]), std::to_string(i));
      }
    }
  }
  c.close();
}

TEST_F(Tag, has_a_name_a_note_and_a_time_once) {
  cluster c(MPI_COMM_WORLD, path());
  c.insert("key", "then");
  c.barrier();
  const version first = c.tag({"first", "said by all, kept by rank 0", 42});
  if (rank() == 0) c.insert("key", "now");
  const version second = c.tag("second");
  const thrown reported = error_of([&] { c.tag("first"); });
  EXPECT_EQ(reported.code, errc::tag_exists);
  EXPECT_THAT(reported.message, HasSubstr("'first'"));
  EXPECT_EQ(c.clock(), second + 1) << "a name that is taken closes nothing";
  EXPECT_EQ(error_of([&] { c.tag(std::string(65'536, 'n')); }).code, errc::invalid_argument);
  ASSERT_EQ(c.tags().size(), 2U);
  const auto found = c.find_tag("first");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->version, first);
  EXPECT_EQ(found->time_ns, 42);
  EXPECT_EQ(found->note, "said by all, kept by rank 0");
  EXPECT_EQ(c.at("first").find("key"), "then");
  EXPECT_EQ(c.at("second").find("key"), "now");
  EXPECT_FALSE(c.find_tag("third").has_value());
  EXPECT_EQ(error_of([&] { static_cast<void>(c.at("third")); }).code, errc::unknown_tag);
  c.close();

  cluster again(MPI_COMM_WORLD, path());
  EXPECT_EQ(again.clock(), second + 1) << "the clock goes on where it was";
  EXPECT_EQ(again.at("first").find("key"), "then");
  again.close();
}

/// A writer writes x at one owner and then y at another, over and over; no tag may show y without its x.
void writers_against_tags(const std::filesystem::path& path, consistency mode) {
  cluster_options o = small_buffers(mode);
  o.ownership = ownership::by_function("first-byte", [](std::string_view key, int) { return key[0] - '0'; });
  cluster c(MPI_COMM_WORLD, path, o);
  const auto key_at = [](int owner) { return std::to_string(owner) + "/" + std::to_string(rank()); };
  const std::string x = key_at(rank());
  const std::string y = key_at((rank() + 1) % ranks());
  std::atomic<bool> stopping{false};
  int written = 0;
  std::thread writer([&] {
    while (!stopping.load()) {
      ++written;
      const bool forth = written % 2 == 0;  // so that each of the two owners is first at times
      c.insert((forth ? x : y) + "/first", std::to_string(written));
      c.insert((forth ? y : x) + "/second", std::to_string(written));
      c.insert(x + "/both", std::to_string(written));
      c.insert(y + "/both", std::to_string(written));
    }
  });
  std::vector<version> tags;
  for (int i = 0; i < (long_tests ? 2000 : 60); ++i) tags.push_back(c.tag());
  stopping = true;
  writer.join();
  c.barrier();
  const auto number = [&](const std::string& key, version at) {
    const auto found = c.find(key, at);
    return found ? std::stoi(*found) : 0;
  };
  for (const version v : tags) {
    const int forth_first = number(x + "/first", v);
    const int forth_second = number(y + "/second", v);
    ASSERT_GE(forth_first, forth_second) << "version " << v;
    ASSERT_LE(forth_first, forth_second + 2) << "one write may be under way";
    const int back_first = number(y + "/first", v);
    const int back_second = number(x + "/second", v);
    ASSERT_GE(back_first, back_second) << "version " << v;
    const int both = number(x + "/both", v);
    ASSERT_GE(both, number(y + "/both", v)) << "version " << v;
    ASSERT_GE(std::max(forth_second, back_second), both);
  }
  c.close();
}

TEST_F(Tag, never_shows_a_write_without_the_one_before_it_sequential) {
  if (std::getenv("ICECORE_TEST_SINGLE") != nullptr) GTEST_SKIP() << "MPI allows one thread";
  writers_against_tags(path(), consistency::sequential);
}

TEST_F(Tag, never_shows_a_write_without_the_one_before_it_relaxed) {
  if (std::getenv("ICECORE_TEST_SINGLE") != nullptr) GTEST_SKIP() << "MPI allows one thread";
  writers_against_tags(path(), consistency::relaxed);
}

TEST_F(Tag, a_clock_that_one_rank_moved_is_caught_up_with) {
  cluster c(MPI_COMM_WORLD, path());
  if (rank() == 0) c.insert(key_of(c, 0), "x");
  if (rank() == 0) static_cast<void>(c.local().latest());  // which the page tells not to do
  const version v = c.tag();
  EXPECT_EQ(v, of_rank_0(v));
  EXPECT_EQ(c.local().clock(), v + 1);
  EXPECT_EQ(c.at(v).size(), 1U);
  c.close();
}

}  // namespace
}  // namespace icecore::testing
