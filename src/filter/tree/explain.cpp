#include "filter/tree/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "filter/tree/operations.hpp"

namespace icecore::detail {
namespace {

constexpr int operand_precedence = 12;  // what needs no parentheses anywhere
constexpr int not_binds = 3;
constexpr int comparison_binds = 4;
constexpr int prefix_binds = 11;

std::string real_text(std::uint64_t bits) {
  std::string text = fmt::format("{}", std::bit_cast<double>(bits));
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

int precedence_of(const node& one) noexcept {
  const int precedence = facts_of(one.op).precedence;
  return precedence == 0 ? operand_precedence : precedence;
}

class writer {
 public:
  void write(const node& one, int least) {
    const bool needs = precedence_of(one) < least;
    if (needs) out_ += '(';
    write(one);
    if (needs) out_ += ')';
  }
  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  void write(const node& one) {
    const operation_facts& facts = facts_of(one.op);
    switch (facts.written) {
      case notation::literal:
        return literal(one);
      case notation::word:
        out_ += facts.name;
        return;
      case notation::function:
        out_ += facts.name;
        return list(one, 0);
      case notation::infix:
        return infix(one, facts);
      case notation::prefix:
        out_ += facts.name;
        if (one.op == operation::negation) out_ += ' ';
        return write(one.operands[0], one.op == operation::negation ? not_binds : prefix_binds);
      case notation::special:
        return special(one);
    }
  }

  void literal(const node& one) {
    switch (one.op) {
      case operation::boolean:
        out_ += one.number != 0 ? "true" : "false";
        return;
      case operation::integer:
        out_ += one.negative ? fmt::format("{}", static_cast<std::int64_t>(one.number)) : fmt::format("{}", one.number);
        return;
      case operation::real:
        out_ += real_text(one.number);
        return;
      case operation::bytes:
        out_ += literal_of_bytes(one.text);
        return;
      default:
        out_ += "null";
    }
  }

  void list(const node& one, std::size_t from) {
    out_ += '(';
    for (std::size_t i = from; i < one.operands.size(); ++i) {
      if (i > from) out_ += ", ";
      write(one.operands[i], 0);
    }
    out_ += ')';
  }

  void infix(const node& one, const operation_facts& facts) {
    const bool compares = facts.precedence == comparison_binds;  // these do not chain
    for (std::size_t i = 0; i < one.operands.size(); ++i) {
      if (i > 0) out_ += fmt::format(" {} ", facts.name);
      write(one.operands[i], facts.precedence + (i > 0 || compares ? 1 : 0));
    }
  }

  void special(const node& one) {
    switch (one.op) {
      case operation::column:
        out_ += one.text;
        return;
      case operation::before_column:
        out_ += "before." + one.text;
        return;
      case operation::call:
        out_ += fmt::format("<function {} revision {}>", literal_of_bytes(one.text), one.number);
        return;
      case operation::json:
        out_ += "json(";
        write(one.operands[0], 0);
        out_ += ", " + literal_of_bytes(one.text) + ')';
        return;
      default:
        break;
    }
    write(one.operands[0], comparison_binds + 1);
    out_ += fmt::format(" {} ", facts_of(one.op).name);
    if (one.op == operation::in) return list(one, 1);
    if (one.op == operation::between) {
      write(one.operands[1], comparison_binds + 1);
      out_ += " and ";
      return write(one.operands[2], comparison_binds + 1);
    }
    out_ += literal_of_bytes(one.text);
    if (one.op == operation::like && one.number != 0) {
      out_ += " escape " + literal_of_bytes(std::string(1, static_cast<char>(one.number - 1)));
    }
  }

  std::string out_;
};

}  // namespace

std::string literal_of_bytes(std::string_view bytes) {
  const bool printable = std::all_of(bytes.begin(), bytes.end(), [](char c) { return c >= ' ' && c <= '~'; });
  std::string out = printable ? "'" : "x'";
  for (const char c : bytes) {
    if (!printable) {
      out += fmt::format("{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c == '\'' ? "''" : std::string(1, c);
    }
  }
  return out + "'";
}

std::string text_of(const node& tree) {
  writer to;
  to.write(tree, 0);
  return to.take();
}

}  // namespace icecore::detail
