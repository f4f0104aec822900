// A database of the server, by each version rule and on memory and on a disk: what doors are promised.
#include "service/database.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <condition_variable>
#include <future>
#include <latch>
#include <mutex>
#include <thread>

#include "icecore/error.hpp"
#include "service/store_database.hpp"
#include "support/scratch.hpp"

namespace icecore::service {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct kind {
  version_rule rule;
  bool durable;  // on a disk, operation by operation
  value_compression compression;
};

void PrintTo(const kind& k, std::ostream* out) {
  *out << (k.rule == version_rule::write   ? "write"
           : k.rule == version_rule::every ? "every"
                                           : "tag")
       << (k.durable ? "_durable" : "_none") << (k.compression == value_compression::zstd ? "_zstd" : "");
}

outcome write(database& db, transaction what) {
  std::promise<result<outcome>> promised;
  db.write(std::move(what), [&](result<outcome> came) { promised.set_value(std::move(came)); });
  result<outcome> came = promised.get_future().get();
  if (const auto* failed = std::get_if<failure>(&came)) raise(*failed);
  return std::get<outcome>(std::move(came));
}

outcome put(database& db, std::string key, std::string value) {
  transaction t;
  t.then.push_back(operation::put(std::move(key), std::move(value)));
  return write(db, std::move(t));
}

operation_result one(database& db, operation what) {
  transaction t;
  t.then.push_back(std::move(what));
  return write(db, std::move(t)).results.at(0);
}

std::string read(database& db, std::string_view key, const point& at = newest{}) {
  const auto is = db.find(key, at);
  return is ? std::string(is->value()) : "(none)";
}

std::vector<std::string> rows(row_stream& stream) {
  std::vector<std::string> all;
  for (row_block block; stream.next(block, {.rows = 3});) {
    for (std::size_t i = 0; i < block.size(); ++i) {
      all.push_back(std::string(block.keys[i]) + "=" + std::string(block.values[i]));
    }
  }
  return all;
}

template <typename Call>
errc code_of(Call call) {
  try {
    call();
  } catch (const icecore::error& e) {
    return static_cast<errc>(e.code().value());
  }
  return {};
}

class Database : public ::testing::TestWithParam<kind> {
 protected:
  Database() : folder_(GetParam().durable ? testing::place::disk : testing::place::tmpfs) { open(); }
  void open() {
    database_.reset();
    database_settings settings;
    settings.name = "test";
    settings.rule = GetParam().rule;
    settings.interval = 20ms;
    settings.durability = GetParam().durable ? durability::operation : durability::none;
    settings.compression = GetParam().compression;
    database_ = std::make_unique<store_database>(folder_ / "store.ice", settings, database_environment{.pool = &pool_});
  }
  database& db() { return *database_; }

  executor pool_{4};
  testing::scratch folder_;
  std::unique_ptr<store_database> database_;
};

TEST_P(Database, a_read_after_an_answer_sees_the_write) {
  for (int i = 0; i < 20; ++i) {
    put(db(), "key", std::to_string(i));
    EXPECT_EQ(read(db(), "key"), std::to_string(i));
    const auto scan = db().scan({});
    EXPECT_THAT(rows(*scan), ElementsAre("key=" + std::to_string(i)));
  }
}

TEST_P(Database, a_tag_keeps_what_was_there) {
  put(db(), "a", "1");
  put(db(), "b", std::string(1000, 'b'));
  const version then = db().tag({.name = "then"});
  put(db(), "a", "2");
  one(db(), operation::remove("b"));
  EXPECT_EQ(read(db(), "a", then), "1");
  EXPECT_EQ(read(db(), "b", tag_name{"then"}), std::string(1000, 'b'));
  EXPECT_EQ(read(db(), "b"), "(none)");
  EXPECT_EQ(db().find_tag(tag_name{"then"})->version, then);
  EXPECT_EQ(code_of([&] { db().tag({.name = "then"}); }), errc::tag_exists);
  EXPECT_EQ(code_of([&] { read(db(), "a", version{1'000'000}); }), errc::version_not_closed);
  EXPECT_EQ(code_of([&] { read(db(), "a", tag_name{"never"}); }), errc::unknown_tag);
}

TEST_P(Database, what_was_answered_is_there_after_opening_again) {
  put(db(), "a", "1");
  const version then = db().tag({.name = "then"});
  put(db(), "a", "2");
  open();
  EXPECT_EQ(read(db(), "a"), "2");
  EXPECT_EQ(read(db(), "a", then), "1");
}

TEST_P(Database, conditions_choose_the_operations) {
  transaction t;
  t.conditions.push_back({.key = "lock", .is = condition::kind::absent});
  t.then.push_back(operation::put("lock", "me"));
  t.otherwise.push_back({.what = operation::kind::get, .key = "lock"});
  EXPECT_TRUE(write(db(), t).succeeded);
  const outcome second = write(db(), t);
  EXPECT_FALSE(second.succeeded);
  EXPECT_EQ(second.results.at(0).rows.at(0).value, "me");

  const version was = db().find("lock", newest{})->version();
  db().tag({});
  transaction exact;
  exact.conditions.push_back({.key = "lock", .is = condition::kind::version_is, .version = was});
  exact.then.push_back(operation::put("lock", "you"));
  EXPECT_TRUE(write(db(), exact).succeeded);
  EXPECT_FALSE(write(db(), exact).succeeded);
}

TEST_P(Database, operations_of_a_transaction_see_those_before_them) {
  transaction t;
  t.then.push_back(operation::put("b", "1"));
  t.then.push_back({.what = operation::kind::increment, .key = "b", .number = 41});
  t.then.push_back({.what = operation::kind::get_range, .key = "a", .end = "z"});
  t.then.push_back({.what = operation::kind::remove_range, .key = "a", .end = "z"});
  t.then.push_back({.what = operation::kind::get_range, .key = "a", .end = "z"});
  put(db(), "c", "3");
  const outcome done = write(db(), std::move(t));
  EXPECT_EQ(done.results.at(1).number, 42);
  ASSERT_EQ(done.results.at(2).rows.size(), 2U);
  EXPECT_EQ(done.results.at(2).rows.at(0).value, "42");
  EXPECT_EQ(done.results.at(3).count, 2U);
  EXPECT_THAT(done.results.at(4).rows, IsEmpty());
  EXPECT_EQ(read(db(), "c"), "(none)");
}

TEST_P(Database, parts_of_values_follow_the_rules) {
  using state = operation_result::state;
  const auto update = [&](std::string part, std::uint64_t offset, update_rule rule,
                          operation::kind what = operation::kind::update) {
    return one(db(), {.what = what, .key = "k", .value = std::move(part), .rule = rule, .offset = offset}).is;
  };
  EXPECT_EQ(update("x", 0, update_rule::in_place), state::absent);
  EXPECT_EQ(update("abcd", 0, update_rule::in_place, operation::kind::upsert), state::done);
  EXPECT_EQ(update("X", 3, update_rule::in_place), state::done);
  EXPECT_EQ(update("XY", 3, update_rule::in_place), state::too_large);
  EXPECT_EQ(read(db(), "k"), "abcX");
  EXPECT_EQ(update("YZ", 3, update_rule::expand), state::overlap);
  EXPECT_EQ(update("YZ", 4, update_rule::expand), state::done);
  EXPECT_EQ(read(db(), "k"), "abcXYZ");
  EXPECT_EQ(update("123", 5, update_rule::expand_overlap), state::done);
  EXPECT_EQ(read(db(), "k"), "abcXY123");
  EXPECT_EQ(update("end", 1, update_rule::replace_from), state::done);
  EXPECT_EQ(read(db(), "k"), "aend");
  EXPECT_EQ(update("!", 5, update_rule::replace_from), state::too_large);
  EXPECT_EQ(update("!", 99, update_rule::append), state::done);
  EXPECT_EQ(read(db(), "k"), "aend!");
  EXPECT_EQ(update("z", 7, update_rule::expand), state::done);
  EXPECT_EQ(read(db(), "k"), std::string("aend!\0\0z", 8));
  EXPECT_EQ(one(db(), {.what = operation::kind::increment, .key = "k", .number = 1}).is, state::no_number);
  EXPECT_EQ(one(db(), {.what = operation::kind::put_new, .key = "k", .value = "new"}).is, state::exists);
}

TEST_P(Database, an_increment_beyond_the_numbers_changes_and_tells_none) {
  put(db(), "k", std::to_string(std::numeric_limits<std::int64_t>::max()));
  const operation_result is = one(db(), {.what = operation::kind::increment, .key = "k", .number = 1});
  EXPECT_EQ(is.is, operation_result::state::no_number);
  EXPECT_EQ(is.number, 0);
  EXPECT_EQ(read(db(), "k"), "9223372036854775807");
}

TEST_P(Database, a_value_that_a_short_part_makes_counts_as_memory) {
  gauge memory("limits.in_flight_bytes", 1 << 20);
  const auto update = [&](std::uint64_t offset) {
    transaction t{.allowed = {.memory = &memory}};
    t.then = {
        {.what = operation::kind::upsert, .key = "k", .value = "x", .rule = update_rule::expand, .offset = offset}};
    return write(db(), std::move(t)).results.at(0).size;
  };
  EXPECT_EQ(code_of([&] { update(std::uint64_t{3} << 30); }), errc::limit_reached);
  EXPECT_EQ(read(db(), "k"), "(none)");
  EXPECT_EQ(update(500'000), 500'001U);
  EXPECT_EQ(update(500'100), 500'101U);  // what the first one held is given back
  EXPECT_EQ(code_of([&] { update(1 << 20); }), errc::limit_reached);
  EXPECT_EQ(read(db(), "k").size(), 500'101U);
  EXPECT_EQ(memory.used(), 0U);
}

TEST_P(Database, increments_of_many_threads_add_up) {
  constexpr int threads = 8;
  constexpr int each = 20;
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&] {
      for (int i = 0; i < each; ++i) one(db(), {.what = operation::kind::increment, .key = "sum", .number = 1});
    });
  }
  for (std::thread& thread : running) thread.join();
  EXPECT_EQ(read(db(), "sum"), std::to_string(threads * each));
}

TEST_P(Database, a_watch_tells_every_change_once_and_in_order) {
  put(db(), "before", "0");
  const auto watch = db().watch_changes({.bounds = {.from = "k", .to = "l"}});
  constexpr int writes = 60;
  std::thread writer([&] {
    for (int i = 0; i < writes; ++i) {
      put(db(), "k" + std::to_string(i % 7), std::to_string(i));
      put(db(), "other", "x");
      if (i % 10 == 9) db().tag({});
    }
    db().tag({});
  });
  std::vector<std::string> values;
  version last = 0;
  while (values.size() < writes) {
    watched some = watch->next({.rows = 5});
    for (std::size_t i = 0; i < some.changes.size(); ++i) {
      values.emplace_back(some.changes.values[i]);
      EXPECT_GE(some.changes.versions[i], last);
      last = some.changes.versions[i];
    }
    if (!some.changes.empty()) continue;
    const auto waked = std::make_shared<std::promise<void>>();
    watch->arm([waked] { waked->set_value(); });
    ASSERT_EQ(waked->get_future().wait_for(20s), std::future_status::ready);
  }
  writer.join();
  std::vector<int> sorted;
  for (const std::string& v : values) sorted.push_back(std::stoi(v));
  std::ranges::sort(sorted);
  for (int i = 0; i < writes; ++i) EXPECT_EQ(sorted.at(static_cast<std::size_t>(i)), i);
  EXPECT_THAT(watch->next({}).changes.keys.bytes, IsEmpty());
}

TEST_P(Database, changes_histories_and_differences_agree) {
  const version begin = db().tag({});
  put(db(), "a", "1");
  db().tag({});
  put(db(), "a", "2");
  put(db(), "b", "3");
  const version middle = db().tag({});
  one(db(), operation::remove("a"));
  const version end = db().tag({});
  EXPECT_THAT(rows(*db().changes({.after = begin, .up_to = end})), ElementsAre("a=1", "a=2", "b=3", "a="));
  EXPECT_THAT(rows(*db().changes({.after = begin, .up_to = middle, .bounds = {.from = "b", .to = {}}})),
              ElementsAre("b=3"));
  EXPECT_THAT(rows(*db().history("a", newest{})), ElementsAre("=", "=2", "=1"));
  EXPECT_THAT(rows(*db().differences({.before = begin, .after = end})), ElementsAre("b=3"));
  EXPECT_THAT(rows(*db().scan({.at = middle, .reverse = true, .versions = true})), ElementsAre("b=3", "a=2"));
  EXPECT_EQ(db().count({}, middle), 2U);
}

TEST_P(Database, a_lease_ends_with_its_keys) {
  const lease_info granted = db().grant(3s, 0);
  EXPECT_NE(granted.number, 0U);
  transaction t;
  t.then.push_back({.what = operation::kind::put, .key = "leased", .value = "1", .lease = granted.number});
  t.then.push_back({.what = operation::kind::put, .key = "freed", .value = "2", .lease = granted.number});
  write(db(), std::move(t));
  put(db(), "freed", "3");
  EXPECT_THAT(db().lease(granted.number, true).keys, ElementsAre("leased"));
  EXPECT_THAT(rows(*db().scan({})), ElementsAre("freed=3", "leased=1"));  // nothing of the server's own
  open();
  EXPECT_THAT(db().lease(granted.number, true).keys, ElementsAre("leased"));
  const auto until = std::chrono::steady_clock::now() + 30s;
  while (db().find("leased", newest{}) && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(read(db(), "leased"), "(none)");
  EXPECT_EQ(read(db(), "freed"), "3");
  EXPECT_EQ(code_of([&] { db().keep_alive(granted.number); }), errc::no_such_lease);
  while (db().status().leases != 0 && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(10ms);
  EXPECT_THAT(rows(*db().scan({})), ElementsAre("freed=3"));
  transaction late;
  late.then.push_back({.what = operation::kind::put, .key = "x", .value = "1", .lease = granted.number});
  EXPECT_EQ(code_of([&] { write(db(), late); }), errc::no_such_lease);
}

// What leases leave is versions in the store's file, as all writes do. Each has keys of its own here: of a long history
// of one key a store keeps every eighth place in memory. An entry of a table would take more than the bound.
TEST_P(Database, a_lease_that_has_ended_leaves_nothing_in_memory) {
  int made = 0;
  const auto lives = [&](int leases) {
    for (int i = 0; i < leases; ++i) {
      const lease_number lease = db().grant(1h, 0).number;
      transaction t;
      for (const char* key : {"a", "b", "c"}) {
        t.then.push_back(
            {.what = operation::kind::put, .key = key + std::to_string(++made), .value = "v", .lease = lease});
      }
      write(db(), std::move(t));
      std::promise<result<outcome>> ended;
      db().revoke(lease, {}, [&](result<outcome> came) { ended.set_value(std::move(came)); });
      EXPECT_TRUE(std::holds_alternative<outcome>(ended.get_future().get()));
    }
    const struct mallinfo2 is = ::mallinfo2();
    return is.uordblks + is.hblkhd;
  };
  const int leases = GetParam().durable ? 200 : 2000;
  const std::size_t before = lives(leases);
  const std::size_t after = lives(leases);
  std::printf("%zu bytes of heap, then %zu\n", before, after);
  EXPECT_LT(after, before + static_cast<std::size_t>(leases) * 32 + (std::size_t{16} << 10));
  EXPECT_EQ(db().status().leases, 0U);
}

TEST_P(Database, a_lease_is_revoked_only_with_all_its_keys) {
  const auto revoke = [&](lease_number lease) {
    std::promise<result<outcome>> promised;
    const auto may_remove = [](std::string_view key) {
      if (key == "forbidden") raise({errc::denied, "not this one"});
    };
    db().revoke(lease, may_remove, [&](result<outcome> came) { promised.set_value(std::move(came)); });
    const result<outcome> came = promised.get_future().get();
    const auto* const failed = std::get_if<failure>(&came);
    return failed != nullptr ? failed->code : errc{};
  };
  const auto attach = [&](std::string key, lease_number lease) {
    transaction t;
    t.then.push_back({.what = operation::kind::put, .key = std::move(key), .value = "v", .lease = lease});
    return code_of([&] { write(db(), std::move(t)); });
  };
  const lease_number first = db().grant(60s, 0).number;
  ASSERT_EQ(attach("allowed", first), errc{});
  ASSERT_EQ(attach("forbidden", first), errc{});
  EXPECT_EQ(revoke(first), errc::denied);
  EXPECT_THAT(rows(*db().scan({})), ElementsAre("allowed=v", "forbidden=v"));
  EXPECT_EQ(db().lease(first, true).keys.size(), 2U);
  for (int i = 0; i < 100; ++i) {  // a key that comes to the lease meanwhile
    one(db(), operation::remove("forbidden"));
    const lease_number lease = db().grant(60s, 0).number;
    std::future<errc> attached = std::async(std::launch::async, [&] { return attach("forbidden", lease); });
    const errc revoked = revoke(lease);
    const errc came = attached.get();
    ASSERT_TRUE(revoked == errc{} || revoked == errc::denied);
    ASSERT_EQ(read(db(), "forbidden"), came == errc{} ? "v" : "(none)");
    ASSERT_NE(revoked == errc{}, came == errc{}) << "the one that was first holds";
  }
}

TEST_P(Database, compacted_versions_are_expired_for_ever) {
  put(db(), "a", "1");
  const version old = db().tag({.name = "old"});
  put(db(), "a", "2");
  const version kept = db().tag({.name = "kept"});
  db().compact(kept);
  for (int again = 0; again < 2; ++again, open()) {
    EXPECT_EQ(code_of([&] { read(db(), "a", old); }), errc::version_expired);
    EXPECT_EQ(code_of([&] { read(db(), "a", tag_name{"old"}); }), errc::version_expired);
    EXPECT_EQ(read(db(), "a", kept), "2");
    EXPECT_EQ(code_of([&] { static_cast<void>(db().watch_changes({.after = old})); }), errc::version_expired);
    EXPECT_EQ(code_of([&] { db().compact(old); }), errc::version_expired);
    EXPECT_THAT(rows(*db().history("a", newest{})), ElementsAre("=2"));
  }
}

TEST_P(Database, a_load_keeps_what_is_there_if_asked_to) {
  put(db(), "b", "old");
  row_block block;
  block.add("a", "1", 0);
  block.add("b", "2", 0);
  EXPECT_EQ(db().load(block, true), 1U);
  EXPECT_THAT(rows(*db().scan({})), ElementsAre("a=1", "b=old"));
  const icecore::version before = db().status().newest;
  EXPECT_EQ(db().load(block, false), 2U);
  EXPECT_THAT(rows(*db().scan({})), ElementsAre("a=1", "b=2"));
  if (GetParam().rule == version_rule::write) {
    EXPECT_EQ(db().status().newest, before + 1) << "all rows are one version";
  }
}

TEST_P(Database, a_key_that_is_made_again_after_its_lease_stays) {
  const lease_info granted = db().grant(1s, 7);
  for (const char* key : {"n", "part"}) {
    transaction t;
    t.then.push_back({.what = operation::kind::put, .key = key, .value = "1", .lease = granted.number});
    write(db(), t);
  }
  while (db().find("n", newest{}) || db().find("part", newest{})) std::this_thread::sleep_for(100us);
  EXPECT_EQ(one(db(), {.what = operation::kind::increment, .key = "n", .number = 5}).number, 5);
  one(db(), {.what = operation::kind::upsert, .key = "part", .value = "2", .rule = update_rule::append});
  while (db().status().leases != 0) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(250ms);  // as long as the timer that ends leases may still be at it
  EXPECT_EQ(read(db(), "n"), "5");
  EXPECT_EQ(read(db(), "part"), "2");
}

TEST_P(Database, the_number_of_a_lease_is_free_again_when_its_keys_are_gone) {
  for (int life = 0; life < 2; ++life) {
    lease_info granted{};
    while (code_of([&] { granted = db().grant(1s, 7); }) == errc::invalid_argument) std::this_thread::sleep_for(1ms);
    transaction t;
    t.then.push_back({.what = operation::kind::put, .key = std::to_string(life), .value = "1", .lease = 7});
    write(db(), t);
    EXPECT_THAT(db().lease(7, true).keys, ElementsAre(std::to_string(life)));
    while (code_of([&] { static_cast<void>(db().lease(7, false)); }) != errc::no_such_lease)
      std::this_thread::sleep_for(1ms);
    EXPECT_THAT(rows(*db().scan({})), ::testing::IsEmpty());
  }
}

TEST_P(Database, an_update_with_a_lease_that_is_not_there_is_refused) {
  put(db(), "a", "1");
  transaction t;
  t.then.push_back(
      {.what = operation::kind::update, .key = "a", .value = "2", .rule = update_rule::append, .lease = 12345});
  EXPECT_EQ(code_of([&] { write(db(), t); }), errc::no_such_lease);
  EXPECT_EQ(read(db(), "a"), "1");
}

TEST_P(Database, a_load_with_a_key_twice_writes_the_later_row_or_keeps_the_earlier_one) {
  for (const bool keep : {true, false}) {
    row_block block;
    block.add(keep ? "kept" : "set", "1", 0);
    block.add(keep ? "kept" : "set", "2", 0);
    EXPECT_EQ(db().load(block, keep), keep ? 1U : 2U);
    EXPECT_EQ(read(db(), keep ? "kept" : "set"), keep ? "1" : "2");
    operation again = operation::put(keep ? "kept" : "set", "3");
    again.what = operation::kind::put_new;
    EXPECT_EQ(one(db(), again).is, operation_result::state::exists);
  }
}

TEST_P(Database, a_load_with_a_key_that_is_too_long_is_refused_whole_or_from_that_row_on) {
  row_block block;
  block.add("a", "1", 0);
  block.add(std::string(65'536, 'k'), "2", 0);
  block.add("b", "3", 0);
  EXPECT_EQ(code_of([&] { db().load(block, false); }), errc::key_too_long);
  EXPECT_EQ(read(db(), "b"), "(none)");
  put(db(), "after", "1");
  EXPECT_EQ(read(db(), "after"), "1");
}

TEST_P(Database, keys_of_the_server_are_refused_and_never_shown) {
  const std::string hidden("\0icecore/lease/x", 16);
  EXPECT_EQ(code_of([&] { put(db(), hidden, "1"); }), errc::invalid_argument);
  EXPECT_EQ(code_of([&] { put(db(), std::string(65'535, 'k'), "1"); }), errc::key_too_long);
  db().grant(10s, 7);
  put(db(), "", "empty");
  put(db(), std::string("\0", 1), "zero");
  EXPECT_EQ(rows(*db().scan({})).size(), 2U);
  EXPECT_THAT(rows(*db().changes({.after = 0})).size(), 2U);
  EXPECT_EQ(code_of([&] { db().grant(10s, 7); }), errc::invalid_argument);
  EXPECT_EQ(code_of([&] { db().grant(1ms, 0); }), errc::invalid_argument);
}

TEST_P(Database, a_quota_leaves_room_for_removals) {
  changed_settings quota;
  quota.quota_bytes = db().status().statistics.used_bytes + 200'000;
  db().change(quota);
  put(db(), "small", "1");
  EXPECT_EQ(code_of([&] { put(db(), "large", std::string(300'000, 'x')); }), errc::no_space);
  EXPECT_EQ(one(db(), operation::remove("small")).count, 1U);
  EXPECT_EQ(read(db(), "large"), "(none)");
}

TEST_P(Database, the_rule_can_change_under_load) {
  std::atomic<bool> stop{false};
  std::atomic<int> written{0};
  std::thread writer([&] {
    while (!stop) put(db(), "n", std::to_string(++written));
  });
  for (const version_rule next : {version_rule::tag, version_rule::write, version_rule::every, version_rule::write}) {
    changed_settings change;
    change.rule = next;
    db().change(change);
    const int least = written;
    while (written < least + 5) std::this_thread::yield();
  }
  stop = true;
  writer.join();
  EXPECT_EQ(read(db(), "n"), std::to_string(written));
}

TEST_P(Database, after_closing_calls_fail_and_what_was_read_stays) {
  put(db(), "a", "1");
  const auto held = db().find("a", newest{});
  const auto watch = db().watch_changes({});
  db().close();
  EXPECT_EQ(held->value(), "1");
  EXPECT_EQ(code_of([&] { put(db(), "a", "2"); }), errc::unavailable);
  EXPECT_EQ(code_of([&] { read(db(), "a"); }), errc::unavailable);
  EXPECT_EQ(code_of([&] { watch->next({}); }), errc::unavailable);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Database,
                         ::testing::Values(kind{version_rule::write, false, value_compression::none},
                                           kind{version_rule::write, true, value_compression::none},
                                           kind{version_rule::write, true, value_compression::zstd},
                                           kind{version_rule::every, false, value_compression::zstd},
                                           kind{version_rule::every, true, value_compression::none},
                                           kind{version_rule::tag, false, value_compression::none}),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace icecore::service
