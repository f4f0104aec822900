// Whether a writer waits for another one by reading.
#pragma once

#include <array>

#include "fibers.hpp"

namespace icecore::crash {

/// Of one writer: it waits if it gives its core away, or has been reading the same few words for a while.
class spinning {
 public:
  void reset() noexcept { count_ = 0; }

  /// Takes in its next step; whether it waits.
  bool repeats(const step& s) noexcept {
    if (s.at == nullptr && s.writes) return true;
    if (s.writes || s.at == nullptr) {
      count_ = 0;
      return false;
    }
    last_[count_++ % length] = s.at;
    if (count_ < length) return false;
    for (const unsigned period : {1U, 2U, 3U}) {
      bool same = true;
      for (unsigned i = 0; i + period < length && same; ++i) {
        same = last_[(count_ + i) % length] == last_[(count_ + i + period) % length];
      }
      if (same) return true;
    }
    return false;
  }

 private:
  static constexpr unsigned length = 12;
  std::array<const volatile void*, length> last_{};
  unsigned count_ = 0;
};

}  // namespace icecore::crash
