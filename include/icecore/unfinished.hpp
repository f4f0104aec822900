// A store that gets its name only when it is complete: a partly written store never has the name.
//
//   icecore::unfinished_store making("model.ice", ".loading");
//   { icecore::store s(making.path(), ...);  ...fill...  s.close(); }
//   making.finish(icecore::replacing::refused);          // durable: now it is model.ice
//
// Threads: one. If two processes make the same store, the second fails with errc::locked.
// Durability: the name is durable when finish() returns; the content is as durable as closing the store made it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace [[gnu::visibility("default")]] icecore {

/// Whether a file that has the name already may be replaced.
enum class replacing : std::uint8_t { refused, allowed };

class unfinished_store {
 public:
  /// The caller writes the store at path(), which is `final_name` followed by `suffix`. The constructor removes what a
  /// killed process left there. errc::locked if another process is writing it now.
  unfinished_store(std::filesystem::path final_name, std::string_view suffix);
  /// Removes the file unless it is finished.
  ~unfinished_store();
  unfinished_store(const unfinished_store&) = delete;
  unfinished_store& operator=(const unfinished_store&) = delete;

  /// Where to write the store.
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  /// Gives the closed store its name, durably. errc::store_exists if something has the name and replacing is refused
  /// (then nothing is renamed); errc::io, permission.
  void finish(replacing how);

 private:
  std::filesystem::path final_name_;
  std::filesystem::path path_;
  bool finished_ = false;
};

}  // namespace icecore
