#include "doors/ucx/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "doors/ucx/open_rows.hpp"
#include "doors/ucx/open_watch.hpp"
#include "doors/ucx/parts.hpp"

namespace icecore::doors {

using namespace std::chrono_literals;

user_share::~user_share() {
  if (of_) of_->give_back(name_);
}

user_share user_connections::take(const std::string& user, std::uint64_t most, service::refusals& refused) {
  const std::lock_guard lock(mutex_);
  std::uint64_t& used = used_[user];
  if (most != 0 && used >= most) {
    refused.count(service::kept_limit::connections_per_user);
    throw error(errc::limit_reached, fmt::format("the user has {} connections, as many as "
                                                 "limits.connections_per_user allows",
                                                 used));
  }
  ++used;
  return {shared_from_this(), user};
}

void user_connections::give_back(const std::string& user) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = used_.find(user);
  if (found != used_.end() && --found->second == 0) used_.erase(found);
}

void ucx_session::require_open() const {
  if (over) service::raise(*over);
}

void ucx_session::end(const service::failure& why) {
  std::vector<std::shared_ptr<open_rows>> all_rows;
  std::vector<std::shared_ptr<open_watch>> all_watches;
  {
    const std::lock_guard lock(mutex);
    if (!over) over = why;  // a client of a server that stops is told so, even if its connection breaks meanwhile
    all_rows = rows.take_all();
    all_watches = watches.take_all();
  }
  for (const auto& each : all_rows) each->end(why);
  for (const auto& each : all_watches) each->end(why);
}

ucx_parts::ucx_parts(service::service& served, const ucx_door_options& opening)
    : all(served),
      options(opening),
      independent(served.options().link == nullptr && served.options().group.size > 1),
      lengthy(2) {}

void ucx_parts::closed() noexcept {
  // Under the lock, or who waits could see the last one gone, and end, before this has notified.
  const std::lock_guard lock(mutex_);
  if (kept_.fetch_sub(1, std::memory_order_release) == 1) none_left_.notify_all();
}

void ucx_parts::wait_until_all_closed() {
  std::unique_lock lock(mutex_);
  none_left_.wait(lock, [&] { return kept_.load(std::memory_order_acquire) == 0; });
}

void ucx_parts::add(const std::shared_ptr<ucx_session>& session) {
  const std::lock_guard lock(mutex_);
  sessions_.insert(session);
}

void ucx_parts::remove(const std::shared_ptr<ucx_session>& session) {
  const std::lock_guard lock(mutex_);
  sessions_.erase(session);
}

void ucx_parts::end_sessions(const service::failure& why) {
  std::vector<std::shared_ptr<ucx_session>> ending;
  {
    const std::lock_guard lock(mutex_);
    ending.assign(sessions_.begin(), sessions_.end());
  }
  for (const auto& each : ending) each->end(why);
}

}  // namespace icecore::doors
