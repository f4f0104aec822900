// A limit of memory for some processes, by a control group of the kernel: what they allocate and what the kernel caches
// of the files that they read count together.
//
//   const memory_limit limit(256 << 20);
//   if (fork() == 0) { limit.enter(); ... }
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace icecore::bench {

class memory_limit {
 public:
  /// Makes a group inside the one of this process (version 1), or beside it (version 2, in which a group that has
  /// processes cannot limit groups inside it). Throws std::runtime_error, which says what is missing, if it must not.
  explicit memory_limit(std::uint64_t bytes);
  /// Precondition: no process is in it.
  ~memory_limit();
  memory_limit(const memory_limit&) = delete;
  memory_limit& operator=(const memory_limit&) = delete;

  /// This process is in it from now on, with what it allocates and reads from now on.
  void enter() const;
  /// "control group version 1" or "... 2".
  [[nodiscard]] const std::string& kind() const noexcept { return kind_; }

 private:
  std::filesystem::path folder_;
  std::string kind_;
};

/// The kernel forgets what it has cached of the files in `folder`, which are made durable before.
void forget_cached(const std::filesystem::path& folder);

}  // namespace icecore::bench
