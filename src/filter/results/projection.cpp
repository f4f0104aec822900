#include "filter/results/projection.hpp"

#include <utility>

#include "filter/program.hpp"
#include "filter/tree/check.hpp"
#include "filter/tree/stored.hpp"

namespace icecore::detail {

std::vector<named_tree> parse_list(const std::vector<std::string>& expressions, const layout& columns) {
  std::vector<named_tree> list;
  for (const std::string& text : expressions) {
    try {
      list.push_back(parse_selected(text, columns_of_layout::of(columns)));
      check(list.back().tree, origin{});
    } catch (const error& e) {
      raise(errc::bad_input, "selected {}: {}", shown(text), e.message());
    }
  }
  return list;
}

compiled compiled_list(std::vector<named_tree>& list, const origin& from) {
  std::vector<const node*> trees;
  for (named_tree& one : list) {
    check(one.tree, from);
    trees.push_back(&one.tree);
  }
  return {trees, {}, from};
}

projection::projection(const std::vector<std::string>& expressions, const layout& columns)
    : projection(parse_list(expressions, columns), origin{}) {}

projection::projection(std::vector<named_tree> selected, const origin& from)
    : selected_(std::move(selected)), stored_(stored_form(selected_)), compiled_(compiled_list(selected_, from)) {}

projection projection::from_stored(std::span<const std::byte> bytes) {
  return {read_stored_list(bytes), origin{.from = origin::source::stored}};
}

std::vector<result_column> projection::columns() const {
  std::vector<result_column> made;
  for (std::size_t i = 0; i < size(); ++i) made.emplace_back(type(i));
  return made;
}

void projection::evaluate(const rows& block, row_mask mask, scratch& memory, std::span<result_column> out) const {
  if (mask == 0) return;
  evaluation on(compiled_, block, memory);
  for (std::size_t i = 0; i < size(); ++i) out[i].append(on.results(i, mask), mask);
}

}  // namespace icecore::detail
