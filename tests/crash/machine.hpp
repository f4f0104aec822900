// A machine in this process: one folder of files that a power cut may tear, whose mappings are plain memory.
//
// The store under test is linked with this instead of libpmem2 and the system calls it makes (system.cpp): opening and
// closing a small store then costs microseconds, which the fuzzers use. Files live below `root`; every other path is
// the real machine's. To look at what a crash leaves, the unchanged store is compiled with `-fsanitize=thread` and
// linked with hooks.cpp instead of the sanitizer, too: so every store to the mapped file is seen, and so are flushes,
// fences, syncs and growth.
//
//   machine& m = machine::get();
//   m.file(machine::recorded).assign(...);
//   m.start_recording();  { store s(machine::path(machine::recorded), ...); ... }  trace t = m.stop_recording();
//
// Threads: one; writers are fibers (fibers.hpp).
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files.hpp"
#include "trace.hpp"

namespace icecore::crash {

/// Descriptors from here on are of simulated files.
inline constexpr int first_simulated_descriptor = 1'000'000;

/// What mapping a simulated file gives, and whether this is such a mapping, which then is given up.
void* map_simulated(void* wish, std::size_t size, int descriptor, off_t offset, bool is_shared);
bool unmap_simulated(void* at);

/// Zeros, which take memory where they are written, for a file's content: at a border of huge pages, where a store maps
/// its files. Kept until the process ends. Throws std::bad_alloc.
std::byte* memory_for_files(std::size_t bytes);

/// What the simulated device is.
enum class device : std::uint8_t {
  persistent_memory,  ///< mapped directly: durable by cache lines flushed and fenced, or synced
  disk,               ///< behind the page cache: durable once synced
};

/// One file of the simulated machine.
class simulated_file {
 public:
  static constexpr std::uint64_t size_max = std::uint64_t{64} << 20;

  /// In so much memory, zeroed.
  explicit simulated_file(std::byte* memory) noexcept : base_(memory) {}
  simulated_file(const simulated_file&) = delete;
  simulated_file& operator=(const simulated_file&) = delete;

  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  [[nodiscard]] bool exists() const noexcept { return exists_; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {base_, size_}; }
  [[nodiscard]] left_file left() const noexcept { return {exists_, bytes()}; }

  /// Replaces the file's content.
  void assign(std::span<const std::byte> content);
  /// Makes it `size` bytes long; what is new is zero.
  void resize(std::uint64_t size);
  void create() noexcept { exists_ = true; }
  void remove();

 private:
  std::byte* base_;
  std::uint64_t size_ = 0;
  std::uint64_t touched_ = 0;  // everything from here on is zero
  bool exists_ = false;
};

class machine {
 public:
  /// Numbers of its stores, each of files_max files in a folder of its own.
  static constexpr unsigned recorded = 0;
  static constexpr unsigned checked = 1;
  static constexpr unsigned stores = 2;
  static constexpr std::string_view root = "/simulated";
  /// File n of every store has it, plus n: they are the one file, before and after the crash.
  static constexpr std::uint64_t inode = 7;

  /// The one machine; files and recording are process-wide, as the hooks are.
  static machine& get();

  [[nodiscard]] simulated_file& file(unsigned of, unsigned n = 0) noexcept { return files_[of * files_max + n]; }
  [[nodiscard]] static std::string path(unsigned of, unsigned n = 0);
  [[nodiscard]] static std::string folder(unsigned of);
  [[nodiscard]] left_files left(unsigned of) noexcept;
  void assign(unsigned of, const left_files& files);

  void set_device(device d) noexcept { device_ = d; }
  [[nodiscard]] device kind() const noexcept { return device_; }
  /// Another boot: nothing of the live page may be trusted.
  void reboot() noexcept { ++boot_; }
  [[nodiscard]] std::uint64_t boot() const noexcept { return boot_; }
  void set_boot(std::uint64_t boot) noexcept { boot_ = boot; }
  /// Another host of the same device, as over a shared file system.
  void set_elsewhere(bool elsewhere) noexcept { elsewhere_ = elsewhere; }
  [[nodiscard]] bool elsewhere() const noexcept { return elsewhere_; }
  /// Whether locks of files keep openings apart, as they do for a reader beside the writer. Else each is given.
  void set_locks(bool are_kept) noexcept { locks_ = are_kept; }
  [[nodiscard]] bool locks() const noexcept { return locks_; }
  /// What random numbers the store gets, and in which order the words of one memcpy reach the caches.
  void seed(std::uint64_t s) { random_.seed(s); }
  [[nodiscard]] std::uint64_t random() { return random_(); }

  /// From here on every event of the store `recorded` is noted.
  void start_recording();
  [[nodiscard]] trace stop_recording();
  [[nodiscard]] bool recording() const noexcept { return recording_; }
  /// The time of a recording: each look at it takes a microsecond.
  [[nodiscard]] std::chrono::nanoseconds tick() noexcept { return time_ += std::chrono::microseconds(1); }

  void pass(std::chrono::nanoseconds time) noexcept { time_ += time; }

  /// The events of its files, told by hooks.cpp and system.cpp.
  void stored(const std::byte* at, std::uint64_t size) noexcept;
  void stored_block(const std::byte* at, std::uint64_t size);
  void note(event e);
  /// Every store must have been seen: compares the files with the log's result.
  void compare();
  /// A call that the hooks do not see wrote there.
  void stored_by_system(const void* at, std::uint64_t size);

 private:
  machine();

  std::deque<simulated_file> files_;  // side by side in memory
  device device_ = device::disk;
  std::uint64_t boot_ = 1;
  bool elsewhere_ = false;
  bool locks_ = false;
  std::mt19937_64 random_;
  bool recording_ = false;
  std::chrono::nanoseconds time_{0};
  trace events_;
  std::array<std::vector<std::byte>, files_max> logged_;  // the files as the log says
};

/// Where stores to memory are looked at; size 0: nowhere. Read by the hooks at each access.
struct watched_range {
  std::uintptr_t base;
  std::uintptr_t size;
};
extern watched_range watched;

/// A plain store is reported before it happens: it is logged at the next event. Size 0: there is none.
struct pending_store {
  const std::byte* at;
  std::uint64_t size;
};
extern pending_store pending;
void log_pending_store() noexcept;

}  // namespace icecore::crash
