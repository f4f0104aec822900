// An iteration over one rank's keys, as papyruskv_iter_local gives it.
#pragma once

#include <string>

#include "icecore/store.hpp"
#include "papyrus/kv.h"

namespace papyruskv {

class iteration {
 public:
  /// Begins at the first key.
  explicit iteration(const icecore::snapshot& keys) : at_(keys.cursor()) {
    at_.seek_first();
    show();
  }
  iteration(const iteration&) = delete;
  iteration& operator=(const iteration&) = delete;

  [[nodiscard]] bool valid() const noexcept { return at_.valid(); }
  void next() {
    at_.next();
    show();
  }
  /// What the caller sees: copies, which it may change.
  [[nodiscard]] papyruskv_iter_t shown() noexcept { return &shown_; }

 private:
  void show() {
    if (!at_.valid()) return;
    key_ = at_->key;
    value_ = at_->value;
    shown_ = {key_.data(), key_.size(), value_.data(), value_.size(), this};
  }

  icecore::cursor at_;
  std::string key_;
  std::string value_;
  _papyruskv_iter_t shown_{};
};

}  // namespace papyruskv
