#include "judge/faults.hpp"

#include <chrono>
#include <thread>

#include "icecore/error.hpp"

namespace icecore::judge {
namespace {

constexpr std::size_t early_group = 16;

class forgetful_watch : public target_watch {
 public:
  forgetful_watch(std::unique_ptr<target_watch> real, std::uint64_t which) : real_(std::move(real)), left_(which) {}
  watch_part next() override {
    watch_part came = real_->next();
    watch_part kept;
    kept.told = came.told;
    for (std::size_t i = 0; i < came.changes.size(); ++i) {
      if (left_ > 0 && --left_ == 0) continue;
      const bool removed = !came.changes.removed.empty() && came.changes.removed[i] != 0;
      kept.changes.add(came.changes.keys[i],
                       removed ? std::nullopt : std::optional<std::string_view>(came.changes.values[i]),
                       came.changes.versions[i]);
    }
    return kept;
  }

 private:
  std::unique_ptr<target_watch> real_;
  std::uint64_t left_;
};

[[noreturn]] void no_power() { throw error(errc::unavailable, "the power was cut"); }

}  // namespace

// The order of transactions is the same in both databases, since each executes them under `mutex_`.
service::outcome double_target::write(service::transaction what) {
  if (off_) no_power();
  if (disk_alone_) return disk_.write(std::move(what));
  std::unique_lock lock(mutex_);
  if (off_) no_power();
  if (fault_ == fault::none) {
    service::outcome answer = present_.write(what);
    disk_.write(std::move(what));
    return answer;
  }
  service::outcome answer = present_.write(what);
  behind_.push_back(std::move(what));
  moved_.notify_all();
  const std::uint64_t mine = ++executed_;
  if (fault_ == fault::early_reply && behind_.size() < early_group) return answer;
  if (fault_ == fault::open_reads) {  // a slow disk, which takes what has gathered
    const auto over = [&] { return off_ || on_disk_ >= mine; };
    while (!moved_.wait_for(lock, std::chrono::milliseconds(5), over) && cutting_) {
    }
    if (off_) no_power();
  }
  for (; !behind_.empty(); behind_.pop_front()) {
    disk_.write(std::move(behind_.front()));
    ++on_disk_;
  }
  moved_.notify_all();
  return answer;
}

target& double_target::reads() {
  if (off_) no_power();
  ++read_;
  return fault_ == fault::none || disk_alone_ ? disk_ : present_;
}

std::optional<service::row> double_target::find(const std::string& key) { return reads().find(key); }
scanned double_target::scan(const icecore::key_bounds& bounds) { return reads().scan(bounds); }
std::unique_ptr<target_watch> double_target::watch(icecore::version after, const icecore::key_bounds& bounds) {
  return reads().watch(after, bounds);
}
void double_target::tag() {}

void double_target::cut_power() {
  std::unique_lock lock(mutex_);
  if (fault_ != fault::none) {  // when it hurts: some wait for the disk, and others have read what they wrote
    cutting_ = true;
    moved_.wait_for(lock, std::chrono::seconds(1), [this] { return behind_.size() >= 2; });
    const std::uint64_t read_before = read_;
    for (int i = 0; i < 1000 && read_ < read_before + 100; ++i) {
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      lock.lock();
    }
  }
  off_ = true;
  behind_.clear();
  moved_.notify_all();
}

void double_target::restart() {
  disk_alone_ = true;
  off_ = false;
}

std::unique_ptr<target_watch> forgetful_target::watch(icecore::version after, const icecore::key_bounds& bounds) {
  return std::make_unique<forgetful_watch>(real_.watch(after, bounds), which_);
}

}  // namespace icecore::judge
