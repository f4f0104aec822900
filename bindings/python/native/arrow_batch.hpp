// Batches of rows for Arrow: columns that are filled item by item and handed over without another copy.
//
// Invariants:
//   B1. What a batch points to is owned by the batch: its own buffers, or values in the pool with a pin. So a batch is
//       valid after its stream, its store and its interpreter.
//   B2. Each child of a batch owns what it points to, because a consumer may move it out of its parent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "icecore/arrow.h"
#include "icecore/icecore.hpp"

namespace icecore::python {

/// What a column's items become.
enum class arrow_kind : std::uint8_t {
  bytes = 0,    ///< large_binary
  text = 1,     ///< large_utf8
  view = 2,     ///< binary_view: large values stay in the pool
  fixed = 3,    ///< items of one size, of the type of `format`
  version = 4,  ///< uint64
  flag = 5,     ///< bool: false is an item without bytes
};

struct arrow_type {
  arrow_kind kind = arrow_kind::bytes;
  std::string format{};        ///< fixed: of an item, or of an element of a list
  std::size_t item_bytes = 0;  ///< fixed
  std::size_t list_size = 0;   ///< fixed: items are lists of so many elements; 0: they are none
  std::size_t reversed_bytes =
      0;  ///< fixed: elements of this size are stored with their last byte first; 0: as they are
};

struct arrow_field {
  std::string name;
  arrow_type type;
  bool nullable = false;
};

/// The schema of a table of these fields. The caller owns it.
void describe_fields(const std::vector<arrow_field>& fields, ArrowSchema& out);

/// One column of a batch. One thread.
class arrow_column {
 public:
  explicit arrow_column(const arrow_field& field) : field_(&field) {}

  /// `row`: its number in the stream, for errors. errc::invalid_argument if the item does not fit the type.
  void append(const std::optional<std::string_view>& item, std::uint64_t row);
  void append_version(icecore::version number);

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Memory that the column takes, and that its views lead to.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_.size() + viewed_bytes_; }

  /// Hands over what was appended, and is empty then. `holds` keeps values in the pool valid.
  [[nodiscard]] ArrowArray take(const pin& holds);

 private:
  void append_view(std::string_view item, std::uint64_t row);
  void append_fixed(std::string_view item, std::uint64_t row);
  void append_flag(bool set);
  void require_text(std::string_view item, std::uint64_t row) const;
  [[noreturn]] void refuse(std::uint64_t row, const std::string& why) const;

  const arrow_field* field_;
  std::size_t size_ = 0;
  std::size_t nulls_ = 0;
  std::size_t viewed_bytes_ = 0;
  std::vector<std::uint64_t> validity_;
  std::vector<std::int64_t> offsets_{0};  // bytes, text
  std::vector<char> bytes_;               // of items; view: the 16 bytes of each view; flag: bits
  std::vector<char> copied_;              // view: items that are neither short nor large
  std::vector<std::string_view> pooled_;  // view: items that stay in the pool
};

/// A batch of these columns, which have one length. The caller owns it.
[[nodiscard]] ArrowArray batch_of(std::vector<arrow_column>& columns, const pin& holds);

}  // namespace icecore::python
