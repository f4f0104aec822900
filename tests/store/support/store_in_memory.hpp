// Where most tests of what a store keeps have theirs: in memory, alone in a folder, and nothing makes it durable.
//
//   class Retention : public ::testing::Test, protected store_in_memory {};
//   TEST_F(Retention, of_a_new_store_is_all) { EXPECT_TRUE(store(path_, how_).retention().keeps_all()); }
#pragma once

#include <filesystem>

#include "icecore/icecore.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {

class store_in_memory {
 protected:
  [[nodiscard]] compaction_report pack(bool whole = true) const { return compact(path_, how_, {.whole = whole}); }

  scratch folder_{place::tmpfs};
  std::filesystem::path path_ = folder_ / "store.ice";
  options how_ = [] {
    options how;
    how.durability = durability::none;
    return how;
  }();
};

}  // namespace icecore::testing
