// Attacks on databases of the server, written from what their headers promise.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <future>
#include <random>
#include <thread>

#include "icecore/error.hpp"
#include "service/service.hpp"
#include "support/scratch.hpp"

namespace icecore::service {
namespace {

using namespace std::chrono_literals;
using icecore::testing::place;
using icecore::testing::scratch;

outcome write(database& db, transaction what) {
  std::promise<result<outcome>> promised;
  db.write(std::move(what), [&](result<outcome> came) { promised.set_value(std::move(came)); });
  result<outcome> came = promised.get_future().get();
  if (const auto* failed = std::get_if<failure>(&came)) raise(*failed);
  return std::get<outcome>(std::move(came));
}

outcome put(database& db, std::string key, std::string value, lease_number lease = 0) {
  transaction t;
  t.then.push_back(operation::put(std::move(key), std::move(value)));
  t.then.back().lease = lease;
  return write(db, std::move(t));
}

std::string read(database& db, std::string_view key, const point& at = newest{}) {
  const auto is = db.find(key, at);
  return is ? std::string(is->value()) : "(none)";
}

std::vector<std::string> keys_of(database& db, const key_bounds& bounds, bool reverse = false) {
  std::vector<std::string> all;
  const auto rows = db.scan({.bounds = bounds, .reverse = reverse});
  for (row_block block; rows->next(block, {.rows = 2});) {
    for (std::size_t i = 0; i < block.size(); ++i) all.emplace_back(block.keys[i]);
  }
  return all;
}

template <typename Call>
std::error_code code_of(Call call) {
  try {
    call();
  } catch (const icecore::error& e) {
    return e.code();
  }
  return {};
}

struct kind {
  version_rule rule;
  bool durable;
};

std::string name_of(const ::testing::TestParamInfo<kind>& info) {
  const char* rule = info.param.rule == version_rule::write   ? "write"
                     : info.param.rule == version_rule::every ? "every"
                                                              : "tag";
  return std::string(rule) + (info.param.durable ? "_durable" : "_in_memory");
}

class Attack : public ::testing::TestWithParam<kind> {
 protected:
  Attack() : folder_(GetParam().durable ? place::disk : place::tmpfs) {
    service_.emplace(service_options{.data = folder_ / "data", .limits = limits_without_floor(), .threads = 4});
    db_ = make("attacked");
  }
  static limits limits_without_floor() {
    limits l;
    l.free_disk_bytes = 0;
    return l;
  }
  std::shared_ptr<database> make(const std::string& name, std::uint64_t quota_bytes = 0) {
    database_settings settings{.name = name, .rule = GetParam().rule, .interval = 5ms};
    settings.durability = GetParam().durable ? durability::operation : durability::none;
    settings.quota_bytes = quota_bytes;
    return service_->create(principal::anyone(), settings);
  }
  scratch folder_;
  std::optional<service> service_;
  std::shared_ptr<database> db_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, Attack,
                         ::testing::Values(kind{version_rule::write, true}, kind{version_rule::write, false},
                                           kind{version_rule::every, true}, kind{version_rule::every, false},
                                           kind{version_rule::tag, true}, kind{version_rule::tag, false}),
                         name_of);

}  // namespace

// Sixteen threads take from one account and put to another, each if neither has changed since it was read.
TEST_P(Attack, conflicting_transactions_lose_nothing) {
  constexpr int accounts = 4;
  for (int a = 0; a < accounts; ++a) put(*db_, "account" + std::to_string(a), "1000");
  std::vector<std::thread> threads;
  std::atomic<int> moved{0};
  for (unsigned n = 0; n < 16; ++n) {
    threads.emplace_back([&, n] {
      std::mt19937 random(n);
      for (int done = 0; done < 20;) {
        const std::string from = "account" + std::to_string(random() % accounts);
        const std::string to = "account" + std::to_string(random() % accounts);
        if (from == to) continue;
        transaction t;
        int amounts[2] = {};
        const std::string* of[2] = {&from, &to};
        for (int i = 0; i < 2; ++i) {
          const auto found = db_->find(*of[i], newest{});
          ASSERT_TRUE(found);
          amounts[i] = std::stoi(std::string(found->value()));
          // Several writes may have one version, so the value is compared, too: two transfers that cancel each other
          // out leave the sum as it is.
          t.conditions.push_back(
              {.key = *of[i], .is = condition::kind::version_is, .version = found->version(), .value = {}});
          t.conditions.push_back(
              {.key = *of[i], .is = condition::kind::value_is, .value = std::string(found->value())});
        }
        t.then.push_back(operation::put(from, std::to_string(amounts[0] - 1)));
        t.then.push_back(operation::put(to, std::to_string(amounts[1] + 1)));
        if (write(*db_, std::move(t)).succeeded) {
          ++done;
          ++moved;
        }
      }
    });
  }
  std::atomic<bool> over{false};
  std::thread auditor([&] {  // each scan is one instant
    while (!over) {
      int sum = 0;
      const auto rows = db_->scan({.bounds = key_bounds::of_prefix("account")});
      for (row_block block; rows->next(block, {.rows = 1});) sum += std::stoi(std::string(block.values[0]));
      EXPECT_EQ(sum, 4000);
    }
  });
  for (std::thread& t : threads) t.join();
  over = true;
  auditor.join();
  EXPECT_EQ(moved, 16 * 20);
}

TEST_P(Attack, keys_and_values_of_every_size) {
  constexpr std::size_t most = 65'519;  // what lies beside a key's lease has 16 bytes
  const std::string longest(most, 'k');
  const std::string zero(1, '\0');
  const std::string last(most, '\xff');
  const std::string big(3 << 20, 'v');
  put(*db_, longest, "longest");
  put(*db_, last, "last");
  put(*db_, "empty value", "");
  put(*db_, "big", big);
  EXPECT_EQ(read(*db_, longest), "longest");
  EXPECT_EQ(read(*db_, last), "last");
  EXPECT_EQ(read(*db_, "empty value"), "");
  EXPECT_EQ(read(*db_, "big"), big);
  EXPECT_EQ(read(*db_, longest + "k"), "(none)");
  EXPECT_EQ(code_of([&] { put(*db_, longest + "k", ""); }), errc::key_too_long);
  transaction both;
  both.then = {operation::put("first", "x"), operation::put(longest + "k", "x")};
  EXPECT_EQ(code_of([&] { write(*db_, both); }), errc::key_too_long);
  EXPECT_EQ(read(*db_, "first"), "(none)") << "all of a transaction or nothing";
  // The empty key and keys that begin with a zero byte: kept and shown, or refused; never half.
  for (const std::string& odd : {std::string(), zero, zero + "x", zero + zero}) {
    const auto refused = code_of([&] { put(*db_, odd, "odd"); });
    EXPECT_TRUE(!refused || refused == errc::invalid_argument) << refused.message();
    EXPECT_EQ(read(*db_, odd), refused ? "(none)" : "odd");
    const auto all = keys_of(*db_, {});
    EXPECT_EQ(std::count(all.begin(), all.end(), odd), refused ? 0 : 1);
    transaction t;
    t.then.push_back({.what = operation::kind::get, .key = odd});
    std::string got = "(none)";
    if (!code_of([&] {
          const auto o = write(*db_, t);
          if (!o.results[0].rows.empty()) got = o.results[0].rows[0].value;
        })) {
      EXPECT_EQ(got, refused ? "(none)" : "odd");
    }
  }
}

TEST_P(Attack, bounds_that_are_odd) {
  for (const char* key : {"a", "b", "c"}) put(*db_, key, key);
  const std::string zero(1, '\0');
  using list = std::vector<std::string>;
  EXPECT_EQ(keys_of(*db_, {"b", "b"}), list{});
  EXPECT_EQ(keys_of(*db_, {"c", "a"}), list{});
  EXPECT_EQ(keys_of(*db_, {"c", "a"}, true), list{});
  EXPECT_EQ(keys_of(*db_, {"", "b"}), list{"a"});
  EXPECT_EQ(keys_of(*db_, {"a" + zero, std::nullopt}), (list{"b", "c"}));
  EXPECT_EQ(keys_of(*db_, {std::nullopt, "b" + zero}, true), (list{"b", "a"}));
  EXPECT_EQ(keys_of(*db_, {std::string(70'000, 'a'), std::nullopt}), (list{"b", "c"})) << "longer than any key";
  EXPECT_EQ(keys_of(*db_, {std::nullopt, ""}), list{});
  EXPECT_EQ(db_->count({"c", "a"}, newest{}), 0U);
  EXPECT_EQ(db_->count({}, newest{}), 3U);
  EXPECT_EQ(db_->count({"a", "c"}, newest{}), 2U);
  transaction t;
  t.then.push_back({.what = operation::kind::remove_range, .key = "c", .end = "a"});
  t.then.push_back({.what = operation::kind::get_range, .key = "b", .end = "b"});
  const outcome o = write(*db_, t);
  EXPECT_EQ(o.results[0].count, 0U);
  EXPECT_TRUE(o.results[1].rows.empty());
  t = {};
  t.then.push_back({.what = operation::kind::remove_range, .key = "", .end = ""});
  EXPECT_EQ(write(*db_, t).results[0].count, 3U);
  EXPECT_EQ(keys_of(*db_, {}), list{});
}

TEST_P(Attack, points_that_are_not_there) {
  put(*db_, "a", "1");
  const version tagged = db_->tag({.name = "here"});
  EXPECT_EQ(read(*db_, "a", tagged), "1");
  for (const point& at : {point(version{1} << 40), point(version_max), point(version_max + 1), point(~version{0})}) {
    EXPECT_EQ(code_of([&] { (void)db_->resolve(at); }), errc::version_not_closed);
    EXPECT_EQ(code_of([&] { (void)db_->find("a", at); }), errc::version_not_closed);
    EXPECT_EQ(code_of([&] { (void)db_->scan({.bounds = {}, .at = at}); }), errc::version_not_closed);
  }
  EXPECT_EQ(code_of([&] { (void)db_->resolve(tag_name{"nowhere"}); }), errc::unknown_tag);
  EXPECT_EQ(code_of([&] { (void)db_->resolve(tag_name{""}); }), errc::unknown_tag);
  EXPECT_EQ(code_of([&] { (void)db_->resolve(wall_time{std::chrono::system_clock::time_point{}}); }),
            errc::unknown_tag);
  EXPECT_EQ(code_of([&] { db_->tag({.name = "here"}); }), errc::tag_exists);
  EXPECT_EQ(read(*db_, "a", version{0}), "(none)");
  EXPECT_EQ(code_of([&] { (void)db_->watch_changes({.after = version_max}); }), errc::version_not_closed);
  EXPECT_EQ(code_of([&] { (void)db_->changes({.after = version_max}); }), errc::invalid_argument);
}

// Reads, writes, scans and watches while the database is dropped: they succeed, or fail with unavailable or denied.
TEST_P(Attack, a_drop_under_load) {
  for (int round = 0; round < 5; ++round) {
    const auto db = make("dropped");
    std::atomic<bool> over{false};
    std::vector<std::thread> threads;
    const auto start = [&](auto what) {
      threads.emplace_back([&, what] {
        while (!over) {
          const auto failed = code_of(what);
          EXPECT_TRUE(!failed || failed == errc::unavailable || failed == errc::denied) << failed.message();
          if (failed) return;
        }
      });
    };
    for (int n = 0; n < 3; ++n) start([&db, n] { put(*db, "key" + std::to_string(n), "value"); });
    start([&db] { (void)read(*db, "key1"); });
    start([&db] { (void)keys_of(*db, {}); });
    start([&db] {
      const auto watch = db->watch_changes({.after = version{0}});
      for (int i = 0; i < 10; ++i) (void)watch->next({});
    });
    start([&db] { db->tag({}); });
    start([&db] { (void)db->status(); });
    start([this] { (void)service_->find_database(principal::anyone(), "dropped"); });
    std::this_thread::sleep_for(10ms);
    service_->drop(principal::anyone(), "dropped");
    for (std::thread& t : threads) t.join();
    over = true;
    EXPECT_EQ(code_of([&] { put(*db, "a", "b"); }), errc::unavailable);
    EXPECT_EQ(code_of([&] { (void)db->scan({}); }), errc::unavailable);
    EXPECT_EQ(code_of([&] { (void)service_->find_database(principal::anyone(), "dropped"); }), errc::denied);
  }
}

TEST_P(Attack, what_was_read_stays_when_the_database_is_dropped) {
  const auto db = make("dropped");
  for (int i = 0; i < 50; ++i) put(*db, "key" + std::to_string(i % 10), std::string(100, 'v'));
  const auto found = db->find("key1", newest{});
  const auto rows = db->scan({});
  row_block block;
  ASSERT_TRUE(rows->next(block, {.rows = 2}));
  service_->drop(principal::anyone(), "dropped");
  EXPECT_EQ(found->value(), std::string(100, 'v'));
  EXPECT_EQ(block.size(), 2U);
  const auto failed = code_of([&] {
    while (rows->next(block, {.rows = 2})) {
    }
  });
  EXPECT_TRUE(!failed || failed == errc::unavailable || failed == errc::closed) << failed.message();
}

// A watch that is armed is waked when the database ends.
TEST_P(Attack, watches_are_waked_by_changes_and_by_the_end) {
  const auto db = make("dropped");
  put(*db, "a", "1");
  const auto watch = db->watch_changes({.after = db->resolve(newest{})});
  std::atomic<int> waked{0};
  while (!watch->next({}).changes.empty()) {
  }
  watch->arm([&] { ++waked; });
  put(*db, "a", "2");
  if (GetParam().rule == version_rule::tag) db->tag({});
  for (int i = 0; i < 10'000 && waked == 0; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(waked, 1);
  watched came;
  for (int i = 0; i < 10'000 && came.changes.empty(); ++i) {
    came = watch->next({});
    if (came.changes.empty()) std::this_thread::sleep_for(1ms);
  }
  ASSERT_EQ(came.changes.size(), 1U);
  EXPECT_EQ(came.changes.values[0], "2");
  while (!watch->next({}).changes.empty()) {
  }
  std::atomic<int> ended{0};
  watch->arm([&] { ++ended; });
  service_->drop(principal::anyone(), "dropped");
  for (int i = 0; i < 10'000 && ended == 0; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(code_of([&] { (void)watch->next({}); }), errc::unavailable);
}

// A client that is told of a change finds it, and can begin another watch there.
TEST_P(Attack, what_a_watch_tells_reads_show) {
  const auto watch = db_->watch_changes({.after = version{0}});
  std::atomic<bool> over{false};
  std::thread writer([&] {
    for (int i = 1; i <= 300; ++i) put(*db_, "n", std::to_string(i));
    over = true;
    (void)db_->resolve(newest{});  // closes the last version
  });
  int told = 0;
  while (told < 300) {
    const watched came = watch->next({.rows = 3});
    for (std::size_t i = 0; i < came.changes.size(); ++i) told = std::stoi(std::string(came.changes.values[i]));
    EXPECT_LE(came.told, db_->resolve(newest{}));
    if (came.changes.empty()) continue;
    EXPECT_GE(std::stoi(read(*db_, "n")), told);
    EXPECT_NO_THROW((void)db_->watch_changes({.after = came.told}));
  }
  writer.join();
}

TEST_P(Attack, a_scan_goes_on_while_its_version_is_compacted_and_new_reads_of_it_do_not) {
  for (int i = 0; i < 50; ++i) put(*db_, "key" + std::to_string(100 + i), "old");
  const version old = db_->tag({.name = "old"});
  const auto rows = db_->scan({.at = old});
  row_block block;
  ASSERT_TRUE(rows->next(block, {.rows = 5}));
  for (int i = 0; i < 50; ++i) put(*db_, "key" + std::to_string(100 + i), "new");
  const version kept = db_->tag({.name = "kept"});
  db_->compact(kept);
  std::size_t read_rows = block.size();
  const auto failed = code_of([&] {
    while (rows->next(block, {.rows = 5})) {
      for (std::size_t i = 0; i < block.size(); ++i) EXPECT_EQ(block.values[i], "old");
      read_rows += block.size();
    }
  });
  EXPECT_TRUE(failed == errc::version_expired || read_rows == 50) << "never a part that looks complete";
  for (const point& at : {point(old), point(tag_name{"old"}), point(version{0})}) {
    EXPECT_EQ(code_of([&] { (void)db_->find("key100", at); }), errc::version_expired);
    EXPECT_EQ(code_of([&] { (void)db_->scan({.bounds = {}, .at = at}); }), errc::version_expired);
  }
  EXPECT_EQ(code_of([&] { (void)db_->watch_changes({.after = old}); }), errc::version_expired);
  EXPECT_EQ(code_of([&] { (void)db_->changes({.after = old}); }), errc::version_expired);
  EXPECT_EQ(code_of([&] { (void)db_->differences({.before = old}); }), errc::version_expired);
  EXPECT_EQ(code_of([&] { db_->compact(old); }), errc::version_expired);
  EXPECT_EQ(read(*db_, "key100", kept), "new");
  EXPECT_NO_THROW((void)db_->watch_changes({.after = kept}));
  const auto past = db_->history("key100", newest{});
  while (past->next(block, {})) {
    for (std::size_t i = 0; i < block.size(); ++i) EXPECT_EQ(block.values[i], "new");
  }
}

// Whoever puts the key anew, without the lease, keeps it, whenever the lease ends.
TEST_P(Attack, a_key_that_is_written_when_its_lease_ends_is_the_writers) {
  const lease_number lease = db_->grant(1s, 0).number;
  for (int i = 0; i < 20; ++i) put(*db_, "leased" + std::to_string(i), "old", lease);
  put(*db_, "kept", "old", lease);
  std::vector<std::string> seen_after;
  const auto end = std::chrono::steady_clock::now() + 1500ms;
  bool gone = false;
  int n = 0;
  while (std::chrono::steady_clock::now() < end) {
    if (n < 20 && std::chrono::steady_clock::now() > end - 520ms) {
      put(*db_, "leased" + std::to_string(n), "new");
      ++n;
    }
    const bool there = read(*db_, "kept") != "(none)";
    EXPECT_FALSE(there && gone) << "what was over is back";
    gone = gone || !there;
    const auto scanned = keys_of(*db_, {"kept", "kept~"});
    EXPECT_FALSE(!scanned.empty() && gone) << "what was over is back in a scan";
  }
  while (n < 20) put(*db_, "leased" + std::to_string(n++), "new");
  for (int i = 0; i < 20; ++i) EXPECT_EQ(read(*db_, "leased" + std::to_string(i)), "new");
  EXPECT_TRUE(gone);
  EXPECT_EQ(code_of([&] { (void)db_->keep_alive(lease); }), errc::no_such_lease);
  EXPECT_EQ(code_of([&] { put(*db_, "x", "y", lease); }), errc::no_such_lease);
  EXPECT_EQ(read(*db_, "x"), "(none)");
}

TEST_P(Attack, quotas_are_kept_and_removals_go_on) {
  const auto db = make("small", std::uint64_t{1} << 20);
  int written = 0;
  std::error_code failed;
  for (; written < 10'000 && !failed; ++written) {
    failed = code_of([&] { put(*db, "key" + std::to_string(written), std::string(4000, 'v')); });
  }
  EXPECT_EQ(failed, errc::no_space);
  EXPECT_GT(written, 100);
  EXPECT_LT(written, 400) << "4,000 bytes each of 1 MiB, and what a segment rounds up";
  EXPECT_EQ(read(*db, "key0"), std::string(4000, 'v')) << "reads go on";
  for (int i = 0; i < written - 1; ++i) {
    transaction t;
    t.then.push_back(operation::remove("key" + std::to_string(i)));
    EXPECT_EQ(write(*db, std::move(t)).results[0].is, operation_result::state::done);
  }
  EXPECT_TRUE(keys_of(*db, {}).empty());
  changed_settings more;
  more.quota_bytes = std::uint64_t{64} << 20;
  service_->change(principal::anyone(), "small", more);
  EXPECT_NO_THROW(put(*db, "a", "b"));
}

// Every operation that fails leaves nothing: neither a value nor a version with a part of it.
TEST_P(Attack, a_transaction_that_cannot_be_executed_changes_nothing) {
  put(*db_, "a", "text");
  transaction t;
  t.then = {operation::put("b", "1"), {.what = operation::kind::increment, .key = "a", .number = 1}};
  outcome o = write(*db_, t);
  EXPECT_EQ(o.results[1].is, operation_result::state::no_number);
  EXPECT_EQ(read(*db_, "a"), "text");
  t.then = {{.what = operation::kind::increment, .key = "n", .number = std::numeric_limits<std::int64_t>::max()},
            {.what = operation::kind::increment, .key = "n", .number = 1}};
  o = write(*db_, t);
  EXPECT_EQ(o.results[0].number, std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(o.results[1].is, operation_result::state::no_number);
  EXPECT_EQ(read(*db_, "n"), "9223372036854775807");
  // An update far behind the end would need the memory for all that lies between.
  transaction far;
  far.then.push_back({.what = operation::kind::upsert,
                      .key = "far",
                      .value = "x",
                      .rule = update_rule::expand_overlap,
                      .offset = std::uint64_t{1} << 62});
  const auto failed = code_of([&] {
    if (write(*db_, far).results[0].is == operation_result::state::too_large) throw error(errc::value_too_large, "");
  });
  EXPECT_EQ(failed, errc::value_too_large);
  far.then[0].offset = ~std::uint64_t{0};
  EXPECT_TRUE(code_of([&] {
    if (write(*db_, far).results[0].is == operation_result::state::too_large) throw error(errc::value_too_large, "");
  }));
  EXPECT_EQ(read(*db_, "far"), "(none)");
}

// Bytes of a closed store are changed at random: the server starts, and what it serves is right, or an error.
TEST_P(Attack, damaged_files_are_never_served_as_if_they_were_whole) {
  if (GetParam().durable) GTEST_SKIP() << "the same files";
  for (int i = 0; i < 200; ++i) put(*db_, "key" + std::to_string(1000 + i), std::to_string(i) + std::string(200, 'v'));
  (void)db_->resolve(newest{});
  const auto other = make("other");
  put(*other, "a", "b");
  db_.reset();
  service_.reset();
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "data" / "databases")) {
    if (entry.is_regular_file() && entry.file_size() > 0) files.push_back(entry.path());
  }
  ASSERT_FALSE(files.empty());
  std::mt19937 random(3);
  int noticed = 0;
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    const std::filesystem::path copy = folder_ / "damaged";
    std::filesystem::remove_all(copy);
    std::filesystem::copy(folder_ / "data", copy, std::filesystem::copy_options::recursive);
    const auto which = std::filesystem::relative(files[random() % files.size()], folder_ / "data");
    {
      std::fstream file(copy / which, std::ios::in | std::ios::out | std::ios::binary);
      const auto at = static_cast<std::streamoff>(random() % (std::uint64_t{1} << (10 + random() % 10)));
      file.seekg(at);
      const char was = static_cast<char>(file.get());
      file.seekp(at);
      file.put(static_cast<char>(was ^ static_cast<char>(1 + random() % 255)));
    }
    const auto failed = code_of([&] {
      service damaged({.data = copy, .limits = limits_without_floor(), .threads = 2});
      bool whole = damaged.not_ready().empty();
      for (const char* name : {"attacked", "other"}) {
        const auto wrong = code_of([&] {
          const auto db = damaged.find_database(principal::anyone(), name);
          if (std::string(name) == "other") {
            EXPECT_EQ(read(*db, "a"), "b");
            return;
          }
          for (int i = 0; i < 200; ++i) {
            EXPECT_EQ(read(*db, "key" + std::to_string(1000 + i)), std::to_string(i) + std::string(200, 'v'));
          }
          EXPECT_EQ(db->count({}, newest{}), 200U);
        });
        whole = whole && !wrong;
      }
      noticed += whole ? 0 : 1;
      damaged.stop();
    });
    noticed += failed ? 1 : 0;
  }
  EXPECT_GT(noticed, 0);
}

}  // namespace icecore::service
