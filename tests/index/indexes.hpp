// The indexes that tests run on.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "index/btree/btree.hpp"
#include "index/skip_list/skip_list.hpp"
#include "persistent_memory.hpp"

namespace icecore::index {

struct index_under_test {
  const char* name;
  std::unique_ptr<ordered_index> (*make)(const key_source& source, arena_options options);

  friend std::ostream& operator<<(std::ostream& out, const index_under_test& i) { return out << i.name; }
};

inline constexpr index_under_test indexes[] = {
    {"btree", make_btree}, {"skip_list", make_skip_list}, {"persistent", make_persistent}};

[[nodiscard]] inline std::string index_name(const testing::TestParamInfo<index_under_test>& instance) {
  return instance.param.name;
}

}  // namespace icecore::index
