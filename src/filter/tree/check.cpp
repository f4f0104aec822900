#include "filter/tree/check.hpp"

#include <algorithm>

#include "filter/tree/operations.hpp"

namespace icecore::detail {
namespace {

using enum operation;

bool is_number(kind type) noexcept { return type == kind::integer || type == kind::real; }

/// Of `any`, each row decides; null fits everywhere.
bool may_be(kind type, kind wanted) noexcept { return type == wanted || type == kind::any || type == kind::null; }
bool may_be_number(kind type) noexcept { return is_number(type) || type == kind::any || type == kind::null; }

bool may_compare(kind a, kind b) noexcept {
  return a == b || (is_number(a) && is_number(b)) || a == kind::any || b == kind::any || a == kind::null ||
         b == kind::null;
}

class checker {
 public:
  explicit checker(const origin& from) : from_(from) {}

  void run(node& one) const {
    for (node& operand : one.operands) run(operand);
    one.type = type_of(one);
    one.is_unsigned = one.type == kind::integer && is_unsigned(one);
  }

 private:
  [[nodiscard]] kind type_of(node& one) const {
    switch (one.op) {
      case null:
        return kind::null;
      case boolean:
      case removed:
      case first:
      case call:
        return kind::boolean;
      case integer:
      case version:
        return kind::integer;
      case real:
        return kind::real;
      case bytes:
      case key:
      case value:
      case before_value:
        return kind::bytes;
      case column:
      case before_column:
        return type_of(one.place.type);
      default:
        return type_of_operation(one);
    }
  }

  [[nodiscard]] static kind type_of(field_type type) noexcept {
    if (type == field_type::bytes) return kind::bytes;
    if (type == field_type::boolean) return kind::boolean;
    return type == field_type::f32 || type == field_type::f64 ? kind::real : kind::integer;
  }

  [[nodiscard]] kind type_of_operation(node& one) const {
    switch (one.op) {
      case both:
      case either:
      case negation:
        return all(one, kind::boolean);
      case is_null:
        return kind::boolean;
      case condition:
        require(one, one.operands[0], may_be(one.operands[0].type, kind::boolean), kind::boolean);
        return common(one, 1);
      case coalesce:
        return common(one, 0);
      case equal:
      case unequal:
      case less:
      case less_equal:
      case greater:
      case greater_equal:
      case between:
      case in:
        return comparison(one);
      case json:
        all(one, kind::bytes);
        return kind::any;
      case like:
      case match:
      case starts_with:
      case ends_with:
      case contains:
        all(one, kind::bytes);
        return kind::boolean;
      case length:
        all(one, kind::bytes);
        return kind::integer;
      case substr:
        return part(one);
      default:
        return type_of_number(one);
    }
  }

  [[nodiscard]] kind type_of_number(node& one) const {
    switch (one.op) {
      case bit_and:
      case bit_or:
      case bit_xor:
      case bit_not:
      case shift_left:
      case shift_right:
        return all(one, kind::integer);
      case to_i64:
      case to_u64:
        return kind::integer;
      case to_f64:
        return kind::real;
      default:
        break;
    }
    bool real = false;
    for (const node& operand : one.operands) {
      if (!may_be_number(operand.type)) wrong(one, operand, "a number");
      real |= operand.type == kind::real || operand.type == kind::any;  // JSON's numbers count as doubles
    }
    return real ? kind::real : kind::integer;
  }

  /// All operands have the type `wanted`, which is also the result's.
  kind all(const node& one, kind wanted) const {
    for (const node& operand : one.operands) require(one, operand, may_be(operand.type, wanted), wanted);
    return wanted;
  }

  [[nodiscard]] kind part(const node& one) const {
    require(one, one.operands[0], may_be(one.operands[0].type, kind::bytes), kind::bytes);
    for (std::size_t i = 1; i < one.operands.size(); ++i) {
      require(one, one.operands[i], may_be(one.operands[i].type, kind::integer), kind::integer);
    }
    return kind::bytes;
  }

  [[nodiscard]] kind comparison(const node& one) const {
    const kind left = one.operands[0].type;
    for (std::size_t i = 1; i < one.operands.size(); ++i) {
      const kind right = one.operands[i].type;
      if (may_compare(left, right)) continue;
      from_.refuse(one.position,
                   fmt::format("'{}' cannot compare {} with {}", facts_of(one.op).name, name_of(left), name_of(right)));
    }
    return kind::boolean;
  }

  [[nodiscard]] kind common(const node& one, std::size_t from) const {
    kind type = one.operands[from].type;
    for (std::size_t i = from + 1; i < one.operands.size(); ++i) {
      bool fits = true;
      const kind next = common_type(type, one.operands[i].type, fits);
      if (!fits) {
        from_.refuse(one.operands[i].position,
                     fmt::format("'{}' gives values of one type, and this is {} beside {}", facts_of(one.op).name,
                                 name_of(one.operands[i].type), name_of(type)));
      }
      type = next;
    }
    return type;
  }

  void require(const node& one, const node& operand, bool fits, kind wanted) const {
    if (!fits) wrong(one, operand, name_of(wanted));
  }

  [[noreturn]] void wrong(const node& one, const node& operand, std::string_view wanted) const {
    const std::string name = one.op == call ? one.text : std::string(facts_of(one.op).name);
    from_.refuse(operand.position, fmt::format("'{}' expects {}, and this is {}", name, wanted, name_of(operand.type)));
  }

  /// Whether results are shown as u64: where an operand is, and none can be negative.
  [[nodiscard]] static bool is_unsigned(const node& one) noexcept {
    switch (one.op) {
      case version:
      case to_u64:
        return true;
      case integer:
        return !one.negative && one.number > static_cast<std::uint64_t>(INT64_MAX);
      case column:
      case before_column:
        return one.place.type == field_type::u64;
      case add:
      case multiply:
      case divide:
      case remainder:
      case bit_and:
      case bit_or:
      case bit_xor:
      case shift_left:
      case shift_right:
      case coalesce:
        return none_is_signed(one, 0);
      case condition:
        return none_is_signed(one, 1);
      default:
        return false;
    }
  }

  [[nodiscard]] static bool none_is_signed(const node& one, std::size_t from) noexcept {
    bool some = false;
    for (std::size_t i = from; i < one.operands.size(); ++i) {
      const node& operand = one.operands[i];
      const bool neutral = operand.op == null || (operand.op == integer && !operand.negative);
      if (!operand.is_unsigned && !neutral) return false;
      some |= operand.is_unsigned;
    }
    return some;
  }

  const origin& from_;
};

}  // namespace

std::string_view name_of(kind type) noexcept {
  switch (type) {
    case kind::null:
      return "null";
    case kind::boolean:
      return "true or false";
    case kind::integer:
      return "a whole number";
    case kind::real:
      return "a double";
    case kind::bytes:
      return "bytes";
    case kind::any:
      return "a JSON value";
  }
  return "";
}

kind common_type(kind a, kind b, bool& fits) noexcept {
  if (a == b) return a;
  if (a == kind::null) return b;
  if (b == kind::null) return a;
  if (a == kind::any) return b;
  if (b == kind::any) return a;
  fits = is_number(a) && is_number(b);
  return kind::real;
}

void check(node& tree, const origin& from) { checker(from).run(tree); }

}  // namespace icecore::detail
