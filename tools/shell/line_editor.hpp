// Lines that a person types: with editing, completion, and a history in a file. One object in a process at a time,
// since libedit, which does the work, has one state. Only line_editor.cpp includes it.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace icecore::cli {

/// What may stand in the place of the last word of `before`, which is what was typed so far. Throws nothing.
using completions = std::function<std::vector<std::string>(std::string_view before)>;

class line_editor {
 public:
  /// `history` is read, if it is there; empty: no history is kept.
  line_editor(std::filesystem::path history, completions offers);
  ~line_editor();
  line_editor(const line_editor&) = delete;
  line_editor& operator=(const line_editor&) = delete;

  /// Empty at the end of the input. What is not blank enters the history, and its file.
  [[nodiscard]] std::optional<std::string> read(const std::string& prompt);

 private:
  std::filesystem::path history_;
};

/// ICECORE_HISTORY; else icecore/history below XDG_STATE_HOME or ~/.local/state. Empty if ICECORE_HISTORY is, and where
/// none of these is known.
[[nodiscard]] std::filesystem::path history_file();

}  // namespace icecore::cli
