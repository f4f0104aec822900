// A store that one process opens and shares, and others attach to.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "icecore/icecore.hpp"
#include "support/model.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {

class SharedStore : public ::testing::TestWithParam<setting> {
 protected:
  /// For the process that opens it.
  [[nodiscard]] options first() const {
    options opening = GetParam().options_at(path_);
    opening.shared_as = common_;
    return opening;
  }
  /// For those that attach to it.
  [[nodiscard]] options beside() const {
    options opening;
    opening.access = access::attached;
    opening.shared_as = common_;
    return opening;
  }

  /// Waits until the processes, which share `log`, have come to this step of it.
  template <class Signals>
  static void wait_for(const shared<Signals>& log, int step) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (log->step < step) {
      promise(std::chrono::steady_clock::now() < end, [] { return std::string("the others do not come so far"); });
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

  scratch folder_{GetParam().where};
  scratch memory_{place::tmpfs};
  std::filesystem::path path_ = folder_ / "one.ice";
  std::filesystem::path common_ = memory_ / "common";
};

}  // namespace icecore::testing
