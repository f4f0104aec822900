#include "service/access.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <shared_mutex>
#include <thread>
#include <unordered_map>

#include "icecore/error.hpp"
#include "service/access/attempts.hpp"
#include "service/access/password.hpp"
#include "service/access/rules.hpp"
#include "service/access/tokens.hpp"
#include "service/access/user_catalog.hpp"
#include "service/group_link.hpp"
#include "service/json_text.hpp"

namespace icecore::service {
namespace {

using clock = std::chrono::steady_clock;
using json = nlohmann::json;

constexpr std::string_view root_role = "root";
constexpr std::size_t name_size_max = 255;
constexpr std::size_t roles_of_a_user_max = 256;
constexpr std::size_t permissions_of_a_role_max = 1024;
constexpr std::size_t users_max = 100'000;
constexpr unsigned log_ins_at_once_max = 4;
constexpr unsigned log_ins_waiting_max = 64;
constexpr std::chrono::seconds log_in_patience{10};

[[noreturn]] void refuse(const std::string& why) { throw error(errc::invalid_argument, why); }

[[noreturn]] void unauthenticated() {
  throw error(errc::unauthenticated, "the name or the password is wrong, or this user cannot log in with a password");
}

void check_name(std::string_view what, std::string_view name) {
  const bool printable = std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c <= '~'; });
  if (name.empty() || name.size() > name_size_max || !printable || name.front() == ' ' || name.back() == ' ') {
    refuse(
        fmt::format("the name of a {} has 1 to {} printable ASCII characters and neither begins nor ends with a "
                    "blank; this one has {} bytes",
                    what, name_size_max, name.size()));
  }
}

void check_password(std::string_view password) {
  if (password.empty() || password.size() > password_size_max) {
    refuse(fmt::format("a password has 1 to {} bytes; this one has {}", password_size_max, password.size()));
  }
}

void check(const permission& p) {
  const std::string_view all = p.database;
  const std::string_view name = all.substr(0, all.size() - (all.ends_with('*') ? 1 : 0));
  if (all.empty() || all.size() > name_size_max + 1 || name.find('*') != std::string_view::npos) {
    refuse("a permission names a database, or a prefix of names followed by '*'");
  }
  if (!std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c <= '~'; })) {
    refuse("a permission's database has a character that no database's name has");
  }
  if (p.allowed == 0 || p.allowed > rights_of({right::read, right::write, right::administer})) {
    refuse(fmt::format("the rights {} of a permission for \"{}\" are no sum of read (1), write (2) and administer (4)",
                       p.allowed, all));
  }
  if (p.keys.to && *p.keys.to <= p.keys.from.value_or("")) {
    refuse(fmt::format("the keys of a permission for \"{}\" end before they begin", all));
  }
  if (std::max(p.keys.from.value_or("").size(), p.keys.to.value_or("").size()) > key_size_max + 1) {
    refuse(fmt::format("the bounds of a permission for \"{}\" are longer than any key", all));
  }
}

void check(const role& r) {
  check_name("role", r.name);
  if (r.name == root_role) refuse("the role root may do everything; that cannot be changed");
  if (r.permissions.size() > permissions_of_a_role_max) {
    refuse(fmt::format("a role has at most {} permissions; this one has {}", permissions_of_a_role_max,
                       r.permissions.size()));
  }
  for (const permission& p : r.permissions) check(p);
}

bool has_role(const user_record& u, std::string_view name) {
  return std::binary_search(u.roles.begin(), u.roles.end(), name);
}

bool is_root_by_password(const user_record& u) { return u.password && has_role(u, root_role); }

}  // namespace

// Locks: `changing` is held through a whole change, its sync included, so that changes come one after the other; only
// its holder writes `records` (and therefore may read them without `mutex`). `mutex` is held for moments alone, and
// guards `records`, `rules` and `tokens`. A change is shown to others after it is durable. A log-in computes its hash
// without a lock, and gives a token out only if the user then still has the record of the password that was proved:
// each hash has its own salt, so a password that was set meanwhile, even the same one, has another record.
struct access::state {
  state(icecore::store& store, bool with_users, std::chrono::seconds token_lives, group_link* of_group)
      : link(of_group),
        catalog(store),
        users(with_users),
        tokens(token_lives),
        gate(std::clamp(std::thread::hardware_concurrency(), 1U, log_ins_at_once_max), log_ins_waiting_max,
             log_in_patience),
        nobody(hash_of_nobody()),
        records(catalog.load()) {
    for (const auto& [name, record] : records.users) rules.insert_or_assign(name, rules_of(name, record));
  }

  [[nodiscard]] std::shared_ptr<const user_rules> rules_of(const std::string& name, const user_record& record) const {
    auto made = std::make_shared<user_rules>();
    made->name = name;
    made->root = has_role(record, root_role);
    for (const std::string& each : record.roles) {
      const auto found = records.roles.find(each);
      if (found == records.roles.end()) continue;  // root
      for (const permission& p : found->second.permissions) made->add(p);
    }
    made->sort();
    return made;
  }

  // Precondition: `mutex` is held, alone.
  void renew(const std::string& name) {
    const auto old = rules.find(name);
    const auto record = records.users.find(name);
    if (record == records.users.end()) {
      if (old != rules.end()) {
        old->second->changed.store(true, std::memory_order_relaxed);
        rules.erase(old);
      }
      return;
    }
    auto made = rules_of(name, record->second);
    if (old != rules.end()) old->second->changed.store(true, std::memory_order_relaxed);
    rules.insert_or_assign(name, std::move(made));
  }

  // Precondition: `changing` is held.
  void commit(const user_changes& what) {
    catalog.save(what);
    const std::unique_lock lock(mutex);
    for (const auto& [name, record] : what.roles) {
      if (record) {
        records.roles.insert_or_assign(name, *record);
      } else {
        records.roles.erase(name);
      }
    }
    for (const auto& [name, record] : what.users) {
      tokens.end_all_of(name);
      if (record) {
        records.users.insert_or_assign(name, *record);
      } else {
        records.users.erase(name);
      }
      renew(name);
    }
    for (const auto& [name, record] : records.users) {
      const bool concerned = std::any_of(what.roles.begin(), what.roles.end(),
                                         [&user = record](const auto& each) { return has_role(user, each.first); });
      if (concerned && !what.users.contains(name)) renew(name);
    }
  }

  // Precondition: `changing` is held.
  [[nodiscard]] const user_record& record_of(std::string_view name) const {
    const auto at = records.users.find(name);
    if (at == records.users.end()) refuse(fmt::format("there is no user \"{}\"", name.substr(0, name_size_max)));
    return at->second;
  }
  void require_another_root(std::string_view but) const {
    const bool another = std::any_of(records.users.begin(), records.users.end(), [but](const auto& each) {
      return each.first != but && is_root_by_password(each.second);
    });
    if (!another) {
      refuse(
          fmt::format("\"{}\" is the last user with a password and the role root; give it to another one first", but));
    }
  }

  [[nodiscard]] std::string hashed(std::string_view password) {
    check_password(password);
    const password_gate::pass one = gate.enter();
    return hash_password(password);
  }

  // A change, once it is known that `who` may make it: here, or as an order at all servers of the group.
  void change(const principal& who, json what) {
    if (link == nullptr) return execute(what, &who);
    what["by"] = who.name();
    link->everywhere(json_text(json{{"do", "users"}, {"database", ""}, {"with", std::move(what)}}));
  }
  void execute(const json& what, const principal* who);
  void require_still_root(const json& what, const principal* who) const;

  group_link* const link;
  user_catalog catalog;
  const bool users;
  attempts tried;
  token_table tokens;
  password_gate gate;
  const std::string nobody;  // what unknown names are compared with
  std::mutex changing;
  mutable std::shared_mutex mutex;
  user_records records;
  std::unordered_map<std::string, std::shared_ptr<const user_rules>> rules;  // of every user
};

access::access(icecore::store& catalog, bool users, std::chrono::seconds token_lives, group_link* link)
    : state_(std::make_unique<state>(catalog, users, token_lives, link)) {}
access::~access() = default;

bool access::has_users() const noexcept { return state_->users; }

// ---- Who is it? ----

access_token access::log_in(std::string_view name, std::string_view password) {
  state& s = *state_;
  if (!s.users) throw error(errc::unauthenticated, "this server has no users; call it without name and password");
  if (name.size() > name_size_max || password.size() > password_size_max) unauthenticated();
  const std::string known(name);
  std::string kept = s.nobody;
  bool may = false;
  {
    const std::shared_lock lock(s.mutex);
    const auto record = s.records.users.find(name);
    if (record != s.records.users.end() && record->second.password) {
      kept = *record->second.password;
      may = true;
    }
  }
  s.tried.require(name, clock::now());
  bool right = false;
  {
    const password_gate::pass one = s.gate.enter();
    s.tried.take(name, clock::now());
    right = matches(password, kept);
  }
  if (!right || !may) unauthenticated();
  s.tried.give_back(name);
  if (s.link != nullptr) {  // all servers know it before the client does; each compares the record that was proved
    access_token given = s.tokens.make();
    s.change(principal::anyone(), {{"do", "know_token"},
                                   {"user", known},
                                   {"password", kept},
                                   {"token", to_base64url(token_table::kept_of(given.text))}});
    return given;
  }
  const std::unique_lock lock(s.mutex);
  const auto now = s.rules.find(known);
  if (now == s.rules.end() || s.records.users.find(name)->second.password != kept) unauthenticated();
  return s.tokens.issue(known, clock::now());
}

void access::log_out(std::string_view token) {
  if (state_->link != nullptr) {
    try {
      state_->change(principal::anyone(), {{"do", "end_token"}, {"token", to_base64url(token_table::kept_of(token))}});
      return;
    } catch (const error& e) {  // the group stops, which ends all tokens: nobody who closes a connection cares
      if (e.code() != errc::unavailable && e.code() != errc::mpi) throw;
    }
  }
  const std::unique_lock lock(state_->mutex);
  state_->tokens.end(token);
}

principal access::recognise(std::string_view token) const {
  if (!state_->users) return principal::anyone();
  if (token.empty()) throw error(errc::unauthenticated, "this server has users: log in, and send the token");
  const std::shared_lock lock(state_->mutex);
  const std::string* name = state_->tokens.find(token, clock::now());
  if (name == nullptr) {
    throw error(errc::unauthenticated,
                "the server does not know this token, or it is over: its time has passed, the server was started "
                "again, or the user was changed; log in again");
  }
  return principal(state_->rules.at(*name));
}

principal access::certified(std::string_view common_name) const {
  if (!state_->users) return principal::anyone();
  const std::shared_lock lock(state_->mutex);
  const auto found = state_->rules.find(std::string(common_name));
  if (found == state_->rules.end()) {
    throw error(errc::unauthenticated, "the common name of the client's certificate is no user of this server");
  }
  return principal(found->second);
}

// ---- Managing ----

namespace {
void require_root(const principal& who) {
  if (!who.is_root()) throw error(errc::denied, "users and roles are managed by users with the role root alone");
}
}  // namespace

void access::add_user(const principal& who, std::string_view name, std::optional<std::string_view> password) {
  require_root(who);
  check_name("user", name);
  json what{{"do", "add_user"}, {"user", name}};
  if (password) what["password"] = state_->hashed(*password);
  state_->change(who, std::move(what));
}

void access::remove_user(const principal& who, std::string_view name) {
  require_root(who);
  check_name("user", name);
  state_->change(who, {{"do", "remove_user"}, {"user", name}});
}

void access::set_password(const principal& who, std::string_view name, std::string_view password) {
  if (!who.is_root() && (who.name() != name || !who.is_current())) require_root(who);
  check_name("user", name);
  state_->change(who, {{"do", "set_password"}, {"user", name}, {"password", state_->hashed(password)}});
}

void access::grant(const principal& who, std::string_view user, std::string_view role) {
  require_root(who);
  check_name("user", user);
  check_name("role", role);
  state_->change(who, {{"do", "grant"}, {"user", user}, {"role", role}});
}

void access::withdraw(const principal& who, std::string_view user, std::string_view role) {
  require_root(who);
  check_name("user", user);
  check_name("role", role);
  state_->change(who, {{"do", "withdraw"}, {"user", user}, {"role", role}});
}

void access::set_role(const principal& who, const role& what) {
  require_root(who);
  check(what);
  state_->change(who, {{"do", "set_role"}, {"role", what.name}, {"permissions", text_of(what)}});
}

void access::remove_role(const principal& who, std::string_view name) {
  require_root(who);
  check_name("role", name);
  state_->change(who, {{"do", "remove_role"}, {"role", name}});
}

bool access::ensure_root(std::string_view password) {
  const auto none = [this] {
    const std::shared_lock lock(state_->mutex);
    return state_->records.users.empty();
  };
  if (!none()) return false;
  json what{{"do", "ensure_root"}, {"password", state_->hashed(password)}};
  const std::string mine = what["password"];
  state_->change(principal::anyone(), std::move(what));
  const std::shared_lock lock(state_->mutex);
  const auto root = state_->records.users.find(root_role);
  return root != state_->records.users.end() && root->second.password == mine;
}

void access::execute(std::string_view change) { state_->execute(json::parse(change), nullptr); }

// Whoever gave an order proved the name to that server; here the name counts, as the records are now.
void access::state::require_still_root(const json& what, const principal* who) const {
  if (who != nullptr) return require_root(*who);
  const std::string by = what.at("by").get<std::string>();
  if (by.empty()) return;  // the server itself, or there are no users
  const auto found = records.users.find(by);
  if (found == records.users.end() || !has_role(found->second, root_role)) {
    throw error(errc::denied, "users and roles are managed by users with the role root alone");
  }
}

// `who`: who asked, if it was asked for here; else the order says by whom. The same records and the same changes in the
// same sequence: all servers of a group come to the same result.
void access::state::execute(const json& what, const principal* who) {
  const std::string kind = what.at("do").get<std::string>();
  const std::string user = what.value("user", std::string());
  const std::string role = what.value("role", std::string());
  const std::lock_guard lock(changing);
  if (kind == "know_token" || kind == "end_token") {
    std::string kept;
    if (!from_base64url(what.at("token").get<std::string>(), kept)) refuse("what is kept of a token is no base64url");
    const std::unique_lock moment(mutex);
    if (kind == "end_token") return tokens.end_kept(kept);
    const auto found = records.users.find(user);
    if (found == records.users.end() || found->second.password != what.at("password").get<std::string>()) {
      unauthenticated();
    }
    return tokens.add(user, kept, clock::now());
  }
  if (kind == "ensure_root") {
    if (!records.users.empty()) return;
    return commit({.users = {{std::string(root_role), user_record{{std::string(root_role)}, what.at("password")}}}});
  }
  if (kind == "set_password") {
    user_record changed = record_of(user);
    const bool own = who != nullptr ? who->name() == user && who->is_current() : what.at("by") == user;
    if (!own || !changed.password) require_still_root(what, who);
    changed.password = what.at("password").get<std::string>();
    return commit({.users = {{user, std::move(changed)}}});
  }
  require_still_root(what, who);
  if (kind == "add_user") {
    if (records.users.contains(user)) refuse(fmt::format("there is a user \"{}\" already", user));
    if (records.users.size() >= users_max) {
      throw error(errc::limit_reached, fmt::format("there are {} users, which is the limit", users_max));
    }
    user_record made;
    if (what.contains("password")) made.password = what.at("password").get<std::string>();
    commit({.users = {{user, std::move(made)}}});
  } else if (kind == "remove_user") {
    if (is_root_by_password(record_of(user))) require_another_root(user);
    commit({.users = {{user, std::nullopt}}});
  } else if (kind == "grant") {
    user_record changed = record_of(user);
    if (role != root_role && !records.roles.contains(role)) refuse(fmt::format("there is no role \"{}\"", role));
    if (has_role(changed, role)) return;
    if (changed.roles.size() >= roles_of_a_user_max) {
      throw error(errc::limit_reached, fmt::format("\"{}\" has {} roles, which is the limit; make one role of several",
                                                   user, roles_of_a_user_max));
    }
    changed.roles.insert(std::upper_bound(changed.roles.begin(), changed.roles.end(), role), role);
    commit({.users = {{user, std::move(changed)}}});
  } else if (kind == "withdraw") {
    user_record changed = record_of(user);
    if (!has_role(changed, role)) refuse(fmt::format("\"{}\" does not have the role \"{}\"", user, role));
    if (role == root_role && changed.password) require_another_root(user);
    std::erase(changed.roles, role);
    commit({.users = {{user, std::move(changed)}}});
  } else if (kind == "set_role") {
    if (!records.roles.contains(role) && records.roles.size() >= users_max) {
      throw error(errc::limit_reached, fmt::format("there are {} roles, which is the limit", users_max));
    }
    commit({.roles = {{role, role_in(role, what.at("permissions").get<std::string>())}}});
  } else if (kind == "remove_role") {
    if (role == root_role) refuse("the role root cannot be removed");
    if (!records.roles.contains(role)) refuse(fmt::format("there is no role \"{}\"", role));
    user_changes changes{.roles = {{role, std::nullopt}}};
    for (const auto& [name, record] : records.users) {
      if (!has_role(record, role)) continue;
      user_record without = record;
      std::erase(without.roles, role);
      changes.users.emplace(name, std::move(without));
    }
    commit(changes);
  } else {
    throw error(errc::bad_input, fmt::format("an unknown change '{}' of users", kind));
  }
}

std::vector<user> access::users(const principal& who) const {
  require_root(who);
  const std::shared_lock lock(state_->mutex);
  std::vector<user> all;
  for (const auto& [name, record] : state_->records.users) {
    all.push_back({name, record.roles, record.password.has_value()});
  }
  return all;
}

std::vector<role> access::roles(const principal& who) const {
  require_root(who);
  const std::shared_lock lock(state_->mutex);
  std::vector<role> all;
  for (const auto& [name, what] : state_->records.roles) all.push_back(what);
  return all;
}

}  // namespace icecore::service
