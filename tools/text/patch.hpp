// The difference of two values as a patch, line by line, in the form that `git apply` reads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "text/output.hpp"

namespace icecore::cli {

struct patch_form {
  std::uint32_t context_lines = 3;  ///< unchanged lines around each change
  bool coloured = false;
};

/// Writes how the value of `key` changed; an empty optional: the key was not there. Of values that are no text
/// (text.hpp), and of those over 64 MiB, it says only that they differ. Source: the algorithm is that of libgit2 (E.
/// Myers, "An O(ND) Difference Algorithm and Its Variations", 1986).
void write_patch(output& to, std::string_view key, std::optional<std::string_view> before,
                 std::optional<std::string_view> after, const patch_form& form);

}  // namespace icecore::cli
