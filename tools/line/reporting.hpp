// How the command says that something failed.
#pragma once

#include <functional>

#include "line/exit_code.hpp"

namespace icecore::cli {

/// Makes the call and writes what it printed. What it throws is told on standard error, in words of the command; only
/// closed_pipe and interrupted_output are passed on.
[[nodiscard]] exit_code reported(const std::function<exit_code()>& call);

}  // namespace icecore::cli
