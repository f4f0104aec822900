// A server whose machine fails it: a sync that fails, a device that is full or nearly so, a wall clock that jumps. What
// clients see is the same through each door.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "crashes/failing_machine.hpp"
#include "http_get.hpp"
#include "icecore/error.hpp"
#include "support/scratch.hpp"
#include "ways/server_process.hpp"
#include "ways/way.hpp"

namespace icecore::service {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::StartsWith;

template <typename Call>
std::error_code code_of(Call call) {
  try {
    call();
    return {};
  } catch (const error& e) {
    return e.code();
  }
}

template <typename Condition>
bool eventually(Condition holds) {
  for (const auto until = std::chrono::steady_clock::now() + 60s; std::chrono::steady_clock::now() < until;
       std::this_thread::sleep_for(10ms)) {
    if (holds()) return true;
  }
  return false;
}

class Machine : public ::testing::Test {
 protected:
  void start(ways::door through, const std::string& free_disk_bytes = "0 B") {
    const std::string door = ways::name_of(through);
    server_.emplace(folder_.path(), ways::server_settings{.listen = {{door, ways::any_port}, {"http", ways::any_port}},
                                                          .free_disk_bytes = free_disk_bytes,
                                                          .in_child = machine_.for_child()});
    const std::string address = server_->address(door);
    ASSERT_FALSE(address.empty()) << server_->log();
    to_ = ways::connect({.through = through, .address = address, .connect_limit = 30s});
  }
  [[nodiscard]] std::string page(const std::string& path) const {
    return server::testing::http_get(server_->address("http"), path);
  }
  void TearDown() override {
    to_.reset();
    server_.reset();
  }

  testing::scratch folder_{testing::place::disk};
  testing::failing_machine machine_{folder_.path() / "machine"};
  std::optional<ways::server_process> server_;
  std::unique_ptr<ways::connection> to_;
};

struct kind {
  ways::door through;
  remote::version_rule rule;
};
class Doors : public Machine, public ::testing::WithParamInterface<kind> {};

std::string name_of(const ::testing::TestParamInfo<kind>& of) {
  const bool is_write = of.param.rule == remote::version_rule::write;
  return std::string(ways::name_of(of.param.through)) + (is_write ? "_write" : "_tag");
}
INSTANTIATE_TEST_SUITE_P(Each, Doors,
                         ::testing::Values(kind{ways::door::grpc, remote::version_rule::write},
                                           kind{ways::door::grpc, remote::version_rule::tag},
                                           kind{ways::door::ucx, remote::version_rule::write},
                                           kind{ways::door::ucx, remote::version_rule::tag}),
                         name_of);

TEST_P(Doors, a_failed_sync_poisons_the_database_until_it_is_opened_again) {
  start(GetParam().through);
  for (const char* name : {"one", "other"}) {
    to_->create(name, {.rule = GetParam().rule, .durability = icecore::durability::operation});
  }
  const auto one = to_->open("one");
  const auto other = to_->open("other");
  one->insert("a", "1");
  const version kept = one->tag("kept");
  other->insert("a", "1");

  machine_.set("sync-fails");
  EXPECT_EQ(code_of([&] { one->insert("a", "2"); }), errc::poisoned);
  machine_.mend("sync-fails");
  // A device that is well again does not help: nobody knows what it has lost. So nothing is read either, as in the
  // engine.
  EXPECT_EQ(code_of([&] { one->insert("b", "2"); }), errc::poisoned);
  EXPECT_EQ(code_of([&] { one->increment("n"); }), errc::poisoned);
  EXPECT_EQ(code_of([&] { one->load({{"c", "2"}}); }), errc::poisoned);
  EXPECT_EQ(code_of([&] { (void)one->get("a", kept); }), errc::poisoned);
  EXPECT_EQ(code_of([&] { (void)one->get("a"); }), errc::poisoned);
  EXPECT_EQ(code_of([&] { (void)one->scan({}); }), errc::poisoned);
  EXPECT_THAT(page("/readyz"), HasSubstr("\ndatabase one: "));
  EXPECT_THAT(page("/readyz"), Not(HasSubstr("database other")));
  other->insert("a", "2");
  EXPECT_EQ(other->get("a"), "2");

  server_->kill();  // its clients still hold connections, for which a stop would wait
  start(GetParam().through);
  const auto again = to_->open("one");
  const auto found = again->get("a");
  EXPECT_TRUE(found == "1" || found == "2") << found.value_or("(none)") << ": what failed may have taken effect";
  EXPECT_EQ(again->get("a", kept), "1");
  again->insert("a", "3");
  EXPECT_EQ(again->get("a"), "3");
  EXPECT_THAT(page("/readyz"), StartsWith("HTTP/1.1 200 "));
}

TEST_P(Doors, a_device_below_the_limit_takes_removals_alone) {
  constexpr int limit = 1 << 30;
  machine_.set("free-bytes", std::to_string(limit));
  start(GetParam().through, "1 GiB");
  to_->create("one", {.rule = GetParam().rule});
  const auto one = to_->open("one");
  one->insert("a", "1");  // exactly the limit is free
  one->insert("b", "1");
  machine_.set("free-bytes", std::to_string(limit - 1));
  std::error_code why;
  EXPECT_TRUE(eventually([&] { return (why = code_of([&] { one->insert("a", "1"); })) != std::error_code(); }));
  EXPECT_EQ(why, errc::no_space);
  EXPECT_EQ(code_of([&] { one->load({{"c", "1"}}); }), errc::no_space);
  EXPECT_EQ(code_of([&] { one->increment("n"); }), errc::no_space);
  EXPECT_EQ(code_of([&] { to_->create("two", {}); }), errc::no_space);
  EXPECT_EQ(one->get("a"), "1");
  EXPECT_EQ(one->scan({}), (ways::rows{{"a", "1"}, {"b", "1"}}));
  one->apply({{"b", std::nullopt}});
  EXPECT_EQ(one->get("b"), std::nullopt);
  EXPECT_THAT(server_->log(), HasSubstr("service.device_full"));
  for (const int free : {limit, limit + 1}) {
    machine_.set("free-bytes", std::to_string(free));
    EXPECT_TRUE(eventually([&] { return code_of([&] { one->insert("a", "2"); }) == std::error_code(); }));
    EXPECT_EQ(one->get("a"), "2");
  }
  to_->create("two", {});
  to_->open("two")->insert("a", "1");
}

TEST_P(Doors, a_full_device_refuses_writes_until_it_has_room) {
  start(GetParam().through);
  to_->create("one", {.rule = GetParam().rule});
  const auto one = to_->open("one");
  one->insert("first", "1");
  machine_.set("device-full");
  const std::string value(100'000, 'v');
  std::error_code why;
  int written = 0;
  for (; written < 10'000 && why == std::error_code(); ++written) {  // until the file would have to grow
    why = code_of([&] { one->insert("key" + std::to_string(written), value); });
  }
  EXPECT_EQ(why, errc::no_space);
  EXPECT_EQ(one->get("first"), "1");
  EXPECT_EQ(one->scan({.from = {}, .to = "g"}), (ways::rows{{"first", "1"}}));
  machine_.mend("device-full");
  one->insert("last", value);
  EXPECT_EQ(one->get("last"), value);
  EXPECT_EQ(one->get("first"), "1");
  EXPECT_THAT(page("/readyz"), StartsWith("HTTP/1.1 200 "));
}

// Leases last as long as they were granted for, and versions keep their order, however the wall clock jumps. Tags show
// the wall's time and nothing else.
TEST_P(Doors, a_wall_clock_that_jumps_ends_no_lease_and_orders_nothing) {
  start(GetParam().through);
  to_->create("one", {.rule = GetParam().rule});
  const auto one = to_->open("one");
  const std::uint64_t lease = one->grant_lease(1h);
  one->insert("leased", "1", lease);
  machine_.set("clock-jump", "86400");
  const version ahead = one->insert("a", "ahead");
  const version tag_ahead = one->tag("ahead");
  const std::uint64_t brief = one->grant_lease(1s);
  one->insert("brief", "1", brief);
  std::this_thread::sleep_for(500ms);  // leases are looked at every 100 ms
  EXPECT_EQ(one->get("leased"), "1") << "a day is not gone, though the wall clock says so";
  machine_.set("clock-jump", "-86400");
  EXPECT_TRUE(eventually([&] { return !one->get("brief"); })) << "a second is, though the wall clock went back";
  const version behind = one->insert("a", "behind");
  const version tag_behind = one->tag("behind");
  EXPECT_GE(behind, ahead);
  EXPECT_GT(tag_behind, tag_ahead);
  EXPECT_EQ(one->get("a", std::string("ahead")), "ahead");
  EXPECT_EQ(one->get("a", std::string("behind")), "behind");
  EXPECT_EQ(one->get("a"), "behind");
  EXPECT_EQ(one->get("leased"), "1");
  one->keep_lease(lease);
}

}  // namespace
}  // namespace icecore::service
