#include "pages/manual.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "icecore/version.hpp"

namespace icecore::cli {
namespace {

/// Text for troff: a hyphen is the character that options begin with, and no line begins a request.
std::string troff(std::string_view text) {
  std::string out;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) out += "\\&";
    line_begins = c == '\n';
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\'') {
      out += "\\(aq";
    } else if (c == '`') {
      out += "\\(ga";
    } else if (c == '^') {
      out += "\\(ha";
    } else if (c == '~') {
      out += "\\(ti";
    } else {
      out += c;
    }
  }
  return out;
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return text;
}

/// "icecore-query-start" for "icecore query start".
std::string page_name(std::string command) {
  std::ranges::replace(command, ' ', '-');
  return command;
}

void add_options(std::string& page, const verb_description& verb, bool arguments) {
  const auto wanted = [&](const option_description& o) { return o.argument == arguments; };
  if (std::ranges::none_of(verb.options, wanted)) return;
  page += arguments ? ".SH ARGUMENTS\n" : ".SH OPTIONS\n";
  for (const option_description& o : verb.options) {
    if (!wanted(o)) continue;
    std::string names;
    for (const std::string& name : o.names) names += (names.empty() ? "\\fB" : ", \\fB") + troff(name) + "\\fR";
    if (!o.value.empty()) names += " \\fI" + troff(o.value) + "\\fR";
    page += fmt::format(".TP\n{}{}\n{}\n", names, o.required ? " (required)" : "", troff(o.help));
  }
}

/// The lines behind "Examples:": commands as they are, and then sentences.
void add_footer(std::string& page, const std::string& footer) {
  constexpr std::string_view heading = "Examples:\n";
  std::string_view rest = footer;
  if (!rest.starts_with(heading)) {
    page += ".SH NOTES\n" + troff(rest) + "\n";
    return;
  }
  rest.remove_prefix(heading.size());
  std::string examples;
  std::string notes;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    (line.starts_with("  ") ? examples : notes) += troff(line) + '\n';
    rest.remove_prefix(std::min(rest.size(), end + 1));
  }
  if (!examples.empty()) page += ".SH EXAMPLES\n.nf\n" + examples + ".fi\n";
  if (!notes.empty()) page += ".SH NOTES\n" + notes;
}

void add_page(std::map<std::string, std::string>& pages, const verb_description& verb, const std::string& command,
              const std::string& above) {
  const std::string name = page_name(command);
  std::string summary = verb.summary.substr(0, verb.summary.find('\n'));
  if (summary.starts_with("icecore: ")) summary.erase(0, 9);  // the command itself
  std::string page = fmt::format(".TH {} 1 \"\" \"icecore {}\" \"icecore\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n.B {}\n",
                                 upper(troff(name)), library_version(), troff(name), troff(summary), troff(command));
  page += verb.verbs.empty() ? "[\\fIOPTIONS\\fR]\n" : "\\fIVERB\\fR\n[\\fIOPTIONS\\fR]\n";
  for (const option_description& o : verb.options) {
    if (!o.argument) continue;
    const std::string repeated = o.repeated ? " ..." : "";
    page += o.required ? fmt::format("\\fI{}\\fR{}\n", troff(o.names.front()), repeated)
                       : fmt::format("[\\fI{}\\fR{}]\n", troff(o.names.front()), repeated);
  }
  page += fmt::format(".SH DESCRIPTION\n{}\n", troff(verb.summary));
  if (!verb.verbs.empty()) page += ".SH VERBS\n";
  for (const verb_description& inner : verb.verbs) {
    page += fmt::format(".TP\n\\fB{}\\fR(1)\n{}\n", troff(page_name(command + ' ' + inner.name)), troff(inner.summary));
  }
  add_options(page, verb, true);
  add_options(page, verb, false);
  if (!verb.footer.empty()) add_footer(page, verb.footer);
  page += ".SH SEE ALSO\n";
  if (!above.empty()) page += fmt::format("\\fB{}\\fR(1)\n", troff(page_name(above)));
  if (above.empty()) page += "docs/cli.md of icecore\n";
  pages[name + ".1"] = page;
  for (const verb_description& inner : verb.verbs) add_page(pages, inner, command + ' ' + inner.name, command);
}

}  // namespace

std::map<std::string, std::string> manual_pages(const verb_description& command) {
  std::map<std::string, std::string> pages;
  add_page(pages, command, "icecore", "");
  return pages;
}

}  // namespace icecore::cli
