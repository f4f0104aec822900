// The root: what a pool says of itself, in two pages written in turn.
//
//   roots.update([](format::root& r) { r.file_size = larger; });    // durable when it returns
//
// Threads: update() from any thread; read() gives a copy.
// Invariants:
//   P1. At every instant, crash or not, one of the two pages holds a valid root: an update writes only the page that is
//       not the newest, and the sequence number and the CRC make it count only when it is whole.
//   P2. What a root promises (file size, clock limit, certified records) was durable before that root was written.
//   P6. That an opening changes the store, how long the file is and the limit of the clock are in both pages before
//       anything relies on them (update_both). So of one lost page (a flipped bit, a write that the device lost) the
//       other one still knows what was written where. What is in the newest page alone is the certificate since then,
//       the place of an index that lasts, and that the store was closed.
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

/// Where the checksum that makes a pool's seed of its id starts.
inline constexpr std::uint32_t pool_seed_start = 0x1cec02e5U;
/// What seeds all checksums of the pool but the roots'.
[[nodiscard]] inline std::uint32_t pool_seed_of(const format::root& r) noexcept {
  return crc32c(pool_seed_start, r.pool_id, sizeof r.pool_id);
}

/// Where in the file a root with its sequence number belongs (P1).
[[nodiscard]] std::uint64_t root_offset(const format::root& r) noexcept;
/// Sets the checksum of a root whose other fields are all set.
void seal_root(format::root& r) noexcept;

/// Closed versions whose state power cuts took, as a root says.
[[nodiscard]] version_ranges lost_versions_of(const format::root& r);
void set_lost_versions(format::root& r, const version_ranges& lost) noexcept;

class root_pages {
 public:
  /// `base`: the mapped pool. `current`: the newest root, or for a new pool the first one, not yet written.
  root_pages(std::byte* base, const format::root& current, persistence& persist)
      : base_(base), current_(current), persist_(&persist) {}

  [[nodiscard]] format::root read() const;
  void update(const std::function<void(format::root&)>& change);
  /// The same, in both pages when it returns (P6).
  void update_both(const std::function<void(format::root&)>& change);
  /// To be called before the first update() of an opening, and before anything is changed that a root certifies. The
  /// newest root is made durable: its writer may have been killed before it was. And what a power cut has left of a
  /// torn root in the other page loses its checksum, durably: the words that the next update() puts there might else,
  /// torn in their turn, make the lost root whole again.
  void make_durable();
  /// Takes the valid roots of a copy that is not whole yet off its pages: what a crash leaves no store opens. Before
  /// settle(); until show() there is no update().
  void invalidate();
  /// Writes the newest root as `change` makes it, durably.
  void publish(const std::function<void(format::root&)>& change);
  /// From now on other processes write roots too; all hold `lock` for it.
  void share(process_lock& lock) noexcept { lock_ = &lock; }

 private:
  [[nodiscard]] std::byte* page_of(const format::root& r) const noexcept;

  void look_again() const;
  void make_durable_locked() const;
  void write_next(format::root next);
  [[nodiscard]] std::optional<recovering_lock> hold() const;

  mutable std::mutex mutex_;
  process_lock* lock_ = nullptr;  ///< if others write roots too
  std::byte* base_;
  mutable format::root current_;
  persistence* persist_;
};

}  // namespace icecore
