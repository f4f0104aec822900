#include "store/sharing/compaction_asker.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>
#include <thread>

#include "base/raise.hpp"
#include "store/core.hpp"
#include "store/packed/compacting/compaction_turn.hpp"
#include "store/packed/compacting/packing.hpp"

namespace icecore::detail {
namespace {

using namespace std::chrono_literals;
using service = compaction_request::service;
using outcome = compaction_request::outcome;

constexpr auto between_looks = 5ms;

/// Tells the caller ten times a second how far the opener is, and once at the end.
class told_progress {
 public:
  told_progress(const compaction_request& of, const progress_function& to) : of_(&of), to_(&to) {}

  void now_and_then() {
    if (!*to_ || std::chrono::steady_clock::now() < next_) return;
    tell();
    next_ = std::chrono::steady_clock::now() + 100ms;
  }
  void at_the_end() {
    if (*to_) tell();
  }

 private:
  void tell() {
    // acquire: the total is that of this number, or a later one. It may fall between two changes of a call.
    const std::uint64_t done = of_->done.load(std::memory_order_acquire);
    const std::uint64_t total = of_->total.load(std::memory_order_relaxed);
    if (done != 0) (*to_)(packing_progress(std::min(done, total), total));
  }

  const compaction_request* of_;
  const progress_function* to_;
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + 100ms;
};

}  // namespace

compaction_request& compaction_asker::request() const noexcept { return store_->shared->compaction; }

/// Whether no request is answered any more: that stays so.
bool compaction_asker::is_opener_gone() const noexcept {
  // acquire: what was answered before the store was closed is seen behind it. relaxed: no data depends on it
  return store_->shared->is.load(std::memory_order_acquire) == shared_state::phase::closed ||
         request().served.load(std::memory_order_relaxed) == service::no_thread || store_->pool->persist().poisoned() ||
         !store_->memory->is_held(writer_set::first_process);
}

void compaction_asker::raise_closed() const {
  raise(errc::closed, "{}: the process that shared the store has closed it, or is closing it",
        store_->pool->file().path().native());
}

void compaction_asker::raise_gone() const {
  store_->check_usable();  // poisoned, closed
  // relaxed: no data depends on it
  if (request().served.load(std::memory_order_relaxed) == service::no_thread) {
    raise(
        errc::io,
        "{}: this process is attached to the store, and the process that opened it could make no thread to pack it for "
        "others; pack it there",
        store_->pool->file().path().native());
  }
  store_->hold()->check_first();  // it has ended
  raise_closed();                 // not reached, since this process is attached
}

/// Returns when the request of this number has an answer.
template <class Meanwhile>
void compaction_asker::wait_for(std::uint64_t number, Meanwhile&& meanwhile) const {
  for (;;) {
    const bool is_gone = is_opener_gone();  // first: it may answer and end
    // acquire: with the answer (Q2), and with the generation that it has begun
    if (request().answered.load(std::memory_order_acquire) == number) return;
    if (is_gone) raise_gone();
    meanwhile();
    std::this_thread::sleep_for(between_looks);
  }
}

/// Ends the request of this number: returns when the opener does not work on it any more.
void compaction_asker::cut_off(std::uint64_t number) const noexcept {
  request().cancelled.store(number, std::memory_order_relaxed);  // relaxed: a word that guards no data
  // acquire: Q1
  while (request().answered.load(std::memory_order_acquire) != number && !is_opener_gone())
    std::this_thread::sleep_for(between_looks);
}

recovering_lock compaction_asker::take_turn() const {
  // Who has just had a turn and asks again lets those take it that wait already, and look this often.
  std::this_thread::sleep_for(2 * between_looks);
  for (;;) {
    // Nothing is to be repaired: who has the lock looks what an asker that was killed has left.
    recovering_lock mine(request().asking, std::try_to_lock, [] {});
    if (mine) return mine;
    if (is_opener_gone()) raise_gone();
    std::this_thread::sleep_for(between_looks);
  }
}

/// Returns the request's number.
std::uint64_t compaction_asker::ask(const compaction_options& how) const {
  compaction_request& r = request();
  // relaxed: only the holder of `asking` changes it
  const std::uint64_t before = r.asked.load(std::memory_order_relaxed);
  wait_for(before, [] {});                     // Q3; its asker was killed if it has none yet
  r.done.store(0, std::memory_order_relaxed);  // relaxed, here and below: ordered by `asked`
  r.total.store(0, std::memory_order_relaxed);
  r.asker = store_->writers->process();
  r.wanted = {.whole = how.whole,
              .dry_run = how.dry_run,
              .only_if_expiring = how.only_if_expiring,
              .compression = how.compression,
              .compression_level = how.compression_level,
              .threads = how.threads,
              .bytes_per_second = how.bytes_per_second,
              .bytes_at_once = how.bytes_at_once};
  r.asked.store(before + 1, std::memory_order_release);  // release: with what is wanted (Q1)
  return before + 1;
}

compaction_report compaction_asker::report_of(const compaction_request::reply& answer) const {
  switch (answer.how) {
    case outcome::done:
      return answer.report;
    case outcome::no_memory:
      throw std::bad_alloc();
    case outcome::closed:
      raise_closed();
    case outcome::cancelled:  // it has found this process dead
    case outcome::failed:
      break;
  }
  throw error(static_cast<errc>(answer.code), std::string(answer.message, answer.size));
}

compaction_report compaction_asker::compact(const compaction_options& how) const {
  check(how);
  if (how.together != nullptr) {
    raise(errc::invalid_argument,
          "{}: this process is attached to the store; only the process that opened it can pack it together with other "
          "stores",
          store_->pool->file().path().native());
  }
  store_->check_usable();
  const compaction_turn one_of_this_process(*store_);
  const recovering_lock one_of_all = take_turn();
  const std::uint64_t number = ask(how);
  told_progress caller(request(), how.on_progress);
  try {
    wait_for(number, [&] { caller.now_and_then(); });
  } catch (...) {
    cut_off(number);
    throw;
  }
  const compaction_report report = report_of(request().answer);
  caller.at_the_end();
  static_cast<void>(store_->hold());  // follows
  return report;
}

}  // namespace icecore::detail
