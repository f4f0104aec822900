#include <algorithm>
#include <cassert>

#include "filter/kernels/compare.hpp"
#include "filter/kernels/load.hpp"
#include "filter/kernels/numbers.hpp"
#include "filter/run/compiled.hpp"

namespace icecore::detail {

evaluation::evaluation(const compiled& program, const rows& block, scratch& memory)
    : evaluation(program, block, memory, memory.slots_of(program)) {
  memory.texts_.clear();
  memory.calling_ = false;
}

/// As run(), for whom false and null are the same.
row_mask evaluation::true_rows(std::uint32_t index, row_mask active) {
  const instruction& step = program_.steps_[index];
  if (step.op == operation::both) {
    for (const std::uint32_t operand : step.operands) {
      if (active == 0) break;
      active = true_rows(operand, active);
    }
    return active;
  }
  if (step.op == operation::either) {
    row_mask truth = 0;
    for (const std::uint32_t operand : step.operands) {
      if (truth == active) break;
      truth |= true_rows(operand, active & ~truth);
    }
    return truth;
  }
  const slot& of = run(index, active);
  return of.truth & of.valid & active;
}

const slot& evaluation::run(std::uint32_t index, row_mask active) {
  const instruction& step = program_.steps_[index];
  slot& out = slots_[step.slot];
  if (step.op != operation::constant) run_into(step, active, out);
  return out;
}

void evaluation::views_of(const std::string_view* views, row_mask present, slot& out) const noexcept {
  out.views = views;
  out.valid = present;
}

void evaluation::run_into(const instruction& step, row_mask active, slot& out) {
  switch (step.op) {
    case operation::key:
      return views_of(block_.keys, ~0ULL, out);
    case operation::value:
      return views_of(block_.values, ~block_.removed, out);
    case operation::before_value:
      return views_of(block_.before, block_.has_before, out);
    case operation::column:
      if (step.place.kept) return load_kept(step.place, block_, out);
      return load(step.place, block_.values, block_.size, ~block_.removed, out);
    case operation::before_column:
      return load(step.place, block_.before, block_.size, block_.has_before, out);
    case operation::removed:
    case operation::first:
      out.truth = step.op == operation::removed ? block_.removed : block_.first;
      out.valid = ~0ULL;
      return;
    case operation::version:
      out.valid = ~0ULL;
      out.big = 0;
      for (std::size_t i = 0; i < block_.size; ++i) {
        out.word[i] = block_.versions[i];
        out.big |= (block_.versions[i] >> 63) << i;
      }
      return;
    default:
      return run_operation(step, active, out);
  }
}

void evaluation::run_operation(const instruction& step, row_mask active, slot& out) {
  switch (step.op) {
    case operation::both:
      return both(step, active, out);
    case operation::either:
      return either(step, active, out);
    case operation::negation: {
      const slot& of = run(step.operands[0], active);
      out.truth = ~of.truth;
      out.valid = of.valid;
      return;
    }
    case operation::is_null:
      out.truth = ~run(step.operands[0], active).valid;
      out.valid = ~0ULL;
      return;
    case operation::present:
      out.valid = run(step.operands[0], active).valid;
      out.truth = step.literal.word != 0 ? ~0ULL : 0;
      return;
    case operation::condition:
      return condition(step, active, out);
    case operation::coalesce:
      return coalesce(step, active, out);
    case operation::equal:
    case operation::unequal:
    case operation::less:
    case operation::less_equal:
    case operation::greater:
    case operation::greater_equal: {
      const operand left = operand_of(step, 0, active);
      return compare(step.compares, left, operand_of(step, 1, active), active, out);
    }
    case operation::compare_column:
      return compare_column(step, active, out);
    case operation::between:
      return between(step, active, out);
    case operation::in:
      return in(step, active, out);
    case operation::in_set:
      return in_set(step, active, out);
    case operation::json:
      return json(step, active, out);
    case operation::call:
      return call(step, active, out);
    case operation::like:
    case operation::match:
    case operation::length:
    case operation::substr:
    case operation::starts_with:
    case operation::ends_with:
    case operation::contains:
      return run_bytes(step, active, out);
    default:
      return run_number(step, active, out);
  }
}

void evaluation::both(const instruction& step, row_mask active, slot& out) {
  row_mask undecided = active;  // no operand was false so far
  row_mask null = 0;
  for (const std::uint32_t operand : step.operands) {
    if (undecided == 0) break;
    const slot& of = run(operand, undecided);
    null |= undecided & ~of.valid;
    undecided &= ~(of.valid & ~of.truth);
  }
  out.truth = undecided;
  out.valid = ~(undecided & null);
}

void evaluation::either(const instruction& step, row_mask active, slot& out) {
  row_mask undecided = active;  // no operand was true so far
  row_mask null = 0;
  for (const std::uint32_t operand : step.operands) {
    if (undecided == 0) break;
    const slot& of = run(operand, undecided);
    null |= undecided & ~of.valid;
    undecided &= ~(of.valid & of.truth);
  }
  out.truth = ~undecided;
  out.valid = ~(undecided & null);
}

namespace {

/// Takes the rows `from` of one column of results into another of the same type.
void take_rows(kind type, const slot& of, row_mask rows, slot& out) noexcept {
  const auto merged = [&](row_mask into, row_mask bits) { return (into & ~rows) | (bits & rows); };
  out.valid = merged(out.valid, of.valid);
  out.truth = merged(out.truth, of.truth);
  out.big = merged(out.big, of.big);
  const row_mask valid = rows & of.valid;
  if (type == kind::integer || type == kind::real || type == kind::any) {
    for (std::size_t i = 0; i < rows_max; ++i) {
      const std::uint64_t taken = 0 - (rows >> i & 1U);
      out.word[i] = (of.word[i] & taken) | (out.word[i] & ~taken);
    }
  }
  if (type == kind::bytes || type == kind::any) {
    for_each_row(valid, [&](std::size_t i) {
      if (type == kind::bytes || of.kinds[i] == kind::bytes) out.own_views[i] = of.views[i];
    });
  }
  if (type == kind::any) for_each_row(valid, [&](std::size_t i) { out.kinds[i] = of.kinds[i]; });
}

}  // namespace

void evaluation::condition(const instruction& step, row_mask active, slot& out) {
  const row_mask yes = true_rows(step.operands[0], active);
  const row_mask no = active & ~yes;  // null counts as false
  out.views = out.own_views;
  out.valid = 0;
  if (yes != 0) take_rows(step.type, run(step.operands[1], yes), yes, out);
  if (no != 0) take_rows(step.type, run(step.operands[2], no), no, out);
}

void evaluation::coalesce(const instruction& step, row_mask active, slot& out) {
  out.views = out.own_views;
  out.valid = 0;
  for (const std::uint32_t operand : step.operands) {
    const row_mask rows = active & ~out.valid;
    if (rows == 0) break;
    take_rows(step.type, run(operand, rows), rows, out);
  }
}

void evaluation::between(const instruction& step, row_mask active, slot& out) {
  const operand of = operand_of(step, 0, active);
  compare(relation::greater_equal, of, operand_of(step, 1, active), active, out);
  const row_mask from_valid = out.valid;
  const row_mask from_truth = out.truth;
  compare(relation::less_equal, of, operand_of(step, 2, active), active, out);
  const row_mask no = (from_valid & ~from_truth) | (out.valid & ~out.truth);
  out.truth &= from_truth;
  out.valid = (out.valid & from_valid) | no;
  out.truth &= ~no;
}

void evaluation::in(const instruction& step, row_mask active, slot& out) {
  const operand of = operand_of(step, 0, active);
  row_mask undecided = active;
  row_mask null = 0;
  for (std::size_t i = 1; i < step.operands.size() && undecided != 0; ++i) {
    compare(relation::equal, of, operand_of(step, i, undecided), undecided, out);
    null |= ~out.valid;
    undecided &= ~(out.valid & out.truth);
  }
  out.truth = ~undecided;
  out.valid = ~(undecided & null);
}

void evaluation::in_set(const instruction& step, row_mask active, slot& out) {
  const operand of = operand_of(step, 0, active);
  const constant_set& set = program_.sets_[step.extra];
  const row_mask rows = of.of.valid & active;
  row_mask truth = 0;
  if (of.type == kind::bytes) {
    for_each_row(rows, [&](std::size_t i) { truth |= row_mask{set.contains(of.of.views[i])} << i; });
  } else {
    for_each_row(rows & ~of.of.big, [&](std::size_t i) {
      truth |= row_mask{set.contains(static_cast<std::int64_t>(of.of.word[i]))} << i;
    });
  }
  out.truth = truth;
  out.valid = set.has_null ? of.of.valid & truth : of.of.valid;
}

void evaluation::compare_column(const instruction& step, row_mask active, slot& out) {
  const instruction& column = program_.steps_[step.operands[0]];
  const std::uint64_t* numbers = nullptr;
  if (column.place.kept && block_.kept != nullptr && block_.size == rows_max) {  // where they lie
    const kept_column& of = block_.kept[column.place.offset];
    numbers = of.words + block_.kept_from;
    out.valid = of.validity != nullptr ? of.validity[block_.kept_from / rows_max] : ~0ULL;
  } else {
    const slot& of = run(step.operands[0], active);
    numbers = of.word;
    out.valid = of.valid;
  }
  const std::uint64_t word = step.literal.word;
  if (column.type == kind::real) {
    out.truth = compare_real(step.compares, numbers, std::bit_cast<double>(word));
  } else if (step.literal.big) {
    out.truth = compare_unsigned(step.compares, numbers, word);
  } else {
    out.truth = compare_signed(step.compares, numbers, static_cast<std::int64_t>(word));
  }
}

void evaluation::json(const instruction& step, row_mask active, slot& out) {
  const slot& of = run(step.operands[0], active);
  if (!memory_.json_) memory_.json_ = std::make_unique<json_reader>();
  out.valid = 0;
  out.truth = 0;
  out.big = 0;
  out.views = out.own_views;
  for_each_row(of.valid & active, [&](std::size_t i) {
    const datum found = memory_.json_->find(of.views[i], program_.paths_[step.extra], memory_.texts_);
    const row_mask row = row_mask{1} << i;
    out.kinds[i] = found.type;
    out.word[i] = found.word;
    if (found.type != kind::null) out.valid |= row;
    if (found.type == kind::boolean && found.word != 0) out.truth |= row;
    if (found.big) out.big |= row;
    if (found.type == kind::bytes) out.own_views[i] = found.text;
  });
}

void evaluation::call(const instruction& step, row_mask active, slot& out) {
  std::size_t count = 0;
  for_each_row(active, [&](std::size_t i) {
    memory_.items_[count] = {block_.keys[i], block_.values[i]};
    memory_.flags_[count++] = false;
  });
  const caller_function& function = program_.functions_[step.extra];
  if (count > 0) {
    memory_.calling_ = true;  // and so it stays if the function throws
    function.evaluate(std::span(memory_.items_).first(count), std::span(memory_.flags_).first(count));
    memory_.calling_ = false;
  }
  out.truth = 0;
  out.valid = ~0ULL;
  count = 0;
  for_each_row(active, [&](std::size_t i) { out.truth |= row_mask{memory_.flags_[count++]} << i; });
}

void evaluation::run_bytes(const instruction& step, row_mask active, slot& out) {
  if (step.op == operation::substr) return part(step, active, out);
  const slot& left = run(step.operands[0], active);
  out.valid = left.valid;
  row_mask rows = left.valid & active;
  row_mask truth = 0;
  const auto set_where = [&](auto test) {
    for_each_row(rows, [&](std::size_t i) { truth |= static_cast<row_mask>(test(left.views[i], i)) << i; });
    out.truth = truth;
  };
  if (step.op == operation::length) {
    out.big = 0;
    for_each_row(rows, [&](std::size_t i) { out.word[i] = left.views[i].size(); });
    return;
  }
  if (step.op == operation::like) {
    const like_pattern& pattern = program_.likes_[step.extra];
    return set_where([&](std::string_view text, std::size_t) { return pattern.matches(text); });
  }
  if (step.op == operation::match) {
    const regex& pattern = program_.regexes_[step.extra];
    return set_where([&](std::string_view text, std::size_t) { return pattern.matches(text); });
  }
  const slot& right = run(step.operands[1], rows);
  out.valid &= right.valid;
  rows &= right.valid;
  if (step.op == operation::starts_with) {
    set_where([&](std::string_view text, std::size_t i) { return text.starts_with(right.views[i]); });
  } else if (step.op == operation::ends_with) {
    set_where([&](std::string_view text, std::size_t i) { return text.ends_with(right.views[i]); });
  } else {
    set_where(
        [&](std::string_view text, std::size_t i) { return text.find(right.views[i]) != std::string_view::npos; });
  }
}

void evaluation::part(const instruction& step, row_mask active, slot& out) {
  const slot& of = run(step.operands[0], active);
  const slot& start = run(step.operands[1], active);
  const slot* const count = step.operands.size() > 2 ? &run(step.operands[2], active) : nullptr;
  // A start of 2^63 and more lies behind every text.
  out.views = out.own_views;
  out.valid = of.valid & start.valid;
  if (count != nullptr) out.valid &= count->valid;
  for_each_row(out.valid & active, [&](std::size_t i) {
    const row_mask row = row_mask{1} << i;
    const std::int64_t from = (start.big & row) != 0 ? INT64_MAX : static_cast<std::int64_t>(start.word[i]);
    const std::uint64_t bytes = count == nullptr ? UINT64_MAX : count->word[i];
    if (count != nullptr && (count->big & row) == 0 && static_cast<std::int64_t>(bytes) < 0) {
      out.valid &= ~row;
    } else {
      out.own_views[i] = part_of(of.views[i], from, bytes);
    }
  });
}

void evaluation::run_number(const instruction& step, row_mask active, slot& out) {
  const operand left = operand_of(step, 0, active);
  switch (step.op) {
    case operation::add:
    case operation::subtract:
    case operation::multiply:
    case operation::divide:
    case operation::remainder: {
      const operand right = operand_of(step, 1, active);
      if (step.type == kind::real) return calculate_real(step.op, left, right, out);
      return calculate_whole(step.op, left.of, right.of, active, out);
    }
    case operation::bit_and:
    case operation::bit_or:
    case operation::bit_xor:
    case operation::shift_left:
    case operation::shift_right:
      return calculate_bits(step.op, left.of, operand_of(step, 1, active).of, active, out);
    case operation::minus:
      if (step.type == kind::real) return negate_real(left.of, out);
      return negate_whole(step.op, left.of, active, out);
    case operation::bit_not:
      return negate_whole(step.op, left.of, active, out);
    case operation::to_i64:
    case operation::to_u64:
      return to_whole(step.op == operation::to_u64, left, active, out);
    case operation::to_f64:
      return to_real(left, active, out);
    default:
      return take_from_any(step.op, left.of, active, out);
  }
}

}  // namespace icecore::detail
