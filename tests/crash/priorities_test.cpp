// Few changes of writers at random steps find what the first runs of a depth-first order do not come to.
#include "priorities.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "exhaustive.hpp"

namespace icecore::crash {
namespace {

/// Two programs with more interleavings than anyone can run: the second one sees 7 only between the first two steps of
/// the first one.
class early_window {
 public:
  [[nodiscard]] bool is_hit_by(schedule& how) {
    for (std::uint64_t& w : word_) w = 0;
    order_.clear();
    std::uint64_t seen = 0;
    fibers::run({[&] {
                   store(0, 7);
                   store(0, 0);
                   for (std::uint64_t i = 0; i < 30; ++i) store(1, i);
                 },
                 [&] {
                   fibers::point(&word_[0], false);
                   seen = word_[0];
                   for (std::uint64_t i = 0; i < 30; ++i) store(1, i);
                 }},
                how);
    return seen == 7;
  }
  /// Who stored, in this order, in the last run.
  [[nodiscard]] const std::vector<unsigned>& order() const noexcept { return order_; }

 private:
  void store(int i, std::uint64_t value) {
    fibers::point(&word_[i], true);
    word_[i] = value;
    order_.push_back(fibers::current());
  }

  std::uint64_t word_[2] = {};
  std::vector<unsigned> order_;
};

constexpr std::uint64_t runs = 2'000;
constexpr std::size_t steps = 65;

TEST(Priorities, find_a_window_that_the_first_runs_of_a_depth_first_order_do_not) {
  early_window program;
  exhaustive_schedule all;
  for (std::uint64_t i = 0; i < runs; ++i) {
    ASSERT_FALSE(program.is_hit_by(all));
    ASSERT_TRUE(all.next());
  }
  std::uint64_t hits = 0;
  for (std::uint64_t seed = 0; seed < runs; ++seed) {
    priority_schedule how(seed, steps);
    hits += program.is_hit_by(how) ? 1 : 0;
  }
  EXPECT_GE(hits, runs / (2 * steps) / 2);  // half of what is promised for a depth of two: there are greater ones
}

TEST(Priorities, give_the_same_run_for_the_same_seed_and_others_for_others) {
  early_window program;
  const auto order_of = [&](std::uint64_t seed) {
    priority_schedule how(seed, steps);
    static_cast<void>(program.is_hit_by(how));
    return program.order();
  };
  const auto first = order_of(1);
  EXPECT_EQ(order_of(1), first);
  unsigned others = 0;
  for (std::uint64_t seed = 2; seed < 12; ++seed) others += order_of(seed) != first ? 1 : 0;
  EXPECT_GE(others, 8U);
}

TEST(Priorities, let_the_one_go_on_that_others_wait_for) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    std::uint64_t word = 0;
    priority_schedule how(seed, 20);
    fibers::run({[&] {
                   fibers::point(&word, true);
                   word = 1;
                 },
                 [&] {
                   do fibers::point(&word, false);
                   while (word == 0);
                 }},
                how);
    EXPECT_LT(how.steps(), 1'000U);
  }
}

}  // namespace
}  // namespace icecore::crash
