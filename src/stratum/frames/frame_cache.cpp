#include "stratum/frames/frame_cache.hpp"

#include <cassert>
#include <utility>

#include "stratum/frames/framed_blocks.hpp"

namespace icecore::stratum {

void frame_cache::watch(viewers* all) noexcept {
  const std::scoped_lock lock(mutex_);
  viewers_ = all;
}

frame_cache::counts frame_cache::now() const {
  const std::scoped_lock lock(mutex_);
  counts c = counts_;
  c.bound = bound_;
  return c;
}

void frame_cache::bring(const framed_blocks& of, std::uint32_t frame) {
  std::unique_lock lock(mutex_);
  assert(viewers_ == nullptr || viewers_->any());
  const bool was_there = hold(lock, of, frame);
  ++(was_there ? counts_.hits : counts_.misses);
  --of.frames_[frame].users;
  if (!was_there || counts_.bytes > bound_) make_room();
}

bool frame_cache::hold(std::unique_lock<std::mutex>& lock, const framed_blocks& of, std::uint32_t frame) {
  framed_blocks::frame& f = of.frames_[frame];
  arrived_.wait(lock, [&] { return f.is != framed_blocks::presence::arriving; });
  ++f.users;
  if (f.is == framed_blocks::presence::present) {
    f.leaves = false;
    return true;
  }
  f.is = framed_blocks::presence::arriving;
  const bool has_parent = f.parent != format::no_parent;
  bool holds_parent = false;
  try {
    if (has_parent) {
      hold(lock, of, f.parent);
      holds_parent = true;
    }
    lock.unlock();
    of.inflate(frame);
    lock.lock();
    order_.push_back({&of, frame});
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    if (holds_parent) --of.frames_[f.parent].users;
    --f.users;
    f.is = framed_blocks::presence::absent;
    of.drop(frame);  // what was inflated until then
    arrived_.notify_all();
    throw;
  }
  if (has_parent) --of.frames_[f.parent].users;
  f.is = framed_blocks::presence::present;
  f.leaves = false;
  counts_.bytes += of.size_of(frame);
  arrived_.notify_all();
  return false;
}

void frame_cache::make_room() {
  if (bound_ == 0 || viewers_ == nullptr) return;
  // The last eighth is for frames that leave: so one that is still wanted has time to be taken back.
  if (counts_.bytes - leaving_bytes_ > bound_ - bound_ / 8) clear_oldest();
  if (counts_.bytes > bound_) give_back();
}

/// Steps 1 and 2.
void frame_cache::clear_oldest() {
  const std::uint64_t staying = bound_ - bound_ / 4;
  leaving next;
  std::uint64_t bytes = 0;
  for (std::size_t left = order_.size(); left > 0 && counts_.bytes - leaving_bytes_ - bytes > staying; --left) {
    const place p = order_.front();
    order_.pop_front();
    next.frames.push_back(p);
    bytes += p.of->size_of(p.frame);
    p.of->frames_[p.frame].leaves = true;
    p.of->clear_bits(p.frame);
  }
  if (next.frames.empty()) return;
  const auto number = viewers_->renew();
  if (!number) {  // nothing can leave, here and now and ever
    viewers_ = nullptr;
    order_.insert(order_.end(), next.frames.begin(), next.frames.end());
    return;
  }
  next.number = *number;
  leaving_bytes_ += bytes;
  leaving_.push_back(std::move(next));
}

/// Step 3.
void frame_cache::give_back() {
  while (counts_.bytes > bound_ && !leaving_.empty() && viewers_->none_before(leaving_.front().number)) {
    std::deque<place>& frames = leaving_.front().frames;
    while (counts_.bytes > bound_ && !frames.empty()) {
      const place p = frames.front();
      frames.pop_front();
      framed_blocks::frame& f = p.of->frames_[p.frame];
      const std::uint64_t size = p.of->size_of(p.frame);
      leaving_bytes_ -= size;
      if (!std::exchange(f.leaves, false) || f.users != 0 || p.of->has_bit(p.frame)) {
        order_.push_back(p);
        continue;
      }
      f.is = framed_blocks::presence::absent;
      p.of->drop(p.frame);
      counts_.bytes -= size;
    }
    if (frames.empty()) leaving_.pop_front();
  }
}

}  // namespace icecore::stratum
