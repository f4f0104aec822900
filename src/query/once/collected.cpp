#include "query/once/collected.hpp"

namespace icecore::detail {
namespace {

void append_bits(std::vector<std::uint64_t>& to, std::size_t size, std::span<const std::uint64_t> from,
                 std::size_t count) {
  for (std::size_t i = 0; i < count; ++i, ++size) {
    if (size / 64 >= to.size()) to.push_back(0);
    to[size / 64] |= (from[i / 64] >> i % 64 & 1U) << size % 64;
  }
}

void append(result_values& to, const result_column& from) {
  append_bits(to.validity, to.size, from.validity(), from.size());
  if (from.type() == column_type::boolean) {
    append_bits(to.words, to.size, from.words(), from.size());
  } else if (from.type() == column_type::bytes) {
    const std::uint64_t base = to.bytes.size();
    to.bytes.insert(to.bytes.end(), from.bytes().begin(), from.bytes().end());
    for (std::size_t i = 1; i < from.offsets().size(); ++i) to.offsets.push_back(base + from.offsets()[i]);
  } else {
    to.words.insert(to.words.end(), from.words().begin(), from.words().end());
  }
  to.size += from.size();
  to.nulls += from.nulls();
}

}  // namespace

std::vector<result_values> collected(const projection& of, const std::vector<std::vector<result_column>>& parts) {
  std::vector<result_values> all;
  for (std::size_t c = 0; c < of.size(); ++c) {
    auto& column = all.emplace_back();
    column.name = of.name(c);
    column.type = static_cast<result_type>(of.type(c));
    if (column.type == result_type::bytes) column.offsets.push_back(0);
    for (const auto& part : parts) append(column, part[c]);
  }
  return all;
}

}  // namespace icecore::detail
