// What readers and writers take from an entry's own cache line, or from what they met before, agrees with the records.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "icecore/icecore.hpp"
#include "store/core.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

class EntryLines : public ::testing::TestWithParam<std::pair<index_kind, bool>> {
 protected:
  [[nodiscard]] static options opening() {
    options chosen;
    chosen.index = GetParam().first;
    if (GetParam().second) {
      chosen.durability = durability::operation;
      chosen.emulate_durability = true;
    } else {
      chosen.durability = durability::none;
    }
    return chosen;
  }
};

[[nodiscard]] std::string key_of(unsigned i) { return "key " + std::to_string(i); }

/// Writes histories of no to some ten records, one record or a batch of several a version.
void write_at_random(store& s, unsigned keys, unsigned versions) {
  std::mt19937 random(7);
  const auto any_key = [&] { return key_of(static_cast<unsigned>(random()) % keys); };
  for (unsigned v = 0; v < versions; ++v) {
    switch (random() % 6) {
      case 0: {
        batch together;
        for (int i = 0; i < 3; ++i) {
          if (random() % 3 == 0) {
            together.remove(any_key());
          } else {
            together.insert(any_key(), "together " + std::to_string(v));
          }
        }
        s.apply(together);
        break;
      }
      case 1:
      case 2:
        static_cast<void>(s.remove(any_key()));
        break;
      default:
        s.insert(any_key(), "value " + std::to_string(v));
    }
    s.tag();
  }
}

void expect_differences_are_what_finds_show(const store& s, unsigned keys, version before, version after) {
  std::vector<std::pair<std::string, std::pair<std::optional<std::string>, std::optional<std::string>>>> told;
  const auto copied = [](const auto& value) { return value ? std::optional<std::string>(*value) : std::nullopt; };
  for (const difference& d : s.diff(before, after))
    told.push_back({std::string(d.key), {copied(d.before), copied(d.after)}});
  std::size_t next = 0;
  std::vector<std::string> names;
  for (unsigned i = 0; i < keys; ++i) names.push_back(key_of(i));
  std::ranges::sort(names);
  for (const std::string& name : names) {
    const auto then = s.find(name, before);
    const auto later = s.find(name, after);
    if (copied(then) == copied(later)) continue;
    ASSERT_LT(next, told.size()) << name << " differs between " << before << " and " << after;
    ASSERT_EQ(told[next].first, name) << "between " << before << " and " << after;
    EXPECT_EQ(told[next].second.first, copied(then));
    EXPECT_EQ(told[next].second.second, copied(later));
    ++next;
  }
  EXPECT_EQ(next, told.size());
}

TEST_P(EntryLines, differences_of_any_two_versions_are_what_finds_show) {
  constexpr unsigned keys = 150;  // several blocks
  constexpr unsigned versions = 260;
  const scratch folder;
  {
    store s(folder / "a.ice", opening());
    write_at_random(s, keys, versions);
    for (version v = 0; v <= versions; v += 13) {
      for (version w = 0; w <= versions; w += 17) expect_differences_are_what_finds_show(s, keys, v, w);
    }
  }
  const store again(folder / "a.ice", opening());
  for (version v = 0; v <= versions; v += 29) expect_differences_are_what_finds_show(again, keys, v, versions - v);
}

TEST_P(EntryLines, a_history_up_to_any_version_is_the_beginning_of_the_whole_one) {
  constexpr unsigned keys = 40;
  constexpr unsigned versions = 150;
  const scratch folder;
  {
    store s(folder / "a.ice", opening());
    write_at_random(s, keys, versions);
  }
  for (const bool reopened : {false, true}) {
    const store s(folder / "a.ice", opening());
    for (unsigned i = 0; i < keys; ++i) {
      const auto oldest_first = s.history(key_of(i)).oldest_first();
      for (version v = 0; v <= versions; v += 7) {
        std::size_t n = 0;
        while (n < oldest_first.size() && oldest_first[n].version <= v) ++n;
        const auto part = s.at(v).history(key_of(i));
        ASSERT_EQ(part.size(), n) << key_of(i) << " up to " << v << (reopened ? ", reopened" : "");
        for (std::size_t k = 0; k < n; ++k) EXPECT_EQ(part[k], oldest_first[n - 1 - k]);
        const std::optional<std::string_view> shown = n == 0 ? std::nullopt : oldest_first[n - 1].value;
        const auto found = s.find(key_of(i), v);
        EXPECT_EQ(found.has_value(), shown.has_value());
        if (found && shown) {
          EXPECT_EQ(*found, *shown);
        }
      }
    }
  }
}

/// A writer that has met only new keys asks the index before the lookup cache.
TEST_P(EntryLines, a_key_that_is_written_again_among_new_ones_keeps_its_history) {
  const scratch folder;
  store s(folder / "a.ice", opening());
  version last = 0;
  for (unsigned round = 0; round < 40; ++round) {
    for (unsigned i = 0; i < round; ++i) s.insert(key_of(1000 * round + i), "new");
    last = s.insert("again", std::to_string(round));
    s.tag();
  }
  EXPECT_EQ(s.stats().keys, 40U * 39 / 2 + 1);
  const auto all = s.history("again").oldest_first();
  ASSERT_EQ(all.size(), 40U);
  for (unsigned round = 0; round < 40; ++round) EXPECT_EQ(all[round].value, std::to_string(round));
  EXPECT_EQ(all[39].version, last);
}

INSTANTIATE_TEST_SUITE_P(Kinds, EntryLines,
                         ::testing::Values(std::pair{index_kind::btree, false}, std::pair{index_kind::btree, true},
                                           std::pair{index_kind::skip_list, true}, std::pair{index_kind::hash, false},
                                           std::pair{index_kind::persistent, false},
                                           std::pair{index_kind::persistent, true}),
                         [](const auto& tried) {
                           return "index_" + std::to_string(static_cast<int>(tried.param.first)) +
                                  (tried.param.second ? "_operation" : "_none");
                         });

TEST(EntryLine, the_history_of_a_key_that_was_inserted_and_removed_reads_no_other_record) {
  const scratch folder;
  store s(folder / "a.ice");
  const version inserted = s.insert("key", "value");
  s.tag();
  const version removed = s.remove("key").value();
  s.tag();
  const history_base& records = s.core().records();
  const link entry = s.core().entry_of("key");
  // relaxed: no other thread uses the store
  const record second =
      records.at(records.newest_of(entry, records.at(entry).as_entry().head.load(std::memory_order_relaxed)));
  ASSERT_TRUE(second.is_removal());
  second.header().kind = format::record_kind::none;
  for (const auto& all : {s.history("key").newest_first(), s.at(removed).history("key")}) {
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0], (change{removed, std::nullopt}));
    EXPECT_EQ(all[1], (change{inserted, "value"}));
  }
  second.header().kind = format::record_kind::remove;
}

TEST(EntryLine, huge_pages_of_the_process_are_told_in_whole_pages) {
  constexpr std::uint64_t huge_page = std::uint64_t{2} << 20;
  EXPECT_EQ(process_huge_page_bytes() % huge_page, 0U);
}

}  // namespace
}  // namespace icecore::testing
