// A merge keeps what each kept version shows, and nothing that none shows.
#include "stratum/merge/merge.hpp"

#include <gmock/gmock.h>

#include <deque>
#include <set>

#include "icecore/error.hpp"
#include "packed_model.hpp"

namespace icecore::stratum {
namespace {

/// Extents in memory.
class memory_target final : public extent_target {
 public:
  explicit memory_target(std::size_t bytes = 1 << 20) : room_(bytes) {}
  room begin(std::uint64_t /*at_least*/) override {
    if (begun_ == rooms_max) raise_no_space();
    ++begun_;
    memory_.emplace_back(room_);
    return {memory_.back().get(), static_cast<std::uint32_t>(memory_.size())};
  }
  void complete(std::uint64_t size) override {
    extents_.emplace_back(
        memory_.back().get().first(size),
        extent_place{.file = "merged", .offset = 0, .seed = static_cast<std::uint32_t>(memory_.size())});
  }
  [[nodiscard]] const std::deque<extent>& extents() const { return extents_; }
  std::size_t rooms_max = 1'000'000;

 private:
  [[noreturn]] static void raise_no_space() { throw error(errc::no_space, "no room"); }
  std::size_t room_;
  std::size_t begun_ = 0;
  std::deque<aligned_bytes> memory_;
  std::deque<extent> extents_;
};

/// All records, in order, as a model.
[[nodiscard]] histories_model read(const std::deque<extent>& all) {
  histories_model told;
  std::pair<std::string, version> before{"", version_max + 1};
  for (const extent& e : all) {
    e.verify([](std::string_view what, std::uint64_t) { ADD_FAILURE() << what; });
    for (extent_records r(e); !r.at_end(); r.next()) {
      EXPECT_TRUE(before.first < r.key() || (before.first == r.key() && before.second > r.record().stamped));
      before = {std::string(r.key()), r.record().stamped};
      const seen one = as_seen(r.record());
      told[std::string(r.key())].emplace_back(one.stamped, one.value);
    }
  }
  return told;
}

/// The part of all histories whose versions are in (after, up_to].
[[nodiscard]] histories_model between(const histories_model& all, version after, version up_to) {
  histories_model some;
  for (const auto& [key, history] : all) {
    for (const auto& one : history) {
      if (one.first > after && one.first <= up_to) some[key].push_back(one);
    }
  }
  return some;
}

/// What the definition keeps: a record that a kept version shows, or the present.
[[nodiscard]] histories_model kept_of(const histories_model& all, const std::vector<version>& kept) {
  histories_model some;
  for (const auto& [key, history] : all) {
    std::set<version> shown{history.front().first};
    for (const version v : kept) {
      if (const auto one = find_in(all, key, v)) shown.insert(one->stamped);
    }
    for (const auto& one : history) {
      if (shown.contains(one.first)) some[key].push_back(one);
    }
  }
  return some;
}

[[nodiscard]] histories_model without_removals_at_the_end(histories_model all) {
  histories_model some;
  for (auto& [key, history] : all) {
    while (!history.empty() && !history.back().second) history.pop_back();
    if (!history.empty()) some[key] = history;
  }
  return some;
}

/// Histories cut into generations, each packed into extents of its own.
struct generations {
  generations(const histories_model& all, const std::vector<version>& cuts) {
    version after = 0;
    for (const version up_to : cuts) {
      histories_model part = between(all, after, up_to);
      after = up_to;
      if (!part.empty()) packs.push_back(pack(part, 400));
    }
    for (const packed& p : packs) extents.push_back(p.open());
  }
  [[nodiscard]] merge_totals merge_into(extent_target& target, const merge_rule& rule, const merge_range& range = {}) {
    std::deque<extent_records> readers;
    std::vector<record_source*> sources;
    for (const extent& e : extents) sources.push_back(&readers.emplace_back(e, range.from));
    return merge(sources, rule, range, target, 400);
  }
  std::deque<packed> packs;
  std::deque<extent> extents;
};

struct Merges : testing::TestWithParam<shape> {
  histories_model all = GetParam().make();
  version newest = [this] {
    version v = 0;
    for (const auto& [key, history] : all) v = std::max(v, history.front().first);
    return v;
  }();
  std::vector<version> cuts{newest / 3, newest / 2, newest * 4 / 5, newest};
  std::uint64_t records = [this] {
    std::uint64_t n = 0;
    for (const auto& [key, history] : all) n += history.size();
    return n;
  }();
};

TEST_P(Merges, of_all_versions_keep_every_record) {
  generations g(all, cuts);
  memory_target target(200'000);
  const merge_totals told = g.merge_into(target, {.kept = kept_versions::all(), .is_oldest = true});
  EXPECT_EQ(read(target.extents()), all);
  EXPECT_EQ(told.read, records);
  EXPECT_EQ(told.kept, records);
  EXPECT_EQ(told.extents, target.extents().size());
}

TEST_P(Merges, keep_what_kept_versions_show_and_nothing_else) {
  std::mt19937_64 random(8);
  for (const std::size_t count : {0U, 1U, 2U, 5U, 40U}) {
    std::vector<version> kept;
    for (std::size_t i = 0; i < count; ++i) kept.push_back(1 + random() % newest);
    const kept_versions rule(kept);
    for (const bool is_oldest : {false, true}) {
      generations g(all, cuts);
      memory_target target;
      const merge_totals told = g.merge_into(target, {.kept = rule, .is_oldest = is_oldest});
      const histories_model wanted = kept_of(all, kept);
      ASSERT_EQ(read(target.extents()), is_oldest ? without_removals_at_the_end(wanted) : wanted);
      ASSERT_EQ(told.read, records);
    }
  }
}

TEST_P(Merges, of_young_generations_hide_what_an_older_one_shows) {
  // The oldest generation is not merged. Each kept version must show the same through both.
  const std::vector<version> kept{newest / 4, newest * 2 / 3, newest};
  const histories_model oldest = between(all, 0, cuts[0]);
  const histories_model young = between(all, cuts[0], newest);
  if (oldest.empty() || young.empty()) return;
  generations g(young, {cuts[1], cuts[2], newest});
  memory_target target;
  (void)g.merge_into(target, {.kept = kept_versions(kept), .is_oldest = false});
  const histories_model merged = read(target.extents());
  for (const auto& [key, history] : all) {
    for (const version v : kept) {
      auto shown = find_in(merged, key, v);
      if (!shown) shown = find_in(oldest, key, v);
      ASSERT_EQ(shown ? shown->value : std::nullopt, find_in(all, key, v) ? find_in(all, key, v)->value : std::nullopt)
          << key << " at " << v;
    }
  }
}

TEST_P(Merges, of_key_ranges_are_together_the_merge_of_all) {
  std::vector<std::string> bounds;
  std::size_t i = 0;
  for (const auto& [key, history] : all) {
    if (++i % (1 + all.size() / 4) == 0) bounds.push_back(bounds.size() % 2 == 0 ? key : key + '\0');
  }
  histories_model together;
  for (std::size_t part = 0; part <= bounds.size(); ++part) {
    generations g(all, cuts);
    memory_target target;
    (void)g.merge_into(target, {.kept = kept_versions::all()},
                       {.from = part == 0 ? std::string_view() : bounds[part - 1],
                        .to = part == bounds.size() ? std::nullopt : std::optional<std::string_view>(bounds[part])});
    for (auto& [key, history] : read(target.extents())) {
      ASSERT_FALSE(together.contains(key)) << key;
      together[key] = history;
    }
  }
  EXPECT_EQ(together, all);
}

TEST_P(Merges, leave_nothing_of_forgotten_keys) {
  generations g(all, cuts);
  memory_target target;
  const auto is_forgotten = [](std::string_view key) { return key.size() % 2 == 0; };
  const auto up_to = [&](std::string_view key) { return is_forgotten(key) ? version_max : 0; };
  (void)g.merge_into(target, {.kept = kept_versions::all(), .is_oldest = true, .forgotten_up_to = up_to});
  histories_model wanted = all;
  std::erase_if(wanted, [&](const auto& one) { return is_forgotten(one.first); });
  EXPECT_EQ(read(target.extents()), wanted);
}

TEST_P(Merges, leave_of_forgotten_keys_what_was_written_later_and_no_removal_below) {
  generations g(all, cuts);
  memory_target target;
  const version half = newest / 2;
  const auto is_forgotten = [](std::string_view key) { return key.size() % 2 == 0; };
  const auto up_to = [&](std::string_view key) { return is_forgotten(key) ? half : 0; };
  (void)g.merge_into(target, {.kept = kept_versions::all(), .is_oldest = false, .forgotten_up_to = up_to});
  histories_model wanted;
  for (const auto& [key, history] : all) {
    auto left = history;
    if (is_forgotten(key)) {
      std::erase_if(left, [half](const auto& one) { return one.first <= half; });
      while (!left.empty() && !left.back().second) left.pop_back();
    }
    if (!left.empty()) wanted[key] = left;
  }
  EXPECT_EQ(read(target.extents()), wanted);
}

INSTANTIATE_TEST_SUITE_P(OfAllShapes, Merges, testing::ValuesIn([] {
                           std::vector<shape> some;
                           for (const shape& s : shapes()) {
                             if (s.name != "the_longest_keys") some.push_back(s);
                           }
                           return some;
                         }()),
                         [](const auto& named) { return named.param.name; });

TEST(Merge, a_record_that_fits_nowhere_is_an_error) {
  generations g({{"k", {{1, std::string(3000, 'x')}}}}, {1});
  memory_target target(2000);
  EXPECT_THROW((void)g.merge_into(target, {.kept = kept_versions::all()}), error);
}

TEST(Merge, what_the_target_raises_ends_it) {
  const histories_model all = shapes()[0].make();
  generations g(all, {version_max});
  memory_target target(4000);
  target.rooms_max = 2;
  EXPECT_THROW((void)g.merge_into(target, {.kept = kept_versions::all()}), error);
  EXPECT_EQ(target.extents().size(), 2);
}

TEST(Merge, of_nothing_writes_nothing) {
  memory_target target;
  const merge_totals told = merge({}, {.kept = kept_versions::all()}, {}, target);
  EXPECT_EQ(told.read + told.kept + told.extents + told.bytes, 0);
}

TEST(KeptVersions, keep_the_newest_record_at_or_before_each) {
  const kept_versions some({90, 40});
  record_filter filter(some);
  filter.begin_key();
  EXPECT_TRUE(filter.stays(95));
  EXPECT_TRUE(filter.stays(60));
  EXPECT_FALSE(filter.stays(50));
  EXPECT_TRUE(filter.stays(30));
  EXPECT_FALSE(filter.stays(20));
  EXPECT_TRUE(some.has(90));
  EXPECT_FALSE(some.has(89));
  EXPECT_FALSE(some.has(91));
}

}  // namespace
}  // namespace icecore::stratum
