// Command-line arguments that several verbs share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "icecore/options.hpp"
#include "icecore/snapshot.hpp"

namespace icecore::cli {

/// The names of versions in --help. docs/cli.md says which goes before which (version_name.hpp).
inline constexpr std::string_view version_forms =
    "latest (the present), a number, a tag's name or its beginning, NAME~N (N tags before it), or a time (2026-11-20, "
    "'2026-11-20 14:00', '2 days ago'; no zone: UTC), which means the newest tag that is not later; tag:NAME and "
    "time:TIME say which is meant";

enum class format : std::uint8_t { table, json, csv, arrow };

/// Which bytes are hexadecimal digits, in arguments and in output.
struct hex_arguments {
  bool both = false;
  bool keys_alone = false;
  bool values_alone = false;
  [[nodiscard]] bool keys() const noexcept { return both || keys_alone; }
  [[nodiscard]] bool values() const noexcept { return both || values_alone; }
};

/// The version to read; without either: the present.
struct view_arguments {
  std::string at;
  std::string time;
};

/// The keys to read.
struct bounds_arguments {
  std::optional<std::string> prefix;
  std::optional<std::string> from;
  std::optional<std::string> to;
};

/// Defects of a store that reading may accept.
struct read_arguments {
  bool accept_copy = false;
  bool accept_damage = false;
  bool never_locks = false;
  icecore::crash_kind crash = icecore::crash_kind::unknown;
  std::vector<std::string> placements{};  ///< PATH or PATH@NODE: where files of the store were moved to
};

struct write_arguments {
  icecore::durability durability = icecore::durability::best_available;
  bool emulate = false;
  icecore::crash_kind crash = icecore::crash_kind::unknown;
  icecore::index_kind index = icecore::index_kind::btree;
  bool change_index = false;              ///< also give an existing store this index
  std::vector<std::string> placements{};  ///< the secondary files of a new store
};

/// The name of an index in --index.
[[nodiscard]] std::string_view index_name(index_kind kind);

/// The files named by --placement. errc::invalid_argument for one without a path.
[[nodiscard]] std::vector<placement> placements_of(const std::vector<std::string>& arguments);

/// The bytes of an argument: the argument itself, or the value of its hexadecimal digits.
[[nodiscard]] std::string bytes_of(const std::string& argument, bool hex);

/// The bounds that satisfy --prefix, --from and --to together.
[[nodiscard]] key_bounds bounds_of(const bounds_arguments& bounds, bool hex);

}  // namespace icecore::cli
