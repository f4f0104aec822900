// What the servers of a group do together, step by step: no server goes on where another one has failed, and none waits
// for one that has left.
//
//   steps together(link);                       // nullptr: this server stands alone
//   together.attempt([&] { make_folder(); });
//   together.agree();                           // throws at all servers if one of them has failed
//   open_on_all_servers();                      // collective: all servers are here
//
// Whoever calls something that all servers call together (open(), close(), hold(), take()) first agrees on what might
// have kept a server from being here. Work of several parts whose collective calls never fail may be one step:
// attempt() does not throw, and keeps the first failure. Threads: one. Errors of agree(): that of the first server that
// failed.
#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <utility>

#include "service/group_link.hpp"

namespace icecore::service {

class steps {
 public:
  using agree_function = std::function<void(const std::optional<failure>& mine)>;

  explicit steps(group_link* link) {
    if (link != nullptr) {
      agree_ = [link](const std::optional<failure>& mine) { link->agree(mine); };
    } else {
      agree_ = [](const std::optional<failure>& mine) {
        if (mine) raise(*mine);
      };
    }
  }
  explicit steps(agree_function with_all) : agree_(std::move(with_all)) {}

  template <typename What>
  void attempt(const What& what) noexcept {
    try {
      what();
    } catch (...) {
      if (!failed_) failed_ = failure_of(std::current_exception());
    }
  }
  [[nodiscard]] bool failed() const noexcept { return failed_.has_value(); }
  void agree() { agree_(std::exchange(failed_, std::nullopt)); }
  /// A whole step.
  template <typename What>
  void agree(const What& what) {
    attempt(what);
    agree();
  }

 private:
  agree_function agree_;
  std::optional<failure> failed_;
};

}  // namespace icecore::service
