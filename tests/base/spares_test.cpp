#include "base/memory/spares.hpp"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace icecore {
namespace {

struct counted {
  static inline std::atomic<int> made{0};
  static inline std::atomic<bool> fails{false};
  std::atomic<int> users{0};
  counted() {
    if (fails) throw std::runtime_error("none can be made");
    ++made;
  }
};

TEST(Spares, are_used_again) {
  static constinit spares<counted> all;
  counted::made = 0;
  const counted* first = nullptr;
  {
    const spares<counted>::lease one(all);
    first = &*one;
  }
  const spares<counted>::lease again(all);
  EXPECT_EQ(&*again, first);
  const spares<counted>::lease another(all);
  EXPECT_NE(&*another, first);
  EXPECT_EQ(counted::made, 2);
}

TEST(Spares, tell_why_none_can_be_made_and_go_on_with_those_there_are) {
  static constinit spares<counted> all;
  { const spares<counted>::lease one(all); }
  counted::fails = true;
  const spares<counted>::lease one(all);
  EXPECT_THROW(const spares<counted>::lease another(all), std::runtime_error);
  counted::fails = false;
}

TEST(Spares, are_never_two_threads_at_once_however_many_there_are) {
  static constinit spares<counted> all;
  std::atomic<bool> shared{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20'000; ++i) {
        const spares<counted>::lease mine(all);
        if ((*mine).users.fetch_add(1, std::memory_order_relaxed) != 0) shared = true;
        (*mine).users.fetch_sub(1, std::memory_order_relaxed);
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_FALSE(shared);
  std::vector<std::unique_ptr<spares<counted>::lease>> many;  // more than are kept
  std::set<const counted*> different;
  for (int i = 0; i < 100; ++i) {
    many.push_back(std::make_unique<spares<counted>::lease>(all));
    different.insert(&**many.back());
  }
  EXPECT_EQ(different.size(), 100U);
}

}  // namespace
}  // namespace icecore
