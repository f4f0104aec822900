// Expressions ready to be evaluated: a flat list of steps with their slots, constants folded, patterns compiled.
//
// Threads: constant once it is made; any number of threads evaluate it, each with its own scratch.
// Invariants:
//   F3  Every step has its operands before it in the list.
//   F4  Slots of operands that are needed at the same time differ, and no operand has the slot of the step itself.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "filter/kernels/compare.hpp"
#include "filter/kernels/values.hpp"
#include "filter/patterns/json.hpp"
#include "filter/patterns/regex.hpp"
#include "filter/patterns/texts.hpp"
#include "filter/run/slot.hpp"
#include "filter/tree/origin.hpp"
#include "icecore/filter.hpp"

namespace icecore::detail {

struct instruction {
  operation op = operation::null;
  kind type = kind::null;
  relation compares = relation::equal;
  std::uint8_t cost = 0;  // of the dearest step below: the cheap operands of `and` and `or` come first
  std::uint32_t slot = 0;
  std::uint32_t extra = 0;  // place of its pattern, path, set or function
  std::vector<std::uint32_t> operands = {};
  datum literal = {};  // of a constant; its text is in `compiled::texts`
  field place = {};    // of a column
};

class compiled {
 public:
  /// Compiles trees that check() accepted. The functions are those that `call` names, by name and revision.
  compiled(const std::vector<const node*>& trees, const std::vector<caller_function>& functions, const origin& from);

  [[nodiscard]] std::size_t roots() const noexcept { return roots_.size(); }
  [[nodiscard]] kind type_of(std::size_t root) const noexcept { return steps_[roots_[root]].type; }
  [[nodiscard]] needs_of needs() const noexcept { return needs_; }

 private:
  friend class compiler;
  friend class evaluation;
  friend class scratch;

  std::uint64_t number_;  // differs from that of every other program of this process
  std::vector<instruction> steps_;
  std::vector<std::uint32_t> roots_;
  std::size_t slots_ = 0;
  needs_of needs_;
  std::deque<std::string> texts_;
  std::vector<like_pattern> likes_;
  std::vector<regex> regexes_;
  std::vector<json_path> paths_;
  std::vector<constant_set> sets_;
  std::vector<caller_function> functions_;
};

/// One block of rows on its way through a program.
class evaluation {
 public:
  evaluation(const compiled& program, const rows& block, scratch& memory);

  /// Where the expression number `root` is true, among `active` rows.
  [[nodiscard]] row_mask truth(std::size_t root, row_mask active) { return true_rows(program_.roots_[root], active); }
  /// Its results.
  [[nodiscard]] const slot& results(std::size_t root, row_mask active) { return run(program_.roots_[root], active); }

 private:
  friend class compiler;
  evaluation(const compiled& program, const rows& block, scratch& memory, std::vector<slot>& slots)
      : program_(program), block_(block), memory_(memory), slots_(slots) {}

  [[nodiscard]] row_mask true_rows(std::uint32_t step, row_mask active);
  [[nodiscard]] const slot& run(std::uint32_t step, row_mask active);
  void run_into(const instruction& step, row_mask active, slot& out);
  void run_operation(const instruction& step, row_mask active, slot& out);
  void run_number(const instruction& step, row_mask active, slot& out);
  void run_bytes(const instruction& step, row_mask active, slot& out);

  [[nodiscard]] operand operand_of(const instruction& step, std::size_t i, row_mask active) {
    return {run(step.operands[i], active), program_.steps_[step.operands[i]].type};
  }
  void views_of(const std::string_view* views, row_mask present, slot& out) const noexcept;
  void both(const instruction& step, row_mask active, slot& out);
  void either(const instruction& step, row_mask active, slot& out);
  void condition(const instruction& step, row_mask active, slot& out);
  void coalesce(const instruction& step, row_mask active, slot& out);
  void between(const instruction& step, row_mask active, slot& out);
  void in(const instruction& step, row_mask active, slot& out);
  void in_set(const instruction& step, row_mask active, slot& out);
  void compare_column(const instruction& step, row_mask active, slot& out);
  void json(const instruction& step, row_mask active, slot& out);
  void call(const instruction& step, row_mask active, slot& out);
  void part(const instruction& step, row_mask active, slot& out);

  const compiled& program_;
  const rows& block_;
  scratch& memory_;
  std::vector<slot>& slots_;
};

}  // namespace icecore::detail
