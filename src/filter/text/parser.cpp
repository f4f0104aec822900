#include "filter/text/parser.hpp"

#include <optional>
#include <utility>

#include "filter/text/lexer.hpp"
#include "filter/tree/operations.hpp"
#include "filter/tree/origin.hpp"

namespace icecore::detail {
namespace {

constexpr int not_precedence = 3;
constexpr int comparison_precedence = 4;
constexpr int prefix_precedence = 11;

class parser {
 public:
  parser(std::string_view text, const std::vector<named_field>& columns)
      : text_(text), lexer_(text), columns_(columns) {
    step();
  }

  [[nodiscard]] node whole() {
    node made = begun();
    require_end();
    return made;
  }

  [[nodiscard]] named_tree selected() {
    const std::size_t from = now_.position;
    named_tree made{.tree = begun()};
    made.name = text_.substr(from, end_ - from);
    if (take("as")) {
      if (now_.is != token::kind::word) refuse("expected a name after 'as', found " + found());
      made.name = now_.text;
      step();
    }
    require_end();
    return made;
  }

 private:
  [[nodiscard]] node begun() {
    if (now_.is == token::kind::end) refuse("an expression is empty; write 'true' for one that holds for every row");
    return expression(0);
  }
  void require_end() const {
    if (now_.is != token::kind::end) refuse("expected an operator or the end, found " + shown(now_.text));
  }

  void step() {
    end_ = now_.position + now_.text.size();
    now_ = lexer_.next();
  }
  [[nodiscard]] bool at_sign(std::string_view sign) const { return now_.is == token::kind::sign && now_.text == sign; }
  [[nodiscard]] bool at_word(std::string_view word) const { return now_.is == token::kind::word && now_.bytes == word; }
  [[noreturn]] void refuse(std::string_view message) const { origin{}.refuse(now_.position, message); }
  [[nodiscard]] std::string found() const { return now_.is == token::kind::end ? "the end" : shown(now_.text); }

  void expect(std::string_view sign) {
    if (!at_sign(sign)) refuse("expected '" + std::string(sign) + "', found " + found());
    step();
  }

  [[nodiscard]] bool take(std::string_view sign_or_word) {
    if (!at_sign(sign_or_word) && !at_word(sign_or_word)) return false;
    step();
    return true;
  }

  [[nodiscard]] static node make(operation op, std::size_t position, std::vector<node> operands = {}) {
    node made{.op = op, .position = static_cast<std::uint32_t>(position)};
    for (const node& one : operands) made.levels = std::max<std::uint16_t>(made.levels, one.levels + 1);
    if (made.levels > depth_max) origin{}.refuse(position, fmt::format("nested deeper than {} levels", depth_max));
    made.operands = std::move(operands);
    return made;
  }
  template <typename... Operands>
  [[nodiscard]] static node make_of(operation op, std::size_t position, Operands... operands) {
    std::vector<node> list;
    list.reserve(sizeof...(operands));
    (list.push_back(std::move(operands)), ...);
    return make(op, position, std::move(list));
  }

  /// What binds at least as strongly as `least`.
  [[nodiscard]] node expression(int least) {
    if (++depth_ > depth_max) refuse(fmt::format("nested deeper than {} levels", depth_max));
    node left = operand(least);
    bool compared = false;
    while (true) {
      const std::optional<operation> op = infix();
      if (!op) break;
      const int precedence = facts_of(*op).precedence;
      if (precedence < least) break;
      if (precedence == comparison_precedence && std::exchange(compared, true)) {
        refuse("comparisons do not follow each other; join them by 'and'");
      }
      left = precedence == comparison_precedence ? comparison(std::move(left), *op)
                                                 : joined(std::move(left), *op, precedence);
    }
    --depth_;
    return left;
  }

  /// The infix operator that the current token begins, if it does.
  [[nodiscard]] std::optional<operation> infix() const {
    using enum operation;
    if (now_.is == token::kind::word) {
      if (now_.bytes == "and") return both;
      if (now_.bytes == "or") return either;
      if (now_.bytes == "in") return in;
      if (now_.bytes == "between") return between;
      if (now_.bytes == "like") return like;
      if (now_.bytes == "is") return is_null_written;
      if (now_.bytes == "not") return negated_written;
      return std::nullopt;
    }
    if (now_.is != token::kind::sign) return std::nullopt;
    if (now_.text == "==") return equal;
    if (now_.text == "<>") return unequal;
    if (now_.text == "~" || now_.text == "!~") return match;
    static constexpr operation by_sign[] = {equal,    unequal,  less,    less_equal, greater,     greater_equal,
                                            bit_or,   bit_xor,  bit_and, shift_left, shift_right, add,
                                            subtract, multiply, divide,  remainder};
    for (const operation op : by_sign) {
      if (facts_of(op).name == now_.text) return op;
    }
    return std::nullopt;
  }

  // `x is null` and `x not in …` begin with a word that does not tell the operation yet; both compare.
  static constexpr operation is_null_written = operation::between;
  static constexpr operation negated_written = operation::in;

  [[nodiscard]] node joined(node left, operation op, int precedence) {
    const std::size_t position = now_.position;
    step();
    node right = expression(precedence + 1);
    if ((op == operation::both || op == operation::either) && left.op == op) {
      if (right.levels >= depth_max) origin{}.refuse(position, fmt::format("nested deeper than {} levels", depth_max));
      left.levels = std::max<std::uint16_t>(left.levels, right.levels + 1);
      left.operands.push_back(std::move(right));
      return left;
    }
    return make_of(op, position, std::move(left), std::move(right));
  }

  [[nodiscard]] node comparison(node left, operation op) {
    const std::size_t position = now_.position;
    if (now_.is == token::kind::sign) {
      const bool negated = now_.text == "!~";
      step();
      if (op == operation::match) return negated_if(negated, position, matched(std::move(left), position));
      return make_of(op, position, std::move(left), expression(comparison_precedence + 1));
    }
    if (take("is")) {
      const bool negated = take("not");
      if (!take("null")) refuse("expected 'null' or 'not null' after 'is', found " + found());
      return negated_if(negated, position, make_of(operation::is_null, position, std::move(left)));
    }
    const bool negated = take("not");
    if (take("in")) return negated_if(negated, position, listed(std::move(left), position));
    if (take("between")) return negated_if(negated, position, bounded(std::move(left), position));
    if (take("like")) return negated_if(negated, position, alike(std::move(left), position));
    refuse("expected 'in', 'between' or 'like' after 'not', found " + found());
  }

  [[nodiscard]] static node negated_if(bool negated, std::size_t position, node inner) {
    return negated ? make_of(operation::negation, position, std::move(inner)) : inner;
  }

  [[nodiscard]] node listed(node left, std::size_t position) {
    std::vector<node> operands;
    operands.push_back(std::move(left));
    expect("(");
    do operands.push_back(expression(0));
    while (take(","));
    expect(")");
    return make(operation::in, position, std::move(operands));
  }

  [[nodiscard]] node bounded(node left, std::size_t position) {
    node from = expression(comparison_precedence + 1);
    if (!take("and")) refuse("expected 'and' between the bounds of 'between', found " + found());
    return make_of(operation::between, position, std::move(left), std::move(from),
                   expression(comparison_precedence + 1));
  }

  [[nodiscard]] node alike(node left, std::size_t position) {
    node made = make_of(operation::like, position, std::move(left));
    made.text = pattern("like");
    if (!take("escape")) return made;
    if (now_.is != token::kind::bytes || now_.bytes.size() != 1) refuse("expected one byte in quotes after 'escape'");
    made.number = static_cast<unsigned char>(now_.bytes[0]) + 1U;
    step();
    return made;
  }

  [[nodiscard]] node matched(node left, std::size_t position) {
    const std::size_t pattern_position = now_.position;
    node made = make_of(operation::match, position, std::move(left));
    made.text = pattern("~");
    made.position = static_cast<std::uint32_t>(pattern_position);
    return made;
  }

  [[nodiscard]] std::string pattern(std::string_view after) {
    if (now_.is != token::kind::bytes) {
      refuse("expected a pattern in quotes after '" + std::string(after) + "', found " + found());
    }
    std::string text = std::move(now_.bytes);
    step();
    return text;
  }

  [[nodiscard]] node operand(int least) {
    const std::size_t position = now_.position;
    switch (now_.is) {
      case token::kind::integer:
      case token::kind::real:
      case token::kind::bytes:
        return literal();
      case token::kind::word:
        return word(least);
      case token::kind::sign:
        break;
      case token::kind::end:
        refuse("expected an operand, found the end");
    }
    if (take("(")) {
      node inner = expression(0);
      expect(")");
      return inner;
    }
    if (take("-")) return negative(position);
    if (take("+")) return expression(prefix_precedence);
    if (take("~")) return make_of(operation::bit_not, position, expression(prefix_precedence));
    refuse("expected an operand, found " + found());
  }

  /// `-` before a literal is part of it, so that -9223372036854775808 is one.
  [[nodiscard]] node negative(std::size_t position) {
    if (now_.is == token::kind::integer && now_.number != 0 && now_.number <= 1ULL << 63) {
      node made = literal();
      made.number = -made.number;
      made.negative = true;
      made.position = static_cast<std::uint32_t>(position);
      return made;
    }
    if (now_.is == token::kind::real) {
      node made = literal();
      made.number ^= 1ULL << 63;
      made.position = static_cast<std::uint32_t>(position);
      return made;
    }
    return make_of(operation::minus, position, expression(prefix_precedence));
  }

  [[nodiscard]] node literal() {
    node made = make(now_.is == token::kind::integer ? operation::integer
                     : now_.is == token::kind::real  ? operation::real
                                                     : operation::bytes,
                     now_.position);
    made.number = now_.number;
    made.text = std::move(now_.bytes);
    step();
    return made;
  }

  [[nodiscard]] node word(int least) {
    const token at = now_;
    step();
    if (at.bytes == "not") {
      if (least > not_precedence) origin{}.refuse(at.position, "put 'not …' in parentheses here");
      return make_of(operation::negation, at.position, expression(not_precedence));
    }
    if (at_sign("(")) {
      if (at.bytes == "json") return json(at);
      return function(at);
    }
    if (at.bytes == "null") return make(operation::null, at.position);
    if (at.bytes == "true" || at.bytes == "false") {
      node made = make(operation::boolean, at.position);
      made.number = at.bytes == "true" ? 1 : 0;
      return made;
    }
    if (at.bytes == "before") return before(at);
    for (const named_field& one : columns_) {  // of kept rows alone a column may be called `key`; then it is meant
      if (one.place.kept && one.name == at.text) return column(at, operation::column);
    }
    for (const operation op :
         {operation::key, operation::value, operation::version, operation::removed, operation::first}) {
      if (facts_of(op).name == at.bytes) return make(op, at.position);
    }
    return column(at, operation::column);
  }

  [[nodiscard]] node before(const token& at) {
    if (!take(".")) refuse("expected '.value' or '.' and a column after 'before', found " + found());
    const token name = now_;
    if (name.is != token::kind::word) refuse("expected 'value' or a column after 'before.', found " + found());
    step();
    if (name.bytes == "value") return make(operation::before_value, at.position);
    return column(name, operation::before_column);
  }

  [[nodiscard]] node column(const token& at, operation op) {
    for (const named_field& one : columns_) {
      if (one.name != at.text) continue;
      node made = make(op, at.position);
      made.text = one.name;
      made.place = one.place;
      return made;
    }
    std::vector<std::string_view> names = {"key", "value", "version", "removed", "first"};
    for (const named_field& one : columns_) names.push_back(one.name);
    const std::string_view nearest = nearest_name(at.text, names);
    origin{}.refuse(at.position, "unknown column " + shown(at.text) +
                                     (nearest.empty() ? columns_.empty() ? "; no layout names columns" : ""
                                                      : "; did you mean '" + std::string(nearest) + "'?"));
  }

  [[nodiscard]] node function(const token& at) {
    const operation_facts* const facts = function_called(at.bytes);
    if (facts == nullptr) {
      const std::string_view nearest = nearest_name(at.bytes, function_names());
      origin{}.refuse(at.position, "unknown function " + shown(at.text) +
                                       (nearest.empty() ? "" : "; did you mean '" + std::string(nearest) + "'?"));
    }
    step();
    std::vector<node> operands;
    if (!at_sign(")")) {
      do operands.push_back(expression(0));
      while (take(","));
    }
    expect(")");
    if (operands.size() < facts->operands_min || operands.size() > facts->operands_max) {
      origin{}.refuse(at.position, wrong_count(*facts, operands.size()));
    }
    return make(facts->op, at.position, std::move(operands));
  }

  [[nodiscard]] static std::string wrong_count(const operation_facts& facts, std::size_t given) {
    const std::string expected = facts.operands_min == facts.operands_max ? std::to_string(facts.operands_min)
                                 : facts.operands_max == operands_max
                                     ? std::to_string(facts.operands_min) + " or more"
                                     : fmt::format("{} or {}", facts.operands_min, facts.operands_max);
    return fmt::format("'{}' takes {} operand{}, and {} given", facts.name, expected, expected == "1" ? "" : "s",
                       given == 1 ? "1 is" : fmt::format("{} are", given));
  }

  [[nodiscard]] node json(const token& at) {
    step();
    node source = expression(0);
    expect(",");
    node made = make_of(operation::json, at.position, std::move(source));
    if (now_.is != token::kind::bytes) refuse("expected a path in quotes, such as 'a.b[2]', found " + found());
    made.position = static_cast<std::uint32_t>(now_.position);
    made.text = std::move(now_.bytes);
    step();
    expect(")");
    return made;
  }

  std::string_view text_;
  lexer lexer_;
  const std::vector<named_field>& columns_;
  token now_;
  std::size_t end_ = 0;  // of the token before
  std::size_t depth_ = 0;
};

void require_short(std::string_view text) {
  if (text.size() > text_bytes_max) {
    origin{}.refuse(text_bytes_max, fmt::format("the text is longer than {} bytes", text_bytes_max));
  }
}

}  // namespace

node parse(std::string_view text, const std::vector<named_field>& columns) {
  require_short(text);
  return parser(text, columns).whole();
}

named_tree parse_selected(std::string_view text, const std::vector<named_field>& columns) {
  require_short(text);
  return parser(text, columns).selected();
}

}  // namespace icecore::detail
