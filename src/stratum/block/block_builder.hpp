// Collects the records of one block, in the order of (key ascending, version descending), and writes it.
//
//   block_builder b;
//   b.add(key, record);  ...
//   const std::uint32_t size = b.size();          // of the block, as it would be now
//   b.write(to, seed);  b.clear();
//
// Threads: one object, one thread. Views that were added need not stay valid.
// Cost: size() O(1), add() and write() O(bytes).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stratum/block/packed_record.hpp"

namespace icecore::stratum {

class block_builder {
 public:
  /// Precondition: (key, record.stamped) is behind all that was added, and has_room().
  void add(std::string_view key, const packed_record& record);
  [[nodiscard]] bool has_room() const noexcept { return records_.size() < format::block_entries_max; }
  [[nodiscard]] bool empty() const noexcept { return records_.empty(); }
  [[nodiscard]] std::uint32_t keys() const noexcept { return static_cast<std::uint32_t>(keys_.size()); }
  [[nodiscard]] std::uint32_t records() const noexcept { return static_cast<std::uint32_t>(records_.size()); }
  [[nodiscard]] std::string_view key(std::size_t i) const noexcept;
  /// Of the last record.
  [[nodiscard]] version oldest_of_last_key() const noexcept { return records_.back().stamped; }

  /// Bytes of the block as it is, or some more if values are aligned; a multiple of 64.
  [[nodiscard]] std::uint64_t size() const noexcept { return plan().size; }
  /// Bytes of the block as it is. Cost: O(records) if values are aligned.
  [[nodiscard]] std::uint64_t exact_size() const noexcept;
  /// A block that ends so near to the end of a page of media is filled up to it: 6 % of a page.
  static constexpr std::uint64_t filling_max = 256;
  /// Writes the block to `to`, which has size() bytes, and filling_max more; returns how many it takes. `seed` is that
  /// of the block's place in its extent, `in_page` where it begins in a page of media, if pages matter.
  std::uint64_t write(std::byte* to, std::uint32_t seed, std::optional<std::uint64_t> in_page = std::nullopt) const;
  void clear() noexcept;
  /// Takes the records of the last key away and adds them to `next`. Precondition: there are at least two keys.
  void move_last_key(block_builder& next);

 private:
  struct one_key {
    std::uint32_t end;  // in key_bytes_
    std::uint32_t first_record;
  };
  struct one_record {
    version stamped;
    format::packed_kind kind;
    std::uint32_t value_end;  // in values_
  };
  /// What decides how the block is laid out.
  struct totals {
    bool keys_vary = false;
    bool values_vary = false;
    std::uint64_t values = 0;  // records that are no removals
    std::uint64_t value_size_max = 0;
    version least = version_max;
    version greatest = 0;
  };

  void count_key(std::size_t i) noexcept;
  void count_record(std::size_t r) noexcept;
  [[nodiscard]] format::block_header plan() const noexcept;
  [[nodiscard]] std::string_view value(std::size_t r) const noexcept;

  std::string key_bytes_;
  std::vector<one_key> keys_;
  std::string values_;
  std::vector<one_record> records_;
  totals totals_;
};

}  // namespace icecore::stratum
