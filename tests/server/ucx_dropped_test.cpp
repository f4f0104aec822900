// The UCX door: databases that others drop and make anew, as connections see them that had them open.
#include <gtest/gtest.h>

#include "icecore/remote.hpp"
#include "ucx_door_support.hpp"

namespace icecore::doors {
namespace {

using namespace testing;

template <class Function>
errc code_of(Function&& f) {
  try {
    f();
  } catch (const error& e) {
    return static_cast<errc>(e.code().value());
  }
  return errc{};
}

TEST_F(UcxDoor, a_database_that_another_client_drops_and_makes_anew_is_the_new_one) {
  start();
  const std::string address = "ucx://127.0.0.1:" + std::to_string(door_->port());
  remote::client one(address, {.token = job_token});
  remote::client other(address, {.token = job_token});
  static_cast<void>(other.create("db"));
  for (int i = 0; i < 3; ++i) {
    const std::string value = std::to_string(i);
    remote::store store = one.open("db");
    store.insert("key", value);
    other.drop("db");
    EXPECT_EQ(code_of([&] { static_cast<void>(store.find("key")); }), errc::denied);
    EXPECT_EQ(code_of([&] { static_cast<void>(one.open("db")); }), errc::denied);
    EXPECT_EQ(code_of([&] { store.insert("key", "lost"); }), errc::denied);
    remote::store made = other.create("db");
    EXPECT_EQ(store.find("key"), std::nullopt);
    EXPECT_EQ(one.open("db").find("key"), std::nullopt);
    made.insert("key", "new " + value);
    EXPECT_EQ(store.find("key")->bytes(), "new " + value);
    EXPECT_EQ(one.open("db").latest().size(), 1U);
  }
}

// A connection has 1,024 handles: those of databases that are gone make room.
TEST_F(UcxDoor, as_many_databases_as_come_and_go_are_opened_over_one_connection) {
  start();
  client c = connect();
  c.create("first");
  c.create("second");
  const std::uint32_t kept = c.handle;
  const wire::open_database_request first{.name = "first"};
  for (int i = 2; i < 1024; ++i) ASSERT_EQ(c.ask(first, 0).status, 0) << i;
  EXPECT_EQ(c.ask(first, 0).code(), errc::limit_reached);
  ASSERT_EQ(c.ask(wire::drop_database_request{.name = "first"}, 0).status, 0);
  c.handle = kept;
  c.put("a", "1");
  c.open("second");
  EXPECT_EQ(c.get("a"), "1");
  c.handle = kept;
  EXPECT_EQ(c.get("a"), "1");

  remote::client opens("ucx://127.0.0.1:" + std::to_string(door_->port()), {.token = job_token});
  for (int i = 0; i < 1100; ++i) ASSERT_EQ(opens.open("second").name(), "second") << i;
  EXPECT_EQ(opens.open("second").find("a")->bytes(), "1");
}

}  // namespace
}  // namespace icecore::doors
