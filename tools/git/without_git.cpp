// The parts of the command that need libgit2, where the command is built without it (ICECORE_GIT=OFF): each says so.
#include <string>

#include "git/git_load.hpp"
#include "icecore/error.hpp"
#include "text/patch.hpp"

namespace icecore::cli {
namespace {

[[noreturn]] void fail_without_git(const char* what) {
  throw error(errc::invalid_argument,
              std::string(what) +
                  " needs libgit2, and this icecore was built without it, as the one in a Python wheel "
                  "is: use the Debian package, or build the command from the sources with ICECORE_GIT=ON");
}

}  // namespace

exit_code load_git(const git_load_arguments&) { fail_without_git("load --git"); }

void write_patch(output&, std::string_view, std::optional<std::string_view>, std::optional<std::string_view>,
                 const patch_form&) {
  fail_without_git("diff --patch");
}

}  // namespace icecore::cli
