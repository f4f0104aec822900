// Which closed versions a store keeps when it is compacted. A property of the store, kept in its file.
//
//   store.set_retention({.tagged = true, .newest = 100});   // versions that have a tag, and the newest hundred
//   store.set_retention({.younger_than = 30 * 24h, .weekly = 52});
//   store.set_retention(icecore::retention::all());
//   store.hold_version("paper", 1700);                      // this one stays, whatever the retention, until
//   store.release_version("paper");
//
// A version is kept if any of these wants it. The newest closed version is always kept, and so are versions that are
// held by a call, the versions that kept queries read, and those from a kept feed's place on. Nothing goes before the
// next compact(): it expires the other versions for ever, and drops the records that no kept version shows. Reading an
// expired version is errc::version_expired.
//
// Times are those of tags: a version without a tag counts as old as the first tag behind it; what is behind the last
// tag counts as new. A tag's time is that of the clock when it was made, unless the caller gave it another.
//
// Threads: values.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "icecore/options.hpp"

namespace [[gnu::visibility("default")]] icecore {

/// What none of the members wants goes; if none wants anything, everything stays.
struct retention {
  bool tagged = false;                   ///< each version that has a tag with a name, a note or a time
  std::uint64_t newest = 0;              ///< so many of the newest closed versions that can be read
  std::chrono::seconds younger_than{0};  ///< versions younger than this
  std::uint32_t hourly = 0;              ///< the newest tag of each of so many hours (UTC) that have a tag
  std::uint32_t daily = 0;               ///< the same for days
  std::uint32_t weekly = 0;              ///< the same for weeks, which begin on Mondays

  [[nodiscard]] static constexpr retention all() noexcept { return {}; }
  [[nodiscard]] constexpr bool keeps_all() const noexcept {
    return !tagged && newest == 0 && younger_than.count() == 0 && hourly == 0 && daily == 0 && weekly == 0;
  }
  friend constexpr bool operator==(const retention&, const retention&) = default;
};

/// A version that is held by a call: store::hold_version().
struct held_version {
  std::string name;
  icecore::version version;
  std::chrono::system_clock::time_point created;
};

}  // namespace icecore
