// A long value that is given in parts, one behind the other: a header and an array, say. Nobody joins them before they
// are in the pool.
//
// Only for values of pool::written_value_size and more, so that the code that writes short ones need not ask.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace icecore {

class value_parts {
 public:
  explicit value_parts(std::span<const std::string_view> parts) noexcept : parts_(parts) {
    for (const std::string_view each : parts) size_ += each.size();
  }
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  [[nodiscard]] std::span<const std::string_view> all() const noexcept { return parts_; }

 private:
  std::span<const std::string_view> parts_;
  std::uint64_t size_ = 0;
};

}  // namespace icecore
