// What a cluster may be used for at the moment.
#include <gmock/gmock.h>

#include "support/ranks.hpp"

namespace icecore::testing {
namespace {

using ::testing::HasSubstr;

class Protection : public ClusterTest {
 protected:
  static int next() { return (rank() + 1) % ranks(); }
};

TEST_F(Protection, read_only_refuses_writes_and_reads_as_before) {
  cluster c(MPI_COMM_WORLD, path());
  const std::string key = key_of(c, next(), rank());
  c.insert(key, "1");
  c.protect(protection::read_only);
  EXPECT_EQ(c.protection(), protection::read_only);
  EXPECT_EQ(error_of([&] { c.insert(key, "2"); }).code, errc::protection);
  EXPECT_EQ(error_of([&] { c.remove(key); }).code, errc::protection);
  EXPECT_EQ(error_of([&] { c.insert_many({}); }).code, errc::protection);
  batch one;
  one.insert(key, "2");
  EXPECT_EQ(error_of([&] { c.apply(one); }).code, errc::protection);
  for (int times = 0; times < 3; ++times) {  // from its owner, then from the cache
    EXPECT_EQ(c.find(key), "1");
    EXPECT_EQ(c.find("not there"), std::nullopt);
  }
  c.protect(protection::read_write);
  c.insert(key, "2");
  c.barrier();
  for (int r = 0; r < ranks(); ++r) EXPECT_EQ(c.find(key_of(c, (r + 1) % ranks(), r)), "2") << "never from the cache";
  c.close();
}

TEST_F(Protection, read_only_shows_a_value_of_another_rank_twice_where_it_came) {
  cluster c(MPI_COMM_WORLD, path());
  const std::string key = key_of(c, next(), rank());
  const std::string value(200'000, static_cast<char>('a' + rank()));
  c.insert(key, value);
  c.protect(protection::read_only);
  const void* seen[2] = {};
  for (const void*& at : seen) {
    EXPECT_TRUE(c.visit(key, [&](std::string_view found) {
      EXPECT_EQ(found, value);
      at = found.data();
    }));
  }
  EXPECT_EQ(seen[0], seen[1]) << "what the first find brought is copied, or asked for again";
  c.protect(protection::read_write);
  c.close();
}

TEST_F(Protection, the_cache_is_of_one_read_only_phase) {
  cluster c(MPI_COMM_WORLD, path(), small_buffers());
  for (int phase = 0; phase < 4; ++phase) {
    for (int i = 0; i < 20; ++i) c.insert("k" + std::to_string(i * ranks() + rank()), std::to_string(phase));
    c.protect(protection::read_only);
    for (int i = 0; i < 20 * ranks(); ++i) ASSERT_EQ(c.find("k" + std::to_string(i)), std::to_string(phase));
    c.protect(protection::read_write);
  }
  c.close();
}

TEST_F(Protection, write_only_refuses_finds_of_the_newest) {
  cluster c(MPI_COMM_WORLD, path());
  const std::string key = key_of(c, next(), rank());
  c.insert(key, "1");
  const version v = c.tag();
  c.protect(protection::write_only);
  const std::string_view view = key;
  const thrown reported = error_of([&] { static_cast<void>(c.find(key)); });
  EXPECT_EQ(reported.code, errc::protection);
  EXPECT_THAT(reported.message, HasSubstr("write-only"));
  EXPECT_EQ(error_of([&] { static_cast<void>(c.contains(key)); }).code, errc::protection);
  EXPECT_EQ(error_of([&] { static_cast<void>(c.find_many({&view, 1})); }).code, errc::protection);
  EXPECT_EQ(error_of([&] { static_cast<void>(c.history(key)); }).code, errc::protection);
  EXPECT_EQ(c.find(key, v), "1") << "the past is not protected";
  c.insert(key, "2");
  c.protect(protection::read_write);
  EXPECT_EQ(c.find(key), "2");
  c.close();
}

TEST_F(Protection, update_only_keeps_the_set_of_keys) {
  for (const auto mode : {consistency::relaxed, consistency::sequential}) {
    cluster c(MPI_COMM_WORLD, path(), small_buffers(mode));
    const std::string key = key_of(c, next(), rank());
    c.insert(key, "1");
    c.protect(protection::update_only);
    c.insert(key, "2");
    EXPECT_EQ(c.find(key), "2");
    const std::string unknown = key_of(c, next(), 1000 + rank());
    EXPECT_EQ(error_of([&] { c.insert(unknown, "1"); }).code, errc::protection);
    EXPECT_EQ(error_of([&] { c.remove(key); }).code, errc::protection);
    const item items[] = {{key, "3"}, {unknown, "1"}};
    const thrown reported = error_of([&] { c.insert_many(items); });
    EXPECT_EQ(reported.code, errc::protection);
    batch one;
    one.insert(unknown, "1");
    EXPECT_EQ(error_of([&] { c.apply(one); }).code, errc::protection);
    c.barrier();
    EXPECT_EQ(c.find(unknown), std::nullopt);
    EXPECT_EQ(c.find(key), "3");
    c.protect(protection::read_write);
    c.insert(unknown, "1");
    c.remove(unknown);
    c.close();
  }
}

}  // namespace
}  // namespace icecore::testing
