#include "filter/program.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <utility>

#include "filter/tree/check.hpp"
#include "filter/tree/explain.hpp"
#include "filter/tree/stored.hpp"

namespace icecore::detail {
namespace {

/// The tree with its types, if it says of a row whether it matches.
node checked_condition(node tree, const origin& from) {
  check(tree, from);
  if (tree.type != kind::boolean && tree.type != kind::any && tree.type != kind::null) {
    from.refuse(tree.position, fmt::format("a filter is a condition, and this is {}", name_of(tree.type)));
  }
  if (tree.type != kind::any) return tree;
  node condition{
      .op = operation::both, .type = kind::boolean, .position = tree.position};  // so that it is taken as one
  condition.levels = tree.levels;
  condition.operands.push_back({.op = operation::boolean, .type = kind::boolean, .number = 1});
  condition.operands.push_back(std::move(tree));
  return condition;
}

void find_functions(const node& one, const function_resolver& resolve, std::vector<caller_function>& found) {
  if (one.op == operation::call) {
    caller_function function;
    if (resolve) function = resolve(one.text, one.number);
    if (!function.evaluate) {
      raise(errc::unknown_function, "the stored filter calls the function {} of revision {}, which is not given",
            shown(one.text), one.number);
    }
    if (function.name != one.text || function.revision != one.number) {
      raise(errc::unknown_function,
            "the stored filter calls the function {} of revision {}, and {} of revision {} is given", shown(one.text),
            one.number, shown(function.name), function.revision);
    }
    found.push_back(std::move(function));
  }
  for (const node& operand : one.operands) find_functions(operand, resolve, found);
}

std::string range_text(const key_range& one) {
  return fmt::format("[{}, {})", one.from.empty() ? "first" : literal_of_bytes(one.from),
                     one.to ? literal_of_bytes(*one.to) : "last");
}

}  // namespace

filter_program::filter_program(node tree, std::vector<caller_function> functions, const origin& from)
    : tree_(checked_condition(std::move(tree), from)),
      functions_(std::move(functions)),
      stored_(stored_form(tree_)),
      compiled_({&tree_}, functions_, from) {}

filter_program filter_program::from_text(std::string_view text, const layout& columns) {
  return {parse(text, columns_of_layout::of(columns)), {}, origin{}};
}

filter_program filter_program::from_stored(std::span<const std::byte> bytes, const function_resolver& resolve) {
  node tree = read_stored(bytes);
  std::vector<caller_function> functions;
  find_functions(tree, resolve, functions);
  return {std::move(tree), std::move(functions), origin{.from = origin::source::stored}};
}

std::string filter_program::explain() const {
  constexpr std::size_t shown_max = 8;
  std::string out = text_of(tree_) + "\nkeys: ";
  const std::vector<key_range> keys = key_ranges();
  if (keys.empty()) out += "none";
  for (std::size_t i = 0; i < keys.size() && i < shown_max; ++i)
    out += fmt::format("{}{}", i > 0 ? " " : "", range_text(keys[i]));
  if (keys.size() > shown_max) out += fmt::format(" and {} more ranges", keys.size() - shown_max);
  out += "\nreads: key";
  const needs_of reads = needs();
  if (reads.value) out += ", value";
  if (reads.version) out += ", version";
  if (reads.changes) out += ", changes";
  return out;
}

std::array<std::uint8_t, 16> filter_program::fingerprint() const noexcept {
  const XXH128_hash_t hash = XXH3_128bits(stored_.data(), stored_.size());
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  std::array<std::uint8_t, 16> bytes{};
  static_assert(sizeof canonical.digest == sizeof bytes);
  std::copy(std::begin(canonical.digest), std::end(canonical.digest), bytes.begin());
  return bytes;
}

}  // namespace icecore::detail
