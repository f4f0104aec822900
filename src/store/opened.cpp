#include "store/opened.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "base/raise.hpp"
#include "pool/manifest/manifest.hpp"
#include "store/core.hpp"
#include "store/packed/retention/forgetting.hpp"
#include "store/sharing/compaction_answerer.hpp"
#include "store/sharing/compaction_asker.hpp"
#include "store/sharing/generations.hpp"

namespace icecore::detail {

opened_store::opened_store() = default;

opened_store::~opened_store() {
  end_threads();
  if (last_ != nullptr) last_->close_in_destructor();
  settled.reset();
  companion.reset();
  if (pool != nullptr) {
    pool->end_background_growth();
    for (class pool* p : pool->files()) p->give_up_growth();
  }
  // Who packs the store looks for views of processes that are attached. Others that come later know only of viewers.
  if (follows_ && pool != nullptr && pins.live() != 0) pool->file().begin_to_view();
  pins.retire();
  replaced_.clear();
  last_.reset();
}

void opened_store::begin(std::unique_ptr<store_core> first) {
  pins.begin(*first, first->memory_of_views());
  last_ = std::move(first);
  reads_only_ = last_->read_only();
  // opening has made all that it found durable
  if (writers != nullptr) writers->when_gate_holder_died([this] { complete_change_of_dead(); });
  if (synced != nullptr) synced->begin(clock->now() - 1, [this] { hold()->sync(); });
  current_.store(last_.get(), std::memory_order_release);  // release: pairs with current()
}

/// Compactions of this process. One may wait for the other, so both are told before either is waited for.
void opened_store::end_threads() {
  following_in_background_.reset();
  if (answers != nullptr) answers->end();
  automatic.reset();
  answers.reset();
}

void opened_store::close() {
  end_threads();
  last_->close();
}

version opened_store::tag(const tag_options& label) {
  for (;;) {
    try {
      return hold()->tag(label);
    } catch (const engine_is_behind&) {  // another process has packed the store since: the next hold() follows
    }
  }
}

version opened_store::refresh() {
  {
    const held_engine now = hold();
    now->check_usable();  // a forked child would wait for the mutex
    if (!now->beside_writer()) return now->refresh();
  }
  const std::scoped_lock one_at_a_time(following_);
  struct drops {
    opened_store* of;
    ~drops() { of->drop_replaced_in_time(); }
  } behind_it{this};
  return hold()->refresh();  // nobody else replaces it
}

/// As soon as the last pin ends: a reader that does not refresh any more would keep the space that it led into.
void opened_store::drop_replaced_in_time() noexcept {
  if (drop_replaced()) {
    following_in_background_.reset();
    return;
  }
  if (following_in_background_) return;
  try {
    following_in_background_.emplace([this] { drop_replaced(); });
  } catch (const std::exception&) {  // no thread can be made: the next refresh drops it
  }
}

void opened_store::check_usable() const { hold()->check_usable(); }

void opened_store::refuse_lease() const {
  hold()->check_writable();
  raise(errc::read_only, "{}: cannot be written", pool->file().path().native());  // the line above says why
}

void opened_store::add_to(statistics& s) {
  s.pins = pins.live();
  if (const auto oldest = pins.oldest()) {
    s.oldest_pin = oldest->open;
    s.oldest_pin_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - oldest->at).count();
  }
  // relaxed: counts
  s.waiting_bytes = replaced_bytes.load(std::memory_order_relaxed);
  s.garbage_bytes += s.waiting_bytes;
  s.written_bytes += packing_bytes.load(std::memory_order_relaxed);
  if (automatic == nullptr) return;
  s.compactions = automatic->done();
  s.compaction_failure = automatic->failure();
}

opened_store::replacement opened_store::prepare_replacing(std::unique_ptr<store_core> next) {
  const std::scoped_lock lock(engines_mutex_);
  replaced_.reserve(replaced_.size() + 1);  // only who replaces the engine adds to them
  auto pins_of_next = current_pins::prepare(*next, next->memory_of_views());
  return {std::move(next), std::move(pins_of_next)};
}

void opened_store::replace(replacement by) noexcept {
  const std::scoped_lock lock(engines_mutex_);
  // Where the kernel has no barrier, a pin that is being taken may be missed: then the engine stays.
  const auto until = pins.replace(std::move(by.pins));
  replaced_.push_back({until.value_or(std::numeric_limits<std::uint64_t>::max()), std::move(last_)});
  last_ = std::move(by.engine);
  current_.store(last_.get(), std::memory_order_release);  // release: pairs with current()
}

bool opened_store::drop_replaced() {
  const std::scoped_lock lock(engines_mutex_);
  // decided once for each: a pin may end meanwhile
  const auto over =
      std::ranges::partition(replaced_, [this](const numbered& each) { return !pins.none_before(each.until); });
  // Where another process writes: before it may use the space for values that nobody here has checked.
  if (reads_only_ && !over.empty()) checked->forget();
  replaced_.erase(over.begin(), over.end());
  return replaced_.empty();
}

bool opened_store::nobody_looks() {
  if (!drop_replaced()) return false;
  return !current().shares() || !memory->others_lock(generation_bytes_from, writers->generation());
}

bool opened_store::give_back_replaced() {
  const bool is_any_pinned = !nobody_looks();
  if (!is_any_pinned) {
    for (const std::uint32_t arena : std::exchange(replaced_arenas, {})) {
      if (arena != 0) memory->clear_sibling(arena);  // 0 has what is not of one generation, too
    }
  }
  if (!replaced_space.empty()) {
    if (is_any_pinned) return false;
    const std::vector<segment> given_back = give_back(*pool, replaced_space);
    if (given_back.empty()) return false;  // a reader beside this process looks at it
    replaced_space.clear();
    replaced_bytes = 0;
    for (const segment& s : given_back) pool->add_free(s.offset, s.size);
  }
  if (forgets == nullptr) return true;
  const auto requests = forgets->finish(*this);
  if (requests.empty()) return false;
  for (const segment& s : requests) pool->add_free(s.offset, s.size);
  forgets.reset();
  return true;
}

}  // namespace icecore::detail
