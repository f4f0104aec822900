// Watches: the client asks for the next changes, and is answered when there are some or its time is over.
#include <algorithm>

#include "doors/ucx/open_watch.hpp"

namespace icecore::doors {

using namespace std::chrono_literals;
using service::right;

namespace {

constexpr std::chrono::milliseconds wait_most = 24h;
constexpr std::uint32_t block_bytes_least = 1U << 10;
constexpr std::uint32_t block_bytes_most = 4U << 20;

}  // namespace

void watch_clock::add(std::chrono::steady_clock::time_point when, std::weak_ptr<open_watch> which) {
  const std::lock_guard lock(mutex_);
  due_.emplace(when, std::move(which));
}

void watch_clock::look() {
  std::multimap<std::chrono::steady_clock::time_point, std::weak_ptr<open_watch>> now_due;
  {
    const std::lock_guard lock(mutex_);
    const auto end = due_.upper_bound(std::chrono::steady_clock::now());
    while (due_.begin() != end) now_due.insert(due_.extract(due_.begin()));
  }
  for (const auto& [when, which] : now_due) {
    if (const auto watch = which.lock()) watch->kick();
  }
}

void open_watch::ask(std::unique_ptr<call> asking, std::chrono::milliseconds wait, service::block_limits limits) {
  std::optional<service::failure> refused;
  {
    const std::lock_guard lock(mutex_);
    if (over_) {
      refused = over_;
    } else if (asking_) {
      refused = {errc::invalid_argument, "another next_changes of this watch waits already; one at a time"};
    } else {
      asking_ = std::move(asking);
      until_ = std::chrono::steady_clock::now() + std::min(wait, wait_most);
      limits_ = limits;
    }
  }
  if (refused) return asking->fail(*refused);
  if (wait.count() > 0) door_.clock.add(std::chrono::steady_clock::now() + std::min(wait, wait_most), weak_from_this());
  kick();
}

void open_watch::kick() {
  {
    const std::lock_guard lock(mutex_);
    again_ = true;
    if (!asking_ || std::exchange(busy_, true)) return;
  }
  // A request waits, and keeps the door: it has counted it.
  door_.all.threads().post([self = shared_from_this()] { self->step(); });
}

void open_watch::wake() {
  {
    const std::lock_guard lock(mutex_);
    armed_ = false;
  }
  kick();
}

void open_watch::step() {
  while (round()) {
  }
}

/// True: once more.
bool open_watch::round() {
  std::unique_ptr<call> answered;
  std::optional<service::failure> why;
  service::block_limits limits;
  bool late = false;
  {
    const std::lock_guard lock(mutex_);
    again_ = false;
    late = std::chrono::steady_clock::now() >= until_;
    limits = limits_;
    if (over_) {
      why = over_;
      answered = std::move(asking_);
      busy_ = false;
      watch_.reset();
    }
  }
  if (why) {
    answered->fail(*why);
    return false;
  }
  service::watched some;
  try {
    asking_->require_again(bounds_, right::read);  // rights may have been withdrawn
    some = watch_->next(limits);
    if (some.changes.empty() && !late) {
      bool arms = false;
      {
        const std::lock_guard lock(mutex_);
        arms = !std::exchange(armed_, true);
      }
      // It does not keep the watch: the database's list would keep what ends it.
      if (arms) {
        watch_->arm([weak = weak_from_this()] {
          if (const auto self = weak.lock()) self->wake();
        });
      }
      const std::lock_guard lock(mutex_);
      if (again_ || over_) return true;
      busy_ = false;
      return false;
    }
  } catch (...) {
    why = service::failure_of(std::current_exception());
  }
  {
    const std::lock_guard lock(mutex_);
    answered = std::move(asking_);
    busy_ = false;
  }
  if (why) {
    answered->fail(*why);
  } else {
    answered->attempt([&] {
      answered->answer(
          wire::encoded(wire::changes_answer{.watch = handle_, .told = some.told, .changes = std::move(some.changes)}));
    });
  }
  return false;
}

void open_watch::end(const service::failure& why) {
  std::unique_ptr<call> answered;
  {
    const std::lock_guard lock(mutex_);
    if (over_) return;
    over_ = why;
    again_ = true;
    if (!busy_) {
      answered = std::move(asking_);
      watch_.reset();
    }
  }
  if (answered) answered->fail(why);
}

void execute(call& c, wire::open_watch_request&& asked) {
  c.require(asked.bounds, right::read);
  auto held = std::make_shared<service::gauge::share>(c.door().all.watches().take(1));
  go_on(c.door().all.threads(), c, [asked = std::move(asked), held](call& on) {
    // A watch from now on begins at a version that holds everything acknowledged before.
    const version after = asked.after ? *asked.after : on.database().resolve(service::newest{});
    auto watching = on.database().watch_changes({.after = after, .bounds = asked.bounds, .before = asked.before});
    const auto made = std::make_shared<open_watch>(on.door(), on.shared_database(), std::move(watching), asked.bounds,
                                                   std::move(*held));
    std::uint32_t handle = 0;
    {
      ucx_session& session = on.session();
      const std::lock_guard lock(session.mutex);
      session.require_open();
      handle = session.watches.add(made);
      made->is_known_as(handle);
    }
    on.answer(wire::encoded(wire::changes_answer{.watch = handle, .told = after, .changes = {}}));
  });
}

void execute(call& c, wire::next_changes_request&& asked) {
  std::shared_ptr<open_watch> watch;
  {
    const std::lock_guard lock(c.session().mutex);
    c.session().require_open();
    if (auto* const found = c.session().watches.find(asked.watch)) watch = *found;
  }
  if (!watch) throw error(errc::invalid_argument, "no watch is open on this connection under the number that was told");
  const std::uint32_t bytes = asked.block_bytes == 0 ? wire::block_bytes_default : asked.block_bytes;
  watch->ask(c.keep(), std::chrono::milliseconds(asked.wait_ms),
             {.rows = 65'536, .bytes = std::clamp(bytes, block_bytes_least, block_bytes_most)});
}

void execute(call& c, wire::close_watch_request&& asked) {
  std::optional<std::shared_ptr<open_watch>> closed;
  {
    const std::lock_guard lock(c.session().mutex);
    closed = c.session().watches.take(asked.watch);
  }
  if (closed) (*closed)->end({errc::cancelled, "the client has closed the watch"});
  c.answer({});
}

}  // namespace icecore::doors
