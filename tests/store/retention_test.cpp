// Which versions a store keeps: what expires, what an expired version says wherever it is asked for, what holds
// versions, and how large a store gets that keeps few. Random scripts with retention are in model_test.cpp.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <bit>
#include <chrono>
#include <csignal>
#include <cstring>
#include <random>
#include <thread>

#include "icecore/icecore.hpp"
#include "pool/manifest/manifest.hpp"
#include "store/core.hpp"
#include "store/packed/retention/expiry.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/process.hpp"
#include "support/store_in_memory.hpp"

namespace icecore {

// for messages of failed expectations
std::ostream& operator<<(std::ostream& out, const version_range& range) {
  return out << '[' << range.first << ", " << range.end << ')';
}

}  // namespace icecore

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;
using detail::expired_versions;
using detail::expiry_question;
using detail::range_list;

// ---- Which versions expire ----

constexpr std::int64_t hour_ns = 3'600'000'000'000;
constexpr std::int64_t now_ns = 20'000 * 24 * hour_ns + 5 * hour_ns;

tag_info tag_at(version v, std::int64_t time_ns) { return {v, time_ns, "tag " + std::to_string(v), {}}; }

TEST(Expiry, of_a_policy_that_keeps_all_is_nothing) {
  EXPECT_EQ(expired_versions({.policy = {}, .up_to = 100, .now_ns = now_ns}), range_list{});
  EXPECT_EQ(expired_versions({.policy = {.newest = 5}, .up_to = 0, .now_ns = now_ns}), range_list{});
  EXPECT_EQ(expired_versions({.policy = {.newest = 5}, .up_to = 5, .now_ns = now_ns}), range_list{});
}

TEST(Expiry, leaves_the_newest_versions_that_can_be_read) {
  EXPECT_EQ(expired_versions({.policy = {.newest = 3}, .up_to = 10, .now_ns = now_ns}), (range_list{{1, 8}}));
  // lost and expired ones do not count
  EXPECT_EQ(
      expired_versions({.policy = {.newest = 3}, .before = {{4, 6}}, .lost = {{7, 10}}, .up_to = 10, .now_ns = now_ns}),
      (range_list{{1, 3}, {4, 6}, {7, 10}}));
}

TEST(Expiry, leaves_tagged_versions_and_always_the_newest) {
  const std::vector<tag_info> tags{tag_at(2, 1), tag_at(3, 2), tag_at(7, 3)};
  EXPECT_EQ(expired_versions({.policy = {.tagged = true}, .tags = tags, .up_to = 9, .now_ns = now_ns}),
            (range_list{{1, 2}, {4, 7}, {8, 9}}));
}

TEST(Expiry, takes_a_version_for_as_old_as_the_first_tag_from_it_on) {
  const std::vector<tag_info> tags{tag_at(3, now_ns - 10 * hour_ns), tag_at(6, now_ns - hour_ns)};
  const auto younger = [&](std::chrono::seconds than) {
    return expired_versions({.policy = {.younger_than = than}, .tags = tags, .up_to = 9, .now_ns = now_ns});
  };
  EXPECT_EQ(younger(2h), (range_list{{1, 4}}));
  EXPECT_EQ(younger(11h), range_list{});
  EXPECT_EQ(younger(30min), (range_list{{1, 7}}));
  EXPECT_EQ(younger(std::chrono::seconds::max()), range_list{});
  // times that go back, as callers may give them
  const std::vector<tag_info> odd{tag_at(3, now_ns - hour_ns), tag_at(6, now_ns - 10 * hour_ns)};
  EXPECT_EQ(expired_versions({.policy = {.younger_than = 2h}, .tags = odd, .up_to = 9, .now_ns = now_ns}),
            (range_list{{4, 7}}));
}

TEST(Expiry, thins_as_backups_do) {
  std::vector<tag_info> tags;  // one each 20 minutes, for 20 days
  for (version v = 1; v <= 3 * 24 * 20; ++v) {
    tags.push_back(tag_at(v, now_ns - std::int64_t{3 * 24 * 20 - static_cast<std::int64_t>(v)} * hour_ns / 3));
  }
  const version last = tags.size();
  const auto kept = [&](const retention& policy) {
    std::vector<version> some;
    for (const version_range& each : detail::between(
             expired_versions({.policy = policy, .tags = tags, .up_to = last, .now_ns = now_ns}), 1, last + 1)) {
      for (version v = each.first; v < each.end; ++v) some.push_back(v);
    }
    return some;
  };
  // now is 05:00 on a Friday, and tagged: 05:00 itself, and 04:40, 03:40 ...
  EXPECT_EQ(kept({.hourly = 3}), (std::vector<version>{last - 4, last - 1, last}));
  // 23:40 of the days before
  EXPECT_EQ(kept({.daily = 3}), (std::vector<version>{last - 16 - 72, last - 16, last}));
  // Sundays, 23:40
  const version sunday = last - 16 - 4 * 72;
  EXPECT_EQ(kept({.weekly = 3}), (std::vector<version>{sunday - 7 * 72, sunday, last}));
  EXPECT_EQ(kept({.hourly = 2, .weekly = 2}), (std::vector<version>{sunday, last - 1, last}));
}

TEST(Expiry, leaves_what_is_held_and_never_takes_back_what_has_expired) {
  EXPECT_EQ(expired_versions({.policy = {.newest = 1}, .held = {{7, 8}, {3, 5}}, .up_to = 9, .now_ns = now_ns}),
            (range_list{{1, 3}, {5, 7}, {8, 9}}));
  const range_list before{{2, 6}};
  EXPECT_EQ(expired_versions({.policy = {}, .before = before, .held = {{0, 10}}, .up_to = 9, .now_ns = now_ns}),
            before);
}

TEST(Expiry, keeps_its_list_short_by_keeping_the_shortest_stretches) {
  std::vector<tag_info> tags{tag_at(2, 1), tag_at(9, 2), tag_at(11, 3), tag_at(20, 4)};
  EXPECT_EQ(
      expired_versions({.policy = {.tagged = true}, .tags = tags, .up_to = 20, .now_ns = now_ns, .ranges_max = 2}),
      (range_list{{3, 9}, {12, 20}}));
}

TEST(Expiry, tells_the_greatest_version_that_is_added) {
  constexpr version last = 7;
  const auto ranges_of = [](unsigned bits) {
    std::vector<version_range> all;
    for (version v = 1; v <= last; ++v) {
      if ((bits >> v & 1U) != 0) all.push_back({v, v + 1});
    }
    return detail::in_order(std::move(all));
  };
  for (unsigned now = 0; now < 2U << last; now += 2) {
    for (unsigned before = 0; before <= now; before += 2) {
      if ((before & ~now) != 0) continue;
      const version added = now == before ? 0 : static_cast<version>(std::bit_width(now & ~before) - 1);
      EXPECT_EQ(detail::greatest_added(ranges_of(before), ranges_of(now)), added) << before << " " << now;
    }
  }
}

// ---- A store ----

class Retention : public ::testing::Test, protected store_in_memory {
 protected:
  /// Versions 1 to `count`; each writes "all" and a key of its own, and has the tag of its number.
  void fill(unsigned count, unsigned from = 1) const {
    store s(path_, how_);
    for (unsigned v = from; v < from + count; ++v) {
      s.insert("all", std::to_string(v));
      s.insert("of " + std::to_string(v), "there");
      if (v > 1) s.remove("of " + std::to_string(v - 1));
      ASSERT_EQ(s.tag(std::to_string(v)), v);
    }
  }
  void keep(const retention& which) const {
    store s(path_, how_);
    s.set_retention(which);
  }
  static void expect_expired(const std::function<void()>& call) {
    expect_error(errc::version_expired, "has expired: a compaction gave up ", call);
  }
};

TEST_F(Retention, of_a_new_store_is_all) {
  fill(3);
  EXPECT_TRUE(store(path_, how_).retention().keeps_all());
  const compaction_report done = pack();
  EXPECT_EQ(done.versions_expired, 0U);
  EXPECT_EQ(done.records_dropped, 0U);
  EXPECT_TRUE(store(path_, how_).expired_versions().empty());
}

TEST_F(Retention, changes_nothing_before_the_next_compaction) {
  fill(5);
  keep({.newest = 2});
  store s(path_, how_);
  EXPECT_EQ(s.retention(), (retention{.newest = 2}));
  for (version v = 1; v <= 5; ++v) EXPECT_EQ(s.find("all", v)->bytes(), std::to_string(v));
}

TEST_F(Retention, makes_an_expired_version_an_error_wherever_it_is_read) {
  fill(9);
  keep({.newest = 2});
  const compaction_report done = pack();
  EXPECT_EQ(done.versions_expired, 7U);
  EXPECT_GT(done.records_dropped, 0U);
  store s(path_, how_);
  ASSERT_EQ(s.expired_versions().size(), 1U);
  EXPECT_EQ(s.expired_versions().front(), (version_range{1, 8}));
  for (const version v : {version{1}, version{4}, version{7}}) {
    EXPECT_TRUE(s.is_expired(v));
    expect_expired([&] { static_cast<void>(s.find("all", v)); });
    expect_expired([&] { static_cast<void>(s.contains("none", v)); });
    expect_expired([&] { static_cast<void>(s.at(v)); });
    expect_expired([&] { static_cast<void>(s.at(std::to_string(v))); });
    expect_expired([&] { static_cast<void>(s.diff(v, 9)); });
    expect_expired([&] { static_cast<void>(s.diff(9, v)); });
    expect_expired([&] { static_cast<void>(s.changes(v, 9)); });
    expect_expired([&] { static_cast<void>(s.during(filter("true"), v, 9)); });
    expect_expired([&] { static_cast<void>(s.each({9, v})); });
    expect_expired([&] { static_cast<void>(s.feed({.after = v})); });
    expect_expired([&] { static_cast<void>(s.feed({.after = v, .snapshot = true})); });
    expect_expired([&] { static_cast<void>(s.start({.name = "q", .at = v, .where = filter("true")})); });
    std::array<std::string_view, 1> keys{"all"};
    std::array<std::optional<std::string_view>, 1> answers;
    expect_expired([&] { static_cast<void>(s.find_many(keys, v, answers)); });
    std::array<version, 1> versions{v};
    expect_expired([&] { static_cast<void>(s.find_many(keys, versions, answers)); });
  }
  // changes that begin before what has expired, or behind it
  expect_expired([&] { static_cast<void>(s.changes(0, 9)); });
  expect_expired([&] { static_cast<void>(s.during(filter("true"), 0, 9)); });
  expect_expired([&] { static_cast<void>(s.feed({.after = 0})); });
  EXPECT_EQ(s.at(0).size(), 0U);
  EXPECT_EQ(s.find("all", 8)->bytes(), "8");
  EXPECT_EQ(s.find("all", 9)->bytes(), "9");
  EXPECT_EQ(s.at(8).size(), 2U);
  std::size_t differences = 0;
  for ([[maybe_unused]] const auto& each : s.diff(0, 8)) ++differences;
  EXPECT_EQ(differences, 2U);
  std::size_t changes = 0;
  for ([[maybe_unused]] const auto& each : s.changes(8, 9)) ++changes;
  EXPECT_EQ(changes, 3U);
  EXPECT_EQ(s.tags().size(), 9U) << "tags of expired versions are listed";
  EXPECT_TRUE(s.history("all").thinned());
  EXPECT_EQ(s.history("all").newest_first().size(), 2U);
  EXPECT_TRUE(s.history("of 3").newest_first().empty());
  EXPECT_TRUE(s.verify().ok());
}

TEST_F(Retention, keeps_the_newest_record_at_or_before_each_kept_version) {
  {
    store s(path_, how_);
    s.insert("old", "1");
    s.insert("removed", "1");
    s.insert("gone", "1");
    s.tag();
    s.remove("gone");
    s.tag();
    for (unsigned v = 3; v < 20; ++v) s.tag(v == 10 ? "ten" : "");
    s.remove("removed");
    s.tag();
    s.set_retention({.tagged = true});
  }
  static_cast<void>(pack());
  const store s(path_, how_);
  EXPECT_EQ(s.find("old", s.find_tag("ten")->version)->bytes(), "1");
  EXPECT_EQ(s.find("removed", s.find_tag("ten")->version)->bytes(), "1");
  EXPECT_FALSE(s.find("gone", s.find_tag("ten")->version));
  EXPECT_EQ(s.find("old")->bytes(), "1");
  EXPECT_FALSE(s.find("removed"));
  EXPECT_EQ(s.keys().size(), 2U) << "nothing is left of a key that no kept version shows";
}

TEST_F(Retention, keeps_a_removal_while_an_older_stratum_shows_the_key) {
  {
    store s(path_, how_);
    for (unsigned i = 0; i < 1000; ++i) s.insert("key " + std::to_string(i), "1");
    s.tag();
  }
  static_cast<void>(pack());
  {
    store s(path_, how_);
    s.remove("key 7");
    s.tag();
    s.tag();
    s.set_retention({.newest = 1});
  }
  const compaction_report done = pack(/*whole=*/false);
  EXPECT_EQ(done.strata, 2U);
  EXPECT_FALSE(store(path_, how_).find("key 7"));
  expect_expired([&] { static_cast<void>(store(path_, how_).find("key 7", 1)); });
  static_cast<void>(pack());
  const store s(path_, how_);
  EXPECT_FALSE(s.find("key 7"));
  EXPECT_TRUE(s.history("key 7").newest_first().empty());
  EXPECT_EQ(s.latest().size(), 999U);
}

TEST_F(Retention, never_brings_an_expired_version_back) {
  fill(5);
  keep({.newest = 1});
  static_cast<void>(pack());
  keep(retention::all());
  fill(2, 6);
  const compaction_report done = pack();
  EXPECT_EQ(done.versions_expired, 0U);
  const store s(path_, how_);
  for (version v = 1; v < 5; ++v) expect_expired([&] { static_cast<void>(s.at(v)); });
  for (version v = 5; v < 8; ++v) EXPECT_EQ(s.find("all", v)->bytes(), std::to_string(v));
}

TEST_F(Retention, lets_expire_what_is_packed_already) {
  fill(6);
  static_cast<void>(pack());
  EXPECT_FALSE(pack().packed);
  keep({.newest = 2});
  const compaction_report done = pack(/*whole=*/false);
  EXPECT_TRUE(done.packed);
  EXPECT_EQ(done.versions_expired, 4U);
  EXPECT_GT(done.records_dropped, 0U);
  EXPECT_FALSE(pack().packed) << "there is nothing left to let go";
}

TEST_F(Retention, leaves_a_store_as_it_is_of_which_nothing_expires_if_told_to) {
  const compaction_options if_expiring{.only_if_expiring = true, .on_progress = {}};
  fill(6);
  {
    store s(path_, how_);
    s.insert("open", "6 and more");
  }
  EXPECT_FALSE(compact(path_, how_, if_expiring).packed);
  {
    const store s(path_, how_);
    EXPECT_EQ(s.stats().clock, 7U) << "the open version is open";
    EXPECT_EQ(s.stats().strata, 0U);
  }
  keep({.newest = 2});
  const compaction_report done = compact(path_, how_, if_expiring);
  EXPECT_TRUE(done.packed);
  EXPECT_EQ(done.up_to, 7U);
  EXPECT_EQ(done.versions_expired, 5U);
  EXPECT_FALSE(compact(path_, how_, if_expiring).packed);
  store s(path_, how_);
  s.set_retention({.newest = 3});
  s.insert("open", "8");
  EXPECT_FALSE(s.compact(if_expiring).packed);
  EXPECT_EQ(s.find("open", 8)->bytes(), "8") << "it closes the version, as it does otherwise";
  s.insert("open", "9");
  EXPECT_TRUE(s.compact(if_expiring).packed);
  expect_expired([&] { static_cast<void>(s.at(6)); });
}

TEST_F(Retention, is_noted_of_strata_that_stay_if_records_of_theirs_may_go) {
  const auto pack_keys = [&](unsigned count) {
    {
      store s(path_, how_);
      for (unsigned i = 0; i < count; ++i) s.insert("key " + std::to_string(i), "value");
      s.tag();
    }
    return pack(false).versions_expired;
  };
  const auto may_thin = [&] {  // of each stratum, the youngest first: it is one extent
    const store s(path_, how_);
    std::vector<bool> all;
    for (const format::named_extent& each : s.core().packing().extents) {
      EXPECT_EQ(each.stratum, all.size());
      all.push_back((each.flags & format::extent_may_thin) != 0);
    }
    return all;
  };
  EXPECT_EQ(pack_keys(1'000), 0U);
  EXPECT_EQ(pack_keys(300), 0U);
  keep({.newest = 2});
  EXPECT_EQ(pack_keys(10), 1U);
  EXPECT_EQ(may_thin(), (std::vector{false, false, true}));
  EXPECT_EQ(pack_keys(1), 1U);  // version 2, in which the second stratum begins
  EXPECT_EQ(may_thin(), (std::vector{false, false, true, true}));
  keep({});
  EXPECT_EQ(pack_keys(1), 0U);
  EXPECT_EQ(may_thin(), (std::vector{false, false, true, true})) << "nothing expires, and what has expired stays so";
  EXPECT_EQ(pack().records_dropped, 310U);
  EXPECT_EQ(may_thin(), std::vector{false});
}

TEST_F(Retention, is_held_by_kept_queries_and_feeds) {
  fill(9);
  {
    store s(path_, how_);
    s.set_retention({.newest = 1});
    s.start({.name = "reads three", .at = 3, .where = filter("true")}).run();
    feed f = s.feed({.name = "mirror", .after = 5});
    f.acknowledge(f.next(2).token);  // amid version 6
  }
  EXPECT_EQ(pack().versions_expired, 3U);
  store s(path_, how_);
  for (const version v : {version{1}, version{2}, version{4}}) expect_expired([&] { static_cast<void>(s.at(v)); });
  for (const version v : {version{3}, version{5}, version{6}, version{7}, version{8}, version{9}})
    EXPECT_EQ(s.find("all", v)->bytes(), std::to_string(v));
  std::size_t rows = 0;
  const query kept = s.query("reads three");
  for ([[maybe_unused]] const query_row& row : kept.results()) ++rows;
  EXPECT_EQ(rows, 2U);
  feed f = s.open_feed("mirror");
  EXPECT_EQ(f.next(100).told, 9U);
  s.drop_feed("mirror");
}

TEST_F(Retention, refuses_a_token_whose_place_has_expired) {
  fill(6);
  std::string token;
  {
    const store s(path_, how_);
    feed f = s.feed({.after = 1});
    token = f.next(3).token;
  }
  {  // the place can be read, but not all that comes behind it
    store s(path_, how_);
    const version_range four{4, 5};
    s.expire({&four, 1});
    EXPECT_EQ(s.find("all", 2)->bytes(), "2");
    expect_expired([&] { static_cast<void>(s.feed({.token = token})); });
  }
  keep({.newest = 1});
  static_cast<void>(pack());
  const store s(path_, how_);
  expect_expired([&] { static_cast<void>(s.feed({.token = token})); });
}

TEST_F(Retention, is_in_checkpoints) {
  fill(6);
  keep({.tagged = true, .newest = 2, .younger_than = 5s, .hourly = 1, .daily = 2, .weekly = 3});
  const retention set = store(path_, how_).retention();
  keep({.newest = 2});
  static_cast<void>(pack());
  keep(set);
  store(path_, how_).checkpoint().write(folder_ / "copy.ice");
  const store s(folder_ / "copy.ice", how_);
  EXPECT_EQ(s.retention(), set);
  expect_expired([&] { static_cast<void>(s.at(3)); });
  EXPECT_EQ(s.find("all", 5)->bytes(), "5");
}

TEST_F(Retention, expires_for_a_copy_what_has_expired) {
  fill(6);
  {
    store s(path_, how_);
    const std::array<version_range, 2> some{{{2, 3}, {4, 6}}};
    s.expire(some);
    expect_expired([&] { static_cast<void>(s.at(4)); });
    EXPECT_EQ(s.find("all", 3)->bytes(), "3");
    const auto refuse = [&](version_range range, const std::string& part) {
      expect_error(errc::invalid_argument, part, [&] { s.expire({&range, 1}); });
    };
    refuse({0, 2}, "the empty store");
    refuse({5, 7}, "the present");
    refuse({7, 9}, "the present");
  }
  store s(path_, how_);
  ASSERT_EQ(s.expired_versions().size(), 2U);
  expect_expired([&] { static_cast<void>(s.at(2)); });
  expect_expired([&] { static_cast<void>(s.at(5)); });
  EXPECT_EQ(s.find("all", 6)->bytes(), "6");
}

TEST_F(Retention, survives_damage_of_one_of_its_two_places) {
  fill(2);
  keep({.newest = 7});
  const std::string sound = read_file(path_);
  const std::size_t at = format::manifest_anchor_offset + offsetof(format::manifest_anchor, retention);
  for (std::size_t byte = 0; byte < 2 * sizeof(format::retention_slot); byte += 5) {
    std::string broken = sound;
    broken[at + byte] = static_cast<char>(broken[at + byte] ^ 0x41);
    write_file(path_, broken);
    EXPECT_EQ(store(path_, how_).retention().newest, 7U) << byte;
  }
  std::string broken = sound;
  broken[at + 9] = broken[at + sizeof(format::retention_slot) + 9] = 'x';
  write_file(path_, broken);
  expect_error(errc::damaged, "set it again", [&] { static_cast<void>(store(path_, how_).retention()); });
  expect_error(errc::damaged, "set it again", [&] { static_cast<void>(pack()); });
  keep({.newest = 8});
  EXPECT_EQ(store(path_, how_).retention().newest, 8U);
  EXPECT_EQ(pack().versions_expired, 0U);
}

TEST_F(Retention, is_as_before_where_a_crash_cut_off_its_first_change) {
  fill(2);
  keep({.newest = 7});
  std::string cut = read_file(path_);
  const std::size_t at = format::manifest_anchor_offset + offsetof(format::manifest_anchor, retention);
  cut[at + 9] = 'x';
  cut.replace(at + sizeof(format::retention_slot), sizeof(format::retention_slot), sizeof(format::retention_slot),
              '\0');
  write_file(path_, cut);
  EXPECT_TRUE(store(path_, how_).retention().keeps_all());
  keep({.newest = 8});
  EXPECT_EQ(store(path_, how_).retention().newest, 8U);
}

TEST_F(Retention, takes_effect_as_a_whole_or_not_at_all_when_a_compaction_is_killed) {
  constexpr unsigned keys = 3'000;
  {
    store s(path_, how_);
    for (unsigned v = 1; v <= 6; ++v) {
      for (unsigned i = 0; i < keys; ++i) s.insert("key " + std::to_string(i), std::to_string(v));
      s.tag();
    }
    s.set_retention({.newest = 2});
    static_cast<void>(s.forget({.keys = {"key 17"}}));  // version 7
  }
  const std::string image = read_file(path_);
  const auto begun = std::chrono::steady_clock::now();
  static_cast<void>(pack());
  const auto took = std::chrono::steady_clock::now() - begun;
  std::mt19937 random(7);
  for (unsigned turn = 0; turn < 12; ++turn) {
    write_file(path_, image);
    child packing([&] {
      static_cast<void>(pack());
      return 0;
    });
    std::this_thread::sleep_for(took * (random() % 1'000) / 1'000);
    packing.kill(SIGKILL);
    static_cast<void>(packing.wait());
    {
      const store s(path_, how_);
      const bool expired = s.is_expired(1);
      for (version v = 1; v <= 7; ++v) {
        if (expired && v <= 5) {
          expect_expired([&] { static_cast<void>(s.at(v)); });
          continue;
        }
        ASSERT_EQ(s.find("key 16", v)->bytes(), std::to_string(std::min<version>(v, 6))) << turn;
        ASSERT_EQ(s.find("key 17", v).has_value(), !expired && v < 7) << turn << " " << v;
        ASSERT_EQ(s.at(v).size(), keys - (v == 7 || expired ? 1 : 0)) << turn;
      }
    }
    static_cast<void>(pack());
    const store s(path_, how_);
    expect_expired([&] { static_cast<void>(s.at(5)); });
    EXPECT_FALSE(s.find("key 17", 6));
    EXPECT_TRUE(s.verify().ok());
  }
}

TEST_F(Retention, refuses_a_negative_age) {
  expect_error(errc::invalid_argument, "not negative", [&] { keep({.younger_than = -1s}); });
}

TEST_F(Retention, keeps_a_store_small_whose_keys_are_written_again_and_again) {
  constexpr unsigned keys = 5'000;
  std::uint64_t most = 0;
  std::uint64_t live = 0;
  for (unsigned turn = 1; turn <= 100; ++turn) {
    {
      store s(path_, how_);
      if (turn == 1) s.set_retention({.newest = 2});
      live = 0;
      for (unsigned i = 0; i < keys; ++i) {
        const std::string key = "key " + std::to_string(i);
        const std::string value = std::to_string(turn) + std::string(100, static_cast<char>('a' + turn % 26));
        s.insert(key, value);
        live += key.size() + value.size();
      }
      s.tag();
    }
    most = std::max(most, pack(/*whole=*/false).bytes_after);
  }
  // two versions are live
  EXPECT_LT(most, 2 * live * 5 / 2) << most << " of " << 2 * live;
  RecordProperty("bytes", std::to_string(most));
  RecordProperty("live", std::to_string(2 * live));
  const store s(path_, how_);
  EXPECT_EQ(s.history("key 7").newest_first().size(), 2U);
}

}  // namespace
}  // namespace icecore::testing
