// put --many: the lines of a file, each a key and its value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "input/many_lines.hpp"
#include "line/arguments.hpp"
#include "line/exit_code.hpp"

namespace icecore::cli {

struct put_many_arguments {
  std::string file;  ///< "-": standard input
  bool json = false;
  bool tsv = false;
  std::uint64_t batch = 0;  ///< lines that are written at one instant; 0: all
};

/// Writes the lines to the store, which is made if it does not exist. Reads and checks all lines of a batch before it
/// writes any of them; a failure says which lines are in the store. Memory: a batch.
exit_code put_many(const std::string& store, const put_many_arguments& many, const write_arguments& write,
                   const hex_arguments& hex, format as);

}  // namespace icecore::cli
