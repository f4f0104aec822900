#include "filter/results/aggregation.hpp"

#include <bit>
#include <cmath>
#include <utility>

#include "filter/kernels/values.hpp"
#include "filter/tree/check.hpp"
#include "filter/tree/explain.hpp"
#include "filter/tree/stored.hpp"

namespace icecore::detail {
namespace {

constexpr std::string_view names[] = {"count", "sum", "min", "max"};

std::vector<named_tree> list_of(const std::vector<fold_of>& folds, const layout& columns) {
  std::vector<std::string> texts;
  texts.reserve(folds.size());
  for (const fold_of& one : folds) texts.push_back(one.text);
  std::vector<named_tree> list = parse_list(texts, columns);
  for (std::size_t i = 0; i < list.size(); ++i) list[i].name = names[static_cast<std::size_t>(folds[i].how)];
  return list;
}

/// The folds that the trees are named for.
std::vector<fold> folds_of(const std::vector<named_tree>& list, const origin& from) {
  std::vector<fold> folds;
  for (const named_tree& one : list) {
    std::size_t at = 0;
    while (at < std::size(names) && names[at] != one.name) ++at;
    if (at == std::size(names)) from.refuse(0, "it has an aggregate that this icecore does not know");
    folds.push_back(static_cast<fold>(at));
  }
  return folds;
}

int128 whole_sum(const fold_state& state) noexcept {
  return static_cast<int128>(static_cast<unsigned128>(state.high) << 64 | state.low);
}

void set_sum(fold_state& state, int128 sum) noexcept {
  state.low = static_cast<std::uint64_t>(sum);
  state.high = static_cast<std::uint64_t>(static_cast<unsigned128>(sum) >> 64);
}

void add_whole(fold_state& state, const slot& of, row_mask rows) noexcept {
  int128 sum = whole_sum(state);
  for_each_row(rows, [&](std::size_t i) { sum += exact(of.word[i], (of.big >> i & 1U) != 0); });
  set_sum(state, sum);
}

void add_real(fold_state& state, const slot& of, row_mask rows) noexcept {
  // The first value starts the sum, so that a sum of -0.0 alone is -0.0.
  double sum = std::bit_cast<double>(state.low);
  bool begun = state.values != 0;
  for_each_row(rows, [&](std::size_t i) {
    sum = begun ? sum + of.real[i] : of.real[i];
    begun = true;
  });
  state.low = std::bit_cast<std::uint64_t>(sum);
}

datum extreme_of(kind type, const fold_state& state) noexcept {
  return {.type = type, .big = state.high != 0, .word = state.low};
}

void take_extreme(fold how, kind type, fold_state& state, const datum& next) noexcept {
  const order wanted = how == fold::min ? order::less : order::greater;
  if (state.values == 0 || order_of(next, extreme_of(type, state)) == wanted) {
    state.low = next.word;
    state.high = next.big ? 1 : 0;
  }
  ++state.values;
}

void add_extreme(fold how, kind type, fold_state& state, const slot& of, row_mask rows) noexcept {
  for_each_row(rows, [&](std::size_t i) {
    if (type == kind::real && std::isnan(of.real[i])) return;
    take_extreme(how, type, state, of.at(type, i));
  });
}

}  // namespace

aggregation::aggregation(const std::vector<fold_of>& folds, const layout& columns)
    : aggregation(list_of(folds, columns), origin{}) {}

aggregation::aggregation(std::vector<named_tree> list, const origin& from)
    : folds_(folds_of(list, from)),
      list_(std::move(list)),
      stored_(stored_form(list_)),
      compiled_(compiled_list(list_, from)) {
  for (std::size_t i = 0; i < size(); ++i) {
    const kind type = list_[i].tree.type;
    if (folds_[i] != fold::count && type != kind::integer && type != kind::real) {
      from.refuse(list_[i].tree.position,
                  fmt::format("'{}' is of a number, and this is {}", list_[i].name, name_of(type)));
    }
  }
}

aggregation aggregation::from_stored(std::span<const std::byte> bytes) {
  return {read_stored_list(bytes), origin{.from = origin::source::stored}};
}

std::string aggregation::text(std::size_t i) const { return text_of(list_[i].tree); }

column_type aggregation::type(std::size_t i) const noexcept {
  return folds_[i] == fold::count ? column_type::u64 : column_type_of(list_[i].tree);
}

void aggregation::add(const rows& block, row_mask mask, scratch& memory, std::span<fold_state> states) const {
  if (mask == 0) return;
  evaluation on(compiled_, block, memory);
  for (std::size_t i = 0; i < size(); ++i) {
    const slot& of = on.results(i, mask);
    const row_mask rows = of.valid & mask;
    const kind type = list_[i].tree.type;
    if (folds_[i] == fold::min || folds_[i] == fold::max) {
      add_extreme(folds_[i], type, states[i], of, rows);
      continue;
    }
    if (folds_[i] == fold::sum) {
      if (type == kind::integer) add_whole(states[i], of, rows);
      if (type == kind::real) add_real(states[i], of, rows);
    }
    states[i].values += static_cast<std::uint64_t>(std::popcount(rows));
  }
}

void aggregation::merge(std::span<fold_state> states, std::span<const fold_state> later) const {
  for (std::size_t i = 0; i < size(); ++i) {
    fold_state& state = states[i];
    const fold_state& next = later[i];
    if (next.values == 0) continue;
    if (state.values == 0) {
      state = next;
      continue;
    }
    const kind type = list_[i].tree.type;
    const std::uint64_t values = state.values + next.values;
    if (folds_[i] == fold::min || folds_[i] == fold::max) {
      take_extreme(folds_[i], type, state, extreme_of(type, next));
    } else if (folds_[i] == fold::sum && type == kind::integer) {
      set_sum(state, whole_sum(state) + whole_sum(next));
    } else if (folds_[i] == fold::sum) {
      state.low = std::bit_cast<std::uint64_t>(std::bit_cast<double>(state.low) + std::bit_cast<double>(next.low));
    }
    state.values = values;
  }
}

fold_result aggregation::result(std::size_t i, const fold_state& state) const noexcept {
  const kind type = list_[i].tree.type;
  if (folds_[i] == fold::count) return {.value = {.type = kind::integer, .word = state.values}};
  if (state.values == 0) return {};
  if (folds_[i] != fold::sum || type == kind::real) return {.value = extreme_of(type, state)};
  fold_result made;
  made.value.type = kind::integer;
  if (!split(whole_sum(state), made.value.word, made.value.big)) return {.overflow = true};
  return made;
}

}  // namespace icecore::detail
