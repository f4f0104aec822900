#include "doors/grpc/connection_users.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "icecore/error.hpp"

namespace icecore::doors {

std::string connection_users::address_of(std::string_view peer) {
  const std::size_t port = peer.rfind(':');
  const std::size_t kind = peer.find(':');
  if (port == std::string_view::npos || kind == port) return std::string(peer);
  std::string host;
  for (std::size_t i = kind + 1; i < port; ++i) {
    const std::string_view escape = peer.substr(i, 3);
    if (escape == "%5B" || escape == "%5D") {
      i += 2;
    } else if (peer[i] == '%') {
      break;  // an interface of the machine
    } else if (peer[i] != '[' && peer[i] != ']') {
      host += peer[i];
    }
  }
  return host + std::string(peer.substr(port));
}

void connection_users::opened(const std::string& address, std::uint64_t number) {
  if (!is_limited()) return;
  const std::lock_guard lock(mutex_);
  connection& its = connections_[address];
  forget(its);  // of one that was closed, which the listener has not seen yet
  its = {.number = number, .users = {}};
}

void connection_users::closed(const std::string& address, std::uint64_t number) {
  if (!is_limited()) return;
  const std::lock_guard lock(mutex_);
  const auto found = connections_.find(address);
  if (found == connections_.end() || found->second.number != number) return;
  forget(found->second);
  connections_.erase(found);
}

void connection_users::forget(const connection& gone) {
  for (const std::string& user : gone.users) {
    const auto used = used_.find(user);
    if (--used->second == 0) used_.erase(used);
  }
}

void connection_users::use(std::string_view peer, const std::string& user) {
  if (!is_limited()) return;
  const std::lock_guard lock(mutex_);
  const auto found = connections_.find(address_of(peer));
  // A connection that is closed already; its calls end.
  if (found == connections_.end()) throw error(errc::unavailable, "the connection is closed");
  std::vector<std::string>& users = found->second.users;
  if (std::ranges::find(users, user) != users.end()) return;
  const auto used = used_.find(user);
  const std::uint64_t before = used == used_.end() ? 0 : used->second;
  if (before >= most_) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    throw error(errc::limit_reached,
                fmt::format("the user \"{}\" has {} connections; limits.connections_per_user allows {}: close one, and "
                            "ask again after a second",
                            user, before, most_));
  }
  users.push_back(user);
  used_[user] = before + 1;
}

}  // namespace icecore::doors
