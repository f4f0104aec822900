// The value that a direct find returns: a view of bytes in the store that keeps them valid.
//
//   if (const auto bias = s.find("layer1/bias")) use(*bias);   // converts to std::string_view
//   const icecore::value kept = *s.find("layer1/weight");      // valid as long as `kept` lives, also after s.close()
//   const std::string copied(*s.find("name"));                 // a copy needs no handle
//
// It compares, prints and hashes as a std::string_view. A temporary does not convert to a view, because the view could
// outlive it: `std::string_view v = *s.find(key)` does not compile. Name the value first. What bytes() of a temporary
// returns is valid only to the end of the expression: pass it on, do not keep it. Beware of
// `std::optional<std::string_view> v = s.find(key)`: it compiles (std::optional converts an lvalue), but nothing keeps
// its view valid; and of `for (char c : *s.find(key))`, whose value ends before the loop begins.
//
// Threads, lifetime, cost: those of its pin (pin.hpp). Moving a value costs nothing; a copy takes a pin of its own.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <functional>
#include <ostream>
#include <string_view>
#include <utility>

#include "icecore/pin.hpp"

namespace [[gnu::visibility("default")]] icecore {

class value {
 public:
  /// Empty bytes.
  value() noexcept = default;
  value(std::string_view bytes, pin holds) noexcept : bytes_(bytes), holds_(std::move(holds)) {}
  /// A string literal, which needs no pin: find(key).value_or("none").
  template <std::size_t Size>
  value(const char (&literal)[Size]) noexcept : bytes_(literal, Size - 1) {}  // NOLINT(google-explicit-constructor)
  template <std::size_t Size>
  value(char (&buffer)[Size]) = delete;  // it may end before the value
  value(const value&) noexcept = default;
  value(value&& other) noexcept : bytes_(std::exchange(other.bytes_, {})), holds_(std::move(other.holds_)) {}
  value& operator=(const value&) noexcept = default;
  value& operator=(value&& other) noexcept {
    bytes_ = std::exchange(other.bytes_, {});
    holds_ = std::move(other.holds_);
    return *this;
  }
  ~value() = default;

  /// The bytes, valid as long as this value lives.
  [[nodiscard]] std::string_view bytes() const noexcept { return bytes_; }
  operator std::string_view() const& noexcept { return bytes_; }  // NOLINT(google-explicit-constructor)
  operator std::string_view() const&& = delete;                   // the view would outlive the value: name it first

  /// Gives up the pin; the bytes are then valid as long as the returned pin lives.
  [[nodiscard]] pin take_pin() && noexcept { return std::move(holds_); }

  [[nodiscard]] const char* data() const noexcept { return bytes_.data(); }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size(); }
  [[nodiscard]] bool empty() const noexcept { return bytes_.empty(); }
  [[nodiscard]] std::string_view::const_iterator begin() const noexcept { return bytes_.begin(); }
  [[nodiscard]] std::string_view::const_iterator end() const noexcept { return bytes_.end(); }

  friend bool operator==(const value& a, const value& b) noexcept { return a.bytes_ == b.bytes_; }
  friend auto operator<=>(const value& a, const value& b) noexcept { return a.bytes_ <=> b.bytes_; }
  template <std::convertible_to<std::string_view> Text>
  friend bool operator==(const value& a, const Text& b) noexcept {
    return a.bytes_ == std::string_view(b);
  }
  template <std::convertible_to<std::string_view> Text>
  friend auto operator<=>(const value& a, const Text& b) noexcept {
    return a.bytes_ <=> std::string_view(b);
  }
  friend std::ostream& operator<<(std::ostream& out, const value& v) { return out << v.bytes_; }

 private:
  std::string_view bytes_;
  pin holds_;
};

}  // namespace icecore

template <>
struct std::hash<icecore::value> {
  [[nodiscard]] std::size_t operator()(const icecore::value& v) const noexcept {
    return std::hash<std::string_view>{}(v.bytes());
  }
};
