// Rows where they lie in a message: what a client reads without a copy of them.
//
//   rows_answer_view told;
//   if (!decoded(answer.payload.view(), told)) refuse();
//   for (std::size_t i = 0; i < told.block_of_rows.size(); ++i) use(told.block_of_rows.key(i));
//
// Lifetime: that of the message's bytes, wherever their owner is moved to. Threads: any number may read. Cost: O(1)
// each call; reading a message looks once at the ends of all rows, so that no later call leaves its bytes.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "icecore/options.hpp"

namespace icecore::wire {

/// One value of each row, as service::byte_array, whose ends are 4 bytes each at any address.
struct byte_array_view {
  std::string_view bytes{};
  std::span<const std::byte> ends{};

  [[nodiscard]] std::size_t size() const noexcept { return ends.size() / sizeof(std::uint32_t); }
  [[nodiscard]] std::uint32_t end(std::size_t i) const noexcept {
    std::uint32_t read = 0;
    std::memcpy(&read, ends.data() + i * sizeof read, sizeof read);
    return read;
  }
  [[nodiscard]] std::string_view operator[](std::size_t i) const noexcept {
    const std::uint32_t begin = i == 0 ? 0 : end(i - 1);
    return {bytes.data() + begin, end(i) - begin};
  }
};

/// A service::row_block.
struct rows_view {
  byte_array_view keys{};
  byte_array_view values{};
  std::span<const std::byte> versions{};  ///< 8 bytes each; of one row, they are those of all; empty: none
  std::span<const std::byte> removals{};  ///< 1: a removal; empty: there is none
  byte_array_view values_before{};
  std::span<const std::byte> none_before{};

  [[nodiscard]] std::size_t size() const noexcept { return keys.size(); }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  [[nodiscard]] std::string_view key(std::size_t i) const noexcept { return keys[i]; }
  /// Empty for a removal.
  [[nodiscard]] std::string_view value(std::size_t i) const noexcept { return values[i]; }
  [[nodiscard]] bool removed(std::size_t i) const noexcept { return !removals.empty() && removals[i] != std::byte{0}; }
  /// 0: not told.
  [[nodiscard]] icecore::version version(std::size_t i) const noexcept {
    icecore::version read = 0;
    if (versions.empty()) return read;
    std::memcpy(&read, versions.data() + (versions.size() == sizeof read ? 0 : i * sizeof read), sizeof read);
    return read;
  }
  /// Empty: there was none, or it was not asked for.
  [[nodiscard]] std::optional<std::string_view> before(std::size_t i) const noexcept {
    if (none_before.empty() || none_before[i] != std::byte{0}) return std::nullopt;
    return values_before[i];
  }
};

}  // namespace icecore::wire
