// help and completion: what --help says, as text, as manual pages, and for shells.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <utility>

#include "line/command_line.hpp"
#include "line/opening.hpp"
#include "pages/completion.hpp"
#include "pages/manual.hpp"
#include "text/file_error.hpp"
#include "text/output.hpp"

namespace icecore::cli {
namespace {

void write_page(const std::filesystem::path& file, std::string_view text) {
  std::filesystem::create_directories(file.parent_path());
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) fail_on_file(file.string(), "making it");
  output to(descriptor, file.string());
  try {
    to.write(text);
    to.flush();
  } catch (...) {
    ::close(descriptor);
    throw;
  }
  if (::close(descriptor) != 0) fail_on_file(file.string(), "closing it");
}

/// All pages, where they are below a prefix's share/.
void write_pages(const command_line& line, const std::filesystem::path& share) {
  const verb_description all = line.describe();
  for (const auto& [name, text] : manual_pages(all)) write_page(share / "man" / "man1" / name, text);
  write_page(share / "bash-completion" / "completions" / "icecore", bash_completion(all));
  write_page(share / "zsh" / "site-functions" / "_icecore", zsh_completion(all));
  write_page(share / "fish" / "vendor_completions.d" / "icecore.fish", fish_completion(all));
}

enum class completed : std::uint8_t { bash, zsh, fish, tags, holds };

/// For a shell to offer: those that are words.
template <class Named>
void print_names(const std::vector<Named>& all) {
  for (const Named& each : all) {
    const bool plain =
        each.name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+/@%=,-") ==
        std::string::npos;
    if (!each.name.empty() && plain) out().line(each.name);
  }
}

opened_store open_to_complete(std::string_view what, const std::string& store) {
  if (store.empty()) throw error(errc::invalid_argument, fmt::format("completion {}: STORE is missing", what));
  return open_to_read(store);
}

exit_code complete(const command_line& line, completed what, const std::string& store) {
  switch (what) {
    case completed::bash:
      out().write(bash_completion(line.describe()));
      break;
    case completed::zsh:
      out().write(zsh_completion(line.describe()));
      break;
    case completed::fish:
      out().write(fish_completion(line.describe()));
      break;
    case completed::tags:
      print_names(open_to_complete("tags", store).tags());
      break;
    case completed::holds:
      print_names(open_to_complete("holds", store).held_versions());
      break;
  }
  return exit_code::ok;
}

}  // namespace

void add_help_verb(command_line& line) {
  struct help_arguments {
    std::vector<std::string> verb;
    std::string share;
  };
  const auto asked = std::make_shared<help_arguments>();
  verb verb = line.add_verb("help", "Show what icecore can do, or a verb's options and examples",
                            "  icecore help\n"
                            "  icecore help put              # the same as icecore put --help\n"
                            "  icecore help query start\n"
                            "  icecore help --write-pages ~/.local/share");
  const option names = verb.add_arguments("VERB", asked->verb, "The verb; of query, a second one");
  verb.add_option("--write-pages", asked->share,
                  "Write the manual pages, and what bash, zsh and fish complete, below this folder, such as "
                  "/usr/local/share, as installing icecore does")
      .type_name("DIR")
      .completes(value_kind::folder)
      .excludes(names);
  verb.runs([asked, &line] {
    if (asked->share.empty()) {
      out().write(line.help_of(asked->verb));
    } else {
      write_pages(line, asked->share);
    }
    return exit_code::ok;
  });
}

void add_completion_verb(command_line& line) {
  struct completion_arguments {
    completed what = completed::bash;
    std::string store;
  };
  const auto a = std::make_shared<completion_arguments>();
  verb verb = line.add_verb("completion", "Write what a shell needs to complete verbs, options, files, tags and holds",
                            "  source <(icecore completion bash)\n"
                            "  source <(icecore completion zsh)\n"
                            "  icecore completion fish | source\n"
                            "  icecore completion tags model.ice        # what is offered where a version stands\n"
                            "Installing icecore puts the scripts where these shells look for them.");
  verb.add_choice("WHAT", a->what,
                  {{"bash", completed::bash},
                   {"zsh", completed::zsh},
                   {"fish", completed::fish},
                   {"tags", completed::tags},
                   {"holds", completed::holds}},
                  "The shell; or tags or holds, for the names of those of a store, one a line")
      .required()
      .type_name("");
  verb.add_option("STORE", a->store, "With tags and holds: the store's file").type_name("").completes(value_kind::file);
  verb.runs([a, &line] { return complete(line, a->what, a->store); });
}

}  // namespace icecore::cli
