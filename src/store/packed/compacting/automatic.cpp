#include "store/packed/compacting/automatic.hpp"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <exception>

#include "base/threads.hpp"
#include "icecore/error.hpp"
#include "store/core.hpp"
#include "store/packed/compacting/pace.hpp"

namespace icecore::detail {
namespace {

using namespace std::chrono_literals;

/// Thrown into a compaction to end it.
struct ended {};

}  // namespace

automatic_compaction::automatic_compaction(opened_store& store, const compaction_limits& limits)
    : store_(&store), limits_(limits), fork_generation_(fork_generation()) {
  // the program's signals are for its own threads
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

automatic_compaction::~automatic_compaction() {
  if (fork_generation_ != fork_generation()) {  // the child has no such thread
    thread_.detach();
    return;
  }
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void automatic_compaction::pause() noexcept {
  const std::scoped_lock lock(mutex_);
  paused_ = true;
}

void automatic_compaction::resume() noexcept {
  {
    const std::scoped_lock lock(mutex_);
    paused_ = false;
  }
  changed_.notify_all();
}

std::string automatic_compaction::failure() const {
  const std::scoped_lock lock(mutex_);
  return failure_;
}

bool automatic_compaction::is_enough() const {
  std::uint64_t young = 0;
  {
    const writer_set::gate stopped(*store_->writers);
    record_totals all = store_->shared->recovered;
    all.add(store_->writers->totals());
    // what a record takes besides its bytes, about
    constexpr std::uint64_t of_each = 48;
    young = all.key_bytes + all.value_bytes + (all.inserts + all.removes) * of_each;
  }
  const held_engine now = store_->hold();
  const std::uint64_t packed = now->packed() == nullptr ? 0 : now->packed()->media_bytes();
  return young >= std::max(limits_.young_bytes, packed / 2);
}

void automatic_compaction::rest() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ends_ || !paused_; });
  if (ends_) throw ended();
}

void automatic_compaction::compact_once() {
  compaction_options how;
  how.threads = limits_.threads;
  how.compression = limits_.compress ? compression::zstd : compression::none;
  pace slow(limits_.bytes_per_second, [this] { rest(); });
  if (store_->compact(how, slow).packed) done_.fetch_add(1, std::memory_order_relaxed);  // relaxed: a count
}

void automatic_compaction::run() noexcept {
  leave_core_of_maker();
  std::chrono::milliseconds next = 100ms;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, next, [this] { return ends_; });
      if (ends_) return;
      if (paused_) continue;
    }
    next = 100ms;
    std::string failed;
    try {
      if (!is_enough()) continue;
      compact_once();
    } catch (const ended&) {
      return;
    } catch (const error& e) {
      failed = e.message();
    } catch (const std::exception& e) {
      failed = e.what();
    }
    if (!failed.empty()) next = 60s;
    const std::scoped_lock lock(mutex_);
    failure_ = std::move(failed);
  }
}

}  // namespace icecore::detail
