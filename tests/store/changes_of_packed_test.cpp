// Differences and changes of versions that are packed, young, or both: against what was written, whatever was packed
// and reopened in between.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "icecore/changes.hpp"
#include "icecore/compaction.hpp"
#include "icecore/icecore.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

using written = std::map<std::string, std::map<version, std::optional<std::string>>>;  // a write a version and key

std::optional<std::string> shown(const written& all, const std::string& key, version v) {
  const auto& history = all.at(key);
  const auto behind = history.upper_bound(v);
  return behind == history.begin() ? std::nullopt : std::prev(behind)->second;
}

std::optional<std::string> text(const std::optional<std::string_view>& value) {
  return value ? std::optional(std::string(*value)) : std::nullopt;
}

bool is_within(const key_bounds& bounds, const std::string& key) {
  return (!bounds.from || key >= *bounds.from) && (!bounds.to || key < *bounds.to);
}

using told_difference = std::tuple<std::string, std::optional<std::string>, std::optional<std::string>>;
using told_change = std::tuple<std::string, version, std::optional<std::string>>;

std::vector<told_difference> differences_due(const written& all, version a, version b, const key_bounds& bounds) {
  std::vector<told_difference> due;
  for (const auto& [key, history] : all) {
    const auto before = shown(all, key, a);
    const auto after = shown(all, key, b);
    if (is_within(bounds, key) && before != after) due.emplace_back(key, before, after);
  }
  return due;
}

/// A removal of what is not there is no change.
std::vector<told_change> changes_due(const written& all, version after, version up_to, const key_bounds& bounds) {
  std::vector<told_change> due;
  for (const auto& [key, history] : all) {
    if (!is_within(bounds, key)) continue;
    for (auto at = history.upper_bound(after); at != history.end() && at->first <= up_to; ++at) {
      if (at->second || shown(all, key, at->first - 1)) due.emplace_back(key, at->first, at->second);
    }
  }
  return due;
}

struct how {
  index_kind index;
  bool compressed;
};

class ChangesOfPacked : public ::testing::TestWithParam<how> {
 protected:
  static constexpr unsigned keys = 400;

  [[nodiscard]] options opening() const {
    options o;
    o.index = GetParam().index;
    o.durability = durability::none;
    return o;
  }
  [[nodiscard]] static std::string key_of(std::uint64_t i) { return std::string(1, "abc"[i % 3]) + std::to_string(i); }

  void write(store& s, std::uint64_t key, bool removes) {
    const std::string name = key_of(key);
    if (removes) {
      s.remove(name);
      all_[name][s.clock()] = std::nullopt;
    } else {
      const std::string value = std::to_string(s.clock()) + std::string(1 + random_() % 80, 'v');
      s.insert(name, value);
      all_[name][s.clock()] = value;
    }
  }
  /// A few versions: of one key, of some neighbours, or of many.
  void write_versions(store& s, unsigned count) {
    for (; count > 0; --count) {
      const std::uint64_t first = random_() % keys;
      const std::uint64_t kind = random_() % 4;
      const std::uint64_t some = kind == 0 ? 1 : kind == 1 ? 12 : kind == 2 ? 3 : keys / 2;
      for (std::uint64_t i = 0; i < some; ++i) {
        const std::uint64_t key = kind == 1   ? (first + i) % keys
                                  : kind == 2 ? (first + i * 97) % keys
                                              : (first + 2 * i) % keys;
        write(s, key, random_() % 5 == 0);
      }
      closed_ = s.tag();
    }
  }
  void pack(store& s) {
    compaction_options options;
    options.whole = random_() % 3 == 0;
    if (GetParam().compressed) options.compression = compression::zstd;
    EXPECT_TRUE(s.compact(options).packed);
  }
  void compare(const store& s, version a, version b, const key_bounds& bounds) {
    std::vector<told_difference> differences;
    for (const difference& d : s.diff(a, b, bounds)) differences.emplace_back(d.key, text(d.before), text(d.after));
    ASSERT_EQ(differences, differences_due(all_, a, b, bounds)) << "between " << a << " and " << b;
    if (a > b) std::swap(a, b);
    std::vector<told_change> changes;
    for (const key_change& c : s.changes(a, b, bounds)) changes.emplace_back(c.key, c.version, text(c.value));
    const std::vector<told_change> due = changes_due(all_, a, b, bounds);
    ASSERT_EQ(changes, due) << "after " << a << " up to " << b;
    ASSERT_EQ(s.changes(a, b, bounds).count(filter("true"), 2), due.size());
  }
  static void expect_inflated_at_most(const store& s, std::uint64_t frames) {
    if (GetParam().compressed) {
      EXPECT_LE(s.stats().block_cache_misses, frames);
    }
  }
  void compare_some(const store& s) {
    for (int i = 0; i < 25; ++i) {
      const version a = random_() % (closed_ + 1);
      const version b = random_() % 3 == 0 ? random_() % (closed_ + 1) : std::min<version>(closed_, a + random_() % 4);
      key_bounds bounds;
      if (random_() % 3 == 0) bounds.from = key_of(random_() % keys);
      if (random_() % 3 == 0) bounds.to = key_of(random_() % keys);
      if (bounds.from && bounds.to && *bounds.to < *bounds.from) std::swap(bounds.from, bounds.to);
      compare(s, a, b, bounds);
      if (HasFatalFailure()) return;
    }
  }

  std::mt19937_64 random_{17};
  scratch folder_{place::tmpfs};
  std::filesystem::path path_ = folder_ / "changes.ice";
  written all_ = [] {
    written every;
    for (unsigned i = 0; i < keys; ++i) every[key_of(i)];
    return every;
  }();
  version closed_ = 0;
};

TEST_P(ChangesOfPacked, are_those_that_were_written) {
  for (int session = 0; session < 5; ++session) {
    store s(path_, opening());
    if (session > 0) compare_some(s);  // nothing was written since it was opened
    for (int round = 0; round < 3; ++round) {
      write_versions(s, 4);
      compare_some(s);
      if (session + round > 0) pack(s);
      compare_some(s);
      if (HasFatalFailure()) return;
    }
    write_versions(s, 2);
    options reading = opening();
    reading.access = access::read_only;
    s.sync();  // publishes what the reader beside it shows
    compare_some(store(path_, reading));
  }
  compare(store(path_, opening()), 0, closed_, {});
}

TEST_P(ChangesOfPacked, are_found_where_they_were_written_alone) {
  const auto one = [&](store& s, std::uint64_t key) {
    write(s, key, false);
    return closed_ = s.tag();
  };
  {
    store s(path_, opening());
    for (unsigned i = 0; i < keys; ++i) {
      s.insert(key_of(i), std::string(3'000, 'v'));
      all_[key_of(i)][s.clock()] = std::string(3'000, 'v');
    }
    closed_ = s.tag();
    const version before = closed_;
    one(s, 7);
    one(s, 8);
    pack(s);
    expect_inflated_at_most(s, 1U);
    compare(s, before, before + 1, {});
    compare(s, before + 1, before + 2, {});
    expect_inflated_at_most(s, 8U);  // of some 20
  }
  const store s(path_, opening());
  compare(s, closed_ - 1, closed_, {});
  expect_inflated_at_most(s, 4U);
}

/// Of a retained version the newest records stay, with the versions that they had.
TEST_P(ChangesOfPacked, of_versions_that_stay_are_shown_when_others_have_expired) {
  store s(path_, opening());
  write_versions(s, 12);
  retention keep;
  keep.newest = 3;
  s.set_retention(keep);
  const version kept = closed_;
  pack(s);
  write_versions(s, 2);
  pack(s);
  for (const auto& [a, b] : {std::pair(kept, closed_), std::pair(closed_, kept), std::pair(closed_ - 1, closed_)}) {
    std::vector<told_difference> differences;
    for (const difference& d : s.diff(a, b)) differences.emplace_back(d.key, text(d.before), text(d.after));
    EXPECT_EQ(differences, differences_due(all_, a, b, {})) << a << " " << b;
  }
  EXPECT_THROW((void)s.diff(1, closed_), error);
}

INSTANTIATE_TEST_SUITE_P(Plain, ChangesOfPacked,
                         ::testing::Values(how{index_kind::btree, false}, how{index_kind::skip_list, false},
                                           how{index_kind::persistent, false}, how{index_kind::hash, false}));
INSTANTIATE_TEST_SUITE_P(Compressed, ChangesOfPacked,
                         ::testing::Values(how{index_kind::btree, true}, how{index_kind::persistent, true}));

}  // namespace
}  // namespace icecore::testing
