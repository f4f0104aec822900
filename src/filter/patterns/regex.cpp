#include "filter/patterns/regex.hpp"

#ifdef ICECORE_HAS_RE2
#include <re2/re2.h>
#endif

namespace icecore::detail {

#ifdef ICECORE_HAS_RE2

struct regex::engine {
  explicit engine(std::string_view pattern) : of(re2::StringPiece(pattern.data(), pattern.size()), options()) {}

  /// Bytes are Latin-1 to RE2: each byte is one character.
  static RE2::Options options() {
    RE2::Options made(RE2::Latin1);
    made.set_log_errors(false);
    return made;
  }
  RE2 of;
};

regex::regex(std::string_view pattern, std::size_t position, const origin& from)
    : engine_(std::make_unique<engine>(pattern)) {
  if (!engine_->of.ok()) from.refuse(position, fmt::format("bad pattern: {}", engine_->of.error()));
}

bool regex::matches(std::string_view text) const {
  return RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), engine_->of);
}

#else

struct regex::engine {};

regex::regex(std::string_view, std::size_t, const origin&) {
  raise(errc::bad_input,
        "the filter has a pattern ('~'), and this icecore was built without RE2; use 'like', or build it with "
        "-DICECORE_RE2=ON");
}

bool regex::matches(std::string_view) const { return false; }

#endif

regex::~regex() = default;
regex::regex(regex&&) noexcept = default;
regex& regex::operator=(regex&&) noexcept = default;

std::string prefix_of_pattern(std::string_view pattern) {
  // With an alternative or a flag the first bytes may be others.
  if (!pattern.starts_with('^') || pattern.find('|') != std::string_view::npos) return {};
  std::string prefix;
  std::size_t at = 1;
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' || c == '_' ||
           c == '-' || c == ':' || c == ' ' || c == ',' || c == '=';
  };
  while (at < pattern.size() && is_plain(pattern[at])) prefix += pattern[at++];
  const bool repeated = at < pattern.size() && std::string_view("*?{+").find(pattern[at]) != std::string_view::npos;
  if (repeated && !prefix.empty()) prefix.pop_back();
  return prefix;
}

}  // namespace icecore::detail
