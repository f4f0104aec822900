// Where tests keep their stores: a fresh folder on a memory file system or on a disk, removed afterwards.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "icecore/options.hpp"

namespace icecore::testing {

enum class place { tmpfs, disk };

/// The folder in which scratch folders are made: /dev/shm; or $ICECORE_TEST_DISK, or else the first of the temporary
/// folder, /var/tmp and the current folder that is on no memory file system. Empty if the machine has no such folder.
[[nodiscard]] std::optional<std::filesystem::path> root_of(place where);

/// A folder of its own, removed with its content when the object is destroyed.
class scratch {
 public:
  explicit scratch(place where = place::tmpfs);
  ~scratch();
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// A durability mode and where it is tested: emulated on a memory file system, or real on a disk.
struct setting {
  place where;
  icecore::durability durability;
  icecore::index_kind index = icecore::index_kind::btree;
  unsigned files = 1;
  bool deferred = false;  ///< under operation durability: sync() makes durable, no write does

  /// Whether each write that has returned is there after a power cut.
  [[nodiscard]] bool keeps_each_write() const noexcept {
    return durability == icecore::durability::operation && !deferred;
  }
  [[nodiscard]] icecore::options options() const;
  /// For a store at this path, whose secondary files lie beside it.
  [[nodiscard]] icecore::options options_at(const std::filesystem::path& store) const;
  [[nodiscard]] std::string name() const;
};

/// Every mode in every place, and some with other indexes.
[[nodiscard]] const std::vector<setting>& all_settings();
/// Every mode, on the memory file system, and one with the other index.
[[nodiscard]] const std::vector<setting>& tmpfs_settings();

}  // namespace icecore::testing
