// A folder for one test, and a check of the error that a failing call reports.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>

#include "icecore/error.hpp"

namespace icecore::testing {

/// A new folder; the destructor removes it with its content.
class scratch_folder {
 public:
  scratch_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "icecore-pool-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder could be made");
    path_ = name;
  }
  ~scratch_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;

  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// Expects `call` to fail with this code and a message that has `part` in it.
inline void expect_failure(errc code, const std::string& part, const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "nothing failed, where '" << part << "' was expected";
  } catch (const error& failure) {
    EXPECT_EQ(static_cast<errc>(failure.code().value()), code) << failure.what();
    EXPECT_NE(failure.message().find(part), std::string::npos) << failure.what();
  }
}

}  // namespace icecore::testing
