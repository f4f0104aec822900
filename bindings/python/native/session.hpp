// One open store in Python: who may use it now, and when its file may be released.
//
// The Python objects made from one icecore.open() share a session: the store, its snapshots, iterators and views.
//
// Invariants:
//   S1. `store_` is released only when no call is running without the GIL (calls.hpp) and no view of a value is alive
//       (views_ == 0). So memory that Python can still reach is never unmapped.
//   S2. After close() or a fork every use() throws, so only views survive a close.
//   S3. Members change only while the GIL is held.
//   S4. States change from open to closing to closed, or from open to closing to lingering to closed, and never back.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include "calls.hpp"
#include "icecore/icecore.hpp"

namespace icecore::python {

/// Copying or checking fewer bytes than this takes less time than releasing and retaking the GIL.
inline constexpr std::size_t gil_bytes_min = 16 * 1024;

class session : public running_calls {
 public:
  /// Opens the store. Call it without the GIL: recovery may take seconds.
  session(const std::filesystem::path& path, const options& opening);
  ~session();
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  /// The store, for use while the GIL is held or inside `without_gil`. errc::closed, errc::forked.
  icecore::store& use() {
    if (state_ != state::open || forked()) refuse();
    return *store_;
  }

  /// Refuses all further use, waits for the running calls, then closes the store. If views of its values are alive, it
  /// only syncs the store, and the last view closes it. Closing twice does nothing.
  void close();

  [[nodiscard]] bool closed() const noexcept { return state_ != state::open; }
  /// Closed, but the file is still held because of living views.
  [[nodiscard]] bool lingering() const noexcept { return state_ == state::lingering; }
  [[nodiscard]] std::size_t views() const noexcept { return views_; }
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
  friend class value_view;

  enum class state : std::uint8_t { open, closing, lingering, closed };

  [[noreturn]] void refuse() const;
  [[nodiscard]] bool forked() const noexcept { return fork_generation_ != fork_generation(); }
  void end_view() noexcept;
  void linger();
  void release_if_unused() noexcept;
  void foresee_blocking();

  std::filesystem::path path_;
  std::optional<icecore::store> store_;
  std::size_t views_ = 0;  // living value_view objects
  std::uint64_t fork_generation_;
  bool attached_;  // another process has opened the store; that process syncs and closes it
  state state_ = state::open;
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

/// Runs a find, without the GIL if it may take long. The answer's bytes stay mapped until the GIL is released again: a
/// small value may be copied, and new_bytes or new_view keep a large one mapped. errc::closed, also if another thread
/// has closed the store during the find.
template <typename Find>
std::optional<std::string_view> find_value(session& used, const Find& find) {
  icecore::store& store = used.use();
  const std::optional<std::string_view> value =
      maybe_without_gil(used, used.finds_block(), [&]() -> std::optional<std::string_view> { return find(store); });
  if (used.finds_block()) used.use();
  if (value) used.found(value->size());
  return value;
}

/// A value's bytes in the pool. The view keeps them mapped, and exports them to Python as a read-only buffer.
class value_view {
 public:
  value_view(std::shared_ptr<session> owner, std::string_view bytes);
  ~value_view();
  value_view(const value_view&) = delete;
  value_view& operator=(const value_view&) = delete;

  [[nodiscard]] std::string_view bytes() const noexcept { return bytes_; }

 private:
  std::shared_ptr<session> session_;
  std::string_view bytes_;
};

}  // namespace icecore::python
