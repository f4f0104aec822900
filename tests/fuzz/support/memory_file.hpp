// A file in memory under a path of its own, for one process: what a fuzzer opens as a store a thousand times a second.
//
//   memory_file file("store");
//   file.write(bytes);
//   icecore::store s(file.path());
//
// Threads: one. Cost of write(): the pages that hold anything.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace icecore::testing {

class memory_file {
 public:
  explicit memory_file(const char* name);
  ~memory_file();
  memory_file(const memory_file&) = delete;
  memory_file& operator=(const memory_file&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

  /// Replaces all of it, and leaves pages of zeros out; the place of reading and writing is its start.
  void write(std::span<const std::byte> content) const;
  void write(std::string_view content) const { write(std::as_bytes(std::span(content))); }
  [[nodiscard]] std::string read() const;

 private:
  int descriptor_;
  std::filesystem::path path_;
};

}  // namespace icecore::testing
