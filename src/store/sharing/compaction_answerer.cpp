#include "store/sharing/compaction_answerer.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>

#include "base/background/library_thread.hpp"
#include "base/threads.hpp"
#include "store/core.hpp"
#include "store/packed/compacting/pace.hpp"

namespace icecore::detail {
namespace {

using service = compaction_request::service;
using outcome = compaction_request::outcome;

/// Thrown into a compaction to end it.
struct cut_off {};

}  // namespace

compaction_answerer::compaction_answerer(opened_store& store)
    : store_(&store), request_(&store.shared->compaction), fork_generation_(fork_generation()) {
  looks_.emplace([this] { look(); });
  // relaxed: a flag that guards no data
  request_->served.store(looks_->has_thread() ? service::there : service::no_thread, std::memory_order_relaxed);
}

bool compaction_answerer::is_of_parent() const noexcept { return fork_generation_ != fork_generation(); }

void compaction_answerer::end() noexcept {
  if (!is_of_parent()) ends_.store(true, std::memory_order_relaxed);  // relaxed: a flag that guards no data
}

compaction_answerer::~compaction_answerer() {
  if (is_of_parent()) {
    if (thread_.joinable()) thread_.detach();
    return;
  }
  end();
  looks_.reset();
  if (thread_.joinable()) thread_.join();
}

bool compaction_answerer::is_asked() const noexcept {
  // acquire: with what is wanted (Q1). relaxed: its own
  return request_->asked.load(std::memory_order_acquire) != request_->answered.load(std::memory_order_relaxed);
}

/// Of the ticker, which works for others, too: never packs itself.
void compaction_answerer::look() noexcept {
  // acquire: the thread has answered, and ends
  if (!is_asked() || is_answering_.load(std::memory_order_acquire)) return;
  if (thread_.joinable()) thread_.join();
  try {
    is_answering_.store(true, std::memory_order_relaxed);  // relaxed: the thread begins behind it
    thread_ = library_thread([this] { answer_all(); });
  } catch (const std::exception& e) {  // no thread
    note_error(static_cast<int>(errc::io), e.what());
    end_request(request_->asked.load(std::memory_order_relaxed));  // relaxed: is_asked() has seen it
    is_answering_.store(false, std::memory_order_relaxed);         // relaxed: no other thread is there
  }
}

void compaction_answerer::answer_all() noexcept {
  // relaxed: a flag that guards no data
  while (is_asked() && !ends_.load(std::memory_order_relaxed)) answer_one();
  is_answering_.store(false, std::memory_order_release);  // release: pairs with look()
}

void compaction_answerer::note_error(int code, std::string_view message) noexcept {
  compaction_request::reply& a = request_->answer;
  a.how = outcome::failed;
  a.code = code;
  std::size_t size = std::min(message.size(), sizeof a.message);
  const auto is_amid_character = [&] { return (static_cast<unsigned char>(message[size]) & 0xc0U) == 0x80; };
  while (size != message.size() && size != 0 && is_amid_character()) --size;  // of UTF-8, such as a path may have
  a.size = static_cast<std::uint32_t>(size);
  std::memcpy(a.message, message.data(), a.size);
}

void compaction_answerer::answer_one() noexcept {
  const std::uint64_t number = request_->asked.load(std::memory_order_acquire);  // acquire: Q1
  try {
    const compaction_report report = pack(number);
    request_->answer.report = report;
    request_->answer.how = outcome::done;
  } catch (const cut_off&) {
    const bool closes = ends_.load(std::memory_order_relaxed);  // relaxed: a flag that guards no data
    note_error(static_cast<int>(errc::cancelled), "compact: nobody waits for it any more");
    request_->answer.how = closes ? outcome::closed : outcome::cancelled;
  } catch (const error& e) {
    note_error(e.code().value(), e.message());
  } catch (const std::bad_alloc&) {
    request_->answer.how = outcome::no_memory;
  } catch (const std::exception& e) {
    note_error(static_cast<int>(errc::io), e.what());
  }
  end_request(number);
}

void compaction_answerer::end_request(std::uint64_t number) noexcept {
  request_->answered.store(number, std::memory_order_release);  // release: with the answer (Q2)
}

compaction_report compaction_answerer::pack(std::uint64_t number) {
  const compaction_request::options wanted = request_->wanted;
  const unsigned asker = request_->asker;
  // From any thread of the compaction. relaxed: flags that guard no data.
  std::atomic<bool> is_asker_gone{false};
  const auto go_on = [&] {
    if (ends_.load(std::memory_order_relaxed) || is_asker_gone.load(std::memory_order_relaxed) ||
        request_->cancelled.load(std::memory_order_relaxed) == number)
      throw cut_off();
  };
  const auto look_for_asker = [&] {
    if (!store_->memory->is_held(asker)) is_asker_gone.store(true, std::memory_order_relaxed);
    go_on();
  };
  const compaction_options how{.whole = wanted.whole,
                               .dry_run = wanted.dry_run,
                               .only_if_expiring = wanted.only_if_expiring,
                               .threads = wanted.threads,
                               .bytes_per_second = wanted.bytes_per_second,
                               .bytes_at_once = wanted.bytes_at_once,
                               .compression = wanted.compression,
                               .compression_level = wanted.compression_level,
                               .on_progress = [&](const progress& now) {
                                 // relaxed: the asker reads it behind `done`
                                 request_->total.store(now.total, std::memory_order_relaxed);
                                 request_->done.store(now.done, std::memory_order_release);  // release: with the total
                                 look_for_asker();
                               }};
  look_for_asker();
  pace slow(wanted.bytes_per_second, go_on);
  return store_->compact(how, slow, compacts::by_call);
}

}  // namespace icecore::detail
