// What papyruskv_init creates and papyruskv_finalize destroys: the repository, the table of databases, signals.
//
// Invariants:
//   T1 Handles count up from 1 in the order of collective calls, so a database has the same handle on all ranks.
//   T2 The slot of a handle is handle % databases_max. A slot is found only with the handle that filled it, so an old
//      handle never stands for a newer database.
// Threads: any number for `find` and signals; collective calls one at a time, and not while other threads use the
//   database.
#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>

#include "database.hpp"
#include "environment.hpp"
#include "signals.hpp"

namespace papyruskv {

/// A duplicate of a communicator.
class own_communicator {
 public:
  explicit own_communicator(MPI_Comm original) { MPI_Comm_dup(original, &comm_); }
  ~own_communicator();
  own_communicator(const own_communicator&) = delete;
  own_communicator& operator=(const own_communicator&) = delete;
  [[nodiscard]] MPI_Comm get() const noexcept { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// The meaning of a flag PAPYRUSKV_...; errc::invalid_argument if it has none.
[[nodiscard]] icecore::protection protection_of(int flag);
[[nodiscard]] icecore::consistency consistency_of(int flag);
[[nodiscard]] icecore::barrier_level level_of(int flag);

class platform {
 public:
  /// Collective over all ranks. errc::mpi if MPI does not run; errc::invalid_argument.
  explicit platform(const char* repository);

  /// Closes what is open and removes the repository if the environment says so. Collective. Throws the first error
  /// after all is done.
  void finalize();

  /// How to open a database, from the arguments of a call. Not collective: errc::invalid_argument, locked.
  [[nodiscard]] opening checked(const char* name, int flags, const papyruskv_option_t* wanted) const;
  // What follows is collective, and fails on all ranks for the same reason.

  [[nodiscard]] int open(opening how);
  /// Opens a database restored from a checkpoint; it replaces one of that name.
  [[nodiscard]] int restart(const char* path, opening how);
  void close(int handle);
  [[nodiscard]] int destroy(int handle);
  void set_hash(int handle, papyruskv_hash_fn_t hash);

  /// errc::invalid_argument if there is none.
  [[nodiscard]] database& find(int handle) const {
    // acquire: a thread that was given the handle sees the database complete
    database* const found = handle > 0 ? slot_of(handle).made.load(std::memory_order_acquire) : nullptr;
    if (found != nullptr && slot_of(handle).handle.load(std::memory_order_relaxed) == handle) [[likely]]
      return *found;
    refuse(handle);
  }

  void notify(int signum, std::span<const int> ranks);
  void wait(int signum, std::span<const int> ranks) { signals_.wait(signum, ranks); }

 private:
  static constexpr int databases_max = 1024;
  struct slot {
    std::atomic<int> handle{0};
    std::atomic<database*> made{nullptr};
    std::unique_ptr<database> kept;
  };

  [[nodiscard]] const slot& slot_of(int handle) const noexcept {
    return slots_[static_cast<std::size_t>(handle % databases_max)];
  }
  [[nodiscard]] slot& slot_of(int handle) noexcept { return slots_[static_cast<std::size_t>(handle % databases_max)]; }
  [[noreturn]] void refuse(int handle) const;
  void require_not_open(const opening& how) const;
  void require_fitting_hash(database& made) const;
  [[nodiscard]] int keep(std::unique_ptr<database> made);
  void forget(int handle);
  template <typename Visit>
  void for_each(Visit visit) const;
  void answer_others() const;
  void barrier() const;
  [[nodiscard]] int least(int mine) const;
  [[nodiscard]] bool all_ranks(bool mine) const { return least(mine ? 1 : 0) == 1; }
  void throw_on_all(const std::exception_ptr& mine) const;
  void remove(const std::filesystem::path& folder) const;
  void move(const std::filesystem::path& from, const std::filesystem::path& to) const;
  void finish_restart(const std::filesystem::path& folder) const;

  environment environment_;
  std::filesystem::path repository_;
  own_communicator comm_;
  own_communicator signal_comm_;
  signals signals_;
  int rank_ = 0;
  int ranks_ = 0;
  mutable std::shared_mutex visitors_;  // held shared while a database of the table is visited
  std::array<slot, databases_max> slots_;
  int last_handle_ = 0;
};

}  // namespace papyruskv
