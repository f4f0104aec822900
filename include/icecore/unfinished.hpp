// A store that gets its name only when it is whole: nothing that is partly written ever has it.
//
//   icecore::unfinished_store making("model.ice", ".loading");
//   { icecore::store s(making.path(), ...);  ...fill...  s.close(); }
//   making.finish(icecore::replacing::refused);          // durable: now it is model.ice
//
// Threads: one. Two processes that make the same store: the second fails with errc::locked.
// Durability: the name is durable when finish() returns; the content as the store's close made it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace [[gnu::visibility("default")]] icecore {

/// Whether a file that has the name already may be replaced.
enum class replacing : std::uint8_t { refused, allowed };

class unfinished_store {
 public:
  /// The store is written at `final_name` with `suffix` behind it. What a process that was killed has left there is
  /// removed. errc::locked if another one is just writing it.
  unfinished_store(std::filesystem::path final_name, std::string_view suffix);
  /// Removes the file unless it is finished.
  ~unfinished_store();
  unfinished_store(const unfinished_store&) = delete;
  unfinished_store& operator=(const unfinished_store&) = delete;

  /// Where to write it.
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  /// Gives the closed store its name, durably. errc::store_exists, and the name is not taken, if something has it and
  /// replacing is refused; errc::io, permission.
  void finish(replacing how);

 private:
  std::filesystem::path final_name_;
  std::filesystem::path path_;
  bool finished_ = false;
};

}  // namespace icecore
