// Histories of a few changes and of thousands, packed once and again, with removals at any place: each shows what a
// model shows, also those that are read to some version only.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "icecore/icecore.hpp"
#include "support/expect.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

struct model_change {
  version at;
  std::optional<std::string> value;
  friend bool operator==(const model_change&, const model_change&) = default;
};
using model_history = std::vector<model_change>;  // oldest first

class HistoriesOfPacked : public ::testing::TestWithParam<compression> {
 protected:
  [[nodiscard]] unsigned below(unsigned end) { return std::uniform_int_distribution<unsigned>(0, end - 1)(random_); }

  /// In runs of inserts, of removals that batches record even where the key is absent, and of both.
  void write(store& s, std::size_t key, unsigned changes) {
    const std::string name = "key " + std::to_string(key);
    model_history& history = model_[key];
    while (changes > 0) {
      const unsigned kind = below(3);
      for (unsigned run = std::min(changes, 1 + below(kind == 1 ? 40 : 400)); run > 0; --run, --changes) {
        const bool is_there = !history.empty() && history.back().value.has_value();
        batch one;
        if (kind == 1 || (kind == 2 && below(2) == 0)) {
          one.remove(name);
          s.apply(one);
          const version v = s.tag();
          if (is_there) history.push_back({v, std::nullopt});
        } else {
          const std::string value(below(60), static_cast<char>('a' + below(26)));
          s.insert(name, value);
          history.push_back({s.tag(), value});
        }
      }
    }
  }

  static model_history shown(key_history history) {
    model_history all;
    for (const change& each : history) {
      all.push_back({each.version, each.value ? std::optional(std::string(*each.value)) : std::nullopt});
    }
    std::ranges::reverse(all);
    return all;
  }

  void expect_all(const store& s) {
    for (std::size_t key = 0; key < model_.size(); ++key) {
      const std::string name = "key " + std::to_string(key);
      const model_history& history = model_[key];
      ASSERT_EQ(shown(s.history(name)), history) << name;
      if (history.empty()) continue;
      const version up_to = history[below(static_cast<unsigned>(history.size()))].at;
      model_history until = history;
      std::erase_if(until, [&](const model_change& each) { return each.at > up_to; });
      model_history then;
      for (const change& each : s.at(up_to).history(name)) {
        then.push_back({each.version, each.value ? std::optional(std::string(*each.value)) : std::nullopt});
      }
      std::ranges::reverse(then);
      ASSERT_EQ(then, until) << name << " up to " << up_to;
    }
  }

  const scratch folder_;
  std::mt19937 random_{22};
  std::vector<model_history> model_ = std::vector<model_history>(12);
};

TEST_P(HistoriesOfPacked, show_what_a_model_shows) {
  store s(folder_ / "packed.ice");
  for (const unsigned most : {3000U, 700U, 90U, 12U}) {
    for (std::size_t key = 0; key < model_.size(); ++key) write(s, key, below(most));
    expect_all(s);
    compaction_options how;
    how.compression = GetParam();
    ASSERT_TRUE(s.compact(how).packed);
    expect_all(s);
  }
  EXPECT_GT(s.stats().strata, 1U);
}

/// A history is begun anew amid what was read ahead.
TEST_P(HistoriesOfPacked, can_be_begun_again_anywhere) {
  store s(folder_ / "packed.ice");
  write(s, 0, 2000);
  compaction_options how;
  how.compression = GetParam();
  ASSERT_TRUE(s.compact(how).packed);
  key_history history = s.history("key 0");
  for (const std::size_t steps : {1U, 4U, 5U, 6U, 30U, 300U, 5U}) {
    auto at = history.begin();
    auto expected = model_[0].rbegin();
    for (std::size_t n = 0; n < steps && at != history.end(); ++n, ++at, ++expected) {
      ASSERT_EQ((*at).version, expected->at) << n;
    }
  }
}

TEST_P(HistoriesOfPacked, are_looked_ahead_in_by_copies) {
  store s(folder_ / "packed.ice");
  write(s, 0, 700);
  compaction_options how;
  how.compression = GetParam();
  ASSERT_TRUE(s.compact(how).packed);
  write(s, 0, 5);
  const model_history& history = model_[0];
  key_history past = s.history("key 0");
  std::size_t left = history.size();
  for (auto i = past.begin(); i != past.end(); ++i, --left) {
    key_history copy = past;
    std::size_t ahead = left;
    for (auto j = i.in(copy); j != copy.end(); ++j, --ahead) {
      ASSERT_GT(ahead, 0U);
      const model_change& expected = history[ahead - 1];
      ASSERT_EQ(j->version, expected.at);
      ASSERT_EQ(j->value, expected.value);
      if (left - ahead == 40) break;
    }
    ASSERT_EQ(ahead, left > 40 ? left - 40 : 0) << left;
    ASSERT_EQ(i->version, history[left - 1].at);
  }
  ASSERT_EQ(left, 0U);
}

TEST_P(HistoriesOfPacked, that_cannot_be_read_on_are_not_at_their_end) {
  store s(folder_ / "packed.ice");
  compaction_options how;
  how.compression = GetParam();
  for (const char* const value : {"a", "b", "c"}) {
    s.insert("key", value);
    s.tag();
    if (*value == 'b') {
      ASSERT_TRUE(s.compact(how).packed);
    }
  }
  key_history past = s.history("key");
  auto i = past.begin();
  s.close();
  for (int attempt = 0; attempt < 3; ++attempt) {
    expect_error(errc::closed, "closed", [&] { ++i; });
    ASSERT_NE(i, past.end());
    EXPECT_EQ(i->version, 3U);
    EXPECT_EQ(i->value, "c");
  }
}

INSTANTIATE_TEST_SUITE_P(Each, HistoriesOfPacked, ::testing::Values(compression::none, compression::zstd),
                         [](const auto& each) { return each.param == compression::none ? "plain" : "compressed"; });

}  // namespace
}  // namespace icecore::testing
