#include "client.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "icecore/error.hpp"

namespace icecore::skv {

namespace {

constexpr std::string_view attributes_database = "skv_attributes";

skv_status_t status_of_code(errc code) noexcept {
  switch (code) {
    case errc::denied:
      return SKV_ERRNO_PERMISSION_DENIED;
    case errc::key_too_long:
      return SKV_ERRNO_KEY_TOO_LARGE;
    case errc::value_too_large:
      return SKV_ERRNO_VALUE_TOO_LARGE;
    case errc::no_space:
      return SKV_ERRNO_NODE_FULL;
    case errc::not_owner:
      return SKV_ERRNO_NODE_NOT_OWNER;
    case errc::unavailable:
    case errc::outcome_unknown:
    case errc::deadline_exceeded:
      return SKV_ERRNO_CONN_FAILED;
    case errc::unauthenticated:
    case errc::other_cluster:
      return SKV_ERRNO_CONNECTION_REQUEST_REFUSED;
    case errc::limit_reached:
      return SKV_ERRNO_PENDING_COMMAND_LIMIT_REACHED;
    default:
      return SKV_ERRNO_UNSPECIFIED_ERROR;
  }
}

template <class Answer, class Request>
Answer ask(const std::shared_ptr<detail::session>& all, std::string_view database, std::size_t part,
           const Request& asked, bool repeatable) {
  const detail::database of(all, std::string(database));
  return of.ask<Answer>(part, asked, detail::in(all->opened_with().deadline), repeatable);
}

}  // namespace

skv_status_t status_of(const std::exception_ptr& thrown) noexcept {
  try {
    std::rethrow_exception(thrown);
  } catch (const icecore::error& e) {
    return status_of_code(static_cast<errc>(e.code().value()));
  } catch (const std::bad_alloc&) {
    return SKV_ERRNO_OUT_OF_MEMORY;
  } catch (...) {
    return SKV_ERRNO_UNSPECIFIED_ERROR;
  }
}

client::client(const char* configuration_file)
    : configuration_file_(configuration_file == nullptr ? "" : configuration_file) {}

skv_status_t client::connect(const char* configuration_file) {
  const char* given = configuration_file != nullptr ? configuration_file : configuration_file_.c_str();
  configuration found = read_configuration(given);
  remote::options opening;
  opening.token = found.token;
  opening.name = "skv";
  opening.group = found.group;
  opening.grouping = found.independent ? remote::grouping::independent : remote::grouping::dependent;
  auto made = std::make_shared<detail::session>(found.address(), opening);
  const std::lock_guard held(mutex_);
  known_.clear();
  configured_ = std::move(found);
  session_ = std::move(made);
  return SKV_SUCCESS;
}

skv_status_t client::disconnect() {
  std::shared_ptr<detail::session> last;  // ends outside of the lock
  std::vector<std::shared_ptr<command>> left = commands_.remove_all();
  const std::lock_guard held(mutex_);
  if (session_ == nullptr) return SKV_ERRNO_CONN_FAILED;
  last = std::move(session_);
  known_.clear();
  return SKV_SUCCESS;
}

std::shared_ptr<detail::session> client::session() const {
  const std::lock_guard held(mutex_);
  return session_;
}

void client::create(std::string_view database, bool may_exist) {
  const auto all = session();
  const wire::create_database_request asked{.settings = {.name = std::string(database)}};
  for (std::size_t part = 0; part < all->parts(); ++part) {
    try {
      static_cast<void>(ask<wire::database_answer>(all, "", part, asked, false));
    } catch (const icecore::error& why) {
      if (why.code() != errc::database_exists || !may_exist) throw;
    }
  }
}

bool client::is_there(const database_pointer& of) {
  const auto deadline = detail::in(of->all->opened_with().deadline);
  try {
    for (std::size_t part = 0; part < of->all->parts(); ++part) {
      of->all->link_of(part).look_up(of->name, deadline);
    }
    return true;
  } catch (const icecore::error& why) {
    if (why.code() != errc::denied) throw;
    return false;
  }
}

skv_status_t client::open(const char* name, skv_cmd_open_flags_t flags, skv_pds_id_t& id) {
  const auto all = session();
  if (all == nullptr) return SKV_ERRNO_CONN_FAILED;
  if (name == nullptr) return SKV_ERRNO_UNSPECIFIED_ERROR;
  const std::string_view pds(name, strnlen(name, SKV_MAX_PDS_NAME_SIZE));
  if (pds.size() == SKV_MAX_PDS_NAME_SIZE) return SKV_ERRNO_KEY_TOO_LARGE;
  const bool create_it = (flags & SKV_COMMAND_OPEN_FLAGS_CREATE) != 0;
  const bool exclusive = (flags & SKV_COMMAND_OPEN_FLAGS_EXCLUSIVE) != 0;
  auto of = std::make_shared<detail::database>(all, database_of(pds));
  const bool there = is_there(of);
  if (there && exclusive) return SKV_ERRNO_PDS_ALREADY_EXISTS;
  if (!there && !create_it) return SKV_ERRNO_PDS_DOES_NOT_EXIST;
  if (!there) {
    try {
      create(of->name, !exclusive);
    } catch (const icecore::error& why) {
      if (why.code() != errc::database_exists) throw;
      return SKV_ERRNO_PDS_ALREADY_EXISTS;  // another process was faster
    }
  }
  id = identifier_of(pds);
  const std::lock_guard held(mutex_);
  known_[id] = std::move(of);
  return SKV_SUCCESS;
}

database_pointer client::database(const skv_pds_id_t& id) {
  const auto all = session();
  if (all == nullptr) return nullptr;
  {
    const std::lock_guard held(mutex_);
    const auto found = known_.find(id);
    if (found != known_.end()) return found->second;
  }
  const auto told = ask<wire::list_databases_answer>(all, "", 0, wire::list_databases_request{}, true);
  for (const wire::database_settings& each : told.databases) {
    const std::optional<std::string> pds = pds_of(each.name);
    if (!pds || identifier_of(*pds) != id) continue;
    auto of = std::make_shared<detail::database>(all, each.name);
    const std::lock_guard held(mutex_);
    return known_[id] = std::move(of);
  }
  return nullptr;
}

skv_status_t client::close(const skv_pds_id_t& id) {
  if (session() == nullptr) return SKV_ERRNO_CONN_FAILED;
  return database(id) == nullptr ? SKV_ERRNO_PDS_DOES_NOT_EXIST : SKV_SUCCESS;
}

database_pointer client::attributes() {
  auto of = std::make_shared<detail::database>(session(), std::string(attributes_database));
  if (!is_there(of)) create(of->name, true);
  return of;
}

skv_status_t client::control(skv_pdscntl_cmd_t what, skv_pds_attr_t& attributes_of) {
  if (session() == nullptr) return SKV_ERRNO_CONN_FAILED;
  const database_pointer of = database(attributes_of.mPDSId);
  if (of == nullptr) return SKV_ERRNO_PDS_DOES_NOT_EXIST;
  const database_pointer kept = attributes();
  const std::size_t part = kept->all->server_of(of->name);
  const auto deadline = detail::in(kept->all->opened_with().deadline);
  if (what == SKV_PDSCNTL_CMD_STAT_SET || what == SKV_PDSCNTL_CMD_CLOSE) {
    const wire::put_request asked{.key = of->name, .value = std::to_string(attributes_of.mSize)};
    static_cast<void>(kept->ask<wire::put_answer>(part, asked, deadline, true));
    return SKV_SUCCESS;
  }
  if (what != SKV_PDSCNTL_CMD_STAT_GET) return SKV_ERRNO_NOT_IMPLEMENTED;
  const auto told = kept->ask<wire::get_answer>(part, wire::get_request{.key = of->name}, deadline, true);
  attributes_of.mSize = told.found ? std::strtoull(told.value.c_str(), nullptr, 10) : 0;
  attributes_of.mPrivs = static_cast<skv_pds_priv_t>(SKV_PDS_READ | SKV_PDS_WRITE);
  const std::string name = pds_of(of->name).value_or("");
  std::memset(attributes_of.mPDSName, 0, sizeof attributes_of.mPDSName);
  std::memcpy(attributes_of.mPDSName, name.data(), std::min(name.size(), sizeof attributes_of.mPDSName - 1));
  return SKV_SUCCESS;
}

skv_status_t client::dump_image(const char* path) {
  const auto all = session();
  if (all == nullptr) return SKV_ERRNO_CONN_FAILED;
  if (path == nullptr || *path == '\0') return SKV_ERRNO_UNSPECIFIED_ERROR;
  for (std::size_t part = 0; part < all->parts(); ++part) {
    std::string to(path);
    if (all->parts() > 1) to.append(".").append(std::to_string(part));
    static_cast<void>(ask<wire::snapshot_answer>(all, "", part, wire::snapshot_request{.to = std::move(to)}, false));
  }
  return SKV_SUCCESS;
}

const std::vector<int>& client::local_servers() {
  char own[256] = {};
  static_cast<void>(gethostname(own, sizeof own - 1));
  const std::lock_guard held(mutex_);
  local_.clear();
  for (std::size_t i = 0; i < configured_.servers.size(); ++i) {
    const std::string& host = configured_.servers[i].host;
    if (host == own || host == "localhost" || host == "::1" || host.starts_with("127."))
      local_.push_back(static_cast<int>(i));
  }
  return local_;
}

}  // namespace icecore::skv
