#include "reference.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>

namespace icecore::testing {
namespace {

using tag = tagged::tag;

constexpr wide least = -(wide{1} << 63);
constexpr wide greatest = (wide{1} << 64) - 1;

std::string decimal(wide v) {
  if (v < 0) return "-" + decimal(-v);
  return (v >= 10 ? decimal(v / 10) : "") + static_cast<char>('0' + static_cast<int>(v % 10));
}

double to_double(const tagged& v) {
  if (v.is == tag::real) return v.real;
  return v.integer < 0 ? static_cast<double>(static_cast<std::int64_t>(v.integer))
                       : static_cast<double>(static_cast<std::uint64_t>(v.integer));
}

/// -1, 0, 1; 2 where neither is less, greater or equal.
int compared(const tagged& x, const tagged& y) {
  const auto by = [](const auto& p, const auto& q) { return p < q ? -1 : p > q ? 1 : p == q ? 0 : 2; };
  if (x.is == tag::boolean) return by(x.boolean, y.boolean);
  if (x.is == tag::bytes) {
    for (std::size_t i = 0; i < std::min(x.bytes.size(), y.bytes.size()); ++i) {
      const auto p = static_cast<unsigned char>(x.bytes[i]);
      const auto q = static_cast<unsigned char>(y.bytes[i]);
      if (p != q) return p < q ? -1 : 1;
    }
    return by(x.bytes.size(), y.bytes.size());
  }
  if (x.is == tag::integer && y.is == tag::integer) return by(x.integer, y.integer);
  if (x.is == tag::real && y.is == tag::real) return by(x.real, y.real);
  // long double has 64 bits of mantissa: every whole number of the range, and every double
  const auto exact = [](const tagged& v) {
    return v.is == tag::real ? static_cast<long double>(v.real) : static_cast<long double>(v.integer);
  };
  return by(exact(x), exact(y));
}

bool like(const std::string& text, std::size_t i, const std::string& pattern, std::size_t j) {
  if (j == pattern.size()) return i == text.size();
  if (pattern[j] == '%') return like(text, i, pattern, j + 1) || (i < text.size() && like(text, i + 1, pattern, j));
  return i < text.size() && (pattern[j] == '_' || pattern[j] == text[i]) && like(text, i + 1, pattern, j + 1);
}

tagged column(const std::string& name, const std::string& value) {
  const auto read = [&]<typename T>(std::size_t at, T) -> std::optional<T> {
    if (value.size() < at + sizeof(T)) return std::nullopt;
    T v;
    std::memcpy(&v, value.data() + at, sizeof v);
    return v;
  };
  const auto whole = [](auto v) { return v ? tagged::of(static_cast<wide>(*v)) : tagged{}; };
  const auto real = [](auto v) { return v ? tagged::of(static_cast<double>(*v)) : tagged{}; };
  if (name == "a") return whole(read(0, std::int64_t{}));
  if (name == "b") return whole(read(8, std::uint64_t{}));
  if (name == "c") return whole(read(16, std::int32_t{}));
  if (name == "d") return real(read(20, double{}));
  if (name == "e") return real(read(28, float{}));
  if (name == "s") return value.size() >= 34 ? tagged::of(value.substr(32, 2)) : tagged{};
  return value.size() >= 34 ? tagged::of(value.substr(34)) : tagged{};
}

tagged operand(const std::string& name, const reference_row& row) {
  if (name == "key") return tagged::of(row.key);
  if (name == "version") return tagged::of(static_cast<wide>(row.version));
  if (name == "removed") return tagged::of(row.removed);
  if (name == "first") return tagged::of(row.first);
  if (name.starts_with("before.")) {
    if (!row.before) return {};
    return name == "before.value" ? tagged::of(*row.before) : column(name.substr(7), *row.before);
  }
  if (row.removed) return {};
  return name == "value" ? tagged::of(row.value) : column(name, row.value);
}

tagged logic(const expression& one, const reference_row& row) {
  const bool decides = one.op == "or";
  bool null = false;
  for (const expression& part : one.of) {
    const tagged v = evaluate(part, row);
    if (v.is_null())
      null = true;
    else if (v.boolean == decides)
      return tagged::of(decides);
  }
  return null ? tagged{} : tagged::of(!decides);
}

tagged relation(const std::string& op, const tagged& x, const tagged& y) {
  if (x.is_null() || y.is_null()) return {};
  const int at = compared(x, y);
  if (op == "=") return tagged::of(at == 0);
  if (op == "!=") return tagged::of(at != 0);
  if (op == "<") return tagged::of(at == -1);
  if (op == "<=") return tagged::of(at == -1 || at == 0);
  if (op == ">") return tagged::of(at == 1);
  return tagged::of(at == 1 || at == 0);
}

tagged conjunction(const tagged& x, const tagged& y) {
  if ((!x.is_null() && !x.boolean) || (!y.is_null() && !y.boolean)) return tagged::of(false);
  return x.is_null() || y.is_null() ? tagged{} : tagged::of(true);
}

tagged listed(const expression& one, const reference_row& row) {
  const tagged x = evaluate(one.of[0], row);
  bool null = false;
  for (std::size_t i = 1; i < one.of.size(); ++i) {
    const tagged found = relation("=", x, evaluate(one.of[i], row));
    if (found.is_null())
      null = true;
    else if (found.boolean)
      return found;
  }
  return null ? tagged{} : tagged::of(false);
}

tagged shifted(bool left, wide x, wide by) {
  if (by < 0) return {};
  for (wide i = 0; i < by && i < 200; ++i) {
    if (left) {
      x *= 2;
      if (x < least || x > greatest) return {};
    } else {
      x = x >= 0 ? x / 2 : -((-x + 1) / 2);
    }
  }
  return tagged::of(x);
}

tagged arithmetic(const std::string& op, const tagged& x, const tagged& y) {
  if (x.is == tag::real || y.is == tag::real) {
    const double p = to_double(x);
    const double q = to_double(y);
    if (op == "+") return tagged::of(p + q);
    if (op == "-") return tagged::of(p - q);
    if (op == "*") return tagged::of(p * q);
    if (q == 0) return {};
    return tagged::of(op == "/" ? p / q : std::fmod(p, q));
  }
  const wide p = x.integer;
  const wide q = y.integer;
  if (op == "+") return tagged::of(p + q);
  if (op == "-") return tagged::of(p - q);
  if (op == "*") {
    if (p != 0 && q != 0 &&
        std::abs(std::log2(std::abs(static_cast<long double>(p))) + std::log2(std::abs(static_cast<long double>(q)))) >
            100) {
      return {};
    }
    return tagged::of(p * q);
  }
  if (op == "/" || op == "%") {
    if (q == 0) return {};
    return tagged::of(op == "/" ? p / q : p % q);
  }
  if (op == "&") return tagged::of(p & q);
  if (op == "|") return tagged::of(p | q);
  if (op == "^") return tagged::of(p ^ q);
  return shifted(op == "<<", p, q);
}

tagged part(const std::string& text, wide start, std::optional<wide> count) {
  if (count && *count < 0) return {};
  std::string out;
  const auto size = static_cast<wide>(text.size());
  for (wide at = 1; at <= size; ++at) {
    const wide from = start < 0 ? size + 1 + start : start;
    if (at >= from && (!count || at < from + *count)) out += text[static_cast<std::size_t>(at - 1)];
  }
  return tagged::of(out);
}

tagged converted(const std::string& op, const tagged& v) {
  if (op == "f64") return tagged::of(v.is == tag::boolean ? (v.boolean ? 1.0 : 0.0) : to_double(v));
  wide whole = v.integer;
  if (v.is == tag::boolean) whole = v.boolean ? 1 : 0;
  if (v.is == tag::real) {
    if (!(std::abs(v.real) < 1e30)) return {};
    whole = static_cast<wide>(v.real);
  }
  if (op == "i64" && (whole < least || whole > (wide{1} << 63) - 1)) return {};
  if (op == "u64" && (whole < 0 || whole > greatest)) return {};
  return tagged::of(whole);
}

tagged of_bytes(const expression& one, const std::vector<tagged>& v) {
  const std::string& x = v[0].bytes;
  if (one.op == "length") return tagged::of(static_cast<wide>(x.size()));
  if (one.op == "like") return tagged::of(like(x, 0, one.literal.bytes, 0));
  if (one.op == "substr") return part(x, v[1].integer, v.size() > 2 ? std::optional(v[2].integer) : std::nullopt);
  const std::string& y = v[1].bytes;
  const bool fits = x.size() >= y.size();
  if (one.op == "starts_with") return tagged::of(fits && x.substr(0, y.size()) == y);
  if (one.op == "ends_with") return tagged::of(fits && x.substr(x.size() - y.size()) == y);
  for (std::size_t i = 0; i + y.size() <= x.size(); ++i) {
    if (x.substr(i, y.size()) == y) return tagged::of(true);
  }
  return tagged::of(false);
}

}  // namespace

tagged tagged::of(wide v) {
  if (v < least || v > greatest) return {};
  return {.is = tag::integer, .integer = v};
}

bool tagged::operator==(const tagged& other) const {
  if (is != other.is) return false;
  if (is == tag::real) {
    return (std::isnan(real) && std::isnan(other.real)) ||
           std::bit_cast<std::uint64_t>(real) == std::bit_cast<std::uint64_t>(other.real);
  }
  return boolean == other.boolean && integer == other.integer && bytes == other.bytes;
}

std::string shown(const tagged& one) {
  switch (one.is) {
    case tag::null:
      return "null";
    case tag::boolean:
      return one.boolean ? "true" : "false";
    case tag::integer:
      return decimal(one.integer);
    case tag::real:
      return fmt::format("{} ({:x})", one.real, std::bit_cast<std::uint64_t>(one.real));
    default: {
      std::string out = "x'";
      for (const char c : one.bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
      return out + "'";
    }
  }
}

tagged evaluate(const expression& one, const reference_row& row) {
  if (one.op == "literal") return one.literal;
  if (one.of.empty()) return operand(one.op, row);
  if (one.op == "and" || one.op == "or") return logic(one, row);
  if (one.op == "in") return listed(one, row);
  if (one.op == "if") {
    const tagged c = evaluate(one.of[0], row);
    return evaluate(one.of[!c.is_null() && c.boolean ? 1 : 2], row);
  }
  std::vector<tagged> v;
  for (const expression& each : one.of) v.push_back(evaluate(each, row));
  if (one.op == "is_null") return tagged::of(v[0].is_null());
  if (one.op == "coalesce") {
    for (const tagged& each : v) {
      if (!each.is_null()) return each;
    }
    return {};
  }
  if (one.op == "between") return conjunction(relation(">=", v[0], v[1]), relation("<=", v[0], v[2]));
  for (const tagged& each : v) {
    if (each.is_null()) return {};
  }
  if (one.op == "not") return tagged::of(!v[0].boolean);
  if (one.op == "-" && v.size() == 1) return v[0].is == tag::real ? tagged::of(-v[0].real) : tagged::of(-v[0].integer);
  if (one.op == "~") return tagged::of(-v[0].integer - 1);
  if (one.op == "i64" || one.op == "u64" || one.op == "f64") return converted(one.op, v[0]);
  if (one.op == "=" || one.op == "!=" || one.op[0] == '<' || one.op[0] == '>') {
    if (one.op != "<<" && one.op != ">>") return relation(one.op, v[0], v[1]);
  }
  if (v[0].is == tag::bytes) return of_bytes(one, v);
  return arithmetic(one.op, v[0], v[1]);
}

}  // namespace icecore::testing
