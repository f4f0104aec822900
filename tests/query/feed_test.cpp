// Feeds tell each change of the closed versions once, in order, wherever they begin or go on.
#include "icecore/feed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "base/checksum.hpp"
#include "icecore/icecore.hpp"
#include "support/expect.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

/// A change that owns its bytes.
struct told_change {
  version at;
  std::string key;
  std::optional<std::string> value;
  std::optional<std::string> before;
  bool first;
  friend bool operator==(const told_change&, const told_change&) = default;
  friend std::ostream& operator<<(std::ostream& to, const told_change& c) {
    return to << c.at << ' ' << c.key << " = " << c.value.value_or("(none)") << ", before "
              << c.before.value_or("(none)") << (c.first ? ", first" : "");
  }
};
using told_changes = std::vector<told_change>;

void append(told_changes& to, const feed_batch& batch) {
  for (const key_change& c : batch.changes) {
    to.push_back({c.version, std::string(c.key), std::optional<std::string>(c.value),
                  std::optional<std::string>(c.before), c.first});
  }
}

/// All that a feed tells without waiting.
told_changes all_of(feed& f, std::size_t max = 1000) {
  told_changes all;
  for (;;) {
    const feed_batch batch = f.next(max);
    if (batch.changes.empty()) return all;
    EXPECT_LE(batch.changes.size(), max);
    append(all, batch);
  }
}

/// From the history of each key: the changes of closed versions.
told_changes by_hand(const store& s, version after, version up_to) {
  told_changes all;
  const auto keys = s.keys();
  for (const std::string_view key : keys) {
    std::optional<std::string> before;
    bool first = true;
    const auto history = s.history(key).oldest_first();
    for (const auto& [at, value] : history) {
      if (at > after && at <= up_to) {
        all.push_back({at, std::string(key), std::optional<std::string>(value), before, first});
      }
      before = std::optional<std::string>(value);
      first = false;
    }
  }
  std::ranges::stable_sort(all, {}, &told_change::at);  // keys stay in their order
  return all;
}

class Feeds : public ::testing::TestWithParam<setting> {
 protected:
  void SetUp() override { open(); }
  void open(access how = access::read_write) {
    s_.reset();
    options opening = GetParam().options_at(path_);
    opening.access = how;
    s_.emplace(path_, opening);
  }
  /// Versions with single writes, batches, removals, and several writes of one key.
  void write(int versions, unsigned seed) {
    std::mt19937 random(seed);
    for (int v = 0; v < versions; ++v) {
      batch some;
      for (int i = 0; i < 40; ++i) {
        const std::string key = "key " + std::to_string(random() % 150);
        if (random() % 4 == 0) {
          some.remove(key);
        } else {
          some.insert(key, std::to_string(random() % 1000));
        }
      }
      s_->apply(some);
      for (int i = 0; i < 10; ++i) s_->insert("key " + std::to_string(random() % 150), std::to_string(i));
      if (v % 2 == 0) {
        s_->insert("twice", "1");
        s_->remove("twice");
      }
      close();
    }
  }
  /// Closes the version, as durably as the mode can.
  version close() {
    const version v = s_->tag();
    if (GetParam().durability == durability::none) s_->sync();
    return v;
  }
  [[nodiscard]] version newest() const { return s_->clock() - 1; }

  scratch folder_{GetParam().where};
  std::filesystem::path path_ = folder_ / "store";
  std::optional<store> s_;
};

TEST_P(Feeds, tell_all_changes_by_version_then_key) {
  write(12, 1);
  s_->insert("key open", "not closed");
  for (const std::size_t max : {1UL, 7UL, 64UL, 1000UL, 1'000'000UL}) {
    feed f = s_->feed({.after = 0});
    EXPECT_EQ(all_of(f, max), by_hand(*s_, 0, newest())) << "at most " << max;
    EXPECT_EQ(f.next().told, newest());
  }
  EXPECT_GT(by_hand(*s_, 0, newest()).size(), 400U);
  feed later = s_->feed({.after = 5});
  EXPECT_EQ(all_of(later), by_hand(*s_, 5, newest()));
}

TEST_P(Feeds, tell_what_is_written_after_they_began) {
  write(3, 2);
  feed f = s_->feed({});
  told_changes all;
  const version began = newest();
  for (unsigned round = 0; round < 20; ++round) {
    write(1 + static_cast<int>(round % 3), 100 + round);
    if (round % 4 == 3) continue;  // several versions at once
    for (const told_change& c : all_of(f, round % 2 == 0 ? 1000 : 13)) all.push_back(c);
  }
  for (const told_change& c : all_of(f)) all.push_back(c);
  EXPECT_EQ(all, by_hand(*s_, began, newest()));
}

TEST_P(Feeds, go_on_behind_any_token) {
  write(5, 3);
  const told_changes wanted = by_hand(*s_, 0, newest());
  std::string token = s_->feed({.after = 0}).token();
  told_changes all;
  for (;;) {
    feed f = s_->feed({.token = token});
    const feed_batch batch = f.next(9);
    append(all, batch);
    EXPECT_EQ(f.token(), batch.token);
    token = batch.token;
    if (batch.changes.empty()) break;
    ASSERT_LE(all.size(), wanted.size());
    const version last = all.back().at;
    EXPECT_EQ(batch.told, all.size() < wanted.size() && wanted[all.size()].at == last ? last - 1
                          : all.size() < wanted.size()                                ? wanted[all.size()].at - 1
                                                                                      : newest());
  }
  EXPECT_EQ(all, wanted);
  EXPECT_LE(token.size(), 128U);
}

TEST_P(Feeds, filter_changes) {
  write(8, 4);
  feed began_early = s_->feed({.where = filter("not first and i64(value) > i64(before.value)")});
  const version began = newest();
  const auto wanted = [&](version after) {
    told_changes found = by_hand(*s_, after, newest());
    std::erase_if(found, [](const told_change& c) {
      return c.first || !c.value || !c.before || std::stoi(*c.value) <= std::stoi(*c.before);
    });
    return found;
  };
  write(8, 5);
  EXPECT_EQ(all_of(began_early, 3), wanted(began));
  feed f = s_->feed({.after = 0, .where = filter("not first and i64(value) > i64(before.value)")});
  EXPECT_EQ(all_of(f, 5), wanted(0));
  EXPECT_GT(wanted(0).size(), 20U);
  feed none = s_->feed({.after = 0, .where = filter("key = 'no such key'")});
  const feed_batch nothing = none.next();
  EXPECT_TRUE(nothing.changes.empty());
  EXPECT_EQ(nothing.told, newest());
}

TEST_P(Feeds, begin_with_a_snapshot_and_go_over_to_changes) {
  write(6, 6);
  const version v = newest();
  write(4, 7);
  const auto then = s_->at(v);
  std::vector<std::pair<std::string, std::string>> items;
  for (const item& i : then.range()) items.emplace_back(i.key, i.value);
  std::string token = s_->feed({.after = v, .snapshot = true}).token();
  std::vector<std::pair<std::string, std::string>> found;
  told_changes changes;
  for (;;) {
    feed f = s_->feed({.token = token});
    const feed_batch batch = f.next(11);
    token = batch.token;
    if (batch.changes.empty()) break;
    if (!batch.is_snapshot) {
      EXPECT_GE(batch.told, v);
      append(changes, batch);
      continue;
    }
    EXPECT_TRUE(changes.empty());
    EXPECT_EQ(batch.told, 0U);
    for (const key_change& c : batch.changes) {
      EXPECT_LE(c.version, v);
      EXPECT_FALSE(c.before);
      found.emplace_back(c.key, c.value.value());
    }
  }
  EXPECT_EQ(found, items);
  EXPECT_EQ(changes, by_hand(*s_, v, newest()));
  ASSERT_GT(items.size(), 5U);
  feed rest = s_->feed({.after = v, .snapshot = true, .behind_key = items[4].first});
  const feed_batch first_of_rest = rest.next(1);
  EXPECT_EQ(first_of_rest.changes[0].key, items[5].first);
  feed by_one = s_->feed({.after = v, .where = filter("first and key like 'key 1%'"), .snapshot = true});
  std::size_t matches = 0;
  for (feed_batch batch = by_one.next(2); batch.is_snapshot; batch = by_one.next(2)) matches += batch.changes.size();
  EXPECT_EQ(matches, then.count(filter("key like 'key 1%'")));
}

TEST_P(Feeds, with_a_name_go_on_where_they_were_acknowledged) {
  write(6, 8);
  told_changes all;
  std::string first_token;
  {
    feed f = s_->feed({.name = "mirror", .after = 0});
    EXPECT_EQ(f.name(), "mirror");
    for (int i = 0; i < 3; ++i) {
      const feed_batch batch = f.next(50);
      append(all, batch);
      f.acknowledge(batch.token);
      if (i == 0) first_token = batch.token;
    }
    static_cast<void>(f.next(50));  // not acknowledged: it comes again
    f.acknowledge(first_token);     // does not go back
  }
  for (int again = 0; again < 4; ++again) {
    open();
    EXPECT_EQ(s_->feeds().at(0).name, "mirror");
    feed f = s_->feed({.name = "mirror", .after = 3});  // it is there: `after` is not asked
    const feed_batch batch = f.next(70);
    append(all, batch);
    f.acknowledge(batch.token);
    write(1, 9 + static_cast<unsigned>(again));
  }
  feed f = s_->feed({.name = "mirror"});
  for (const told_change& c : all_of(f)) all.push_back(c);
  EXPECT_EQ(all, by_hand(*s_, 0, newest()));
}

TEST_P(Feeds, with_a_name_can_stop_within_a_snapshot) {
  write(3, 10);
  s_->insert(std::string(key_size_max, 'k'), "a long key");
  const version v = close();
  std::size_t items = 0;
  for (int again = 0; again < 400; ++again) {
    feed f = s_->feed({.name = "s", .after = v, .snapshot = true});
    const feed_batch batch = f.next(7);
    if (!batch.is_snapshot) break;
    items += batch.changes.size();
    f.acknowledge(batch.token);
    if (again % 8 == 0) open();
  }
  EXPECT_EQ(items, s_->at(v).size());
}

TEST_P(Feeds, names_are_kept_beside_those_of_queries) {
  write(2, 11);
  feed f = s_->feed({.name = "x", .after = 1, .where = filter("removed")});
  query q = s_->start({.name = "x", .where = filter("value > '5'")});
  expect_error(errc::query_exists, "another filter", [&] { static_cast<void>(s_->feed({.name = "x"})); });
  EXPECT_EQ(s_->queries().size(), 1U);
  open();
  EXPECT_EQ(s_->query("x").where().explain(), filter("value > '5'").explain());
  const std::vector<feed_info> feeds = s_->feeds();
  ASSERT_EQ(feeds.size(), 1U);
  EXPECT_EQ(feeds[0].name, "x");
  EXPECT_EQ(feeds[0].after, 1U);
  EXPECT_EQ(feeds[0].acknowledged, 1U);
  EXPECT_FALSE(feeds[0].snapshot);
  feed same = s_->feed({.name = "x", .where = filter("removed")});
  feed other = s_->feed({.name = "x", .where = filter("removed")});
  same.drop();
  EXPECT_TRUE(s_->feeds().empty());
  expect_error(errc::no_such_query, "'x' was dropped", [&] { static_cast<void>(other.next()); });
  expect_error(errc::no_such_query, "'x' was dropped", [&] { other.acknowledge(other.token()); });
  expect_error(errc::no_such_query, "", [&] { other.drop(); });
  feed anew = s_->feed({.name = "x", .after = 0});
  EXPECT_EQ(all_of(anew), by_hand(*s_, 0, newest()));
  EXPECT_TRUE(s_->verify().ok());
}

TEST_P(Feeds, wait_until_a_version_is_closed) {
  write(1, 12);
  feed f = s_->feed({});
  EXPECT_TRUE(f.next(1, 20ms).changes.empty());
  const version began = newest();
  std::jthread writer([this] {
    for (int i = 0; i < 50; ++i) {
      s_->insert("key " + std::to_string(i), std::to_string(i));
      if (i % 3 == 0) std::this_thread::sleep_for(1ms);
      close();
    }
  });
  told_changes all;
  while (all.size() < 50) {
    const feed_batch batch = f.next(1000, 30s);
    ASSERT_FALSE(batch.changes.empty());
    append(all, batch);
  }
  writer.join();
  EXPECT_EQ(all, by_hand(*s_, began, newest()));
}

TEST_P(Feeds, beside_writers_tell_each_change_once) {
  write(2, 13);
  const version began = newest();
  constexpr unsigned writers = 3;
  constexpr int rounds = 400;
  std::atomic<unsigned> busy{writers};
  told_changes all;
  feed f = s_->feed({});
  std::jthread reader([&] {
    for (;;) {
      const bool last = busy == 0;
      const feed_batch batch = f.next(100, 10ms);
      append(all, batch);
      if (last && batch.changes.empty()) return;
    }
  });
  in_threads(writers, [&](unsigned w) {
    for (int i = 0; i < rounds; ++i) {
      const std::string key = "key " + std::to_string(i * 7 % 60);
      if (i % 5 == 0) {
        batch some;
        for (int k = 0; k < 8; ++k) some.insert("key " + std::to_string((i + k) % 60), std::to_string(w));
        some.remove(key);
        s_->apply(some);
      } else if (i % 7 == 0) {
        s_->remove(key);
      } else {
        s_->insert(key, std::string(static_cast<std::size_t>(i), 'v'));
      }
      if (i % 3 == 0) s_->tag();
    }
    --busy;
  });
  reader.join();
  close();
  for (const told_change& c : all_of(f)) all.push_back(c);
  EXPECT_EQ(all, by_hand(*s_, began, newest()));
}

TEST_P(Feeds, that_are_far_behind_miss_nothing) {
  write(1, 14);
  feed f = s_->feed({});
  const version began = newest();
  const std::string large(60'000, 'x');  // one in a segment
  constexpr int many = 2'300;            // more than the store remembers where they are
  for (int i = 0; i < many; ++i) {
    s_->insert("large " + std::to_string(i % 10), large);
    if (i % 100 == 99) close();
    if (i == 50) {
      EXPECT_TRUE(f.next().changes.empty());
    }
  }
  const version middle = newest();
  std::size_t n = 0;
  version last = began;
  for (;;) {
    const feed_batch batch = f.next(64);
    if (batch.changes.empty()) break;
    for (const key_change& c : batch.changes) {
      EXPECT_GE(c.version, last);
      last = c.version;
      ++n;
    }
  }
  EXPECT_EQ(n, many);
  write(3, 15);
  EXPECT_EQ(all_of(f), by_hand(*s_, middle, newest()));
}

TEST_P(Feeds, tell_what_a_power_cut_would_keep_unless_asked_for_more) {
  if (GetParam().durability == durability::operation) GTEST_SKIP() << "there every write is durable";
  write(1, 16);
  feed sound = s_->feed({});
  feed early = s_->feed({.unsynced = true});
  s_->insert("key 1", "now");
  const bool tags_are_durable = GetParam().durability == durability::tag;
  const version v = tags_are_durable ? s_->latest().version() : s_->tag();
  EXPECT_EQ(all_of(early).size(), 1U);
  EXPECT_TRUE(sound.next().changes.empty());
  EXPECT_LT(sound.next().told, v);
  s_->insert("key 2", "now");
  close();
  EXPECT_EQ(all_of(sound).size(), 2U);
  EXPECT_EQ(all_of(early).size(), 1U);
}

TEST_P(Feeds, of_versions_that_a_power_cut_took_say_so) {
  write(6, 17);
  feed behind = s_->feed({});
  feed before = s_->feed({.after = 2});
  version_ranges lost;
  lost.add({4, newest() + 1});
  s_->lose(lost);
  expect_error(errc::version_lost, "", [&] { static_cast<void>(behind.next()); });
  EXPECT_EQ(all_of(before), by_hand(*s_, 2, 3));
  write(2, 18);
  // what is left of lost versions shows in later ones, so it is told with them
  EXPECT_EQ(all_of(before), by_hand(*s_, 3, newest()));
  expect_error(errc::version_lost, "", [&] { static_cast<void>(s_->feed({.after = 4})); });
}

TEST_P(Feeds, pass_lost_versions_in_batches_of_any_size_and_from_any_token) {
  write(6, 17);
  version_ranges lost;
  lost.add({4, newest() + 1});
  s_->lose(lost);
  write(3, 18);
  const told_changes wanted = by_hand(*s_, 2, newest());
  for (const std::size_t max : {1U, 3U, 1000U}) {
    feed f = s_->feed({.after = 2});
    told_changes all;
    for (;;) {
      const feed_batch batch = f.next(max);
      append(all, batch);
      if (batch.changes.empty()) break;
      f = s_->feed({.token = batch.token});
    }
    EXPECT_EQ(all, wanted) << "in batches of " << max;
  }
  // as a feed with a name it goes on there, too
  feed kept = s_->feed({.name = "kept", .after = 2});
  told_changes all;
  for (bool end = false; !end;) {
    const feed_batch batch = kept.next(1);
    append(all, batch);
    end = batch.changes.empty();
    kept.acknowledge(batch.token);
    kept = s_->open_feed("kept");
  }
  EXPECT_EQ(all, wanted);
}

TEST_P(Feeds, of_a_store_opened_for_reading_keep_their_place_with_the_client) {
  write(4, 19);
  s_->insert("key open", "not closed");
  const std::string token = s_->feed({.after = 1}).next(30).token;
  static_cast<void>(s_->feed({.name = "kept", .after = 2}));
  open(access::read_only);
  const told_changes wanted = by_hand(*s_, 1, newest());
  feed f = s_->feed({.token = token});
  EXPECT_EQ(all_of(f), told_changes(wanted.begin() + 30, wanted.end()));
  EXPECT_EQ(f.next(1, 5ms).told, newest());
  feed kept = s_->feed({.name = "kept"});
  const feed_batch batch = kept.next();
  EXPECT_EQ(batch.changes.size(), by_hand(*s_, 2, newest()).size());
  expect_error(errc::read_only, "", [&] { kept.acknowledge(batch.token); });
  expect_error(errc::read_only, "", [&] { static_cast<void>(s_->feed({.name = "new"})); });
}

TEST_P(Feeds, a_function_that_throws_loses_nothing) {
  write(3, 20);
  int calls = 0;
  const auto moody = filter::of("moody", 1, [&](const item&) {
    if (++calls % 150 == 0) throw std::runtime_error("not now");
    return true;
  });
  feed f = s_->feed({.after = 0, .where = moody});
  told_changes all;
  for (int failures = 0;;) {
    try {
      const feed_batch batch = f.next(20);
      append(all, batch);
      if (batch.changes.empty()) break;
    } catch (const std::runtime_error&) {
      ASSERT_LT(++failures, 1000);
    }
  }
  EXPECT_EQ(all, by_hand(*s_, 0, newest()));
}

TEST_P(Feeds, bad_requests_are_refused) {
  write(3, 21);
  const std::string token = s_->feed({.after = 1}).token();
  const auto refused = [&](std::string bad, const std::string& why, const filter& where = {}) {
    expect_error(errc::bad_token, why, [&] { static_cast<void>(s_->feed({.where = where, .token = bad})); });
  };
  refused("short", "5 bytes");
  for (std::size_t i = 0; i < token.size(); ++i) {
    std::string bad = token;
    bad[i] = static_cast<char>(bad[i] ^ 4);
    refused(bad, "damaged");
  }
  refused(token, "another filter", filter("removed"));
  refused(s_->at(1).page(filter(), {.matches = 1}).token, "", filter());
  scratch elsewhere;
  store other(elsewhere / "other");
  other.tag();
  other.tag();
  expect_error(errc::bad_token, "another store", [&] { static_cast<void>(other.feed({.token = token})); });
  expect_error(errc::version_not_closed, "", [&] { static_cast<void>(s_->feed({.after = s_->clock()})); });
  feed f = s_->feed({.after = 1});
  expect_error(errc::invalid_argument, "without a name", [&] { f.acknowledge(token); });
  expect_error(errc::invalid_argument, "without a name", [&] { f.drop(); });
  expect_error(errc::invalid_argument, "within a snapshot",
               [&] { static_cast<void>(s_->feed({.after = 1, .behind_key = "key"})); });
  expect_error(errc::invalid_argument, "0 changes", [&] { static_cast<void>(f.next(0)); });
  expect_error(errc::invalid_argument, "token", [&] { static_cast<void>(s_->feed({.name = "n", .token = token})); });
  s_->close();
  expect_error(errc::closed, "", [&] { static_cast<void>(f.next()); });
}

TEST_P(Feeds, signed_tokens_are_made_by_who_knows_the_secret) {
  write(4, 23);
  const auto signed_feed = [&](const std::string& token, const std::string& secret) {
    return s_->feed({.after = 1, .token = token, .secret = secret});
  };
  const auto refused = [&](const std::string& why, const std::string& token, const std::string& secret) {
    expect_error(errc::bad_token, why, [&] { static_cast<void>(signed_feed(token, secret)); });
  };
  const std::string token = signed_feed("", "secret").next(30).token;
  const std::string unsigned_token = signed_feed("", "").next(30).token;
  EXPECT_EQ(unsigned_token.size(), 54U);  // the layout that all releases read
  EXPECT_EQ(unsigned_token[0], 2);
  EXPECT_EQ(token.size(), 86U);
  EXPECT_EQ(token[0], 3);
  feed rest = signed_feed(token, "secret");
  feed same = signed_feed(unsigned_token, "");
  EXPECT_EQ(all_of(rest), all_of(same));
  refused("forged, or signed with another secret", token, "other");
  refused("is signed; give the secret", token, "");
  refused("is not signed", unsigned_token, "secret");
  // whoever can compute the checksum cannot sign
  for (std::size_t i = 0; i < token.size(); ++i) {
    if (i >= 42 && i < 46) continue;
    std::string forged = token;
    forged[i] = static_cast<char>(forged[i] ^ 1);
    std::uint32_t crc = crc32c(0x66656564U, forged.data(), 42);
    crc = crc32c(crc, forged.data() + 46, forged.size() - 46);
    std::memcpy(forged.data() + 42, &crc, sizeof crc);
    refused("", forged, "secret");
  }
  // a kept one takes no others either
  static_cast<void>(s_->feed({.name = "kept", .after = 1}));
  feed kept = s_->open_feed("kept", {}, "secret");
  const std::string mine = kept.next(10).token;
  expect_error(errc::bad_token, "not signed", [&] { kept.acknowledge(unsigned_token); });
  kept.acknowledge(mine);
  EXPECT_EQ(s_->feed({.name = "kept", .secret = "secret"}).token(), mine);
}

INSTANTIATE_TEST_SUITE_P(All, Feeds,
                         ::testing::Values(setting{place::tmpfs, durability::none},
                                           setting{place::tmpfs, durability::operation},
                                           setting{place::tmpfs, durability::tag, index_kind::skip_list, 2},
                                           setting{place::tmpfs, durability::operation, index_kind::persistent},
                                           setting{place::tmpfs, durability::none, index_kind::hash}),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace icecore::testing
