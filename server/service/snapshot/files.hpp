// Files and folders that are durable before they are believed: what snapshots of a service are made of.
//
//   new_folder made("/backup/2026-05-01");          // works in /backup/2026-05-01.partial
//   write_whole(made.place() / "manifest.json", text);
//   made.complete();                                // durable, and then renamed
//
// A crash leaves either the complete folder under its name, or a folder "NAME.partial", which the next one of that name
// replaces and nothing else reads. Errors: store_exists if something has the name; io, no_space, permission.
// Threads: one for each object.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace icecore::service {

/// A file descriptor that is closed at the end.
class open_file {
 public:
  open_file(const std::filesystem::path& of, int flags, mode_t mode = 0600);
  ~open_file();
  open_file(const open_file&) = delete;
  open_file& operator=(const open_file&) = delete;
  [[nodiscard]] int number() const noexcept { return number_; }

 private:
  int number_;
};

/// The folder and all above it that are missing.
void make_folder(const std::filesystem::path& what);
/// Writes it all, from where the file is.
void write_all(const open_file& to, const std::filesystem::path& name, std::string_view bytes);
/// The file's whole content; durable when it returns.
void write_whole(const std::filesystem::path& to, std::string_view text);

/// What was read of a file: how much, and its SHA-256 as hexadecimal digits.
struct file_digest {
  std::uint64_t bytes = 0;
  std::string sha256;
};
/// Reads the file to its end and gives each piece to `use`.
[[nodiscard]] file_digest digest_of(const std::filesystem::path& file,
                                    const std::function<void(std::string_view piece)>& use = {});

/// A folder that gets its name only when it is complete and durable.
class new_folder {
 public:
  explicit new_folder(std::filesystem::path to);
  ~new_folder();
  new_folder(const new_folder&) = delete;
  new_folder& operator=(const new_folder&) = delete;

  /// Where to write until then.
  [[nodiscard]] static std::filesystem::path partial_of(std::filesystem::path to);
  [[nodiscard]] const std::filesystem::path& place() const noexcept { return partial_; }
  void complete();

 private:
  std::filesystem::path to_;
  std::filesystem::path partial_;
  bool complete_ = false;
};

}  // namespace icecore::service
