// The indexes that tests run on.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "index/btree/btree.hpp"
#include "index/list/linked_list.hpp"
#include "index/skip_list/skip_list.hpp"
#include "index_model.hpp"
#include "persistent_memory.hpp"

namespace icecore::index {

struct index_under_test {
  const char* name;
  std::unique_ptr<ordered_index> (*make)(const key_source& source, arena_options options);
  place_function place = nullptr;
  /// Tests of many keys use one in so many of them: an index that searches from its front takes too long for more, and
  /// so does a model that hashes keys whenever it compares two.
  std::size_t sparser = 1;

  friend std::ostream& operator<<(std::ostream& out, const index_under_test& i) { return out << i.name; }
};

inline constexpr hash_seed seed_of_tests{1, 2, 3};

[[nodiscard]] inline std::unique_ptr<ordered_index> make_hash_of_tests(const key_source& source,
                                                                       arena_options options) {
  return make_hash(source, seed_of_tests, options);
}
[[nodiscard]] inline std::uint64_t place_by_hash(std::string_view key) {
  return reversed_bits(hash_of(key, seed_of_tests));
}

inline constexpr index_under_test indexes[] = {{"btree", make_btree},
                                               {"skip_list", make_skip_list},
                                               {"persistent", make_persistent},
                                               {"list", make_list, nullptr, 16},
                                               {"hash", make_hash_of_tests, place_by_hash, 8}};

[[nodiscard]] inline std::string index_name(const testing::TestParamInfo<index_under_test>& instance) {
  return instance.param.name;
}

}  // namespace icecore::index
