#include "filter/tree/stored.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/checksum.hpp"
#include "filter/tree/operations.hpp"
#include "filter/tree/origin.hpp"

namespace icecore::detail {
namespace {

constexpr std::uint8_t form_version = 1;
constexpr std::size_t head_bytes = 3;
constexpr std::size_t checksum_bytes = 4;
constexpr std::uint8_t flag_big_endian = 1;
constexpr std::uint8_t flag_to_the_end = 2;
constexpr std::uint8_t flag_kept = 4;

class stored_writer {
 public:
  explicit stored_writer(char what) {
    byte('I');
    byte(static_cast<std::uint8_t>(what));
    byte(form_version);
  }

  void byte(std::uint8_t one) { out_.push_back(static_cast<std::byte>(one)); }
  void word(std::uint64_t number) {
    for (unsigned shift = 0; shift < 64; shift += 8) byte(static_cast<std::uint8_t>(number >> shift));
  }
  void varint(std::uint64_t number) {
    for (; number >= 0x80; number >>= 7) byte(static_cast<std::uint8_t>(number | 0x80U));
    byte(static_cast<std::uint8_t>(number));
  }
  void text(std::string_view bytes) {
    varint(bytes.size());
    for (const char c : bytes) byte(static_cast<std::uint8_t>(c));
  }

  void tree(const node& one) {
    const operation_facts& facts = facts_of(one.op);
    byte(static_cast<std::uint8_t>(one.op));
    switch (facts.has) {
      case payload::none:
        break;
      case payload::number:
        word(one.number);
        break;
      case payload::literal_integer:
        byte(one.negative ? 1 : 0);
        word(one.number);
        break;
      case payload::text:
        text(one.text);
        break;
      case payload::text_and_number:
        text(one.text);
        word(one.number);
        break;
      case payload::column:
        text(one.text);
        byte(static_cast<std::uint8_t>(one.place.type));
        byte(static_cast<std::uint8_t>((one.place.big_endian ? flag_big_endian : 0) |
                                       (one.place.to_the_end ? flag_to_the_end : 0) |
                                       (one.place.kept ? flag_kept : 0)));
        varint(one.place.offset);
        varint(one.place.size);
        break;
    }
    if (facts.operands_min != facts.operands_max) varint(one.operands.size());
    for (const node& operand : one.operands) tree(operand);
  }

  [[nodiscard]] std::vector<std::byte> take() {
    const std::uint32_t sum = crc32c(0, out_.data(), out_.size());
    for (unsigned shift = 0; shift < 32; shift += 8) byte(static_cast<std::uint8_t>(sum >> shift));
    return std::move(out_);
  }

 private:
  std::vector<std::byte> out_;
};

class stored_reader {
 public:
  /// Checks the frame: what the bytes are of, their checksum, the version of their form.
  stored_reader(std::span<const std::byte> bytes, char what) : all_(bytes) {
    if (bytes.size() < head_bytes + checksum_bytes || bytes[0] != std::byte{'I'} ||
        bytes[1] != static_cast<std::byte>(what)) {
      refuse("it does not begin as one");
    }
    if (bytes.size() > stored_bytes_max) refuse("it is too long");
    const std::size_t size = bytes.size() - checksum_bytes;
    std::uint32_t sum = 0;
    std::memcpy(&sum, bytes.data() + size, sizeof sum);
    if (sum != crc32c(0, bytes.data(), size)) refuse("it is damaged (checksum mismatch)");
    if (bytes[2] != std::byte{form_version}) refuse("it was written by a later icecore");
    bytes_ = bytes.subspan(head_bytes, size - head_bytes);
  }

  /// A tree has one form only.
  void require_same(const std::vector<std::byte>& again) const {
    if (!std::equal(again.begin(), again.end(), all_.begin(), all_.end())) {
      refuse("it is not in the form that icecore writes");
    }
  }

  /// Of what takes a byte each at least.
  [[nodiscard]] std::size_t count() {
    const std::uint64_t number = varint();
    if (number > bytes_.size()) refuse("it is cut short");
    return static_cast<std::size_t>(number);
  }

  [[nodiscard]] std::string text() {
    const std::size_t size = count();
    std::string bytes(size, '\0');
    if (size != 0) std::memcpy(bytes.data(), bytes_.data(), size);
    bytes_ = bytes_.subspan(size);
    return bytes;
  }

  [[nodiscard]] node tree(std::size_t depth) {
    if (depth > depth_max) refuse("it is nested too deep");
    const operation_facts* const facts = facts_of(byte());
    if (facts == nullptr) refuse("it has an operation that this icecore does not know");
    node one{.op = facts->op};
    content(one, facts->has);
    require_valid(one);
    const std::size_t operands = facts->operands_min == facts->operands_max ? facts->operands_min : count();
    if (operands < facts->operands_min || operands > facts->operands_max) refuse("it has a wrong number of operands");
    for (std::size_t i = 0; i < operands; ++i) {
      one.operands.push_back(tree(depth + 1));
      one.levels = std::max<std::uint16_t>(one.levels, one.operands.back().levels + 1);
    }
    return one;
  }

  [[noreturn]] static void refuse(std::string_view message) {
    origin{.from = origin::source::stored}.refuse(0, message);
  }

 private:
  [[nodiscard]] std::uint8_t byte() {
    if (bytes_.empty()) refuse("it is cut short");
    const auto one = static_cast<std::uint8_t>(bytes_.front());
    bytes_ = bytes_.subspan(1);
    return one;
  }
  [[nodiscard]] std::uint64_t word() {
    std::uint64_t number = 0;
    for (unsigned shift = 0; shift < 64; shift += 8) number |= std::uint64_t{byte()} << shift;
    return number;
  }
  [[nodiscard]] std::uint64_t varint() {
    std::uint64_t number = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const std::uint8_t one = byte();
      number |= std::uint64_t{one & 0x7fU} << shift;
      if ((one & 0x80U) == 0) return number;
    }
    refuse("a number in it is too long");
  }
  [[nodiscard]] std::uint32_t small() {
    const std::uint64_t number = varint();
    if (number > std::numeric_limits<std::uint32_t>::max()) refuse("a number in it is too large");
    return static_cast<std::uint32_t>(number);
  }

  void content(node& one, payload has) {
    switch (has) {
      case payload::none:
        return;
      case payload::number:
        one.number = word();
        return;
      case payload::literal_integer:
        one.negative = byte() != 0;
        one.number = word();
        return;
      case payload::text:
        one.text = text();
        return;
      case payload::text_and_number:
        one.text = text();
        one.number = word();
        return;
      case payload::column: {
        one.text = text();
        one.place.type = static_cast<field_type>(byte());
        const std::uint8_t flags = byte();
        one.place.big_endian = (flags & flag_big_endian) != 0;
        one.place.to_the_end = (flags & flag_to_the_end) != 0;
        one.place.kept = (flags & flag_kept) != 0;
        one.place.offset = small();
        one.place.size = small();
        return;
      }
    }
  }

  static void require_valid(const node& one) {
    bool valid = true;
    switch (one.op) {
      case operation::boolean:
        valid = one.number <= 1;
        break;
      case operation::integer:
        valid = !one.negative || static_cast<std::int64_t>(one.number) < 0;
        break;
      case operation::real:
        valid = std::isfinite(std::bit_cast<double>(one.number));
        break;
      case operation::like:
        valid = one.number <= 256;
        break;
      case operation::column:
      case operation::before_column:
        valid = is_field(one.place) && is_word(one.text);
        break;
      default:
        break;
    }
    if (!valid) refuse(fmt::format("'{}' in it is out of range", facts_of(one.op).name));
  }

  [[nodiscard]] static bool is_field(const field& place) noexcept {
    static constexpr std::uint32_t sizes[] = {0, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8};  // by field_type
    const auto type = static_cast<std::uint8_t>(place.type);
    if (place.kept) {
      const bool is_type = place.type == field_type::boolean || place.type == field_type::u64 ||
                           place.type == field_type::i64 || place.type == field_type::f64 ||
                           place.type == field_type::bytes;
      return is_type && place.size == 0 && !place.big_endian && !place.to_the_end;
    }
    if (place.size > std::numeric_limits<std::uint32_t>::max() - place.offset) return false;
    if (place.type == field_type::bytes) return !place.big_endian && place.to_the_end == (place.size == 0);
    return type >= 1 && type < std::size(sizes) && place.size == sizes[type] && !place.to_the_end;
  }

  /// As the parser takes it for the name of a column.
  [[nodiscard]] static bool is_word(std::string_view name) noexcept {
    const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    return !name.empty() && is_letter(name[0]) &&
           std::all_of(name.begin(), name.end(), [&](char c) { return is_letter(c) || is_digit(c); });
  }

  std::span<const std::byte> all_;
  std::span<const std::byte> bytes_;  // not read yet
};

}  // namespace

std::vector<std::byte> stored_form(const node& tree) {
  stored_writer to('F');
  to.tree(tree);
  return to.take();
}

std::vector<std::byte> stored_form(const std::vector<named_tree>& list) {
  stored_writer to('S');
  to.varint(list.size());
  for (const named_tree& one : list) {
    to.text(one.name);
    to.tree(one.tree);
  }
  return to.take();
}

node read_stored(std::span<const std::byte> bytes) {
  stored_reader from(bytes, 'F');
  node tree = from.tree(1);
  from.require_same(stored_form(tree));
  return tree;
}

std::vector<named_tree> read_stored_list(std::span<const std::byte> bytes) {
  stored_reader from(bytes, 'S');
  std::vector<named_tree> list;
  for (std::size_t left = from.count(); left > 0; --left) {
    std::string name = from.text();
    list.push_back({.name = std::move(name), .tree = from.tree(1)});
  }
  from.require_same(stored_form(list));
  return list;
}

}  // namespace icecore::detail
