#include "pages/completion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

namespace icecore::cli {
namespace {

/// Calls `visit` with the words of each verb ("", "put", "query", "query start") and its description.
void for_each_verb(const verb_description& verb, const std::string& words,
                   const std::function<void(const std::string&, const verb_description&)>& visit) {
  visit(words, verb);
  for (const verb_description& inner : verb.verbs) {
    for_each_verb(inner, words.empty() ? inner.name : words + ' ' + inner.name, visit);
  }
}

/// In single quotes for a shell; bash and zsh.
std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + '\'';
}

/// The first sentence of a help text, short enough for a menu.
std::string short_help(std::string_view help) {
  constexpr std::size_t columns = 70;
  const std::size_t end = std::min(help.find_first_of(":;("), help.size());
  std::string text(help.substr(0, end));
  while (text.ends_with(' ') || text.ends_with(',')) text.pop_back();
  if (text.size() <= columns) return text;
  text.resize(text.rfind(' ', columns));
  return text;
}

std::string kind_name(const option_description& o) {
  switch (o.kind) {
    case value_kind::file:
      return "file";
    case value_kind::folder:
      return "folder";
    case value_kind::version:
      return "version";
    case value_kind::hold:
      return "hold";
    case value_kind::choice:
      return fmt::format("choice {}", fmt::join(o.choices, " "));
    case value_kind::text:
      break;
  }
  return "text";
}

constexpr std::string_view bash_rest = R"sh(
_icecore() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} verb= store= skip= kind word i place=1
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [ -n "$skip" ]; then
      skip=
    elif [[ $word == -* ]]; then
      [ -z "$(_icecore_kind "$verb" "$word")" ] || skip=1
    elif [[ " $(_icecore_verbs "$verb") " == *" $word "* ]]; then
      verb=${verb:+$verb }$word
    else
      [ $place -gt 1 ] || store=$word
      place=$((place + 1))
    fi
  done
  if [ -n "$skip" ]; then
    kind=$(_icecore_kind "$verb" "$prev")
  elif [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$(_icecore_options "$verb")" -- "$cur"))
    return
  elif [ -n "$(_icecore_verbs "$verb")" ]; then
    COMPREPLY=($(compgen -W "$(_icecore_verbs "$verb")" -- "$cur"))
    return
  else
    kind=$(_icecore_kind "$verb" "$place")
  fi
  case $kind in
    choice*) COMPREPLY=($(compgen -W "${kind#choice }" -- "$cur")) ;;
    file) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    folder) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
    version | hold)
      local names
      if [ "$kind" = hold ]; then
        names=$(icecore completion holds "$store" 2>/dev/null)
      else
        names=$'latest\n'$(icecore completion tags "$store" 2>/dev/null)
      fi
      local IFS=$'\n'
      COMPREPLY=($(compgen -W "$names" -- "$cur"))
      ;;
  esac
}
complete -F _icecore icecore
)sh";

/// A shell function that answers by the words of the verb.
std::string by_verb(std::string_view function, const verb_description& command,
                    const std::function<std::string(const verb_description&)>& answer) {
  std::string out = fmt::format("{}() {{\n  case $1 in\n", function);
  for_each_verb(command, "", [&](const std::string& words, const verb_description& verb) {
    if (const std::string line = answer(verb); !line.empty())
      out += fmt::format("    {}) {} ;;\n", shell_quoted(words), line);
  });
  return out + "  esac\n}\n";
}

std::string bash_kinds(const verb_description& verb) {
  std::string out;
  std::size_t place = 0;
  for (const option_description& o : verb.options) {
    if (o.argument) ++place;
    if (!o.argument && o.value.empty()) continue;
    const std::string names = o.argument ? fmt::format("{}", place) : fmt::format("{}", fmt::join(o.names, "|"));
    out += fmt::format("\n      {}) echo {} ;;", names, shell_quoted(kind_name(o)));
  }
  return out.empty() ? "" : "case $2 in" + out + "\n    esac";
}

// ---- zsh ------------------------------------------------------------------------------------------------------------

/// Text within an argument of _arguments, where some characters have a meaning.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_action(const option_description& o) {
  switch (o.kind) {
    case value_kind::file:
      return "_files";
    case value_kind::folder:
      return "_files -/";
    case value_kind::version:
      return "__icecore_tags";
    case value_kind::hold:
      return "__icecore_holds";
    case value_kind::choice:
      return fmt::format("({})", fmt::join(o.choices, " "));
    case value_kind::text:
      break;
  }
  return "( )";
}

std::string zsh_arguments(const verb_description& verb) {
  std::string out = "_arguments -s";
  std::size_t place = 0;
  for (const option_description& o : verb.options) {
    if (o.argument) {
      ++place;
      const std::string which = o.repeated ? "*" : fmt::format("{}", place);
      out += " \\\n        " + shell_quoted(fmt::format("{}:{}:{}", which, zsh_text(o.names.front()), zsh_action(o)));
      continue;
    }
    const std::string value = o.value.empty() ? "" : fmt::format(":{}:{}", zsh_text(o.value), zsh_action(o));
    for (const std::string& name : o.names) {
      const std::string others = o.repeated ? "*" : fmt::format("({})", fmt::join(o.names, " "));
      out +=
          " \\\n        " + shell_quoted(fmt::format("{}{}[{}]{}", others, name, zsh_text(short_help(o.help)), value));
    }
  }
  return out;
}

void add_zsh_function(std::string& out, const verb_description& verb, const std::string& function) {
  for (const verb_description& inner : verb.verbs) add_zsh_function(out, inner, function + '_' + inner.name);
  out += fmt::format("{}() {{\n", function);
  if (verb.verbs.empty()) {
    out += "  " + zsh_arguments(verb) + "\n}\n";
    return;
  }
  out += "  local state line\n  local -a verbs=(\n";
  for (const verb_description& inner : verb.verbs) {
    out += "    " + shell_quoted(fmt::format("{}:{}", inner.name, short_help(inner.summary))) + '\n';
  }
  out += fmt::format(
      "  )\n  _arguments -C '1:verb:->verb' '*::argument:->arguments'\n  case $state in\n"
      "    verb) _describe verb verbs ;;\n    arguments) (( $+functions[{0}_$line[1]] )) && {0}_$line[1] ;;\n  "
      "esac\n}}\n",
      function);
}

// ---- fish -----------------------------------------------------------------------------------------------------------

/// In single quotes for fish, where a backslash escapes.
std::string fish_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out + '\'';
}

std::string fish_values(const option_description& o) {
  switch (o.kind) {
    case value_kind::file:
      return " -F";
    case value_kind::folder:
      return " -f -a '(__fish_complete_directories)'";
    case value_kind::version:
      return " -f -a '(echo latest; __icecore_names tags)'";
    case value_kind::hold:
      return " -f -a '(__icecore_names holds)'";
    case value_kind::choice:
      return fmt::format(" -f -a {}", fish_quoted(fmt::format("{}", fmt::join(o.choices, " "))));
    case value_kind::text:
      break;
  }
  return " -f";
}

void add_fish_verb(std::string& out, const std::string& words, const verb_description& verb) {
  const std::string condition = fish_quoted("test (__icecore_words) = " + fish_quoted(words));
  const std::string here = fmt::format("complete -c icecore -n {}", condition);
  for (const verb_description& inner : verb.verbs) {
    out += fmt::format("{} -f -a {} -d {}\n", here, inner.name, fish_quoted(short_help(inner.summary)));
  }
  std::size_t place = 0;
  for (const option_description& o : verb.options) {
    if (o.argument) {
      ++place;
      const std::string at = fish_quoted(
          fmt::format("test (__icecore_words) = {}; and test (__icecore_place) = {}", fish_quoted(words), place));
      out += fmt::format("complete -c icecore -n {}{}\n", at, fish_values(o));
      continue;
    }
    out += here;
    for (const std::string& name : o.names) {
      out += name.starts_with("--") ? fmt::format(" -l {}", name.substr(2)) : fmt::format(" -s {}", name.substr(1));
    }
    if (!o.value.empty()) out += " -r" + fish_values(o);
    out += fmt::format(" -d {}\n", fish_quoted(short_help(o.help)));
  }
}

constexpr std::string_view fish_begin = R"fish(# fish completion for icecore; `icecore completion fish` writes it
function __icecore_arguments
    # the words of the line that are neither options nor values of options
    set -l skip 0
    for word in (commandline -opc)[2..-1]
        if test $skip = 1
            set skip 0
        else if string match -q -- '-*' $word
            contains -- $word $__icecore_valued; and set skip 1
        else
            echo -- $word
        end
    end
end
function __icecore_words
    # the verb, or the words of a verb of a group
    set -l words
    for word in (__icecore_arguments)
        contains -- (string join ' ' $words $word) $__icecore_verbs; or break
        set -a words $word
    end
    echo "$words"
end
function __icecore_place
    # the place of the argument that is being written
    set -l words (string split -n ' ' (__icecore_words))
    echo (math (count (__icecore_arguments)) - (count $words) + 1)
end
function __icecore_names
    # of the store on the line: its tags, or its holds
    set -l words (string split -n ' ' (__icecore_words))
    set -l arguments (__icecore_arguments)
    icecore completion $argv[1] $arguments[(math (count $words) + 1)] 2>/dev/null
end
)fish";

}  // namespace

std::string bash_completion(const verb_description& command) {
  std::string out = "# bash completion for icecore; `icecore completion bash` writes it\n";
  out += by_verb("_icecore_verbs", command, [](const verb_description& verb) {
    std::vector<std::string> names;
    names.reserve(verb.verbs.size());
    for (const verb_description& inner : verb.verbs) names.push_back(inner.name);
    return names.empty() ? "" : fmt::format("echo {}", fmt::join(names, " "));
  });
  out += by_verb("_icecore_options", command, [](const verb_description& verb) {
    std::vector<std::string> names;
    for (const option_description& o : verb.options) {
      if (!o.argument) names.insert(names.end(), o.names.begin(), o.names.end());
    }
    return fmt::format("echo '{}'", fmt::join(names, " "));
  });
  out += "# of an option: what its value is, and nothing if it takes none; of a place: what stands there\n";
  out += by_verb("_icecore_kind", command, bash_kinds);
  return out + std::string(bash_rest);
}

std::string zsh_completion(const verb_description& command) {
  std::string out = "#compdef icecore\n# zsh completion for icecore; `icecore completion zsh` writes it\n";
  // _icecore_holds is the function of a verb
  for (const auto& [what, first] : {std::pair("tags", "latest "), std::pair("holds", "")}) {
    out += fmt::format(
        "__icecore_{0}() {{\n  local -a {0}=({1}${{(f)\"$(_call_program {0} icecore completion {0} "
        "${{(Q)line[1]:-$words[2]}} 2>/dev/null)\"}})\n  compadd -a {0}\n}}\n",
        what, first);
  }
  add_zsh_function(out, command, "_icecore");
  return out + "if [ \"$funcstack[1]\" = _icecore ]; then\n  _icecore \"$@\"\nelse\n  compdef _icecore icecore\nfi\n";
}

std::string fish_completion(const verb_description& command) {
  std::string out(fish_begin);
  std::vector<std::string> verbs;
  std::vector<std::string> valued;
  for_each_verb(command, "", [&](const std::string& words, const verb_description& verb) {
    if (!words.empty()) verbs.push_back(fish_quoted(words));
    for (const option_description& o : verb.options) {
      if (!o.argument && !o.value.empty()) valued.insert(valued.end(), o.names.begin(), o.names.end());
    }
  });
  std::ranges::sort(valued);
  valued.erase(std::unique(valued.begin(), valued.end()), valued.end());
  out += fmt::format("set -g __icecore_verbs {}\nset -g __icecore_valued {}\ncomplete -c icecore -f\n",
                     fmt::join(verbs, " "), fmt::join(valued, " "));
  for_each_verb(command, "",
                [&](const std::string& words, const verb_description& verb) { add_fish_verb(out, words, verb); });
  return out;
}

}  // namespace icecore::cli
