// Loads the history of a git repository as versions of a store: one tag per commit.
#pragma once

#include <string>

#include "line/arguments.hpp"
#include "line/exit_code.hpp"

namespace icecore::cli {

struct git_load_arguments {
  std::string store;
  std::string repository;
  std::string ref = "HEAD";
  write_arguments write;
  unsigned threads = 0;  ///< threads that read the repository; 0: all cores
  cli::format format = cli::format::table;
};

/// Loads the first-parent chain of a ref, from its root or from where an earlier load ended. Each commit is one atomic
/// batch followed by one tag, so a killed load reaches the same result when it is started again.
[[nodiscard]] exit_code load_git(const git_load_arguments& arguments);

}  // namespace icecore::cli
