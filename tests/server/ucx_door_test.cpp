// The UCX door: what each operation does, asked in the wire's own messages over shared memory.
#include <gmock/gmock.h>

#include <mutex>
#include <set>

#include "ucx_door_support.hpp"
#include "wire/transport/failure.hpp"

namespace icecore::doors {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

std::vector<std::string> texts(const service::byte_array& from) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < from.size(); ++i) all.emplace_back(from[i]);
  return all;
}

TEST_F(UcxDoor, values_are_put_read_updated_and_removed) {
  start();
  client c = connect();
  for (const auto rule : {wire::wire_rule::tag, wire::wire_rule::every, wire::wire_rule::write}) {
    c.create("db" + std::to_string(static_cast<int>(rule)), rule);
    EXPECT_EQ(c.get("a"), "(none)");
    c.put("a", "1");
    EXPECT_EQ(c.get("a"), "1");
    EXPECT_FALSE(c.ask(wire::put_request{.key = "a", .value = "2", .only_new = true}).as<wire::put_answer>().written);
    EXPECT_EQ(c.get("a"), "1");
    auto changed = c.ask(wire::update_request{.key = "a", .part = "23", .rule = service::update_rule::append})
                       .as<wire::update_answer>();
    EXPECT_EQ(changed.size, 3U);
    EXPECT_EQ(c.get("a"), "123");
    EXPECT_EQ(c.ask(wire::increment_request{.key = "a", .by = 7}).as<wire::update_answer>().number, 130);
    const auto part = c.ask(wire::get_request{.key = "a", .offset = 1, .length = 1}).as<wire::get_answer>();
    EXPECT_EQ(part.value, "3");
    EXPECT_EQ(part.size, 3U);
    EXPECT_EQ(c.ask(wire::get_request{.key = "a", .offset = 99}).as<wire::get_answer>().value, "");
    EXPECT_EQ(c.ask(wire::remove_request{.key = "a"}).as<wire::remove_answer>().removed, 1U);
    EXPECT_EQ(c.ask(wire::remove_request{.key = "a"}).as<wire::remove_answer>().removed, 0U);
    for (const char* key : {"b", "c", "d"}) c.put(key, key);
    EXPECT_EQ(c.ask(wire::remove_request{.key = "b", .end = "d"}).as<wire::remove_answer>().removed, 2U);
    EXPECT_EQ(c.get("d"), "d");
  }
}

TEST_F(UcxDoor, large_values_travel_whole) {
  start();
  client c = connect();
  c.create("db");
  for (const std::size_t bytes : {8191U, 8192U, 262'144U, 262'145U, 5'000'000U}) {
    std::string value(bytes, 'x');
    for (std::size_t i = 0; i < bytes; i += 97) value[i] = static_cast<char>('a' + i % 26);
    c.put("large", value);
    EXPECT_TRUE(c.get("large") == value) << bytes;
  }
}

TEST_F(UcxDoor, the_past_is_read_at_versions_and_tags) {
  start();
  client c = connect();
  c.create("db");
  c.put("a", "1");
  const version first = c.tag("one");
  c.put("a", "2");
  EXPECT_EQ(c.get("a", first), "1");
  EXPECT_EQ(c.get("a", service::tag_name{"one"}), "1");
  EXPECT_EQ(c.get("a"), "2");
  EXPECT_EQ(c.ask(wire::get_request{.key = "a", .at = service::tag_name{"no"}}).code(), errc::unknown_tag);
  EXPECT_EQ(c.ask(wire::get_request{.key = "a", .at = version{1'000'000}}).code(), errc::version_not_closed);
  EXPECT_EQ(c.ask(wire::resolve_request{.at = service::tag_name{"one"}}).as<wire::version_answer>().version, first);
  EXPECT_EQ(c.ask(wire::list_tags_request{}).as<wire::list_tags_answer>().tags.size(), 1U);
  EXPECT_EQ(c.ask(wire::find_tag_request{.at = first}).as<wire::find_tag_answer>().tag->name, "one");
  EXPECT_EQ(c.ask(wire::tag_request{.name = "one"}).code(), errc::tag_exists);
  EXPECT_EQ(c.ask(wire::sync_request{}).status, 0);
  const version second = c.tag();
  EXPECT_EQ(c.ask(wire::compact_request{.oldest_kept = second}).status, 0);
  EXPECT_EQ(c.ask(wire::get_request{.key = "a", .at = first}).code(), errc::version_expired);
}

TEST_F(UcxDoor, transactions_are_done_whole_or_not) {
  start();
  client c = connect();
  c.create("db");
  service::transaction t;
  t.conditions.push_back({.key = "lock", .is = service::condition::kind::absent});
  t.then = {service::operation::put("lock", "me"), service::operation::put("a", "1")};
  t.otherwise = {{.what = service::operation::kind::get, .key = "lock"}};
  EXPECT_TRUE(c.ask(wire::write_request{.what = t}).as<wire::write_answer>().done.succeeded);
  const auto again = c.ask(wire::write_request{.what = t}).as<wire::write_answer>().done;
  EXPECT_FALSE(again.succeeded);
  EXPECT_EQ(again.results.at(0).rows.at(0).value, "me");
}

TEST_F(UcxDoor, many_keys_are_loaded_read_and_counted) {
  start();
  client c = connect();
  c.create("db");
  c.put("k5", "old");
  wire::load_request load{.rows = {}, .keep = true};
  for (int i = 0; i < 10; ++i) load.rows.add("k" + std::to_string(i), "v" + std::to_string(i), 0);
  EXPECT_EQ(c.ask(load).as<wire::load_answer>().written, 9U);
  EXPECT_EQ(c.get("k5"), "old");
  load.keep = false;
  EXPECT_EQ(c.ask(load).as<wire::load_answer>().written, 10U);
  EXPECT_EQ(c.get("k5"), "v5");
  wire::get_many_request many;
  for (const char* key : {"k1", "no", "k2"}) many.keys.add(key);
  const auto values = c.ask(many).as<wire::get_many_answer>();
  EXPECT_THAT(texts(values.values), ElementsAre("v1", "", "v2"));
  EXPECT_THAT(values.found, ElementsAre(1, 0, 1));
  EXPECT_EQ(c.ask(wire::count_request{.bounds = {"k3", "k6"}}).as<wire::count_answer>().count, 3U);
}

TEST_F(UcxDoor, rows_come_in_blocks_and_in_order) {
  start();
  client c = connect();
  c.create("db");
  std::vector<std::string> wanted;
  for (int i = 0; i < 1000; ++i) {
    wanted.push_back("key" + std::to_string(10'000 + i));
    c.put(wanted.back(), "value");
  }
  auto block = c.ask(wire::open_scan_request{.block_bytes = 1024}).as<wire::rows_answer>();
  const version shown = block.version;
  c.put("key10500x", "later");  // not in this scan: it is one instant
  std::vector<std::string> seen = texts(block.block_of_rows.keys);
  const std::uint32_t rows = block.rows;
  EXPECT_GT(service_->open_scans().used(), 0U);
  // Two are under way at a time, as clients do it.
  std::uint64_t asked = 1;
  std::vector<std::future<wire::answer>> ahead;
  for (; asked < 3; ++asked) ahead.push_back(c.send(wire::next_rows_request{.rows = rows, .block = asked}));
  while (!block.end) {
    wire::answer got = ahead.front().get();
    ahead.erase(ahead.begin());
    ASSERT_EQ(got.status, 0);
    ASSERT_TRUE(wire::decoded(got.payload.view(), block));
    EXPECT_EQ(block.end || block.version == shown, true);
    for (std::string& key : texts(block.block_of_rows.keys)) seen.push_back(std::move(key));
    ahead.push_back(c.send(wire::next_rows_request{.rows = rows, .block = asked++}));
  }
  EXPECT_EQ(seen, wanted);
  EXPECT_EQ(service_->open_scans().used(), 0U);
  // Behind the end there is nothing, which is no error.
  for (auto& late : ahead) EXPECT_EQ(late.get().status, 0);
}

TEST_F(UcxDoor, histories_differences_and_changes_are_told) {
  start();
  client c = connect();
  c.create("db");
  c.put("a", "1");
  const version first = c.tag();
  c.put("a", "2");
  c.put("b", "3");
  const version second = c.tag();
  const auto past = c.ask(wire::open_history_request{.key = "a"}).as<wire::rows_answer>();
  EXPECT_THAT(texts(past.block_of_rows.values), ElementsAre("2", "1"));
  const auto between = c.ask(wire::open_differences_request{.before = first, .after = second}).as<wire::rows_answer>();
  EXPECT_THAT(texts(between.block_of_rows.keys), ElementsAre("a", "b"));
  EXPECT_THAT(texts(between.block_of_rows.before), ElementsAre("1", ""));
  const auto since = c.ask(wire::open_changes_request{.after = first, .up_to = second}).as<wire::rows_answer>();
  EXPECT_THAT(texts(since.block_of_rows.values), ElementsAre("2", "3"));
}

TEST_F(UcxDoor, a_watch_tells_what_comes_and_waits_no_longer_than_asked) {
  start();
  client c = connect();
  client writer = connect();
  c.create("db", wire::wire_rule::write);
  writer.open("db");
  const auto opened = c.ask(wire::open_watch_request{}).as<wire::changes_answer>();
  EXPECT_EQ(service_->watches().used(), 1U);
  const wire::next_changes_request at_once{.watch = opened.watch};
  EXPECT_TRUE(c.ask(at_once).as<wire::changes_answer>().changes.empty());
  const wire::next_changes_request waits{.watch = opened.watch, .wait_ms = 60'000};
  auto first = c.send(waits);
  EXPECT_EQ(c.ask(waits).code(), errc::invalid_argument);  // one at a time
  writer.put("a", "1");
  wire::answer got = first.get();
  wire::changes_answer told;
  ASSERT_TRUE(wire::decoded(got.payload.view(), told));
  EXPECT_THAT(texts(told.changes.keys), ElementsAre("a"));
  wire::next_changes_request short_wait{.watch = opened.watch, .wait_ms = 20};
  EXPECT_TRUE(c.ask(short_wait).as<wire::changes_answer>().changes.empty());
  for (int i = 0; i < 20; ++i) writer.put("k" + std::to_string(i), "v");
  std::size_t seen = 0;
  while (seen < 20) seen += c.ask(waits).as<wire::changes_answer>().changes.size();
  EXPECT_EQ(seen, 20U);
  auto last = c.send(waits);
  EXPECT_EQ(c.ask(wire::close_watch_request{.watch = opened.watch}).status, 0);
  EXPECT_EQ(last.get().status, static_cast<int>(errc::cancelled));
  EXPECT_EQ(c.ask(waits).code(), errc::invalid_argument);
  EXPECT_TRUE(eventually([&] { return service_->watches().used() == 0; }));
}

TEST_F(UcxDoor, leases_end_their_keys) {
  start();
  client c = connect();
  c.create("db");
  const auto lease = c.ask(wire::grant_lease_request{.time_ms = 60'000}).as<wire::lease_answer>().lease;
  ASSERT_TRUE(c.ask(wire::put_request{.key = "a", .value = "1", .lease = lease}).as<wire::put_answer>().written);
  EXPECT_EQ(c.ask(wire::keep_lease_request{.lease = lease}).as<wire::lease_answer>().granted_ms, 60'000U);
  const auto about = c.ask(wire::describe_lease_request{.lease = lease, .keys = true}).as<wire::lease_answer>();
  EXPECT_THAT(about.keys, ElementsAre("a"));
  EXPECT_THAT(c.ask(wire::list_leases_request{}).as<wire::list_leases_answer>().leases, ElementsAre(lease));
  EXPECT_EQ(c.ask(wire::revoke_lease_request{.lease = lease}).as<wire::revoke_lease_answer>().removed, 1U);
  EXPECT_EQ(c.get("a"), "(none)");
  EXPECT_EQ(c.ask(wire::keep_lease_request{.lease = lease}).code(), errc::no_such_lease);
  // A put without a lease takes the key from the one that it had.
  const auto second = c.ask(wire::grant_lease_request{.time_ms = 60'000}).as<wire::lease_answer>().lease;
  c.ask(wire::put_request{.key = "a", .value = "1", .lease = second}).as<wire::put_answer>();
  c.put("a", "2");
  EXPECT_EQ(c.ask(wire::revoke_lease_request{.lease = second}).as<wire::revoke_lease_answer>().removed, 0U);
  EXPECT_EQ(c.get("a"), "2");
  EXPECT_EQ(c.ask(wire::grant_lease_request{.time_ms = 999}).code(), errc::invalid_argument);
}

TEST_F(UcxDoor, databases_are_made_altered_copied_and_dropped) {
  start();
  client c = connect();
  c.create("one", wire::wire_rule::write);
  c.put("a", "1");
  EXPECT_EQ(c.ask(wire::create_database_request{.settings = {.name = "one"}}, 0).code(), errc::database_exists);
  const auto number = c.ask(wire::open_database_request{.name = "one"}, 0).as<wire::open_database_answer>().number;
  c.ask(wire::copy_database_request{.from = "one", .settings = {.name = "two"}}, 0).as<wire::database_answer>();
  const auto altered = c.ask(wire::alter_database_request{.name = "two", .rule = wire::wire_rule::tag}, 0);
  EXPECT_EQ(altered.as<wire::database_answer>().settings.rule, wire::wire_rule::tag);
  EXPECT_EQ(c.ask(wire::list_databases_request{}, 0).as<wire::list_databases_answer>().databases.size(), 2U);
  EXPECT_EQ(c.ask(wire::describe_database_request{}).as<wire::describe_database_answer>().status.keys, 1U);
  EXPECT_EQ(c.ask(wire::drop_database_request{.name = "one"}, 0).status, 0);
  EXPECT_EQ(c.ask(wire::get_request{.key = "a"}).code(), errc::denied);  // whoever had it open
  EXPECT_EQ(c.ask(wire::open_database_request{.name = "one"}, 0).code(), errc::denied);
  c.create("one");
  EXPECT_NE(c.ask(wire::open_database_request{.name = "one"}, 0).as<wire::open_database_answer>().number, number);
  c.open("two");
  EXPECT_EQ(c.get("a"), "1");
  const std::string to = folder_ / "snapshot";
  EXPECT_EQ(c.ask(wire::snapshot_request{.to = to}, 0).as<wire::snapshot_answer>().parts.size(), 2U);
  const auto status = c.ask(wire::status_request{}, 0).as<wire::status_answer>();
  EXPECT_EQ(status.name, "a test");
  EXPECT_EQ(status.identity, service_->identity());
}

// ---- Bad input ----

TEST_F(UcxDoor, an_unknown_operation_is_refused_and_the_connection_goes_on) {
  start();
  client c = connect();
  c.create("db");
  for (const std::uint16_t number :
       {std::uint16_t{0}, std::uint16_t{15}, std::uint16_t{127}, std::uint16_t{128}, std::uint16_t{0xFFFF}}) {
    EXPECT_EQ(c.raw(number, c.handle, {}).code(), errc::invalid_argument) << number;
  }
  c.put("a", "1");
}

TEST_F(UcxDoor, handles_that_were_never_given_or_given_back_are_refused) {
  start();
  client c = connect();
  c.create("db");
  const std::uint32_t stale = c.handle;
  EXPECT_EQ(c.ask(wire::close_database_request{}).status, 0);
  EXPECT_EQ(c.ask(wire::close_database_request{}).status, 0);  // closing again is no error
  c.open("db");                                                // takes the same place
  for (const std::uint32_t wrong : {stale, 0U, c.handle + 1, c.handle ^ 0x10000U, 0xFFFFFFFFU}) {
    EXPECT_EQ(c.ask(wire::get_request{.key = "a"}, wrong).code(), errc::invalid_argument) << wrong;
    EXPECT_EQ(c.ask(wire::put_request{.key = "a"}, wrong).code(), errc::invalid_argument) << wrong;
  }
  EXPECT_EQ(c.ask(wire::next_rows_request{.rows = 0x10000, .block = 1}).code(), errc::invalid_argument);
  EXPECT_EQ(c.ask(wire::next_changes_request{.watch = 0x10000}).code(), errc::invalid_argument);
  c.put("a", "1");
  c.put("b", std::string(2000, 'x'));
  const auto rows = c.ask(wire::open_scan_request{.block_bytes = 1024}).as<wire::rows_answer>().rows;
  EXPECT_EQ(c.ask(wire::next_rows_request{.rows = rows, .block = 7}).code(), errc::invalid_argument);
  EXPECT_EQ(c.ask(wire::close_rows_request{.rows = rows}).status, 0);
  EXPECT_EQ(c.ask(wire::close_rows_request{.rows = rows}).status, 0);
  EXPECT_EQ(service_->open_scans().used(), 0U);
}

TEST_F(UcxDoor, another_connections_handles_are_nobodys) {
  start();
  client c = connect();
  c.create("db");
  client other = connect();
  EXPECT_EQ(other.ask(wire::get_request{.key = "a"}, c.handle).code(), errc::invalid_argument);
}

TEST_F(UcxDoor, a_payload_that_lies_ends_its_connection_and_no_other) {
  start();
  client good = connect();
  good.create("db");
  std::uint64_t lies = 0;
  for (const wire::operation_facts& facts : wire::all_operations()) {
    const auto number = static_cast<std::uint16_t>(facts.number);
    // One byte too many of an empty request, or 3 bytes where a length needs 4, are a request of nothing.
    for (const std::size_t bytes : {1U, 3U}) {
      wire::byte_buffer cut(bytes);
      std::fill_n(cut.data(), bytes, std::byte{0xFF});
      if (wire::decode_request(number, cut.view())) continue;
      client bad = connect();
      bad.open("db");
      EXPECT_EQ(bad.raw(number, bad.handle, wire::byte_buffer(cut.view())).how, wire::outcome::broken) << facts.name;
      EXPECT_EQ(bad.endpoint().ended(), wire::close_reason::malformed) << facts.name;
      ++lies;
    }
  }
  EXPECT_GE(lies, 2 * wire::all_operations().size());
  EXPECT_TRUE(eventually([&] { return door_->counters().closed_malformed == lies; }));
  good.put("a", "1");
}

// ---- Who may what ----

class UcxDoorUsers : public UcxDoor {
 protected:
  UcxDoorUsers() {
    service::service_options options;
    options.users = true;
    start(std::move(options));
    service_->users().ensure_root("root's secret");
    client root = connect("root", "root's secret");
    root.create("db");
    const service::principal who = service_->users().recognise(service_->users().log_in("root", "root's secret").text);
    service::access& users = service_->users();
    users.add_user(who, "ann", "ann's secret");
    users.set_role(who, {"reader", {{"db", {"a", "c"}, service::rights_of({service::right::read})}}});
    users.set_role(who, {"writer", {{"db", {"b", "c"}, service::rights_of({service::right::write})}}});
    users.grant(who, "ann", "reader");
    users.grant(who, "ann", "writer");
  }
};

TEST_F(UcxDoorUsers, strangers_are_told_nothing) {
  for (const auto& [user, secret] : std::vector<std::pair<std::string, std::string>>{
           {"ann", "wrong"}, {"nobody", "ann's secret"}, {"", ""}, {"", "no token"}}) {
    try {
      static_cast<void>(connect(user, secret));
      ADD_FAILURE() << user << " was let in";
    } catch (const wire::failure& e) {
      EXPECT_EQ(e.reason(), wire::close_reason::wrong_token);
    }
  }
  client by_token = connect("", service_->users().log_in("ann", "ann's secret").text);
  by_token.open("db");
}

TEST_F(UcxDoorUsers, rights_are_asked_for_before_values) {
  client ann = connect("ann", "ann's secret");
  ann.open("db");
  EXPECT_EQ(ann.get("a1"), "(none)");
  EXPECT_EQ(ann.ask(wire::get_request{.key = "d"}).code(), errc::denied);
  EXPECT_EQ(ann.ask(wire::put_request{.key = "a1"}).code(), errc::denied);
  ann.put("b1", "1");
  EXPECT_EQ(ann.ask(wire::remove_request{.key = "b", .end = "d"}).code(), errc::denied);
  EXPECT_EQ(ann.ask(wire::remove_request{.key = "b", .end = "c"}).as<wire::remove_answer>().removed, 1U);
  EXPECT_EQ(ann.ask(wire::open_scan_request{}).code(), errc::denied);
  EXPECT_EQ(ann.ask(wire::open_scan_request{.bounds = {"a", "c"}}).status, 0);
  EXPECT_EQ(ann.ask(wire::open_history_request{.key = "z"}).code(), errc::denied);
  EXPECT_EQ(ann.ask(wire::open_watch_request{}).code(), errc::denied);
  EXPECT_EQ(ann.ask(wire::count_request{}).code(), errc::denied);
  EXPECT_EQ(ann.ask(wire::tag_request{}).code(), errc::denied);
  EXPECT_EQ(ann.ask(wire::compact_request{.oldest_kept = 1}).code(), errc::denied);
  EXPECT_EQ(ann.ask(wire::drop_database_request{.name = "db"}, 0).code(), errc::denied);
  EXPECT_EQ(ann.ask(wire::create_database_request{.settings = {.name = "mine"}}, 0).code(), errc::denied);
  EXPECT_EQ(ann.ask(wire::snapshot_request{.to = folder_ / "s"}, 0).code(), errc::denied);
  EXPECT_EQ(ann.ask(wire::open_database_request{.name = "hidden"}, 0).code(), errc::denied);
  service::transaction reads;
  reads.conditions.push_back({.key = "d"});
  EXPECT_EQ(ann.ask(wire::write_request{.what = reads}).code(), errc::denied);
  EXPECT_EQ(ann.ask(wire::increment_request{.key = "a1", .by = 1}).code(), errc::denied);
  wire::load_request load;
  load.rows.add("b1", "1", 0);
  load.rows.add("a1", "1", 0);
  EXPECT_EQ(ann.ask(load).code(), errc::denied);
  EXPECT_EQ(ann.get("b1"), "(none)");
}

TEST_F(UcxDoorUsers, withdrawn_rights_hold_for_open_connections) {
  client ann = connect("ann", "ann's secret");
  ann.open("db");
  ann.put("b1", "1");
  const auto watch = ann.ask(wire::open_watch_request{.bounds = {"a", "c"}}).as<wire::changes_answer>().watch;
  const service::principal who = service_->users().recognise(service_->users().log_in("root", "root's secret").text);
  service_->users().set_role(who, {"writer", {}});
  EXPECT_EQ(ann.ask(wire::put_request{.key = "b1"}).code(), errc::denied);
  EXPECT_EQ(ann.get("b1"), "1");  // what is still allowed goes on
  service_->users().set_role(who, {"reader", {}});
  EXPECT_EQ(ann.ask(wire::next_changes_request{.watch = watch}).code(), errc::denied);
  service_->users().set_password(who, "ann", "a new one");
  EXPECT_EQ(ann.ask(wire::get_request{.key = "b1"}).code(), errc::unauthenticated);
}

// ---- Limits ----

TEST_F(UcxDoor, connections_are_limited_as_configured) {
  service::service_options options;
  options.limits.connections = 2;
  start(std::move(options));
  auto first = std::make_unique<client>(door_->port());
  client second = connect();
  EXPECT_THROW(static_cast<void>(connect()), wire::failure);
  first.reset();
  EXPECT_TRUE(eventually([&] { return service_->connections().used() == 1; }));
  client third = connect();
}

TEST_F(UcxDoor, transactions_scans_and_watches_are_limited_as_configured) {
  service::service_options options;
  options.limits.transaction_operations = 3;
  options.limits.open_scans = 1;
  options.limits.watches = 1;
  start(std::move(options));
  client c = connect();
  c.create("db");
  service::transaction t;
  for (int i = 0; i < 3; ++i) t.then.push_back(service::operation::put("k" + std::to_string(i), std::string(900, 'x')));
  EXPECT_EQ(c.ask(wire::write_request{.what = t}).status, 0);
  t.then.push_back(service::operation::put("one", "more"));
  const told refused = c.ask(wire::write_request{.what = t});
  EXPECT_EQ(refused.code(), errc::invalid_argument);
  EXPECT_THAT(refused.message(), HasSubstr("transaction_operations"));
  const auto rows = c.ask(wire::open_scan_request{.block_bytes = 1024}).as<wire::rows_answer>().rows;
  EXPECT_EQ(c.ask(wire::open_scan_request{}).code(), errc::limit_reached);
  c.ask(wire::close_rows_request{.rows = rows});
  EXPECT_EQ(c.ask(wire::open_scan_request{}).status, 0);
  EXPECT_EQ(c.ask(wire::open_watch_request{}).status, 0);
  EXPECT_EQ(c.ask(wire::open_watch_request{}).code(), errc::limit_reached);
}

TEST_F(UcxDoor, requests_and_answers_are_limited_as_configured) {
  service::service_options options;
  options.limits.request_bytes = 1'000'000;
  options.limits.in_flight_bytes = 1'500'000;
  start(std::move(options));
  client c = connect();
  c.create("db");
  constexpr std::size_t beside_value = 4 + 1 + 4 + 1 + 8;
  EXPECT_EQ(c.ask(wire::put_request{.key = "a", .value = std::string(1'000'000 - beside_value, 'x')}).status, 0);
  EXPECT_NE(c.ask(wire::put_request{.key = "a", .value = std::string(1'000'001 - beside_value, 'x')}).how,
            wire::outcome::answered);
  // An answer that is more than all that may be in flight is refused; its parts are not.
  c = connect();
  c.open("db");
  const wire::update_request more{.key = "a", .part = std::string(900'000, 'y'), .rule = service::update_rule::append};
  EXPECT_EQ(c.ask(more).code(), errc::limit_reached) << "the value that it would make is in memory as well";
  const auto database = service_->find_database(service::principal::anyone(), "db");
  ASSERT_TRUE(database->put_at_once("a", std::string(1'900'000, 'x')));
  const told refused = c.ask(wire::get_request{.key = "a"});
  EXPECT_EQ(refused.code(), errc::limit_reached);
  EXPECT_THAT(refused.message(), HasSubstr("in_flight_bytes"));
  EXPECT_EQ(c.ask(wire::get_request{.key = "a", .length = 1'400'000}).as<wire::get_answer>().value.size(), 1'400'000U);
  EXPECT_EQ(service_->in_flight_bytes().used(), 0U);
}

TEST_F(UcxDoor, what_a_client_had_open_is_given_back_when_it_is_gone) {
  start();
  auto c = std::make_unique<client>(door_->port());
  c->create("db");
  for (int i = 0; i < 10; ++i) c->put(std::to_string(i), std::string(500, 'x'));
  c->ask(wire::open_scan_request{.block_bytes = 1024}).as<wire::rows_answer>();
  const auto watch = c->ask(wire::open_watch_request{}).as<wire::changes_answer>().watch;
  auto waits = c->send(wire::next_changes_request{.watch = watch, .wait_ms = 60'000});
  EXPECT_EQ(service_->open_scans().used(), 1U);
  c.reset();
  EXPECT_NE(waits.get().how, wire::outcome::answered);
  EXPECT_TRUE(eventually([&] {
    return service_->open_scans().used() == 0 && service_->watches().used() == 0 && service_->connections().used() == 0;
  }));
}

// ---- Groups and the end ----

TEST_F(UcxDoor, a_server_of_an_independent_group_has_its_own_keys_alone) {
  service::service_options options;
  options.group = {.name = "g", .index = 1, .size = 2};
  start(std::move(options));
  EXPECT_THROW(static_cast<void>(connect({}, {}, "g:0/2")), wire::failure);
  EXPECT_THROW(static_cast<void>(connect({}, {}, "g:1/3")), wire::failure);
  client c = connect({}, {}, "g:1/2");
  const auto group = c.ask(wire::group_request{}, 0).as<wire::group_answer>();
  EXPECT_FALSE(group.dependent);
  EXPECT_EQ(group.place, (wire::group_place{"g", 1, 2}));
  c.create("db");
  int own = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string key = "key" + std::to_string(i);
    const bool mine = service::owner_of(key, 2) == 1;
    own += mine ? 1 : 0;
    const errc expected = mine ? errc{} : errc::not_owner;
    EXPECT_EQ(c.ask(wire::put_request{.key = key}).code(), expected);
    EXPECT_EQ(c.ask(wire::get_request{.key = key}).code(), expected);
    EXPECT_EQ(c.ask(wire::open_history_request{.key = key}).code(), expected);
    wire::load_request load;
    load.rows.add(key, "v", 0);
    EXPECT_EQ(c.ask(load).code(), expected);
  }
  EXPECT_GT(own, 20);
  EXPECT_LT(own, 80);
  EXPECT_EQ(c.ask(wire::count_request{}).as<wire::count_answer>().count, static_cast<std::uint64_t>(own));
}

TEST_F(UcxDoor, stopping_ends_watches_and_answers_the_rest) {
  start();
  client c = connect();
  c.create("db");
  const auto watch = c.ask(wire::open_watch_request{}).as<wire::changes_answer>().watch;
  auto waits = c.send(wire::next_changes_request{.watch = watch, .wait_ms = 60'000});
  EXPECT_EQ(c.ask(wire::get_request{.key = "a"}).status, 0);
  door_->stop(5s);
  wire::answer got = waits.get();
  EXPECT_EQ(got.how, wire::outcome::answered);
  EXPECT_EQ(got.status, wire::status_stopping);
}

class counting_observer final : public ucx_observer {
 public:
  void finished(const ucx_call_report& what) noexcept override {
    const std::lock_guard lock(mutex);
    lines.push_back(std::string(what.name) + " " + std::string(what.database) + " " + std::to_string(what.status));
    programs.emplace(what.program);
  }
  std::mutex mutex;
  std::vector<std::string> lines;
  std::set<std::string> programs;
};

class UcxDoorObserved : public UcxDoor {
 protected:
  ucx_door_options door_options() override {
    ucx_door_options all = UcxDoor::door_options();
    all.observer = observer_;
    return all;
  }
  std::shared_ptr<counting_observer> observer_ = std::make_shared<counting_observer>();
};

TEST_F(UcxDoorObserved, each_request_is_told_once) {
  start();
  client c = connect();
  c.create("db");
  c.put("a", "1");
  c.tag("one");
  c.ask(wire::tag_request{.name = "one"});
  door_->stop(1s);
  const std::lock_guard lock(observer_->mutex);
  EXPECT_THAT(observer_->lines, UnorderedElementsAre("create_database  0", "open_database  0", "put db 0", "tag db 0",
                                                     "tag db " + std::to_string(static_cast<int>(errc::tag_exists))));
}

// The slow log finds the program by it.
TEST_F(UcxDoorObserved, a_request_is_told_with_the_name_of_its_program) {
  start();
  for (const std::string& name : {std::string("training run 7"), std::string(), std::string(500, 'n')}) {
    client c(door_->port(), {}, {}, {}, name);
    c.ask(wire::status_request{});
  }
  door_->stop(1s);
  const std::lock_guard lock(observer_->mutex);
  EXPECT_THAT(observer_->programs, UnorderedElementsAre("training run 7", "", std::string(128, 'n')));
}

TEST_F(UcxDoor, a_token_that_is_too_short_and_a_port_that_is_taken_are_told) {
  start();
  ucx_door_options options = door_options();
  options.token = "short";
  ucx_door weak(*service_, options);
  EXPECT_THROW(weak.start(), icecore::error);
  options = door_options();
  options.port = door_->port();
  ucx_door second(*service_, options);
  try {
    second.start();
    ADD_FAILURE() << "two doors have one port";
  } catch (const icecore::error& e) {
    EXPECT_EQ(e.code(), errc::unavailable);
    EXPECT_THAT(e.message(), HasSubstr(std::to_string(options.port)));
  }
}

}  // namespace
}  // namespace icecore::doors
