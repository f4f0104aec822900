// The files of one store, as a crash leaves them: bytes of each that is there.
//
// Events (trace.hpp) tell places in all of them by one offset: file n begins at n * file_apart.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace icecore::crash {

inline constexpr unsigned files_max = 2;
inline constexpr std::uint64_t file_apart = std::uint64_t{4} << 20;

/// Bytes of somebody's.
struct left_file {
  bool there = false;
  std::span<const std::byte> bytes;
};
using left_files = std::array<left_file, files_max>;

[[nodiscard]] inline std::uint64_t total_bytes(const left_files& files) noexcept {
  std::uint64_t bytes = 0;
  for (const left_file& f : files) bytes += f.bytes.size();
  return bytes;
}

/// The same, kept.
class kept_files {
 public:
  kept_files() = default;
  explicit kept_files(const left_files& files) {
    for (unsigned n = 0; n < files_max; ++n) {
      there_[n] = files[n].there;
      bytes_[n].assign(files[n].bytes.begin(), files[n].bytes.end());
    }
  }

  [[nodiscard]] left_files view() const noexcept {
    left_files files;
    for (unsigned n = 0; n < files_max; ++n) files[n] = {there_[n], bytes_[n]};
    return files;
  }

 private:
  std::array<bool, files_max> there_{};
  std::array<std::vector<std::byte>, files_max> bytes_;
};

}  // namespace icecore::crash
