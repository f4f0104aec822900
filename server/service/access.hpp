// Users, passwords, roles and tokens: one model for every door.
//
//   access a(catalog);                                   // the store that keeps them
//   a.add_user("ann", "secret"); a.set_role("readers", {{"weights", {}, right_read}}); a.grant("ann", "readers");
//   token t = a.log_in("ann", "secret");  principal who = a.recognise(t.text);
//   who.require("weights", bounds, right::read);         // or errc::denied
//
// A role is a list of permissions: a database (a name, or a prefix followed by '*'), a range of its keys, and rights.
// `read` shows keys, versions and changes; `write` changes keys and closes versions; `administer` makes, drops, copies,
// alters and compacts databases. The role `root` may do everything, and manages users. Who owns a database may do
// everything with it.
// Passwords are kept as scrypt hashes (RFC 7914; N = 2^15, r = 8, p = 1, a salt of 16 bytes each). A log-in takes about
// 50 ms of one core and 32 MiB: the number that run at once is bounded. Tokens are 32 random bytes; the server keeps
// their SHA-256 hashes in memory alone, so a restart ends them, and they end when the user's password or roles change.
//
// A wrong name and a wrong password take the same time and get the same answer. A missing database and a missing right
// get the same answer, too (errc::denied).
// Threads: any number. Cost: recognise() and allows() take a shared lock and look up a hash table.
// Where users are switched off, everybody is `principal::anyone()`, who may do everything.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "icecore/snapshot.hpp"
#include "icecore/store.hpp"

namespace icecore::service {

enum class right : std::uint8_t { read = 1, write = 2, administer = 4 };
using rights = std::uint8_t;  ///< a sum of them

struct permission {
  std::string database;  ///< a name, or a prefix followed by '*'
  icecore::key_bounds keys{};
  rights allowed = 0;
};
struct role {
  std::string name;
  std::vector<permission> permissions;
};
struct user {
  std::string name;
  std::vector<std::string> roles;
  bool may_log_in = true;  ///< false: known by a certificate alone
};

/// Somebody whose name was proved. A value; it stays as it was made, but is refused once the user was changed.
class principal {
 public:
  /// May do everything: where users are switched off, and for what the server does by itself.
  [[nodiscard]] static principal anyone();

  [[nodiscard]] const std::string& name() const noexcept;
  [[nodiscard]] bool is_root() const noexcept;
  /// Whether this is allowed with all keys between the bounds of the database that `owner` owns.
  [[nodiscard]] bool allows(std::string_view database, std::string_view owner, const icecore::key_bounds& keys,
                            right what) const;
  /// Whether anything at all is allowed with this database: then its name may be told.
  [[nodiscard]] bool may_see(std::string_view database, std::string_view owner) const;
  /// Whether a database of this name may be made: needs `administer` for the name.
  [[nodiscard]] bool may_create(std::string_view database) const;
  /// The same for one key. O(permissions).
  [[nodiscard]] bool allows(std::string_view database, std::string_view owner, std::string_view key, right what) const;

 private:
  friend class access;
  struct rules;
  std::shared_ptr<const rules> rules_;
};

/// What whoever may not do something is told, whether the database exists or not.
[[noreturn]] void deny(std::string_view database);

struct access_token {
  std::string text;  ///< 43 characters of base64url
  std::chrono::seconds lives;
};

class access {
 public:
  /// Reads the users from the catalog. `users`: whether users are asked for at all.
  access(icecore::store& catalog, bool users, std::chrono::seconds token_lives = std::chrono::hours(12));
  ~access();
  access(const access&) = delete;
  access& operator=(const access&) = delete;

  [[nodiscard]] bool has_users() const noexcept;

  // ---- Who is it? ----
  /// errc::unauthenticated; limit_reached if too many log in at once.
  [[nodiscard]] access_token log_in(std::string_view name, std::string_view password);
  void log_out(std::string_view token);
  /// Empty token: anyone() where there are no users. errc::unauthenticated.
  [[nodiscard]] principal recognise(std::string_view token) const;
  /// The user of this name, whom a client certificate proved. errc::unauthenticated.
  [[nodiscard]] principal certified(std::string_view common_name) const;

  // ---- Managing: durable when a call returns. errc::invalid_argument, and denied unless `who` is root. ----
  void add_user(const principal& who, std::string_view name, std::optional<std::string_view> password);
  void remove_user(const principal& who, std::string_view name);
  /// Users may change their own.
  void set_password(const principal& who, std::string_view name, std::string_view password);
  void grant(const principal& who, std::string_view user, std::string_view role);
  void withdraw(const principal& who, std::string_view user, std::string_view role);
  void set_role(const principal& who, const role& what);
  void remove_role(const principal& who, std::string_view name);
  [[nodiscard]] std::vector<user> users(const principal& who) const;
  [[nodiscard]] std::vector<role> roles(const principal& who) const;
  /// Makes the first user, `root`, if there is no user yet. Returns whether it did.
  bool ensure_root(std::string_view password);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace icecore::service
