// Differences and changes of recent versions, found by what was written: the same as a pass over all keys finds.
#include "store/feed/written_keys.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "icecore/changes.hpp"
#include "icecore/icecore.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

using content = std::map<std::string, std::string>;

/// Whether differences of these versions are found without a pass over all keys.
bool are_known(const store& s, version after, version up_to) {
  return detail::with_engine(s.core(), [&](const auto& engine) {
    return detail::entries_written(engine, after, up_to, detail::few_of(engine.index().size())).has_value();
  });
}

std::vector<std::string> keys_written(const store& s, version after, version up_to) {
  return detail::with_engine(s.core(), [&](const auto& engine) {
    const std::vector<link> entries =
        detail::entries_written(engine, after, up_to, detail::few_of(engine.index().size())).value();
    std::vector<std::string> keys;
    for (const link entry : entries) keys.emplace_back(engine.key_of(entry));
    std::ranges::sort(keys);
    return keys;
  });
}

content difference_of(const content& before, const content& after) {
  const auto shown = [](const content& in, const std::string& key) {
    const auto at = in.find(key);
    return at == in.end() ? "(none)" : at->second;
  };
  content all = before;
  all.insert(after.begin(), after.end());
  content found;
  for (const auto& [key, value] : all) {
    if (shown(before, key) != shown(after, key)) found[key] = shown(before, key) + " to " + shown(after, key);
  }
  return found;
}

content difference_of(const store& s, version before, version after, const key_bounds& bounds = {}) {
  content found;
  std::string last;
  for (const difference& d : s.diff(before, after, bounds)) {
    EXPECT_TRUE(found.empty() || last < d.key) << "not in order";
    last = std::string(d.key);
    found[last] = std::string(d.before.value_or("(none)")) + " to " + std::string(d.after.value_or("(none)"));
  }
  return found;
}

class WrittenKeys : public ::testing::TestWithParam<setting> {
 protected:
  static constexpr unsigned keys = 3'000;

  void SetUp() override { s_.emplace(path_, opening()); }
  [[nodiscard]] options opening() const { return GetParam().options_at(path_); }
  [[nodiscard]] static std::string key_of(std::uint64_t i) { return "key " + std::to_string(i); }

  version load() {
    for (unsigned i = 0; i < keys; ++i) write(key_of(i), "loaded");
    return close();
  }
  void write(const std::string& key, const std::string& value) {
    s_->insert(key, value);
    now_[key] = value;
  }
  version close() {
    const version v = s_->tag();
    at_[v] = now_;
    return v;
  }

  scratch folder_{GetParam().where};
  std::filesystem::path path_ = folder_ / "written.ice";
  std::optional<store> s_;
  content now_;
  std::map<version, content> at_;
};

TEST_P(WrittenKeys, are_those_of_the_differences_of_any_two_versions) {
  std::mt19937 random(5);
  load();
  for (int v = 0; v < 40; ++v) {
    const std::uint64_t writes = random() % 8 == 0 ? keys / 3 : random() % 9;
    for (std::uint64_t i = 0; i < writes; ++i) {
      const std::string key = key_of(random() % (keys + 500));
      if (random() % 3 == 0) {
        s_->remove(key);
        now_.erase(key);
      } else {
        write(key, std::to_string(random() % 50));
      }
    }
    if (random() % 4 == 0) {
      batch some;
      for (int i = 0; i < 5; ++i) {
        const std::string key = key_of(random() % keys);
        some.insert(key, "batch");
        now_[key] = "batch";
      }
      s_->apply(some);
    }
    close();
  }
  unsigned known = 0;
  unsigned unknown = 0;
  for (int i = 0; i < 200; ++i) {
    const auto one = std::next(at_.begin(), static_cast<std::ptrdiff_t>(random() % at_.size()));
    const auto other = std::next(at_.begin(), static_cast<std::ptrdiff_t>(random() % at_.size()));
    const auto expected = difference_of(one->second, other->second);
    ASSERT_EQ(difference_of(*s_, one->first, other->first), expected) << one->first << " to " << other->first;
    content within(expected.lower_bound("key 2"), expected.lower_bound("key 3"));
    ASSERT_EQ(difference_of(*s_, one->first, other->first, {"key 2", "key 3"}), within);
    const version low = std::min(one->first, other->first);
    const version high = std::max(one->first, other->first);
    ++(are_known(*s_, low, high) ? known : unknown);
    std::uint64_t changes = 0;
    for (const auto& key : s_->keys()) {
      const auto history = s_->history(key).oldest_first();
      bool there = false;
      for (const auto& [at, value] : history) {
        changes += at > low && at <= high && (value || there) ? 1U : 0U;
        there = value.has_value();
      }
    }
    if (i % 20 == 0) {
      ASSERT_EQ(s_->changes(low, high).count(filter()), changes) << low << " to " << high;
    }
  }
  EXPECT_GT(known, 20U);
  EXPECT_GT(unknown, 20U);
}

TEST_P(WrittenKeys, are_found_in_ranges_that_writers_have_left_and_not_in_those_that_were_forgotten) {
  const version first = load();
  const std::string large(60'000, 'v');  // a segment holds one
  const auto fill = [&](unsigned segments) {
    for (unsigned i = 0; i < segments; ++i) s_->insert("large", large);
  };
  write("early", "1");
  const version early = close();
  fill(2);
  const version then = close();
  write("late", "1");
  const version late = close();
  EXPECT_EQ(keys_written(*s_, then, late), (std::vector<std::string>{"late"}));
  EXPECT_EQ(keys_written(*s_, early, late), (std::vector<std::string>{"large", "late"}));
  EXPECT_EQ(keys_written(*s_, first, early), (std::vector<std::string>{"early"}));
  if (GetParam().where != place::tmpfs) return;  // what follows writes much
  fill(filled_ranges::kept + 8);
  const version full = close();
  write("last", "1");
  const version last = close();
  EXPECT_FALSE(are_known(*s_, first, early)) << "the list is too short for it";
  EXPECT_EQ(keys_written(*s_, full, last), (std::vector<std::string>{"last"}));
  EXPECT_EQ(difference_of(*s_, first, early), (content{{"early", "(none) to 1"}}));
}

TEST_P(WrittenKeys, are_not_known_while_a_write_may_still_be_stamped_with_the_version) {
  load();
  const version before = close();
  write("key 1", "2");
  const version after = close();
  EXPECT_TRUE(are_known(*s_, before, after));
  auto write_under_way = std::make_unique<writer_lease>(s_->core().writers());
  EXPECT_FALSE(are_known(*s_, before, after));
  EXPECT_EQ(difference_of(*s_, before, after), (content{{"key 1", "loaded to 2"}}));
  write_under_way.reset();
  EXPECT_TRUE(are_known(*s_, before, after));
}

TEST_P(WrittenKeys, of_versions_before_the_store_was_opened_are_not_known) {
  const version before = load();
  write("key 1", "2");
  const version after = close();
  s_.emplace(folder_ / "another", GetParam().options_at(folder_ / "another"));
  s_.emplace(path_, opening());
  write("key 3", "4");
  const version later = close();
  EXPECT_FALSE(are_known(*s_, before, later));
  EXPECT_EQ(keys_written(*s_, after, later), (std::vector<std::string>{"key 3"}));
  EXPECT_EQ(difference_of(*s_, before, later), (content{{"key 1", "loaded to 2"}, {"key 3", "loaded to 4"}}));
}

INSTANTIATE_TEST_SUITE_P(All, WrittenKeys,
                         ::testing::Values(setting{place::tmpfs, durability::operation},
                                           setting{place::tmpfs, durability::none},
                                           setting{place::tmpfs, durability::operation, index_kind::persistent},
                                           setting{place::tmpfs, durability::operation, index_kind::hash},
                                           setting{place::disk, durability::tag}),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace icecore::testing
