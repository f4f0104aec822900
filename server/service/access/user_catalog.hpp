// The records of users and roles in the server's catalog: keys "user/NAME" and "role/NAME", values in JSON.
//
//   user/ann      {"password":"scrypt$15$8$1$SALT$HASH","roles":["readers"]}       without password: by certificate
//   role/readers  {"permissions":[{"database":"app-*","from":"YQ","to":"Yg","rights":["read"]}]}
//
// The bounds of keys are any bytes, therefore base64url; a bound that is absent is none.
// Durability: save() returns when the change is durable. Each change closes a version of the catalog, so the catalog
//   shows who was allowed what, and when. A crash leaves all of a change or nothing.
// Threads: the caller's lock. Errors: damaged, naming the record, if it is not as above; those of a store.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "icecore/store.hpp"
#include "service/access.hpp"

namespace icecore::service {

struct user_record {
  std::vector<std::string> roles;         ///< sorted, each once
  std::optional<std::string> password{};  ///< its hash; empty: known by a certificate alone
};

/// Names that records point to.
struct user_records {
  std::map<std::string, user_record, std::less<>> users;
  std::map<std::string, role, std::less<>> roles;
};

/// What changes at once: a record that is empty is removed.
struct user_changes {
  std::map<std::string, std::optional<user_record>, std::less<>> users{};
  std::map<std::string, std::optional<role>, std::less<>> roles{};
};

/// A role's permissions as its record has them. Reading: errc::damaged.
[[nodiscard]] std::string text_of(const role& what);
[[nodiscard]] role role_in(std::string_view name, std::string_view text);

class user_catalog {
 public:
  explicit user_catalog(icecore::store& catalog) : catalog_(catalog) {}
  [[nodiscard]] user_records load() const;
  void save(const user_changes& what);

 private:
  icecore::store& catalog_;
};

}  // namespace icecore::service
