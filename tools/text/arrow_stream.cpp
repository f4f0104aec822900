#include "text/arrow_stream.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

namespace icecore::cli {
namespace {

/// The numbers that Arrow's Schema.fbs and Message.fbs give to what is used here.
namespace arrow {
constexpr std::int16_t metadata_v5 = 4;
constexpr std::uint8_t header_schema = 1;
constexpr std::uint8_t header_record_batch = 3;
constexpr std::uint8_t type_int = 2;
constexpr std::uint8_t type_floating_point = 3;
constexpr std::uint8_t type_bool = 6;
constexpr std::uint8_t type_large_binary = 19;
constexpr std::int16_t precision_double = 2;
}  // namespace arrow

constexpr std::size_t padding = 8;
constexpr std::uint32_t continuation = 0xffffffffU;

/// Builds a flatbuffer, as these are built: from the end to the front. A place is the distance from the end to the
/// first byte of what was written; every place is a multiple of its type's size, and so is the whole.
class flatbuffer {
 public:
  using place = std::uint32_t;

  template <class T>
  place scalar(T value) {
    align(sizeof(T), 0);
    return raw(&value, sizeof value);
  }
  /// A reference to what was written before.
  place reference(place to) {
    align(sizeof(std::uint32_t), 0);
    return scalar(static_cast<std::uint32_t>(here() + sizeof(std::uint32_t) - to));
  }
  place text(std::string_view bytes) {
    align(sizeof(std::uint32_t), bytes.size() + 1);
    raw("", 1);
    raw(bytes.data(), bytes.size());
    return scalar(static_cast<std::uint32_t>(bytes.size()));
  }
  place references(const std::vector<place>& to) {
    align(sizeof(std::uint32_t), to.size() * sizeof(std::uint32_t));
    for (auto each = to.rbegin(); each != to.rend(); ++each) reference(*each);
    return scalar(static_cast<std::uint32_t>(to.size()));
  }
  /// Structures of two numbers of 8 bytes.
  place pairs(const std::vector<std::array<std::int64_t, 2>>& all) {
    align(sizeof(std::int64_t), all.size() * sizeof(all[0]));
    for (auto each = all.rbegin(); each != all.rend(); ++each) raw(each->data(), sizeof *each);
    return scalar(static_cast<std::uint32_t>(all.size()));
  }

  /// Fields between begin_table() and end_table(): field(number, scalar(...)).
  void begin_table() {
    fields_.clear();
    table_end_ = here();
  }
  void field(std::size_t number, place at) {
    if (fields_.size() <= number) fields_.resize(number + 1);
    fields_[number] = at;
  }
  place end_table() {
    const place table = scalar(std::int32_t{0});  // becomes the distance to the table of fields, which comes before
    for (auto each = fields_.rbegin(); each != fields_.rend(); ++each) {
      scalar(static_cast<std::uint16_t>(*each == 0 ? 0 : table - *each));
    }
    scalar(static_cast<std::uint16_t>(table - table_end_));
    const place vtable = scalar(static_cast<std::uint16_t>((fields_.size() + 2) * sizeof(std::uint16_t)));
    const auto distance = static_cast<std::int32_t>(vtable - table);
    std::array<char, sizeof distance> bytes;
    std::memcpy(bytes.data(), &distance, sizeof distance);
    std::reverse_copy(bytes.begin(), bytes.end(), reversed_.begin() + static_cast<std::ptrdiff_t>(table) - 4);
    return table;
  }
  [[nodiscard]] std::string finished(place root) {
    align(padding, sizeof(std::uint32_t));
    reference(root);
    return {reversed_.rbegin(), reversed_.rend()};
  }

 private:
  [[nodiscard]] place here() const noexcept { return static_cast<place>(reversed_.size()); }
  /// So that after `behind` more bytes the place is a multiple of `size`.
  void align(std::size_t size, std::size_t behind) {
    while ((reversed_.size() + behind) % size != 0) reversed_.push_back('\0');
  }
  place raw(const void* bytes, std::size_t size) {
    const auto* const first = static_cast<const char*>(bytes);
    for (std::size_t i = size; i > 0; --i) reversed_.push_back(first[i - 1]);
    return here();
  }

  std::string reversed_;
  std::vector<place> fields_;  // by number; 0: not there
  place table_end_ = 0;
};
static_assert(std::endian::native == std::endian::little);

/// A table of type Int, FloatingPoint, Bool or LargeBinary, and its number.
std::pair<std::uint8_t, flatbuffer::place> type_of(flatbuffer& to, result_type type) {
  to.begin_table();
  switch (type) {
    case result_type::boolean:
      return {arrow::type_bool, to.end_table()};
    case result_type::f64:
      to.field(0, to.scalar(arrow::precision_double));
      return {arrow::type_floating_point, to.end_table()};
    case result_type::i64:
    case result_type::u64:
      to.field(0, to.scalar(std::int32_t{64}));
      to.field(1, to.scalar(static_cast<std::uint8_t>(type == result_type::i64)));
      return {arrow::type_int, to.end_table()};
    case result_type::bytes:
      break;
  }
  return {arrow::type_large_binary, to.end_table()};
}

flatbuffer::place field_of(flatbuffer& to, const result_values& column) {
  const auto name = to.text(column.name);
  const auto [number, type] = type_of(to, column.type);
  const auto children = to.references({});
  to.begin_table();
  to.field(0, to.reference(name));
  to.field(3, to.reference(type));
  to.field(5, to.reference(children));
  to.field(1, to.scalar(std::uint8_t{1}));  // may be null
  to.field(2, to.scalar(number));
  return to.end_table();
}

std::string message(flatbuffer& to, std::uint8_t type, flatbuffer::place header, std::int64_t body_size) {
  to.begin_table();
  to.field(3, to.scalar(body_size));
  to.field(2, to.reference(header));
  to.field(0, to.scalar(arrow::metadata_v5));
  to.field(1, to.scalar(type));
  return to.finished(to.end_table());
}

std::string schema_of(const std::vector<result_values>& columns) {
  flatbuffer to;
  std::vector<flatbuffer::place> fields;
  fields.reserve(columns.size());
  for (const result_values& column : columns) fields.push_back(field_of(to, column));
  const auto all = to.references(fields);
  to.begin_table();
  to.field(1, to.reference(all));  // field 0, the byte order, is little-endian unless it is there
  return message(to, arrow::header_schema, to.end_table(), 0);
}

std::size_t padded(std::size_t size) noexcept { return (size + padding - 1) / padding * padding; }

/// The columns' bytes, in the order in which Arrow wants them.
std::vector<std::string_view> buffers_of(const std::vector<result_values>& columns, std::size_t rows) {
  std::vector<std::string_view> all;
  const auto add = [&](const void* bytes, std::size_t size) {
    all.emplace_back(static_cast<const char*>(bytes), size);
  };
  for (const result_values& column : columns) {
    add(column.validity.data(), (rows + 7) / 8);
    if (column.type == result_type::bytes) {
      add(column.offsets.data(), (rows + 1) * sizeof(column.offsets[0]));
      add(column.bytes.data(), column.offsets[rows]);
    } else if (column.type == result_type::boolean) {
      add(column.words.data(), (rows + 7) / 8);
    } else {
      add(column.words.data(), rows * sizeof(column.words[0]));
    }
  }
  return all;
}

std::int64_t nulls_of(const result_values& column, std::size_t rows) {
  std::int64_t nulls = 0;
  for (std::size_t i = 0; i < rows; ++i) nulls += column.is_null(i) ? 1 : 0;
  return nulls;
}

}  // namespace

void arrow_stream::write_message(std::string metadata) {
  metadata.resize(padded(metadata.size()));
  const auto size = static_cast<std::uint32_t>(metadata.size());
  std::array<char, 8> prefix;
  std::memcpy(prefix.data(), &continuation, sizeof continuation);
  std::memcpy(prefix.data() + 4, &size, sizeof size);
  to_->write({prefix.data(), prefix.size()});
  to_->write(metadata);
}

void arrow_stream::write(const std::vector<result_values>& columns, std::size_t rows) {
  if (!begun_) write_message(schema_of(columns));
  begun_ = true;
  const auto buffers = buffers_of(columns, rows);
  std::vector<std::array<std::int64_t, 2>> places;
  std::int64_t body_size = 0;
  for (const std::string_view buffer : buffers) {
    places.push_back({body_size, static_cast<std::int64_t>(buffer.size())});
    body_size += static_cast<std::int64_t>(padded(buffer.size()));
  }
  std::vector<std::array<std::int64_t, 2>> nodes;
  nodes.reserve(columns.size());
  for (const result_values& column : columns) {
    nodes.push_back({static_cast<std::int64_t>(rows), nulls_of(column, rows)});
  }
  flatbuffer to;
  const auto buffer_vector = to.pairs(places);
  const auto node_vector = to.pairs(nodes);
  to.begin_table();
  to.field(0, to.scalar(static_cast<std::int64_t>(rows)));
  to.field(1, to.reference(node_vector));
  to.field(2, to.reference(buffer_vector));
  write_message(message(to, arrow::header_record_batch, to.end_table(), body_size));
  for (const std::string_view buffer : buffers) {
    to_->write(buffer);
    to_->write(std::string_view("\0\0\0\0\0\0\0", padded(buffer.size()) - buffer.size()));
  }
}

void arrow_stream::finish() {
  constexpr std::uint32_t end[2] = {continuation, 0};
  to_->write({reinterpret_cast<const char*>(end), sizeof end});
}

}  // namespace icecore::cli
