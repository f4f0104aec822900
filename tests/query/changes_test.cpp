// Changes between two versions, and differences by a filter, are what the histories of all keys say.
#include "icecore/changes.hpp"

#include <gtest/gtest.h>

#include <random>

#include "icecore/icecore.hpp"
#include "support/expect.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

/// A change that owns its bytes.
struct kept_change {
  std::string key;
  version at;
  std::optional<std::string> value;
  std::optional<std::string> before;
  bool first;
  friend bool operator==(const kept_change&, const kept_change&) = default;
  friend std::ostream& operator<<(std::ostream& to, const kept_change& c) {
    return to << c.key << '@' << c.at << " = " << c.value.value_or("(none)") << ", before "
              << c.before.value_or("(none)") << (c.first ? ", first" : "");
  }
};

kept_change kept(const key_change& c) {
  return {std::string(c.key), c.version, std::optional<std::string>(c.value), std::optional<std::string>(c.before),
          c.first};
}

class Changes : public ::testing::TestWithParam<setting> {
 protected:
  void SetUp() override {
    s_.emplace(path_, GetParam().options_at(path_));
    std::mt19937 random(7);
    for (int v = 0; v < 12; ++v) {
      batch some;
      for (int i = 0; i < 300; ++i) {
        const std::string key = std::string(i % 2 == 0 ? "a/" : "b/") + std::to_string(random() % 400);
        if (random() % 4 == 0) {
          some.remove(key);  // absent keys too: these removals change nothing
        } else {
          some.insert(key, std::to_string(random() % 100));
        }
      }
      s_->apply(some);
      if (v % 3 == 0) {  // several records of one version
        s_->insert("twice", std::to_string(v));
        s_->remove("twice");
        s_->insert("twice", std::to_string(v + 1));
      }
      newest_ = s_->tag();
    }
    s_->insert("a/open", "not closed");
  }
  /// From the history of each key.
  [[nodiscard]] std::vector<kept_change> by_hand(version after, version up_to) const {
    std::vector<kept_change> all;
    const auto keys = s_->keys();
    for (const std::string_view key : keys) {
      std::optional<std::string> before;
      bool first = true;
      const auto history = s_->history(key).oldest_first();
      for (const auto& [at, value] : history) {
        if (at > after && at <= up_to) {
          all.push_back({std::string(key), at, std::optional<std::string>(value), before, first});
        }
        before = std::optional<std::string>(value);
        first = false;
      }
    }
    return all;
  }
  [[nodiscard]] static std::vector<kept_change> all_of(change_range range) {
    std::vector<kept_change> all;
    for (const key_change& c : range) all.push_back(kept(c));
    return all;
  }
  template <typename Condition>
  [[nodiscard]] static std::vector<kept_change> only(std::vector<kept_change> all, const Condition& condition) {
    std::erase_if(all, [&](const kept_change& c) { return !condition(c); });
    return all;
  }

  scratch folder_{GetParam().where};
  std::filesystem::path path_ = folder_ / "store";
  std::optional<store> s_;
  version newest_ = 0;
};

TEST_P(Changes, are_all_records_between_the_versions_by_key_then_by_version) {
  for (const version after : {version{0}, version{3}, newest_ - 1}) {
    for (const version up_to : {version{3}, version{7}, newest_}) {
      if (up_to < after) continue;
      EXPECT_EQ(all_of(s_->changes(after, up_to)), by_hand(after, up_to)) << after << " to " << up_to;
    }
  }
  EXPECT_GT(by_hand(0, newest_).size(), 2'000U);
  EXPECT_TRUE(all_of(s_->changes(newest_, newest_)).empty());
}

TEST_P(Changes, filters_read_what_a_change_is) {
  const auto all = by_hand(2, 9);
  const auto found = [&](std::string_view text) { return all_of(s_->changes(2, 9).where(filter(text))); };
  EXPECT_EQ(found("removed"), only(all, [](const auto& c) { return !c.value; }));
  EXPECT_EQ(found("first"), only(all, [](const auto& c) { return c.first; }));
  EXPECT_EQ(found("not first and is_null(before.value)"),
            only(all, [](const auto& c) { return !c.first && !c.before; }));
  EXPECT_EQ(found("version between 4 and 5"), only(all, [](const auto& c) { return c.at == 4 || c.at == 5; }));
  EXPECT_EQ(found("i64(before.value) < i64(value)"),
            only(all, [](const auto& c) { return c.value && c.before && std::stoi(*c.before) < std::stoi(*c.value); }));
  EXPECT_EQ(found("starts_with(key, 'b/') or key = 'twice'"),
            only(all, [](const auto& c) { return c.key.starts_with("b/") || c.key == "twice"; }));
  EXPECT_EQ(all_of(s_->changes(2, 9).where(filter("key > 'b'")).where(filter("removed"))),
            only(all, [](const auto& c) { return c.key > "b" && !c.value; }));
  EXPECT_FALSE(found("removed").empty());
}

TEST_P(Changes, keys_can_be_bounded) {
  EXPECT_EQ(all_of(s_->changes(0, newest_, key_bounds::of_prefix("b/1"))),
            only(by_hand(0, newest_), [](const auto& c) { return c.key.starts_with("b/1"); }));
  EXPECT_EQ(all_of(s_->changes(0, newest_, {"a/2", "b/2"}).where(filter("key < 'a/3' or key >= 'b/1'"))),
            only(by_hand(0, newest_),
                 [](const auto& c) { return c.key >= "a/2" && c.key < "b/2" && (c.key < "a/3" || c.key >= "b/1"); }));
}

TEST_P(Changes, totals_are_those_of_the_changes_with_any_number_of_threads) {
  const auto wanted = only(by_hand(1, newest_), [](const auto& c) { return c.value && c.key < "b"; });
  std::int64_t sum = 0;
  std::int64_t least = 1'000;
  std::int64_t most = -1;
  for (const auto& c : wanted) {
    const std::int64_t n = std::stoi(*c.value);
    sum += n;
    least = std::min(least, n);
    most = std::max(most, n);
  }
  const auto whole = [](const std::optional<result_number>& n) {
    return std::visit([](auto x) { return static_cast<std::int64_t>(x); }, n.value());
  };
  const filter condition("not removed and key < 'b'");
  for (const unsigned threads : {1U, 3U}) {
    const change_range changes = s_->changes(1, newest_);
    EXPECT_EQ(changes.count(condition, threads), wanted.size());
    EXPECT_EQ(changes.count({}, threads), by_hand(1, newest_).size());
    EXPECT_EQ(whole(changes.sum(condition, "i64(value)", threads)), sum);
    EXPECT_EQ(whole(changes.min(condition, "i64(value)", threads)), least);
    EXPECT_EQ(whole(changes.where(filter("key < 'b'")).max(filter("not removed"), "i64(value)", threads)), most);
    EXPECT_FALSE(changes.sum(filter("key < ''"), "1", threads));
  }
}

TEST_P(Changes, a_range_starts_again_and_outlives_the_store_only_as_a_view) {
  change_range range = s_->changes(0, newest_);
  const auto all = by_hand(0, newest_);
  for (int again = 0; again < 2; ++again) EXPECT_EQ(kept(*range.begin()), all.front());
  const change_range moved = std::move(range);
  s_->close();
  expect_error(errc::closed, "", [&] { static_cast<void>(moved.count()); });
}

TEST_P(Changes, need_closed_versions_in_order) {
  expect_error(errc::version_not_closed, "", [&] { static_cast<void>(s_->changes(0, s_->clock())); });
  expect_error(errc::invalid_argument, "", [&] { static_cast<void>(s_->changes(5, 4)); });
}

TEST_P(Changes, differences_by_a_filter_are_those_that_match) {
  const auto all = [&](version before, version after, auto&& condition) {
    std::vector<kept_change> found;
    diff_range differences = s_->diff(before, after);
    for (const difference& d : differences) {
      kept_change c{std::string(d.key), 0, std::optional<std::string>(d.after), std::optional<std::string>(d.before),
                    !d.before};
      if (condition(c)) found.push_back(c);
    }
    return found;
  };
  const auto found = [&](version before, version after, std::string_view text) {
    std::vector<kept_change> matches;
    filtered_differences those = s_->diff(before, after).where(filter(text));
    for (const difference& d : those) {
      matches.push_back({std::string(d.key), 0, std::optional<std::string>(d.after),
                         std::optional<std::string>(d.before), !d.before});
    }
    EXPECT_EQ(s_->diff(before, after).count(filter(text)), matches.size());
    return matches;
  };
  for (const auto& [before, after] : {std::pair{version{3}, version{9}}, std::pair{version{9}, version{3}}}) {
    EXPECT_EQ(found(before, after, "true"), all(before, after, [](const auto&) { return true; }));
    EXPECT_EQ(found(before, after, "removed"), all(before, after, [](const auto& c) { return !c.value; }));
    EXPECT_EQ(found(before, after, "first"), all(before, after, [](const auto& c) { return !c.before; }));
    EXPECT_EQ(found(before, after, "i64(before.value) > i64(value) and (key < 'a/2' or key > 'b/3')"),
              all(before, after, [](const auto& c) {
                return c.value && c.before && std::stoi(*c.before) > std::stoi(*c.value) &&
                       (c.key < "a/2" || c.key > "b/3");
              }));
    EXPECT_FALSE(found(before, after, "removed").empty());
  }
  expect_error(errc::invalid_argument, "", [&] { static_cast<void>(s_->diff(3, 9).where(filter("version = 4"))); });
}

INSTANTIATE_TEST_SUITE_P(All, Changes,
                         ::testing::Values(setting{place::tmpfs, durability::none},
                                           setting{place::tmpfs, durability::operation, index_kind::persistent},
                                           setting{place::tmpfs, durability::none, index_kind::hash},
                                           setting{place::tmpfs, durability::none, index_kind::skip_list}),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace icecore::testing
