// Shows standard output page by page, as git does.
//
//   pager pages;                      // starts it, if standard output is a terminal
//   ... out().line(...);
//   pages.finish();                   // waits until the reader has left it
//
// The program is that of PAGER, or less. An empty PAGER, or cat, means none. One object at a time.
#pragma once

#include <sys/types.h>

namespace icecore::cli {

class pager {
 public:
  explicit pager(bool wanted);
  /// Writes what is left, as far as that is possible, and waits.
  ~pager();
  pager(const pager&) = delete;
  pager& operator=(const pager&) = delete;

  /// closed_pipe if the reader has left it early.
  void finish();

 private:
  void stop() noexcept;

  pid_t process_ = -1;
  int terminal_ = -1;  ///< what standard output was
};

}  // namespace icecore::cli
