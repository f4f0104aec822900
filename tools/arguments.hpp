// What verbs have in common on the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "icecore/options.hpp"
#include "icecore/snapshot.hpp"

namespace icecore::cli {

enum class format : std::uint8_t { table, json };

/// Which version is read. Neither: the present.
struct view_arguments {
  std::string at;
  std::string time;
};

/// Which keys.
struct bounds_arguments {
  std::optional<std::string> prefix;
  std::optional<std::string> from;
  std::optional<std::string> to;
};

/// What is wrong with a store and may be so, when it is read.
struct read_arguments {
  bool accept_copy = false;
  bool accept_damage = false;
  icecore::crash_kind crash = icecore::crash_kind::unknown;
  std::vector<std::string> placements{};  ///< PATH or PATH@NODE: where files of the store have been moved to
};

struct write_arguments {
  icecore::durability durability = icecore::durability::best_available;
  bool emulate = false;
  icecore::crash_kind crash = icecore::crash_kind::unknown;
  icecore::index_kind index = icecore::index_kind::btree;
  bool change_index = false;              ///< `index` is for an existing store, too
  std::vector<std::string> placements{};  ///< of a new store: its further files
};

/// What --index calls it.
[[nodiscard]] std::string_view index_name(index_kind kind);

/// The files that --placement names. errc::invalid_argument for one without a path.
[[nodiscard]] std::vector<placement> placements_of(const std::vector<std::string>& arguments);

/// The bytes an argument stands for: itself, or what its hexadecimal digits say.
[[nodiscard]] std::string bytes_of(const std::string& argument, bool hex);

/// The bounds that satisfy --prefix, --from and --to at once.
[[nodiscard]] key_bounds bounds_of(const bounds_arguments& bounds, bool hex);

}  // namespace icecore::cli
