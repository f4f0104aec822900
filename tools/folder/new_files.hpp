// Files below a folder, made from keys that may be anything: nothing is written outside of the folder.
//
//   new_files files("out", {.overwrite = false});
//   if (const auto why = files.unfit(key)) ...   // before anything is written
//   files.write(key, value);
//
// A key is a path: the parts between its slashes name folders, the last one a file. Folders below the first are opened
// one by one, without following symbolic links, so that no link leads out, however it came to be there.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace icecore::cli {

/// Why a key can never be a file's path: empty, absolute, with an empty part, "." or "..", with a zero byte, or too
/// long. Empty if it can.
[[nodiscard]] std::optional<std::string> why_no_path(std::string_view key);

class new_files {
 public:
  /// `overwrite`: files that are there are replaced; otherwise they are unfit. Makes nothing yet.
  new_files(std::string folder, bool overwrite);
  ~new_files();
  new_files(const new_files&) = delete;
  new_files& operator=(const new_files&) = delete;

  /// What is in the way of this key's file in the folder now; empty if nothing is.
  [[nodiscard]] std::optional<std::string> in_the_way(std::string_view key) const;

  /// Makes the folder, if it is not there, and those below it, and writes the file. A file that was there is replaced
  /// at one instant. errc::io, errc::no_space, errc::permission name the file.
  void write(std::string_view key, std::string_view value);

 private:
  class descriptor;
  [[nodiscard]] std::string path_of(std::string_view key) const;
  void open_root();
  int folder_for(std::string_view key);

  std::string folder_;
  bool overwrite_;
  int root_ = -1;                   ///< the folder; -1: it is not there
  std::vector<std::string> parts_;  ///< of the folder that was opened last
  std::vector<int> opened_;         ///< that folder and those above it
};

}  // namespace icecore::cli
