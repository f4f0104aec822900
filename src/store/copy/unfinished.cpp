#include "icecore/unfinished.hpp"

#include <fcntl.h>
#include <stdio.h>  // NOLINT: <cstdio> need not have renameat2()
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <string>
#include <system_error>

#include "base/locks/lock_descriptor.hpp"
#include "base/raise.hpp"
#include "icecore/store.hpp"
#include "pool/pool_set.hpp"

namespace icecore {
namespace {

namespace fs = std::filesystem;

/// Removes a store with all its files: the first one last, because it names the others.
void remove_store(const fs::path& path, std::error_code& failed) {
  for (const fs::path& secondary : secondary_files(path)) fs::remove(secondary, failed);
  fs::remove(path, failed);
}

/// Removes what a killed process has left, unless another process is writing it now.
void remove_leftover(const fs::path& path) {
  if (!fs::exists(fs::symlink_status(path))) return;
  options reading;
  reading.access = access::read_only;
  reading.creation = creation::open_existing;
  reading.beside_writer = false;  // who writes it is to be met
  try {
    (void)store(path, reading);
  } catch (const error& e) {
    if (e.code() == errc::locked) throw;
  }
  std::error_code failed;
  remove_store(path, failed);
  if (failed) throw fs::filesystem_error("removing unfinished files", path, failed);
}

/// If the file system cannot protect a file from being replaced, a check just before must suffice.
int rename_to_new(const fs::path& from, const fs::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return -1;
  if (fs::exists(fs::symlink_status(to))) {
    errno = EEXIST;
    return -1;
  }
  return ::rename(from.c_str(), to.c_str());
}

}  // namespace

unfinished_store::unfinished_store(fs::path final_name, std::string_view suffix)
    : final_name_(fs::is_symlink(final_name) ? fs::weakly_canonical(final_name) : std::move(final_name)),
      path_(final_name_.native() + std::string(suffix)) {
  remove_leftover(path_);
}

unfinished_store::~unfinished_store() {
  if (finished_) return;
  try {
    std::error_code ignored;
    remove_store(path_, ignored);
  } catch (const std::exception&) {  // no memory: remove_leftover() finds it
  }
}

void unfinished_store::finish(replacing how) {
  const std::vector<fs::path> replaced =
      how == replacing::allowed ? secondary_files(final_name_) : std::vector<fs::path>();
  // before the renaming, behind which nothing is to fail but the sync
  const fs::path folder = fs::absolute(final_name_).parent_path();
  const lock_descriptor descriptor([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (descriptor.get() < 0) raise_errno(errno, "opening it", folder.native());
  const bool renamed = how == replacing::allowed ? ::rename(path_.c_str(), final_name_.c_str()) == 0
                                                 : rename_to_new(path_, final_name_) == 0;
  if (!renamed && errno == EEXIST) {
    raise(errc::store_exists, "{}: exists already; name a new path", final_name_.native());
  }
  if (!renamed) raise_errno(errno, fmt::format("renaming {} to it", path_.native()), final_name_.native());
  finished_ = true;
  std::error_code ignored;
  for (const fs::path& old : replaced) fs::remove(old, ignored);
  const int failed = ::fsync(descriptor.get()) != 0 ? errno : 0;
  // some file systems cannot sync directories, and report that
  if (failed != 0 && failed != EINVAL) raise_errno(failed, "fsync", folder.native());
}

}  // namespace icecore
