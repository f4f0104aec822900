// The checkpoints of a cluster that are being written.
//
// Each rank's file is written by a thread of its own, which makes no MPI calls. When it is done, the progress of the
// cluster tells rank 0; the thread there, which waits for all, names the files in the manifest and thereby makes them a
// checkpoint; then all ranks are told how it ended.
//
// Invariants:
//   K1 The manifest is written only when the files of all ranks are whole and on their device, and it is replaced by
//      renaming: a crash at any instant leaves the checkpoint before or this one.
//   K2 Files that the manifest does not name belong to nothing: they are removed when the next checkpoint is complete,
//      which has ended for all who wait then. While it is not known whether it will name them, files stay.
//   K3 When the cluster's store is closed, all have ended, and whoever waits is told; no thread reads the store.
// Threads: any number where MPI allows them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cluster/messages/progress.hpp"
#include "cluster/messages/remote_call.hpp"
#include "cluster/open/manifest.hpp"
#include "icecore/checkpoint.hpp"
#include "icecore/cluster_checkpoint.hpp"

namespace icecore::mpi {

/// How a part of the work ended.
struct ending {
  ranks::failure failed{};
  /// The manifest was not touched and will not be: the files of this checkpoint are rubbish. Else they stay (K2): it
  /// may name them.
  bool undo = false;
};

/// One checkpoint on this rank.
class [[gnu::visibility("hidden")]] running_checkpoint {
 public:
  running_checkpoint(mpi::progress& running, std::filesystem::path folder, manifest content, int rank);
  /// The end of the last of cluster and events.
  ~running_checkpoint();
  running_checkpoint(const running_checkpoint&) = delete;
  running_checkpoint& operator=(const running_checkpoint&) = delete;

  // ---- For the program ----
  [[nodiscard]] bool done() const;
  /// Waits, and throws if it failed.
  void wait();
  [[nodiscard]] icecore::progress progress() const noexcept;

  // ---- For the cluster ----
  /// Begins to write this rank's file.
  void start(const icecore::checkpoint& cut) noexcept;
  /// On rank 0: holds this until it has ended.
  void hold(std::unique_ptr<folder_lock> lock) { lock_ = std::move(lock); }
  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }
  [[nodiscard]] const std::string& id() const noexcept { return content_.id; }
  // acquire: whoever sees the end also sees how
  [[nodiscard]] bool has_ended() const noexcept { return ended_.load(std::memory_order_acquire); }
  /// Whether it has ended and what it made superfluous is removed (K2): the folder is free.
  // acquire: what was done there is done
  [[nodiscard]] bool is_over() const noexcept { return has_ended() && cleared_.load(std::memory_order_acquire); }
  /// Calls `send` with what rank 0 is to be told of this rank's part, once; again if it throws.
  bool tell_own(const std::function<void(const ending&)>& send);
  /// On rank 0: the same with what all are to be told; it has ended then.
  bool tell_conclusion(const std::function<void(const ending&)>& send);
  /// On rank 0: another rank's part is written, or is not.
  void part_ended(int from, ending how);
  void end(ending how);
  /// Ends it here and now, unless it has.
  void abandon();
  /// Whoever is in wait() or done() has left when it returns. Precondition: has_ended().
  void await_waiting() const noexcept;
  /// Whether it failed and nobody was told.
  [[nodiscard]] bool failed_untold() const noexcept {
    return how_.failed.happened() && !program_was_told_.load(std::memory_order_relaxed);
  }
  /// Nobody is to be told how it ended.
  void forget() noexcept { program_was_told_.store(true, std::memory_order_relaxed); }
  /// Throws how it failed, if it did and nobody has waited for it.
  void throw_untold();

 private:
  void write(std::optional<icecore::checkpoint> cut);
  void end_part(ending how);
  void conclude(ending how);
  void throw_failure();
  [[nodiscard]] std::filesystem::path part() const;

  mpi::progress* running_;  // until it has ended
  const std::filesystem::path folder_;
  const manifest content_;
  const int rank_;
  const ranks::failure abandoned_;            // made before there may be no memory for it
  std::atomic<std::uint64_t> bytes_done_{0};  // relaxed everywhere: a number to be shown
  std::uint64_t bytes_total_ = 0;
  std::atomic<bool> cancelled_{false};  // relaxed everywhere: nothing goes with it
  std::atomic<bool> ended_{false};
  std::atomic<bool> cleared_{false};
  std::thread thread_;
  std::unique_ptr<folder_lock> lock_;    // of the thread once it has concluded; before and if it fails, of end()
  mutable std::atomic<int> waiting_{0};  // threads that may use running_
  std::mutex ending_;
  ending how_;                                 // under ending_ until it has ended
  std::atomic<bool> program_was_told_{false};  // relaxed everywhere: nothing goes with it

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::optional<ending> own_;         // until it was taken
  std::optional<ending> conclusion_;  // until it was taken
  int parts_left_;                    // on rank 0
  ending parts_;                      // on rank 0: how the first that failed did
};

class checkpoints {
 public:
  checkpoints(mpi::progress& running, int rank, int ranks) : running_(running), rank_(rank), ranks_(ranks) {}
  ~checkpoints() { abandon(); }
  checkpoints(const checkpoints&) = delete;
  checkpoints& operator=(const checkpoints&) = delete;

  /// Waits until none in this folder is being written.
  void wait_for(const std::filesystem::path& folder);
  /// The checkpoint that `content` is to name, to be started when all ranks have theirs: from then on others may tell
  /// of it.
  [[nodiscard]] std::shared_ptr<running_checkpoint> add(const std::filesystem::path& folder, const manifest& content);
  /// Tells other ranks what is to be told. Returns whether there was anything.
  bool background();
  /// What other ranks tell.
  void part_ended(std::string_view id, int from, ending how);
  void ended(std::string_view id, ending how);
  /// Returns when all have ended and every rank was told; throws the failure of one that nobody has waited for. None
  /// is running when it throws.
  void finish();

 private:
  [[nodiscard]] std::vector<std::shared_ptr<running_checkpoint>> all();
  [[nodiscard]] std::shared_ptr<running_checkpoint> find(std::string_view id);
  void send(int to, kind what, std::string_view id, const ending& how);
  bool tell(running_checkpoint& one);
  void abandon() noexcept;
  void await_waiting() noexcept;

  mpi::progress& running_;
  const int rank_;
  const int ranks_;
  std::mutex sending_;            // held before mutex_
  std::list<remote_call> calls_;  // without an answer yet; under sending_
  std::mutex mutex_;
  std::vector<std::shared_ptr<running_checkpoint>> all_;
};

}  // namespace icecore::mpi
