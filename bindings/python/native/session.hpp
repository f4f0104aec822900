// One open store in Python: who may use it now, and when it is closed.
//
// The Python objects made from one icecore.open() share a session: the store, its snapshots and iterators. Views of
// values do not belong to it. Each holds a pin (icecore/pin.hpp), which keeps its bytes mapped by itself.
//
// Invariants:
//   S1. The store is closed or destroyed only when no call is running without the GIL (calls.hpp).
//   S2. After close() every use() throws, and after a fork, unless the store is open for reading: then the child opens
//       it anew at the first use. Snapshots of one open for writing go on in the child with a store that is open for
//       reading beside the parent. What was read before stays valid as long as its pin lives.
//   S3. Members change only while the GIL is held.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "calls.hpp"
#include "icecore/icecore.hpp"

namespace icecore::python {

/// Copying or checking fewer bytes than this takes less time than releasing and retaking the GIL.
inline constexpr std::size_t gil_bytes_min = 16 * 1024;

class session : public running_calls {
 public:
  /// Opens the store. Call it without the GIL: recovery may take seconds.
  session(const std::filesystem::path& path, const options& opening);
  /// One for reading that is opened at its first use: it was sent here by another process.
  struct at_first_use {};
  session(const std::filesystem::path& path, const options& opening, at_first_use);
  ~session();
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  /// The store, for use while the GIL is held or inside `without_gil`. errc::closed, errc::forked; where it is opened
  /// now, what opening may throw.
  icecore::store& use() {
    if (closed_ || forked()) open_in_this_process();
    return *store_;
  }
  /// Whether this is a child of the process that has the store open for writing.
  [[nodiscard]] bool is_of_writing_parent() const noexcept { return beside_parent_ && !closed_ && forked(); }
  /// In such a child: the store open for reading beside the parent, at the first use. The caller holds the GIL.
  [[nodiscard]] const std::shared_ptr<session>& beside_parent();
  /// How often it was opened: what was made from another opening belongs to another process.
  [[nodiscard]] std::uint64_t openings() const noexcept { return openings_; }
  [[noreturn]] void refuse_what_was_inherited() const;
  /// Returns when a version can be read that the process that writes has closed, but perhaps not settled yet; or after
  /// some seconds. The caller holds the GIL, which is released meanwhile.
  void await_settled(icecore::version wanted);

  /// Refuses all further use, waits for the running calls, then closes the store. Closing twice does nothing.
  void close();

  [[nodiscard]] bool closed() const noexcept { return closed_; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  /// Every write waits for the device (operation durability on a block device).
  [[nodiscard]] bool writes_block() const noexcept { return writes_block_; }
  /// Whether a find may take long: it may meet a large value that has not been checked yet, or, if writes block, a
  /// record that must become durable before any reader sees it.
  [[nodiscard]] bool finds_block() const noexcept { return finds_block_; }
  /// The caller passes the size of each value found: a store opened with large values may have more that are unchecked.
  void found(std::size_t value_size) noexcept {
    if (value_size >= gil_bytes_min && has_unread_values_) finds_block_ = true;
  }

 private:
  [[noreturn]] void refuse() const;
  void open_in_this_process();
  [[nodiscard]] bool forked() const noexcept { return fork_generation_ != fork_generation(); }
  void foresee_blocking(bool attached);

  std::filesystem::path path_;
  std::optional<icecore::store> store_;
  std::optional<options> for_reading_;    // how to open it in another process, if that may be done
  std::optional<options> beside_parent_;  // of a store open for writing: how a child may read it
  std::shared_ptr<session> reader_;       // in a child
  std::uint64_t fork_generation_;
  std::uint64_t openings_ = 1;
  bool closed_ = false;
  bool writes_block_ = false;
  bool finds_block_ = false;
  bool has_unread_values_ = false;  // there were enough at opening for one of them to be large
};

/// Runs `call` without the GIL if `worth_it`, else with it.
template <typename Call>
auto maybe_without_gil(session& used, bool worth_it, const Call& call) {
  if (!worth_it) return call();
  const without_gil released(used);
  return call();
}

/// Runs a find, without the GIL if it may take long. Another thread may close the store before the answer is used: the
/// value keeps its bytes valid.
template <typename Find>
std::optional<value> find_value(session& used, const Find& find) {
  icecore::store& store = used.use();
  std::optional<value> found =
      maybe_without_gil(used, used.finds_block(), [&]() -> std::optional<value> { return find(store); });
  if (found) used.found(found->size());
  return found;
}

}  // namespace icecore::python
