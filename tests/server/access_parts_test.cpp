// What access is made of: permissions that adjoin, tokens, attempts, the gate of log-ins, base64url.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "icecore/error.hpp"
#include "service/access/attempts.hpp"
#include "service/access/password.hpp"
#include "service/access/rules.hpp"
#include "service/access/tokens.hpp"

using namespace std::chrono_literals;
namespace service = icecore::service;
using icecore::errc;

namespace {

template <typename Call>
std::error_code code_of(Call call) {
  try {
    call();
  } catch (const icecore::error& e) {
    return e.code();
  }
  return {};
}

const auto start = std::chrono::steady_clock::time_point{} + 1h;

}  // namespace

TEST(Passwords, hash_with_a_salt_of_their_own_and_match_themselves_alone) {
  const std::string kept = service::hash_password("secret");
  EXPECT_NE(kept, service::hash_password("secret"));
  EXPECT_TRUE(service::matches("secret", kept));
  EXPECT_FALSE(service::matches("secreT", kept));
  EXPECT_FALSE(service::matches("", kept));
  EXPECT_TRUE(kept.starts_with("scrypt$15$8$1$")) << kept;
}

TEST(Passwords, of_nobody_are_checked_like_others_and_never_right) {
  const std::string kept = service::hash_of_nobody();
  EXPECT_NO_THROW(service::check_hash(kept));
  EXPECT_TRUE(kept.starts_with("scrypt$15$8$1$")) << kept;
  for (const char* guess : {"", "nobody"}) EXPECT_FALSE(service::matches(guess, kept));
}

TEST(Passwords, are_computed_as_rfc_7914_says) {  // section 12: "pleaseletmein", "SodiumChloride", 16384, 8, 1
  const std::string first_half =
      "\x70\x23\xbd\xcb\x3a\xfd\x73\x48\x46\x1c\x06\xcd\x81\xfd\x38\xeb"
      "\xfd\xa8\xfb\xba\x90\x4f\x8e\x3e\xa9\xb5\x43\xf6\x54\x5d\xa1\xf2";
  const std::string kept = "scrypt$14$8$1$" + service::to_base64url("SodiumChloride") + "$";
  EXPECT_TRUE(service::matches("pleaseletmein", kept + service::to_base64url(first_half)));
}

TEST(Passwords, a_malformed_hash_is_damage_and_takes_no_memory) {
  const std::string good = service::hash_password("x");
  const std::string tail = good.substr(std::string("scrypt$15$8$1").size());
  for (const std::string& bad : {std::string(), std::string("scrypt"), "bcrypt$15$8$1" + tail, "scrypt$63$8$1" + tail,
                                 "scrypt$15$4000000$1" + tail, "scrypt$15$8$0" + tail, "scrypt$-1$8$1" + tail,
                                 "scrypt$15$8$1" + tail + "A", "scrypt$15$8$1" + tail + "$"}) {
    EXPECT_EQ(code_of([&] { service::check_hash(bad); }), errc::damaged) << bad;
    EXPECT_EQ(code_of([&] { (void)service::matches("x", bad); }), errc::damaged) << bad;
  }
}

TEST(Base64url, is_that_of_rfc_4648) {
  for (const auto& [bytes, text] : std::initializer_list<std::pair<std::string, std::string>>{
           {"", ""}, {"f", "Zg"}, {"fo", "Zm8"}, {"foo", "Zm9v"}, {"foob", "Zm9vYg"}, {"\xfb\xff", "-_8"}}) {
    EXPECT_EQ(service::to_base64url(bytes), text);
    std::string back;
    EXPECT_TRUE(service::from_base64url(text, back));
    EXPECT_EQ(back, bytes);
  }
  std::string back;
  for (const char* bad : {"Z", "Zh", "Zm9", "Zg==", "Z+", "Zm9vY"})
    EXPECT_FALSE(service::from_base64url(bad, back)) << bad;
}

TEST(Gate, lets_so_many_in_and_so_many_wait) {
  service::password_gate gate(2, 1, 10s);
  const auto first = gate.enter();
  std::atomic<bool> in{false};
  std::thread third;
  {
    const auto second = gate.enter();
    third = std::thread([&] {
      const auto mine = gate.enter();
      in = true;
    });
    while (gate.waiting() == 0) std::this_thread::yield();
    EXPECT_EQ(code_of([&] { (void)gate.enter(); }), errc::limit_reached);
    EXPECT_FALSE(in);
  }
  third.join();
  EXPECT_TRUE(in);
}

TEST(Gate, refuses_whom_it_lets_wait_too_long_and_whoever_comes_when_all_places_are_taken) {
  service::password_gate full(1, 0, 10s);
  const auto one = full.enter();
  EXPECT_EQ(code_of([&] { (void)full.enter(); }), errc::limit_reached);
  service::password_gate impatient(1, 1, 1ms);
  const auto two = impatient.enter();
  EXPECT_EQ(code_of([&] { (void)impatient.enter(); }), errc::limit_reached);
}

TEST(Attempts, are_a_burst_and_then_as_many_as_time_gives) {
  service::attempts tried(3, 10s);
  for (int i = 0; i < 3; ++i) tried.take("ann", start);
  EXPECT_EQ(code_of([&] { tried.take("ann", start); }), errc::limit_reached);
  EXPECT_EQ(code_of([&] { tried.require("ann", start + 9999ms); }), errc::limit_reached);
  tried.take("ann", start + 10s);
  EXPECT_EQ(code_of([&] { tried.take("ann", start + 10s); }), errc::limit_reached);
  tried.give_back("ann");
  tried.take("ann", start + 10s);
  for (int i = 0; i < 3; ++i) tried.take("ann", start + 1h);  // full again, and not more than full
  EXPECT_EQ(code_of([&] { tried.take("ann", start + 1h); }), errc::limit_reached);
}

TEST(Attempts, of_one_name_cost_other_names_nothing) {
  service::attempts tried(1, 10s);
  int refused = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string name = "user" + std::to_string(i);
    if (code_of([&] { tried.take(name, start); })) ++refused;
  }
  EXPECT_LT(refused, 20);  // names that share one of 4,096 buckets: 1 expected
}

TEST(Tokens, are_known_until_they_end) {
  service::token_table t(1h);
  const auto ann = t.issue("ann", start);
  const auto bob = t.issue("bob", start);
  EXPECT_EQ(ann.text.size(), 43U);
  EXPECT_NE(ann.text, bob.text);
  ASSERT_NE(t.find(ann.text, start + 59min), nullptr);
  EXPECT_EQ(*t.find(ann.text, start + 59min), "ann");
  EXPECT_EQ(t.find(ann.text, start + 1h), nullptr);
  EXPECT_EQ(t.find("", start), nullptr);
  EXPECT_EQ(t.find(ann.text + "x", start), nullptr);
  t.end_all_of("ann");
  EXPECT_EQ(t.find(ann.text, start), nullptr);
  EXPECT_NE(t.find(bob.text, start), nullptr);
  t.end(bob.text);
  t.end(bob.text);
  t.end("nonsense");
  EXPECT_EQ(t.find(bob.text, start), nullptr);
  EXPECT_EQ(t.size(), 0U);
}

TEST(Tokens, beyond_the_limit_of_a_user_end_the_oldest_and_beyond_that_of_all_are_refused) {
  service::token_table t(1h, 2, 3);
  const auto first = t.issue("ann", start);
  const auto second = t.issue("ann", start);
  const auto third = t.issue("ann", start);
  EXPECT_EQ(t.find(first.text, start), nullptr);
  EXPECT_NE(t.find(second.text, start), nullptr);
  const auto bob = t.issue("bob", start);
  EXPECT_EQ(code_of([&] { (void)t.issue("carl", start); }), errc::limit_reached);
  EXPECT_EQ(code_of([&] { (void)t.issue("bob", start); }), errc::limit_reached);
  (void)t.issue("ann", start);  // takes the place of her own
  EXPECT_EQ(t.find(second.text, start), nullptr);
  EXPECT_NE(t.find(bob.text, start), nullptr);
  (void)t.issue("carl", start + 1h);  // all others are over
  EXPECT_EQ(t.size(), 1U);
}

// Against an oracle that asks for each key: of small keys there are few.
TEST(Ranges, are_covered_as_one_key_after_the_other_would_be) {
  std::mt19937 random(1);
  const auto bound = [&random]() -> std::optional<std::string> {
    const unsigned which = static_cast<unsigned>(random() % 12);
    if (which > 9) return std::nullopt;
    return std::string(1, static_cast<char>('a' + which));
  };
  int yes = 0;
  for (int round = 0; round < 20'000; ++round) {
    service::user_rules rules;
    for (unsigned n = static_cast<unsigned>(random() % 5); n > 0; --n) {
      service::permission p{random() % 3 == 0 ? "ap*" : random() % 2 == 0 ? "app" : "other", {bound(), bound()}, 0};
      p.allowed = static_cast<service::rights>(1 + random() % 7);
      if (p.keys.to && *p.keys.to <= p.keys.from.value_or("")) continue;
      rules.add(p);
    }
    rules.sort();
    const icecore::key_bounds asked{bound(), bound()};
    if (asked.to && *asked.to <= asked.from.value_or("")) continue;
    // One letter stands for all keys that begin with it; "" and "z" for those before and behind all of them.
    const auto allowed = [&](const std::string& key) {
      for (const auto& r : rules.ranges) {
        if ((r.what & 2) != 0 && r.matches("app") && r.from <= key && (!r.to || key < *r.to)) return true;
      }
      return false;
    };
    bool all = true;
    for (const char* key : {"", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "z"}) {
      const bool inside = std::string(key) >= asked.from.value_or("") && (!asked.to || key < *asked.to);
      all = all && (!inside || allowed(key));
    }
    EXPECT_EQ(rules.cover("app", asked, service::right::write), all) << round;
    yes += all ? 1 : 0;
  }
  EXPECT_GT(yes, 500);
}
