#include "service/access/user_catalog.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "icecore/error.hpp"
#include "service/access/password.hpp"

namespace icecore::service {
namespace {

using nlohmann::json;

constexpr std::string_view user_prefix = "user/";
constexpr std::string_view role_prefix = "role/";
constexpr std::pair<right, const char*> right_names[] = {
    {right::read, "read"}, {right::write, "write"}, {right::administer, "administer"}};

std::string text_of(const user_record& u) {
  json j{{"roles", u.roles}};
  if (u.password) j["password"] = *u.password;
  return j.dump();
}

std::string permissions_of(const role& r) {
  json permissions = json::array();
  for (const permission& p : r.permissions) {
    json one{{"database", p.database}, {"rights", json::array()}};
    for (const auto& [which, name] : right_names) {
      if ((p.allowed & static_cast<rights>(which)) != 0) one["rights"].push_back(name);
    }
    if (p.keys.from) one["from"] = to_base64url(*p.keys.from);
    if (p.keys.to) one["to"] = to_base64url(*p.keys.to);
    permissions.push_back(std::move(one));
  }
  return json{{"permissions", std::move(permissions)}}.dump();
}

user_record user_of(const json& j) {
  user_record u;
  j.at("roles").get_to(u.roles);
  std::sort(u.roles.begin(), u.roles.end());
  if (j.contains("password")) {
    u.password = j.at("password").get<std::string>();
    check_hash(*u.password);
  }
  return u;
}

std::optional<std::string> bound_of(const json& j, const char* which) {
  if (!j.contains(which)) return std::nullopt;
  std::string bytes;
  if (!from_base64url(j.at(which).get<std::string>(), bytes)) {
    throw error(errc::damaged, fmt::format("\"{}\" is not in base64url", which));
  }
  return bytes;
}

role role_of(std::string_view name, const json& j) {
  role r{std::string(name), {}};
  for (const json& one : j.at("permissions")) {
    permission p;
    one.at("database").get_to(p.database);
    p.keys = {bound_of(one, "from"), bound_of(one, "to")};
    for (const json& wanted : one.at("rights")) {
      const auto* known = std::find_if(std::begin(right_names), std::end(right_names),
                                       [&](const auto& each) { return wanted == each.second; });
      if (known == std::end(right_names)) {
        throw error(errc::damaged,
                    fmt::format("{} is no right", wanted.dump(-1, ' ', true, json::error_handler_t::replace)));
      }
      p.allowed = static_cast<rights>(p.allowed | static_cast<rights>(known->first));
    }
    r.permissions.push_back(std::move(p));
  }
  return r;
}

// Calls `read` with the name and the JSON of each record whose key has this prefix.
template <typename Read>
void for_each(const snapshot& at, std::string_view prefix, Read read) {
  for (const auto& [key, value] : at.prefix(prefix)) {
    const std::string_view name = key.substr(prefix.size());
    try {
      read(name, json::parse(value));
    } catch (const json::exception& e) {
      throw error(errc::damaged, fmt::format("the catalog's record {}: {}", key, e.what()));
    } catch (const error& e) {
      throw error(errc::damaged, fmt::format("the catalog's record {}: {}", key, e.message()));
    }
  }
}

std::string text_of_record(const user_record& u) { return text_of(u); }
std::string text_of_record(const role& r) { return permissions_of(r); }

template <typename Record>
void put(batch& into, std::string_view prefix, const std::string& name, const std::optional<Record>& record) {
  const std::string key = std::string(prefix) + name;
  if (record) {
    into.insert(key, text_of_record(*record));
  } else {
    into.remove(key);
  }
}

}  // namespace

std::string text_of(const role& what) { return permissions_of(what); }

role role_in(std::string_view name, std::string_view text) {
  try {
    return role_of(name, json::parse(text));
  } catch (const json::exception& e) {
    throw error(errc::damaged, fmt::format("the role {}: {}", name, e.what()));
  }
}

user_records user_catalog::load() const {
  user_records all;
  const snapshot now = catalog_.latest();
  for_each(now, user_prefix,
           [&](std::string_view name, const json& j) { all.users.emplace(std::string(name), user_of(j)); });
  for_each(now, role_prefix,
           [&](std::string_view name, const json& j) { all.roles.emplace(std::string(name), role_of(name, j)); });
  return all;
}

// A crash before apply() returns leaves all of the batch or nothing (the store's promise); one before sync() returns
// may lose the change, which nobody was told is done.
void user_catalog::save(const user_changes& what) {
  batch changed;
  for (const auto& [name, record] : what.users) put(changed, user_prefix, name, record);
  for (const auto& [name, record] : what.roles) put(changed, role_prefix, name, record);
  catalog_.apply(changed);
  static_cast<void>(catalog_.latest());
  catalog_.sync();
}

}  // namespace icecore::service
