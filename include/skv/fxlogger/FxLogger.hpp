// The macros of SKV's logger that its example programs use: a line of text when a condition holds, and assertions.
//
//   BegLogLine(1) << "status: " << skv_status_to_string(status) << EndLogLine;
//   StrongAssertLogLine(status == SKV_SUCCESS) << "it failed" << EndLogLine;        // prints, then aborts
//
// Lines go to the standard output, each at once. Threads: any number. Cost: what is behind a condition that does not
// hold (for assertions: that holds) is not evaluated. SKV's include folder of its logger was on the path of its
// programs: add -I .../include/skv/fxlogger.
#pragma once

// SKV's programs also got what these headers declare.
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>

/// How the next number of a line is printed, in printf's words: FormatString("%08X") << number.
class FormatString {
 public:
  explicit FormatString(const char* format) : format_(format) {}
  const char* format() const { return format_; }

 private:
  const char* format_;
};

/// Bytes of a line, as hexadecimal digits.
class HexDump {
 public:
  HexDump(const void* bytes, int size) : bytes_(static_cast<const unsigned char*>(bytes)), size_(size) {}
  std::string text() const {
    static const char digits[] = "0123456789abcdef";
    std::string all;
    for (int i = 0; i < size_; ++i) all.append(1, digits[bytes_[i] >> 4]).append(1, digits[bytes_[i] & 15]);
    return all;
  }

 private:
  const unsigned char* bytes_;
  int size_;
};

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
  line& operator<<(const FormatString& format) {
    format_ = format.format();
    return *this;
  }
  line& operator<<(const HexDump& bytes) { return *this << bytes.text(); }
  line& operator<<(long long value) { return number(value); }
  line& operator<<(long value) { return number(value); }
  line& operator<<(int value) { return number(value); }
  line& operator<<(unsigned long long value) { return number(value); }
  line& operator<<(unsigned long value) { return number(value); }
  line& operator<<(unsigned value) { return number(value); }
  line& operator<<(double value) { return number(value); }
  template <class Type>
  line& operator<<(const Type& value) {
    text_ << value;
    return *this;
  }

 private:
  template <class Number>
  line& number(Number value) {
    if (format_ == nullptr) {
      text_ << value;
      return *this;
    }
    char printed[128];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
    std::snprintf(printed, sizeof printed, format_, value);
#pragma GCC diagnostic pop
    format_ = nullptr;
    text_ << printed;
    return *this;
  }

  std::ostringstream text_;
  const char* format_ = nullptr;  // of the next number
  bool aborts_;
};

}  // namespace skv_logger

/// SKV's programs begin with it; this logger needs nothing.
inline void FxLogger_Init(const char* /*program*/, unsigned long long /*unused*/ = 0) {}

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
