// What went wrong in a thread's last call, and how calls come to their results.
//
//   return papyruskv::call("papyruskv_close", [&] { close(db); });   // PAPYRUSKV_OK, or PAPYRUSKV_ERR with the reason
//   kept
#pragma once

#include <exception>

#include "papyrus/kv.h"

namespace papyruskv {

/// Keeps why `function` fails, and writes it to standard error if PAPYRUSKV_LOG asks for that. Returns PAPYRUSKV_ERR.
int failed(const char* function, const char* reason) noexcept;
/// Passes on the result of a call without which no other works. A program that looks at no result would go on and seem
/// to succeed, so the reason is written to standard error also where PAPYRUSKV_LOG does not ask for it: by rank 0 alone
/// if all ranks failed for the same reason.
int refused(int result, bool same_on_all) noexcept;
[[nodiscard]] const char* last_error() noexcept;

/// Runs `work`; what it throws becomes PAPYRUSKV_ERR.
template <typename Work>
int call(const char* function, Work&& work) noexcept {
  try {
    work();
    return PAPYRUSKV_OK;
  } catch (const std::exception& e) {
    return failed(function, e.what());
  } catch (...) {  // a caller's function in C++ may throw anything
    return failed(function, "something that is no std::exception was thrown");
  }
}

}  // namespace papyruskv
