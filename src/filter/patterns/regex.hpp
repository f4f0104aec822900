// Regular expressions of RE2 (linear time, bounded memory), on bytes. In a build without RE2 none can be made.
//
// Threads: a pattern is constant once it is made, and may be matched by several threads at once.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "filter/tree/origin.hpp"

namespace icecore::detail {

class regex {
 public:
  /// Refuses what is no pattern, at `position` of the expression.
  regex(std::string_view pattern, std::size_t position, const origin& from);
  ~regex();
  regex(regex&&) noexcept;
  regex& operator=(regex&&) noexcept;

  /// Whether the pattern matches anywhere in the text.
  [[nodiscard]] bool matches(std::string_view text) const;

 private:
  struct engine;
  std::unique_ptr<engine> engine_;
};

/// The bytes that every match begins with: those behind `^` that stand for themselves. Empty if nothing is known.
[[nodiscard]] std::string prefix_of_pattern(std::string_view pattern);

}  // namespace icecore::detail
