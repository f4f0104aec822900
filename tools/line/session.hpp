// A store that stays open while several verbs use it, one after the other: `icecore shell`. Without a session each verb
// opens the store itself. Verbs need not know which it is: they ask opening.hpp for the store.
//
//   session one(path, store(open_to_read(path)), false);
//   { opened_store s = open_to_read(path); ... }        // lent, and given back
//
// Threads: one.
#pragma once

#include <string>
#include <utility>

#include "icecore/store.hpp"

namespace icecore::cli {

class session;

/// A store that is the verb's own, or lent by a session. It ends after all that was read from it.
class opened_store : public store {
 public:
  explicit opened_store(store&& own) noexcept : store(std::move(own)) {}
  opened_store(store&& lent, session* by) noexcept : store(std::move(lent)), by_(by) {}
  opened_store(opened_store&& other) noexcept : store(std::move(other)), by_(std::exchange(other.by_, nullptr)) {}
  opened_store& operator=(opened_store&&) = delete;
  ~opened_store();

  /// Of a store that is lent: nothing, since the next verb goes on with it.
  void close() {
    if (by_ == nullptr) store::close();
  }

 private:
  session* by_ = nullptr;
};

class session {
 public:
  session(std::string path, store&& opened, bool writes);
  ~session();
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  /// The one that has the store at `path` open; null if there is none.
  [[nodiscard]] static session* of(const std::string& path) noexcept;
  [[nodiscard]] static session* any() noexcept;

  /// For a verb that reads: as it is now, unless a version is set. errc::invalid_argument if it is lent already.
  [[nodiscard]] opened_store lend_to_read();
  /// errc::read_only if the session only reads.
  [[nodiscard]] opened_store lend_to_write();

  /// What verbs show if they are given no version; empty: the present.
  [[nodiscard]] const std::string& at() const noexcept { return at_; }
  /// Throws as version_named().
  void set_at(const std::string& version);
  [[nodiscard]] const store& what() const noexcept { return store_; }
  [[nodiscard]] bool writes() const noexcept { return writes_; }
  /// Throws what closing the store does.
  void close() { store_.close(); }

 private:
  friend class opened_store;
  [[nodiscard]] opened_store lend();
  void show_newest();

  std::string path_;
  store store_;
  bool writes_;
  bool is_lent_ = false;
  std::string at_;
};

}  // namespace icecore::cli
