// The checkpoints of a cluster that are being written.
//
// On each rank a separate thread, which makes no MPI calls, writes the rank's file. When it is done, the progress of
// the cluster reports this to rank 0. The thread on rank 0 waits for all ranks and names the files in the manifest,
// which makes them a checkpoint. Then rank 0 reports the outcome to all ranks.
//
// Invariants:
//   K1 The manifest is written only when the files of all ranks are complete and on their device, and it is replaced by
//      renaming: a crash at any instant leaves either the previous checkpoint or this one.
//   K2 Files that the manifest does not name are not used. They are removed once the next checkpoint is complete; a
//      thread that waits for that checkpoint does not wait for the removal. While it is unknown whether the manifest
//      will name them, they stay.
//   K3 When the cluster's store is closed, all checkpoints have ended, all waiting threads have the outcome, and no
//      thread reads the store.
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

/// The outcome of a part of the work.
struct ending {
  ranks::failure failed{};
  /// The manifest was not touched and will not be, so the files of this checkpoint can be removed. Otherwise they stay
  /// (K2), because the manifest may name them.
  bool undo = false;
};

/// One checkpoint on this rank.
class [[gnu::visibility("hidden")]] running_checkpoint {
 public:
  running_checkpoint(mpi::progress& running, std::filesystem::path folder, manifest content, int rank);
  /// Called when the cluster and all events have released it.
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
  /// On rank 0: keeps this lock until the checkpoint has ended.
  void hold(std::unique_ptr<folder_lock> lock) { lock_ = std::move(lock); }
  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }
  [[nodiscard]] const std::string& id() const noexcept { return content_.id; }
  // acquire: a thread that sees the end also sees the outcome
  [[nodiscard]] bool has_ended() const noexcept { return ended_.load(std::memory_order_acquire); }
  /// Whether it has ended and the files that it superseded are removed (K2), so that the folder is free.
  // acquire: the thread also sees the changes in the folder
  [[nodiscard]] bool is_over() const noexcept { return has_ended() && cleared_.load(std::memory_order_acquire); }
  /// Calls `send` once with the outcome of this rank's part, for rank 0; calls it again later if it throws.
  bool report_own(const std::function<void(const ending&)>& send);
  /// On rank 0: the same with the outcome for all ranks; the checkpoint has then ended here.
  bool report_conclusion(const std::function<void(const ending&)>& send);
  /// On rank 0: records that another rank's part is written or failed.
  void part_ended(int from, ending how);
  void end(ending how);
  /// Ends it now, unless it has ended.
  void abandon();
  /// Returns when no thread is in wait() or done() any more. Precondition: has_ended().
  void await_waiting() const noexcept;
  /// Whether it failed and the program has not seen the failure.
  [[nodiscard]] bool failed_unreported() const noexcept {
    return how_.failed.happened() && !reported_to_program_.load(std::memory_order_relaxed);
  }
  /// Marks the outcome as seen by the program.
  void forget() noexcept { reported_to_program_.store(true, std::memory_order_relaxed); }
  /// Throws the failure, if there is one and the program has not seen it.
  void throw_unreported();

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
  const ranks::failure abandoned_;            // made early, because later there may be no memory for it
  std::atomic<std::uint64_t> bytes_done_{0};  // relaxed everywhere: a number for display
  std::uint64_t bytes_total_ = 0;
  std::atomic<bool> cancelled_{false};  // relaxed everywhere: it publishes no other data
  std::atomic<bool> ended_{false};
  std::atomic<bool> cleared_{false};
  std::thread thread_;
  std::unique_ptr<folder_lock> lock_;    // released by the thread once it has completed; otherwise by end()
  mutable std::atomic<int> waiting_{0};  // threads that may use running_
  std::mutex ending_;
  ending how_;                                    // guarded by ending_ until the checkpoint has ended
  std::atomic<bool> reported_to_program_{false};  // relaxed everywhere: it publishes no other data

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::optional<ending> own_;         // until it is taken
  std::optional<ending> conclusion_;  // until it is taken
  int parts_left_;                    // on rank 0
  ending parts_;                      // on rank 0: the outcome of the first part that failed
};

class checkpoints {
 public:
  checkpoints(mpi::progress& running, int rank, int ranks) : running_(running), rank_(rank), ranks_(ranks) {}
  ~checkpoints() { abandon(); }
  checkpoints(const checkpoints&) = delete;
  checkpoints& operator=(const checkpoints&) = delete;

  /// Waits until no checkpoint is being written to this folder.
  void wait_for(const std::filesystem::path& folder);
  /// Adds the checkpoint that `content` will name. It must be started once all ranks have added theirs: from then on
  /// other ranks may send its outcome.
  [[nodiscard]] std::shared_ptr<running_checkpoint> add(const std::filesystem::path& folder, const manifest& content);
  /// Sends the pending reports to other ranks. Returns whether there were any.
  bool background();
  /// Called for reports from other ranks.
  void part_ended(std::string_view id, int from, ending how);
  void ended(std::string_view id, ending how);
  /// Returns when all checkpoints have ended and every rank has the outcome. Throws the failure of one that the program
  /// has not waited for; no checkpoint is running when it throws.
  void finish();

 private:
  [[nodiscard]] std::vector<std::shared_ptr<running_checkpoint>> all();
  [[nodiscard]] std::shared_ptr<running_checkpoint> find(std::string_view id);
  void send(int to, kind what, std::string_view id, const ending& how);
  bool report(running_checkpoint& one);
  void abandon() noexcept;
  void await_waiting() noexcept;

  mpi::progress& running_;
  const int rank_;
  const int ranks_;
  std::mutex sending_;            // locked before mutex_
  std::list<remote_call> calls_;  // those without an answer yet; guarded by sending_
  std::mutex mutex_;
  std::vector<std::shared_ptr<running_checkpoint>> all_;
};

}  // namespace icecore::mpi
