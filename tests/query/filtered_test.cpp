// Filters over a snapshot: lazily, as totals, as columns and page by page, all give what a loop over the snapshot
// gives.
#include "icecore/filtered.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/checksum.hpp"
#include "icecore/icecore.hpp"
#include "support/expect.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

using pairs = std::vector<std::pair<std::string, std::string>>;

std::string trade_of(double price, std::uint32_t qty, std::string_view name) {
  std::string value(12, '\0');
  std::memcpy(value.data(), &price, sizeof price);
  std::memcpy(value.data() + 8, &qty, sizeof qty);
  return value + std::string(name);
}

class Filtered : public ::testing::TestWithParam<setting> {
 protected:
  void SetUp() override {
    s_.emplace(path_, GetParam().options_at(path_));
    batch many;
    std::mt19937 random(3);
    const auto apply = [&] {
      s_->apply(many);
      many.clear();
    };
    for (std::uint32_t i = 0; i < keys; ++i) {
      const std::string key = (i % 3 == 0   ? "eu/"
                               : i % 3 == 1 ? "us/"
                                            : "asia/") +
                              std::to_string(random() % 1'000'000);
      many.insert(key, i % 17 == 0 ? "short" : trade_of(i % 400 * 0.5, i % 1000, i % 5 == 0 ? "A GmbH" : "B Ltd"));
      if (many.size() == 1'000) apply();
      if (i == keys / 2) {
        apply();
        old_ = s_->tag();
      }
    }
    apply();
    v_ = s_->tag();
  }
  [[nodiscard]] pairs by_hand(version at, const std::function<bool(const item&)>& f) const {
    pairs found;
    const auto then = s_->at(at);
    for (const item& i : then.range()) {
      if (f(i)) found.emplace_back(i.key, i.value);
    }
    return found;
  }
  [[nodiscard]] static double price(std::string_view value) {
    double p = 0;
    std::memcpy(&p, value.data(), sizeof p);
    return p;
  }
  [[nodiscard]] static std::uint32_t qty(std::string_view value) {
    std::uint32_t q = 0;
    std::memcpy(&q, value.data() + 8, sizeof q);
    return q;
  }
  static pairs lazily(filtered_items found) {
    pairs all;
    for (const auto& [key, value] : found) all.emplace_back(key, value);
    return all;
  }

  static constexpr std::uint32_t keys = 12'000;
  scratch folder_{GetParam().where};
  std::filesystem::path path_ = folder_ / "store";
  std::optional<store> s_;
  version old_ = 0;
  version v_ = 0;
  layout trade_{"price f64, qty u32, name bytes"};
  filter dear_{"price > 100.0 and starts_with(key, 'eu/') and name ~ 'GmbH$'", trade_};
  static bool is_dear(const item& i) {
    return i.value.size() > 12 && price(i.value) > 100 && i.key.starts_with("eu/") && i.value.ends_with("GmbH");
  }
};

TEST_P(Filtered, lazy_range_gives_the_matches_of_the_version_in_key_order) {
  for (const version at : {old_, v_}) {
    const pairs wanted = by_hand(at, is_dear);
    EXPECT_GT(wanted.size(), 50U);
    EXPECT_EQ(lazily(s_->at(at).where(dear_)), wanted);
  }
  EXPECT_EQ(lazily(s_->at(v_).where(filter())), by_hand(v_, [](const item&) { return true; }));
  EXPECT_TRUE(lazily(s_->at(v_).where(filter("key < ''"))).empty());
  const filter two("starts_with(key, 'us/') or starts_with(key, 'asia/9')");
  EXPECT_EQ(lazily(s_->at(v_).where(two)),
            by_hand(v_, [](const item& i) { return i.key.starts_with("us/") || i.key.starts_with("asia/9"); }));
}

TEST_P(Filtered, totals_are_those_of_the_matches_with_any_number_of_threads) {
  const pairs wanted = by_hand(v_, is_dear);
  std::uint64_t sum = 0;
  std::uint64_t most = 0;
  double least = 1e300;
  for (const auto& [key, value] : wanted) {
    sum += qty(value);
    most = std::max<std::uint64_t>(most, qty(value));
    least = std::min(least, price(value));
  }
  const auto whole = [](const std::optional<result_number>& n) {
    return std::visit([](auto x) { return static_cast<std::uint64_t>(x); }, n.value());
  };
  for (const unsigned threads : {1U, 3U}) {
    EXPECT_EQ(s_->at(v_).count(dear_, threads), wanted.size());
    EXPECT_EQ(whole(s_->at(v_).sum(dear_, "qty", threads)), sum);
    EXPECT_EQ(whole(s_->at(v_).max(dear_, "qty", threads)), most);
    EXPECT_EQ(std::get<double>(s_->at(v_).min(dear_, "price", threads).value()), least);
    EXPECT_FALSE(s_->at(v_).sum(filter("key < ''"), "1", threads));
  }
  expect_error(errc::bad_input, "did you mean 'qty'", [&] { static_cast<void>(s_->at(v_).sum(dear_, "qyt")); });
}

TEST_P(Filtered, keys_that_are_named_are_found_whatever_the_order_of_the_index) {
  const auto all = by_hand(v_, [](const item&) { return true; });
  const pairs wanted{all[3], all[100], all[7'000]};
  std::string named = "key in ('nowhere', 'zzz'";
  for (const auto& [key, value] : wanted) named += ", '" + key + "'";
  const filter some(named + ")", trade_);
  for (const unsigned threads : {1U, 3U}) {
    EXPECT_EQ(s_->at(v_).count(some, threads), 3U);
    EXPECT_EQ(s_->at(v_).count(filter("key = 'nowhere'"), threads), 0U);
    const auto columns = s_->at(v_).extract(some, {"key"}, threads);
    ASSERT_EQ(columns[0].size, 3U);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(columns[0].text(i), wanted[i].first);
  }
  EXPECT_EQ(lazily(s_->at(v_).where(some)), wanted);
  EXPECT_EQ(lazily(s_->at(v_).where(filter("key < '' or key = '" + wanted[1].first + "'"))), pairs{wanted[1]});
}

TEST_P(Filtered, explain_tells_whether_the_store_sorts_its_keys_first) {
  const bool hashed = GetParam().index == index_kind::hash;
  const auto last_line = [&](const filter& f) {
    const std::string text = s_->at(v_).explain(f);
    EXPECT_TRUE(text.starts_with(f.explain()));
    return text.substr(text.rfind('\n') + 1);
  };
  EXPECT_EQ(last_line(dear_).find("sorts them first") != std::string::npos, hashed) << last_line(dear_);
  EXPECT_EQ(last_line(filter("key = 'a'")).find("looked up") != std::string::npos, hashed);
  EXPECT_EQ(last_line(dear_).find("sought") != std::string::npos, !hashed);
}

TEST_P(Filtered, columns_hold_a_value_for_each_match) {
  const pairs wanted = by_hand(v_, [](const item& i) { return !i.key.starts_with("us/"); });
  const filter some("not starts_with(key, 'us/')", trade_);
  for (const unsigned threads : {1U, 4U}) {
    const auto found = s_->at(v_).extract(some, {"key", "qty", "price * qty as total", "qty > 500 as many"}, threads);
    ASSERT_EQ(found.size(), 4U);
    EXPECT_EQ(found[2].name, "total");
    ASSERT_EQ(found[0].size, wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const auto& [key, value] = wanted[i];
      ASSERT_EQ(found[0].text(i), key);
      const bool is_short = value == "short";
      ASSERT_EQ(found[1].is_null(i), is_short);
      ASSERT_EQ(found[2].is_null(i), is_short);
      if (is_short) continue;
      ASSERT_EQ(found[1].words[i], qty(value));
      ASSERT_EQ(found[2].f64(i), price(value) * qty(value));
      ASSERT_EQ(found[3].boolean(i), qty(value) > 500);
    }
  }
}

TEST_P(Filtered, pages_follow_each_other_without_gap_or_double_in_both_directions) {
  pairs wanted = by_hand(v_, is_dear);
  for (const bool reverse : {false, true}) {
    for (const page_limits& limits :
         {page_limits{.matches = 7, .reverse = reverse}, page_limits{.examined = 100, .reverse = reverse},
          page_limits{.matches = 3, .examined = 1000, .reverse = reverse}}) {
      pairs all;
      std::string token;
      for (;;) {
        const page p = s_->at(v_).page(dear_, limits, token);
        const page again = s_->at(v_).page(dear_, limits, token);
        EXPECT_EQ(p.token, again.token);
        EXPECT_LE(p.items.size(), limits.matches);
        if (limits.examined) {
          EXPECT_LE(p.examined, *limits.examined);
        }
        for (const item& i : p.items) all.emplace_back(i.key, i.value);
        EXPECT_LE(p.token.size(), 128U + 20U);
        token = p.token;
        if (p.end) break;
      }
      EXPECT_TRUE(token.empty());
      EXPECT_EQ(all, wanted);
    }
    std::ranges::reverse(wanted);
  }
}

TEST_P(Filtered, what_is_known_of_changes_only_is_refused) {
  const auto then = s_->at(v_);
  for (const char* text : {"removed", "first", "before.value = 'x'"}) {
    const filter of_changes(text);
    expect_error(errc::invalid_argument, "changes", [&] { lazily(then.where(of_changes)); });
    expect_error(errc::invalid_argument, "changes", [&] { static_cast<void>(then.count(of_changes)); });
    expect_error(errc::invalid_argument, "changes", [&] { static_cast<void>(then.page(of_changes, {})); });
    expect_error(errc::invalid_argument, "changes", [&] { s_->start({.name = "q", .where = of_changes}); });
    expect_error(errc::invalid_argument, "changes", [&] { static_cast<void>(then.extract(dear_, {text})); });
  }
  expect_error(errc::invalid_argument, "keeps", [&] { s_->start({.name = "q", .keep = static_cast<query_keeps>(3)}); });
}

TEST_P(Filtered, token_that_does_not_fit_is_refused_with_the_reason) {
  const std::string token = s_->at(v_).page(dear_, {.matches = 5}).token;
  const auto refused = [&](const std::string& part, const auto& call) { expect_error(errc::bad_token, part, call); };
  refused("version", [&] { static_cast<void>(s_->at(old_).page(dear_, {}, token)); });
  refused("filter", [&] { static_cast<void>(s_->at(v_).page(filter("key > 'a'"), {}, token)); });
  refused("direction", [&] { static_cast<void>(s_->at(v_).page(dear_, {.reverse = true}, token)); });
  for (std::size_t i = 0; i < token.size(); ++i) {
    std::string bad = token;
    bad[i] = static_cast<char>(bad[i] ^ 4);
    refused("", [&] { static_cast<void>(s_->at(v_).page(dear_, {}, bad)); });
    refused("", [&] { static_cast<void>(s_->at(v_).page(dear_, {}, token.substr(0, i == 0 ? 1 : i))); });
  }
  expect_error(errc::invalid_argument, "", [&] { static_cast<void>(s_->at(v_).page(dear_, {.matches = 0}, token)); });
  // it is good for ever
  s_->close();
  options reading;
  reading.access = access::read_only;
  const store later(path_, reading);
  EXPECT_EQ(later.at(v_).page(dear_, {.matches = 5}, token).items.size(), 5U);
}

TEST_P(Filtered, signed_tokens_are_made_by_who_knows_the_secret) {
  const auto page_of = [&](std::string_view token, std::string_view secret) {
    return s_->at(v_).page(dear_, {.matches = 3, .secret = secret}, token);
  };
  const auto refused = [&](const std::string& part, std::string_view token, std::string_view secret) {
    expect_error(errc::bad_token, part, [&] { static_cast<void>(page_of(token, secret)); });
  };
  const std::string token = page_of("", "secret").token;
  EXPECT_LE(token.size(), 128U + 20U);
  const page next = page_of(token, "secret");
  const page same = page_of(page_of("", "").token, "");
  EXPECT_EQ(next.items.front().key, same.items.front().key);
  refused("forged, or signed with another secret", token, "other");
  refused("is signed; give the secret", token, "");
  refused("is not signed", page_of("", "").token, "secret");
  // whoever can compute the checksum cannot sign
  for (std::size_t i = 2; i < token.size(); ++i) {
    if (i >= 42 && i < 46) continue;
    std::string forged = token;
    forged[i] = static_cast<char>(forged[i] ^ 1);
    std::uint32_t crc = crc32c(0x70616765U, forged.data(), 42);
    crc = crc32c(crc, forged.data() + 46, forged.size() - 46);
    std::memcpy(forged.data() + 42, &crc, sizeof crc);
    refused("forged", forged, "secret");
  }
}

INSTANTIATE_TEST_SUITE_P(All, Filtered,
                         ::testing::Values(setting{place::tmpfs, durability::operation},
                                           setting{place::tmpfs, durability::operation, index_kind::persistent},
                                           setting{place::tmpfs, durability::none, index_kind::skip_list, 2},
                                           setting{place::tmpfs, durability::none, index_kind::hash}),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace icecore::testing
