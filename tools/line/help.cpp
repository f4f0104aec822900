// help: what --help says, by the verb's name.
#include <memory>

#include "line/command_line.hpp"
#include "text/output.hpp"

namespace icecore::cli {

void add_help_verb(command_line& line) {
  const auto asked = std::make_shared<std::vector<std::string>>();
  verb verb = line.add_verb("help", "Show what icecore can do, or a verb's options and examples",
                            "  icecore help\n"
                            "  icecore help put              # the same as icecore put --help\n"
                            "  icecore help query start");
  verb.add_arguments("VERB", *asked, "The verb; of query, a second one");
  verb.runs([asked, &line] {
    out().write(line.help_of(*asked));
    return exit_code::ok;
  });
}

}  // namespace icecore::cli
