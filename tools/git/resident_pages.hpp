// Bounds the memory that this process takes for files that it maps.
//
//   const resident_bound bound({"history.ice"});
//   ... a store of any size is opened, written and closed
//
// A process that maps a file counts as memory of its own what it has touched of it, up to the whole file. This gives
// the pages back whenever they are more than a bound. They stay in the kernel's page cache, changed ones too: the
// kernel writes them when it needs the memory, and the next access maps a page again. Threads: one of its own, which
// looks every few milliseconds. The files may be used meanwhile in any way. Does nothing where the kernel does not tell
// what is mapped (/proc/self).
#pragma once

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace icecore::cli {

class resident_bound {
 public:
  explicit resident_bound(std::vector<std::filesystem::path> files);
  ~resident_bound();
  resident_bound(const resident_bound&) = delete;
  resident_bound& operator=(const resident_bound&) = delete;

  /// Also of this file.
  void add(const std::filesystem::path& file);

 private:
  void watch();

  std::mutex mutex_;
  std::condition_variable stopping_;
  bool stopped_ = false;
  std::vector<std::filesystem::path> files_;
  std::thread thread_;
};

}  // namespace icecore::cli
