// The values that blocks only refer to: large ones, which lie where they were written.
//
//   const values_elsewhere values(std::move(all));
//   use(values.at(record.reference()));
//
// Threads: any. Lifetime: views lead into the memory that the constructor was given.
// Errors: errc::damaged, which names the place.
// Cost: at() O(log values), and one pass over the value when it is first read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stratum/extent_format.hpp"

namespace icecore::stratum {

class values_elsewhere {
 public:
  struct one {
    format::value_reference where;
    const std::byte* bytes;    ///< null if its file is missing
    std::uint32_t crc;         ///< CRC32C of the value
    std::string file;          ///< for messages
    std::uint64_t offset = 0;  ///< in that file
  };

  explicit values_elsewhere(std::vector<one> all);

  /// The value, checked.
  [[nodiscard]] std::string_view at(const format::value_reference& where) const;
  /// What is wrong with value `i`; nullptr if all is well. Reads all of it.
  [[nodiscard]] const char* fails(std::size_t i) const noexcept;
  [[nodiscard]] const std::vector<one>& all() const noexcept { return all_; }  ///< in the order of their places
  /// Its place in all(); empty if it is not one of them.
  [[nodiscard]] std::optional<std::size_t> find(const format::value_reference& where) const noexcept;
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::vector<one> all_;
  mutable std::vector<std::atomic<bool>> checked_;
  std::uint64_t bytes_ = 0;
};

}  // namespace icecore::stratum
