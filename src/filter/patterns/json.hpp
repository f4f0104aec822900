// Values within JSON, by simdjson. In a build without it no path can be made.
//
// Threads: a path is constant once it is made; a reader belongs to one thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "filter/run/slot.hpp"
#include "filter/tree/origin.hpp"

namespace icecore::detail {

/// A path such as a.b[2]: names of members and positions in arrays, from the outside in. A name that is no word is
/// written in brackets and double quotes: a["b c"].
class json_path {
 public:
  json_path(std::string_view path, std::size_t position, const origin& from);

  struct step {
    std::string name;
    std::size_t place = 0;
    bool is_place = false;
  };
  [[nodiscard]] const std::vector<step>& steps() const noexcept { return steps_; }

 private:
  std::vector<step> steps_;
};

class json_reader {
 public:
  json_reader();
  ~json_reader();

  /// What is at `path` of `text`: a boolean, number or string. Null where the text is no JSON, has nothing there, or
  /// has null, an object or an array there. Strings are copied to `texts`.
  [[nodiscard]] datum find(std::string_view text, const json_path& path, text_arena& texts);

 private:
  struct engine;
  std::unique_ptr<engine> engine_;
};

}  // namespace icecore::detail
