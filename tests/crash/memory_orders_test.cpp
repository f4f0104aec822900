// What memory orders put one behind the other is no race, and all else is one; loads show what the orders let them.
#include "memory_orders.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "fibers.hpp"

namespace icecore::crash {
namespace {

constexpr int relaxed = __ATOMIC_RELAXED;
constexpr int acquire = __ATOMIC_ACQUIRE;
constexpr int release = __ATOMIC_RELEASE;

/// Runs one writer after the other.
class one_by_one final : public schedule {
 public:
  unsigned choose(unsigned current, const std::vector<step>&, const std::vector<bool>& ready) override {
    while (!ready[current]) current = (current + 1) % static_cast<unsigned>(ready.size());
    return current;
  }
};

std::uint64_t data[2];
std::uint64_t flag;

void store(std::uint64_t& word, std::uint64_t value, int order) {
  const std::uint64_t before = std::exchange(word, value);
  memory_orders::stored({&word, sizeof word}, order, before, value);
}
void exchange(std::uint64_t& word, std::uint64_t value, int order) {
  const std::uint64_t before = std::exchange(word, value);
  memory_orders::exchanged({&word, sizeof word}, order, before, value);
}
std::uint64_t load(const std::uint64_t& word, int order) {
  return memory_orders::loaded({&word, sizeof word}, order, word);
}
void observe(const std::uint64_t& word, int order) { static_cast<void>(load(word, order)); }

void write() { memory_orders::at(memory_orders::access::write, &data[0], 8, nullptr); }
void read() { memory_orders::at(memory_orders::access::read, &data[0], 8, nullptr); }

bool race(const std::vector<std::function<void()>>& bodies) {
  one_by_one how;
  memory_orders::begin(static_cast<unsigned>(bodies.size()), std::nullopt);
  fibers::run(bodies, how);
  memory_orders::end();
  return !memory_orders::race().empty();
}

/// The first one writes and tells, the second one is told and reads.
bool message_races(const std::function<void()>& tell, const std::function<void()>& observe_all) {
  return race({[&] {
                 write();
                 tell();
               },
               [&] {
                 observe_all();
                 read();
               }});
}

TEST(MemoryOrders, a_release_and_an_acquire_order_what_is_before_and_behind) {
  EXPECT_FALSE(message_races([] { store(flag, 1, release); }, [] { observe(flag, acquire); }));
  EXPECT_TRUE(message_races([] { store(flag, 1, relaxed); }, [] { observe(flag, acquire); }));
  EXPECT_TRUE(message_races([] { store(flag, 1, release); }, [] { observe(flag, relaxed); }));
  EXPECT_TRUE(message_races([] { store(flag, 1, release); }, [] { observe(data[1], acquire); }));
}

TEST(MemoryOrders, fences_order_with_relaxed_operations_between_them) {
  const auto tell = [] {
    memory_orders::fenced(release);
    store(flag, 1, relaxed);
  };
  const auto observe_all = [] {
    observe(flag, relaxed);
    memory_orders::fenced(acquire);
  };
  EXPECT_FALSE(message_races(tell, observe_all));
  EXPECT_TRUE(message_races([] { store(flag, 1, relaxed); }, observe_all));
  EXPECT_TRUE(message_races(tell, [] { observe(flag, relaxed); }));
}

TEST(MemoryOrders, an_exchange_hands_on_what_was_handed_on_before_it_and_a_store_does_not) {
  const auto through = [](const std::function<void()>& change) {
    return race({[] {
                   write();
                   store(flag, 1, release);
                 },
                 change,
                 [] {
                   observe(flag, acquire);
                   read();
                 }});
  };
  EXPECT_FALSE(through([] { exchange(flag, 1, relaxed); }));
  EXPECT_TRUE(through([] { store(flag, 1, relaxed); }));
}

TEST(MemoryOrders, locks_order) {
  EXPECT_FALSE(message_races([] { memory_orders::unlocked(&flag); }, [] { memory_orders::locked(&flag); }));
}

TEST(MemoryOrders, are_of_the_same_bytes_one_of_them_written_and_one_not_atomic) {
  using memory_orders::access;
  const auto two = [](access first, std::size_t from, access second, std::size_t to, std::size_t size) {
    const auto* bytes = reinterpret_cast<const char*>(data);
    return race({[&] { memory_orders::at(first, bytes + from, size, nullptr); },
                 [&] { memory_orders::at(second, bytes + to, size, nullptr); }});
  };
  EXPECT_TRUE(two(access::write, 0, access::write, 0, 8));
  EXPECT_TRUE(two(access::read, 0, access::write, 0, 8));
  EXPECT_TRUE(two(access::atomic_write, 0, access::read, 0, 8));
  EXPECT_TRUE(two(access::write, 0, access::atomic_read, 0, 8));
  EXPECT_FALSE(two(access::read, 0, access::read, 0, 8));
  EXPECT_FALSE(two(access::atomic_write, 0, access::atomic_write, 0, 8));
  EXPECT_FALSE(two(access::write, 0, access::write, 4, 4));
  EXPECT_TRUE(two(access::write, 0, access::write, 3, 4));
  EXPECT_TRUE(two(access::write, 4, access::read, 0, 8));
  EXPECT_FALSE(two(access::write, 0, access::write, 8, 8));
}

TEST(MemoryOrders, memory_that_is_given_out_anew_has_none_with_what_was_there) {
  EXPECT_TRUE(race({write, write}));
  EXPECT_FALSE(race({write, [] {
                       memory_orders::forget(data, sizeof data);
                       write();
                     }}));
}

// ---- Older values ----

constexpr int consistent = __ATOMIC_SEQ_CST;

/// What the second of two programs sees, each a sequence of loads that are digits of a number, in all of many runs.
std::set<std::uint64_t> seen(const std::function<void(std::uint64_t&)>& first,
                             const std::function<void(std::uint64_t&)>& second) {
  std::set<std::uint64_t> all;
  for (std::uint64_t seed = 0; seed < 2'000; ++seed) {
    data[0] = data[1] = flag = 0;
    std::uint64_t digits[2] = {};
    one_by_one how;
    memory_orders::begin(2, seed);
    fibers::run({[&] { first(digits[0]); }, [&] { second(digits[1]); }}, how);
    memory_orders::end();
    all.insert(digits[0] * 100 + digits[1]);
  }
  return all;
}
void add(std::uint64_t& digits, std::uint64_t value) { digits = digits * 10 + value; }

using outcomes = std::set<std::uint64_t>;

TEST(MemoryOrders, a_load_shows_an_older_value_unless_it_has_synchronised_with_the_newer_one) {
  const auto message = [](int loading, int storing) {
    return seen(
        [=](std::uint64_t&) {
          store(data[0], 1, relaxed);
          store(flag, 1, storing);
        },
        [=](std::uint64_t& digits) {
          add(digits, load(flag, loading));
          add(digits, load(data[0], relaxed));
        });
  };
  EXPECT_EQ(message(acquire, release), (outcomes{0, 1, 11}));
  EXPECT_EQ(message(relaxed, release), (outcomes{0, 1, 10, 11}));
  EXPECT_EQ(message(acquire, relaxed), (outcomes{0, 1, 10, 11}));
}

TEST(MemoryOrders, loads_of_one_word_never_go_back) {
  const auto found = seen(
      [](std::uint64_t&) {
        store(flag, 1, relaxed);
        store(flag, 2, relaxed);
      },
      [](std::uint64_t& digits) {
        add(digits, load(flag, relaxed));
        add(digits, load(flag, relaxed));
      });
  EXPECT_EQ(found, (outcomes{0, 1, 2, 11, 12, 22}));
}

// The first writer stores, the second one loads and tells the third one, which loads.
TEST(MemoryOrders, nobody_who_learns_of_a_load_sees_an_older_value_than_it) {
  const auto goes_back = [](int storing) {
    bool ever = false;
    for (std::uint64_t seed = 0; seed < 2'000; ++seed) {
      data[0] = flag = 0;
      std::uint64_t first = 0;
      std::uint64_t reported = 0;
      std::uint64_t second = 0;
      one_by_one how;
      memory_orders::begin(3, seed);
      fibers::run({[] { store(flag, 1, relaxed); },
                   [&] {
                     first = load(flag, relaxed);
                     store(data[0], 1, storing);
                   },
                   [&] {
                     reported = load(data[0], acquire);
                     second = load(flag, relaxed);
                   }},
                  how);
      memory_orders::end();
      ever = ever || (reported == 1 && second < first);
    }
    return ever;
  };
  EXPECT_FALSE(goes_back(release));
  EXPECT_TRUE(goes_back(relaxed));
}

TEST(MemoryOrders, of_two_that_store_and_then_load_the_others_word_one_sees_the_other_if_both_are_consistent) {
  const auto both = [](int order, bool fences) {
    const auto one = [=](std::uint64_t& own, std::uint64_t& other) {
      return [=, &own, &other](std::uint64_t& digits) {
        store(own, 1, order);
        if (fences) memory_orders::fenced(consistent);
        add(digits, load(other, order));
      };
    };
    return seen(one(data[0], data[1]), one(data[1], data[0]));
  };
  EXPECT_EQ(both(relaxed, false), (outcomes{0, 1}));  // the first one always comes first here
  EXPECT_EQ(both(consistent, false), (outcomes{1}));
  EXPECT_EQ(both(relaxed, true), (outcomes{1}));
}

TEST(MemoryOrders, an_exchange_sees_the_newest_value_and_an_operation_what_was_done_before_it_was_called) {
  EXPECT_EQ(seen([](std::uint64_t&) { store(flag, 1, relaxed); },
                 [](std::uint64_t& digits) {
                   exchange(flag, 2, relaxed);
                   add(digits, load(flag, relaxed));
                 }),
            (outcomes{2}));
  EXPECT_EQ(seen(
                [](std::uint64_t&) {
                  store(flag, 1, relaxed);
                  memory_orders::returned();
                },
                [](std::uint64_t& digits) {
                  memory_orders::called();
                  add(digits, load(flag, relaxed));
                }),
            (outcomes{1}));
  EXPECT_EQ(seen(
                [](std::uint64_t&) {
                  memory_orders::returned();
                  store(flag, 1, relaxed);
                },
                [](std::uint64_t& digits) {
                  memory_orders::called();
                  add(digits, load(flag, relaxed));
                }),
            (outcomes{0, 1}));
}

// C++20, atomics.order, p4: fences order what happens before the one and after the other, whoever does it.
TEST(MemoryOrders, who_learns_of_an_operation_sees_what_its_fence_makes_it_see) {
  const auto missed = [](int stored_as, bool writer_fences, bool teller_fences) {
    bool ever = false;
    for (std::uint64_t seed = 0; seed < 2'000; ++seed) {
      flag = 0;
      std::uint64_t seen = 0;
      one_by_one how;
      memory_orders::begin(3, seed);
      fibers::run({[&] {
                     store(flag, 1, stored_as);
                     if (writer_fences) memory_orders::fenced(consistent);
                   },
                   [&] {
                     if (teller_fences) memory_orders::fenced(consistent);
                     memory_orders::returned();
                   },
                   [&] {
                     memory_orders::called();
                     seen = load(flag, relaxed);
                   }},
                  how);
      memory_orders::end();
      ever = ever || seen == 0;
    }
    return ever;
  };
  EXPECT_FALSE(missed(relaxed, true, true));
  EXPECT_FALSE(missed(consistent, false, true));
  EXPECT_TRUE(missed(relaxed, false, true));
  EXPECT_TRUE(missed(consistent, true, false));
}

}  // namespace
}  // namespace icecore::crash
