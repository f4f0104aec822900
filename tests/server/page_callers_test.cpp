// Whom /metrics and /readyz tell the names of databases. First the decision alone, then a whole server by HTTP.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "http_get.hpp"
#include "icecore/error.hpp"
#include "run/program/server.hpp"
#include "support/scratch.hpp"

namespace icecore::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

const std::string token_of_metrics = "0123456789abcdef";
const std::string bearer = "Bearer ";

class PageCallers : public ::testing::Test {
 protected:
  PageCallers() {
    write("token", token_of_metrics + "\n");
    write("password", "the password\n");
  }
  void write(const char* name, const std::string& text) const { std::ofstream(folder_ / name) << text; }

  /// A service with users, of whom ann sees the database `anns-own` alone.
  [[nodiscard]] std::unique_ptr<service::service> filled() const {
    service::service_options told;
    told.data = folder_ / "data";
    told.users = true;
    told.limits.free_disk_bytes = 0;
    auto made = std::make_unique<service::service>(told);
    const service::principal root = service::principal::anyone();
    for (const char* name : {"anns-own", "damaged-one", "zebra"}) {
      service::database_settings settings;
      settings.name = name;
      made->create(root, settings);
    }
    made->users().ensure_root("the password");
    made->users().add_user(root, "ann", "secret");
    made->users().set_role(root, {"reader", {{"anns-own", {}, service::rights_of({service::right::read})}}});
    made->users().grant(root, "ann", "reader");
    return made;
  }
  [[nodiscard]] configuration::access_section access() const {
    return {.users = true,
            .initial_administrator_password_file = {(folder_ / "password").native()},
            .metrics_token_file = {(folder_ / "token").native()}};
  }

  icecore::testing::scratch folder_{icecore::testing::place::tmpfs};
};

TEST_F(PageCallers, see_what_they_prove) {
  const auto all = filled();
  const page_callers callers(access());
  const auto seen_by = [&](const std::string& authorization, const std::string& certified = {}) {
    return callers.seen_by({.authorization = authorization, .certified = certified}, *all);
  };
  EXPECT_FALSE(seen_by("").all);
  EXPECT_THAT(seen_by("").names, IsEmpty());
  EXPECT_TRUE(seen_by(bearer + token_of_metrics).all);
  EXPECT_TRUE(seen_by("bEARER " + token_of_metrics).all);
  const std::string hers = all->users().log_in("ann", "secret").text;
  EXPECT_FALSE(seen_by(bearer + hers).all);
  EXPECT_THAT(seen_by(bearer + hers).names, ElementsAre("anns-own"));
  EXPECT_THAT(seen_by(bearer + all->users().log_in("root", "the password").text).names,
              ElementsAre("anns-own", "damaged-one", "zebra"));
  EXPECT_THAT(seen_by("", "ann").names, ElementsAre("anns-own"));
  EXPECT_THAT(seen_by("", "a probe").names, IsEmpty());
}

TEST_F(PageCallers, are_refused_who_show_something_wrong) {
  const auto all = filled();
  const page_callers callers(access());
  for (const std::string& wrong :
       {bearer + "0123456789abcdeF", bearer + "0123456789abcde", bearer + token_of_metrics + " ", bearer,
        std::string("Basic YW5uOnNlY3JldA=="), token_of_metrics}) {
    try {
      static_cast<void>(callers.seen_by({.authorization = wrong, .certified = "ann"}, *all));
      FAIL() << wrong;
    } catch (const error& refused) {
      EXPECT_EQ(refused.code(), errc::unauthenticated) << wrong;
    }
  }
}

TEST_F(PageCallers, without_a_token_of_metrics_no_secret_is_the_empty_one) {
  const auto all = filled();
  configuration::access_section none = access();
  none.metrics_token_file = {};
  const page_callers callers(none);
  EXPECT_THROW(static_cast<void>(callers.seen_by({.authorization = "Bearer x"}, *all)), error);
  EXPECT_THAT(callers.seen_by({}, *all).names, IsEmpty());
}

TEST_F(PageCallers, see_all_where_there_are_no_users) {
  const auto all = filled();
  EXPECT_TRUE(page_callers({}).seen_by({}, *all).all);
}

TEST_F(PageCallers, token_is_read_anew_and_a_short_one_is_refused) {
  const auto all = filled();
  page_callers callers(access());
  write("token", "fedcba9876543210");
  callers.reload();
  EXPECT_THROW(static_cast<void>(callers.seen_by({.authorization = "Bearer " + token_of_metrics}, *all)), error);
  EXPECT_TRUE(callers.seen_by({.authorization = "Bearer fedcba9876543210"}, *all).all);
  write("token", "fedcba987654321");
  try {
    callers.reload();
    FAIL();
  } catch (const error& refused) {
    EXPECT_EQ(refused.code(), errc::bad_input);
    EXPECT_THAT(refused.message(), HasSubstr("at least 16 bytes, and this has 15"));
  }
  EXPECT_TRUE(callers.seen_by({.authorization = "Bearer fedcba9876543210"}, *all).all);
}

/// A whole server, one of whose databases is damaged.
class PagesOfAServer : public PageCallers {
 protected:
  PagesOfAServer() {
    filled().reset();
    // Numbers are given from 1 on: this is the second that filled() makes.
    std::filesystem::resize_file(folder_ / "data/databases/2/store.ice", 100);
    configuration told;
    told.server.data = folder_ / "data";
    told.access = access();
    told.listen.grpc = {};
    told.listen.http = {"127.0.0.1", 0};
    serving_.emplace(told, log_);
  }

  [[nodiscard]] std::string get(const std::string& path, const std::string& token = {}) const {
    const std::string shown = token.empty() ? "" : "Authorization: Bearer " + token + "\r\n";
    return testing::http_get(serving_->addresses().front().second, path, shown);
  }

  log log_{{.file = folder_ / "log"}};
  std::optional<running_server> serving_;
};

TEST_F(PagesOfAServer, name_no_database_to_strangers) {
  const std::string metrics = get("/metrics");
  EXPECT_THAT(metrics, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(metrics, AllOf(Not(HasSubstr("anns-own")), Not(HasSubstr("damaged-one")), Not(HasSubstr("zebra"))));
  EXPECT_THAT(metrics, HasSubstr("\nicecore_databases_not_ready 1\n"));
  EXPECT_THAT(metrics, HasSubstr("\nicecore_limit_most{"));
  const std::string ready = get("/readyz");
  EXPECT_THAT(ready, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(ready, AllOf(Not(HasSubstr("damaged-one")), HasSubstr("whose names need a token: 1\n")));
  EXPECT_THAT(get("/healthz"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(PagesOfAServer, name_all_to_the_bearer_of_the_token) {
  EXPECT_THAT(get("/metrics", token_of_metrics),
              AllOf(HasSubstr("icecore_database{database=\"anns-own\",what=\"keys\"}"),
                    HasSubstr("\nicecore_database_not_ready{database=\"damaged-one\"} 1\n"),
                    HasSubstr("\nicecore_database_not_ready{database=\"zebra\"} 0\n")));
  EXPECT_THAT(get("/readyz", token_of_metrics),
              AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("\ndatabase damaged-one: ")));
}

TEST_F(PagesOfAServer, refuse_a_wrong_token_but_for_whether_the_process_is_well) {
  EXPECT_THAT(get("/metrics", "fedcba9876543210"), AllOf(StartsWith("HTTP/1.1 401 "), HasSubstr("does not know this")));
  EXPECT_THAT(get("/readyz", "fedcba9876543210"), StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(get("/healthz", "fedcba9876543210"), StartsWith("HTTP/1.1 200 "));
}

}  // namespace
}  // namespace icecore::server
