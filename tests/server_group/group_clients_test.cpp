// Clients of a dependent group over UCX: they learn which server owns a key and go straight there.
#include <atomic>
#include <map>
#include <mutex>

#include "doors/ucx/door.hpp"
#include "group_support.hpp"
#include "icecore/remote.hpp"

namespace icecore::server::group {
namespace {

constexpr const char* token = "a token of tests";

// Counts the requests of this rank's door by their operation.
class counter final : public doors::ucx_observer {
 public:
  void finished(const doors::ucx_call_report& what) noexcept override {
    const std::lock_guard lock(mutex_);
    ++counts_[std::string(what.name)];
  }
  [[nodiscard]] std::uint64_t of(const std::string& name) {
    const std::lock_guard lock(mutex_);
    return counts_[name];
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::uint64_t> counts_;
};

class GroupClients : public ServerGroup {
 protected:
  void open(bool users = false) {
    start(path(), ranks(), users);
    if (users) service_->users().ensure_root("secret");
    counter_ = std::make_shared<counter>();
    door_ = std::make_unique<doors::ucx_door>(
        *service_, doors::ucx_door_options{.port = 0, .token = token, .server_name = "test", .observer = counter_});
    door_->start();
    meet();
  }
  void shut() {
    meet();
    door_->stop(10s);
    door_.reset();
    stop();
  }
  // The address of the first server, at all ranks.
  [[nodiscard]] std::string first_address() const {
    return "ucx://127.0.0.1:" + std::to_string(icecore::testing::of_rank_0(door_->port()));
  }
  // What all ranks have counted, by rank; the doors count after they have answered.
  [[nodiscard]] std::vector<std::uint64_t> counted(const std::string& name, std::uint64_t in_all) {
    std::vector<std::uint64_t> all(static_cast<std::size_t>(ranks()));
    for (;;) {
      std::uint64_t mine = counter_->of(name);
      MPI_Allgather(&mine, 1, MPI_UINT64_T, all.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD);
      std::uint64_t sum = 0;
      for (const std::uint64_t each : all) sum += each;
      if (sum >= in_all) return all;
    }
  }

  std::shared_ptr<counter> counter_;
  std::unique_ptr<doors::ucx_door> door_;
};

TEST_F(GroupClients, go_straight_to_the_owner_of_a_key) {
  open();
  const std::string address = first_address();
  constexpr int keys = 120;
  if (rank() == ranks() - 1) {
    icecore::remote::client c(address, {.token = token});
    auto store = c.create("one", {.rule = icecore::remote::version_rule::tag});
    for (int i = 0; i < keys; ++i) store.insert("key" + std::to_string(i), std::to_string(i));
    for (int i = 0; i < keys; ++i) EXPECT_EQ(store.find("key" + std::to_string(i))->bytes(), std::to_string(i));
    store.tag("t");
    EXPECT_EQ(store.at("t").size(), static_cast<std::uint64_t>(keys));
    const std::vector<std::string_view> some{"key1", "key2", "none", "key3"};
    const auto found = store.at("t").find_many(some);
    EXPECT_EQ(found[3]->bytes(), "3");
    EXPECT_FALSE(found[2].has_value());
  }
  std::vector<std::uint64_t> owned(static_cast<std::size_t>(ranks()));
  for (int i = 0; i < keys; ++i) {
    ++owned[service::owner_of("key" + std::to_string(i), static_cast<std::uint32_t>(ranks()))];
  }
  EXPECT_EQ(counted("put", keys), owned);
  EXPECT_EQ(counted("get", keys), owned);
  shut();
}

TEST_F(GroupClients, load_and_write_asynchronously_at_the_owners) {
  open();
  const std::string address = first_address();
  if (rank() == 0) {
    icecore::remote::client c(address, {.token = token});
    auto store = c.create("one", {.rule = icecore::remote::version_rule::tag});
    std::vector<std::string> names;
    for (int i = 0; i < 3000; ++i) names.push_back("key" + std::to_string(i));
    std::vector<icecore::item> items;
    for (const std::string& name : names) items.push_back({name, name});
    EXPECT_EQ(store.insert_many(items), names.size());
    std::vector<icecore::remote::pending<icecore::remote::update_result>> sums;
    for (int i = 0; i < 200; ++i) sums.push_back(store.start_increment("sum" + std::to_string(i % 10)));
    for (auto& each : sums) each.wait();
    EXPECT_EQ(store.find("sum3")->bytes(), "20");
    EXPECT_EQ(store.latest().size(), names.size() + 10);
  }
  for (const std::uint64_t at : counted("load", static_cast<std::uint64_t>(ranks()))) EXPECT_GT(at, 0U);
  shut();
}

TEST_F(GroupClients, get_what_a_group_does_not_do_as_a_clear_error) {
  open();
  const std::string address = first_address();
  if (rank() == 0) {
    icecore::remote::client c(address, {.token = token});
    auto store = c.create("one", {.rule = icecore::remote::version_rule::tag});
    EXPECT_EQ(code_of([&] { store.grant_lease(10s); }), errc::invalid_argument);
    icecore::batch two;
    two.insert("a", "1");
    two.insert("b", "1");
    EXPECT_EQ(code_of([&] { store.apply(two); }), errc::invalid_argument);
    EXPECT_EQ(code_of([&] { c.create("two", {.rule = icecore::remote::version_rule::write}); }),
              errc::invalid_argument);
    icecore::batch alone;
    alone.insert("a", "1");
    EXPECT_EQ(code_of([&] { store.apply(alone); }), errc{});
  }
  shut();
}

TEST_F(GroupClients, of_a_user_log_in_at_all_servers_and_are_closed_when_the_group_stops) {
  open(true);
  const std::string address = first_address();
  std::unique_ptr<icecore::remote::client> c;
  EXPECT_EQ(code_of([&] { icecore::remote::client(address, {.token = token, .user = "root", .password = "wrong"}); }),
            errc::unauthenticated);
  if (rank() == ranks() - 1) {
    c = std::make_unique<icecore::remote::client>(
        address, icecore::remote::options{.token = token, .user = "root", .password = "secret"});
    auto store = c->create("one", {.rule = icecore::remote::version_rule::tag});
    for (int i = 0; i < 50; ++i) store.insert("key" + std::to_string(i), "1");
    EXPECT_EQ(store.latest().size(), 50U);
  }
  meet();
  link_->end();  // as the program does: first no order is executed any more, then the doors are closed
  door_->stop(10s);
  door_.reset();
  service_->stop();
  service_.reset();
  link_.reset();
  MPI_Comm_free(&comm_);
  c.reset();
  meet();
}

// A server that clients cannot reach costs them nothing but a hop.
TEST_F(GroupClients, go_by_another_server_if_they_cannot_reach_the_owner) {
  open();
  const std::string address = first_address();
  if (rank() == ranks() - 1) service_->announce("127.0.0.1:1");  // nobody listens there
  meet();
  if (rank() == 0) {
    icecore::remote::client c(address, {.token = token});
    auto store = c.create("one", {.rule = icecore::remote::version_rule::tag});
    for (int i = 0; i < 50; ++i) store.insert("key" + std::to_string(i), std::to_string(i));
    auto later = store.start_insert("later", "1");
    later.wait();
    for (int i = 0; i < 50; ++i) EXPECT_EQ(store.find("key" + std::to_string(i))->bytes(), std::to_string(i));
  }
  shut();
}

}  // namespace
}  // namespace icecore::server::group
