#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "filter/run/compiled.hpp"
#include "filter/tree/check.hpp"
#include "filter/tree/operations.hpp"

namespace icecore::detail {
namespace {

constexpr std::uint32_t no_slot = std::numeric_limits<std::uint32_t>::max();

/// What operations take for a row, roughly: numbers, bytes, patterns of `like`, of RE2, JSON, functions of the caller.
enum cost : std::uint8_t { numbers, texts, likes, patterns, documents, functions };

cost cost_of(const node& one) noexcept {
  switch (one.op) {
    case operation::call:
      return functions;
    case operation::json:
      return documents;
    case operation::match:
      return patterns;
    case operation::like:
    case operation::contains:
      return likes;
    case operation::starts_with:
    case operation::ends_with:
      return texts;
    default:
      return !one.operands.empty() && one.operands[0].type == kind::bytes ? texts : numbers;
  }
}

relation relation_of(operation op) noexcept {
  return static_cast<relation>(static_cast<int>(op) - static_cast<int>(operation::equal));
}

bool is_comparison(operation op) noexcept { return op >= operation::equal && op <= operation::greater_equal; }

relation turned(relation one) noexcept {
  switch (one) {
    case relation::less:
      return relation::greater;
    case relation::less_equal:
      return relation::greater_equal;
    case relation::greater:
      return relation::less;
    case relation::greater_equal:
      return relation::less_equal;
    default:
      return one;
  }
}

/// A comparison of a column with a number, told in the column's own terms.
struct told {
  enum class result : std::uint8_t { compare, always, never } is = result::compare;
  relation compares = relation::equal;
  datum number = {};
};

told decided(bool holds_always) { return {.is = holds_always ? told::result::always : told::result::never}; }

/// Where every number of the column is less (greater) than the constant.
told decided(relation one, order all) { return decided(holds(one, all)); }

told column_with_whole(bool is_u64, relation one, std::uint64_t word, bool big) {
  const bool negative = !big && static_cast<std::int64_t>(word) < 0;
  if (is_u64 && negative) return decided(one, order::greater);
  if (!is_u64 && big) return decided(one, order::less);
  return {.compares = one, .number = {.type = kind::integer, .big = is_u64, .word = word}};
}

/// A column of whole numbers with a double: x < 2.5 is x <= 2.
told column_with_double(bool is_u64, relation one, double real) {
  if (std::isnan(real)) return decided(one, order::unordered);
  if (real >= two_to_64) return decided(one, order::less);
  if (real < -two_to_63) return decided(one, order::greater);
  const double below = std::floor(real);
  if (below != real) {
    if (one == relation::equal || one == relation::unequal) return decided(one == relation::unequal);
    one = one == relation::less || one == relation::less_equal ? relation::less_equal : relation::greater;
  }
  std::uint64_t word = 0;
  bool big = false;
  if (!whole_number(below, word, big)) return decided(one, order::greater);
  return column_with_whole(is_u64, one, word, big);
}

/// A column of doubles with a whole number that no double may equal: then with the nearest one.
told doubles_with_whole(relation one, std::uint64_t word, bool big) {
  const double nearest = nearest_double(word, big);
  const order at = order_of(word, big, nearest);
  if (at != order::equal) {
    if (one == relation::equal || one == relation::unequal) return decided(one == relation::unequal);
    const bool less = one == relation::less || one == relation::less_equal;
    if (at == order::greater) {  // the double is below the number
      one = less ? relation::less_equal : relation::greater;
    } else {
      one = less ? relation::less : relation::greater_equal;
    }
  }
  return {.compares = one, .number = {.type = kind::real, .word = std::bit_cast<std::uint64_t>(nearest)}};
}

told tell(const field& place, relation one, const datum& with) {
  const bool is_u64 = place.type == field_type::u64;
  const bool is_real = place.type == field_type::f32 || place.type == field_type::f64;
  if (is_real && with.type == kind::real) return {.compares = one, .number = with};
  if (is_real) return doubles_with_whole(one, with.word, with.big);
  if (with.type == kind::real) return column_with_double(is_u64, one, std::bit_cast<double>(with.word));
  return column_with_whole(is_u64, one, with.word, with.big);
}

}  // namespace

/// Makes steps of trees, operands first, and replaces what is constant by its value.
class compiler {
 public:
  compiler(compiled& out, const std::vector<caller_function>& functions, const origin& from)
      : out_(out), given_(functions), from_(from) {}

  /// What json() finds is given out as bytes, if they are.
  void add(const node& tree) {
    const std::uint32_t root = make(tree);
    out_.roots_.push_back(tree.type == kind::any ? convert(operation::bytes_of, kind::bytes, root) : root);
  }

  void assign_slots() {
    std::uint32_t base = 0;
    for (const std::uint32_t root : out_.roots_) {  // results of all roots live side by side
      assign(root, base);
      ++base;
    }
    for (instruction& step : out_.steps_) {
      if (step.op == operation::constant && step.slot != no_slot) step.slot = highest_++;
    }
    out_.slots_ = highest_;
  }

 private:
  [[nodiscard]] instruction& step(std::uint32_t index) { return out_.steps_[index]; }
  [[nodiscard]] bool is_constant(std::uint32_t index) { return step(index).op == operation::constant; }

  [[nodiscard]] std::uint32_t push(instruction made) {
    for (const std::uint32_t operand : made.operands) made.cost = std::max(made.cost, step(operand).cost);
    made.slot = no_slot;
    out_.steps_.push_back(std::move(made));
    return static_cast<std::uint32_t>(out_.steps_.size() - 1);
  }

  [[nodiscard]] std::uint32_t constant(datum value) {
    if (value.type == kind::bytes) value.text = out_.texts_.emplace_back(value.text);
    return push({.op = operation::constant, .type = value.type, .literal = value});
  }

  [[nodiscard]] static datum literal_of(const node& one) {
    switch (one.op) {
      case operation::boolean:
        return {.type = kind::boolean, .word = one.number};
      case operation::integer:
        return {
            .type = kind::integer, .big = !one.negative && one.number > std::uint64_t{INT64_MAX}, .word = one.number};
      case operation::real:
        return {.type = kind::real, .word = one.number};
      case operation::bytes:
        return {.type = kind::bytes, .text = one.text};
      default:
        return {};
    }
  }

  [[nodiscard]] std::uint32_t make(const node& one) {
    if (facts_of(one.op).written == notation::literal) return constant(literal_of(one));
    note_needs(one);
    instruction made{.op = one.op, .type = one.type, .cost = cost_of(one), .place = one.place};
    for (std::size_t i = 0; i < one.operands.size(); ++i) made.operands.push_back(converted(one, i));
    set_extra(one, made);
    if (is_comparison(one.op)) made.compares = relation_of(one.op);
    if (one.op == operation::both || one.op == operation::either) return logic(std::move(made));
    return simplified(folded(push(std::move(made))));
  }

  void note_needs(const node& one) {
    const operation op = one.op;
    const bool is_kept = op == operation::column && one.place.kept;
    out_.needs_.kept |= is_kept;
    out_.needs_.value |= op == operation::value || (op == operation::column && !is_kept) || op == operation::call;
    out_.needs_.version |= op == operation::version;
    out_.needs_.changes |= op == operation::before_value || op == operation::before_column ||
                           op == operation::removed || op == operation::first;
  }

  /// Operand i, as the type that the operation computes with.
  [[nodiscard]] std::uint32_t converted(const node& one, std::size_t i) {
    const std::uint32_t operand = make(one.operands[i]);
    const kind has = one.operands[i].type;
    const kind wanted = wanted_of(one, i);
    if (wanted == kind::null || has == kind::null || has == wanted) return operand;
    if (has != kind::any) return convert(operation::to_f64, kind::real, operand);  // a whole number beside doubles
    switch (wanted) {
      case kind::boolean:
        return convert(operation::boolean_of, wanted, operand);
      case kind::integer:
        return convert(operation::integer_of, wanted, operand);
      case kind::real:
        return convert(operation::real_of, wanted, operand);
      case kind::bytes:
        return convert(operation::bytes_of, wanted, operand);
      default:
        return operand;
    }
  }

  [[nodiscard]] std::uint32_t convert(operation op, kind type, std::uint32_t operand) {
    return folded(push({.op = op, .type = type, .operands = {operand}}));
  }

  /// The type that operand i is converted to; null where the operation takes it as it is.
  [[nodiscard]] static kind wanted_of(const node& one, std::size_t i) noexcept {
    switch (one.op) {
      case operation::both:
      case operation::either:
      case operation::negation:
        return kind::boolean;
      case operation::condition:
        return i == 0 ? kind::boolean : one.type;
      case operation::coalesce:
        return one.type;
      case operation::json:
      case operation::like:
      case operation::match:
      case operation::length:
      case operation::starts_with:
      case operation::ends_with:
      case operation::contains:
        return kind::bytes;
      case operation::substr:
        return i == 0 ? kind::bytes : kind::integer;
      case operation::bit_and:
      case operation::bit_or:
      case operation::bit_xor:
      case operation::bit_not:
      case operation::shift_left:
      case operation::shift_right:
        return kind::integer;
      case operation::add:
      case operation::subtract:
      case operation::multiply:
      case operation::divide:
      case operation::remainder:
      case operation::minus:
        return one.operands[i].type == kind::integer ? kind::null : one.type;
      default:
        return kind::null;
    }
  }

  void set_extra(const node& one, instruction& made) {
    switch (one.op) {
      case operation::like:
        made.extra = static_cast<std::uint32_t>(out_.likes_.size());
        if (!out_.likes_.emplace_back().read(one.text, one.number)) {
          from_.refuse(one.position, "the pattern of 'like' ends with its escape character");
        }
        return;
      case operation::match:
        made.extra = static_cast<std::uint32_t>(out_.regexes_.size());
        out_.regexes_.emplace_back(one.text, one.position, from_);
        return;
      case operation::json:
        made.extra = static_cast<std::uint32_t>(out_.paths_.size());
        out_.paths_.emplace_back(one.text, one.position, from_);
        return;
      case operation::call:
        made.extra = static_cast<std::uint32_t>(out_.functions_.size());
        out_.functions_.push_back(function_of(one));
        return;
      default:
        return;
    }
  }

  [[nodiscard]] const caller_function& function_of(const node& one) const {
    for (const caller_function& given : given_) {
      if (given.name == one.text && given.revision == one.number && given.evaluate) return given;
    }
    raise(errc::unknown_function, "the filter calls the function {} of revision {}, which is not given",
          shown(one.text), one.number);
  }

  /// The value of a step whose operands are all constant, computed as for a row: so no result differs from a row's.
  [[nodiscard]] std::uint32_t folded(std::uint32_t index) {
    const std::vector<std::uint32_t> operands = step(index).operands;
    if (operands.empty()) return index;
    if (!std::all_of(operands.begin(), operands.end(), [&](auto one) { return is_constant(one); })) return index;
    std::vector<slot>& slots = folding_slots_;
    if (slots.size() < operands.size() + 1) slots.resize(operands.size() + 1);
    step(index).slot = 0;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      step(operands[i]).slot = static_cast<std::uint32_t>(i + 1);
      slots[i + 1].fill(step(operands[i]).literal);
    }
    const rows one_row{.size = 1};
    const kind type = step(index).type;
    evaluation on(out_, one_row, folding_memory_, slots);
    const datum result = on.run(index, 1).at(type, 0);
    for (const std::uint32_t operand : operands) step(operand).slot = no_slot;
    datum kept = result;
    if (result.type == kind::bytes) kept.text = out_.texts_.emplace_back(result.text);
    step(index) = {.op = operation::constant, .type = result.type, .slot = no_slot, .literal = kept};
    return index;
  }

  /// `and` without operands that are true, and decided by one that is false; `or` likewise. Cheap operands come first.
  [[nodiscard]] std::uint32_t logic(instruction made) {
    const bool neutral = made.op == operation::both;
    std::vector<std::uint32_t> kept;
    for (const std::uint32_t operand : made.operands) {
      if (is_constant(operand) && step(operand).type == kind::boolean) {
        if ((step(operand).literal.word != 0) == neutral) continue;
        return operand;
      }
      kept.push_back(operand);
    }
    if (kept.empty()) return constant({.type = kind::boolean, .word = neutral ? 1U : 0U});
    if (kept.size() == 1 && step(kept[0]).type == kind::boolean) return kept[0];
    std::stable_sort(kept.begin(), kept.end(), [&](auto a, auto b) { return step(a).cost < step(b).cost; });
    made.operands = std::move(kept);
    return folded(push(std::move(made)));
  }

  /// Comparisons with constants as one loop, and lists of constants as sets.
  [[nodiscard]] std::uint32_t simplified(std::uint32_t index) {
    if (is_comparison(step(index).op)) return simplified_comparison(index);
    if (step(index).op == operation::in) return simplified_list(index);
    return index;
  }

  [[nodiscard]] bool is_number_column(std::uint32_t index) {
    const instruction& one = step(index);
    return (one.op == operation::column || one.op == operation::before_column) && one.type != kind::bytes;
  }

  /// A constant as a number of the type that it is compared with, where that is the same number.
  void as_its_type(std::uint32_t number, kind type) {
    instruction& one = step(number);
    if (one.op != operation::constant || one.type == type) return;
    if (one.type == kind::integer && type == kind::real) {
      const double real = nearest_double(one.literal.word, one.literal.big);
      if (order_of(one.literal.word, one.literal.big, real) != order::equal) return;
      one.literal = {.type = kind::real, .word = std::bit_cast<std::uint64_t>(real)};
    } else if (one.type == kind::real && type == kind::integer) {
      datum whole{.type = kind::integer};
      const auto real = std::bit_cast<double>(one.literal.word);
      if (!whole_number(real, whole.word, whole.big) || order_of(whole.word, whole.big, real) != order::equal) return;
      one.literal = whole;
    }
    one.type = one.literal.type;
  }

  [[nodiscard]] std::uint32_t simplified_comparison(std::uint32_t index) {
    std::uint32_t column = step(index).operands[0];
    std::uint32_t number = step(index).operands[1];
    relation compares = step(index).compares;
    if (is_constant(column)) {
      std::swap(column, number);
      compares = turned(compares);
    }
    as_its_type(number, step(column).type);
    const kind type = step(number).type;
    if (!is_number_column(column) || !is_constant(number) || (type != kind::integer && type != kind::real))
      return index;
    const told to = tell(step(column).place, compares, step(number).literal);
    instruction made{.op = operation::compare_column,
                     .type = kind::boolean,
                     .compares = to.compares,
                     .operands = {column},
                     .literal = to.number};
    if (to.is != told::result::compare) {
      made.op = operation::present;
      made.literal = {.type = kind::boolean, .word = to.is == told::result::always ? 1U : 0U};
    }
    return push(std::move(made));
  }

  [[nodiscard]] std::uint32_t simplified_list(std::uint32_t index) {
    const std::vector<std::uint32_t> operands = step(index).operands;
    const kind type = step(operands[0]).type;
    constant_set set;
    for (std::size_t i = 1; i < operands.size(); ++i) {
      const instruction& one = step(operands[i]);
      if (!is_constant(operands[i])) return index;
      if (one.type == kind::null) {
        set.has_null = true;
      } else if (one.type == kind::bytes && type == kind::bytes) {
        set.texts.emplace_back(one.literal.text);
      } else if (one.type == kind::integer && type == kind::integer && !one.literal.big) {
        set.numbers.push_back(static_cast<std::int64_t>(one.literal.word));
      } else {
        return index;
      }
    }
    if (type != kind::bytes && type != kind::integer) return index;
    std::sort(set.numbers.begin(), set.numbers.end());
    std::sort(set.texts.begin(), set.texts.end());
    out_.sets_.push_back(std::move(set));
    return push({.op = operation::in_set,
                 .type = kind::boolean,
                 .extra = static_cast<std::uint32_t>(out_.sets_.size() - 1),
                 .operands = {operands[0]}});
  }

  /// F4: the step has slot `base`, its operand i the slot base + 1 + i and what is above for its own operands. Those of
  /// which one is needed at a time share a slot.
  void assign(std::uint32_t index, std::uint32_t base) {
    instruction& one = step(index);
    if (one.op == operation::constant) {
      one.slot = 0;  // used; it gets one of its own behind all others
      return;
    }
    one.slot = base;
    highest_ = std::max(highest_, base + 1);
    const bool in_turn = one.op == operation::both || one.op == operation::either || one.op == operation::coalesce ||
                         one.op == operation::condition;
    const std::uint32_t shared = one.op == operation::in ? 1 : 2;  // of `in`, all but the first
    for (std::size_t i = 0; i < one.operands.size(); ++i) {
      const auto apart = in_turn ? 0 : std::min<std::uint32_t>(static_cast<std::uint32_t>(i), shared);
      assign(step(index).operands[i], base + 1 + apart);
    }
  }

  compiled& out_;
  const std::vector<caller_function>& given_;
  const origin& from_;
  std::uint32_t highest_ = 0;
  std::vector<slot> folding_slots_;
  scratch folding_memory_;
};

compiled::compiled(const std::vector<const node*>& trees, const std::vector<caller_function>& functions,
                   const origin& from) {
  static std::atomic<std::uint64_t> last{0};
  number_ = last.fetch_add(1, std::memory_order_relaxed) + 1;  // relaxed: only the number itself must be unique
  compiler by(*this, functions, from);
  for (const node* const tree : trees) by.add(*tree);
  by.assign_slots();
}

}  // namespace icecore::detail
