#include "icecore/filter.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "filter/program.hpp"
#include "icecore/snapshot.hpp"

namespace icecore {
namespace {

using detail::filter_program;
using detail::node;
using detail::operation;

std::shared_ptr<const filter_program> program_of(node tree, std::vector<caller_function> functions) {
  return std::make_shared<const filter_program>(std::move(tree), std::move(functions), detail::origin{});
}

constexpr version no_version = 0;

node literal(bool truth) { return {.op = operation::boolean, .number = truth ? 1U : 0U}; }

/// One filter of several: what is joined by the same word already is taken apart, so that nothing is nested for
/// nothing.
std::shared_ptr<const filter_program> joined(operation op, const std::vector<filter>& filters) {
  node tree{.op = op};
  std::vector<caller_function> functions;
  for (const filter& one : filters) {
    const filter_program& program = one.program();
    if (program.tree().op == op) {
      tree.operands.insert(tree.operands.end(), program.tree().operands.begin(), program.tree().operands.end());
    } else {
      tree.operands.push_back(program.tree());
    }
    for (const caller_function& function : program.functions()) {
      const bool other = std::any_of(functions.begin(), functions.end(), [&](const caller_function& known) {
        return known.name == function.name && known.revision == function.revision;
      });
      if (!other) functions.push_back(function);
    }
  }
  for (const node& operand : tree.operands) tree.levels = std::max<std::uint16_t>(tree.levels, operand.levels + 1);
  if (tree.levels > detail::depth_max) {
    raise(errc::bad_input, "filters joined: nested deeper than {} levels", detail::depth_max);
  }
  if (tree.operands.empty()) return program_of(literal(op == operation::both), {});
  if (tree.operands.size() == 1) {
    node only = std::move(tree.operands.front());
    return program_of(std::move(only), std::move(functions));
  }
  return program_of(std::move(tree), std::move(functions));
}

}  // namespace

const std::vector<detail::named_field>& detail::columns_of_layout::of(const layout& one) {
  static const std::vector<named_field> none;
  return one.columns_ ? one.columns_->columns : none;
}

layout detail::columns_of_layout::made(std::vector<named_field> columns) {
  layout all;
  all.columns_ = std::make_shared<const columns_of_layout>(columns_of_layout{.columns = std::move(columns)});
  return all;
}

layout::layout(std::string_view text)
    : columns_(std::make_shared<const detail::columns_of_layout>(
          detail::columns_of_layout{.columns = detail::parse_layout(text)})) {}

filter::filter() : program_(program_of(literal(true), {})) {}

filter::filter(std::string_view text, const layout& columns)
    : program_(std::make_shared<const filter_program>(filter_program::from_text(text, columns))), columns_(columns) {}

filter filter::of(std::string_view name, std::uint64_t revision, block_function function) {
  if (name.empty() || !function) raise(errc::invalid_argument, "filter::of: a function has a name and is callable");
  node tree{.op = operation::call, .number = revision, .text = std::string(name)};
  caller_function called{.name = tree.text, .revision = revision, .evaluate = std::move(function)};
  return filter(program_of(std::move(tree), {std::move(called)}));
}

filter filter::of(std::string_view name, std::uint64_t revision, item_function function) {
  if (!function) raise(errc::invalid_argument, "filter::of: a function has a name and is callable");
  return of(name, revision, [one = std::move(function)](std::span<const item> items, std::span<bool> flags) {
    for (std::size_t i = 0; i < items.size(); ++i) flags[i] = one(items[i]);
  });
}

filter filter::all_of(const std::vector<filter>& filters) { return filter(joined(operation::both, filters)); }
filter filter::any_of(const std::vector<filter>& filters) { return filter(joined(operation::either, filters)); }

bool filter::matches(std::string_view key, std::string_view value) const {
  const detail::rows row{.size = 1, .keys = &key, .values = &value, .versions = &no_version, .before = &value};
  static thread_local std::optional<detail::scratch> kept(std::in_place);
  std::optional<detail::scratch> mine =
      std::exchange(kept, std::nullopt);  // a function of the caller may come here, too
  if (!mine) mine.emplace();
  const bool truth = program_->test(row, *mine) != 0;
  kept = std::move(mine);
  return truth;
}

std::string filter::explain() const { return program_->explain(); }
std::vector<std::byte> filter::stored() const { return program_->stored(); }
std::array<std::uint8_t, 16> filter::fingerprint() const { return program_->fingerprint(); }

filter filter::from_stored(std::span<const std::byte> bytes, const function_resolver& resolve) {
  return filter(std::make_shared<const filter_program>(filter_program::from_stored(bytes, resolve)));
}

}  // namespace icecore
