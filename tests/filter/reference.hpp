// The language of filters a second time, written without a look at the first: random expressions, and a naive evaluator
// of them, row by row, over tagged values. Also their text in SQL, for those that SQLite can evaluate.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace icecore::testing {

__extension__ using wide = __int128;

struct tagged {
  enum class tag { null, boolean, integer, real, bytes } is = tag::null;
  bool boolean = false;
  wide integer = 0;
  double real = 0;
  std::string bytes = {};

  [[nodiscard]] static tagged of(bool v) { return {.is = tag::boolean, .boolean = v}; }
  [[nodiscard]] static tagged of(double v) { return {.is = tag::real, .real = v}; }
  [[nodiscard]] static tagged of(std::string v) { return {.is = tag::bytes, .bytes = std::move(v)}; }
  /// Null if it is out of range.
  [[nodiscard]] static tagged of(wide v);
  [[nodiscard]] bool is_null() const { return is == tag::null; }
  [[nodiscard]] bool operator==(const tagged& other) const;  // of doubles: the same bits, or both NaN
};

[[nodiscard]] std::string shown(const tagged& one);

/// A row with the columns of reference_layout.
struct reference_row {
  std::string key = {};
  std::string value = {};
  std::uint64_t version = 0;
  bool removed = false;
  bool first = false;
  std::optional<std::string> before = {};
};
inline constexpr const char* reference_layout = "a i64, b u64, c i32, d f64, e f32, s bytes(2), t bytes";

struct expression {
  std::string op;  // an operator, a function, a column, or "literal"
  tagged literal = {};
  std::vector<expression> of = {};
};

[[nodiscard]] tagged evaluate(const expression& one, const reference_row& row);
[[nodiscard]] std::string text_of(const expression& one);
/// Of an expression that random_expressions{for_sql} made.
[[nodiscard]] std::string sql_of(const expression& one);

class random_expressions {
 public:
  explicit random_expressions(std::uint64_t seed, bool for_sql = false) : random_(seed), for_sql_(for_sql) {}

  [[nodiscard]] expression make(tagged::tag type, int depth);
  [[nodiscard]] reference_row row();

 private:
  [[nodiscard]] std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  [[nodiscard]] expression leaf(tagged::tag type);
  [[nodiscard]] expression boolean(int depth);
  [[nodiscard]] expression integer(int depth);
  [[nodiscard]] expression real(int depth);
  [[nodiscard]] expression bytes(int depth);
  [[nodiscard]] expression chosen(tagged::tag type, int depth);
  [[nodiscard]] tagged::tag any_type();
  [[nodiscard]] wide whole();
  [[nodiscard]] double number();
  [[nodiscard]] std::string text();
  [[nodiscard]] std::string packed_value();

  std::mt19937_64 random_;
  bool for_sql_;
};

}  // namespace icecore::testing
