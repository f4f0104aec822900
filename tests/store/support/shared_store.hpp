// A store that one process opens and shares, and others attach to.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>

#include "icecore/icecore.hpp"
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

  scratch folder_{GetParam().where};
  scratch memory_{place::tmpfs};
  std::filesystem::path path_ = folder_ / "one.ice";
  std::filesystem::path common_ = memory_ / "common";
};

}  // namespace icecore::testing
