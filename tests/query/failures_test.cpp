// What stops a kept query is of one key: it is told, kept, tried again or passed, and no other row suffers from it.
#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <set>
#include <stdexcept>

#include "icecore/icecore.hpp"
#include "icecore/query.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

class QueryFailures : public ::testing::TestWithParam<setting> {
 protected:
  [[nodiscard]] options opening() const { return GetParam().options_at(path_); }
  [[nodiscard]] static std::string key_of(int i) { return "key " + std::to_string(100'000 + i); }

  [[nodiscard]] version make_store(int keys) const {
    store s(path_, opening());
    batch many;
    for (int i = 0; i < keys; ++i) many.insert(key_of(i), std::to_string(i % 10));
    s.apply(many);
    return s.tag();
  }
  /// Throws for these keys.
  [[nodiscard]] static item_function failing_for(std::set<std::string> keys) {
    return [keys = std::move(keys)](const item& i) {
      if (keys.contains(std::string(i.key))) throw std::runtime_error("no answer for " + std::string(i.key));
      return i.value != "3";
    };
  }
  [[nodiscard]] static function_resolver known(const item_function& f, std::uint64_t revision = 1) {
    return [f, revision](std::string_view name, std::uint64_t) {
      return caller_function{std::string(name), revision, [f](std::span<const item> items, std::span<bool> flags) {
                               for (std::size_t i = 0; i < items.size(); ++i) flags[i] = f(items[i]);
                             }};
    };
  }
  [[nodiscard]] static std::vector<std::string> keys_of(const query& q) {
    std::vector<std::string> keys;
    auto rows = q.results();
    for (const auto& row : rows) keys.emplace_back(row.key);
    return keys;
  }
  [[nodiscard]] static std::vector<std::string> wanted(int keys, const std::set<std::string>& without = {}) {
    std::vector<std::string> all;
    for (int i = 0; i < keys; ++i) {
      if (i % 10 != 3 && !without.contains(key_of(i))) all.push_back(key_of(i));
    }
    return all;
  }

  scratch folder_{GetParam().where};
  std::filesystem::path path_ = folder_ / "store";
};

TEST_P(QueryFailures, key_and_message_are_kept_until_the_key_was_examined) {
  constexpr int keys = 20'000;
  const version v = make_store(keys);
  const std::string bad = key_of(12'345);
  {
    store s(path_, opening());
    query q = s.start({.name = "q", .at = v, .where = filter::of("f", 1, failing_for({bad}))});
    EXPECT_FALSE(q.failure());
    for (int i = 0; i < 3; ++i) EXPECT_THROW(q.run(), std::runtime_error);
    EXPECT_EQ(q.state(), query_state::paused);
    EXPECT_EQ(q.progress().examined, 12'345) << "what is before it was examined, and kept";
  }
  {
    options reading = opening();
    reading.access = access::read_only;
    const store s(path_, reading);
    const auto why = s.query("q").failure();
    ASSERT_TRUE(why);
    EXPECT_EQ(why->key, bad);
    EXPECT_EQ(why->message, "no answer for " + bad);
    EXPECT_FALSE(why->damaged);
  }
  store s(path_, opening());
  query q = s.query("q", known(failing_for({})));
  ASSERT_TRUE(q.failure());
  q.run({.keys = 10});
  EXPECT_FALSE(q.failure());
  q.run();
  EXPECT_FALSE(q.failure());
  EXPECT_EQ(keys_of(q), wanted(keys));
  EXPECT_TRUE(q.skipped().empty());
}

TEST_P(QueryFailures, failing_keys_can_be_passed_and_are_listed) {
  constexpr int keys = 50'000;
  const version v = make_store(keys);
  const std::set<std::string> bad{key_of(0), key_of(7), key_of(8), key_of(30'000), key_of(keys - 1)};
  {
    store s(path_, opening());
    query q = s.start({.name = "q",
                       .at = v,
                       .where = filter::of("f", 1, failing_for(bad)),
                       .aggregates = {{aggregate::count, "key"}}});
    EXPECT_EQ(q.run({.threads = 3, .skip_failed = true}).state, query_state::finished);
    query one_by_one = s.start({.name = "one by one", .at = v, .where = filter::of("f", 1, failing_for(bad))});
    one_by_one.run({.every_item = true, .skip_failed = true});
    EXPECT_EQ(keys_of(one_by_one), wanted(keys, bad));
    EXPECT_EQ(one_by_one.skipped().size(), bad.size());
  }
  store s(path_, opening());
  const query q = s.query("q");
  EXPECT_EQ(keys_of(q), wanted(keys, bad));
  EXPECT_EQ(q.totals()[0].value, result_number(std::uint64_t{wanted(keys, bad).size()}));
  EXPECT_EQ(q.progress().examined, keys);
  const auto skipped = q.skipped();
  ASSERT_EQ(skipped.size(), bad.size());
  std::size_t n = 0;
  for (const std::string& key : bad) {
    EXPECT_EQ(skipped[n].key, key);
    EXPECT_EQ(skipped[n++].message, "no answer for " + key);
  }
  EXPECT_FALSE(q.failure());
}

TEST_P(QueryFailures, a_failure_that_does_not_happen_again_pauses_and_nothing_is_passed) {
  constexpr int keys = 1'000;
  const version v = make_store(keys);
  store s(path_, opening());
  int calls = 0;
  const auto f = [&](const item& i) {
    if (++calls == 500) throw std::runtime_error("once");
    return i.value != "3";
  };
  query q = s.start({.name = "q", .at = v, .where = filter::of("f", 1, item_function(f))});
  EXPECT_THROW(q.run({.skip_failed = true}), std::runtime_error);
  ASSERT_TRUE(q.failure());
  EXPECT_EQ(q.failure()->message, "once");
  q.run({.skip_failed = true});
  EXPECT_TRUE(q.skipped().empty());
  EXPECT_EQ(keys_of(q), wanted(keys));
}

TEST_P(QueryFailures, rows_that_are_too_long_can_be_passed) {
  {
    store s(path_, opening());
    for (int i = 0; i < 30; ++i) s.insert(key_of(i), i % 10 == 4 ? std::string(900'000, 'x') : "short");
    s.tag();
  }
  store s(path_, opening());
  query q = s.start({.name = "q", .select = {"key", "value"}});
  expect_error(errc::invalid_argument, "", [&] { q.run(); });
  ASSERT_TRUE(q.failure());
  EXPECT_EQ(q.failure()->key, key_of(4));
  q.run({.skip_failed = true});
  EXPECT_EQ(q.rows().size(), 27);
  EXPECT_EQ(q.skipped().size(), 3);
}

TEST_P(QueryFailures, a_damaged_record_is_told_with_its_key_and_can_be_passed) {
  constexpr int keys = 3'000;
  const std::string bad = key_of(1'234);
  {
    store s(path_, opening());
    for (int i = 0; i < keys; ++i) {
      s.insert(key_of(i), key_of(i) == bad ? std::string(9'000, 'd') : std::to_string(i % 10));
    }
    s.tag();
  }
  std::string bytes = read_file(path_);
  const std::size_t at = bytes.find(std::string(9'000, 'd'));
  ASSERT_NE(at, std::string::npos);
  bytes[at + 4'000] = 'e';
  write_file(path_, bytes);
  store s(path_, opening());
  for (const bool every_item : {false, true}) {
    query q = s.start({.name = every_item ? "b" : "a", .where = filter("value != '3'")});
    expect_error(errc::damaged, bad, [&] { q.run({.every_item = every_item}); });
    ASSERT_TRUE(q.failure());
    EXPECT_EQ(q.failure()->key, bad);
    EXPECT_TRUE(q.failure()->damaged);
    expect_error(errc::damaged, bad, [&] { q.run({.every_item = every_item, .skip_failed = true}); });
    EXPECT_EQ(q.run({.every_item = every_item, .skip_damaged = true}).state, query_state::finished);
    ASSERT_EQ(q.skipped().size(), 1);
    EXPECT_EQ(q.skipped()[0].key, bad);
    EXPECT_TRUE(q.skipped()[0].damaged);
    EXPECT_EQ(keys_of(q), wanted(keys, {bad}));
  }
}

TEST_P(QueryFailures, passed_keys_are_passed_once_however_often_the_run_is_killed) {
  constexpr int keys = 3'000;
  const version v = make_store(keys);
  std::set<std::string> bad;
  for (int i = 5; i < keys; i += 50) bad.insert(key_of(i));
  {
    store s(path_, opening());
    static_cast<void>(s.start({.name = "q", .at = v, .where = filter::of("f", 1, failing_for(bad))}));
  }
  for (int round = 0; round < 15; ++round) {
    child runner([&] {
      store s(path_, opening());
      query q = s.query("q", known([&, calls = std::make_shared<int>(0)](const item& i) {
                          if (++*calls > 300 + round * 13) ::raise(SIGKILL);
                          return failing_for(bad)(i);
                        }));
      q.run({.every = 1us, .skip_failed = true});
      return 0;
    });
    const int ended = runner.wait();
    ASSERT_TRUE(ended == 0 || ended == -SIGKILL) << ended;
  }
  store s(path_, opening());
  query q = s.query("q", known(failing_for(bad)));
  q.run({.skip_failed = true});
  EXPECT_EQ(keys_of(q), wanted(keys, bad));
  const auto skipped = q.skipped();
  ASSERT_EQ(skipped.size(), bad.size());
  EXPECT_TRUE(std::ranges::equal(skipped, bad, {}, &query_failure::key));
}

TEST_P(QueryFailures, functions_of_another_revision_are_accepted_if_asked_for_and_that_is_told_ever_after) {
  const version v = make_store(1'000);
  {
    store s(path_, opening());
    query q = s.start({.name = "q", .at = v, .where = filter::of("f", 1, failing_for({}))});
    q.run({.keys = 100});
  }
  {
    store s(path_, opening());
    const auto newer = known([](const item& i) { return i.value == "3"; }, 2);
    expect_error(errc::unknown_function, "", [&] { static_cast<void>(s.query("q", newer)); });
    query q = s.query("q");
    expect_error(errc::unknown_function, "", [&] { q.rebind({}); });
    EXPECT_FALSE(q.rebound());
    q.rebind(known(failing_for({}), 1));
    EXPECT_FALSE(q.rebound());
    q.rebind(newer);
    EXPECT_TRUE(q.rebound());
    q.run();
  }
  store s(path_, opening());
  const query q = s.query("q");
  EXPECT_TRUE(q.rebound());
  EXPECT_EQ(q.state(), query_state::finished);
  EXPECT_GT(q.progress().rows, 90 + 90);
  EXPECT_LT(q.progress().rows, 400);
}

TEST_P(QueryFailures, a_damaged_part_is_computed_again) {
  constexpr int keys = 60'000;
  const version v = make_store(keys);
  {
    store s(path_, opening());
    s.start({.name = "q", .at = v, .where = filter("value != '3'"), .select = {"key"}}).run();
  }
  std::string bytes = read_file(path_);
  std::vector<std::size_t> hits;  // in the entry, and in the chunk
  for (std::size_t at = 0; (at = bytes.find(key_of(40'000), at)) != std::string::npos; ++at) hits.push_back(at);
  ASSERT_GE(hits.size(), 2);
  std::size_t in_chunk = 0;
  for (const std::size_t at : hits) {
    if (bytes.compare(at + key_of(0).size(), key_of(0).size(), key_of(40'001)) == 0) in_chunk = at;
  }
  ASSERT_NE(in_chunk, 0);
  bytes[in_chunk] = 'X';
  write_file(path_, bytes);
  store s(path_, opening());
  query q = s.query("q");
  expect_error(errc::damaged, "part", [&] { static_cast<void>(q.rows().read()); });
  expect_error(errc::invalid_argument, "", [&] { q.restart_part(q.parts()); });
  std::size_t restarted = 0;
  for (std::size_t p = 0; p < q.parts(); ++p) {
    // which one is damaged is what the message says
    try {
      static_cast<void>(q.rows().read());
      break;
    } catch (const error& e) {
      const auto name = "a chunk of part " + std::to_string(p) + " ";
      if (e.message().find(name) == std::string::npos) continue;
      q.restart_part(p);
      ++restarted;
      EXPECT_EQ(q.state(), query_state::paused);
    }
  }
  EXPECT_EQ(restarted, 1);
  q.run();
  const auto columns = q.rows().read();
  const auto right = wanted(keys);
  ASSERT_EQ(columns[0].size, right.size());
  for (std::size_t i = 0; i < right.size(); ++i) ASSERT_EQ(columns[0].text(i), right[i]);
}

TEST_P(QueryFailures, queries_that_are_over_can_be_pruned) {
  const version v = make_store(1'000);
  store s(path_, opening());
  s.start({.name = "finished", .at = v}).run();
  s.start({.name = "cancelled", .at = v}).cancel();
  s.start({.name = "paused", .at = v}).run({.keys = 10});
  static_cast<void>(s.start({.name = "ready", .at = v}));
  EXPECT_EQ(s.prune_queries({.older_than = std::chrono::hours(1)}), 0);
  EXPECT_EQ(s.prune_queries({.older_than = std::chrono::hours(1), .finished = false}), 0);
  EXPECT_EQ(s.prune_queries(), 2);
  EXPECT_EQ(s.prune_queries(), 0);
  ASSERT_EQ(s.queries().size(), 2);
  query running = s.query("ready");
  std::size_t dropped = 0;
  running.run({.on_progress = [&](const query_progress&) { dropped += s.prune_queries({.finished = false}); }});
  EXPECT_EQ(dropped, 1) << "one that runs stays";
  ASSERT_EQ(s.queries().size(), 1);
  EXPECT_EQ(s.queries()[0].name(), "ready");
}

INSTANTIATE_TEST_SUITE_P(All, QueryFailures,
                         ::testing::Values(setting{place::tmpfs, durability::operation},
                                           setting{place::disk, durability::tag},
                                           setting{place::tmpfs, durability::operation, index_kind::persistent}),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace icecore::testing
