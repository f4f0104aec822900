#include <algorithm>
#include <tuple>

#include "operation.hpp"

namespace icecore::remote {

namespace detail {

// Invariant: all changes up to `told_` were given, and of the later ones the first `given_behind_` in the order of the
// watch. So a watch that is opened again behind `told_` leaves out as many, and nothing is told twice.
class watch_state {
 public:
  watch_state(std::shared_ptr<database> of, std::size_t part, watch_request what, std::chrono::milliseconds deadline)
      : of_(std::move(of)), part_(part), what_(std::move(what)), deadline_(deadline) {
    open();
  }
  ~watch_state() {
    try {  // a server that cannot be told forgets the watch with its connection
      std::ignore = begun(wire::close_watch_request{.watch = watch_}, std::chrono::seconds(1));
    } catch (...) {
    }
  }
  watch_state(const watch_state&) = delete;
  watch_state& operator=(const watch_state&) = delete;

  watch::batch next(std::chrono::milliseconds wait) {
    const auto until = in(wait);
    const auto left = [&] {
      return std::max<std::int64_t>(0, (until - std::chrono::steady_clock::now()) / std::chrono::milliseconds(1));
    };
    for (;;) {
      const wire::next_changes_request asked{
          .watch = watch_, .wait_ms = static_cast<std::uint32_t>(std::min<std::int64_t>(left(), longest_wait_ms))};
      try {
        const auto waits = begun(asked, std::chrono::milliseconds(asked.wait_ms) + deadline_);
        watch::batch some = take(read_answer<wire::changes_answer>(waits->wait(), waits->server()));
        if (!some.changes.empty() || left() == 0) return some;
      } catch (const icecore::error& why) {
        if (why.code() != errc::unavailable) throw;
        open();
      }
    }
  }

 private:
  static constexpr std::int64_t longest_wait_ms = 10'000;

  template <class Request>
  std::unique_ptr<operation> begun(const Request& asked, std::chrono::milliseconds limit) const {
    auto made = std::make_unique<operation>(of_, part_, asked.number, wire::encoded(asked), false, in(limit));
    made->bind(connection_);
    made->begin();
    return made;
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

  watch::batch take(wire::changes_answer&& got) {
    watch::batch some{.changes = {}, .told = got.told};
    const service::row_block& rows = got.changes;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (leave_out_ > 0) {
        --leave_out_;
        continue;
      }
      watched_change& one = some.changes.emplace_back();
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
};

}  // namespace detail

watch::batch watch::next(std::chrono::milliseconds wait) { return state_->next(wait); }

watch store::watch(const watch_request& what) const {
  return remote::watch(std::make_shared<detail::watch_state>(of_, of_->only_part("watches"), what, deadline_));
}

}  // namespace icecore::remote
