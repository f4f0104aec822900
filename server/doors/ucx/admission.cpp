#include "doors/ucx/admission.hpp"

#include <fmt/format.h>

#include "icecore/error.hpp"

namespace icecore::doors {

namespace {

using wire::close_reason;

constexpr std::size_t program_bytes_max = 128;

/// The user's session. errc::unauthenticated, limit_reached.
std::shared_ptr<ucx_session> session_of(ucx_parts& door, const wire::hello& said) {
  service::access& users = door.all.users();
  if (!users.has_users()) return std::make_shared<ucx_session>(service::principal::anyone(), std::string(), false);
  if (said.user.empty()) return std::make_shared<ucx_session>(users.recognise(said.secret), said.secret, false);
  const service::access_token made = users.log_in(said.user, said.secret);
  return std::make_shared<ucx_session>(users.recognise(made.text), made.text, true);
}

wire::admission refused(close_reason why, std::string text) {
  wire::admission no;
  no.reason = why;
  no.text = std::move(text);
  return no;
}

}  // namespace

std::string identity_of(const service::group_place& place) {
  return fmt::format("{}:{}/{}", place.name, place.index, place.size);
}

wire::admission admit(ucx_parts& door, const wire::hello& said, const std::string& /*peer*/) {
  if (door.stopping.load(std::memory_order_relaxed)) return refused(close_reason::stopping, "the server is stopping");
  const std::string group = identity_of(door.all.options().group);
  if (!said.group.empty() && said.group != group) {
    return refused(close_reason::other_group,
                   fmt::format("this server is {} (group:index/size), not {}; correct the list of servers", group,
                               said.group.substr(0, 512)));
  }
  try {
    service::gauge::share connection = door.all.connections().take(1);
    std::shared_ptr<ucx_session> made = session_of(door, said);
    made->connections = std::move(connection);
    made->program = said.name.substr(0, program_bytes_max);
    const std::string& name = made->who.name();
    if (!name.empty()) {
      made->of_user = door.by_user->take(name, door.all.options().limits.connections_per_user, door.all.refused());
    }
    return {.accepted = true, .reason = close_reason::none, .text = {}, .group = group, .session = std::move(made)};
  } catch (const error& e) {
    if (e.code() == errc::limit_reached) return refused(close_reason::too_many_connections, e.message());
    return refused(close_reason::wrong_token, e.message());
  }
}

}  // namespace icecore::doors
