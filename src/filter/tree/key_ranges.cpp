#include "filter/tree/key_ranges.hpp"

#include <algorithm>

#include "filter/patterns/regex.hpp"
#include "filter/patterns/texts.hpp"

namespace icecore::detail {
namespace {

using ranges = std::vector<key_range>;

constexpr std::size_t ranges_max = 4096;  // of more, the one from the first to the last

ranges all_keys() { return {{.from = {}, .to = std::nullopt}}; }

/// The least key above `key`.
std::string above(std::string key) {
  key += '\0';
  return key;
}

ranges from_to(std::string from, std::optional<std::string> to) {
  if (to && from >= *to) return {};
  return {{.from = std::move(from), .to = std::move(to)}};
}

ranges of_prefix(const std::string& prefix) {
  std::string end = prefix;
  while (!end.empty() && static_cast<unsigned char>(end.back()) == 0xff) end.pop_back();
  if (end.empty()) return from_to(prefix, std::nullopt);
  end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return from_to(prefix, end);
}

ranges complement(const ranges& of) {
  ranges out;
  std::optional<std::string> from = "";
  for (const key_range& one : of) {
    if (*from < one.from) out.push_back({*from, one.from});
    from = one.to;
    if (!from) return out;
  }
  out.push_back({*from, std::nullopt});
  return out;
}

bool ends_before(const std::optional<std::string>& a, const std::optional<std::string>& b) {
  return a && (!b || *a < *b);
}

ranges united(ranges a, const ranges& b) {
  a.insert(a.end(), b.begin(), b.end());
  std::sort(a.begin(), a.end(), [](const key_range& x, const key_range& y) { return x.from < y.from; });
  ranges out;
  for (key_range& one : a) {
    if (out.empty() || ends_before(out.back().to, one.from)) {
      out.push_back(std::move(one));
    } else if (ends_before(out.back().to, one.to)) {
      out.back().to = std::move(one.to);
    }
  }
  if (out.size() > ranges_max) return from_to(out.front().from, out.back().to);
  return out;
}

ranges intersected(const ranges& a, const ranges& b) {
  ranges out;
  for (auto x = a.begin(), y = b.begin(); x != a.end() && y != b.end();) {
    const bool x_first = ends_before(x->to, y->to);
    for (key_range& one : from_to(std::max(x->from, y->from), x_first ? x->to : y->to)) out.push_back(std::move(one));
    ++(x_first ? x : y);
  }
  return out;
}

/// Of `key <op> bound`.
ranges of_comparison(operation op, const std::string& bound) {
  switch (op) {
    case operation::equal:
      return from_to(bound, above(bound));
    case operation::unequal:
      return complement(from_to(bound, above(bound)));
    case operation::less:
      return from_to("", bound);
    case operation::less_equal:
      return from_to("", above(bound));
    case operation::greater:
      return from_to(above(bound), std::nullopt);
    default:
      return from_to(bound, std::nullopt);
  }
}

operation turned(operation op) noexcept {
  switch (op) {
    case operation::less:
      return operation::greater;
    case operation::less_equal:
      return operation::greater_equal;
    case operation::greater:
      return operation::less;
    case operation::greater_equal:
      return operation::less_equal;
    default:
      return op;
  }
}

bool is_key(const node& one) noexcept { return one.op == operation::key; }
bool is_bytes(const node& one) noexcept { return one.op == operation::bytes; }
bool all_bytes(const node& one) noexcept { return std::all_of(one.operands.begin() + 1, one.operands.end(), is_bytes); }

/// Where the node may be true, if what it says of the key alone is known; else nothing.
std::optional<ranges> exact_ranges(const node& one) {
  switch (one.op) {
    case operation::boolean:
      return one.number != 0 ? all_keys() : ranges{};
    case operation::equal:
    case operation::unequal:
    case operation::less:
    case operation::less_equal:
    case operation::greater:
    case operation::greater_equal:
      if (is_key(one.operands[0]) && is_bytes(one.operands[1])) return of_comparison(one.op, one.operands[1].text);
      if (is_key(one.operands[1]) && is_bytes(one.operands[0]))
        return of_comparison(turned(one.op), one.operands[0].text);
      return std::nullopt;
    case operation::between:
      if (!is_key(one.operands[0]) || !all_bytes(one)) return std::nullopt;
      return from_to(one.operands[1].text, above(one.operands[2].text));
    case operation::in: {
      if (!is_key(one.operands[0]) || !all_bytes(one)) return std::nullopt;
      ranges points;
      for (std::size_t i = 1; i < one.operands.size(); ++i) {
        points.push_back({one.operands[i].text, above(one.operands[i].text)});
      }
      return united(std::move(points), {});
    }
    case operation::starts_with:
      if (!is_key(one.operands[0]) || !is_bytes(one.operands[1])) return std::nullopt;
      return of_prefix(one.operands[1].text);
    default:
      return std::nullopt;
  }
}

/// Where the node may be true (or, if not `wanted`, false).
ranges where(const node& one, bool wanted) {
  const bool joins = one.op == operation::both || one.op == operation::either;
  if (joins) {
    const bool intersects = (one.op == operation::both) == wanted;
    ranges out = intersects ? all_keys() : ranges{};
    for (const node& operand : one.operands) {
      const ranges next = where(operand, wanted);
      out = intersects ? intersected(out, next) : united(std::move(out), next);
    }
    return out;
  }
  if (one.op == operation::negation) return where(one.operands[0], !wanted);
  if (one.op == operation::null) return {};
  if (const std::optional<ranges> known = exact_ranges(one)) return wanted ? *known : complement(*known);
  if (!wanted || one.operands.empty() || !is_key(one.operands[0])) return all_keys();
  if (one.op == operation::match) return of_prefix(prefix_of_pattern(one.text));
  if (one.op == operation::like) {
    like_pattern pattern;
    if (!pattern.read(one.text, one.number)) return all_keys();
    return pattern.is_exact() ? of_comparison(operation::equal, pattern.prefix()) : of_prefix(pattern.prefix());
  }
  return all_keys();
}

}  // namespace

std::vector<key_range> key_ranges_of(const node& tree) { return where(tree, true); }

}  // namespace icecore::detail
