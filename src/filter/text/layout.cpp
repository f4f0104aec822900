#include <array>
#include <limits>

#include "filter/text/lexer.hpp"
#include "filter/text/parser.hpp"
#include "filter/tree/operations.hpp"
#include "filter/tree/origin.hpp"

namespace icecore::detail {
namespace {

struct type_name {
  std::string_view name;
  field_type type;
  std::uint32_t size;
};
constexpr std::array types = {
    type_name{"u8", field_type::u8, 1},   type_name{"u16", field_type::u16, 2},    type_name{"u32", field_type::u32, 4},
    type_name{"u64", field_type::u64, 8}, type_name{"i8", field_type::i8, 1},      type_name{"i16", field_type::i16, 2},
    type_name{"i32", field_type::i32, 4}, type_name{"i64", field_type::i64, 8},    type_name{"f32", field_type::f32, 4},
    type_name{"f64", field_type::f64, 8}, type_name{"bytes", field_type::bytes, 0}};

class layout_parser {
 public:
  explicit layout_parser(std::string_view text) : lexer_(text, "layout") { step(); }

  [[nodiscard]] std::vector<named_field> columns() {
    std::vector<named_field> made;
    while (now_.is != token::kind::end) {
      if (!made.empty()) {
        if (!at(",")) refuse("expected ',' or the end, found " + found());
        step();
      }
      if (!made.empty() && made.back().place.to_the_end)
        refuse("'bytes' without a size takes all that is left: no column follows it");
      made.push_back(column(made));
    }
    return made;
  }

 private:
  void step() { now_ = lexer_.next(); }
  [[nodiscard]] bool at(std::string_view sign) const { return now_.is == token::kind::sign && now_.text == sign; }
  [[noreturn]] void refuse(const std::string& message) const {
    origin{.what = "layout"}.refuse(now_.position, message);
  }

  [[nodiscard]] std::string found() const { return now_.is == token::kind::end ? "the end" : shown(now_.text); }

  [[nodiscard]] named_field column(const std::vector<named_field>& before) {
    if (now_.is != token::kind::word) refuse("expected the name of a column, found " + found());
    named_field made{.name = std::string(now_.text), .place = {.offset = offset_}};
    if (is_reserved(now_.bytes)) refuse(shown(now_.text) + " is a word of the language; give the column another name");
    for (const named_field& other : before) {
      if (other.name == made.name) refuse("two columns are called " + shown(made.name));
    }
    step();
    type_of(made.place);
    if (made.place.size > std::numeric_limits<std::uint32_t>::max() - offset_) refuse("columns of 4 GiB and more");
    offset_ += made.place.size;
    return made;
  }

  void type_of(field& place) {
    std::vector<std::string_view> names;
    const type_name* known = nullptr;
    for (const type_name& one : types) {
      names.push_back(one.name);
      if (now_.is == token::kind::word && one.name == now_.bytes) known = &one;
    }
    if (known == nullptr) {
      const std::string_view nearest = now_.is == token::kind::word ? nearest_name(now_.bytes, names) : "";
      refuse("expected a type (u8 to u64, i8 to i64, f32, f64, bytes(n), bytes), found " + found() +
             (nearest.empty() ? "" : "; did you mean '" + std::string(nearest) + "'?"));
    }
    place.type = known->type;
    place.size = known->size;
    step();
    if (place.type == field_type::bytes) {
      size_of(place);
    } else if (now_.is == token::kind::word && (now_.bytes == "be" || now_.bytes == "le")) {
      place.big_endian = now_.bytes == "be";
      step();
    }
  }

  void size_of(field& place) {
    if (!at("(")) {
      place.to_the_end = true;
      return;
    }
    step();
    if (now_.is != token::kind::integer || now_.number == 0 ||
        now_.number > std::numeric_limits<std::uint32_t>::max()) {
      refuse("expected a number of bytes from 1 to 4294967295, found " + found());
    }
    place.size = static_cast<std::uint32_t>(now_.number);
    step();
    if (!at(")")) refuse("expected ')', found " + found());
    step();
  }

  lexer lexer_;
  token now_;
  std::uint32_t offset_ = 0;
};

}  // namespace

std::vector<named_field> parse_layout(std::string_view text) {
  if (text.size() > text_bytes_max) raise(errc::bad_input, "layout: the text is longer than {} bytes", text_bytes_max);
  return layout_parser(text).columns();
}

}  // namespace icecore::detail
