// Streams of rows: what scans, histories, differences, changes and watches give, in blocks of columns.
//
//   auto rows = db.scan({.bounds = b, .at = newest{}});
//   for (row_block block; rows->next(block, {.rows = 4096, .bytes = 256 << 10});) send(block);
//
// A block is a few arrays, so that doors can send it as it is. Rows of a scan have key, value and version; rows of a
// history, of differences and of changes may be removals, and tell the value before where it is asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "icecore/options.hpp"

namespace icecore::service {

/// Values of different lengths, one behind the other: value i is bytes[ends[i - 1] .. ends[i]).
struct byte_array {
  std::string bytes;
  std::vector<std::uint64_t> ends;

  [[nodiscard]] std::size_t size() const noexcept { return ends.size(); }
  [[nodiscard]] std::string_view operator[](std::size_t i) const noexcept {
    const std::uint64_t begin = i == 0 ? 0 : ends[i - 1];
    return std::string_view(bytes).substr(begin, ends[i] - begin);
  }
  void add(std::string_view value) {
    bytes.append(value);
    ends.push_back(bytes.size());
  }
  void clear() noexcept {
    bytes.clear();
    ends.clear();
  }
};

struct row_block {
  byte_array keys;
  byte_array values;                        ///< empty for a removal
  std::vector<icecore::version> versions;   ///< of each row's record; of differences: none
  std::vector<std::uint8_t> removed;        ///< 1: a removal. Empty: there is none in this block
  byte_array before;                        ///< the values before, if asked for: then as many as rows
  std::vector<std::uint8_t> before_absent;  ///< 1: there was none before

  [[nodiscard]] std::size_t size() const noexcept { return keys.size(); }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  [[nodiscard]] std::size_t bytes() const noexcept {
    return keys.bytes.size() + values.bytes.size() + before.bytes.size() + size() * 32;
  }
  void clear() noexcept;
  void add(std::string_view key, std::optional<std::string_view> value, icecore::version version);
  void add_before(std::optional<std::string_view> value);
};

/// A block ends with the first of these that it reaches; it always holds at least one row if there is one.
struct block_limits {
  std::size_t rows = 4096;
  std::size_t bytes = std::size_t{256} << 10;
};

/// Threads: one at a time. Errors: icecore::error, after which the stream is over.
class row_stream {
 public:
  row_stream() = default;
  row_stream(const row_stream&) = delete;
  row_stream& operator=(const row_stream&) = delete;
  virtual ~row_stream() = default;
  /// Replaces the block's rows by the next ones. False, and an empty block, at the end.
  virtual bool next(row_block& block, const block_limits& limits) = 0;
  /// The version that the stream reads (of changes and differences: the later one).
  [[nodiscard]] virtual icecore::version version() const noexcept = 0;
};

}  // namespace icecore::service
