// The words, literals and signs of an expression's text.
//
// Threads: a lexer belongs to one thread. Cost: O(bytes of the text) for all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace icecore::detail {

struct token {
  enum class kind : std::uint8_t { end, word, integer, real, bytes, sign };

  kind is = kind::end;
  std::size_t position = 0;    ///< in bytes from the start of the text
  std::string_view text = {};  ///< as written; of a word in any case of letters
  std::string bytes = {};      ///< of a text or a word: its content, of a word in small letters
  std::uint64_t number = 0;    ///< of an integer; of a real the bits of the double
};

class lexer {
 public:
  /// Of an expression, or of `what` else.
  explicit lexer(std::string_view text, std::string_view what = "expression") noexcept : text_(text), what_(what) {}

  /// The next token. errc::bad_input if the text has none there.
  [[nodiscard]] token next();

 private:
  [[nodiscard]] token number(std::size_t from);
  [[nodiscard]] token hexadecimal(std::size_t from);
  [[nodiscard]] token quoted(std::size_t from);
  [[nodiscard]] token quoted_hexadecimal(std::size_t from);
  [[nodiscard]] token word(std::size_t from);
  [[nodiscard]] token sign(std::size_t from);

  [[noreturn]] void refuse(std::size_t position, std::string_view message) const;

  std::string_view text_;
  std::string_view what_;
  std::size_t at_ = 0;
};

}  // namespace icecore::detail
