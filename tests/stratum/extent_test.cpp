// What was packed is found, key by key and version by version.
#include <gmock/gmock.h>

#include <set>

#include "icecore/error.hpp"
#include "packed_model.hpp"

namespace icecore::stratum {
namespace {

struct Extents : testing::TestWithParam<std::tuple<shape, std::uint64_t, form>> {
  histories_model model = std::get<0>(GetParam()).make();
  packed p = pack_as(std::get<2>(GetParam()), model, std::get<1>(GetParam()));
  extent e = p.open();

  /// Versions around those of a history.
  static std::set<version> versions_of(const history_model& history) {
    std::set<version> all{1, version_max};
    for (const auto& one : history) {
      for (const version v : {one.first - 1, one.first, one.first + 1}) {
        if (v >= 1 && v <= version_max) all.insert(v);
      }
    }
    return all;
  }
};

TEST_P(Extents, each_key_shows_at_each_version_what_was_packed) {
  for (const auto& [key, history] : model) {
    for (const version v : versions_of(history)) {
      const auto found = e.find(key, v);
      ASSERT_EQ(found ? std::optional(as_seen(*found)) : std::nullopt, find_in(model, key, v)) << key << " at " << v;
    }
  }
}

TEST_P(Extents, each_key_shows_its_newest_record_at_any_greater_number) {
  constexpr version beyond = ~version{0};
  for (const auto& [key, history] : model) {
    const auto found = e.find(key, beyond);
    ASSERT_EQ(found ? std::optional(as_seen(*found)) : std::nullopt, find_in(model, key, version_max)) << key;
    std::size_t records = 0;
    e.for_each_of(key, beyond, [&](const packed_record&) { return ++records != 0; });
    ASSERT_EQ(records, history.size()) << key;
  }
}

TEST_P(Extents, a_key_that_was_not_packed_is_not_found) {
  for (const auto& [key, history] : model) {
    std::vector<std::string> others{key + '\0', key + '\xff', key + "a"};
    if (!key.empty()) {
      others.push_back(key.substr(0, key.size() - 1));
      others.push_back(key);
      others.back().back() ^= 1;
      others.push_back(key);
      others.back().front() ^= 1;
    }
    for (const std::string& other : others) {
      if (model.contains(other)) continue;
      ASSERT_FALSE(e.find(other, version_max)) << other;
    }
  }
}

TEST_P(Extents, a_history_has_all_records_newest_first) {
  for (const auto& [key, history] : model) {
    for (const version v : {version_max, history[history.size() / 2].first, history.back().first - 1}) {
      std::vector<seen> wanted;
      for (const auto& one : history) {
        if (one.first <= v) wanted.push_back({one.first, one.second});
      }
      std::vector<seen> told;
      e.for_each_of(key, v, [&](const packed_record& r) {
        told.push_back(as_seen(r));
        return true;
      });
      ASSERT_EQ(told, wanted) << key << " at " << v;
    }
  }
}

TEST_P(Extents, a_walk_shows_every_key_once_in_order) {
  std::set<version> all{1, 500, version_max};
  for (const auto& [key, history] : model) all.insert(history[history.size() / 3].first);
  std::vector<std::string> starts{"", "m", "model/encoder/layer/2", std::string(200, '\xff')};
  for (const auto& [key, history] : model) {
    if (starts.size() < 12) starts.insert(starts.end(), {key, key + '\0'});
  }
  std::size_t tried = 0;
  for (const version v : all) {
    if (++tried > 40) break;
    for (const std::string& from : starts) {
      std::vector<std::pair<std::string, seen>> wanted;
      for (auto it = model.lower_bound(from); it != model.end(); ++it) {
        if (const auto one = find_in(model, it->first, v)) wanted.emplace_back(it->first, *one);
      }
      std::vector<std::pair<std::string, seen>> told;
      EXPECT_TRUE(e.for_each_at(v, from, [&](std::string_view key, const packed_record& r) {
        told.emplace_back(key, as_seen(r));
        return true;
      }));
      ASSERT_EQ(told, wanted) << "from " << from << " at " << v;
    }
  }
}

TEST_P(Extents, a_walk_and_a_history_end_where_the_visitor_says) {
  std::size_t keys = 0;
  EXPECT_FALSE(e.for_each_at(version_max, "", [&](std::string_view, const packed_record&) { return ++keys < 1; }));
  EXPECT_EQ(keys, 1);
  std::size_t records = 0;
  EXPECT_FALSE(e.for_each_of(model.begin()->first, version_max, [&](const packed_record&) { return ++records < 1; }));
  EXPECT_EQ(records, 1);
}

TEST_P(Extents, the_header_counts_what_is_there_and_nothing_is_damaged) {
  std::uint64_t records = 0;
  std::uint64_t removals = 0;
  for (const auto& [key, history] : model) {
    records += history.size();
    for (const auto& one : history) removals += one.second ? 0 : 1;
  }
  EXPECT_EQ(e.header().keys, model.size());
  EXPECT_EQ(e.header().records, records);
  EXPECT_EQ(e.header().removals, removals);
  EXPECT_EQ(e.media_size(), p.bytes.size());
  EXPECT_EQ(e.first_key(), model.begin()->first);
  e.verify([](std::string_view what, std::uint64_t at) { ADD_FAILURE() << what << " at " << at; });
}

INSTANTIATE_TEST_SUITE_P(OfAllShapes, Extents,
                         testing::Combine(testing::ValuesIn(shapes()), testing::Values(1, 300, block_bytes_usual),
                                          testing::Values(form::plain, form::compressed)),
                         [](const auto& named) {
                           return std::get<0>(named.param).name + "_in_blocks_of_" +
                                  std::to_string(std::get<1>(named.param)) +
                                  (std::get<2>(named.param) == form::compressed ? "_compressed" : "");
                         });

INSTANTIATE_TEST_SUITE_P(InPages, Extents,
                         testing::Combine(testing::ValuesIn(shapes()), testing::Values(block_bytes_usual),
                                          testing::Values(form::in_pages)),
                         [](const auto& named) { return std::get<0>(named.param).name; });

struct Rooms : testing::TestWithParam<std::pair<std::uint64_t, std::optional<std::uint64_t>>> {};

TEST_P(Rooms, whatever_room_there_is_what_was_taken_can_be_read) {
  const auto [block_bytes, in_page] = GetParam();
  const std::vector<shape> all = shapes();
  for (const shape& s : all) {
    if (s.name != "paths" && s.name != "words_with_removals" && s.name != "words_with_long_values") continue;
    const histories_model model = s.make();
    std::size_t before = 0;
    for (std::size_t room = 0; room < 24'000; room += 200 + room % 137) {
      aligned_bytes memory(room);
      extent_builder b(memory.get(), 3, block_bytes, in_page);
      histories_model taken;
      for (const auto& [key, history] : model) {
        for (const auto& one : history) {
          if (!b.add(key, as_record(one))) goto full;
          taken[key].push_back(one);
        }
      }
    full:
      if (taken.empty()) continue;
      const std::uint64_t size = b.finish();
      ASSERT_LE(size, room);
      const extent e(memory.get().first(size), {.file = "x", .seed = 3});
      ASSERT_EQ(e.header().records, b.records());
      for (const auto& [key, history] : taken) {
        const auto found = e.find(key, version_max);
        ASSERT_TRUE(found) << key;
        ASSERT_EQ(as_seen(*found), (seen{history.front().first, history.front().second}));
      }
      ASSERT_GE(b.records() + 40, before) << "more room, and less was taken";
      before = b.records();
    }
    EXPECT_GT(before, 50) << s.name;
  }
}

INSTANTIATE_TEST_SUITE_P(OfBlocks, Rooms,
                         testing::Values(std::pair(512, std::nullopt),
                                         std::pair(block_bytes_usual, std::optional<std::uint64_t>(64))));

/// Where blocks begin and end in pages, of an extent that begins behind 64 bytes of one: from..end, in order.
std::vector<std::pair<std::uint64_t, std::uint64_t>> blocks_in_pages(const packed& p) {
  const format::extent_header h = p.open().header();
  const fence f(p.bytes.data() + h.fence_at, h.blocks, h.separators, h.prefix_size, {h.least, h.greatest});
  std::vector<std::pair<std::uint64_t, std::uint64_t>> all;
  for (std::uint32_t i = 0; i < f.blocks(); ++i) all.emplace_back(64 + f.place(i), 64 + f.place(i + 1));
  return all;
}

TEST(ExtentBuilder, blocks_of_a_page_end_where_pages_end) {
  constexpr std::uint64_t page = format::media_page;
  for (const std::size_t value_size : {0U, 8U, 100U, 200U}) {
    histories_model model;
    std::mt19937_64 random(1);
    while (model.size() < 3'000)
      model[random_bytes(random, 8)] = {{1 + random() % 1'000, random_bytes(random, value_size)}};
    const auto blocks = blocks_in_pages(pack_as(form::in_pages, model, block_bytes_usual));
    ASSERT_GE(blocks.size(), 8);
    for (std::size_t i = 0; i + 1 < blocks.size(); ++i) {
      EXPECT_EQ(blocks[i].second % page, 0) << value_size << ", block " << i;
      EXPECT_LE(blocks[i].second - blocks[i].first, page) << value_size << ", block " << i;
    }
  }
}

TEST(ExtentBuilder, blocks_behind_a_long_record_come_back_to_pages) {
  constexpr std::uint64_t page = format::media_page;
  for (const std::size_t long_size : {5'000U, 6'000U, 7'000U, 8'100U}) {
    histories_model model;
    std::mt19937_64 random(2);
    for (int i = 0; i < 2'000; ++i) {
      const std::string key = std::to_string(100'000 + i);
      model[key] = {{1 + random() % 1'000, random_bytes(random, i == 1'000 ? long_size : 100)}};
    }
    const auto blocks = blocks_in_pages(pack_as(form::in_pages, model, block_bytes_usual));
    std::size_t elsewhere = 0;
    for (std::size_t i = 0; i + 1 < blocks.size(); ++i) {
      elsewhere += blocks[i].second % page == 0 ? 0 : 1;
      if (blocks[i].second - blocks[i].first < long_size) {
        EXPECT_LE(blocks[i].second - blocks[i].first, page + page / 2);
      }
    }
    EXPECT_GT(blocks.size(), 40);
    EXPECT_LE(elsewhere, 2) << "the one before the long record, and its own";
  }
}

TEST(ExtentBuilder, pages_cost_little) {
  histories_model model;
  std::mt19937_64 random(3);
  while (model.size() < 20'000) model[random_bytes(random, 8)] = {{1 + random() % 1'000, random_bytes(random, 8)}};
  const auto costs_little = [&] {
    const std::size_t in_pages = pack_as(form::in_pages, model, block_bytes_usual).bytes.size();
    const std::size_t anywhere = pack(model).bytes.size();
    EXPECT_LT(in_pages, anywhere + anywhere / 100);
  };
  costs_little();
  for (auto& [key, history] : model) history.front().second = random_bytes(random, 1'500);
  costs_little();
}

TEST(ExtentBuilder, a_block_has_room_for_its_separator_even_if_that_is_longer_than_all_later_keys) {
  const std::string long_key(key_size_max, 'a');
  const std::string value(5'000, 'v');
  for (std::size_t room = 280'000; room < 400'000; room += 7'001) {
    aligned_bytes memory(room);
    extent_builder b(memory.get(), 3, 1 << 20);
    ASSERT_TRUE(b.add(long_key, {1, format::packed_kind::value, value}));
    while (b.add("b" + std::to_string(1'000 + b.records()), {1, format::packed_kind::value, value})) {
    }
    const std::uint64_t size = b.finish();
    ASSERT_LE(size, room);
    const extent e(memory.get().first(size), {.file = "x", .seed = 3});
    ASSERT_TRUE(e.find(long_key, 1));
    ASSERT_TRUE(e.find("b" + std::to_string(1'000 + b.records() - 1), 1));
  }
}

TEST(ExtentBuilder, room_is_used_and_not_only_reserved) {
  std::mt19937_64 random(6);
  aligned_bytes memory(1 << 18);
  extent_builder b(memory.get(), 3);
  std::set<std::string> keys;
  while (keys.size() < 20'000) keys.insert(random_bytes(random, 8));
  auto key = keys.begin();
  while (key != keys.end() && b.add(*key, {1, format::packed_kind::value, "12345678"})) ++key;
  ASSERT_NE(key, keys.end());
  EXPECT_GT(b.finish(), 250'000);
}

TEST(ExtentBuilder, a_key_of_eight_bytes_with_its_value_takes_less_than_24) {
  histories_model model;
  std::mt19937_64 random(1);
  version v = 0;
  while (model.size() < 100'000)
    model[random_bytes(random, 8)] = {{random() % 2'000'000 + ++v, random_bytes(random, 8)}};
  const packed p = pack(model);
  EXPECT_LT(static_cast<double>(p.bytes.size()) / static_cast<double>(model.size()), 24);
}

TEST(ExtentBuilder, a_key_with_few_records_is_in_one_block) {
  for (const shape& s : shapes()) {
    if (s.name != "words_with_removals" && s.name != "paths" && s.name != "deep_histories") continue;
    const packed p = pack(s.make(), 700);
    const format::extent_header h = p.open().header();
    const fence f(p.bytes.data() + h.fence_at, h.blocks, h.separators, h.prefix_size, {h.least, h.greatest});
    std::uint32_t that_go_on = 0;
    for (std::uint32_t i = 0; i < f.blocks(); ++i) that_go_on += f.goes_on(i) ? 1 : 0;
    if (s.name == "deep_histories") {
      EXPECT_GT(that_go_on, 50);
    } else {
      EXPECT_EQ(that_go_on, 0) << s.name;
      EXPECT_GT(f.blocks(), 10) << s.name;
    }
  }
}

TEST(ExtentBuilder, a_record_of_an_unknown_kind_and_a_removal_with_a_value_are_refused) {
  aligned_bytes memory(4096);
  extent_builder b(memory.get(), 0);
  const auto is_refused = [&](format::packed_kind kind, std::string_view value) {
    try {
      return !b.add("k", {1, kind, value});
    } catch (const error& e) {
      return e.code() == errc::invalid_argument;
    }
  };
  EXPECT_TRUE(is_refused(format::packed_kind::removal, "value"));
  EXPECT_TRUE(is_refused(static_cast<format::packed_kind>(2), ""));
  EXPECT_FALSE(is_refused(format::packed_kind::removal, ""));
}

TEST(ExtentBuilder, a_record_out_of_order_is_refused_with_what_is_wrong) {
  aligned_bytes memory(4096);
  const auto refused = [&](std::string_view key, version v, const char* why) {
    extent_builder b(memory.get(), 0);
    ASSERT_TRUE(b.add("m", {5, format::packed_kind::value, ""}));
    try {
      (void)b.add(key, {v, format::packed_kind::value, ""});
      ADD_FAILURE() << key << " " << v;
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::invalid_argument);
      EXPECT_THAT(e.what(), testing::HasSubstr(why));
    }
  };
  refused("l", 1, "a greater key");
  refused("m", 5, "behind one of version 5 of its key");
  refused("m", 6, "behind one of version 5 of its key");
  refused("n", 0, "version 0");
  refused("n", version_max + 1, "from 1 to");
  refused(std::string(key_size_max + 1, 'n'), 1, "at most 65535");
}

}  // namespace
}  // namespace icecore::stratum
