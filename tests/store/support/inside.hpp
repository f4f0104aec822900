// Internals of an open store, for tests that look at records and segments.
#pragma once

#include <string_view>

#include "icecore/store.hpp"
#include "store/engine.hpp"

namespace icecore::testing {

/// The record that shows the key now; null_link if none does.
[[nodiscard]] inline link shown_record(const store& s, std::string_view key) {
  return detail::with_engine(s.core(), [&](const auto& engine) {
    const link stands = engine.standing_for(key);
    return stands == null_link ? null_link : engine.entry_visible_at(stands, engine.newest_shown());
  });
}

/// Precondition: the store has the persistent index, and was opened with it.
[[nodiscard]] inline const logged_segments& segments_of(const store& s) {
  if (s.core().heads() == detail::heads_kind::layered_durable)
    return static_cast<const detail::durable_engine<detail::layered<durable_heads>>&>(s.core()).segments();
  return static_cast<const detail::durable_engine<durable_heads>&>(s.core()).segments();
}

}  // namespace icecore::testing
