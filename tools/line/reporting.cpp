#include "line/reporting.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>

#include "icecore/error.hpp"
#include "line/wording.hpp"
#include "text/output.hpp"

namespace icecore::cli {
namespace {

exit_code run_and_flush(const std::function<exit_code()>& call) {
  try {
    const exit_code code = call();
    out().flush();
    return code;
  } catch (const error&) {
    out().flush();  // write what was found before the failure
    throw;
  }
}

}  // namespace

exit_code reported(const std::function<exit_code()>& call) {
  try {
    return run_and_flush(call);
  } catch (const closed_pipe&) {
    throw;
  } catch (const interrupted_output&) {
    throw;
  } catch (const error& e) {
    fmt::print(stderr, "icecore: {}\n", in_words_of_the_command(e.message()));
    return exit_code_of(static_cast<errc>(e.code().value()));
  } catch (const std::filesystem::filesystem_error& e) {
    fmt::print(stderr, "icecore: {}: {}\n", e.path1().string(), e.code().message());
    return exit_code::io;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "icecore: out of memory; close other programs or raise the limit (ulimit -v)\n");
  } catch (const std::exception& e) {
    fmt::print(stderr, "icecore: unexpected: {}\n", e.what());
  }
  return exit_code::internal;
}

}  // namespace icecore::cli
