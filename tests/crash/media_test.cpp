// What a crash may leave: nothing that the rules of the medium forbid, and all that they allow.
#include "media.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

namespace icecore::crash {
namespace {

event store_at(std::uint64_t offset, std::uint64_t value) { return {event::kind::store, 0, 8, offset, value}; }
event flush_at(std::uint64_t offset, std::uint8_t writer = 0) { return {event::kind::flush, writer, 0, offset, 8}; }
event fence_of(std::uint8_t writer = 0) { return {event::kind::fence, writer, 0, 0, 0}; }

/// The words at these offsets in all that a crash may leave.
std::set<std::vector<std::uint64_t>> left(const media& m, const std::vector<std::uint64_t>& offsets) {
  std::set<std::vector<std::uint64_t>> all;
  std::mt19937_64 random(1);
  choices(m).for_each(4096, random, [&](const left_files& files) {
    const auto bytes = files[0].bytes;
    std::vector<std::uint64_t> words;
    for (const std::uint64_t at : offsets) {
      std::uint64_t word = 99;
      if (at + 8 <= bytes.size()) std::memcpy(&word, bytes.data() + at, 8);
      words.push_back(word);
    }
    all.insert(words);
  });
  return all;
}

using words = std::set<std::vector<std::uint64_t>>;

class Media : public ::testing::Test {
 protected:
  static void apply(media& m, const std::vector<event>& events) {
    for (const event& e : events) m.apply(e);
  }
  std::vector<std::byte> zeros_{4096};
  left_files one_{left_file{true, zeros_}};
  media lines_{unit::line, one_};
  media sectors_{unit::sector, one_};
};

TEST_F(Media, stores_of_one_line_arrive_in_their_order) {
  apply(lines_, {store_at(0, 1), store_at(8, 2)});
  EXPECT_EQ(left(lines_, {0, 8}), (words{{0, 0}, {1, 0}, {1, 2}}));
}

TEST_F(Media, stores_of_two_lines_arrive_in_any_order) {
  apply(lines_, {store_at(0, 1), store_at(64, 2)});
  EXPECT_EQ(left(lines_, {0, 64}), (words{{0, 0}, {1, 0}, {0, 2}, {1, 2}}));
}

TEST_F(Media, a_flush_alone_promises_nothing_and_with_its_fence_all_before_it) {
  apply(lines_, {store_at(0, 1), flush_at(0)});
  EXPECT_EQ(left(lines_, {0}), (words{{0}, {1}}));
  apply(lines_, {store_at(0, 2), fence_of()});
  EXPECT_EQ(left(lines_, {0}), (words{{1}, {2}}));
}

TEST_F(Media, a_fence_serves_its_own_writers_flushes_only) {
  apply(lines_, {store_at(0, 1), flush_at(0, 1), fence_of(0)});
  EXPECT_EQ(left(lines_, {0}), (words{{0}, {1}}));
  apply(lines_, {fence_of(1)});
  EXPECT_EQ(left(lines_, {0}), (words{{1}}));
}

TEST_F(Media, a_sync_makes_durable_what_was_stored_before_it_began) {
  apply(sectors_, {store_at(0, 1), {event::kind::sync_begin}, store_at(0, 2), {event::kind::sync_end}});
  EXPECT_EQ(left(sectors_, {0}), (words{{1}, {2}}));
}

TEST_F(Media, sectors_pick_their_moments_apart_and_flushes_mean_nothing_to_them) {
  apply(sectors_, {store_at(0, 1), store_at(512, 2), flush_at(0), fence_of()});
  EXPECT_EQ(left(sectors_, {0, 512}), (words{{0, 0}, {1, 0}, {0, 2}, {1, 2}}));
}

TEST_F(Media, a_files_growth_is_durable_once_synced) {
  apply(sectors_, {{event::kind::resize, 0, 0, 0, 8192}, store_at(4096, 7)});
  EXPECT_EQ(left(sectors_, {4096}), (words{{99}, {0}, {7}}));
  apply(sectors_, {{event::kind::sync_begin}, {event::kind::sync_end}});
  EXPECT_EQ(left(sectors_, {4096}), (words{{7}}));
}

TEST_F(Media, a_new_files_name_is_durable_once_its_folder_is_synced) {
  media fresh(unit::sector, {});
  fresh.apply({event::kind::resize, 0, 0, 0, 4096});
  const auto may_be_missing = [&] {
    bool missing = false;
    std::mt19937_64 random(1);
    choices(fresh).for_each(16, random, [&](const left_files& files) { missing = missing || !files[0].there; });
    return missing;
  };
  EXPECT_TRUE(may_be_missing());
  fresh.apply({event::kind::directory_sync});
  EXPECT_FALSE(may_be_missing());
}

TEST_F(Media, of_two_files_each_has_its_own_stores_syncs_size_and_name) {
  const auto in_second = [](event e) { return e.offset += file_apart, e; };
  const auto left_of_both = [&] {
    std::set<std::vector<std::uint64_t>> all;  // a word of each; 99: beyond its end, 98: no such file
    std::mt19937_64 random(1);
    choices(sectors_).for_each(4096, random, [&](const left_files& files) {
      std::vector<std::uint64_t> of_each;
      for (const left_file& f : files) {
        std::uint64_t word = f.there ? 99 : 98;
        if (f.bytes.size() >= 8) std::memcpy(&word, f.bytes.data(), 8);
        of_each.push_back(word);
      }
      all.insert(of_each);
    });
    return all;
  };
  EXPECT_EQ(left_of_both(), (words{{0, 98}}));
  apply(sectors_, {store_at(0, 1), in_second({event::kind::resize}), in_second({event::kind::resize, 0, 0, 0, 4096}),
                   in_second(store_at(0, 2))});
  EXPECT_EQ(left_of_both(), (words{{0, 98}, {1, 98}, {0, 99}, {1, 99}, {0, 0}, {1, 0}, {0, 2}, {1, 2}}));
  apply(sectors_, {in_second({event::kind::sync_begin}), in_second({event::kind::sync_end})});
  EXPECT_EQ(left_of_both(), (words{{0, 98}, {1, 98}, {0, 2}, {1, 2}}));
  apply(sectors_, {{event::kind::directory_sync}});
  EXPECT_EQ(left_of_both(), (words{{0, 2}, {1, 2}}));
  apply(sectors_, {{event::kind::sync_begin}, {event::kind::sync_end}});
  EXPECT_EQ(left_of_both(), (words{{1, 2}}));
}

TEST_F(Media, where_there_are_too_many_choices_none_all_and_each_alone_are_among_those_taken) {
  constexpr std::uint64_t count = 20;
  for (std::uint64_t i = 0; i < count; ++i) lines_.apply(store_at(i * 64, 1));
  const choices all(lines_);
  EXPECT_EQ(all.count(), std::uint64_t{1} << count);
  std::set<std::uint64_t> arrived;
  std::mt19937_64 random(1);
  std::uint64_t shown = 0;
  all.for_each(200, random, [&](const left_files& files) {
    std::uint64_t bits = 0;
    for (std::uint64_t i = 0; i < count; ++i) bits |= static_cast<std::uint64_t>(files[0].bytes[i * 64]) << i;
    arrived.insert(bits);
    ++shown;
  });
  const std::uint64_t everything = (std::uint64_t{1} << count) - 1;
  EXPECT_TRUE(arrived.contains(0) && arrived.contains(everything));
  for (std::uint64_t i = 0; i < count; ++i) {
    EXPECT_TRUE(arrived.contains(std::uint64_t{1} << i)) << i;
    EXPECT_TRUE(arrived.contains(everything & ~(std::uint64_t{1} << i))) << i;
  }
  EXPECT_LE(shown, 220U);
}

}  // namespace
}  // namespace icecore::crash
