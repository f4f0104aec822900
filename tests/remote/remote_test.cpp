// icecore::remote: the same promises as a store's, across a connection that breaks.
#include "icecore/remote.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "test_server.hpp"

using namespace std::chrono_literals;
using icecore::errc;
using icecore::wire::operation_number;
namespace remote = icecore::remote;

namespace {

remote::options opening(std::chrono::milliseconds deadline = 10s) {
  remote::options with;
  with.token = test_server::token;
  with.name = "tests";
  with.deadline = deadline;
  return with;
}

template <class Function>
errc code_of(Function&& f) {
  try {
    f();
  } catch (const icecore::error& e) {
    EXPECT_FALSE(e.message().empty());
    return static_cast<errc>(e.code().value());
  }
  return errc{};
}

std::vector<std::pair<std::string, std::string>> all_of(remote::item_range range) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const auto& [key, value] : range) rows.emplace_back(key, value);
  return rows;
}

struct Remote : testing::Test {
  test_server server;
  remote::client client{server.address(), opening()};
  remote::store store = client.create("weights", {.rule = remote::version_rule::tag});
};

}  // namespace

TEST_F(Remote, a_read_of_the_past_shows_what_was_there) {
  store.insert("layer1/bias", "0.5");
  const icecore::version first = store.tag("epoch-1");
  store.insert("layer1/bias", "0.7");
  EXPECT_TRUE(store.remove("layer1/bias"));
  EXPECT_EQ(store.find("layer1/bias"), std::nullopt);
  EXPECT_EQ(store.find("layer1/bias", first)->bytes(), "0.5");
  EXPECT_EQ(store.find("layer1/bias", "epoch-1")->bytes(), "0.5");
  EXPECT_EQ(store.at("epoch-1").find("layer1/bias")->bytes(), "0.5");
  EXPECT_EQ(store.at("epoch-1").version(), first);
  EXPECT_EQ(store.find_tag("epoch-1")->version, first);
  EXPECT_EQ(store.tags().size(), 1U);
  EXPECT_EQ(code_of([&] { static_cast<void>(store.at("no such tag")); }), errc::unknown_tag);
  EXPECT_EQ(code_of([&] { static_cast<void>(store.find("a", 1'000'000)); }), errc::version_not_closed);
}

TEST_F(Remote, conditions_decide_as_in_a_store) {
  EXPECT_TRUE(store.insert_new("k", "1"));
  EXPECT_FALSE(store.insert_new("k", "2"));
  const icecore::version written = store.find("k")->version();
  EXPECT_FALSE(store.replace("k", "3", written + 1));
  EXPECT_TRUE(store.replace("k", "3", written));
  EXPECT_EQ(store.find("k")->bytes(), "3");
  EXPECT_FALSE(store.remove("absent"));
  icecore::batch both;
  both.insert("a", "1");
  both.remove("k");
  store.apply(both);
  EXPECT_FALSE(store.contains("k"));
  icecore::batch conditional;
  conditional.insert_new("a", "2");
  conditional.insert("b", "2");
  EXPECT_FALSE(store.apply_if(conditional));
  EXPECT_FALSE(store.contains("b"));
  EXPECT_EQ(code_of([&] { store.apply(conditional); }), errc::invalid_argument);
}

TEST_F(Remote, parts_of_values_are_updated) {
  EXPECT_EQ(store.append("log", "one").size, 3U);
  EXPECT_EQ(store.append("log", "two").size, 6U);
  EXPECT_EQ(store.find("log")->bytes(), "onetwo");
  EXPECT_EQ(store.update("log", "TWO!", {.offset = 3}).is, remote::update_state::too_large);
  EXPECT_EQ(store.update("log", "TWO", {.offset = 3}).is, remote::update_state::done);
  EXPECT_EQ(store.find("log")->bytes(), "oneTWO");
  EXPECT_EQ(store.update("none", "x", {}).is, remote::update_state::absent);
  EXPECT_EQ(store.increment("n", 5).number, 5);
  EXPECT_EQ(store.increment("n", -7).number, -2);
  EXPECT_EQ(store.increment("log").is, remote::update_state::no_number);
}

TEST_F(Remote, scans_give_all_rows_in_order_both_ways) {
  std::vector<std::string> keys;
  for (int i = 0; i < 20'000; ++i) keys.push_back("key" + std::to_string(1'000'000 + i));
  std::vector<icecore::item> items;
  for (const std::string& key : keys) items.push_back({key, key});
  EXPECT_EQ(store.insert_many(items), keys.size());
  EXPECT_EQ(store.insert_many(std::span(items).first(10), true), 0U);
  const remote::snapshot now = store.latest();
  EXPECT_EQ(now.size(), keys.size());
  const auto rows = all_of(now.range());
  ASSERT_EQ(rows.size(), keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) ASSERT_EQ(rows[i].first, keys[i]);
  auto backward = all_of(now.reversed());
  std::ranges::reverse(backward);
  EXPECT_EQ(backward, rows);
  EXPECT_EQ(all_of(now.prefix("key101999")).size(), 10U);
  EXPECT_EQ(now.count({.from = keys[5], .to = keys[15]}), 10U);
  EXPECT_GT(server.count(operation_number::next_rows), 3U);
  const std::vector<std::string_view> some{keys[7], "absent", keys[3]};
  const auto found = now.find_many(some);
  EXPECT_EQ(found[0]->bytes(), keys[7]);
  EXPECT_FALSE(found[1]);
  EXPECT_EQ(found[2]->bytes(), keys[3]);
}

TEST_F(Remote, a_scan_goes_on_behind_its_last_row_after_a_break) {
  std::vector<std::string> keys;
  for (int i = 0; i < 20'000; ++i) keys.push_back("key" + std::to_string(1'000'000 + i));
  std::vector<icecore::item> items;
  for (const std::string& key : keys) items.push_back({key, key});
  store.insert_many(items);
  for (const bool reverse : {false, true}) {
    const remote::snapshot now = store.latest();
    std::vector<std::string> seen;
    auto range = reverse ? now.reversed() : now.range();
    for (const auto& [key, value] : range) {
      seen.emplace_back(key);
      if (seen.size() % 6000 == 1) {
        store.insert("key1000000.5", "later");
        server.break_connections();
      }
    }
    if (reverse) std::ranges::reverse(seen);
    std::erase(seen, "key1000000.5");  // the second scan's version has it
    EXPECT_EQ(seen, keys) << reverse;
  }
}

TEST_F(Remote, histories_differences_and_changes_are_those_of_the_store) {
  store.insert("a", "1");
  const icecore::version first = store.tag();
  store.insert("a", "2");
  store.insert("b", "3");
  const icecore::version second = store.tag();
  store.remove("a");
  const icecore::version third = store.tag();
  std::vector<std::optional<std::string>> values;
  for (const icecore::change& each : store.history("a")) values.emplace_back(each.value);
  EXPECT_EQ(values, (std::vector<std::optional<std::string>>{std::nullopt, "2", "1"}));
  std::vector<std::string> changed;
  for (const icecore::difference& each : store.diff(first, third)) {
    changed.push_back(std::string(each.key) + std::string(each.before.value_or("-")) +
                      std::string(each.after.value_or("-")));
  }
  EXPECT_EQ(changed, (std::vector<std::string>{"a1-", "b-3"}));
  std::vector<std::string> writes;
  for (const remote::key_change& each : store.changes(first, second)) {
    writes.push_back(std::string(each.key) + std::string(each.value.value_or("-")));
    EXPECT_EQ(each.version, second);
  }
  EXPECT_EQ(writes, (std::vector<std::string>{"a2", "b3"}));
}

TEST_F(Remote, histories_differences_and_changes_go_on_after_a_break) {
  constexpr int writes = 4000;
  const std::string filling(300, 'v');
  const auto value = [&](int i) { return std::to_string(i) + filling; };
  std::vector<std::string> keys;
  for (int i = 0; i < writes; ++i) keys.push_back("key" + std::to_string(100'000 + i));
  for (int i = 0; i < writes; i += 1000) {
    icecore::batch some;
    for (int j = i; j < i + 1000; ++j) some.insert(keys[static_cast<std::size_t>(j)], value(j));
    store.apply(some);
    store.tag();
  }
  for (int i = 0; i < writes; ++i) store.insert("again", value(i));  // some are of one version
  const icecore::version last = store.tag();
  const auto walk = [&](auto rows, const auto& each) {
    int count = 0;
    for (const auto& row : rows) {
      each(row, count);
      if (++count % 700 == 0) {
        store.insert("again", "later");
        server.break_connections();
      }
    }
    return count;
  };
  const auto changed = [&](const remote::key_change& row, int i) {
    if (i >= writes) return;
    EXPECT_EQ(row.key, keys[static_cast<std::size_t>(i)]);
    EXPECT_EQ(row.value, value(i));
  };
  EXPECT_GE(walk(store.changes(0, last), changed), writes + 1);
  const auto differs = [&](const icecore::difference& row, int i) {
    EXPECT_EQ(row.key, i == 0 ? "again" : keys[static_cast<std::size_t>(i - 1)]);
  };
  EXPECT_EQ(walk(store.diff(0, last), differs), writes + 1);
  std::vector<std::string> before;
  for (const icecore::change& row : store.history("again")) before.emplace_back(row.value.value_or("-"));
  EXPECT_EQ(
      walk(store.history("again"),
           [&](const icecore::change& row, int i) { EXPECT_EQ(row.value, before[static_cast<std::size_t>(i)]) << i; }),
      static_cast<int>(before.size()));
}

TEST_F(Remote, a_watch_tells_each_change_once_across_broken_connections) {
  remote::watch watch = store.watch({.after = 0});
  std::vector<std::string> told;
  const auto read = [&](std::size_t until) {
    const auto limit = std::chrono::steady_clock::now() + 20s;
    while (told.size() < until && std::chrono::steady_clock::now() < limit) {
      for (const remote::watched_change& each : watch.next(100ms).changes) told.push_back(each.key);
    }
  };
  std::vector<std::string> expected;
  for (int i = 0; i < 30; ++i) {
    expected.push_back("k" + std::to_string(100 + i));
    store.insert(expected.back(), "v");
    // The connections that were broken may break under either call; a tag is not repeated by itself.
    const errc tagged = code_of([&] { store.tag(); });
    if (tagged == errc::outcome_unknown)
      store.tag();
    else
      ASSERT_EQ(tagged, errc{});
    if (i % 10 == 4) read(expected.size());
    if (i % 10 == 7) server.break_connections();
  }
  read(expected.size());
  EXPECT_EQ(told, expected);
  EXPECT_TRUE(watch.next(0ms).changes.empty());
}

TEST_F(Remote, scans_and_watches_go_on_when_the_server_lets_go_of_a_request) {
  remote::watch watch = store.watch({.after = 0});
  std::vector<std::string> keys;
  for (int i = 0; i < 20'000; ++i) keys.push_back("key" + std::to_string(1'000'000 + i));
  std::vector<icecore::item> items;
  for (const std::string& key : keys) items.push_back({key, key});
  store.insert_many(items);
  store.tag();

  server.drop_at(operation_number::next_rows);
  std::vector<std::string> seen;
  for (const auto& [key, value] : store.latest().range()) seen.emplace_back(key);
  EXPECT_EQ(seen, keys);
  EXPECT_EQ(server.count(operation_number::open_scan), 2U);
  EXPECT_EQ(server.count(operation_number::close_rows), 1U);

  std::vector<std::string> told;
  const auto read = [&] {
    for (const remote::watched_change& each : watch.next(100ms).changes) told.push_back(each.key);
  };
  read();
  server.drop_at(operation_number::next_changes);
  const auto limit = std::chrono::steady_clock::now() + 20s;
  while (told.size() < keys.size() && std::chrono::steady_clock::now() < limit) read();
  store.insert("last", "v");
  store.tag();
  while (told.size() < keys.size() + 1 && std::chrono::steady_clock::now() < limit) read();
  keys.emplace_back("last");
  EXPECT_EQ(told, keys);
  EXPECT_EQ(server.count(operation_number::open_watch), 2U);
  EXPECT_EQ(server.count(operation_number::close_watch), 1U);
}

TEST_F(Remote, operations_are_under_way_at_the_same_time) {
  std::vector<remote::pending<icecore::version>> writes;
  for (int i = 0; i < 1000; ++i) writes.push_back(store.start_insert("k" + std::to_string(i), std::to_string(i)));
  for (auto& each : writes) each.wait();
  std::vector<remote::pending<std::optional<remote::value>>> reads;
  for (int i = 0; i < 1000; ++i) reads.push_back(store.start_find("k" + std::to_string(i)));
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(reads[static_cast<std::size_t>(i)].wait()->bytes(), std::to_string(i));
  EXPECT_EQ(code_of([&] { reads[0].wait(); }), errc::invalid_argument);
  auto removed = store.start_remove("k0");
  EXPECT_TRUE(removed.wait_for(10s));
  EXPECT_TRUE(removed.test());
  EXPECT_TRUE(removed.wait());
  auto cancelled = store.start_insert("c", "d");
  cancelled.cancel();
  EXPECT_EQ(code_of([&] { cancelled.wait(); }), errc::cancelled);
  static_cast<void>(store.start_insert("forgotten", "x"));  // and nobody waits for it
}

TEST_F(Remote, what_is_harmless_is_repeated_after_a_broken_connection) {
  store.insert("k", "1");
  server.break_connections();
  EXPECT_EQ(store.find("k")->bytes(), "1");
  for (const bool executed : {false, true}) {
    const std::uint64_t before = server.count(operation_number::put);
    server.break_at(operation_number::put, executed);
    store.insert("k", executed ? "3" : "2");
    EXPECT_EQ(server.count(operation_number::put), before + 2);
    EXPECT_EQ(store.find("k")->bytes(), executed ? "3" : "2");
    server.break_at(operation_number::put, executed);
    auto later = store.start_insert("l", "m");
    later.wait();
    EXPECT_EQ(store.find("l")->bytes(), "m");
  }
}

TEST_F(Remote, what_must_not_be_done_twice_fails_with_an_unknown_outcome) {
  store.increment("n", 1);
  for (const bool executed : {false, true}) {
    server.break_at(operation_number::increment, executed);
    EXPECT_EQ(code_of([&] { store.increment("n", 1); }), errc::outcome_unknown);
    server.break_at(operation_number::increment, executed);
    auto later = store.start_increment("n", 1);
    EXPECT_EQ(code_of([&] { later.wait(); }), errc::outcome_unknown);
  }
  EXPECT_EQ(store.increment("n", 0).number, 3) << "once each, where it was executed";
  EXPECT_EQ(server.count(operation_number::increment), 6U) << "nothing was sent twice";
}

TEST_F(Remote, a_server_that_is_gone_is_told_by_the_deadline) {
  auto gone = std::make_unique<test_server>();
  remote::client other(gone->address(), opening(500ms));
  remote::store s = other.create("d");
  gone.reset();
  const errc code = code_of([&] { s.insert("k", "v"); });
  EXPECT_TRUE(code == errc::unavailable || code == errc::deadline_exceeded);
  EXPECT_EQ(code_of([&] { remote::client(std::string("ucx://127.0.0.1:1"), opening(500ms)); }), errc::unavailable);
}

TEST_F(Remote, addresses_and_tokens_that_are_wrong_are_refused) {
  for (const char* text :
       {"", "node:1", "http://a:1", "ucx://", "ucx://a", "ucx://a:b", "ucx://a:1,", "ucx://a:99999"}) {
    const errc code = code_of([&] { remote::client(std::string(text), opening(500ms)); });
    EXPECT_EQ(code, errc::invalid_argument) << text;
  }
  remote::options wrong = opening();
  wrong.token = "another job's token";
  EXPECT_EQ(code_of([&] { remote::client(server.address(), wrong); }), errc::unauthenticated);
}

TEST_F(Remote, databases_are_made_listed_and_dropped) {
  EXPECT_EQ(code_of([&] { client.create("weights"); }), errc::database_exists);
  EXPECT_EQ(code_of([&] { static_cast<void>(client.open("none")); }), errc::denied);
  client.create("other", {.rule = remote::version_rule::write, .durability = icecore::durability::none});
  const auto found = client.list();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, "other");
  EXPECT_EQ(found[0].settings.rule, remote::version_rule::write);
  EXPECT_EQ(found[0].settings.durability, icecore::durability::none);
  const std::uint64_t closed = server.count(operation_number::close_database);
  client.drop("other");
  EXPECT_EQ(client.list().size(), 1U);
  EXPECT_EQ(server.count(operation_number::close_database), closed + 1);  // its handle is given back
  EXPECT_EQ(store.status().info.name, "weights");
  store.sync();
  store.insert("a", "b");
  const icecore::version kept = store.tag();
  store.compact(kept);
  EXPECT_EQ(store.status().compacted, kept);
}

TEST_F(Remote, a_request_that_no_server_takes_fails_at_once_and_alone) {
  const std::uint64_t opened = server.count(operation_number::open_database);
  const std::string large(std::size_t{65} << 20, 'x');
  const std::vector<icecore::item> items{{"a", "1"}, {"b", large}};
  for (int i = 0; i < 3; ++i) {
    std::vector<remote::pending<remote::update_result>> under_way;
    for (int k = 0; k < 100; ++k) under_way.push_back(store.start_increment("n"));
    EXPECT_EQ(code_of([&] { store.insert("a", large); }), errc::limit_reached);
    EXPECT_EQ(code_of([&] { store.append("a", large); }), errc::limit_reached);
    EXPECT_EQ(code_of([&] { store.insert_many(items); }), errc::limit_reached);
    auto pending = store.start_insert("a", large);
    EXPECT_EQ(code_of([&] { pending.wait(); }), errc::limit_reached);
    for (auto& each : under_way) EXPECT_EQ(each.wait().is, remote::update_state::done);
  }
  EXPECT_EQ(store.find("n")->bytes(), "300");
  EXPECT_EQ(server.count(operation_number::open_database), opened) << "over the same connection";
}

TEST_F(Remote, leases_end_their_keys) {
  const remote::lease_info lease = store.grant_lease(60s);
  store.insert("k", "v", lease.number);
  EXPECT_EQ(store.lease(lease.number, true).keys, std::vector<std::string>{"k"});
  EXPECT_GT(store.keep_lease(lease.number).left, 1s);
  EXPECT_EQ(store.leases(), std::vector<remote::lease_number>{lease.number});
  store.revoke_lease(lease.number);
  EXPECT_FALSE(store.contains("k"));
  EXPECT_EQ(code_of([&] { static_cast<void>(store.lease(lease.number)); }), errc::no_such_lease);
}

TEST(RemoteGroup, independent_servers_share_the_keys_by_their_hash) {
  test_server a({.name = "g", .index = 0, .size = 2});
  test_server b({.name = "g", .index = 1, .size = 2});
  remote::options with = opening();
  with.grouping = remote::grouping::independent;
  remote::client c("ucx://" + a.host_and_port() + "," + b.host_and_port(), with);
  EXPECT_EQ(c.servers(), 2U);
  remote::store s = c.create("d");
  std::vector<std::string> keys;
  std::vector<icecore::item> items;
  for (int i = 0; i < 2000; ++i) keys.push_back("k" + std::to_string(10'000 + i));
  for (const std::string& key : keys) items.push_back({key, key});
  s.insert_many(items);
  s.tag("t");
  const auto rows = all_of(s.at("t").range());
  ASSERT_EQ(rows.size(), keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(rows[i].first, keys[i]);
  EXPECT_EQ(s.at("t").size(), keys.size());
  EXPECT_EQ(s.find(keys[17], "t")->bytes(), keys[17]);
  const std::uint64_t here =
      a.service().find_database(icecore::service::principal::anyone(), "d")->count({}, icecore::service::newest{});
  EXPECT_GT(here, 800U);
  EXPECT_LT(here, 1200U);
  EXPECT_EQ(code_of([&] { static_cast<void>(s.at(icecore::version{1})); }), errc::invalid_argument);
  EXPECT_EQ(code_of([&] { static_cast<void>(s.watch({.after = 1})); }), errc::invalid_argument);
  EXPECT_EQ(code_of([&] { static_cast<void>(s.watch({.after_each = {1}})); }), errc::invalid_argument);
}

namespace {

// Two independent servers and a client of both.
struct two_servers {
  test_server a{{.name = "g", .index = 0, .size = 2}};
  test_server b{{.name = "g", .index = 1, .size = 2}};
  remote::options with = [] {
    remote::options made = opening();
    made.grouping = remote::grouping::independent;
    return made;
  }();
  remote::client c{"ucx://" + a.host_and_port() + "," + b.host_and_port(), with};
  remote::store s = c.create("d");
};

}  // namespace

TEST(RemoteGroup, differences_and_changes_of_independent_servers_are_merged) {
  two_servers of;
  remote::store& s = of.s;
  for (int i = 0; i < 100; ++i) s.insert("k" + std::to_string(100 + i), "1");
  s.tag("first");
  for (int i = 0; i < 100; i += 2) s.insert("k" + std::to_string(100 + i), "2");
  s.remove("k101");
  static_cast<void>(s.latest());
  s.insert("k100", "3");
  s.tag("second");
  const remote::snapshot before = s.at("first");
  const remote::snapshot after = s.at("second");
  std::vector<std::string> keys;
  std::vector<std::string> wanted;
  auto found = s.diff(before, after);
  for (const icecore::difference& each : found) {
    keys.emplace_back(each.key);
    EXPECT_EQ(each.before, "1");
    EXPECT_EQ(each.after.value_or("(none)"), each.key == "k101" ? "(none)" : each.key == "k100" ? "3" : "2");
  }
  for (int i = 0; i < 100; ++i) {
    if (i % 2 == 0 || i == 1) wanted.push_back("k" + std::to_string(100 + i));
  }
  EXPECT_EQ(keys, wanted) << "in key order";
  std::map<std::string, std::vector<std::string>> written;
  icecore::version last = 0;
  auto changes = s.changes(before, after);
  for (const remote::key_change& each : changes) {
    EXPECT_GE(each.version, last);
    last = each.version;
    written[std::string(each.key)].push_back(std::string(each.value.value_or("(removed)")));
  }
  EXPECT_EQ(written.size(), wanted.size());
  EXPECT_EQ(written["k100"], (std::vector<std::string>{"2", "3"}));
  EXPECT_EQ(written["k101"], (std::vector<std::string>{"(removed)"}));
  EXPECT_EQ(code_of([&] { static_cast<void>(s.diff(icecore::version{1}, icecore::version{2})); }),
            errc::invalid_argument);
  s.compact(after);
  EXPECT_EQ(code_of([&] { static_cast<void>(before.find("k100")); }), errc::version_expired);
  EXPECT_EQ(after.find("k100")->bytes(), "3");
}

TEST(RemoteGroup, a_watch_tells_what_all_independent_servers_tell_across_broken_connections) {
  two_servers of;
  remote::store& s = of.s;
  const remote::snapshot begin = s.latest();
  remote::watch watch = s.watch({.after_each = begin.versions()});
  EXPECT_TRUE(watch.next(0ms).changes.empty());
  std::map<std::string, std::vector<std::string>> told;
  std::vector<icecore::version> middle;
  std::size_t count = 0;
  for (int round = 1; round <= 5; ++round) {
    for (int i = 0; i < 20; ++i) s.insert("k" + std::to_string(i), std::to_string(round));
    s.tag();
    if (round == 3) of.b.break_connections();
    while (count < static_cast<std::size_t>(20 * round)) {
      const auto some = watch.next(10s);
      ASSERT_FALSE(some.changes.empty());
      ASSERT_EQ(some.told_each.size(), 2U);
      for (const auto& each : some.changes) told[each.key].push_back(*each.value);
      count += some.changes.size();
    }
    if (round == 2) {  // both have told all
      middle = s.latest().versions();
    }
  }
  EXPECT_EQ(count, 100U);
  for (const auto& [key, values] : told) EXPECT_EQ(values, (std::vector<std::string>{"1", "2", "3", "4", "5"})) << key;
  // Another one that goes on in the middle is told the rest.
  remote::watch again = s.watch({.after_each = middle});
  for (count = 0; count < 60;) count += again.next(10s).changes.size();
  EXPECT_TRUE(again.next(0ms).changes.empty());
}

TEST(RemoteGroup, a_lease_of_independent_servers_is_kept_by_all) {
  two_servers of;
  remote::store& s = of.s;
  const remote::lease_info lease = s.grant_lease(100s);
  for (int i = 0; i < 10; ++i) s.insert("k" + std::to_string(i), "1", lease.number);
  EXPECT_EQ(s.lease(lease.number, true).keys.size(), 10U);
  EXPECT_LE(s.keep_lease(lease.number).left, 100s);
  EXPECT_EQ(s.leases(), (std::vector<remote::lease_number>{lease.number}));
  EXPECT_EQ(code_of([&] { s.grant_lease(1ms); }), errc::invalid_argument);
  // One server has a lease of the number that is asked for: none of them keeps one.
  const auto there = of.b.service().find_database(icecore::service::principal::anyone(), "d");
  there->grant(100s, 77);
  const errc taken = code_of([&] { s.grant_lease(100s, 77); });
  EXPECT_NE(taken, errc{});
  EXPECT_EQ(of.a.service().find_database(icecore::service::principal::anyone(), "d")->leases().size(), 1U);
  EXPECT_EQ(s.revoke_lease(lease.number), 10U);
  EXPECT_EQ(s.latest().size(), 0U);
  EXPECT_EQ(code_of([&] { static_cast<void>(s.lease(lease.number)); }), errc::no_such_lease);
}

TEST(RemoteGroup, a_list_that_is_not_the_group_is_refused) {
  test_server a({.name = "g", .index = 0, .size = 2});
  test_server b({.name = "g", .index = 1, .size = 2});
  test_server other({.name = "h", .index = 1, .size = 2});
  const auto connect = [](const std::string& list, remote::grouping how) {
    remote::options with = opening();
    with.grouping = how;
    return code_of([&] { remote::client("ucx://" + list, with); });
  };
  using enum remote::grouping;
  EXPECT_EQ(connect(a.host_and_port(), independent), errc::other_cluster) << "one is missing";
  EXPECT_EQ(connect(b.host_and_port() + "," + a.host_and_port(), independent), errc::other_cluster) << "exchanged";
  EXPECT_EQ(connect(a.host_and_port() + "," + b.host_and_port() + "," + b.host_and_port(), independent),
            errc::other_cluster)
      << "one too many";
  EXPECT_EQ(connect(a.host_and_port() + "," + other.host_and_port(), independent), errc::other_cluster)
      << "of another group";
  EXPECT_EQ(connect(a.host_and_port(), dependent), errc::other_cluster) << "alone, but it is one of two";
  EXPECT_EQ(connect(a.host_and_port() + "," + b.host_and_port(), independent), errc{});
}
