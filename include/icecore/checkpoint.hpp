// A store as it was at one instant. It can be written to a file of its own while writes to the store go on.
//
//   icecore::checkpoint now = s.checkpoint();      // O(segments): writers stop for that long
//   s.insert("layer1/bias", "0.9");                // not in the checkpoint
//   now.write("/scratch/model.ice");               // in any thread: all versions, all tags
//   icecore::store copy("/scratch/model.ice");     // a store like any other
//
// The file is a closed store with the same checksums. Opening it checks all of it (large values when they are first
// read, or with options::check_values), so a damaged or truncated copy is refused. It has the kept queries, kept feeds
// and holds of the store, unless it is made by a reader beside the process that writes (store::beside_writer()).
// Threads: a checkpoint is a value; any thread may call write(), and several may write different files at once.
// Lifetime: write() needs the store open (errc::closed if it is not). A checkpoint keeps the store's memory mapped
// until it ends. Durability: the file gets its name only when it is complete and durable; if a crash comes before that,
// no file has that name. Cost: the kernel copies the file, at the speed of the devices. Source: PapyrusKV, SC 2017,
// section 4.2 (asynchronous checkpoints).
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

  /// The newest closed version in the checkpoint: the last one before the store's clock at that instant.
  [[nodiscard]] icecore::version version() const noexcept;
  /// The size of the file that write() will make.
  [[nodiscard]] std::uint64_t bytes() const noexcept;

  /// Writes the file. Errors: errc::store_exists if something is at `to`, which stays unchanged; no_space, permission,
  /// io; closed if the store is no longer open.
  void write(const std::filesystem::path& to, const progress_function& on_progress = {}) const;

 private:
  std::shared_ptr<const detail::checkpoint_cut> cut_;
};

}  // namespace icecore
