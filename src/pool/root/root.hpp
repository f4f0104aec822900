// The root: what a pool says of itself, in two pages written in turn.
//
//   roots.update([](format::root& r) { r.file_size = larger; });    // durable when it returns
//
// Threads: update() from any thread; read() returns a copy of the newest durable root. Unless processes share the
//   store, it waits for no sync: a feed asks for the store's id while a deferred store syncs its root.
// Invariants:
//   P1. At every instant, crash or not, one of the two pages holds a valid root. An update writes only the page that
//       does not hold the newest root, and the sequence number and the CRC make it count only when it is intact.
//   P2. What a root promises (file size, clock limit, certified records) was durable before that root was written, but
//       for a joint certificate: a root with one becomes durable by the same sync as the records that it certifies.
//       Until that sync has ended no page is written, so the other page's root has the certificate before it, which is
//       proven. After a power cut an opening that misses records of a joint certificate goes back to that root.
//   P6. Three things are in both pages before anything relies on them (update_both): that an opening changes the store,
//       how long the file is, and the limit of the clock. So if one page is lost (a flipped bit, a write that the
//       device lost), the other still says what was written where. Only the newest page has the certificate made since
//       then, the anchor of the persistent index, and the fact that the store was closed.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "base/checksum.hpp"
#include "base/locks/process_lock.hpp"
#include "icecore/version_ranges.hpp"
#include "pool/file/persist.hpp"
#include "pool/format.hpp"

namespace icecore {

/// Why a root page cannot be used; empty if it can.
[[nodiscard]] std::optional<std::string> root_defect(const format::root& r);

/// The newest valid root of the two pages at `base`; empty if none is valid.
[[nodiscard]] std::optional<format::root> newest_root(const std::byte* base);

/// The start of the checksum that turns a pool's id into its seed.
inline constexpr std::uint32_t pool_seed_start = 0x1cec02e5U;
/// The seed of all checksums of the pool except those of its roots.
[[nodiscard]] inline std::uint32_t pool_seed_of(const format::root& r) noexcept {
  return crc32c(pool_seed_start, r.pool_id, sizeof r.pool_id);
}

/// Whether `r` stands for a root of which both pages are damaged (pool/root/file_role.hpp). The first root that a store
/// writes has the sequence number 1.
[[nodiscard]] inline bool is_stand_in(const format::root& r) noexcept { return r.sequence == 0; }
/// Where in the file a root with its sequence number belongs (P1).
[[nodiscard]] std::uint64_t root_offset(const format::root& r) noexcept;
/// Sets the checksum of a root whose other fields are all set.
void seal_root(format::root& r) noexcept;

/// The closed versions whose state power cuts took, as a root says.
[[nodiscard]] version_ranges lost_versions_of(const format::root& r);
void set_lost_versions(format::root& r, const version_ranges& lost) noexcept;

class root_pages {
 public:
  /// `base`: the mapped pool. `current`: the newest root, or for a new pool the first one, not yet written.
  root_pages(std::byte* base, const format::root& current, persistence& persist)
      : base_(base), current_(current), persist_(&persist) {}

  [[nodiscard]] format::root read() const;
  void update(const std::function<void(format::root&)>& change);
  /// Like update(), but the change is in both pages on return (P6).
  void update_both(const std::function<void(format::root&)>& change);
  /// Call it before the first update() of an opening and before changing anything that a root certifies. Makes the
  /// newest root durable: its writer may have been killed before it did. Also clears, durably, the checksum of a torn
  /// root that a power cut left in the other page. Otherwise the words that the next update() puts there might, torn as
  /// well, make the lost root valid again.
  void make_durable();
  /// Applies `change` to the newest root and writes it durably.
  void publish(const std::function<void(format::root&)>& change);
  /// From now on other processes write roots too; each holds `lock` while it does.
  void share(process_lock& lock) noexcept { lock_ = &lock; }
  /// Beside the process that writes them: `newest` counts from now on.
  void follow(const format::root& newest) {
    const std::scoped_lock lock(current_mutex_);
    current_ = newest;
  }
  /// The root before the newest one, if it is of the same session and its page is intact. Only while nothing is
  /// written.
  [[nodiscard]] std::optional<format::root> previous() const;
  /// For an opening that goes back to the previous root, or returns to the newest one: from now on `r` counts as the
  /// newest. Only before the first update.
  void go_to(const format::root& r) { current_ = r; }

 private:
  [[nodiscard]] std::byte* page_of(const format::root& r) const noexcept;

  void look_again() const;
  void make_durable_locked() const;
  void write_next(format::root next);
  [[nodiscard]] std::optional<recovering_lock> hold() const;

  mutable std::mutex mutex_;          // of who writes; held during the sync
  mutable std::mutex current_mutex_;  // held to store current_, and by readers, who then need no other
  process_lock* lock_ = nullptr;      ///< set if other processes write roots too
  std::byte* base_;
  mutable format::root current_;
  persistence* persist_;
};

}  // namespace icecore
