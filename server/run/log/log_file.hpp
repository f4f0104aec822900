// Where lines go: a file that is appended to, or standard error.
//
//   log_file file("/var/log/icecore/server.log");
//   file.write("a line\n", give_up);
//
// Threads: for one thread. Errors: opening throws errc::io; writing returns what it could not write.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

namespace icecore::server {

class log_file {
 public:
  /// Empty: standard error, which is not closed.
  explicit log_file(std::filesystem::path file);
  log_file(const log_file&) = delete;
  log_file& operator=(const log_file&) = delete;
  ~log_file();

  /// Opens the same path again, where there is a new file after rotation. Throws errc::io and keeps the old one.
  void reopen();

  /// Writes `lines`, which end with a line feed, and returns what it has not written: nothing, if all is well; else
  /// writing failed (no space), or `give_up`, which is asked at least ten times a second where a reader is slow, said
  /// yes. If that leaves a part of a line behind, the next write begins a new line.
  [[nodiscard]] std::string_view write(std::string_view lines, const std::function<bool()>& give_up);

 private:
  [[nodiscard]] bool write_some(std::string_view& rest, const std::function<bool()>& give_up);

  std::filesystem::path path_;
  int descriptor_;
  bool whole_ = false;     ///< a regular file, which never makes a writer wait for a reader
  bool mid_line_ = false;  ///< the last write ended inside a line
};

}  // namespace icecore::server
