#include "support/scratch.hpp"

#include <linux/magic.h>
#include <sys/statfs.h>

#include <cerrno>
#include <cstdlib>
#include <stdexcept>
#include <system_error>

namespace icecore::testing {
namespace {

[[nodiscard]] bool is_memory(const std::filesystem::path& folder) {
  struct statfs about {};
  if (statfs(folder.c_str(), &about) != 0) return false;
  return about.f_type == TMPFS_MAGIC || about.f_type == RAMFS_MAGIC;
}

}  // namespace

std::optional<std::filesystem::path> root_of(place where) {
  if (where == place::tmpfs) {
    if (is_memory("/dev/shm")) return "/dev/shm";
    return std::nullopt;
  }
  if (const char* chosen = std::getenv("ICECORE_TEST_DISK")) return chosen;
  for (const auto& folder :
       {std::filesystem::temp_directory_path(), std::filesystem::path("/var/tmp"), std::filesystem::current_path()}) {
    if (std::filesystem::is_directory(folder) && !is_memory(folder)) return folder;
  }
  return std::nullopt;
}

scratch::scratch(place where) {
  const auto root = root_of(where);
  if (!root) throw std::runtime_error(where == place::tmpfs ? "no memory file system here" : "no disk here");
  std::string pattern = (*root / "icecore-test-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::system_error(errno, std::generic_category(), "mkdtemp " + pattern);
  path_ = pattern;
}

scratch::~scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

options setting::options() const {
  icecore::options opening;
  opening.durability = durability;
  opening.index = index;
  opening.deferred_durability = deferred;
  opening.emulate_durability = where == place::tmpfs && durability != icecore::durability::none;
  return opening;
}

options setting::options_at(const std::filesystem::path& store) const {
  icecore::options opening = options();
  for (unsigned n = 1; n < files; ++n) opening.placements.push_back({store.string() + "." + std::to_string(n), -1});
  return opening;
}

std::string setting::name() const {
  static constexpr const char* modes[] = {"best", "none", "tag", "operation"};
  static constexpr const char* indexes[] = {"", "", "_in_skip_list", "_in_persistent", "_in_list", "_in_hash"};
  return std::string(modes[static_cast<std::size_t>(durability)]) + (deferred ? "_deferred" : "") +
         (where == place::tmpfs ? "_on_tmpfs" : "_on_disk") + indexes[static_cast<std::size_t>(index)] +
         (files == 1 ? "" : "_in_" + std::to_string(files) + "_files");
}

const std::vector<setting>& tmpfs_settings() {
  static const std::vector<setting> settings = {{place::tmpfs, durability::none},
                                                {place::tmpfs, durability::tag},
                                                {place::tmpfs, durability::operation},
                                                {place::tmpfs, durability::none, index_kind::skip_list},
                                                {place::tmpfs, durability::operation, index_kind::persistent},
                                                {place::tmpfs, durability::operation, index_kind::hash}};
  return settings;
}

const std::vector<setting>& all_settings() {
  static const std::vector<setting> settings = [] {
    std::vector<setting> all = tmpfs_settings();
    if (root_of(place::disk)) {
      for (const auto mode : {durability::none, durability::tag, durability::operation}) {
        all.push_back({place::disk, mode});
      }
      all.push_back({place::disk, durability::tag, index_kind::persistent});
      all.push_back({place::disk, durability::operation, index_kind::btree, 1, true});
      all.push_back({place::disk, durability::operation, index_kind::persistent, 1, true});
    }
    return all;
  }();
  return settings;
}

}  // namespace icecore::testing
