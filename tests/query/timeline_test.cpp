// Stretches and totals of many versions are those of the snapshots of each version.
#include "icecore/timeline.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "icecore/icecore.hpp"
#include "support/expect.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

using stretches = std::map<std::string, std::vector<std::pair<version, version>>>;

class Timeline : public ::testing::TestWithParam<setting> {
 protected:
  void SetUp() override {
    s_.emplace(path_, GetParam().options_at(path_));
    std::mt19937 random(11);
    for (int v = 0; v < 25; ++v) {
      batch some;
      for (int i = 0; i < 60; ++i) {
        const std::string key = (i % 2 == 0 ? "a/" : "b/") + std::to_string(random() % 90);
        if (random() % 5 == 0) {
          some.remove(key);
        } else {
          some.insert(key, std::to_string(random() % 20));
        }
      }
      s_->apply(some);
      s_->insert("twice", std::to_string(v));  // the last one counts
      s_->insert("twice", std::to_string(v % 3));
      newest_ = s_->tag();
    }
    s_->insert("a/open", "1");
  }
  [[nodiscard]] stretches by_hand(const filter& condition, version from, version up_to) const {
    stretches all;
    for (version v = from; v <= up_to; ++v) {
      const snapshot then = s_->at(v);
      filtered_items items = then.where(condition);
      for (const item& i : items) {
        auto& of_key = all[std::string(i.key)];
        if (!of_key.empty() && of_key.back().second + 1 == v) {
          of_key.back().second = v;
        } else {
          of_key.emplace_back(v, v);
        }
      }
    }
    return all;
  }
  [[nodiscard]] static stretches all_of(stretch_range range) {
    stretches all;
    std::string last;
    for (const stretch& s : range) {
      EXPECT_LE(last, s.key);
      last = s.key;
      all[last].emplace_back(s.first, s.last);
    }
    return all;
  }

  scratch folder_{GetParam().where};
  std::filesystem::path path_ = folder_ / "store";
  std::optional<store> s_;
  version newest_ = 0;
};

TEST_P(Timeline, stretches_are_the_versions_in_which_the_filter_held) {
  for (const char* text : {"true", "i64(value) < 10", "starts_with(key, 'b/') and i64(value) % 2 = 0", "key = 'twice'",
                           "version > 5 and value = '1'"}) {
    const filter condition(text);
    EXPECT_EQ(all_of(s_->during(condition, 1, newest_)), by_hand(condition, 1, newest_)) << text;
    EXPECT_EQ(all_of(s_->during(condition, 7, 12)), by_hand(condition, 7, 12)) << text;
    EXPECT_EQ(all_of(s_->during(condition, 9, 9)), by_hand(condition, 9, 9)) << text;
  }
  EXPECT_EQ(all_of(s_->during(filter(), 1, newest_, key_bounds::of_prefix("a/1"))),
            all_of(s_->during(filter("starts_with(key, 'a/1')"), 1, newest_)));
  expect_error(errc::invalid_argument, "", [&] { static_cast<void>(s_->during(filter("removed"), 1, 2)); });
  expect_error(errc::invalid_argument, "", [&] { static_cast<void>(s_->during(filter(), 3, 2)); });
  expect_error(errc::version_not_closed, "", [&] { static_cast<void>(s_->during(filter(), 1, newest_ + 1)); });
}

TEST_P(Timeline, totals_of_many_versions_are_those_of_each) {
  const std::vector<version> versions{3, newest_, 1, 9, 10, 11, 3, 0};
  const many_versions many = s_->each(versions);
  EXPECT_EQ(many.versions(), versions);
  for (const char* text : {"true", "i64(value) < 10", "starts_with(key, 'b/') and version > 2"}) {
    const filter condition(text);
    for (const unsigned threads : {1U, 3U}) {
      const auto counts = many.count(condition, threads);
      const auto sums = many.sum(condition, "i64(value)", threads);
      const auto least = many.min(condition, "i64(value)", threads);
      const auto most = many.max(condition, "f64(value) / 2.0", threads);
      ASSERT_EQ(counts.size(), versions.size());
      for (std::size_t i = 0; i < versions.size(); ++i) {
        const snapshot then = s_->at(versions[i]);
        EXPECT_EQ(counts[i], then.count(condition)) << text << ", version " << versions[i];
        EXPECT_EQ(sums[i], then.sum(condition, "i64(value)"));
        EXPECT_EQ(least[i], then.min(condition, "i64(value)"));
        EXPECT_EQ(most[i], then.max(condition, "f64(value) / 2.0"));
      }
    }
  }
  EXPECT_TRUE(s_->each({}).count().empty());
  EXPECT_TRUE(s_->each({}).sum(filter(), "1").empty());
  expect_error(errc::version_not_closed, "", [&] { static_cast<void>(s_->each({1, newest_ + 1})); });
  expect_error(errc::invalid_argument, "", [&] { static_cast<void>(many.count(filter("first"))); });
}

INSTANTIATE_TEST_SUITE_P(All, Timeline,
                         ::testing::Values(setting{place::tmpfs, durability::none},
                                           setting{place::tmpfs, durability::operation, index_kind::persistent},
                                           setting{place::tmpfs, durability::none, index_kind::hash}),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace icecore::testing
