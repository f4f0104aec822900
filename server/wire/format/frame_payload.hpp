// What a frame carries, on its way out: fields, and behind them bytes that are sent from where they are.
//
//   asked.answer(status_ok, encoded(told));                             // fields alone
//   asked.answer(status_ok, {encoded(head), std::move(all_values)});    // which nobody copies into one buffer
//
// Threads: one at a time. Errors: std::bad_alloc. Cost: O(1), but join(). Whoever receives the frame sees one row of
// bytes.
#pragma once

#include <span>
#include <string>
#include <utility>

#include "wire/format/byte_buffer.hpp"

namespace icecore::wire {

class frame_payload {
 public:
  frame_payload() = default;
  frame_payload(byte_buffer fields) noexcept : fields_(std::move(fields)) {}  // NOLINT: most payloads are no more
  frame_payload(byte_buffer fields, std::string behind) noexcept
      : fields_(std::move(fields)), behind_(std::move(behind)) {}

  [[nodiscard]] std::size_t size() const noexcept { return fields_.size() + behind_.size(); }
  /// Of memory.
  [[nodiscard]] std::size_t held_bytes() const noexcept { return fields_.capacity() + behind_.capacity(); }

  /// The bytes that lie in a row from this one on; none if it is the end.
  [[nodiscard]] std::span<std::byte> from(std::size_t place) noexcept {
    if (place < fields_.size()) return std::span(fields_.data(), fields_.size()).subspan(place);
    return std::as_writable_bytes(std::span(behind_)).subspan(place - fields_.size());
  }
  /// Puts all of it in a row.
  void join() {
    if (behind_.empty()) return;
    fields_.append(std::as_bytes(std::span(behind_)));
    behind_ = {};
  }

 private:
  byte_buffer fields_;
  std::string behind_;
};

}  // namespace icecore::wire
