// The explorer of interleavings finds every outcome of small programs, and judges of orders reject what has none.
#include "exhaustive.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "orders.hpp"

namespace icecore::crash {
namespace {

/// Words that two writers share; each access is a step.
struct shared_words {
  std::uint64_t word[8] = {};  // 64 bytes: apart for the explorer, which looks at words of 8
  std::uint64_t load(int i) {
    fibers::point(&word[i], false);
    return word[i];
  }
  void store(int i, std::uint64_t value) {
    fibers::point(&word[i], true);
    word[i] = value;
  }
};

template <class A, class B, class Outcome>
std::set<std::uint64_t> outcomes(const A& a, const B& b, const Outcome& of) {
  std::set<std::uint64_t> found;
  exhaustive_schedule all;
  do {
    shared_words s;
    std::uint64_t seen[2] = {};
    fibers::run({[&] { a(s, seen[0]); }, [&] { b(s, seen[1]); }}, all);
    found.insert(of(s, seen));
    EXPECT_LT(all.runs(), 10'000U);
  } while (all.next());
  return found;
}

TEST(Exhaustive, finds_that_an_update_may_be_lost) {
  const auto add = [](shared_words& s, std::uint64_t&) { s.store(0, s.load(0) + 1); };
  const auto found = outcomes(add, add, [](shared_words& s, const std::uint64_t*) { return s.word[0]; });
  EXPECT_EQ(found, (std::set<std::uint64_t>{1, 2}));
}

TEST(Exhaustive, finds_each_pair_of_values_that_two_readers_of_the_others_word_may_see) {
  const auto writer = [](int own, int other) {
    return [own, other](shared_words& s, std::uint64_t& seen) {
      s.store(own, 1);
      seen = s.load(other);
    };
  };
  const auto found = outcomes(writer(0, 1), writer(1, 0),
                              [](shared_words&, const std::uint64_t* seen) { return seen[0] * 2 + seen[1]; });
  EXPECT_EQ(found, (std::set<std::uint64_t>{1, 2, 3}));  // never neither: somebody came first
}

TEST(Exhaustive, finds_a_window_of_one_step_in_long_programs) {
  // the second one sees 7 only between two neighbouring steps of the first
  const auto first = [](shared_words& s, std::uint64_t&) {
    for (int i = 0; i < 20; ++i) s.store(1 + i % 3, 1);
    s.store(0, 7);
    s.store(0, 0);
    for (int i = 0; i < 20; ++i) s.store(1 + i % 3, 2);
  };
  const auto second = [](shared_words& s, std::uint64_t& seen) {
    for (int i = 0; i < 20; ++i) (void)s.load(4 + i % 4);
    seen = s.load(0);
  };
  const auto found = outcomes(first, second, [](shared_words&, const std::uint64_t* seen) { return seen[1]; });
  EXPECT_EQ(found, (std::set<std::uint64_t>{0, 7}));
}

TEST(Exhaustive, runs_what_does_not_touch_the_same_words_once) {
  const auto writer = [](int own) {
    return [own](shared_words& s, std::uint64_t&) {
      for (std::uint64_t i = 0; i < 50; ++i) s.store(own, i);
    };
  };
  exhaustive_schedule all;
  shared_words s;
  std::uint64_t seen = 0;
  const auto a = writer(0);
  const auto b = writer(1);
  fibers::run({[&] { a(s, seen); }, [&] { b(s, seen); }}, all);
  EXPECT_FALSE(all.next());
  EXPECT_EQ(all.steps(), 102U);  // with the two beginnings
}

TEST(Exhaustive, waits_for_the_one_that_a_writer_waits_for) {
  const auto signal = [](shared_words& s, std::uint64_t&) {
    s.store(1, 5);
    s.store(0, 1);
  };
  const auto wait = [](shared_words& s, std::uint64_t& seen) {
    while (s.load(0) == 0) {
    }
    seen = s.load(1);
  };
  const auto found = outcomes(signal, wait, [](shared_words&, const std::uint64_t* seen) { return seen[1]; });
  EXPECT_EQ(found, (std::set<std::uint64_t>{5}));
}

// A schedule that is tried again, or a story that is replayed without those before it, must be the same.
TEST(Fibers, limits_of_waits_are_over_at_the_same_places_of_each_run) {
  const auto run = [] {
    std::vector<bool> over;
    random_schedule schedule(17);
    fibers::run({[&] {
                  for (int i = 0; i < 6; ++i) over.push_back(fibers::limit_is_over());
                }},
                schedule);
    return over;
  };
  const auto first = run();
  EXPECT_THAT(first, testing::Contains(true));
  EXPECT_EQ(first, run());
}

// ---- Orders ----

answered inserted(const std::string& value, version v, std::uint64_t called, std::uint64_t returned) {
  return {answered::kind::insert, {{"k", value}}, called, returned, v, 0, {}, {}};
}
answered found(std::optional<std::string> value, std::uint64_t called, std::uint64_t returned) {
  return {answered::kind::find, {{"k", std::nullopt}}, called, returned, 0, 0, std::move(value), {}};
}
answered removed(version v, std::uint64_t called, std::uint64_t returned) {
  return {answered::kind::remove, {{"k", std::nullopt}}, called, returned, v, 0, {}, {}};
}
answered tagged(version v, std::optional<std::string> shown, std::uint64_t called, std::uint64_t returned) {
  answered a{answered::kind::tag, {}, called, returned, v, 0, {}, answered::items{}};
  if (shown) a.shown->emplace("k", *shown);
  return a;
}
answered looked(version v, std::optional<std::string> shown, std::uint64_t called, std::uint64_t returned) {
  answered a = tagged(v, std::move(shown), called, returned);
  a.what = answered::kind::look;
  return a;
}

TEST(Orders, are_found_where_there_are_some) {
  EXPECT_TRUE(has_order({}, 1, {inserted("a", 1, 1, 4), inserted("b", 1, 2, 3)}, {{"k", {{1, "a"}, {1, "b"}}}}));
  EXPECT_TRUE(has_order({}, 1, {inserted("a", 1, 1, 4), inserted("b", 1, 2, 3)}, {{"k", {{1, "b"}, {1, "a"}}}}));
  EXPECT_TRUE(has_order({}, 1, {inserted("a", 1, 1, 2), tagged(1, "a", 3, 4), inserted("b", 2, 5, 6)},
                        {{"k", {{1, "a"}, {2, "b"}}}}));
  EXPECT_TRUE(has_order({}, 1, {removed(0, 1, 4), inserted("a", 1, 2, 3), found("a", 5, 6)}, {{"k", {{1, "a"}}}}));
  // a snapshot closes a version, or finds nothing written since the last one was closed
  EXPECT_TRUE(
      has_order({}, 1, {inserted("a", 1, 1, 2), looked(1, "a", 3, 4), looked(1, "a", 5, 6)}, {{"k", {{1, "a"}}}}));
}

TEST(Orders, are_not_found_where_there_are_none) {
  // the later one below the earlier one
  EXPECT_FALSE(has_order({}, 1, {inserted("a", 1, 1, 2), inserted("b", 1, 3, 4)}, {{"k", {{1, "b"}, {1, "a"}}}}));
  // a lost write, one from nowhere, one twice
  EXPECT_FALSE(has_order({}, 1, {inserted("a", 1, 1, 2)}, {}));
  EXPECT_FALSE(has_order({}, 1, {}, {{"k", {{1, "a"}}}}));
  EXPECT_FALSE(has_order({}, 1, {inserted("a", 1, 1, 2)}, {{"k", {{1, "a"}, {1, "a"}}}}));
  // a stale find, a find of what is yet to come
  EXPECT_FALSE(has_order({}, 1, {inserted("a", 1, 1, 2), found(std::nullopt, 3, 4)}, {{"k", {{1, "a"}}}}));
  EXPECT_FALSE(has_order({}, 1, {found("a", 1, 2), inserted("a", 1, 3, 4)}, {{"k", {{1, "a"}}}}));
  // a write in another version than its tag says
  EXPECT_FALSE(has_order({}, 1, {tagged(1, std::nullopt, 1, 2), inserted("a", 1, 3, 4)}, {{"k", {{1, "a"}}}}));
  EXPECT_FALSE(has_order({}, 1, {inserted("a", 1, 1, 2), tagged(1, std::nullopt, 3, 4)}, {{"k", {{1, "a"}}}}));
  // a snapshot without what had been written
  EXPECT_FALSE(has_order({}, 2, {inserted("a", 2, 1, 2), looked(1, std::nullopt, 3, 4)}, {{"k", {{2, "a"}}}}));
  // a version given to two tags, a remove that found what was not there, two removes of one insert
  EXPECT_FALSE(has_order({}, 1, {tagged(1, std::nullopt, 1, 4), tagged(1, std::nullopt, 2, 3)}, {}));
  EXPECT_FALSE(has_order({}, 1, {removed(1, 1, 2)}, {{"k", {{1, std::nullopt}}}}));
  EXPECT_FALSE(has_order({}, 1, {inserted("a", 1, 1, 2), removed(1, 3, 6), removed(1, 4, 5)},
                         {{"k", {{1, "a"}, {1, std::nullopt}, {1, std::nullopt}}}}));
}

}  // namespace
}  // namespace icecore::crash
