// From record to record through what a writer has filled since the store was opened (filled_ranges.hpp).
//
//   for (link at = next_of_key(engine, from, to); at < to; at = next_of_key(engine, behind(engine, at), to)) ...
//
// Threads: pure. Precondition: [from, to) is of one range, from a record's place on, and published (F1).
#pragma once

#include <cstring>

#include "base/raise.hpp"
#include "store/engine.hpp"

namespace icecore::detail {

template <class Engine>
[[nodiscard]] link behind(const Engine& engine, link record) {
  return record + engine.histories().at(record).layout().size();
}

/// The next entry or update at `at` or behind it; `to` or more if there is none. errc::damaged if no record begins
/// where one must.
template <class Engine>
[[nodiscard]] link next_of_key(const Engine& engine, link at, link to) {
  while (at < to) {
    const record one = engine.histories().at(at);
    // complete operations do not change any more (F1): plain reads. Between records there are zeros
    std::uint64_t first_word = 0;
    std::memcpy(&first_word, one.address(), sizeof first_word);
    if (first_word == 0) {
      at += sizeof first_word;
      continue;
    }
    const record_layout layout = one.layout();
    if (!one.has_known_kind() || !layout.plausible() || at + layout.size() > to) {
      raise(errc::damaged,
            "{}: damaged at byte {} (record): no record begins here, where a writer has put one since the store was "
            "opened",
            engine.the_pool().origin(at), link_offset(at));
    }
    if (one.is_entry() || one.is_update()) return at;
    at += layout.size();
  }
  return at;
}

}  // namespace icecore::detail
