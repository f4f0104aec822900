// The library's messages in the words of the command line.
#pragma once

#include <string>

namespace icecore::cli {

/// The library says what to do in terms of its calls and options, which someone at a shell does not have. This names
/// the verb or the option of the command in their place. Other messages stay as they are.
[[nodiscard]] std::string in_words_of_the_command(std::string message);

}  // namespace icecore::cli
