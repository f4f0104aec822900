// Filters over the rows that a query has kept: their answers are those of the same filters over the store.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "icecore/icecore.hpp"
#include "icecore/query.hpp"
#include "support/expect.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

class KeptRows : public ::testing::Test {
 protected:
  KeptRows() {
    std::mt19937_64 random(3);
    batch many;
    for (int i = 0; i < 70'000; ++i) {
      std::string value(12, '\0');
      const double price = static_cast<double>(random() % 1'000) / 3.0;
      const auto qty = static_cast<std::int32_t>(random() % 200) - 100;
      std::memcpy(value.data(), &price, sizeof price);
      std::memcpy(value.data() + sizeof price, &qty, sizeof qty);
      value += i % 3 == 0 ? "north" : "south";
      if (i % 23 == 0) value.resize(random() % 11);
      many.insert("k" + std::to_string(i * 7919 % 100'003), value);
    }
    store_.apply(many);
    at_ = store_.tag();
  }
  [[nodiscard]] static layout trade() { return layout("price f64, qty i32, name bytes"); }
  [[nodiscard]] query kept() {
    query q = store_.start({.name = "kept " + std::to_string(++started_),
                            .at = at_,
                            .where = filter("qty != 7 or qty is null", trade()),
                            .select = {"key", "price", "qty", "name", "qty > 0 as bought", "u64(length(value)) as n",
                                       "price * f64(qty)"}});
    q.run({.threads = 2});
    return q;
  }

  scratch folder_{place::tmpfs};
  version at_ = 0;
  int started_ = 0;
  store store_{folder_ / "store", {}};
};

TEST_F(KeptRows, answers_are_those_of_a_filter_over_the_store) {
  const query q = kept();
  const selected_rows rows = q.rows();
  const snapshot then = store_.at(at_);
  for (const char* text : {"price > 100.0", "qty = 5", "qty between -3 and 12 and name = 'north'", "price is null",
                           "not (price > 10)", "bought", "not bought", "bought = true and qty < 20",
                           "starts_with(key, 'k12')", "n > 15", "n = 17 or qty % 2 = 0", "name like 'n%'",
                           "qty in (1, 2, 3)", "price > 1e9", "true", "f64(qty) * price < 0.0"}) {
    SCOPED_TRACE(text);
    std::string over_store = text;  // what the store's values have no column for
    const auto replace = [&](const std::string& what, const std::string& by) {
      for (auto at = over_store.find(what); at != std::string::npos; at = over_store.find(what, at + by.size())) {
        over_store.replace(at, what.size(), by);
      }
    };
    replace("bought", "(qty > 0)");
    if (over_store.starts_with("n ")) replace("n ", "length(value) ");
    const filter same("(" + over_store + ") and (qty != 7 or qty is null)", trade());
    const selected_rows some = rows.where(text);
    for (const unsigned threads : {1U, 3U}) {
      ASSERT_EQ(some.count(threads), then.count(same));
      ASSERT_EQ(some.sum("qty * 3", threads), then.sum(same, "qty * 3"));
      ASSERT_EQ(some.min("price", threads), then.min(same, "price"));
      ASSERT_EQ(some.max("n", threads), then.max(same, "u64(length(value))"));
      ASSERT_EQ(some.sum("price", threads), some.sum("price", 1));
      const auto found = some.extract({"key", "qty + 1 as more", "bought"}, threads);
      const auto wanted = then.extract(same, {"key", "qty + 1 as more", "qty > 0 as bought"});
      ASSERT_EQ(found[0].size, wanted[0].size);
      for (std::size_t c = 0; c < 3; ++c) {
        ASSERT_EQ(found[c].validity, wanted[c].validity);
        ASSERT_EQ(found[c].words, wanted[c].words);
        ASSERT_EQ(found[c].bytes, wanted[c].bytes);
        ASSERT_EQ(found[c].type, wanted[c].type);
      }
    }
    const auto read = some.read();
    const auto wanted = then.extract(same, {"key", "price"});
    ASSERT_EQ(read[0].bytes, wanted[0].bytes);
    ASSERT_EQ(read[1].words, wanted[1].words);
    ASSERT_EQ(read[1].validity, wanted[1].validity);
  }
}

TEST_F(KeptRows, filters_can_be_joined_and_ranges_of_rows_be_read) {
  const query q = kept();
  const auto all = q.rows().read();
  const auto both = q.rows().where("qty > 10").where("price < 50.0");
  std::size_t n = 0;
  for (std::size_t i = 0; i < all[0].size; ++i) {
    if (!all[2].is_null(i) && all[2].i64(i) > 10 && !all[1].is_null(i) && all[1].f64(i) < 50.0) ++n;
  }
  EXPECT_EQ(both.count(), n);
  std::string keys;
  for (std::uint64_t from = 0; from < all[0].size; from += 12'345) {
    const auto part = both.read(from, 12'345);
    keys.append(part[0].bytes.begin(), part[0].bytes.end());
  }
  const auto whole = both.read();
  EXPECT_EQ(keys, std::string(whole[0].bytes.begin(), whole[0].bytes.end()));
  EXPECT_EQ(whole[0].size, n);
}

TEST_F(KeptRows, what_is_asked_while_it_runs_is_about_the_rows_whose_numbers_are_final) {
  query q = store_.start({.name = "runs", .at = at_, .where = filter("true", trade()), .select = {"qty"}});
  while (q.run({.threads = 2, .keys = 9'000}).state != query_state::finished) {
    EXPECT_EQ(q.rows().where("true").count(), q.rows().size());
    EXPECT_EQ(q.rows().where("qty is null or qty < 0 or qty >= 0").count(2), q.rows().size());
  }
  EXPECT_EQ(q.rows().where("true").count(), 70'000);
}

TEST_F(KeptRows, what_the_rows_do_not_have_is_told) {
  const query q = kept();
  expect_error(errc::bad_input, "", [&] { static_cast<void>(q.rows().where("prize > 1")); });
  expect_error(errc::invalid_argument, "", [&] { static_cast<void>(q.rows().where("length(value) > 1")); });
  expect_error(errc::invalid_argument, "", [&] { static_cast<void>(q.rows().where("version > 1")); });
  expect_error(errc::invalid_argument, "", [&] { static_cast<void>(q.rows().sum("length(value)")); });
  expect_error(errc::invalid_argument, "", [&] { static_cast<void>(q.rows().extract({"value"})); });
  expect_error(errc::invalid_argument, "", [&] { static_cast<void>(q.rows().where(filter("qty > 1", trade()))); });
  query other = store_.start({.name = "other", .at = at_, .select = {"key"}});
  const filter of_other("starts_with(key, 'k')", other.rows().names());
  const filter of_this("qty > 1", q.rows().names());
  expect_error(errc::invalid_argument, "", [&] { static_cast<void>(other.rows().where(of_this)); });
  EXPECT_EQ(q.rows().where(of_other).count(), q.rows().where("starts_with(key, 'k')").count());
  const snapshot then = store_.at(at_);
  expect_error(errc::invalid_argument, "", [&] { static_cast<void>(then.count(of_this)); });
  expect_error(errc::invalid_argument, "", [&] { static_cast<void>(then.page(of_this, {})); });
  expect_error(errc::invalid_argument, "",
               [&] { static_cast<void>(store_.start({.name = "third", .at = at_, .where = of_this})); });
  EXPECT_FALSE(of_this.matches("k", "value"));
}

}  // namespace
}  // namespace icecore::testing
