// Promises about versions and errors, of scripts.
#pragma once

#include <chrono>
#include <string>

#include "icecore/error.hpp"
#include "support/model.hpp"

namespace icecore::testing {

[[nodiscard]] inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

inline void promise_version(const char* what, version found, version wanted) {
  promise(found == wanted, [&] {
    return std::string(what) + " returned version " + std::to_string(found) + " instead of " + std::to_string(wanted);
  });
}

template <class Call>
void promise_error(const char* what, errc wanted, const Call& call) {
  try {
    call();
  } catch (const error& failure) {
    promise(failure.code() == wanted, [&] {
      return std::string(what) + ": error " + std::to_string(failure.code().value()) + " (" + failure.what() +
             ") instead of " + std::to_string(static_cast<int>(wanted));
    });
    return;
  }
  throw broken_promise(std::string(what) + ": no error");
}

}  // namespace icecore::testing
