// A quota and a device's room, at, below and above their values.
#include "service/write/space.hpp"

#include <gtest/gtest.h>

#include "icecore/error.hpp"
#include "support/scratch.hpp"

namespace icecore::service {
namespace {

class Space : public ::testing::Test {
 protected:
  [[nodiscard]] std::uint64_t used() const { return store_.stats().used_bytes; }
  static bool refuses(space& room, std::uint64_t bytes, bool only_removes = false) {
    try {
      room.require(bytes, only_removes);
      return false;
    } catch (const icecore::error& e) {
      EXPECT_EQ(e.code(), errc::no_space);
      return true;
    }
  }

  icecore::testing::scratch folder_{icecore::testing::place::tmpfs};
  icecore::store store_{folder_ / "store.ice"};
  bool has_room_ = true;
  refusals refused_;
};

TEST_F(Space, of_a_quota_is_given_to_the_last_byte) {
  store_.insert("a", "b");
  for (const std::uint64_t first : {999U, 1000U, 1001U}) {
    space room(
        store_, used() + 1000, [] { return true; }, &refused_);
    const std::uint64_t before = refused_.of(kept_limit::quota_bytes);
    EXPECT_EQ(refuses(room, first), first > 1000) << first;
    EXPECT_EQ(refused_.of(kept_limit::quota_bytes) - before, first > 1000 ? 1U : 0U);
    EXPECT_EQ(refuses(room, 1), first == 1000) << "what was given counts, and what was refused does not";
  }
}

TEST_F(Space, above_a_quota_is_for_removals_alone) {
  constexpr std::uint64_t reserve = std::uint64_t{1} << 20;
  space room(store_, used() + 10, [] { return true; });
  EXPECT_FALSE(refuses(room, 10));
  EXPECT_TRUE(refuses(room, 1));
  EXPECT_FALSE(refuses(room, reserve, true));
  EXPECT_TRUE(refuses(room, 1, true));
}

TEST_F(Space, of_a_new_quota_counts_what_is_there) {
  space room(store_, 0, [] { return true; });
  store_.insert("a", std::string(5000, 'v'));
  EXPECT_FALSE(refuses(room, std::uint64_t{1} << 40)) << "no quota";
  room.change(used());
  EXPECT_TRUE(refuses(room, 1));
  room.change(used() + 1);
  EXPECT_FALSE(refuses(room, 1));
}

TEST_F(Space, of_the_device_is_asked_for_by_writes_alone) {
  space room(
      store_, 0, [this] { return has_room_; }, &refused_);
  EXPECT_FALSE(refuses(room, 1));
  has_room_ = false;
  EXPECT_TRUE(refuses(room, 1));
  EXPECT_FALSE(refuses(room, 1, true));
  EXPECT_EQ(refused_.of(kept_limit::free_disk_bytes), 1U);
  EXPECT_EQ(refused_.of(kept_limit::quota_bytes), 0U);
}

}  // namespace
}  // namespace icecore::service
