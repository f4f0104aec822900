// A file of the simulated machine (tests/crash/machine.hpp): what a fuzzer opens as a store ten thousand times a
// second.
//
//   simulated_pool file(0);
//   file.write(bytes);
//   icecore::store s(file.path());
//
// Programs that use it are linked with that machine: then a store's system calls and mappings cost next to nothing.
// Threads: one.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace icecore::testing {

class simulated_pool {
 public:
  /// `number`: which of the machine's files it is, below `count`.
  explicit simulated_pool(unsigned number);
  simulated_pool(const simulated_pool&) = delete;
  simulated_pool& operator=(const simulated_pool&) = delete;

  static const unsigned count;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  /// Replaces all of it.
  void write(std::span<const std::byte> content) const;
  void write(std::string_view content) const { write(std::as_bytes(std::span(content))); }
  /// Valid until the file changes.
  [[nodiscard]] std::span<const std::byte> bytes() const;
  [[nodiscard]] std::string_view text() const;
  [[nodiscard]] static std::uint64_t inode() noexcept;

 private:
  unsigned number_;
  std::filesystem::path path_;
};

}  // namespace icecore::testing
