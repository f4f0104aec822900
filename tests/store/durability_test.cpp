// G4: the store provides the chosen durability, or says that the device cannot.
#include <gtest/gtest.h>

#include <algorithm>

#include "icecore/icecore.hpp"
#include "support/expect.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

TEST(Durability, best_available_on_a_memory_file_system_is_none_and_says_so) {
  const scratch folder(place::tmpfs);
  const store opened(folder / "store.ice");
  const auto info = opened.durability();
  EXPECT_EQ(info.mode, durability::none);
  EXPECT_EQ(info.medium, medium::memory);
  EXPECT_FALSE(info.emulated);
  EXPECT_EQ(info.filesystem, "tmpfs");
}

TEST(Durability, a_memory_file_system_is_refused_where_durability_is_asked_for) {
  const scratch folder(place::tmpfs);
  for (const auto mode : {durability::tag, durability::operation}) {
    options opening;
    opening.durability = mode;
    expect_error(errc::not_durable, "tmpfs", [&] { const store opened(folder / "store.ice", opening); });
    EXPECT_FALSE(std::filesystem::exists(folder / "store.ice")) << "a refused store was left behind";
  }
}

TEST(Durability, emulated_modes_say_that_they_are_emulated) {
  const scratch folder(place::tmpfs);
  for (const auto mode : {durability::tag, durability::operation}) {
    options opening;
    opening.durability = mode;
    opening.emulate_durability = true;
    store opened(folder / "store.ice", opening);
    const auto info = opened.durability();
    EXPECT_EQ(info.mode, mode);
    EXPECT_EQ(info.medium, medium::memory);
    EXPECT_TRUE(info.emulated);
    EXPECT_TRUE(mode != durability::operation || info.flush_method != "none");
    opened.insert("a", "1");
    opened.sync();
  }
}

TEST(Durability, a_disk_gives_every_mode_and_tag_is_the_best_by_default) {
  if (!root_of(place::disk)) GTEST_SKIP() << "no disk here; set ICECORE_TEST_DISK to a folder on one";
  const scratch folder(place::disk);
  for (const auto asked : {durability::best_available, durability::none, durability::tag, durability::operation}) {
    options opening;
    opening.durability = asked;
    store opened(folder / "store.ice", opening);
    const auto info = opened.durability();
    EXPECT_EQ(info.mode, asked == durability::best_available ? durability::tag : asked);
    EXPECT_EQ(info.medium, medium::block_device);
    EXPECT_FALSE(info.emulated);
    EXPECT_FALSE(info.filesystem.empty());
    opened.insert("a", "1");
    opened.tag();
    opened.sync();
  }
}

TEST(Durability, to_emulate_where_nothing_needs_it_is_no_emulation) {
  if (!root_of(place::disk)) GTEST_SKIP() << "no disk here; set ICECORE_TEST_DISK to a folder on one";
  const scratch folder(place::disk);
  options opening;
  opening.durability = durability::tag;
  opening.emulate_durability = true;
  EXPECT_FALSE(store(folder / "store.ice", opening).durability().emulated);
}

TEST(Durability, a_sync_closes_the_open_version_but_under_operation_durability) {
  for (const auto& how : all_settings()) {
    const scratch folder(how.where);
    store opened(folder / "store.ice", how.options());
    opened.insert("a", "1");
    opened.sync();
    EXPECT_EQ(opened.clock(), how.keeps_each_write() ? 1U : 2U) << how.name();
  }
}

TEST(Durability, no_version_is_used_twice_over_many_reopenings) {
  for (const auto& how : all_settings()) {
    const scratch folder(how.where);
    version last = 0;
    for (int life = 0; life < 20; ++life) {
      store opened(folder / "store.ice", how.options());
      for (int i = 0; i < 5; ++i) {
        opened.insert("key", std::to_string(last));
        const version closed = opened.tag();
        ASSERT_GT(closed, last) << how.name();
        last = closed;
      }
      opened.insert("open", std::to_string(life));  // the version left open
    }
    const store opened(folder / "store.ice", how.options());
    EXPECT_EQ(opened.history("key").oldest_first().size(), 100U);
    EXPECT_EQ(opened.history("open").oldest_first().size(), 20U);
  }
}

}  // namespace
}  // namespace icecore::testing
