#include "filter/patterns/json.hpp"

#include <charconv>

#ifdef ICECORE_HAS_SIMDJSON
#include <simdjson.h>
#endif

namespace icecore::detail {
namespace {

/// Reads a path from left to right.
class path_text {
 public:
  path_text(std::string_view text, std::size_t position, const origin& from)
      : text_(text), position_(position), from_(from) {}

  [[nodiscard]] std::vector<json_path::step> steps() {
    std::vector<json_path::step> made;
    while (at_ < text_.size()) {
      if (text_[at_] == '[') {
        made.push_back(bracket());
      } else {
        if (!made.empty() && text_[at_++] != '.') refuse("expected '.' or '['");
        made.push_back({.name = word()});
      }
    }
    return made;
  }

 private:
  [[noreturn]] void refuse(std::string_view message) const {
    from_.refuse(position_, fmt::format("the path {}, character {}: {}", shown(text_), at_ + 1, message));
  }

  [[nodiscard]] std::string word() {
    const std::size_t to = std::min(text_.find_first_of(".[", at_), text_.size());
    std::string name(text_.substr(at_, to - at_));
    if (name.empty()) refuse("expected a name");
    at_ = to;
    return name;
  }

  [[nodiscard]] json_path::step bracket() {
    json_path::step made;
    if (text_.substr(++at_).starts_with('"')) {
      const std::size_t to = text_.find('"', at_ + 1);
      if (to == std::string_view::npos) refuse("the name has no closing quote");
      made.name = text_.substr(at_ + 1, to - at_ - 1);
      at_ = to + 1;
    } else {
      made.is_place = true;
      const char* const end = text_.data() + text_.size();
      const auto [stop, problem] = std::from_chars(text_.data() + at_, end, made.place);
      if (problem != std::errc()) refuse("expected a position or a name in double quotes");
      at_ = static_cast<std::size_t>(stop - text_.data());
    }
    if (at_ == text_.size() || text_[at_] != ']') refuse("expected ']'");
    ++at_;
    return made;
  }

  std::string_view text_;
  std::size_t position_;
  const origin& from_;
  std::size_t at_ = 0;
};

}  // namespace

#ifdef ICECORE_HAS_SIMDJSON

json_path::json_path(std::string_view path, std::size_t position, const origin& from)
    : steps_(path_text(path, position, from).steps()) {}

struct json_reader::engine {
  simdjson::dom::parser parser;
};

json_reader::json_reader() : engine_(std::make_unique<engine>()) {}

namespace {

datum datum_of(const simdjson::dom::element& found, text_arena& texts) {
  switch (found.type()) {
    case simdjson::dom::element_type::BOOL:
      return {.type = kind::boolean, .word = bool(found) ? 1U : 0U};
    case simdjson::dom::element_type::INT64:
      return {.type = kind::integer, .word = static_cast<std::uint64_t>(std::int64_t(found))};
    case simdjson::dom::element_type::UINT64:
      return {.type = kind::integer, .big = true, .word = std::uint64_t(found)};
    case simdjson::dom::element_type::DOUBLE:
      return {.type = kind::real, .word = std::bit_cast<std::uint64_t>(double(found))};
    case simdjson::dom::element_type::STRING:
      return {.type = kind::bytes, .text = texts.copy(std::string_view(found))};
    default:
      return {};
  }
}

}  // namespace

datum json_reader::find(std::string_view text, const json_path& path, text_arena& texts) {
  simdjson::dom::element at;
  const auto problem = engine_->parser.parse(text.data(), text.size()).get(at);
  if (problem == simdjson::MEMALLOC) throw std::bad_alloc();
  if (problem != simdjson::SUCCESS) return {};
  for (const json_path::step& step : path.steps()) {
    const auto next = step.is_place ? at.at(step.place) : at.at_key(step.name);
    if (next.get(at) != simdjson::SUCCESS) return {};
  }
  return datum_of(at, texts);
}

#else

json_path::json_path(std::string_view, std::size_t, const origin&) {
  raise(errc::bad_input,
        "the filter reads JSON, and this icecore was built without simdjson; build it with -DICECORE_SIMDJSON=ON");
}

struct json_reader::engine {};
json_reader::json_reader() = default;
datum json_reader::find(std::string_view, const json_path&, text_arena&) { return {}; }

#endif

json_reader::~json_reader() = default;

}  // namespace icecore::detail
