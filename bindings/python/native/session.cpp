#include "session.hpp"

#include <chrono>
#include <limits>
#include <thread>
#include <utility>

namespace icecore::python {

session::session(const std::filesystem::path& path, const options& opening)
    : path_(path), store_(std::in_place, path, opening), fork_generation_(fork_generation()) {
  foresee_blocking(opening.access == access::attached);
  if (opening.access == access::read_only) {
    for_reading_ = opening;
    for_reading_->on_progress = nullptr;
  } else if (opening.access == access::read_write) {
    options& o = beside_parent_.emplace();
    o.access = access::read_only;
    o.creation = creation::open_existing;
    o.accept_copy = opening.accept_copy;
    o.huge_pages = opening.huge_pages;
    o.lookup_cache_bytes = opening.lookup_cache_bytes;
    o.block_cache_bytes = opening.block_cache_bytes;
    o.placements = opening.placements;
    o.recovery_threads = opening.recovery_threads;
  }
}

const std::shared_ptr<session>& session::beside_parent() {
  if (reader_ == nullptr) reader_ = std::make_shared<session>(path_, *beside_parent_, at_first_use{});
  return reader_;
}

session::session(const std::filesystem::path& path, const options& opening, at_first_use)
    : path_(path), for_reading_(opening), fork_generation_(std::numeric_limits<std::uint64_t>::max()), openings_(0) {}

void session::refuse_what_was_inherited() const {
  throw error(errc::forked,
              path_.string() + ": this iterator was made before this process was forked; make another one");
}

void session::open_in_this_process() {
  if (closed_ || !for_reading_) refuse();
  forget_other_process();
  store_.reset();  // in a child: the parent's, which it leaves to the parent
  store_.emplace(path_, *for_reading_);
  fork_generation_ = icecore::python::fork_generation();
  ++openings_;
  foresee_blocking(false);
}

void session::await_settled(icecore::version wanted) {
  constexpr int tries = 100;
  for (int i = 0; i < tries; ++i) {
    icecore::store& store = use();
    if (!store.beside_writer() || wanted < store.clock()) return;
    const without_gil released(*this);
    if (store.refresh() >= wanted) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

void session::foresee_blocking(bool attached) {
  const durability_info info = store_->durability();
  const bool device_is_synced = info.mode == durability::operation && info.medium == medium::block_device;
  writes_block_ = device_is_synced && !info.deferred;
  // The size of the largest value is not known. If values have at least this average size, large ones are common. Below
  // it, finds keep the GIL until one meets a large value (found), so that stores of small values never pay for
  // releasing it.
  constexpr std::uint64_t large_average_bytes = 4096;
  if (attached) {  // only the process that shares the store can report its statistics
    has_unread_values_ = true;
    finds_block_ = device_is_synced;
    return;
  }
  const statistics holds = store_->stats();
  const std::uint64_t values = holds.records - holds.removes;
  has_unread_values_ = holds.value_bytes >= gil_bytes_min;
  finds_block_ = device_is_synced || (has_unread_values_ && holds.value_bytes >= values * large_average_bytes);
}

session::~session() = default;

void session::refuse() const {
  if (forked() && openings_ > 0) {
    throw error(errc::forked, path_.string() +
                                  ": the store was opened before this process was forked; open it again "
                                  "in the child (mode 'r': one process writes at a time)");
  }
  throw error(errc::closed, path_.string() + ": the store is closed; open it again with icecore.open()");
}

void session::close() {
  if (closed_) return;
  if (forked()) {
    closed_ = true;  // the parent closes it, or nothing has opened it yet; this process only stops using it
    return;
  }
  require_outside(
      "close() was called from inside another call of a store (a progress function); close it after that call has "
      "returned");
  closed_ = true;
  wait_until_none();
  std::optional<icecore::store> last = std::exchange(store_, std::nullopt);
  const without_gil released(*this);
  last->close();
}

}  // namespace icecore::python
