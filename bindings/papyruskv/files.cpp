#include "files.hpp"

#include <string>
#include <string_view>
#include <system_error>

#include "icecore/error.hpp"

namespace papyruskv {
namespace {

using icecore::errc;
using icecore::error;
namespace fs = std::filesystem;

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// Whether it is a rank's pool, the manifest, an unfinished manifest or the mark of a restore. A checkpoint's files
/// have other names.
bool is_ours(std::string_view name) {
  constexpr std::string_view pool = "rank-";
  constexpr std::string_view pool_end = ".ice";
  constexpr std::string_view manifest = "manifest";
  if (name == manifest || name == "restoring") return true;
  if (name.starts_with(pool) && name.ends_with(pool_end)) {
    name.remove_prefix(pool.size());
    return name.size() > pool_end.size() && is_number(name.substr(0, name.size() - pool_end.size()));
  }
  return name.starts_with("manifest.") && is_number(name.substr(manifest.size() + 1));
}

bool is_checkpoint(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "checkpoint", ignored);
}

void remove_file(const fs::path& path) {
  std::error_code failure;
  fs::remove(path, failure);
  if (!failure || failure == std::errc::no_such_file_or_directory) return;
  const bool denied = failure == std::errc::permission_denied || failure == std::errc::operation_not_permitted ||
                      failure == std::errc::read_only_file_system;
  throw error(denied ? errc::permission : errc::io, path.string() + ": cannot be removed: " + failure.message());
}

void remove_if_empty(const fs::path& folder) {
  std::error_code ignored;  // the folder stays if it contains other files
  fs::remove(folder, ignored);
}

}  // namespace

void remove_database(const fs::path& folder) {
  std::error_code gone;
  fs::directory_iterator entries(folder, gone);
  for (; !gone && entries != fs::directory_iterator(); entries.increment(gone)) {
    if (is_ours(entries->path().filename().native())) remove_file(entries->path());
  }
  remove_if_empty(folder);
}

void remove_repository(const fs::path& folder) {
  std::error_code gone;
  fs::directory_iterator entries(folder, gone);
  for (; !gone && entries != fs::directory_iterator(); entries.increment(gone)) {
    std::error_code ignored;
    if (entries->is_directory(ignored) && !is_checkpoint(entries->path())) remove_database(entries->path());
  }
  remove_if_empty(folder);
}

}  // namespace papyruskv
