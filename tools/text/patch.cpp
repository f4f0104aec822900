#include "text/patch.hpp"

#include <fmt/format.h>
#include <git2.h>

#include <algorithm>
#include <iterator>
#include <memory>

#include "icecore/error.hpp"
#include "text/colour.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

constexpr std::size_t compared_bytes_max = std::size_t{64} << 20U;

/// A name as git writes it: in quotes, with octal escapes, if it has bytes that a line could not show.
std::string file_name(std::string_view side, std::string_view key) {
  bool plain = true;
  std::string escaped;
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      plain = false;
      escaped += '\\';
      escaped += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      plain = false;
      fmt::format_to(std::back_inserter(escaped), "\\{:03o}", byte);
    } else {
      escaped += c;
    }
  }
  return plain ? fmt::format("{}/{}", side, key) : fmt::format("\"{}/{}\"", side, escaped);
}

/// A file's name behind --- or +++: a tab ends one with spaces.
std::string header_name(const std::string& name, bool there) {
  if (!there) return "/dev/null";
  return !name.starts_with('"') && name.find(' ') != std::string::npos ? name + '\t' : name;
}

struct freed_patch {
  void operator()(git_patch* patch) const noexcept { git_patch_free(patch); }
};
using patch_pointer = std::unique_ptr<git_patch, freed_patch>;

[[noreturn]] void fail_comparing(std::string_view key) {
  const git_error* const last = git_error_last();
  throw error(errc::io, fmt::format("the values of '{}' cannot be compared: {}", shown(key, 80),
                                    last != nullptr && last->message != nullptr ? last->message : "libgit2 failed"));
}

patch_pointer compare(std::string_view key, std::string_view before, std::string_view after, const patch_form& form) {
  static const int started = git_libgit2_init();
  static_cast<void>(started);
  git_diff_options options{};
  git_diff_options_init(&options, GIT_DIFF_OPTIONS_VERSION);
  options.flags = GIT_DIFF_FORCE_TEXT;  // what is text is decided here
  options.context_lines = form.context_lines;
  git_patch* made = nullptr;
  if (git_patch_from_buffers(&made, before.data(), before.size(), "value", after.data(), after.size(), "value",
                             &options) != 0) {
    fail_comparing(key);
  }
  return patch_pointer(made);
}

/// One line of a hunk, without its end, in its colour.
void write_line(output& to, const git_diff_line& line, bool coloured) {
  const std::string_view content(line.content, line.content_len);
  switch (line.origin) {
    case GIT_DIFF_LINE_CONTEXT:
    case GIT_DIFF_LINE_ADDITION:
    case GIT_DIFF_LINE_DELETION: {
      const bool ended = content.ends_with('\n');
      const std::string text = line.origin + std::string(content.substr(0, content.size() - (ended ? 1 : 0)));
      const bool changed = line.origin != GIT_DIFF_LINE_CONTEXT;
      to.write(painted(text, line.origin == GIT_DIFF_LINE_ADDITION ? colour::green : colour::red, coloured && changed));
      if (ended) to.write("\n");
      return;
    }
    default:  // the end of the text has no end of line: the words for that
      to.write(content);
  }
}

void write_hunks(output& to, git_patch* patch, std::string_view key, bool coloured) {
  for (std::size_t h = 0; h < git_patch_num_hunks(patch); ++h) {
    const git_diff_hunk* hunk = nullptr;
    std::size_t lines = 0;
    if (git_patch_get_hunk(&hunk, &lines, patch, h) != 0) fail_comparing(key);
    std::string_view header(hunk->header, hunk->header_len);
    header = header.substr(0, header.find('\n'));
    to.line(painted(header, colour::cyan, coloured));
    for (std::size_t i = 0; i < lines; ++i) {
      const git_diff_line* line = nullptr;
      if (git_patch_get_line_in_hunk(&line, patch, h, i) != 0) fail_comparing(key);
      write_line(to, *line, coloured);
    }
  }
}

}  // namespace

void write_patch(output& to, std::string_view key, std::optional<std::string_view> before,
                 std::optional<std::string_view> after, const patch_form& form) {
  const std::string old_name = file_name("a", key);
  const std::string new_name = file_name("b", key);
  const auto heading = [&](const std::string& text) { to.line(painted(text, colour::bold, form.coloured)); };
  heading(fmt::format("diff --git {} {}", old_name, new_name));
  if (!before) heading("new file mode 100644");
  if (!after) heading("deleted file mode 100644");
  const std::string_view old_value = before.value_or("");
  const std::string_view new_value = after.value_or("");
  const std::string old_header = header_name(old_name, before.has_value());
  const std::string new_header = header_name(new_name, after.has_value());
  if (std::max(old_value.size(), new_value.size()) > compared_bytes_max) {
    to.line(fmt::format("Files {} and {} differ: {} and {} bytes are too many to compare line by line", old_header,
                        new_header, old_value.size(), new_value.size()));
    return;
  }
  if (!is_text(old_value) || !is_text(new_value)) {
    to.line(fmt::format("Binary files {} and {} differ: {} and {} bytes", old_header, new_header, old_value.size(),
                        new_value.size()));
    return;
  }
  const patch_pointer patch = compare(key, old_value, new_value, form);
  if (git_patch_num_hunks(patch.get()) == 0) return;  // an empty value came or went
  heading("--- " + old_header);
  heading("+++ " + new_header);
  write_hunks(to, patch.get(), key, form.coloured);
}

}  // namespace icecore::cli
