// Expecting an icecore::error.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "icecore/error.hpp"

namespace icecore {

/// Makes a failed comparison show the code.
inline void PrintTo(errc code, std::ostream* out) { *out << "errc " << static_cast<int>(code); }

}  // namespace icecore

namespace icecore::testing {

/// Expects `call` to throw an icecore::error of this code whose message holds `part`.
template <class Call>
void expect_error(errc code, const std::string& part, const Call& call) {
  try {
    call();
  } catch (const error& failure) {
    EXPECT_EQ(failure.code().value(), static_cast<int>(code)) << failure.what();
    EXPECT_NE(failure.message().find(part), std::string::npos)
        << "\"" << part << "\" is missing in: " << failure.message();
    EXPECT_GT(failure.message().size(), 10U) << "not a clear message: " << failure.message();
    return;
  }
  ADD_FAILURE() << "no error instead of " << static_cast<int>(code);
}

/// Expects one of the answers that an opening with accepted damage may give for a key: its newest value, nothing, or
/// errc::damaged. Nothing older.
template <class Store>
void expect_newest_or_nothing(const Store& from, const std::string& key, const std::string& newest_value) {
  try {
    const auto found = from.find(key);
    EXPECT_TRUE(!found || *found == newest_value) << key << " is " << *found;
  } catch (const error& failure) {
    EXPECT_EQ(failure.code(), errc::damaged) << failure.message();
  }
}

}  // namespace icecore::testing
