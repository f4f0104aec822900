// Restoring for another number of servers: what is kept, and what a kill leaves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <future>
#include <memory>
#include <thread>

#include "icecore/error.hpp"
#include "icecore/store.hpp"
#include "service/owner.hpp"
#include "service/read/hidden_keys.hpp"
#include "service/service.hpp"
#include "service/snapshot/files.hpp"
#include "service/snapshot/numbering.hpp"
#include "service/snapshot/placing.hpp"

namespace icecore::service {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

placed_tag tag(std::string name, version at) { return {.name = std::move(name), .note = {}, .version = at}; }

TEST(Numbering, of_one_server_or_of_servers_that_agree_changes_nothing) {
  const numbering one({{tag("a", 3), tag("", 5), tag("b", 9)}});
  EXPECT_TRUE(one.changes_nothing());
  EXPECT_EQ(one.of(0, 4), 4U);
  EXPECT_EQ(one.of(0, 100), 100U);
  const numbering same({{tag("a", 3), tag("b", 9)}, {tag("a", 3), tag("b", 9)}});
  EXPECT_TRUE(same.changes_nothing());
  EXPECT_EQ(same.of(1, 1), 1U);
  const numbering none({{}, {}});
  EXPECT_EQ(none.of(1, 7), 7U);
}

TEST(Numbering, gives_each_common_tag_one_version_and_keeps_the_order_between) {
  const numbering by({{tag("a", 2), tag("b", 10)}, {tag("a", 5), tag("b", 6)}});
  EXPECT_FALSE(by.changes_nothing());
  ASSERT_EQ(by.tags().size(), 2U);
  EXPECT_EQ(by.of(0, 2), by.of(1, 5));
  EXPECT_EQ(by.of(0, 10), by.of(1, 6));
  EXPECT_EQ(by.tags()[1].version, by.of(0, 10));
  for (std::size_t server = 0; server < 2; ++server) {
    for (version v = 1; v < 20; ++v) EXPECT_LT(by.of(server, v - 1), by.of(server, v)) << server << ": " << v;
  }
  version_ranges lost;
  lost.add({4, 8});
  const version_ranges moved = by.of(1, lost);
  for (version v = 0; v < 20; ++v) EXPECT_EQ(moved.contains(by.of(1, v)), lost.contains(v)) << v;
}

TEST(Numbering, leaves_out_tags_that_not_all_have_in_one_order) {
  const numbering by({{tag("a", 1), tag("mine", 2), tag("b", 3), tag("c", 4), tag("", 5)},
                      {tag("a", 1), tag("c", 2), tag("b", 3), tag("theirs", 4)}});
  std::vector<std::string> kept;
  for (const placed_tag& each : by.tags()) kept.push_back(each.name);
  EXPECT_THAT(kept, ElementsAre("a", "b"));
  EXPECT_THAT(by.left_out(), ElementsAre("mine", "c", "(one without a name)", "theirs"));
}

class Restore : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string made = (std::filesystem::temp_directory_path() / "icecore-restore-XXXXXX").string();
    ASSERT_NE(::mkdtemp(made.data()), nullptr);
    folder_ = made;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static std::unique_ptr<service> start(const std::filesystem::path& data, group_place place = {}) {
    service_options options;
    options.data = data;
    options.limits.free_disk_bytes = 0;
    options.group = std::move(place);
    return std::make_unique<service>(std::move(options));
  }
  static std::shared_ptr<database> create(service& in, version_rule rule = version_rule::tag) {
    database_settings settings;
    settings.name = "one";
    settings.rule = rule;
    return in.create(principal::anyone(), settings);
  }
  static std::shared_ptr<database> open(service& in) { return in.find_database(principal::anyone(), "one"); }
  static void put(database& db, std::string key, std::string value, lease_number lease = 0) {
    transaction what;
    what.then.push_back(
        {.what = operation::kind::put, .key = std::move(key), .value = std::move(value), .lease = lease});
    std::promise<result<outcome>> promised;
    db.write(std::move(what), [&](result<outcome> came) { promised.set_value(std::move(came)); });
    const auto came = promised.get_future().get();
    if (const auto* failed = std::get_if<failure>(&came)) raise(*failed);
  }
  static std::string read(database& db, std::string_view key, const point& at = newest{}) {
    const auto is = db.find(key, at);
    return is ? std::string(is->value()) : "(none)";
  }

  // Snapshots of three independent servers, each with its keys of 0 to 999 in two tagged versions.
  std::vector<std::filesystem::path> three_snapshots() {
    std::vector<std::filesystem::path> all;
    for (std::uint32_t s = 0; s < 3; ++s) {
      const auto server = start(folder_ / ("server" + std::to_string(s)), {.name = "g", .index = s, .size = 3});
      const auto db = create(*server);
      for (const std::string name : {"first", "second"}) {
        for (int i = 0; i < 1000; ++i) {
          const std::string key = std::to_string(i);
          if (owner_of(key, 3) == s) put(*db, key, name);
        }
        for (std::uint32_t more = 0; more < s; ++more) {
          put(*db, "of" + std::to_string(s), name);
          db->tag({});
        }
        db->tag({.name = name});
      }
      server->write_snapshot(principal::anyone(), all.emplace_back(folder_ / ("snapshot" + std::to_string(s))));
    }
    return all;
  }

  std::filesystem::path folder_;
};

TEST_F(Restore, of_one_server_for_several_keeps_leases_compaction_and_users_at_each) {
  {
    const auto server = start(folder_ / "data");
    server->users().ensure_root("secret");
    const auto db = create(*server, version_rule::write);
    put(*db, "old", "1");
    put(*db, "old", "2");
    db->compact(2);
    const lease_number lease = db->grant(100s, 7).number;
    for (int i = 0; i < 50; ++i) put(*db, std::to_string(i), "1", i % 2 == 0 ? lease : 0);
    server->write_snapshot(principal::anyone(), folder_ / "snapshot");
  }
  std::size_t leased = 0;
  for (std::uint32_t s = 0; s < 3; ++s) {
    const group_place place{.name = "g", .index = s, .size = 3};
    const auto to = folder_ / ("new" + std::to_string(s));
    EXPECT_THAT(restore_snapshot({.from = {folder_ / "snapshot"}, .to = to, .place = place}), IsEmpty());
    EXPECT_EQ(([&] {
                try {
                  start(to);
                } catch (const error& e) {
                  return static_cast<errc>(e.code().value());
                }
                return errc{};
              })(),
              errc::other_cluster)
        << "the folder is for its place alone";
    const auto server = start(to, place);
    const auto db = open(*server);
    for (int i = 0; i < 50; ++i) {
      const std::string key = std::to_string(i);
      EXPECT_EQ(read(*db, key), owner_of(key, 3) == s ? "1" : "(none)");
    }
    EXPECT_EQ(db->status().compacted, 2U);
    leased += db->lease(7, true).keys.size();
    EXPECT_EQ(server->users().users(principal::anyone()).size(), 1U);
  }
  EXPECT_EQ(leased, 25U);
  EXPECT_NE(start(folder_ / "new0", {.name = "g", .index = 0, .size = 3})->identity(),
            start(folder_ / "new1", {.name = "g", .index = 1, .size = 3})->identity());
}

TEST_F(Restore, what_power_cuts_took_and_removals_of_absent_keys_come_along) {
  const auto file = folder_ / "a.ice";
  {
    store made(file);
    made.insert("a", "1");
    made.tag("one");
    batch absent;
    absent.remove("never");
    made.apply(absent);
    made.skip_to(10);
    made.insert("a", std::string(200'000, 'x'));
    made.skip_to(20);
    version_ranges lost;
    lost.add({5, 8});
    made.lose(lost);
    made.close();
  }
  const placed done = place_records({.parts = {file}, .to = folder_ / "b.ice"});
  EXPECT_EQ(done.records, 3U);
  EXPECT_FALSE(done.renumbered);
  store again(folder_ / "b.ice");
  EXPECT_EQ(again.clock(), 20U);
  EXPECT_TRUE(again.lost_versions().contains(5));
  EXPECT_TRUE(again.lost_versions().contains(7));
  EXPECT_FALSE(again.lost_versions().contains(8));
  EXPECT_EQ(again.at("one").find("a")->bytes(), "1");
  EXPECT_EQ(again.find("a")->bytes().size(), 200'000U);
  EXPECT_EQ(again.stats().records, 3U);
  EXPECT_TRUE(again.verify().ok());
}

// Killed at any time, a restore leaves nothing under the folder's name, or all of it; and the next one succeeds.
TEST_F(Restore, killed_at_any_time_leaves_all_or_nothing) {
  const auto from = three_snapshots();
  const restore_request what{.from = from, .to = folder_ / "new", .place = group_place{}};
  const auto begin = std::chrono::steady_clock::now();
  restore_snapshot(what);  // how long it takes
  const auto takes = std::chrono::steady_clock::now() - begin;
  std::filesystem::remove_all(what.to);
  int whole = 0;
  int nothing = 0;
  constexpr int rounds = 30;
  for (int round = 0; round < rounds; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        restore_snapshot(what);
      } catch (...) {
        ::_exit(1);
      }
      ::_exit(0);
    }
    std::this_thread::sleep_for(takes * round * 3 / (rounds * 2));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) != 0) << "what a kill left was in the way";
    if (!std::filesystem::exists(what.to)) {
      ++nothing;
      continue;
    }
    ++whole;
    {
      const auto server = start(what.to);
      const auto db = open(*server);
      for (int i = 0; i < 1000; ++i) {
        ASSERT_EQ(read(*db, std::to_string(i), tag_name{"first"}), "first");
        ASSERT_EQ(read(*db, std::to_string(i)), "second");
      }
    }
    std::filesystem::remove_all(what.to);
  }
  EXPECT_GT(nothing, 0);
  restore_snapshot(what);
  EXPECT_FALSE(std::filesystem::exists(new_folder::partial_of(what.to)));
  EXPECT_EQ(read(*open(*start(what.to)), "of2", tag_name{"second"}), "second");
  std::cout << whole << " whole, " << nothing << " nothing\n";
}

}  // namespace
}  // namespace icecore::service
