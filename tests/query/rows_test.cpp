// Queries that keep columns and totals: what they have kept is what a scan of their version gives, bit by bit, whatever
// stopped them, and how often.
#include <gtest/gtest.h>
#include <signal.h>

#include <bit>
#include <cstring>
#include <random>
#include <thread>

#include "icecore/icecore.hpp"
#include "icecore/query.hpp"
#include "support/expect.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;
using columns = std::vector<result_values>;

void expect_equal(const columns& found, const columns& wanted, std::size_t from = 0) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t c = 0; c < found.size(); ++c) {
    SCOPED_TRACE(wanted[c].name);
    ASSERT_EQ(found[c].name, wanted[c].name);
    ASSERT_EQ(found[c].type, wanted[c].type);
    ASSERT_EQ(found[c].size, wanted[c].size > from ? wanted[c].size - from : 0);
    std::size_t nulls = 0;
    for (std::size_t i = 0; i < found[c].size; ++i) {
      ASSERT_EQ(found[c].is_null(i), wanted[c].is_null(from + i)) << i;
      nulls += found[c].is_null(i) ? 1 : 0;
      if (found[c].type == result_type::bytes) {
        ASSERT_EQ(found[c].text(i), wanted[c].text(from + i)) << i;
      } else if (found[c].type == result_type::boolean) {
        ASSERT_EQ(found[c].boolean(i), wanted[c].boolean(from + i)) << i;
      } else {
        ASSERT_EQ(found[c].words[i], wanted[c].words[from + i]) << i;
      }
    }
    ASSERT_EQ(found[c].nulls, nulls);
  }
}

void expect_equal(const std::vector<query_total>& found, const std::vector<query_total>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].how, wanted[i].how);
    ASSERT_EQ(found[i].expression, wanted[i].expression);
    ASSERT_EQ(found[i].value.has_value(), wanted[i].value.has_value()) << i;
    if (!found[i].value) continue;
    ASSERT_EQ(found[i].value->index(), wanted[i].value->index()) << i;
    const auto bits = [](const result_number& n) {
      return std::visit([](auto number) { return std::bit_cast<std::uint64_t>(number); }, n);
    };
    ASSERT_EQ(bits(*found[i].value), bits(*wanted[i].value)) << i;
  }
}

class QueryRows : public ::testing::TestWithParam<setting> {
 protected:
  [[nodiscard]] options opening() const { return GetParam().options_at(path_); }

  /// Trades, some without a name or too short for a price, some removed, some written again after the version.
  version make_store(int keys) const {
    store s(path_, opening());
    std::mt19937_64 random(5);
    batch many;
    for (int i = 0; i < keys; ++i) {
      std::string value(8, '\0');
      const double price = static_cast<double>(random() % 1'000'000) / 7.0;
      std::memcpy(value.data(), &price, sizeof price);
      const auto qty = static_cast<std::int32_t>(random() % 4'000) - 2'000;
      value.append(reinterpret_cast<const char*>(&qty), sizeof qty);
      value.append(static_cast<std::size_t>(i % 13), 'n');
      if (i % 17 == 0) value.resize(5);
      if (i % 19 == 0) value.resize(10);
      many.insert(key_of(i), value);
      if (many.size() == 2'000) {
        s.apply(many);
        many.clear();
      }
    }
    for (int i = 0; i < keys; i += 11) many.remove(key_of(i));
    s.apply(many);
    const version v = s.tag();
    many.clear();
    for (int i = 0; i < keys; i += 50) many.insert(key_of(i), "later");
    s.apply(many);
    s.tag();
    return v;
  }
  [[nodiscard]] static std::string key_of(int i) { return "k" + std::to_string(i * 7919 % 100'003); }
  [[nodiscard]] static filter some() {
    return filter("qty % 3 != 0 or qty is null", layout("price f64, qty i32, name bytes"));
  }
  [[nodiscard]] static std::vector<std::string> selected() {
    return {"key", "price", "qty", "price * f64(qty) as total", "qty > 0 as bought", "name", "u64(length(value)) as n"};
  }
  [[nodiscard]] static std::vector<aggregate_of> aggregates() {
    return {{aggregate::count},
            {aggregate::count, "price"},
            {aggregate::sum, "price / 3.0"},
            {aggregate::sum, "qty"},
            {aggregate::min, "price"},
            {aggregate::max, "qty * 1000000000000000"},
            {aggregate::sum, "9223372036854775807 + qty"}};
  }
  [[nodiscard]] static query_request request(std::string name, version at) {
    return {.name = std::move(name), .at = at, .where = some(), .select = selected(), .aggregates = aggregates()};
  }

  scratch folder_{GetParam().where};
  std::filesystem::path path_ = folder_ / "store";
};

TEST_P(QueryRows, columns_are_those_of_a_scan_and_can_be_read_from_any_row) {
  const version v = make_store(60'000);
  store s(path_, opening());
  const columns wanted = s.at(v).extract(some(), selected());
  for (const unsigned threads : {1U, 3U}) {
    query q = s.start(request("rows " + std::to_string(threads), v));
    EXPECT_EQ(q.keeps(), query_keeps::rows);
    EXPECT_EQ(q.rows().size(), 0);
    EXPECT_EQ(q.rows().read().front().size, 0);
    EXPECT_EQ(q.run({.threads = threads}).rows, wanted.front().size);
    EXPECT_EQ(q.rows().size(), wanted.front().size);
    const auto described = q.rows().columns();
    ASSERT_EQ(described.size(), wanted.size());
    for (std::size_t i = 0; i < described.size(); ++i) {
      EXPECT_EQ(described[i].name, wanted[i].name);
      EXPECT_EQ(described[i].type, wanted[i].type);
    }
    ASSERT_NO_FATAL_FAILURE(expect_equal(q.rows().read(), wanted));
    std::mt19937 random(7);
    for (int i = 0; i < 20; ++i) {
      const std::uint64_t from = random() % (wanted.front().size + 2);
      ASSERT_NO_FATAL_FAILURE(expect_equal(q.rows().read(from), wanted, from));
      const std::uint64_t some_rows = random() % 20'000;
      const columns part = q.rows().read(from, some_rows);
      ASSERT_EQ(part.front().size, std::min(some_rows, wanted.front().size - std::min(from, wanted.front().size)));
      if (part.front().size > 0) {
        EXPECT_EQ(part.front().text(0), wanted.front().text(from));
      }
    }
  }
}

TEST_P(QueryRows, totals_are_exact_and_the_same_to_the_last_bit_for_any_number_of_threads) {
  const version v = make_store(60'000);
  store s(path_, opening());
  query first = s.start(request("first", v));
  EXPECT_FALSE(first.totals()[2].value.has_value());
  first.run();
  const auto totals = first.totals();
  const snapshot then = s.at(v);
  EXPECT_EQ(totals[0].value, result_number(then.count(some())));
  EXPECT_EQ(totals[3].value, then.sum(some(), "qty"));
  EXPECT_EQ(totals[4].value, then.min(some(), "price"));
  EXPECT_EQ(totals[5].value, then.max(some(), "qty * 1000000000000000"));
  EXPECT_FALSE(totals[6].value.has_value()) << "it is greater than any number of 64 bits";
  EXPECT_NEAR(std::get<double>(*totals[2].value), std::get<double>(*then.sum(some(), "price / 3.0")), 1.0);
  EXPECT_EQ(totals[2].expression, "price / 3.0");
  const auto also = [&](const char* name, query_keeps keep, const run_options& how) {
    query_request what = request(name, v);
    what.keep = keep;
    what.select.clear();
    query q = s.start(what);
    while (q.run(how).state != query_state::finished) {
    }
    expect_equal(q.totals(), totals);
  };
  also("counted", query_keeps::count, {.threads = 3});
  also("keys", query_keeps::keys, {.threads = 2, .keys = 7'000});
  also("often", query_keeps::count, {.threads = 2, .every = 1us, .keys = 11'000});
}

TEST_P(QueryRows, what_is_shown_while_it_runs_is_the_beginning_of_the_answer) {
  const version v = make_store(30'000);
  store s(path_, opening());
  const columns wanted = s.at(v).extract(some(), selected());
  query q = s.start(request("part by part", v));
  std::uint64_t before = 0;
  do {
    q.run({.every_item = true, .keys = 4'500});
    const columns found = q.rows().read(before / 2);
    const std::uint64_t size = before / 2 + found.front().size;
    EXPECT_GE(size, before);
    EXPECT_EQ(q.totals()[0].value, result_number(size));
    for (std::size_t i = 0; i < found.front().size; ++i) {
      ASSERT_EQ(found.front().text(i), wanted.front().text(before / 2 + i));
      ASSERT_EQ(found[3].words[i], wanted[3].words[before / 2 + i]);
    }
    before = size;
  } while (q.state() != query_state::finished);
  expect_equal(q.rows().read(), wanted);
}

TEST_P(QueryRows, a_run_that_is_killed_again_and_again_keeps_the_same_bits_as_one_that_is_not) {
  const version v = make_store(40'000);
  columns wanted;
  std::vector<query_total> totals;
  {
    store s(path_, opening());
    query undisturbed = s.start(request("undisturbed", v));
    undisturbed.run();
    wanted = undisturbed.rows().read();
    totals = undisturbed.totals();
    static_cast<void>(s.start(request("killed", v)));
  }
  std::mt19937 random(11);
  int kills = 0;
  for (int round = 0; round < 40; ++round) {
    const auto wait = std::chrono::microseconds(random() % 9000);
    const auto threads = static_cast<unsigned>(1 + random() % 3);
    child runner([&] {
      store s(path_, opening());
      query q = s.query("killed");
      return q.run({.threads = threads, .every = 50us, .keys = 3'000}).state == query_state::finished ? 0 : 1;
    });
    std::this_thread::sleep_for(wait + 2ms);
    runner.kill(SIGKILL);
    const int ended = runner.wait();
    ASSERT_TRUE(ended == 0 || ended == 1 || ended == -SIGKILL) << ended;
    kills += ended == -SIGKILL ? 1 : 0;
    if (ended == 0) break;
    store s(path_, opening());
    const query q = s.query("killed");
    const columns found = q.rows().read();
    ASSERT_LE(found.front().size, wanted.front().size);
    for (std::size_t i = 0; i < found.front().size; ++i) ASSERT_EQ(found[3].words[i], wanted[3].words[i]);
    ASSERT_EQ(q.totals()[0].value, result_number(std::uint64_t{found.front().size}));
  }
  store s(path_, opening());
  query q = s.query("killed");
  q.run({.threads = 2});
  ASSERT_NO_FATAL_FAILURE(expect_equal(q.rows().read(), wanted));
  expect_equal(q.totals(), totals);
  EXPECT_GT(kills, 0);
}

TEST_P(QueryRows, long_values_are_kept_and_one_that_is_too_long_stops_the_query_before_it) {
  store s(path_, opening());
  for (std::size_t i = 0; i < 60; ++i) s.insert("a" + std::to_string(100 + i), std::string(50'000 + i, 'a'));
  s.insert("b", std::string(700'000, 'b'));
  const version fits = s.tag();
  s.insert("c", std::string(1'000'000, 'c'));
  const version v = s.tag();
  query q = s.start({.name = "long", .at = fits, .select = {"value", "length(value) as size"}});
  q.run();
  expect_equal(q.rows().read(), s.at(fits).extract(filter(), {"value", "length(value) as size"}));
  query stopped = s.start({.name = "too long", .at = v, .select = {"key", "value"}});
  expect_error(errc::invalid_argument, "", [&] { stopped.run(); });
  EXPECT_EQ(stopped.rows().size(), 61);
  expect_error(errc::invalid_argument, "", [&] { stopped.run(); });
  EXPECT_EQ(stopped.state(), query_state::paused);
  EXPECT_EQ(stopped.rows().size(), 61);
}

TEST_P(QueryRows, misuse_is_told) {
  const version v = make_store(1'000);
  store s(path_, opening());
  const auto refused = [&](errc code, const query_request& what) {
    expect_error(code, "", [&] { static_cast<void>(s.start(what)); });
  };
  refused(errc::invalid_argument, {.name = "a", .keep = query_keeps::count, .select = {"key"}});
  refused(errc::invalid_argument, {.name = "a", .keep = query_keeps::rows});
  refused(errc::bad_input, {.name = "a", .select = {"prize"}});
  refused(errc::bad_input, {.name = "a", .aggregates = {{aggregate::sum, "key"}}});
  refused(errc::invalid_argument, {.name = "a", .select = {"before.value"}});
  refused(errc::invalid_argument, {.name = "a", .select = std::vector<std::string>(257, "key")});
  refused(errc::invalid_argument, {.name = "a", .aggregates = std::vector<aggregate_of>(65)});
  EXPECT_TRUE(s.queries().empty());
  query q = s.start(request("rows", v));
  expect_error(errc::invalid_argument, "", [&] { static_cast<void>(q.results()); });
  query keys = s.start({.name = "keys", .at = v});
  expect_error(errc::invalid_argument, "", [&] { static_cast<void>(keys.rows()); });
  EXPECT_TRUE(keys.totals().empty());
  const selected_rows rows = q.rows();
  q.drop();
  expect_error(errc::no_such_query, "", [&] { static_cast<void>(rows.read()); });
}

INSTANTIATE_TEST_SUITE_P(All, QueryRows,
                         ::testing::Values(setting{place::tmpfs, durability::operation},
                                           setting{place::tmpfs, durability::none},
                                           setting{place::disk, durability::tag},
                                           setting{place::tmpfs, durability::operation, index_kind::persistent},
                                           setting{place::tmpfs, durability::operation, index_kind::hash, 2}),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace icecore::testing
