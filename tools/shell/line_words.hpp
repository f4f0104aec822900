// The words of a line of `icecore shell`, as a POSIX shell splits them, without what begins with $ or `.
//
//   split("put 'a key' \"a \\\"value\\\"\" x\\ y")      // {"put", "a key", "a \"value\"", "x y"}
//   split("# a remark")                              // {}
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace icecore::cli {

/// errc::invalid_argument if a quote is not closed, or a backslash is last.
[[nodiscard]] std::vector<std::string> split(std::string_view line);

/// `word` as split() takes it for one word; as it is, if that does.
[[nodiscard]] std::string quoted(std::string_view word);

}  // namespace icecore::cli
