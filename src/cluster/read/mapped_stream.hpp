// The items of a store that this process has open: a cursor and a bound, without copies.
//
// Threads: one at a time.
#pragma once

#include <optional>
#include <string>

#include "cluster/read/item_stream.hpp"

namespace icecore::mpi {

class mapped_stream final : public item_stream {
 public:
  mapped_stream(const snapshot& of, const scan_request& wanted)
      : at_(of.cursor()), from_(wanted.from), to_(wanted.to), backward_(wanted.backward) {
    if (backward_) {
      to_ ? at_.seek_before(*to_) : at_.seek_last();
    } else {
      wanted.after ? at_.seek_after(from_) : at_.seek(from_);
    }
  }

  [[nodiscard]] bool valid() override {
    return at_.valid() && (backward_ ? at_->key >= from_ : !(to_ && at_->key >= *to_));
  }
  [[nodiscard]] item current() const override { return *at_; }
  void next() override { backward_ ? at_.previous() : at_.next(); }

 private:
  cursor at_;
  std::string from_;
  std::optional<std::string> to_;
  bool backward_;
};

}  // namespace icecore::mpi
