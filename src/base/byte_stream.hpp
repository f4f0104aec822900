// Writes and reads numbers and strings as bytes, little-endian, with every size checked before it is used.
//
//   byte_writer out;  out.number<std::uint32_t>(7);  out.text("abc");
//   byte_reader in(out.bytes());  in.number<std::uint32_t>();  in.text();
//
// Errors: byte_reader calls its `fail` (which throws) if a number or text would reach beyond the end.
// Threads: one object, one thread.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace icecore {

static_assert(std::endian::native == std::endian::little);

class byte_writer {
 public:
  template <typename T>
  void number(T n) {
    const auto* at = reinterpret_cast<const std::byte*>(&n);
    bytes_.insert(bytes_.end(), at, at + sizeof n);
  }
  /// Its size first, 4 bytes.
  void text(std::string_view s) {
    number(static_cast<std::uint32_t>(s.size()));
    const auto* at = reinterpret_cast<const std::byte*>(s.data());
    bytes_.insert(bytes_.end(), at, at + s.size());
  }
  [[nodiscard]] const std::vector<std::byte>& bytes() const noexcept { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

class byte_reader {
 public:
  byte_reader(std::span<const std::byte> bytes, std::function<void()> fail) : bytes_(bytes), fail_(std::move(fail)) {}

  template <typename T>
  [[nodiscard]] T number() {
    T n{};
    const auto from = take(sizeof n);
    std::memcpy(&n, from.data(), sizeof n);
    return n;
  }
  [[nodiscard]] std::string_view text() {
    const auto from = take(number<std::uint32_t>());
    return {reinterpret_cast<const char*>(from.data()), from.size()};
  }
  [[nodiscard]] bool at_end() const noexcept { return bytes_.empty(); }

 private:
  std::span<const std::byte> take(std::size_t size) {
    if (size > bytes_.size()) fail_();
    const auto taken = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return taken;
  }

  std::span<const std::byte> bytes_;
  std::function<void()> fail_;
};

}  // namespace icecore
