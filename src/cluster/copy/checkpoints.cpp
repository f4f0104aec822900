#include "cluster/copy/checkpoints.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "cluster/agreement.hpp"
#include "cluster/messages/quiet_thread.hpp"
#include "icecore/error.hpp"

namespace icecore::mpi {
namespace {

/// Counts the threads that use the cluster's progress on behalf of an event. The cluster waits for them before it is
/// destroyed.
class counted_waiting {
 public:
  explicit counted_waiting(std::atomic<int>& count) noexcept : count_(count) {
    // seq_cst, as the store of ended_ and the load of this count: either this thread sees the end, or the thread that
    // ends the checkpoint sees this count
    count_.fetch_add(1, std::memory_order_seq_cst);
  }
  // release: the use of the progress happens before its destruction
  ~counted_waiting() { count_.fetch_sub(1, std::memory_order_release); }
  counted_waiting(const counted_waiting&) = delete;
  counted_waiting& operator=(const counted_waiting&) = delete;

 private:
  std::atomic<int>& count_;
};

/// Gives the program's own threads priority if there are fewer cores than threads.
void step_back() noexcept {
  constexpr int niceness = 5;
  static_cast<void>(setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), niceness));
}

}  // namespace

// ---- One checkpoint ----

running_checkpoint::running_checkpoint(mpi::progress& running, std::filesystem::path folder, manifest content, int rank)
    : running_(&running),
      folder_(std::move(folder)),
      content_(std::move(content)),
      rank_(rank),
      abandoned_(
          errc::closed,
          fmt::format("{}: the cluster was closed before all ranks had confirmed that its checkpoint is complete",
                      folder_.native())),
      parts_left_(content_.ranks) {}

running_checkpoint::~running_checkpoint() {
  if (thread_.joinable()) thread_.join();
}

std::filesystem::path running_checkpoint::part() const { return checkpoint_part(folder_, content_.id, rank_); }

void running_checkpoint::start(const icecore::checkpoint& cut) noexcept {
  bytes_total_ = cut.bytes();
  const std::scoped_lock before_it_ends(ending_);  // the thread may finish before thread_ is assigned
  if (has_ended()) return;                         // another rank could not start
  const auto failure = attempt([&] {
    thread_ = start_quiet_thread([this, from = std::optional(cut)]() mutable {
      step_back();
      write(std::move(from));
    });
  });
  if (!failure) return;
  const ending mine{.failed = ranks::failure::of(failure), .undo = true};
  rank_ == 0 ? conclude(mine) : end_part(mine);
}

void running_checkpoint::end_part(ending how) {
  const std::scoped_lock lock(mutex_);
  own_ = how;
}

void running_checkpoint::conclude(ending how) {
  const std::scoped_lock lock(mutex_);
  conclusion_ = how;
}

void running_checkpoint::write(std::optional<icecore::checkpoint> cut) {
  const ending mine{.failed = ranks::failure::of(attempt([&] {
                      cut->write(part(), [this](const icecore::progress& p) {
                        bytes_done_.store(p.done, std::memory_order_relaxed);
                        if (cancelled_.load(std::memory_order_relaxed))
                          throw error(errc::closed, "the cluster was closed");
                      });
                    }))};
  cut.reset();
  if (rank_ != 0) return end_part(mine);
  part_ended(rank_, mine);
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return parts_left_ == 0 || cancelled_.load(std::memory_order_relaxed); });
    if (parts_left_ > 0) return;
  }
  ending all = parts_;  // no other thread changes it any more
  all.undo = all.failed.happened();
  if (!all.undo) all.failed = ranks::failure::of(attempt([&] { complete_checkpoint(folder_, content_); }));
  const bool complete = !all.failed.happened();
  conclude(all);
  if (!complete) return;
  lock_->remove_other_parts(content_.id);
  lock_.reset();
  cleared_.store(true, std::memory_order_release);  // see is_over()
}

void running_checkpoint::part_ended(int from, ending how) {
  const std::scoped_lock lock(mutex_);
  if (how.failed.happened() && !parts_.failed.happened()) parts_.failed = how.failed.of_rank(from);
  --parts_left_;
  changed_.notify_all();
}

bool running_checkpoint::report_own(const std::function<void(const ending&)>& send) {
  const std::scoped_lock lock(mutex_);
  if (!own_) return false;
  send(*own_);
  own_.reset();
  return true;
}

bool running_checkpoint::report_conclusion(const std::function<void(const ending&)>& send) {
  std::unique_lock lock(mutex_);
  if (!conclusion_) return false;
  send(*conclusion_);
  ending how = *std::exchange(conclusion_, std::nullopt);
  lock.unlock();
  end(how);
  return true;
}

void running_checkpoint::end(ending how) {
  const std::scoped_lock once(ending_);
  if (has_ended()) return;
  if (how.failed.happened()) {  // what the thread may still be writing is not needed
    cancelled_.store(true, std::memory_order_relaxed);
    const std::scoped_lock lock(mutex_);
    changed_.notify_all();
  }
  // K2: after a complete checkpoint, rank 0's thread still removes the files of the previous one
  const bool clearing = rank_ == 0 && !how.failed.happened();
  if (!clearing && thread_.joinable()) thread_.join();
  {
    const std::scoped_lock lock(mutex_);
    if (conclusion_) how = *std::exchange(conclusion_, std::nullopt);  // it had concluded before it was abandoned
  }
  std::error_code ignored;
  if (how.undo) std::filesystem::remove(part(), ignored);
  how_ = how;
  if (!clearing) {
    lock_.reset();
    cleared_.store(true, std::memory_order_release);  // see is_over()
  }
  ended_.store(true, std::memory_order_seq_cst);  // see has_ended() and counted_waiting
}

void running_checkpoint::abandon() { end({.failed = abandoned_}); }

void running_checkpoint::await_waiting() const noexcept {
  backoff pause;
  while (waiting_.load(std::memory_order_seq_cst) != 0) pause.pause();  // see counted_waiting
}

bool running_checkpoint::done() const {
  const counted_waiting here(waiting_);
  if (!ended_.load(std::memory_order_seq_cst)) running_->step_now_and_then();  // see counted_waiting
  return has_ended();
}

void running_checkpoint::wait() {
  {
    const counted_waiting here(waiting_);
    // see counted_waiting
    if (!ended_.load(std::memory_order_seq_cst)) running_->wait([this] { return has_ended(); });
  }
  reported_to_program_.store(true, std::memory_order_relaxed);
  throw_failure();
}

void running_checkpoint::throw_unreported() {
  if (!reported_to_program_.exchange(true, std::memory_order_relaxed)) throw_failure();
}

void running_checkpoint::throw_failure() {
  if (how_.failed.happened()) how_.failed.raise();
}

icecore::progress running_checkpoint::progress() const noexcept {
  return {"writing the checkpoint", bytes_done_.load(std::memory_order_relaxed), bytes_total_, "bytes"};
}

// ---- All of them ----

std::vector<std::shared_ptr<running_checkpoint>> checkpoints::all() {
  const std::scoped_lock lock(mutex_);
  return all_;
}

std::shared_ptr<running_checkpoint> checkpoints::find(std::string_view id) {
  const std::scoped_lock lock(mutex_);
  const auto it = std::ranges::find_if(all_, [id](const auto& each) { return each->id() == id; });
  if (it == all_.end())
    throw error(errc::bad_input, "another rank sent a message about a checkpoint that this rank has not begun");
  return *it;
}

void checkpoints::wait_for(const std::filesystem::path& folder) {
  for (const auto& each : all()) {
    if (each->folder() == folder) running_.wait([&] { return each->is_over(); });
  }
}

std::shared_ptr<running_checkpoint> checkpoints::add(const std::filesystem::path& folder, const manifest& content) {
  auto made = std::make_shared<running_checkpoint>(running_, folder, content, rank_);
  const std::scoped_lock lock(mutex_);
  std::erase_if(all_, [](const auto& each) { return each->is_over() && !each->failed_unreported(); });
  all_.push_back(made);
  return made;
}

bool checkpoints::background() {
  const std::unique_lock one_at_a_time(sending_, std::try_to_lock);
  if (!one_at_a_time) return false;
  bool found = std::erase_if(calls_, [](remote_call& call) { return call.answered(); }) > 0;
  for (const auto& each : all()) found |= report(*each);
  return found;
}

bool checkpoints::report(running_checkpoint& one) {
  if (one.has_ended()) return false;
  const auto to_first = [&](const ending& own) { send(0, kind::checkpoint_part, one.id(), own); };
  const auto to_all = [&](const ending& how) {
    for (int to = 0; to < ranks_; ++to) {
      if (to != rank_) send(to, kind::checkpoint_ended, one.id(), how);
    }
  };
  return one.report_own(to_first) || one.report_conclusion(to_all);
}

void checkpoints::send(int to, kind what, std::string_view id, const ending& how) {
  packer out(what);
  out.text(id);
  pack(out, how.failed);
  out.number(static_cast<std::uint8_t>(how.undo));
  calls_.emplace_back(running_, to, out.take());
}

void checkpoints::part_ended(std::string_view id, int from, ending how) { find(id)->part_ended(from, how); }

void checkpoints::ended(std::string_view id, ending how) { find(id)->end(how); }

void checkpoints::finish() {
  try {
    running_.wait([this] {
      const auto running = all();
      const std::unique_lock one_at_a_time(sending_, std::try_to_lock);
      return one_at_a_time && calls_.empty() &&
             std::ranges::all_of(running, [](const auto& each) { return each->is_over(); });
    });
  } catch (...) {
    abandon();
    throw;
  }
  await_waiting();
  for (const auto& each : all()) each->throw_unreported();
}

void checkpoints::abandon() noexcept {
  for (const auto& each : all()) each->abandon();
  await_waiting();
}

void checkpoints::await_waiting() noexcept {
  for (const auto& each : all()) each->await_waiting();
}

}  // namespace icecore::mpi

namespace icecore {

bool checkpoint_event::done() const { return of_ == nullptr || of_->done(); }
void checkpoint_event::wait() const {
  if (of_ != nullptr) of_->wait();
}
progress checkpoint_event::progress() const {
  if (of_ == nullptr) return {"writing the checkpoint", 0, 0, "bytes"};
  return of_->progress();
}

}  // namespace icecore
