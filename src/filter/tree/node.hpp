// An expression as a tree of typed operations, as parsed from text or read from its stored form.
//
// Invariants:
//   F1  The numbers of operations and of field types are in stored expressions: never renumber, only append.
//   F2  A tree that check() accepted has types that fit and at most `depth_max` levels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace icecore::detail {

inline constexpr std::size_t depth_max = 256;
inline constexpr std::size_t text_bytes_max = 64 * 1024;

/// The type of an expression. A whole number is exact from -2^63 to 2^64 - 1, whatever its column.
enum class kind : std::uint8_t {
  null,     ///< the literal `null` alone; fits everywhere
  boolean,  ///< true, false
  integer,  ///< -2^63 … 2^64 - 1
  real,     ///< f64, IEEE 754
  bytes,
  any,  ///< what json() finds: each row has its own kind
};

enum class operation : std::uint8_t {
  // literals
  null = 1,
  boolean = 2,  // number: 0 or 1
  integer = 3,  // number, negative
  real = 4,     // number: the bits of the double
  bytes = 5,    // text
  // operands
  key = 10,
  value = 11,
  version = 12,
  removed = 13,
  first = 14,
  before_value = 15,
  column = 16,         // text: the name; field
  before_column = 17,  // the same, of the value before
  json = 18,           // of one operand; text: the path
  call = 19,           // a function of the caller; text: its name; number: its revision
  // logic
  both = 30,    // `and`, of two operands and more
  either = 31,  // `or`, of two operands and more
  negation = 32,
  condition = 33,  // if(c, a, b)
  coalesce = 34,
  is_null = 35,
  // comparisons
  equal = 40,
  unequal = 41,
  less = 42,
  less_equal = 43,
  greater = 44,
  greater_equal = 45,
  between = 46,
  in = 47,
  // bytes
  like = 50,   // text: the pattern; number: the escape character + 1, or 0
  match = 51,  // text: the pattern
  length = 52,
  substr = 53,
  starts_with = 54,
  ends_with = 55,
  contains = 56,
  // numbers
  add = 60,
  subtract = 61,
  multiply = 62,
  divide = 63,
  remainder = 64,
  minus = 65,
  bit_and = 70,
  bit_or = 71,
  bit_xor = 72,
  bit_not = 73,
  shift_left = 74,
  shift_right = 75,
  to_i64 = 80,
  to_u64 = 81,
  to_f64 = 82,
  // made by compiling, never stored
  constant = 200,
  present = 201,         // of a column: the literal `number`, or null where the column is
  compare_column = 202,  // of a column with a number
  in_set = 203,          // among constants
  real_of = 204,         // of any: its number as a double
  integer_of = 205,
  bytes_of = 206,
  boolean_of = 207,
};

enum class field_type : std::uint8_t {
  u8 = 1,
  u16 = 2,
  u32 = 3,
  u64 = 4,
  i8 = 5,
  i16 = 6,
  i32 = 7,
  i64 = 8,
  f32 = 9,
  f64 = 10,
  bytes = 11,    // `size` of them, or all from `offset` on
  boolean = 12,  // of a kept column alone
};

/// Where a column is in a value; or, of rows that a query has kept, which of their columns it is.
struct field {
  field_type type = field_type::bytes;
  bool big_endian = false;
  bool to_the_end = false;  // of type bytes alone
  bool kept = false;        // a column of its own, number `offset`: boolean, i64, u64, f64 or bytes, of size 0
  std::uint32_t offset = 0;
  std::uint32_t size = 0;

  friend bool operator==(const field&, const field&) = default;
};

struct node {
  operation op = operation::null;
  kind type = kind::null;      // set by check()
  bool negative = false;       // of a literal integer: `number` is its two's complement
  bool is_unsigned = false;    // set by check(): a column of results is u64, not i64
  std::uint16_t levels = 1;    // of the tree below, with this one
  std::uint32_t position = 0;  // in the text, in bytes; 0 in a stored expression
  std::uint64_t number = 0;
  std::string text = {};
  field place = {};
  std::vector<node> operands = {};
};

/// An expression whose values are asked for, and what they are called.
struct named_tree {
  std::string name = {};
  node tree = {};
};

}  // namespace icecore::detail
