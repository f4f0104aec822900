// The macros of SKV's logger that its example programs use: a line of text when a condition holds, and assertions.
//
//   BegLogLine(1) << "status: " << skv_status_to_string(status) << EndLogLine;
//   StrongAssertLogLine(status == SKV_SUCCESS) << "it failed" << EndLogLine;        // prints, then aborts
//
// Lines go to the standard output, each at once. Threads: any number. Cost: what is behind a condition that does not
// hold (for assertions: that holds) is not evaluated. SKV's include folder of its logger was on the path of its
// programs: add -I .../include/skv/fxlogger.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>

namespace skv_logger {

/// One line, which is printed when it ends.
class line {
 public:
  line(const char* file, int number, bool aborts) : aborts_(aborts) { text_ << file << '(' << number << "): "; }
  line(const line&) = delete;
  line& operator=(const line&) = delete;
  ~line() {
    text_ << '\n';
    const std::string all = text_.str();
    std::fwrite(all.data(), 1, all.size(), stdout);
    std::fflush(stdout);
    if (aborts_) std::abort();
  }
  template <class Type>
  line& operator<<(const Type& value) {
    text_ << value;
    return *this;
  }

 private:
  std::ostringstream text_;
  bool aborts_;
};

}  // namespace skv_logger

#define BegLogLine(MyLogMask) \
  if (!(MyLogMask)) {         \
  } else                      \
    ::skv_logger::line(__FILE__, __LINE__, false)
#define StrongAssertLogLine(MyAssertCond) \
  if (MyAssertCond) {                     \
  } else                                  \
    ::skv_logger::line(__FILE__, __LINE__, true)
#define AssertLogLine(MyAssertCond) StrongAssertLogLine(MyAssertCond)
#define EndLogLine ""
