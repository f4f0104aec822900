// Bytes that grow without being zeroed first: what a frame's payload is made in, and received into.
//
//   byte_buffer b;
//   b.append(std::as_bytes(std::span(key)));
//   connection.send(header, std::move(b));
//
// Threads: one at a time. A buffer owns its bytes; views end with the next append. Errors: std::bad_alloc. Cost:
// appending is amortised O(bytes appended).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

namespace icecore::wire {

class byte_buffer {
 public:
  byte_buffer() = default;
  /// `size` bytes of no particular content.
  explicit byte_buffer(std::size_t size)
      : bytes_(std::make_unique_for_overwrite<std::byte[]>(size)), size_(size), capacity_(size) {}
  explicit byte_buffer(std::span<const std::byte> content) { append(content); }

  byte_buffer(byte_buffer&& other) noexcept
      : bytes_(std::move(other.bytes_)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  byte_buffer& operator=(byte_buffer&& other) noexcept {
    bytes_ = std::move(other.bytes_);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
    return *this;
  }

  /// `count` bytes more at the end, of no particular content.
  std::byte* grow(std::size_t count) {
    if (count > capacity_ - size_) reserve(std::max({size_ + count, 2 * capacity_, capacity_least}));
    std::byte* const place = bytes_.get() + size_;
    size_ += count;
    return place;
  }

  void append(std::span<const std::byte> more) {
    if (!more.empty()) std::memcpy(grow(more.size()), more.data(), more.size());
  }

  void reserve(std::size_t capacity) {
    if (capacity <= capacity_) return;
    auto larger = std::make_unique_for_overwrite<std::byte[]>(capacity);
    if (size_ > 0) std::memcpy(larger.get(), bytes_.get(), size_);
    bytes_ = std::move(larger);
    capacity_ = capacity;
  }

  void clear() noexcept { size_ = 0; }
  [[nodiscard]] std::byte* data() noexcept { return bytes_.get(); }
  [[nodiscard]] const std::byte* data() const noexcept { return bytes_.get(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::span<const std::byte> view() const noexcept { return {bytes_.get(), size_}; }

 private:
  static constexpr std::size_t capacity_least = 64;  // of one that grows: small messages take one allocation

  std::unique_ptr<std::byte[]> bytes_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace icecore::wire
