// A random ordered map that every rank knows, and each rank's part of it: what extraction over ranks is held against.
//
// Random things start from a seed that is the same on all ranks.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cluster/gather/columns/pairs.hpp"

namespace icecore::ranks::testing {

using map = std::map<std::string, std::string>;
using items = std::vector<std::pair<std::string, std::string>>;

/// What keys or values look like: `width` bytes each, or 0 to `width_max` if it is 0.
struct item_shape {
  std::size_t width;
  std::size_t width_max;
};

enum class spread {
  by_hash,      ///< each key to any rank
  by_range,     ///< ascending ranges
  on_one_rank,  ///< all others have nothing
  on_some,      ///< by hash, but every second rank has nothing
};

/// `count` pairs, about: keys that come twice are one.
[[nodiscard]] map random_map(std::mt19937_64& random, std::size_t count, item_shape keys, item_shape values);

/// The pairs of each rank.
[[nodiscard]] std::vector<map> spread_over(std::mt19937_64& random, const map& all, int ranks, spread how);

/// A part as columns: of fixed width where it is not 0.
class part_columns {
 public:
  part_columns(const map& part, std::size_t key_width, std::size_t value_width);
  [[nodiscard]] pairs_view view() const noexcept;

 private:
  columns columns_;
  std::size_t key_width_;
  std::size_t value_width_;
};

[[nodiscard]] items items_of(const pairs_view& view);
[[nodiscard]] items items_of(const map& of);

[[nodiscard]] int own_rank();
[[nodiscard]] int all_ranks();

}  // namespace icecore::ranks::testing
