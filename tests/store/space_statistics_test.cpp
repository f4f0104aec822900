// What stats() tells of the space in the file and of what was written to it: each number is what the documentation says
// that it counts.
#include <gtest/gtest.h>

#include "history/record.hpp"
#include "icecore/feed.hpp"
#include "icecore/icecore.hpp"
#include "pool/format.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

constexpr unsigned keys = 100;
constexpr std::size_t value_size = 1000;

std::string key_of(unsigned i) { return "key-" + std::to_string(1000 + i); }

void write_all(store& s, char fill) {
  for (unsigned i = 0; i < keys; ++i) s.insert(key_of(i), std::string(value_size, fill));
}

std::uint64_t size_of_insert() { return record_layout::of_insert(value_size, false).size(); }

class SpaceStatistics : public ::testing::TestWithParam<setting> {
 protected:
  scratch folder_{GetParam().where};
  std::filesystem::path path_ = folder_ / "store.ice";
  [[nodiscard]] options opening() const { return GetParam().options_at(path_); }
  [[nodiscard]] bool opens_instantly() const { return GetParam().index == index_kind::persistent; }
};

/// Live, garbage and free bytes, and what lies before the first segment of each file.
void expect_parts_add_up(const store& s) {
  const statistics now = s.stats();
  EXPECT_EQ(now.live_bytes + now.garbage_bytes, now.used_bytes);
  EXPECT_EQ(now.used_bytes + now.free_bytes + now.files.size() * format::first_segment_offset, now.file_bytes);
  EXPECT_LE(now.waiting_bytes, now.garbage_bytes);
}

TEST_P(SpaceStatistics, what_a_write_of_the_same_version_replaced_is_garbage_until_it_is_packed) {
  std::uint64_t garbage = 0;
  {
    store s(path_, opening());
    write_all(s, 'a');
    EXPECT_EQ(s.stats().garbage_bytes, 0U);
    write_all(s, 'b');
    garbage += keys * value_size;  // the entries stay for their keys
    EXPECT_EQ(s.stats().garbage_bytes, garbage);
    write_all(s, 'c');
    garbage += keys * size_of_insert();
    EXPECT_EQ(s.stats().garbage_bytes, garbage);
    s.tag();
    write_all(s, 'd');  // what it replaces is in a version of its own
    EXPECT_EQ(s.stats().garbage_bytes, garbage);
    batch both;
    both.insert(key_of(0), "e");
    both.remove(key_of(1));
    s.apply(both);
    garbage += 2 * size_of_insert();
    EXPECT_EQ(s.stats().garbage_bytes, garbage);
    EXPECT_TRUE(s.remove(key_of(2)));
    garbage += size_of_insert();
    EXPECT_EQ(s.stats().garbage_bytes, garbage);
    EXPECT_EQ(s.stats().waiting_bytes, 0U);
    expect_parts_add_up(s);
  }
  options reading = opening();
  reading.access = access::read_only;
  EXPECT_EQ(store(path_, reading).stats().garbage_bytes, opens_instantly() ? 0 : garbage);
  store s(path_, opening());
  EXPECT_EQ(s.stats().recovered_instantly, opens_instantly());
  EXPECT_EQ(s.stats().garbage_bytes, opens_instantly() ? 0 : garbage);
  EXPECT_TRUE(s.compact().erased);
  EXPECT_EQ(s.stats().garbage_bytes, 0U);
  EXPECT_EQ(s.stats().records, 2 * keys);
  expect_parts_add_up(s);
  write_all(s, 'f');  // over what is packed
  EXPECT_EQ(s.stats().garbage_bytes, 0U);
  write_all(s, 'g');
  EXPECT_GE(s.stats().garbage_bytes, keys * value_size);
  expect_parts_add_up(s);
}

/// Who only reads takes nothing of what is free, and counts it all the same: alone, without a lock, and beside a
/// writer.
TEST_P(SpaceStatistics, readers_tell_as_much_of_the_space_free_as_who_writes) {
  {
    store s(path_, opening());
    for (char fill = 'a'; fill < 'i'; ++fill) {
      write_all(s, fill);
      s.tag();
    }
    retention newest;
    newest.newest = 1;
    s.set_retention(newest);
    EXPECT_TRUE(s.compact().erased);
  }
  for (const bool never_locks : {false, true}) {
    std::optional<store> writer;
    options reading = opening();
    reading.access = access::read_only;
    reading.never_locks = never_locks;
    std::uint64_t used = 0;
    {
      const store alone(path_, reading);
      expect_parts_add_up(alone);
      used = alone.stats().used_bytes;
    }
    writer.emplace(path_, opening());
    const statistics there = writer->stats();
    const store beside(path_, reading);
    expect_parts_add_up(beside);
    if (opens_instantly()) continue;  // its free space is in the lists of who writes
    EXPECT_GE(there.free_bytes, keys * value_size);
    EXPECT_LE(used, there.used_bytes + (std::uint64_t{128} << 10));
    EXPECT_LE(beside.stats().used_bytes, there.used_bytes + (std::uint64_t{128} << 10));
  }
}

TEST_P(SpaceStatistics, a_snapshot_is_the_oldest_pin_and_what_it_holds_waits) {
  store s(path_, opening());
  write_all(s, 'a');
  const version first = s.tag();
  EXPECT_FALSE(s.stats().oldest_pin);
  EXPECT_EQ(s.stats().oldest_pin_seconds, 0);
  std::optional<snapshot> oldest = s.at(first);
  EXPECT_EQ(s.stats().oldest_pin, first + 1);
  write_all(s, 'b');
  const version second = s.tag();
  EXPECT_EQ(s.stats().oldest_pin, first + 1);
  std::optional<snapshot> newer = s.at(first);  // what it shows is as old
  EXPECT_EQ(s.stats().oldest_pin, first + 1);
  EXPECT_GT(s.stats().oldest_pin_seconds, 0);
  const std::uint64_t used = s.stats().used_bytes;
  EXPECT_FALSE(s.compact().erased);
  statistics now = s.stats();
  EXPECT_GE(now.waiting_bytes, 2 * keys * value_size);
  EXPECT_EQ(now.garbage_bytes, now.waiting_bytes);
  EXPECT_GE(now.waiting_bytes, used);
  EXPECT_LT(now.live_bytes, now.used_bytes);
  expect_parts_add_up(s);
  oldest.reset();
  EXPECT_EQ(s.stats().oldest_pin, second + 1);
  newer.reset();
  EXPECT_FALSE(s.stats().oldest_pin);
  EXPECT_EQ(s.stats().pins, 0U);
  EXPECT_FALSE(s.compact().packed);
  EXPECT_EQ(s.stats().waiting_bytes, 0U);
  EXPECT_EQ(s.stats().garbage_bytes, 0U);
  expect_parts_add_up(s);
}

TEST_P(SpaceStatistics, what_was_given_and_written_is_counted_since_the_store_was_opened) {
  {
    store s(path_, opening());
    EXPECT_EQ(s.stats().given_bytes, 0U);
    EXPECT_EQ(s.stats().written_bytes, 0U);
    EXPECT_EQ(s.stats().write_amplification(), 0);
    std::uint64_t given = 0;
    std::uint64_t written = 0;
    for (const char fill : {'a', 'b'}) {
      write_all(s, fill);
      given += keys * (key_of(0).size() + value_size);
      written +=
          keys * (fill == 'a' ? record_layout::of_entry(key_of(0).size(), value_size, false).size() : size_of_insert());
    }
    EXPECT_FALSE(s.insert_new(key_of(0), "refused"));
    EXPECT_FALSE(s.remove("not there"));
    EXPECT_EQ(s.stats().given_bytes, given);
    EXPECT_EQ(s.stats().written_bytes, written);
    EXPECT_TRUE(s.insert_new("new", "12345"));
    EXPECT_TRUE(s.remove(key_of(3)));
    batch some;
    some.insert(key_of(4), "four");
    some.insert("newer", "1");
    s.apply(some);
    given += 3 + 5 + key_of(3).size() + key_of(4).size() + 4 + 5 + 1;
    EXPECT_EQ(s.stats().given_bytes, given);
    s.tag("a tag");

    written = s.stats().written_bytes;
    const compaction_report done = s.compact();
    statistics now = s.stats();
    EXPECT_EQ(now.given_bytes, given);
    const std::uint64_t tags = record_layout::of_tag(5, 0).size();
    EXPECT_GT(now.written_bytes, written + done.bytes_written + tags);          // and a manifest
    EXPECT_LT(now.written_bytes, written + done.bytes_written + tags + 1'000);  // of a few extents
    EXPECT_DOUBLE_EQ(now.write_amplification(), static_cast<double>(now.written_bytes) / static_cast<double>(given));
    write_all(s, 'c');
    EXPECT_EQ(s.stats().given_bytes, given + keys * (key_of(0).size() + value_size));
    EXPECT_GT(s.stats().written_bytes, now.written_bytes + keys * value_size);
  }
  store s(path_, opening());
  EXPECT_EQ(s.stats().given_bytes, 0U);
  EXPECT_EQ(s.stats().written_bytes, 0U);
}

TEST_P(SpaceStatistics, the_oldest_version_that_a_query_or_a_feed_needs_is_told) {
  store s(path_, opening());
  for (unsigned v = 1; v <= 5; ++v) {
    s.insert("a", std::to_string(v));
    s.tag();
  }
  EXPECT_FALSE(s.stats().oldest_held);
  static_cast<void>(s.start({.name = "of 4", .at = 4, .where = filter("true")}));
  EXPECT_EQ(s.stats().oldest_held, 4U);
  static_cast<void>(s.start({.name = "of 2", .at = 2, .where = filter("true")}));
  EXPECT_EQ(s.stats().oldest_held, 2U);
}

INSTANTIATE_TEST_SUITE_P(EverySetting, SpaceStatistics, ::testing::ValuesIn(tmpfs_settings()),
                         [](const auto& tested) { return tested.param.name(); });

TEST(SpaceStatisticsBeside, what_waits_for_a_reader_beside_the_writer_is_told) {
  const scratch folder(place::tmpfs);
  const auto path = folder / "store.ice";
  store s(path);
  write_all(s, 'a');
  s.tag("one");
  options reading;
  reading.access = access::read_only;
  std::optional<store> reader(std::in_place, path, reading);
  EXPECT_FALSE(s.compact().erased);
  EXPECT_GE(s.stats().waiting_bytes, keys * value_size);
  s.close();
  std::optional<store> again(std::in_place, path);
  EXPECT_GE(again->stats().waiting_bytes, keys * value_size);  // opening could not give it back either
  again.reset();
  reader.reset();
  again.emplace(path);
  EXPECT_EQ(again->stats().waiting_bytes, 0U);
}

}  // namespace
}  // namespace icecore::testing
