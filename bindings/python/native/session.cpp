#include "session.hpp"

#include <utility>

namespace icecore::python {

session::session(const std::filesystem::path& path, const options& opening)
    : path_(path),
      store_(std::in_place, path, opening),
      fork_generation_(fork_generation()),
      attached_(opening.access == access::attached) {
  foresee_blocking();
}

void session::foresee_blocking() {
  const durability_info info = store_->durability();
  writes_block_ = info.mode == durability::operation && info.medium == medium::block_device;
  // The size of the largest value is not known. If values have at least this average size, large ones are common. Below
  // it, finds keep the GIL until one meets a large value (found), so that stores of small values never pay for
  // releasing it.
  constexpr std::uint64_t large_average_bytes = 4096;
  if (attached_) {  // only the process that shares the store can report its statistics
    has_unread_values_ = true;
    finds_block_ = writes_block_;
    return;
  }
  const statistics holds = store_->stats();
  const std::uint64_t values = holds.records - holds.removes;
  has_unread_values_ = holds.value_bytes >= gil_bytes_min;
  finds_block_ = writes_block_ || (has_unread_values_ && holds.value_bytes >= values * large_average_bytes);
}

session::~session() = default;

void session::refuse() const {
  if (forked()) {
    throw error(errc::forked, path_.string() +
                                  ": the store was opened before this process was forked; open it again "
                                  "in the child (mode 'r': one process writes at a time)");
  }
  throw error(errc::closed, path_.string() + ": the store is closed; open it again with icecore.open()");
}

void session::close() {
  if (closed()) return;
  if (forked()) {
    state_ = state::closed;  // the parent closes it; the child only stops using it
    return;
  }
  require_outside(
      "close() was called from inside another call of a store (a progress function); close it after that call has "
      "returned");
  state_ = state::closing;
  wait_until_none();
  if (views_ > 0) return linger();
  std::optional<icecore::store> last = std::exchange(store_, std::nullopt);
  state_ = state::closed;
  const without_gil released(*this);
  last->close();
}

void session::linger() {
  struct at_end {
    session& self;
    ~at_end() {  // runs even if the sync throws
      self.state_ = state::lingering;
      self.release_if_unused();
    }
  } const to_lingering{*this};
  if (store_->read_only() || attached_) return;
  const without_gil released(*this);
  store_->sync();
}

void session::end_view() noexcept {
  --views_;
  release_if_unused();
}

void session::release_if_unused() noexcept {
  if (state_ != state::lingering || views_ > 0) return;
  store_.reset();  // closing has nothing left to sync: linger() has done it
  state_ = state::closed;
}

value_view::value_view(std::shared_ptr<session> owner, std::string_view bytes)
    : session_(std::move(owner)), bytes_(bytes) {
  ++session_->views_;
}

value_view::~value_view() { session_->end_view(); }

}  // namespace icecore::python
