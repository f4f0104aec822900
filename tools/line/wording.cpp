#include "line/wording.hpp"

#include <string_view>
#include <utility>

namespace icecore::cli {
namespace {

constexpr std::pair<std::string_view, std::string_view> wordings[] = {
    {"to make one, open it for writing with creation allowed",
     "`icecore put` makes one, `icecore load` makes one from a dump or a git repository"},
    {"is empty; open it for writing first", "is empty; `icecore put` makes a store of it"},
    {"is empty, and creating a store was not asked for", "is empty; `icecore put` makes a store of it"},
    {"was cut off here; open it for writing first", "was cut off here; `icecore put` completes it"},
    {"was cut off here, and creating one was not asked for", "was cut off here; `icecore put` completes it"},
    {"durability none, or ask for emulation", "--durability none, or --emulate-durability"},
    {"; tag() closes it", "; `icecore tag` closes it"},
    {"close that, or open for reading too", "wait until it ends; verbs that only read may run meanwhile"},
};

/// "(options::crash, --crash)" becomes "(--crash)".
void take_away_option_names(std::string& message) {
  constexpr std::string_view opening = "(options::";
  for (auto at = message.find(opening); at != std::string::npos; at = message.find(opening, at + 1)) {
    const auto end = message.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", at + opening.size());
    constexpr std::string_view between = ", --";
    if (end != std::string::npos && message.compare(end, between.size(), between) == 0) {
      message.erase(at + 1, end + 2 - (at + 1));
    }
  }
}

}  // namespace

std::string in_words_of_the_command(std::string message) {
  for (const auto& [library, command] : wordings) {
    if (const auto at = message.find(library); at != std::string::npos) message.replace(at, library.size(), command);
  }
  take_away_option_names(message);
  return message;
}

}  // namespace icecore::cli
