#include "filter/text/lexer.hpp"

#include <array>
#include <bit>
#include <charconv>

#include "filter/tree/origin.hpp"

namespace icecore::detail {
namespace {

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
bool is_letter(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_space(char c) noexcept { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
char small(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// The value of a hexadecimal digit; 16 if it is none.
unsigned hexadecimal_digit(char c) noexcept {
  if (is_digit(c)) return static_cast<unsigned>(c - '0');
  c = small(c);
  return c >= 'a' && c <= 'f' ? static_cast<unsigned>(c - 'a') + 10U : 16U;
}

constexpr std::array<std::string_view, 26> signs = {"<<", ">>", "<=", ">=", "!=", "<>", "==", "!~", "(",
                                                    ")",  ",",  "=",  "<",  ">",  "~",  "+",  "-",  "*",
                                                    "/",  "%",  "&",  "|",  "^",  ".",  "[",  "]"};

}  // namespace

void lexer::refuse(std::size_t position, std::string_view message) const {
  origin{.what = what_}.refuse(position, message);
}

token lexer::next() {
  while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  const std::size_t from = at_;
  if (from == text_.size()) return {.position = from};
  const char c = text_[from];
  const char after = from + 1 < text_.size() ? text_[from + 1] : '\0';
  if (c == '0' && small(after) == 'x') return hexadecimal(from);
  if (is_digit(c) || (c == '.' && is_digit(after))) return number(from);
  if (c == '\'') return quoted(from);
  if (small(c) == 'x' && after == '\'') return quoted_hexadecimal(from);
  if (is_letter(c)) return word(from);
  return sign(from);
}

token lexer::number(std::size_t from) {
  std::size_t to = from;
  bool real = false;
  while (to < text_.size()) {
    const char c = text_[to];
    const bool signed_exponent = (c == '+' || c == '-') && small(text_[to - (to > from ? 1 : 0)]) == 'e';
    if (!is_digit(c) && !is_letter(c) && c != '.' && !signed_exponent) break;
    real |= !is_digit(c);
    ++to;
  }
  const std::string_view written = text_.substr(from, to - from);
  at_ = to;
  token made{.is = real ? token::kind::real : token::kind::integer, .position = from, .text = written};
  const char* const end = written.data() + written.size();
  if (!real) {
    const auto [stop, problem] = std::from_chars(written.data(), end, made.number);
    if (problem != std::errc()) {
      refuse(from, shown(written) + " is greater than 2^64 - 1; write it as a double, such as 1e20");
    }
    return made;
  }
  double value = 0;
  const auto [stop, problem] = std::from_chars(written.data(), end, value);
  if (problem == std::errc::result_out_of_range) refuse(from, shown(written) + " is beyond what a double holds");
  if (problem != std::errc() || stop != end) refuse(from, shown(written) + " is not a number");
  made.number = std::bit_cast<std::uint64_t>(value);
  return made;
}

token lexer::hexadecimal(std::size_t from) {
  std::size_t to = from + 2;
  while (to < text_.size() && (is_digit(text_[to]) || is_letter(text_[to]))) ++to;
  token made{.is = token::kind::integer, .position = from, .text = text_.substr(from, to - from)};
  const char* const end = text_.data() + to;
  const auto [stop, problem] = std::from_chars(text_.data() + from + 2, end, made.number, 16);
  if (problem != std::errc() || stop != end) {
    refuse(from, shown(made.text) + " is not a number of 1 to 16 hexadecimal digits");
  }
  at_ = to;
  return made;
}

token lexer::quoted(std::size_t from) {
  token made{.is = token::kind::bytes, .position = from};
  for (std::size_t to = from + 1; to < text_.size(); ++to) {
    if (text_[to] == '\'') {
      if (to + 1 == text_.size() || text_[to + 1] != '\'') {
        at_ = to + 1;
        made.text = text_.substr(from, at_ - from);
        return made;
      }
      ++to;
    }
    made.bytes += text_[to];
  }
  refuse(from, "the text that begins here has no closing quote; a quote within it is written twice ('')");
}

token lexer::quoted_hexadecimal(std::size_t from) {
  token made{.is = token::kind::bytes, .position = from};
  const std::size_t to = text_.find('\'', from + 2);
  if (to == std::string_view::npos) refuse(from, "the bytes that begin here have no closing quote");
  const std::string_view digits = text_.substr(from + 2, to - from - 2);
  if (digits.size() % 2 != 0) refuse(from, "bytes are written as an even number of hexadecimal digits: x'00ff'");
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    const unsigned high = hexadecimal_digit(digits[i]);
    const unsigned low = hexadecimal_digit(digits[i + 1]);
    if (high > 15 || low > 15) refuse(from + 2 + i, "expected two hexadecimal digits");
    made.bytes += static_cast<char>(high * 16 + low);
  }
  at_ = to + 1;
  made.text = text_.substr(from, at_ - from);
  return made;
}

token lexer::word(std::size_t from) {
  std::size_t to = from;
  while (to < text_.size() && (is_letter(text_[to]) || is_digit(text_[to]))) ++to;
  at_ = to;
  token made{.is = token::kind::word, .position = from, .text = text_.substr(from, to - from)};
  for (const char c : made.text) made.bytes += small(c);
  return made;
}

token lexer::sign(std::size_t from) {
  for (const std::string_view one : signs) {
    if (text_.substr(from, one.size()) == one) {
      at_ = from + one.size();
      return {.is = token::kind::sign, .position = from, .text = one};
    }
  }
  const std::string_view rest = text_.substr(from, 1);
  if (rest == "\"") refuse(from, "text is written in single quotes: 'text'");
  refuse(from, shown(rest) + " has no meaning here");
}

}  // namespace icecore::detail
