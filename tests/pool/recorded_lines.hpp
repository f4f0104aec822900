// Records what a thread has flushed and which of it a fence has made durable. Replaces a medium's functions.
//
//   persistence lines(-1, "memory", medium::persistent_memory, durability::operation, recorded_lines::flush,
//                     recorded_lines::fence, false);
//   ... EXPECT_EQ(recorded_lines::durable(word), word.load());
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "pool/format.hpp"

namespace icecore {

class recorded_lines {
 public:
  static void flush(const void* data, std::size_t size) {
    constexpr std::uintptr_t line = format::cache_line_size;
    const auto begin = reinterpret_cast<std::uintptr_t>(data);
    for (std::uintptr_t at = begin / line * line; at < begin + size || at % line != 0; at += sizeof(std::uint64_t))
      on_their_way[at] = reinterpret_cast<const std::atomic<std::uint64_t>*>(at)->load();
    if (when_flushed) when_flushed(data);
  }
  static void fence() {
    for (const auto& [at, value] : on_their_way) fenced[at] = value;
    on_their_way.clear();
  }
  /// Forgets all flushes and fences so far. Every later flush calls `then`.
  static void begin(std::function<void(const void* data)> then = {}) {
    on_their_way.clear();
    fenced.clear();
    when_flushed = std::move(then);
  }

  /// The value of a word that the medium has for certain; empty if the word was not flushed and fenced.
  [[nodiscard]] static std::optional<std::uint64_t> durable(const std::atomic<std::uint64_t>& word) {
    return found_in(fenced, word);
  }
  /// The value that the next fence makes durable; empty if the line was not flushed since the last fence.
  [[nodiscard]] static std::optional<std::uint64_t> flushed(const std::atomic<std::uint64_t>& word) {
    return found_in(on_their_way, word);
  }

 private:
  using words = std::map<std::uintptr_t, std::uint64_t>;
  static std::optional<std::uint64_t> found_in(const words& in, const std::atomic<std::uint64_t>& word) {
    const auto found = in.find(reinterpret_cast<std::uintptr_t>(&word));
    return found == in.end() ? std::nullopt : std::optional(found->second);
  }

  static inline thread_local words on_their_way;
  static inline thread_local words fenced;
  static inline thread_local std::function<void(const void*)> when_flushed;
};

}  // namespace icecore
