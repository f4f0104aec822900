#include "run/configuration/toml_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <toml.hpp>

#include "icecore/error.hpp"
#include "run/utf8.hpp"

namespace icecore::server {

namespace {

using toml_value = toml::basic_value<toml::discard_comments, std::map, std::vector>;

[[noreturn]] void refuse(const std::string& file, std::uint64_t line, std::string_view what) {
  throw error(errc::bad_input, fmt::format("{}:{}: {}", file, line, what));
}

/// TOML is UTF-8 without control characters but tab and the ends of lines. The parser relies on it: where a string has
/// other bytes, toml11 3.7.1 mixes iterators of two containers while it makes its message.
void require_text(std::string_view text, const std::string& file) {
  std::uint64_t line = 1;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const auto byte = static_cast<unsigned char>(text.front());
    if (length == 0) refuse(file, line, fmt::format("the byte 0x{:02x} is no UTF-8", byte));
    if (byte == 0x7f || (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r')) {
      refuse(file, line, fmt::format("the control character 0x{:02x}, which TOML does not allow", byte));
    }
    if (byte == '\n') ++line;
    text.remove_prefix(length);
  }
}

/// Walks over TOML without building anything, to find out how deep it nests. It knows strings and comments, in which
/// brackets and dots mean nothing. Of malformed text it may see too much nesting, never too little up to the first
/// fault, where the parser stops.
class depth_check {
 public:
  depth_check(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  void run() {
    while (at_ < text_.size()) {
      switch (text_[at_]) {
        case '\n':
          ++line_;
          dots_ = 0;
          break;
        case '#':
          at_ = std::min(text_.find('\n', at_), text_.size());
          continue;
        case '"':
        case '\'':
          skip_string(text_[at_]);
          continue;
        case '[':
        case '{':
          require(++open_);
          break;
        case ']':
        case '}':
          open_ = std::max(open_ - 1, 0);
          break;
        case '.':
          require(++dots_);
          break;
        case '=':
        case ',':
          dots_ = 0;
          break;
        default:
          break;
      }
      ++at_;
    }
  }

 private:
  void require(int depth) const {
    if (depth > toml_depth_max) refuse(file_, line_, fmt::format("nested more than {} deep", toml_depth_max));
  }

  /// From a quotation mark to behind the one that ends the string; a string of one line ends with the line.
  void skip_string(char quote) {
    const std::string three(3, quote);
    const bool many_lines = text_.substr(at_, 3) == three;
    at_ += many_lines ? 3 : 1;
    while (at_ < text_.size()) {
      if (many_lines ? text_.substr(at_, 3) == three : text_[at_] == quote) {
        at_ += many_lines ? 3 : 1;
        return;
      }
      if (text_[at_] == '\n') {
        if (!many_lines) return;
        ++line_;
      }
      const bool escape = quote == '"' && text_[at_] == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] != '\n';
      at_ += escape ? 2 : 1;
    }
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
  std::uint64_t line_ = 1;
  int open_ = 0;
  int dots_ = 0;  ///< since the last line, '=' or ','
};

/// The parser's message is several lines with a picture of the place; its first line says what is wrong.
std::string first_line(std::string_view message) {
  constexpr std::string_view prefix = "[error] ";
  if (message.starts_with(prefix)) message.remove_prefix(prefix.size());
  for (std::size_t space = message.find("toml::"); space != message.npos; space = message.find("toml::")) {
    const std::size_t colon = message.find(": ", space);  // "toml::parse_table: ..."
    if (colon == message.npos) break;
    message.remove_prefix(colon + 2);
  }
  return std::string(message.substr(0, message.find('\n')));
}

unsigned line_of(const toml_value& value) { return static_cast<unsigned>(value.location().line()); }

toml_setting setting_of(const std::string& section, const std::string& name, const toml_value& value) {
  using kind = toml_setting::kind;
  switch (value.type()) {
    case toml::value_t::string:
      return {section, name, kind::text, value.as_string().str, line_of(value)};
    case toml::value_t::integer:
      return {section, name, kind::integer, std::to_string(value.as_integer()), line_of(value)};
    case toml::value_t::boolean:
      return {section, name, kind::boolean, value.as_boolean() ? "true" : "false", line_of(value)};
    case toml::value_t::floating:
      return {section, name, kind::other, "a number with a fraction", line_of(value)};
    case toml::value_t::array:
      return {section, name, kind::other, "an array", line_of(value)};
    default:
      return {section, name, kind::other, "a date or time", line_of(value)};
  }
}

void collect(const std::string& section, const toml_value& table, std::vector<toml_setting>& out) {
  for (const auto& [name, value] : table.as_table()) {
    if (!value.is_table()) {
      out.push_back(setting_of(section, name, value));
      continue;
    }
    const std::string inner = section.empty() ? name : section + '.' + name;
    out.push_back({inner, {}, toml_setting::kind::section, {}, line_of(value)});
    collect(inner, value, out);
  }
}

toml_value parse(const std::string& text, const std::string& file) {
  std::istringstream in(text);
  try {
    return toml::parse<toml::discard_comments, std::map, std::vector>(in, file);
  } catch (const toml::exception& wrong) {
    refuse(file, wrong.location().line(), first_line(wrong.what()));
  } catch (const std::exception& wrong) {  // numbers that are too large, and the like
    throw error(errc::bad_input, fmt::format("{}: not TOML: {}", file, first_line(wrong.what())));
  }
}

}  // namespace

std::vector<toml_setting> read_toml(const std::string& text, const std::string& file) {
  if (text.size() > toml_bytes_max) {
    throw error(errc::bad_input,
                fmt::format("{}: {} bytes; a configuration has at most {}", file, text.size(), toml_bytes_max));
  }
  require_text(text, file);
  depth_check(text, file).run();
  std::vector<toml_setting> settings;
  collect({}, parse(text, file), settings);
  std::ranges::stable_sort(settings, {}, &toml_setting::line);
  return settings;
}

}  // namespace icecore::server
