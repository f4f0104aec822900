#include "service/read/watches.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>
#include <vector>

#include "service/read/hidden_keys.hpp"

namespace icecore::service {

struct watch_list::shared {
  mutable std::mutex mutex;
  icecore::version tellable = 0;
  std::optional<failure> over;
  std::uint64_t next = 0;
  std::map<std::uint64_t, std::function<void()>> armed;
  std::atomic<std::uint64_t> count{0};  // relaxed: only shown
};

class watch_list::store_watch final : public watch {
 public:
  store_watch(std::shared_ptr<shared> of, std::shared_ptr<const gate> way, icecore::feed told, icecore::version after,
              const watch_request& what, std::shared_ptr<const value_codec> codec)
      : shared_(std::move(of)),
        way_(std::move(way)),
        feed_(std::move(told)),
        what_(what),
        told_(after),
        codec_(std::move(codec)) {
    shared_->count.fetch_add(1, std::memory_order_relaxed);
    const std::lock_guard lock(shared_->mutex);
    number_ = ++shared_->next;
  }
  ~store_watch() override {
    shared_->count.fetch_sub(1, std::memory_order_relaxed);
    const std::lock_guard lock(shared_->mutex);
    shared_->armed.erase(number_);
  }

  watched next(const block_limits& limits) override {
    const gate::pass inside = way_->enter();
    watched answer;
    answer.told = told_;
    for (;;) {
      require_alive();
      // The store tells a version when it is closed, or durable: that may be before reads show it. Nobody is told what
      // a read that begins later might not show.
      const icecore::version shown = newest();
      for (; position_ < batch_.changes.size(); ++position_) {
        const icecore::key_change& change = batch_.changes[position_];
        if (change.version > shown) {
          told_ = std::max(told_, shown);
          answer.told = told_;
          return answer;
        }
        if (is_hidden(change.key) || !holds(what_.bounds, change.key)) continue;
        const bool full = answer.changes.size() >= limits.rows || answer.changes.bytes() >= limits.bytes;
        if (full) return answer;  // `told` stays behind: the version has more
        std::optional<std::string_view> value;
        if (change.value) value = codec_->decode(*change.value, room_);
        answer.changes.add(change.key, value, change.version);
        if (what_.before) {
          std::optional<std::string_view> before;
          if (change.before) before = codec_->decode(*change.before, room_);
          answer.changes.add_before(before);
        }
      }
      told_ = std::max(told_, std::min(batch_.told, shown));
      answer.told = told_;
      if (!answer.changes.empty()) return answer;
      // A version that can be told may wait for a write that is under way: a moment is enough.
      const bool expected = newest() > told_;
      batch_ = feed_.next(std::max<std::size_t>(limits.rows, 1),
                          expected ? std::chrono::milliseconds(1) : std::chrono::milliseconds(0));
      position_ = 0;
      if (batch_.changes.empty()) {
        const bool moved = batch_.told > told_;
        told_ = std::max(told_, std::min(batch_.told, newest()));
        answer.told = told_;
        if (!moved || newest() <= told_) return answer;
      }
    }
  }

  void arm(std::function<void()> wake) override {
    {
      const std::lock_guard lock(shared_->mutex);
      if (!shared_->over && shared_->tellable <= told_ && position_ >= batch_.changes.size()) {
        shared_->armed.insert_or_assign(number_, std::move(wake));
        return;
      }
    }
    wake();
  }

 private:
  void require_alive() const {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->over) raise(*shared_->over);
  }
  [[nodiscard]] icecore::version newest() const {
    const std::lock_guard lock(shared_->mutex);
    return shared_->tellable;
  }

  std::shared_ptr<shared> shared_;
  std::shared_ptr<const gate> way_;
  icecore::feed feed_;
  watch_request what_;
  std::uint64_t number_ = 0;
  icecore::version told_;
  std::shared_ptr<const value_codec> codec_;
  icecore::feed_batch batch_{};
  std::size_t position_ = 0;
  std::string room_;
};

watch_list::watch_list() : shared_(std::make_shared<shared>()) {}
watch_list::~watch_list() { end({errc::unavailable, "the database is closed"}); }

std::unique_ptr<watch> watch_list::begin(std::shared_ptr<const gate> way, icecore::feed told, icecore::version after,
                                         const watch_request& what, std::shared_ptr<const value_codec> codec) {
  return std::make_unique<store_watch>(shared_, std::move(way), std::move(told), after, what, std::move(codec));
}

void watch_list::tellable(icecore::version up_to) {
  std::map<std::uint64_t, std::function<void()>> waked;
  {
    const std::lock_guard lock(shared_->mutex);
    if (up_to <= shared_->tellable) return;
    shared_->tellable = up_to;
    waked.swap(shared_->armed);
  }
  for (const auto& [number, wake] : waked) wake();
}

void watch_list::end(const failure& why) {
  std::map<std::uint64_t, std::function<void()>> waked;
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->over) return;
    shared_->over = why;
    waked.swap(shared_->armed);
  }
  for (const auto& [number, wake] : waked) wake();
}

std::uint64_t watch_list::count() const noexcept { return shared_->count.load(std::memory_order_relaxed); }

icecore::version watch_list::newest() const noexcept {
  const std::lock_guard lock(shared_->mutex);
  return shared_->tellable;
}

}  // namespace icecore::service
