// Whether a database may take more space: its quota, and what is free on the device.
//
//   space room(store, 1 << 30, [] { return true; });
//   room.require(transaction);          // errc::no_space
//   room.look_again();                  // from time to time: what the store really uses
//
// A look stops the writers for O(segments), and touches every segment of the store. So only a quota has one made: by
// the first write, not when the store is opened, and then from time to time. Between two looks the bytes of the writes
// are added up, so the quota is kept within what a second writes. Removals are allowed until a hundredth above the
// quota (at least 1 MiB): a full database can be made smaller by compaction of what was removed, and its owner can
// still say what. Threads: any number. Memory order: relaxed, since the numbers guard no other memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>

#include "icecore/store.hpp"
#include "service/limits.hpp"
#include "service/transaction.hpp"

namespace icecore::service {

/// Why a write, or a new database, is refused.
inline constexpr std::string_view device_is_full =
    "too little is free on the server's device (limits.free_disk_bytes): make room";

class space {
 public:
  /// `device_has_room`: asked at each write; must be cheap. `refused` counts refusals, if it is given.
  space(const icecore::store& of, std::uint64_t quota_bytes, std::function<bool()> device_has_room,
        refusals* refused = nullptr);

  /// Before a write: errc::no_space, with what is used and what is allowed. Counts the write's bytes.
  void require(const transaction& what);
  void require(std::uint64_t bytes, bool only_removes);
  /// Does nothing without a quota, and before the first write.
  void look_again();
  void change(std::uint64_t quota_bytes) noexcept {
    has_looked_.store(false, std::memory_order_relaxed);
    quota_.store(quota_bytes, std::memory_order_relaxed);
  }

 private:
  void look();
  void count(kept_limit which) const noexcept {
    if (refused_ != nullptr) refused_->count(which);
  }

  const icecore::store* store_;
  std::function<bool()> device_has_room_;
  refusals* refused_;
  std::atomic<std::uint64_t> quota_;
  std::atomic<bool> has_looked_{false};  // of several first writes each may look: they find the same
  std::atomic<std::uint64_t> used_{0};
};

}  // namespace icecore::service
