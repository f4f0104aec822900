#include "input/many_lines.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "icecore/error.hpp"
#include "text/file_error.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

constexpr std::size_t input_step_bytes = std::size_t{1} << 18U;
constexpr std::size_t line_bytes_max = std::size_t{1} << 30U;

std::string member_bytes(const nlohmann::json& value, std::string_view what, bool hex) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    return hex ? from_hex(text) : text;
  }
  if (value.is_object() && value.size() == 1 && value.contains("base64") && value["base64"].is_string()) {
    return from_base64(value["base64"].get_ref<const std::string&>());
  }
  throw error(errc::bad_input, fmt::format("\"{}\" is neither a string nor {{\"base64\": \"...\"}}", what));
}

}  // namespace

void many_lines::fail(std::string_view what) const {
  throw error(errc::bad_input, fmt::format("{}, line {}: {}", name_, line_number_, what));
}

bool many_lines::fill() {
  buffer_.erase(0, std::exchange(position_, 0));
  const std::size_t filled = buffer_.size();
  buffer_.resize(filled + input_step_bytes);
  ssize_t count = 0;
  do {
    count = ::read(descriptor_, buffer_.data() + filled, input_step_bytes);
  } while (count < 0 && errno == EINTR);
  buffer_.resize(filled + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  if (count < 0) fail_on_file(name_, "reading");
  return count > 0;
}

bool many_lines::read_line() {
  std::size_t end = buffer_.find('\n', position_);
  while (end == std::string::npos) {
    const std::size_t searched = buffer_.size() - position_;
    if (searched > line_bytes_max) {
      ++line_number_;
      fail(fmt::format("the line is longer than {} bytes; put such a value by itself (--file)", line_bytes_max));
    }
    if (!fill()) break;
    end = buffer_.find('\n', searched);
  }
  const bool ended = end != std::string::npos;
  if (!ended) end = buffer_.size();
  if (!ended && end == position_) return false;
  line_ = std::string_view(buffer_).substr(position_, end - position_);
  position_ = std::min(buffer_.size(), end + 1);
  ++line_number_;
  return true;
}

std::optional<key_line> many_lines::next() {
  if (!read_line()) return std::nullopt;
  try {
    return form_ == line_form::tsv ? tsv_line() : json_line();
  } catch (const error& wrong) {
    fail(wrong.message());
  }
}

key_line many_lines::tsv_line() const {
  const auto wrong = [](std::string_view what) { throw error(errc::bad_input, std::string(what)); };
  const std::size_t tab = line_.find('\t');
  if (tab == std::string_view::npos) {
    wrong(line_.starts_with('{') ? "there is no tab between key and value; if the lines are JSON, give --lines-json"
                                 : "there is no tab between key and value");
  }
  const std::string_view value = line_.substr(tab + 1);
  if (value.find('\t') != std::string_view::npos) wrong("there is more than one tab; within a value a tab is \\t");
  if (line_.ends_with('\r')) {
    wrong("the line ends with a carriage return; at the end of a value it is \\r, and dos2unix takes it away");
  }
  const auto bytes = [](std::string_view text, bool hex) { return hex ? from_hex(text) : from_shown(text); };
  return {bytes(line_.substr(0, tab), hex_.keys()), bytes(value, hex_.values())};
}

key_line many_lines::json_line() const {
  const auto wrong = [](std::string_view what) { throw error(errc::bad_input, std::string(what)); };
  nlohmann::json object;
  try {
    object = nlohmann::json::parse(line_);
  } catch (const nlohmann::json::parse_error& bad) {
    wrong(fmt::format("not valid JSON at character {}", bad.byte));
  } catch (const nlohmann::json::out_of_range&) {
    wrong("a number is too large");
  }
  if (!object.is_object()) wrong("not a JSON object");
  for (const char* member : {"key", "value"}) {
    if (!object.contains(member)) wrong(fmt::format("the member \"{}\" is missing", member));
  }
  key_line line{member_bytes(object["key"], "key", hex_.keys()), std::nullopt};
  if (!object["value"].is_null()) line.value = member_bytes(object["value"], "value", hex_.values());
  return line;
}

}  // namespace icecore::cli
