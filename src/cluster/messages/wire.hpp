// The content of messages between ranks: numbers and byte strings, packed one after the other.
//
//   packer p(kind::find); p.text(key); ... unpacker u(bytes); const auto key = u.text();
//
// The ranks of an MPI job run one program on machines of one byte order, and a message is never written to disk. Every
// size is checked against the remaining bytes before it is used.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "cluster/gather/ranks/failure.hpp"
#include "icecore/error.hpp"

namespace icecore::mpi {

/// What a request asks its receiver for.
enum class kind : std::uint8_t {
  find = 1,
  contains,
  find_many,
  write,     ///< inserts and removes, independent of each other
  apply,     ///< inserts and removes at one instant
  apply_if,  ///< the same, with conditions
  history,
  scan,
  count,
  tags,
  signal,
  update,
  sync,
  checkpoint_part,   ///< the sender's file of a checkpoint is written, or failed
  checkpoint_ended,  ///< a checkpoint has ended on all ranks
  count_filtered,
  page,
  feed,
};

/// Every request begins with its kind and the tag that its answer must have.
inline constexpr std::size_t reply_tag_offset = 1;
inline constexpr std::size_t request_header_size = reply_tag_offset + sizeof(std::int32_t);

/// The longest message: MPI counts bytes in an int.
inline constexpr std::size_t message_size_max = 0x7fff'ffff;

class packer {
 public:
  packer() = default;
  /// A request. The sender fills in the reply tag.
  explicit packer(kind asked) {
    number(asked);
    number(std::int32_t{0});
  }

  /// Continues from bytes that were packed before.
  explicit packer(std::string bytes) noexcept : bytes_(std::move(bytes)) {}

  template <typename T>
    requires std::is_integral_v<T> || std::is_enum_v<T>
  void number(T value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    bytes_.append(bytes, sizeof value);
  }
  void text(std::string_view value) {
    number(static_cast<std::uint32_t>(value.size()));
    bytes_.append(value);
  }
  void optional_text(const std::optional<std::string_view>& value) {
    number(static_cast<std::uint8_t>(value.has_value()));
    if (value) text(*value);
  }

  void append(const packer& other) { bytes_.append(other.bytes_); }
  void reserve(std::size_t bytes) { bytes_.reserve(bytes); }
  /// Makes room for so many more bytes; if these are many, in memory that an earlier message used (sent_bytes).
  void make_room(std::size_t more);
  /// Drops the bytes beyond this size.
  void shorten(std::size_t size) noexcept { bytes_.erase(size); }
  /// Keeps its memory.
  void clear() noexcept { bytes_.clear(); }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size(); }
  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Bytes to send. If their memory is large, it is kept for a later message.
[[nodiscard]] std::shared_ptr<const std::string> sent_bytes(std::string packed);

class unpacker {
 public:
  explicit unpacker(std::string_view bytes) noexcept : rest_(bytes) {}

  template <typename T>
    requires std::is_integral_v<T> || std::is_enum_v<T>
  [[nodiscard]] T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  /// A view into the message.
  [[nodiscard]] std::string_view text() { return take(number<std::uint32_t>()); }
  [[nodiscard]] std::optional<std::string_view> optional_text() {
    if (number<std::uint8_t>() == 0) return std::nullopt;
    return text();
  }
  [[nodiscard]] bool at_end() const noexcept { return rest_.empty(); }
  [[nodiscard]] std::size_t left() const noexcept { return rest_.size(); }

 private:
  std::string_view take(std::size_t size) {
    if (size > rest_.size()) throw error(errc::bad_input, "a message from another rank ends too early");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  std::string_view rest_;
};

inline void pack(packer& out, const ranks::failure& what) {
  out.number(what.code());
  out.text(what.text());
}
[[nodiscard]] inline ranks::failure unpack_failure(unpacker& in) {
  const auto code = in.number<std::int32_t>();
  return {code, in.text()};
}

/// One insert or remove, as views.
struct write_view {
  std::string_view key;
  std::optional<std::string_view> value;  ///< empty: remove
};

inline void pack(packer& out, const write_view& write) {
  out.text(write.key);
  out.optional_text(write.value);
}
[[nodiscard]] inline write_view unpack_write(unpacker& in) {
  const std::string_view key = in.text();
  return {key, in.optional_text()};
}
/// The most bytes that a write takes in a message.
[[nodiscard]] inline std::size_t packed_size(const write_view& write) noexcept {
  constexpr std::size_t sizes_and_flag = 9;
  return sizes_and_flag + write.key.size() + (write.value ? write.value->size() : 0);
}

}  // namespace icecore::mpi
