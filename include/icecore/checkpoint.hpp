// A store as it was at one instant, to be written to a file of its own while writes to the store go on.
//
//   icecore::checkpoint now = s.checkpoint();      // O(segments): writers stop for that long
//   s.insert("layer1/bias", "0.9");                // not in it
//   now.write("/scratch/model.ice");               // by any thread: all versions, all tags
//   icecore::store copy("/scratch/model.ice");     // a store like any other
//
// What is written is a closed store with the same checksums: opening checks all of it (large values when they are first
// read, or with options::check_values), so a copy that is damaged or cut is refused, never believed.
// Threads: a value; write() from any thread, several at once to different files.
// Lifetime: valid while the store is open.
// Durability: the file has its name when it is whole and on its device; a crash before leaves nothing of that name.
// Cost: the file is copied by the kernel, at the speed of the devices.
// Source: PapyrusKV, SC 2017, section 4.2 (asynchronous checkpoints).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "icecore/options.hpp"

namespace [[gnu::visibility("default")]] icecore {

namespace detail {
struct checkpoint_cut;
}  // namespace detail

class checkpoint {
 public:
  explicit checkpoint(std::shared_ptr<const detail::checkpoint_cut> cut) noexcept : cut_(std::move(cut)) {}

  /// The newest version that is in it, closed: the last one before the store's clock at that instant.
  [[nodiscard]] icecore::version version() const noexcept;
  /// Size of the file to be.
  [[nodiscard]] std::uint64_t bytes() const noexcept;

  /// Writes the file. Errors: errc::store_exists if something is at `to`, and the store is not touched; no_space,
  /// permission, io; closed, if the store is no longer open.
  void write(const std::filesystem::path& to, const progress_function& on_progress = {}) const;

 private:
  std::shared_ptr<const detail::checkpoint_cut> cut_;
};

}  // namespace icecore
