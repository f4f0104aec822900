// Users, passwords, roles and tokens: one model for every door.
//
//   access a(catalog, true);                                // the store that keeps them
//   a.add_user(root, "ann", "secret");
//   a.set_role(root, {"readers", {{"weights", {}, rights_of({right::read})}}});  a.grant(root, "ann", "readers");
//   access_token t = a.log_in("ann", "secret");  principal who = a.recognise(t.text);
//   who.require("weights", owner, bounds, right::read);     // or errc::denied
//
// A role is a list of permissions: a database (a name, or a prefix followed by '*'), a range of its keys, and rights.
// `read` shows keys, versions and changes; `write` changes keys and closes versions; `administer` makes, drops, copies,
// alters and compacts databases. The role `root` may do everything, and manages users. Who owns a database may do
// everything with it.
// Passwords are kept as scrypt hashes (RFC 7914; N = 2^15, r = 8, p = 1, a salt of 16 bytes each). A log-in takes about
// 100 ms of one core and 32 MiB: at most four run at once, 64 more wait, 10 s each. After ten wrong passwords for one
// name there is one attempt in 3 s. Tokens are 32 random bytes; the server keeps their SHA-256 hashes in memory alone,
// so a restart ends them, and they end when the user's password or roles change. A user has at most 1,000 tokens: a
// further one ends the oldest.
//
// What a role allows may change, too: then its users' tokens stay, and principals made of them before are refused, so
// that a door that keeps one asks again (recognise()). Owners of databases are known by their names: remove_user() of
// an owner leaves the databases to whoever gets that name later, unless they are given to somebody else first.
//
// A wrong name and a wrong password take the same time and get the same answer. A missing database and a missing right
// get the same answer, too (errc::denied).
// Names of users and roles have 1 to 255 printable ASCII characters and neither begin nor end with a blank. Passwords
// have 1 to 1,024 bytes. A user has at most 256 roles, a role at most 1,024 permissions; there are at most 100,000
// users and as many roles.
// At a dependent group, users, roles and tokens are those of all its servers: a change is an order that all execute,
// each on the same records, so all refuse it or none; and a token that one server gave is known to all. A start makes
// all servers' records those of the first one. The attempts of a name are counted by each server. Threads: any number.
// log_in(), add_user() and set_password() block the thread for as long as said above: do not call
//   them on a thread that others wait for. Cost: recognise() takes a shared lock and looks up a hash table; allows()
//   takes no lock, O(permissions of the user).
// Where users are switched off, everybody is `principal::anyone()`, who may do everything.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "icecore/snapshot.hpp"
#include "icecore/store.hpp"

namespace icecore::service {

enum class right : std::uint8_t { read = 1, write = 2, administer = 4 };
using rights = std::uint8_t;  ///< a sum of them
[[nodiscard]] constexpr rights rights_of(std::initializer_list<right> all) noexcept {
  rights sum = 0;
  for (const right each : all) sum = static_cast<rights>(sum | static_cast<rights>(each));
  return sum;
}

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

struct user_rules;
class group_link;

/// Somebody whose name was proved. A value; it stays as it was made, but is refused once the user was changed.
class principal {
 public:
  /// May do everything: where users are switched off, and for what the server does by itself.
  [[nodiscard]] static principal anyone();

  [[nodiscard]] const std::string& name() const noexcept;
  [[nodiscard]] bool is_root() const noexcept;
  /// False once the user, or one of the user's roles, was changed: then nothing is allowed any more.
  [[nodiscard]] bool is_current() const noexcept;
  /// Whether this is allowed with all keys between the bounds of the database that `owner` owns: the bounds lie within
  /// one permission, or within several that adjoin each other. Bounds without keys between them count as the one key
  /// that they begin with.
  [[nodiscard]] bool allows(std::string_view database, std::string_view owner, const icecore::key_bounds& keys,
                            right what) const;
  /// The same for one key. O(permissions).
  [[nodiscard]] bool allows(std::string_view database, std::string_view owner, std::string_view key, right what) const;
  /// Whether anything at all is allowed with this database.
  [[nodiscard]] bool knows(std::string_view database, std::string_view owner) const;
  /// errc::denied unless it is allowed.
  void require(std::string_view database, std::string_view owner, const icecore::key_bounds& keys, right what) const;
  void require(std::string_view database, std::string_view owner, std::string_view key, right what) const;

 private:
  friend class access;
  explicit principal(std::shared_ptr<const user_rules> what) noexcept : rules_(std::move(what)) {}
  std::shared_ptr<const user_rules> rules_;  // never null
};

/// What whoever may not do something is told, whether the database exists or not.
[[noreturn]] void deny(std::string_view database);

struct access_token {
  std::string text;  ///< 43 characters of base64url
  std::chrono::seconds lives;
};

class access {
 public:
  /// Reads the users from the catalog. `users`: whether users are asked for at all. `link`: of a dependent group.
  access(icecore::store& catalog, bool users, std::chrono::seconds token_lives = std::chrono::hours(12),
         group_link* link = nullptr);
  ~access();
  access(const access&) = delete;
  access& operator=(const access&) = delete;

  [[nodiscard]] bool has_users() const noexcept;

  // ---- Who is it? ----
  /// errc::unauthenticated; limit_reached if too many log in at once, or too many passwords of this name were wrong.
  [[nodiscard]] access_token log_in(std::string_view name, std::string_view password);
  void log_out(std::string_view token);
  /// anyone(), whatever the token, where there are no users. errc::unauthenticated.
  [[nodiscard]] principal recognise(std::string_view token) const;
  /// The user of this name, whom a client certificate proved. errc::unauthenticated.
  [[nodiscard]] principal certified(std::string_view common_name) const;

  // ---- Managing: durable when a call returns. errc::invalid_argument, and denied unless `who` is root. ----
  // The last user with the role root who may log in keeps it: taking it away is errc::invalid_argument.
  /// Without a password the user is known by a client certificate alone.
  void add_user(const principal& who, std::string_view name, std::optional<std::string_view> password);
  void remove_user(const principal& who, std::string_view name);
  /// Users who have a password may change their own.
  void set_password(const principal& who, std::string_view name, std::string_view password);
  void grant(const principal& who, std::string_view user, std::string_view role);
  void withdraw(const principal& who, std::string_view user, std::string_view role);
  /// Makes the role, or gives it other permissions.
  void set_role(const principal& who, const role& what);
  /// Also withdraws it from all users.
  void remove_role(const principal& who, std::string_view name);
  [[nodiscard]] std::vector<user> users(const principal& who) const;
  [[nodiscard]] std::vector<role> roles(const principal& who) const;
  /// Makes the first user, `root`, if there is no user yet. Returns whether it did.
  bool ensure_root(std::string_view password);
  /// Executes what a server of the group has given as an order.
  void execute(std::string_view change);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace icecore::service
