// What is wrong with the machine on which a server runs: failing_machine.cpp does it.
//
//   failing_machine machine(folder / "machine");
//   ways::server_process server(folder, {.in_child = machine.for_child()});
//   machine.set("sync-fails");  ...  machine.mend("sync-fails");
//
// Threads: one. Lifetime: none; the folder stays.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>

namespace icecore::testing {

class failing_machine {
 public:
  explicit failing_machine(std::filesystem::path folder) : folder_(std::move(folder)) {
    std::filesystem::create_directories(folder_);
  }
  /// Called in the child, before it becomes the server.
  [[nodiscard]] std::function<void()> for_child() const {
    return [folder = folder_.native()] {
      ::setenv("ICECORE_TEST_MACHINE", folder.c_str(), 1);
      ::setenv("LD_PRELOAD", ICECORE_FAILING_MACHINE, 1);
    };
  }
  /// Takes effect at once, as a whole: the file gets its name when it is written.
  void set(const std::string& what, const std::string& number = "1") const {
    std::ofstream(folder_ / "new") << number;
    std::filesystem::rename(folder_ / "new", folder_ / what);
  }
  void mend(const std::string& what) const { std::filesystem::remove(folder_ / what); }

 private:
  std::filesystem::path folder_;
};

}  // namespace icecore::testing
