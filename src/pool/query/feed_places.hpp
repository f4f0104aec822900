// The two places of a feed that the store keeps: how far it is acknowledged. One is written while the other counts.
//
//   feed_places places(space, head);
//   const auto newest = places.newest();                       // empty: both are damaged
//   places.store(1 - newest->number, newest->line.sequence + 1, made, key);
//
// Threads: store() by one at a time, under the lock of query_space.
#pragma once

#include <optional>
#include <string_view>

#include "pool/query/query_space.hpp"

namespace icecore {

class feed_places {
 public:
  /// As many as lines of parts.
  static constexpr std::uint32_t count = 2;

  feed_places(const query_space& space, link head) noexcept : space_(&space), head_(head) {}

  /// Whether the head segment says that it is a feed's; it may be damaged.
  [[nodiscard]] static bool is_feed(const query_space& space, link head) noexcept;
  /// The bytes of the head, the places, the definition, and with a snapshot the keys behind it.
  [[nodiscard]] static std::uint64_t size_of(std::uint64_t definition_size, bool with_keys) noexcept;
  /// How many of these lie behind the definition.
  [[nodiscard]] static std::uint64_t behind_definition(std::uint64_t definition_size, bool with_keys) noexcept;

  struct place {
    std::uint32_t number;
    format::feed_place line;
    std::string_view key;  ///< in the pool
  };
  /// The intact one with the greater sequence.
  [[nodiscard]] std::optional<place> newest() const noexcept;
  /// Writes a place, and starts its flush. `made` needs no sequence, key size and checksum.
  void store(std::uint32_t number, std::uint64_t sequence, format::feed_place made,
             std::string_view key) const noexcept;
  /// Makes it durable. It may be in the caches alone: of a killed process.
  void persist(const place& one) const;

  [[nodiscard]] format::feed_place& line(std::uint32_t number) const noexcept;

 private:
  [[nodiscard]] std::byte* key_of(std::uint32_t number) const noexcept;
  [[nodiscard]] std::uint32_t crc_of(const format::feed_place& of, const std::byte* key) const noexcept;
  [[nodiscard]] std::optional<place> intact(std::uint32_t number) const noexcept;

  const query_space* space_;
  link head_;
};

}  // namespace icecore
