// Users, roles and tokens as doors see them.
#include "service/access.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "icecore/error.hpp"
#include "support/scratch.hpp"

namespace service = icecore::service;
using icecore::errc;
using icecore::key_bounds;
using service::principal;
using service::right;
using service::rights_of;

namespace {

template <typename Call>
std::error_code code_of(Call call) {
  try {
    call();
  } catch (const icecore::error& e) {
    return e.code();
  }
  return {};
}

class Access : public testing::Test {
 protected:
  void reopen() {
    users_.reset();
    catalog_.reset();
    icecore::options o;
    o.index = icecore::index_kind::persistent;
    catalog_.emplace(folder_ / "catalog.ice", o);
    users_.emplace(*catalog_, true);
  }
  void SetUp() override { reopen(); }
  service::access& users() { return *users_; }
  principal log_in(std::string_view name, std::string_view password) {
    return users().recognise(users().log_in(name, password).text);
  }

  const principal root_ = principal::anyone();  // what the server itself is
  icecore::testing::scratch folder_;
  std::optional<icecore::store> catalog_;
  std::optional<service::access> users_;
};

service::role reader(const std::string& name, const std::string& database, key_bounds keys = {}) {
  return {name, {{database, std::move(keys), rights_of({right::read})}}};
}

}  // namespace

TEST_F(Access, lets_nobody_in_without_a_name_and_a_password) {
  EXPECT_TRUE(users().ensure_root("secret"));
  EXPECT_FALSE(users().ensure_root("another"));
  EXPECT_EQ(code_of([&] { (void)users().recognise(""); }), errc::unauthenticated);
  EXPECT_EQ(code_of([&] { (void)users().recognise(std::string(43, 'A')); }), errc::unauthenticated);
  EXPECT_EQ(code_of([&] { (void)users().log_in("root", "another"); }), errc::unauthenticated);
  EXPECT_EQ(code_of([&] { (void)users().log_in("ann", "secret"); }), errc::unauthenticated);
  const principal who = log_in("root", "secret");
  EXPECT_EQ(who.name(), "root");
  EXPECT_TRUE(who.is_root());
}

TEST_F(Access, a_wrong_name_and_a_wrong_password_get_the_same_answer) {
  users().ensure_root("secret");
  users().add_user(root_, "certified", std::nullopt);
  std::vector<std::string> answers;
  for (const auto& [name, password] : std::initializer_list<std::pair<const char*, const char*>>{
           {"root", "wrong"}, {"nobody", "wrong"}, {"certified", "wrong"}, {"nobody", "nobody"}}) {
    try {
      (void)users().log_in(name, password);
      ADD_FAILURE() << name;
    } catch (const icecore::error& e) {
      EXPECT_EQ(e.code(), errc::unauthenticated);
      answers.emplace_back(e.what());
    }
  }
  for (const std::string& each : answers) EXPECT_EQ(each, answers[0]);
}

TEST_F(Access, whoever_guesses_is_slowed_down_whether_the_name_exists_or_not) {
  users().ensure_root("secret");
  for (const char* name : {"root", "nobody"}) {
    int wrong = 0;
    while (wrong < 100 && code_of([&] { (void)users().log_in(name, "guess"); }) == errc::unauthenticated) ++wrong;
    EXPECT_GE(wrong, 10);
    EXPECT_EQ(code_of([&] { (void)users().log_in(name, "secret"); }), errc::limit_reached);
  }
}

TEST_F(Access, right_passwords_are_not_slowed_down) {
  users().ensure_root("secret");
  for (int i = 0; i < 15; ++i) EXPECT_TRUE(log_in("root", "secret").is_root());
}

TEST_F(Access, roles_allow_what_they_say_and_nothing_else) {
  users().add_user(root_, "ann", "secret");
  users().set_role(root_, {"team",
                           {{"app-*", {"a", "m"}, rights_of({right::read, right::write})},
                            {"app-1", {"m", "z"}, rights_of({right::read})},
                            {"logs", {}, rights_of({right::read})}}});
  users().grant(root_, "ann", "team");
  const principal ann = log_in("ann", "secret");
  EXPECT_TRUE(ann.allows("app-1", "", key_bounds{"a", "m"}, right::write));
  EXPECT_TRUE(ann.allows("app-1", "", key_bounds{"b", "y"}, right::read)) << "two that adjoin";
  EXPECT_FALSE(ann.allows("app-2", "", key_bounds{"b", "y"}, right::read));
  EXPECT_FALSE(ann.allows("app-1", "", key_bounds{"b", "y"}, right::write));
  EXPECT_FALSE(ann.allows("app-1", "", key_bounds{}, right::read));
  EXPECT_FALSE(ann.allows("app-1", "", key_bounds{"", "b"}, right::read));
  EXPECT_TRUE(ann.allows("logs", "", key_bounds{}, right::read));
  EXPECT_FALSE(ann.allows("logs", "", key_bounds{}, right::administer));
  EXPECT_FALSE(ann.allows("log", "", key_bounds{}, right::read));
  EXPECT_FALSE(ann.allows("logs2", "", key_bounds{}, right::read));
  EXPECT_TRUE(ann.allows("app-", "", "abc", right::write));
  EXPECT_FALSE(ann.allows("app-", "", "m", right::write));
  EXPECT_FALSE(ann.allows("app", "", "abc", right::write));
  EXPECT_TRUE(ann.allows("app-1", "", key_bounds{"c", "b"}, right::read)) << "no keys: as the key c";
  EXPECT_FALSE(ann.allows("app-1", "", key_bounds{"zz", "b"}, right::read));
  EXPECT_TRUE(ann.knows("app-7", ""));
  EXPECT_FALSE(ann.knows("weights", ""));
  EXPECT_FALSE(ann.is_root());
  EXPECT_NO_THROW(ann.require("logs", "", key_bounds{}, right::read));
}

TEST_F(Access, owners_may_do_everything_with_what_is_theirs) {
  users().add_user(root_, "ann", "secret");
  const principal ann = log_in("ann", "secret");
  EXPECT_TRUE(ann.allows("weights", "ann", key_bounds{}, right::administer));
  EXPECT_TRUE(ann.allows("weights", "ann", "key", right::write));
  EXPECT_TRUE(ann.knows("weights", "ann"));
  EXPECT_FALSE(ann.allows("weights", "bob", key_bounds{}, right::read));
  EXPECT_FALSE(ann.allows("weights", "", key_bounds{}, right::read));
}

TEST_F(Access, a_missing_right_and_a_missing_database_get_the_same_answer) {
  users().add_user(root_, "ann", "secret");
  const principal ann = log_in("ann", "secret");
  std::string of_missing;
  std::string of_forbidden;
  try {
    service::deny("weights");
  } catch (const icecore::error& e) {
    EXPECT_EQ(e.code(), errc::denied);
    of_missing = e.what();
  }
  try {
    ann.require("weights", "bob", key_bounds{}, right::read);
  } catch (const icecore::error& e) {
    of_forbidden = e.what();
  }
  EXPECT_EQ(of_missing, of_forbidden);
}

TEST_F(Access, tokens_and_principals_end_when_the_user_changes) {
  users().add_user(root_, "ann", "secret");
  users().set_role(root_, reader("readers", "weights"));
  const auto changes = std::initializer_list<std::function<void()>>{
      [&] { users().grant(root_, "ann", "readers"); },
      [&] { users().set_password(root_, "ann", "secret"); },
      [&] { users().withdraw(root_, "ann", "readers"); },
      [&] { users().remove_user(root_, "ann"); },
  };
  for (const auto& change : changes) {
    const std::string token = users().log_in("ann", "secret").text;
    const principal before = users().recognise(token);
    EXPECT_TRUE(before.is_current());
    change();
    EXPECT_FALSE(before.is_current());
    EXPECT_FALSE(before.allows("weights", "ann", "key", right::read)) << "not even what is theirs";
    EXPECT_EQ(code_of([&] { (void)users().recognise(token); }), errc::unauthenticated);
  }
  EXPECT_EQ(code_of([&] { (void)users().log_in("ann", "secret"); }), errc::unauthenticated);
}

TEST_F(Access, when_a_role_changes_tokens_stay_and_show_the_new_rights) {
  users().add_user(root_, "ann", "secret");
  users().set_role(root_, reader("readers", "weights"));
  users().grant(root_, "ann", "readers");
  const std::string token = users().log_in("ann", "secret").text;
  const principal before = users().recognise(token);
  EXPECT_TRUE(before.allows("weights", "", "key", right::read));
  users().set_role(root_, reader("readers", "logs"));
  EXPECT_FALSE(before.allows("weights", "", "key", right::read));
  const principal after = users().recognise(token);
  EXPECT_FALSE(after.allows("weights", "", "key", right::read));
  EXPECT_TRUE(after.allows("logs", "", "key", right::read));
  users().remove_role(root_, "readers");
  EXPECT_EQ(code_of([&] { (void)users().recognise(token); }), errc::unauthenticated);
  EXPECT_TRUE(users().users(root_)[0].roles.empty());
}

TEST_F(Access, tokens_end_with_log_out_and_with_their_time) {
  users().ensure_root("secret");
  const std::string token = users().log_in("root", "secret").text;
  users().log_out("nonsense");
  EXPECT_TRUE(users().recognise(token).is_root());
  users().log_out(token);
  EXPECT_EQ(code_of([&] { (void)users().recognise(token); }), errc::unauthenticated);
  service::access short_lived(*catalog_, true, std::chrono::seconds(0));
  EXPECT_EQ(code_of([&] { (void)short_lived.recognise(short_lived.log_in("root", "secret").text); }),
            errc::unauthenticated);
}

TEST_F(Access, root_alone_manages_and_users_change_their_own_password) {
  users().ensure_root("secret");
  users().add_user(root_, "ann", "old");
  users().add_user(root_, "certified", std::nullopt);
  const principal ann = log_in("ann", "old");
  for (const auto& call : std::initializer_list<std::function<void()>>{
           [&] { users().add_user(ann, "bob", "x"); },
           [&] { users().remove_user(ann, "root"); },
           [&] { users().set_password(ann, "root", "x"); },
           [&] { users().grant(ann, "ann", "root"); },
           [&] { users().withdraw(ann, "root", "root"); },
           [&] { users().set_role(ann, reader("all", "*")); },
           [&] { users().remove_role(ann, "all"); },
           [&] { (void)users().users(ann); },
           [&] { (void)users().roles(ann); },
           [&] { users().set_password(users().certified("certified"), "certified", "x"); },
       }) {
    EXPECT_EQ(code_of(call), errc::denied);
  }
  users().set_password(ann, "ann", "new");
  EXPECT_EQ(code_of([&] { (void)users().log_in("ann", "old"); }), errc::unauthenticated);
  EXPECT_EQ(log_in("ann", "new").name(), "ann");
  EXPECT_EQ(code_of([&] { users().set_password(ann, "ann", "newer"); }), errc::denied) << "she was changed since";
}

TEST_F(Access, somebody_stays_root) {
  users().ensure_root("secret");
  EXPECT_EQ(code_of([&] { users().remove_user(root_, "root"); }), errc::invalid_argument);
  EXPECT_EQ(code_of([&] { users().withdraw(root_, "root", "root"); }), errc::invalid_argument);
  users().add_user(root_, "certified", std::nullopt);
  users().grant(root_, "certified", "root");
  EXPECT_EQ(code_of([&] { users().remove_user(root_, "root"); }), errc::invalid_argument) << "who could log in?";
  users().withdraw(root_, "certified", "root");
  users().add_user(root_, "ann", "x");
  users().grant(root_, "ann", "root");
  users().remove_user(root_, "root");
  EXPECT_FALSE(users().ensure_root("secret"));
  EXPECT_TRUE(log_in("ann", "x").is_root());
}

TEST_F(Access, certificates_prove_names_of_users_alone) {
  users().add_user(root_, "node 7", std::nullopt);
  EXPECT_EQ(users().certified("node 7").name(), "node 7");
  EXPECT_FALSE(users().users(root_)[0].may_log_in);
  for (const char* name : {"node 8", "", "node 7 "}) {
    EXPECT_EQ(code_of([&] { (void)users().certified(name); }), errc::unauthenticated);
  }
  EXPECT_EQ(code_of([&] { (void)users().log_in("node 7", ""); }), errc::unauthenticated);
}

TEST_F(Access, everything_but_tokens_survives_a_restart) {
  users().ensure_root("secret");
  users().add_user(root_, "ann", "pass \"word\"");
  const std::string from(1, '\0');
  users().set_role(root_, {"odd", {{"app-*", {from, "\xff\xfe"}, rights_of({right::read, right::administer})}}});
  users().grant(root_, "ann", "odd");
  const std::string token = users().log_in("ann", "pass \"word\"").text;
  reopen();
  EXPECT_EQ(code_of([&] { (void)users().recognise(token); }), errc::unauthenticated);
  const principal ann = log_in("ann", "pass \"word\"");
  EXPECT_TRUE(ann.allows("app-1", "", key_bounds{from, "\xff\xfe"}, right::administer));
  EXPECT_FALSE(ann.allows("app-1", "", key_bounds{from, "\xff\xfe"}, right::write));
  EXPECT_FALSE(ann.allows("app-1", "", key_bounds{"", "a"}, right::read));
  const auto roles = users().roles(root_);
  ASSERT_EQ(roles.size(), 1U);
  ASSERT_EQ(roles[0].permissions.size(), 1U);
  EXPECT_EQ(roles[0].permissions[0].keys.from, from);
  EXPECT_EQ(roles[0].permissions[0].keys.to, "\xff\xfe");
}

TEST_F(Access, the_catalog_tells_who_was_allowed_what_and_when) {
  users().add_user(root_, "ann", std::nullopt);
  users().set_role(root_, reader("readers", "weights"));
  users().grant(root_, "ann", "readers");
  const icecore::version granted = catalog_->latest().version();
  users().withdraw(root_, "ann", "readers");
  const icecore::version withdrawn = catalog_->latest().version();
  EXPECT_GT(withdrawn, granted);
  EXPECT_EQ(std::string(*catalog_->find("user/ann", granted)), R"({"roles":["readers"]})");
  EXPECT_EQ(std::string(*catalog_->find("user/ann", withdrawn)), R"({"roles":[]})");
  users().remove_user(root_, "ann");
  EXPECT_FALSE(catalog_->find("user/ann"));
  EXPECT_EQ(catalog_->history("user/ann").newest_first().size(), 4U);
}

TEST_F(Access, bad_arguments_are_refused_and_change_nothing) {
  users().ensure_root("secret");
  users().add_user(root_, "ann", "x");
  const icecore::version before = catalog_->latest().version();
  const std::string long_name(256, 'x');
  const auto role_with = [](service::permission p) { return service::role{"r", {std::move(p)}}; };
  for (const auto& call : std::initializer_list<std::function<void()>>{
           [&] { users().add_user(root_, "", "x"); },
           [&] { users().add_user(root_, long_name, "x"); },
           [&] { users().add_user(root_, "a\nb", "x"); },
           [&] { users().add_user(root_, " ann", "x"); },
           [&] { users().add_user(root_, "\xc3\xa4", "x"); },
           [&] { users().add_user(root_, "ann", "y"); },
           [&] { users().add_user(root_, "bob", ""); },
           [&] { users().add_user(root_, "bob", std::string(1025, 'x')); },
           [&] { users().set_password(root_, "bob", "x"); },
           [&] { users().remove_user(root_, "bob"); },
           [&] { users().grant(root_, "ann", "nothing"); },
           [&] { users().grant(root_, "bob", "root"); },
           [&] { users().withdraw(root_, "ann", "root"); },
           [&] { users().set_role(root_, reader("root", "weights")); },
           [&] { users().remove_role(root_, "root"); },
           [&] { users().remove_role(root_, "nothing"); },
           [&] { users().set_role(root_, reader("", "weights")); },
           [&] {
             users().set_role(root_, role_with({"", {}, 1}));
           },
           [&] {
             users().set_role(root_, role_with({"a*b", {}, 1}));
           },
           [&] {
             users().set_role(root_, role_with({"a\nb", {}, 1}));
           },
           [&] {
             users().set_role(root_, role_with({"a", {}, 0}));
           },
           [&] {
             users().set_role(root_, role_with({"a", {}, 8}));
           },
           [&] {
             users().set_role(root_, role_with({"a", {"b", "b"}, 1}));
           },
           [&] {
             users().set_role(root_, role_with({"a", {std::nullopt, ""}, 1}));
           },
           [&] {
             users().set_role(root_, {"r", std::vector<service::permission>(1025, {"a", {}, 1})});
           },
       }) {
    EXPECT_EQ(code_of(call), errc::invalid_argument);
  }
  EXPECT_EQ(catalog_->latest().version(), before);
  users().grant(root_, "ann", "root");
  const icecore::version granted = catalog_->latest().version();
  users().grant(root_, "ann", "root");
  EXPECT_EQ(catalog_->latest().version(), granted) << "has it already";
}

TEST_F(Access, a_damaged_record_is_named) {
  users_.reset();
  for (const auto& [key, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"user/ann", "{"},
           {"user/ann", "[]"},
           {"user/ann", R"({"roles":"x"})"},
           {"user/ann", R"({"roles":[],"password":"plain"})"},
           {"role/r", R"({"permissions":[{"database":"a","rights":["fly"]}]})"},
           {"role/r", R"({"permissions":[{"database":"a","rights":["read"],"from":"="}]})"},
           {"role/r", "\xff"},
       }) {
    catalog_->insert(key, value);
    try {
      const service::access a(*catalog_, true);
      ADD_FAILURE() << value;
    } catch (const icecore::error& e) {
      EXPECT_EQ(e.code(), errc::damaged);
      EXPECT_NE(std::string(e.what()).find(key), std::string::npos) << e.what();
    }
    catalog_->remove(key);
  }
}

TEST_F(Access, without_users_everybody_is_anyone) {
  service::access none(*catalog_, false);
  EXPECT_FALSE(none.has_users());
  for (const principal& who : {none.recognise(""), none.recognise("whatever"), none.certified("x")}) {
    EXPECT_TRUE(who.is_root());
    EXPECT_EQ(who.name(), "");
    EXPECT_TRUE(who.allows("weights", "bob", key_bounds{}, right::administer));
  }
  EXPECT_EQ(code_of([&] { (void)none.log_in("ann", "x"); }), errc::unauthenticated);
}

// Log-ins and requests go on while the user is changed: whoever is recognised after a change has the new rights.
TEST_F(Access, changes_beside_log_ins_and_requests) {
  users().add_user(root_, "ann", "secret");
  users().set_role(root_, reader("readers", "weights"));
  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> granted{0};  // odd: ann has the role, for sure; even: she may be losing or getting it
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      std::string token;
      while (!over) {
        try {
          if (token.empty()) token = users().log_in("ann", "secret").text;
          const std::uint64_t before = granted;
          const principal who = users().certified("ann");
          const bool may = who.allows("weights", "", "key", right::read);
          EXPECT_TRUE(may || before != granted || before % 2 == 0);
          if (users().recognise(token).name() != "ann") ADD_FAILURE();
        } catch (const icecore::error& e) {
          EXPECT_EQ(e.code(), errc::unauthenticated) << e.what();
          token.clear();
        }
      }
    });
  }
  for (int i = 0; i < 100; ++i) {
    users().grant(root_, "ann", "readers");
    ++granted;
    users().set_role(root_, reader("readers", i % 2 == 0 ? "weights" : "*"));
    ++granted;
    users().withdraw(root_, "ann", "readers");
    const principal now = users().certified("ann");
    EXPECT_FALSE(now.allows("weights", "", "key", right::read));
    granted += 2;
  }
  over = true;
  for (std::thread& t : threads) t.join();
}
