// Strata of many small extents find what the histories have that they were made of.
#include "stratum/strata.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <set>

#include "packed_model.hpp"

namespace icecore::stratum {
namespace {

class Strata : public testing::TestWithParam<shape> {
 protected:
  /// Records in order, as a stratum has them.
  using records = std::vector<std::pair<std::string_view, const std::pair<version, std::optional<std::string>>*>>;

  /// One stratum, in extents of some records each. So histories go over the bounds of extents.
  void add_stratum(std::uint32_t number, const records& all) {
    const std::size_t each = all.size() / 12 + 1;
    for (std::size_t begin = 0; begin < all.size(); begin += each) {
      histories_model some;
      for (std::size_t i = begin; i < std::min(begin + each, all.size()); ++i) {
        some[std::string(all[i].first)].push_back(*all[i].second);
      }
      memory_.push_back(pack(some, 300));
      extents_.push_back({.stratum = number,
                          .first = all[begin].second->first,
                          .goes_on = begin > 0 && all[begin - 1].first == all[begin].first,
                          .bytes = std::make_unique<const extent>(memory_.back().open())});
    }
  }
  /// The records of versions above `middle` in the youngest stratum, the others in the one behind it.
  [[nodiscard]] strata make(version middle) {
    records young;
    records old;
    for (const auto& [key, history] : model_) {
      for (const auto& one : history) (one.first > middle ? young : old).emplace_back(key, &one);
    }
    add_stratum(0, young);
    add_stratum(young.empty() ? 0 : 1, old);
    return strata(std::move(extents_));
  }
  /// Each key, and what lies beside it.
  [[nodiscard]] std::vector<std::string> sought() const {
    std::vector<std::string> all{"", std::string(20, '\xff')};
    for (const auto& [key, history] : model_) {
      all.push_back(key);
      all.push_back(key + '\0');
      if (!key.empty()) all.push_back(key.substr(0, key.size() - 1));
    }
    return all;
  }
  [[nodiscard]] std::vector<version> versions() const {
    std::vector<version> all{1, 20, version_max};
    for (const auto& [key, history] : model_) {
      if (all.size() > 40) break;
      all.insert(all.end(), {history.front().first, history.back().first});
      if (history.back().first > 1) all.push_back(history.back().first - 1);
    }
    return all;
  }

  const histories_model model_ = GetParam().make();

 private:
  std::deque<packed> memory_;
  std::vector<packed_extent> extents_;
};

std::optional<seen> as_found(const std::optional<packed_record>& r) {
  return r ? std::optional(as_seen(*r)) : std::nullopt;
}

TEST_P(Strata, find_what_the_histories_have) {
  for (const version middle : {version{0}, version{30}}) {
    const strata packed = make(middle);
    const std::vector<std::string> keys = sought();
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    std::vector<std::optional<packed_record>> many(keys.size());
    for (const version v : versions()) {
      packed.find_many(
          views, &v, 0, [](std::size_t) { return true; }, [&](std::size_t i, const auto& found) { many[i] = found; });
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const std::optional<seen> there = find_in(model_, keys[i], v);
        ASSERT_EQ(as_found(packed.find_record(keys[i], v)), there) << keys[i] << " in version " << v;
        const std::optional<record_place> at = packed.find(keys[i], v);
        ASSERT_EQ(at ? as_found(packed.record(*at)) : std::nullopt, there) << keys[i] << " in version " << v;
        ASSERT_EQ(as_found(many[i]), there) << keys[i] << " in version " << v;
      }
    }
  }
}

TEST_P(Strata, of_one_extent_have_many_keys_where_single_ones_are) {
  const packed whole = pack(model_);
  std::vector<packed_extent> only;
  only.push_back({.stratum = 0, .first = 0, .goes_on = false, .bytes = std::make_unique<const extent>(whole.open())});
  const strata all(std::move(only));
  std::mt19937_64 random(5);
  std::vector<std::string> keys;
  std::vector<version> at;
  for (const auto& [key, history] : model_) {
    keys.insert(keys.end(), {key, key + '\0', key});
    at.insert(at.end(), {history.front().first, version_max, 1 + random() % (history.front().first + 1)});
  }
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  std::vector<bool> told(keys.size());
  all.find_many(
      views, at.data(), 1, [](std::size_t i) { return i % 7 != 0; },
      [&](std::size_t i, const auto& found) {
        ASSERT_EQ(as_found(found), find_in(model_, keys[i], at[i])) << keys[i] << " in version " << at[i];
        told[i] = true;
      });
  for (std::size_t i = 0; i < keys.size(); ++i) ASSERT_EQ(told[i], i % 7 != 0) << i;
}

TEST_P(Strata, walk_from_each_key_on) {
  const strata packed = make(30);
  for (const std::string& from : sought()) {
    strata_walk walk(packed);
    walk.seek(from);
    const auto there = model_.lower_bound(from);
    ASSERT_EQ(walk.at_end(), there == model_.end()) << from;
    if (walk.at_end()) continue;
    ASSERT_EQ(walk.key(), there->first);
    ASSERT_EQ(packed.record(walk.newest()).stamped, there->second.front().first);
  }
}

TEST_P(Strata, runs_of_one_stratum_show_each_key_once) {
  const strata packed = make(0);
  const std::vector<std::string> keys = sought();
  for (const version v : versions()) {
    for (std::size_t i = 0; i < keys.size(); i += 1 + keys.size() / 40) {
      std::vector<std::pair<std::string, seen>> found;
      EXPECT_TRUE(packed.for_each_run(v, keys[i], [&](const block& b, std::uint32_t first) {
        return b.for_each_at(v, first, b.keys(), [&](std::string_view key, const packed_record& r) {
          found.emplace_back(key, as_seen(r));
          return true;
        });
      }));
      std::vector<std::pair<std::string, seen>> expected;
      for (auto at = model_.lower_bound(keys[i]); at != model_.end(); ++at) {
        if (const auto there = find_in(model_, at->first, v)) expected.emplace_back(at->first, *there);
      }
      ASSERT_EQ(found, expected) << "from " << keys[i] << " in version " << v;
    }
  }
}

/// A walk at a version may leave out what that does not show, and comes to each other key once.
TEST_P(Strata, walks_at_a_version_come_to_each_key_that_it_shows_once) {
  for (const version middle : {version{0}, version{30}, version{500}}) {
    const strata packed = make(middle);
    const std::vector<std::string> keys = sought();
    for (const version v : versions()) {
      for (std::size_t i = 0; i < keys.size(); i += 1 + keys.size() / 20) {
        std::vector<std::pair<std::string, seen>> found;
        strata_walk walk(packed, v);
        for (walk.seek(keys[i]); !walk.at_end(); walk.next()) {
          if (const auto at = packed.at_most(walk.newest(), v)) {
            found.emplace_back(walk.key(), as_seen(packed.record(*at)));
          }
        }
        std::vector<std::pair<std::string, seen>> expected;
        for (auto at = model_.lower_bound(keys[i]); at != model_.end(); ++at) {
          if (const auto there = find_in(model_, at->first, v)) expected.emplace_back(at->first, *there);
        }
        ASSERT_EQ(found, expected) << "from " << keys[i] << " in version " << v << ", strata cut at " << middle;
      }
    }
  }
}

TEST_P(Strata, tell_the_keys_that_were_written_between_two_versions) {
  std::mt19937_64 random(11);
  for (const version middle : {version{0}, version{30}, version{500}}) {
    const strata packed = make(middle);
    const std::vector<std::string> keys = sought();
    const std::vector<version> all = versions();
    for (int round = 0; round < 60; ++round) {
      const version after = all[random() % all.size()] - 1;
      const version up_to = after + random() % 60;
      const std::string& from = keys[random() % keys.size()];
      const std::optional<std::string> to =
          random() % 2 == 0 ? std::optional(keys[random() % keys.size()]) : std::nullopt;
      std::set<std::string> found;
      EXPECT_TRUE(packed.for_each_written(after, up_to, from, to, [&](const record_place& at) {
        const version stamped = packed.record(at).stamped;
        EXPECT_TRUE(stamped > after && stamped <= up_to);
        const std::string key(packed.key(at));
        EXPECT_EQ(packed.record(packed.newest_of(at)).stamped, model_.at(key).front().first) << key;
        if (key >= from && (!to || key < *to)) found.insert(key);
        return true;
      }));
      std::set<std::string> expected;
      for (const auto& [key, history] : model_) {
        const bool is_within = key >= from && (!to || key < *to);
        const bool was_written =
            std::ranges::any_of(history, [&](const auto& one) { return one.first > after && one.first <= up_to; });
        if (is_within && was_written) expected.insert(key);
      }
      ASSERT_EQ(found, expected) << "after " << after << " up to " << up_to << " from " << from;
    }
  }
}

TEST_P(Strata, tell_no_more_written_keys_once_they_are_told_to_stop) {
  const strata packed = make(30);
  unsigned told = 0;
  const bool all =
      packed.for_each_written(0, version_max, "", std::nullopt, [&](const record_place&) { return ++told < 3; });
  EXPECT_EQ(all, told < 3);
  EXPECT_LE(told, 3U);
}

INSTANTIATE_TEST_SUITE_P(EachShape, Strata, testing::ValuesIn(shapes()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace icecore::stratum
