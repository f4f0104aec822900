// Kept queries: their answer is that of a scan of their version, whatever stops them, and how often.
#include "icecore/query.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <random>
#include <thread>

#include "icecore/icecore.hpp"
#include "support/expect.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

bool is_even(const item& i) { return !i.value.empty() && (i.value.back() - '0') % 2 == 0; }

class Queries : public ::testing::TestWithParam<setting> {
 protected:
  [[nodiscard]] options opening() const { return GetParam().options_at(path_); }

  /// Keys of several lengths, some removed, some written again after the version that is returned.
  version make_store(int keys) const {
    store s(path_, opening());
    batch many;  // one sync for many keys, where writes are synced
    const auto apply = [&] {
      s.apply(many);
      many.clear();
    };
    for (int i = 0; i < keys; ++i) {
      many.insert(key_of(i), std::to_string(i % 7));
      if (many.size() == 2'000) apply();
    }
    for (int i = 0; i < keys; i += 11) many.remove(key_of(i));
    apply();
    const version v = s.tag();
    for (int i = 0; i < keys; i += 5) many.insert(key_of(i), "8");
    for (int i = 0; i < keys; i += 50) many.insert("new " + std::to_string(i), "2");
    apply();
    s.tag();
    return v;
  }
  [[nodiscard]] static std::string key_of(int i) {
    std::string key = std::to_string(i * 7919 % 100'003);
    if (i % 97 == 0) key += std::string(static_cast<std::size_t>(i % 300), 'x');
    return key + "." + std::to_string(i);
  }
  [[nodiscard]] static std::vector<std::pair<std::string, std::string>> answer(const store& s, version v) {
    std::vector<std::pair<std::string, std::string>> found;
    const auto then = s.at(v);
    for (const auto& i : then.range()) {
      if (is_even(i)) found.emplace_back(i.key, i.value);
    }
    return found;
  }
  static void expect_rows(const query& q, const std::vector<std::pair<std::string, std::string>>& wanted,
                          std::uint64_t from = 0) {
    auto rows = q.results(from);
    std::uint64_t n = from;
    for (const auto& row : rows) {
      ASSERT_LT(n, wanted.size());
      ASSERT_EQ(row.number, n);
      ASSERT_EQ(row.key, wanted[n].first);
      ASSERT_EQ(row.value, wanted[n].second);
      ++n;
    }
    ASSERT_EQ(n, std::max<std::uint64_t>(from, wanted.size()));
  }
  [[nodiscard]] static filter even() { return filter::of("even", 1, item_function(is_even)); }
  [[nodiscard]] static caller_function known(std::string_view name, std::uint64_t revision) {
    if (name != "even" || revision != 1) return {};
    return {"even", 1, [](std::span<const item> items, std::span<bool> flags) {
              for (std::size_t i = 0; i < items.size(); ++i) flags[i] = is_even(items[i]);
            }};
  }

  scratch folder_{GetParam().where};
  std::filesystem::path path_ = folder_ / "store";
};

TEST_P(Queries, answer_is_that_of_a_scan_of_the_version) {
  const version v = make_store(60'000);
  store s(path_, opening());
  const auto wanted = answer(s, v);
  for (const unsigned threads : {1U, 3U}) {
    query q = s.start({.name = "even " + std::to_string(threads), .at = v, .where = even()});
    EXPECT_EQ(q.state(), query_state::ready);
    const query_progress p = q.run({.threads = threads});
    EXPECT_EQ(p.state, query_state::finished);
    EXPECT_EQ(p.rows, wanted.size());
    EXPECT_EQ(p.examined, s.at(v).size());
    EXPECT_EQ(p.repeated, 0);
    expect_rows(q, wanted);
    std::mt19937 random(7);
    for (int i = 0; i < 50; ++i) expect_rows(q, wanted, random() % (wanted.size() + 2));
  }
}

TEST_P(Queries, rows_are_the_same_whether_few_or_many_match_and_however_many_ranges_the_filter_has) {
  const version v = make_store(60'000);
  store s(path_, opening());
  const auto then = s.at(v);
  for (const char* text : {"value = '3' and length(key) % 2 = 0", "value != '3'", "true",
                           "starts_with(key, '1') or key >= '7' and value != '0'",
                           "value != '1' and (key < '2' or starts_with(key, '3') or starts_with(key, '4'))"}) {
    const filter where(text);
    std::vector<std::pair<std::string, std::string>> wanted;
    for (const auto& [key, value] : then.where(where)) wanted.emplace_back(key, value);
    ASSERT_FALSE(wanted.empty());
    query q = s.start({.name = text, .at = v, .where = where});
    for (int part = 0; part < 9; ++part) q.run({.threads = 1, .every = 20us, .keys = 3'000});
    const auto some = q.progress().rows;
    ASSERT_EQ(std::ranges::distance(q.results()), static_cast<std::ptrdiff_t>(some));
    q.run({.threads = 3});
    expect_rows(q, wanted);
    std::mt19937 random(3);
    for (int i = 0; i < 20; ++i) expect_rows(q, wanted, random() % (wanted.size() + 2));
  }
}

TEST_P(Queries, where_most_match_a_bit_is_kept_of_each_key) {
  const version v = make_store(60'000);
  store s(path_, opening());
  const std::uint64_t before = s.stats().used_bytes;
  query q = s.start({.name = "all", .at = v});
  q.run({.threads = 1, .every = std::chrono::hours(1)});  // chunks end when they are full, however slow the machine is
  const std::uint64_t used = s.stats().used_bytes - before;
  // a segment for the definition and one for chunks, instead of the bytes of all keys
  if (GetParam().index != index_kind::hash) {
    EXPECT_LE(used, 2U * 65'536);
  }
}

TEST_P(Queries, goes_on_where_it_was_in_the_next_process_however_often_it_is_killed) {
  const version v = make_store(20'000);
  {
    store s(path_, opening());
    s.start({.name = "even", .at = v, .where = even()});
  }
  std::mt19937 random(11);
  query_progress before{};
  for (int round = 0; round < 25; ++round) {
    const auto wait = std::chrono::microseconds(random() % 9000);
    const auto threads = static_cast<unsigned>(1 + random() % 3);
    child runner([&] {
      store s(path_, opening());
      query q = s.query("even", known);
      const auto p = q.progress();
      if (p.rows < before.rows || p.examined < before.examined) return 3;
      const run_options how{.threads = threads, .every = 100us, .keys = 4'000};
      return q.run(how).state == query_state::finished ? 0 : 1;
    });
    std::this_thread::sleep_for(wait + 2ms);
    runner.kill(SIGKILL);
    const int ended = runner.wait();
    ASSERT_TRUE(ended == 0 || ended == 1 || ended == -SIGKILL) << ended;
    store s(path_, opening());
    before = s.query("even", known).progress();
    if (ended == 0) break;
  }
  store s(path_, opening());
  query q = s.query("even", known);
  q.run();
  expect_rows(q, answer(s, v));
  EXPECT_EQ(q.progress().examined, s.at(v).size());
}

TEST_P(Queries, space_of_those_that_were_dropped_is_used_again) {
  const version v = make_store(30'000);
  store s(path_, opening());
  const auto run_one = [&](int i) {
    query q = s.start({.name = "q" + std::to_string(i), .at = v, .where = even()});
    q.run({.threads = 2});
    q.drop();
    expect_error(errc::no_such_query, "", [&] { static_cast<void>(q.progress()); });
  };
  run_one(0);
  run_one(1);
  const std::uint64_t used = s.stats().used_bytes;
  for (int i = 2; i < 60; ++i) run_one(i);
  EXPECT_EQ(s.stats().used_bytes, used);
  EXPECT_TRUE(s.queries().empty());
  EXPECT_TRUE(s.verify().ok());
}

TEST_P(Queries, an_acknowledgement_and_the_rows_are_there_after_reopening) {
  const version v = make_store(20'000);
  std::vector<std::pair<std::string, std::string>> wanted;
  {
    store s(path_, opening());
    wanted = answer(s, v);
    query q = s.start({.name = "even", .at = v, .where = even()});
    EXPECT_EQ(q.run({.keys = 5'000}).state, query_state::paused);
    EXPECT_EQ(q.state(), query_state::paused);
    q.acknowledge(100);
    expect_error(errc::invalid_argument, "", [&] { static_cast<void>(q.acknowledge(1 << 30)); });
  }
  store s(path_, opening());
  query q = s.query("even", known);
  EXPECT_EQ(q.acknowledged(), 100);
  EXPECT_EQ(q.state(), query_state::paused);
  EXPECT_EQ(q.progress().runs, 1);
  q.run();
  expect_rows(q, wanted);
}

TEST_P(Queries, writers_beside_a_query_do_not_change_its_answer) {
  const version v = make_store(40'000);
  store s(path_, opening());
  const auto wanted = answer(s, v);
  std::atomic<bool> over{false};
  std::thread writer([&] {
    for (int i = 0; !over; ++i) {
      s.insert(key_of(i % 50'000), "4");
      if (i % 100 == 0) s.remove(key_of(i % 40'000));
      if (i % 1000 == 0) s.tag();
    }
  });
  query q = s.start({.name = "even", .at = v, .where = even()});
  q.run({.threads = 2, .every = 50us});
  over = true;
  writer.join();
  expect_rows(q, wanted);
}

TEST_P(Queries, misuse_is_told) {
  const version v = make_store(1'000);
  store s(path_, opening());
  query q = s.start({.name = "one", .at = v, .where = even()});
  expect_error(errc::query_exists, "", [&] { static_cast<void>(s.start({.name = "one", .at = v})); });
  expect_error(errc::invalid_argument, "", [&] { static_cast<void>(s.start({.name = "", .at = v})); });
  expect_error(errc::version_not_closed, "", [&] { static_cast<void>(s.start({.name = "two", .at = version_max})); });
  expect_error(errc::no_such_query, "", [&] { static_cast<void>(s.query("onw")); });
  q.cancel();
  EXPECT_EQ(q.state(), query_state::cancelled);
  expect_error(errc::invalid_argument, "", [&] { static_cast<void>(q.run()); });
  query counted = s.start({.name = "count", .at = v, .where = even(), .keep = query_keeps::count});
  EXPECT_EQ(counted.run().rows, answer(s, v).size());
  expect_error(errc::invalid_argument, "", [&] { static_cast<void>(counted.results()); });
  s.close();
  expect_error(errc::closed, "", [&] { static_cast<void>(q.progress()); });
}

TEST_P(Queries, a_function_that_throws_pauses_the_query_before_that_key) {
  const version v = make_store(30'000);
  store s(path_, opening());
  int calls = 0;
  bool fails = true;
  const auto f = filter::of("fails", 1, item_function([&](const item& i) {
                              if (++calls == 9'000 && fails) throw std::runtime_error("not today");
                              return is_even(i);
                            }));
  query q = s.start({.name = "fails", .at = v, .where = f});
  EXPECT_THROW(q.run(), std::runtime_error);
  EXPECT_EQ(q.state(), query_state::paused);
  EXPECT_GE(q.progress().examined, 8'192);
  fails = false;
  q.run();
  expect_rows(q, answer(s, v));
}

INSTANTIATE_TEST_SUITE_P(All, Queries,
                         ::testing::Values(setting{place::tmpfs, durability::operation},
                                           setting{place::tmpfs, durability::none},
                                           setting{place::disk, durability::tag},
                                           setting{place::tmpfs, durability::operation, index_kind::persistent},
                                           setting{place::disk, durability::tag, index_kind::persistent, 2},
                                           setting{place::tmpfs, durability::operation, index_kind::skip_list, 2},
                                           setting{place::tmpfs, durability::operation, index_kind::hash}),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace icecore::testing
