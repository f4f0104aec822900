#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <tuple>

#include "operation.hpp"

namespace icecore::remote {

namespace detail {

// Rings when an answer may have come. Operations own it, not the session.
class [[gnu::visibility("hidden")]] bell {
 public:
  void ring() {
    const std::lock_guard held(mutex_);
    ++rings_;
    changed_.notify_all();
  }
  [[nodiscard]] std::uint64_t rings() {
    const std::lock_guard held(mutex_);
    return rings_;
  }
  void wait(std::uint64_t heard, steady_time until) {
    std::unique_lock held(mutex_);
    changed_.wait_until(held, until, [&] { return rings_ != heard; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t rings_ = 0;
};

// The watch of one server.
// Invariant: all changes up to `told_` were given, and of the later ones the first `given_behind_` in the order of the
// watch. So a watch that is opened again behind `told_` leaves out as many, and nothing is told twice.
class [[gnu::visibility("hidden")]] watch_part {
 public:
  watch_part(std::shared_ptr<database> of, std::size_t part, watch_request what, std::chrono::milliseconds deadline,
             std::shared_ptr<bell> waked)
      : of_(std::move(of)), part_(part), what_(std::move(what)), deadline_(deadline), waked_(std::move(waked)) {
    open();
  }
  ~watch_part() { close(); }
  watch_part(const watch_part&) = delete;
  watch_part& operator=(const watch_part&) = delete;

  [[nodiscard]] version told() const { return *told_; }
  /// Asks for changes, unless it has, and waits for them as long as that.
  void ask(std::chrono::milliseconds wait) {
    if (waits_ != nullptr) return;
    const wire::next_changes_request asked{
        .watch = watch_, .wait_ms = static_cast<std::uint32_t>(std::min<std::int64_t>(wait.count(), longest_wait_ms))};
    ends_ = in(std::chrono::milliseconds(asked.wait_ms));
    waits_ = begun(asked, std::chrono::milliseconds(asked.wait_ms) + deadline_, true);
  }
  [[nodiscard]] bool asked() const noexcept { return waits_ != nullptr; }
  /// What it was answered. `alone`: nobody else is waited for. Empty: no answer yet, or the watch was opened again.
  [[nodiscard]] std::optional<std::vector<watched_change>> take(bool alone) {
    if (waits_ == nullptr) return std::nullopt;
    try {
      // The server answers at that time, if not before.
      if (!alone && ends_ > std::chrono::steady_clock::now() && !waits_->test()) return std::nullopt;
      const auto over = std::move(waits_);
      return take(read_answer<wire::changes_answer>(over->wait(), over->server()));
    } catch (const icecore::error& why) {
      waits_.reset();
      if (why.code() != errc::unavailable) throw;
      close();  // over a connection that is still there, the server has it
      open();
      return std::nullopt;
    }
  }

 private:
  static constexpr std::int64_t longest_wait_ms = 10'000;

  template <class Request>
  std::unique_ptr<operation> begun(const Request& asked, std::chrono::milliseconds limit, bool rings) const {
    auto made = std::make_unique<operation>(of_, part_, asked.number, wire::encoded(asked), false, in(limit));
    if (rings) made->on_done([to = waked_] { to->ring(); });
    made->bind(connection_);
    made->begin();
    return made;
  }

  void close() noexcept {
    try {  // a server that cannot be told forgets the watch with its connection
      std::ignore = begun(wire::close_watch_request{.watch = watch_}, std::chrono::seconds(1), false);
    } catch (...) {
    }
  }

  void open() {
    const wire::open_watch_request asked{
        .after = told_ ? told_ : what_.after, .bounds = what_.bounds, .before = what_.before};
    operation opening(of_, part_, asked.number, wire::encoded(asked), true, in(deadline_));
    opening.begin();
    const auto got = read_answer<wire::changes_answer>(opening.wait(), opening.server());
    connection_ = opening.connection();
    watch_ = got.watch;
    leave_out_ = given_behind_;
    if (!told_) told_ = got.told;
  }

  std::vector<watched_change> take(wire::changes_answer&& got) {
    std::vector<watched_change> some;
    const service::row_block& rows = got.changes;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (leave_out_ > 0) {
        --leave_out_;
        continue;
      }
      watched_change& one = some.emplace_back();
      one.key = rows.keys[i];
      one.version = i < rows.versions.size() ? rows.versions[i] : 0;
      const bool removed = i < rows.removed.size() && rows.removed[i] != 0;
      if (!removed) one.value = rows.values[i];
      if (i < rows.before.size() && rows.before_absent[i] == 0) one.before = rows.before[i];
      ++given_behind_;
    }
    if (got.told > *told_) {
      told_ = got.told;
      given_behind_ = 0;
      for (const version written : rows.versions) given_behind_ += written > got.told ? 1 : 0;
    }
    return some;
  }

  std::shared_ptr<database> of_;
  std::size_t part_;
  watch_request what_;
  std::chrono::milliseconds deadline_;
  sent_over connection_;
  std::uint32_t watch_ = 0;
  std::optional<version> told_;
  std::uint64_t given_behind_ = 0;
  std::uint64_t leave_out_ = 0;
  std::shared_ptr<bell> waked_;
  std::unique_ptr<operation> waits_;
  steady_time ends_{};
};

// The watches of all parts: what comes first is told first, so the changes of a key are in their order.
class [[gnu::visibility("hidden")]] watch_state {
 public:
  watch_state(const std::shared_ptr<database>& of, const watch_request& what, std::chrono::milliseconds deadline) {
    const std::size_t parts = of->all->parts();
    if (parts > 1 && what.after) std::ignore = of->only_part("a watch after one version");
    if (!what.after_each.empty() && what.after_each.size() != parts) {
      throw icecore::error(errc::invalid_argument,
                           "watch_request::after_each has " + std::to_string(what.after_each.size()) +
                               " versions, and there are " + std::to_string(parts) + " servers with parts");
    }
    for (std::size_t part = 0; part < parts; ++part) {
      watch_request one = what;
      if (!what.after_each.empty()) one.after = what.after_each[part];
      parts_.push_back(std::make_unique<watch_part>(of, part, std::move(one), deadline, waked_));
    }
  }

  watch::batch next(std::chrono::milliseconds wait) {
    const steady_time until = in(wait);
    for (;;) {
      const std::uint64_t heard = waked_->rings();
      const auto left =
          std::max(std::chrono::milliseconds(0),
                   std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()));
      for (const auto& each : parts_) each->ask(left);
      watch::batch some;
      for (std::size_t i = 0; i < parts_.size() && some.changes.empty(); ++i) {  // each is first in its turn
        turn_ = (turn_ + 1) % parts_.size();
        if (auto came = parts_[turn_]->take(parts_.size() == 1)) some.changes = std::move(*came);
      }
      if (!some.changes.empty() || left.count() == 0) {
        for (const auto& each : parts_) some.told_each.push_back(each->told());
        some.told = parts_.size() == 1 ? some.told_each.front() : 0;
        return some;
      }
      // One that was answered, or opened again, has to be asked before the bell is waited for.
      const bool all_asked = std::ranges::all_of(parts_, [](const auto& each) { return each->asked(); });
      if (parts_.size() > 1 && all_asked) waked_->wait(heard, until);
    }
  }

 private:
  std::shared_ptr<bell> waked_ = std::make_shared<bell>();
  std::vector<std::unique_ptr<watch_part>> parts_;
  std::size_t turn_ = 0;
};

}  // namespace detail

watch::batch watch::next(std::chrono::milliseconds wait) { return state_->next(wait); }

watch store::watch(const watch_request& what) const {
  return remote::watch(std::make_shared<detail::watch_state>(of_, what, deadline_));
}

}  // namespace icecore::remote
