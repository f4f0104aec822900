// The error of a thread's last call, and how calls turn exceptions into results.
//
//   // returns PAPYRUSKV_OK, or keeps the reason and returns PAPYRUSKV_ERR
//   return papyruskv::call("papyruskv_close", [&] { close(db); });
#pragma once

#include <exception>

#include "papyrus/kv.h"

namespace papyruskv {

/// Keeps the reason why `function` fails, and writes it to standard error if PAPYRUSKV_LOG is set. Returns
/// PAPYRUSKV_ERR.
int failed(const char* function, const char* reason) noexcept;
/// Passes on the result of a call that all others depend on. A program that ignores results would continue and seem to
/// succeed, so the reason is written to standard error even without PAPYRUSKV_LOG: by rank 0 only if all ranks failed
/// for the same reason.
int refused(int result, bool same_on_all) noexcept;
[[nodiscard]] const char* last_error() noexcept;

/// Runs `work`; an exception becomes PAPYRUSKV_ERR.
template <typename Work>
int call(const char* function, Work&& work) noexcept {
  try {
    work();
    return PAPYRUSKV_OK;
  } catch (const std::exception& e) {
    return failed(function, e.what());
  } catch (...) {  // a caller's function in C++ may throw anything
    return failed(function, "an exception was thrown that is not a std::exception");
  }
}

}  // namespace papyruskv
