// A dependent group: any server answers any request, and a tag is one cut of all.
#include "group_support.hpp"
#include "support/scratch.hpp"

namespace icecore::server::group {
namespace {

TEST_F(ServerGroup, any_server_reads_what_another_one_was_given) {
  start();
  const auto db = create("one", ranks() - 1);
  for (int i = 0; i < 20; ++i) put(*db, "key" + std::to_string(i * ranks() + rank()), std::to_string(i));
  meet();
  for (int i = 0; i < 20 * ranks(); ++i) EXPECT_EQ(read(*db, "key" + std::to_string(i)), std::to_string(i / ranks()));
  EXPECT_EQ(db->count({}, service::newest{}), static_cast<std::uint64_t>(20 * ranks()));
  stop();
}

TEST_F(ServerGroup, increments_of_all_servers_add_up) {
  start();
  const auto db = create("one");
  for (int i = 0; i < 25; ++i) {
    one(*db, {.what = service::operation::kind::increment, .key = "sum", .number = 1});
    service::transaction t;  // takes the lock, or sees who has it
    t.conditions.push_back({.key = "lock", .is = service::condition::kind::absent});
    t.then.push_back(service::operation::put("lock", std::to_string(rank())));
    t.otherwise.push_back({.what = service::operation::kind::get, .key = "lock"});
    write(*db, std::move(t));
  }
  meet();
  EXPECT_EQ(read(*db, "sum"), std::to_string(25 * ranks()));
  stop();
}

TEST_F(ServerGroup, a_tag_is_one_cut_of_all_servers) {
  start();
  const auto db = create("one");
  std::atomic<bool> over{false};
  // Each rank writes a pair of keys one after the other: in any version the first is equal, or one ahead.
  std::thread writer([&] {
    for (int i = 1; !over; ++i) {
      put(*db, "first" + std::to_string(rank()), std::to_string(i));
      put(*db, "second" + std::to_string(rank()), std::to_string(i));
    }
  });
  std::vector<version> tags;
  if (rank() == 0) {
    for (int i = 0; i < 5; ++i) {
      std::this_thread::sleep_for(10ms);
      tags.push_back(db->tag({.name = "tag" + std::to_string(i)}));
    }
  }
  meet();
  over = true;
  writer.join();
  meet();
  for (int i = 0; i < 5; ++i) {
    const service::tag_name at{"tag" + std::to_string(i)};
    for (int r = 0; r < ranks(); ++r) {
      const std::string first = read(*db, "first" + std::to_string(r), at);
      const std::string second = read(*db, "second" + std::to_string(r), at);
      const int a = first == "(none)" ? 0 : std::stoi(first);
      const int b = second == "(none)" ? 0 : std::stoi(second);
      EXPECT_TRUE(a == b || a == b + 1) << a << " and " << b;
    }
  }
  EXPECT_EQ(db->tags().size(), 5U);
  stop();
}

TEST_F(ServerGroup, what_is_there_is_there_after_a_restart) {
  start();
  auto db = create("one");
  put(*db, "key" + std::to_string(rank()), "1");
  meet();
  if (rank() == 0) db->tag({.name = "then"});
  meet();
  put(*db, "key" + std::to_string(rank()), "2");
  db.reset();
  stop();
  start();
  db = service_->find_database(root_, "one");
  for (int r = 0; r < ranks(); ++r) {
    EXPECT_EQ(read(*db, "key" + std::to_string(r)), "2");
    EXPECT_EQ(read(*db, "key" + std::to_string(r), service::tag_name{"then"}), "1");
  }
  meet();
  if (rank() == ranks() - 1) service_->drop(root_, "one");
  meet();
  EXPECT_EQ(code_of([&] { read(*db, "key0"); }), errc::unavailable);
  EXPECT_EQ(code_of([&] { static_cast<void>(service_->find_database(root_, "one")); }), errc::denied);
  stop();
}

TEST_F(ServerGroup, streams_and_watches_merge_all_servers) {
  start();
  const auto db = create("one");
  version begin = 0;
  if (rank() == 0) begin = db->resolve(service::newest{});
  begin = icecore::testing::of_rank_0(begin);
  const auto watch = db->watch_changes({.after = begin});
  if (rank() == 0) {
    put(*db, "a", "1");
    put(*db, "b", "2");
    db->tag({});
    put(*db, "a", "3");
    one(*db, service::operation::remove("b"));
    db->tag({});
  }
  meet();
  EXPECT_THAT(rows(*db->scan({})), ElementsAre("a=3"));
  EXPECT_THAT(rows(*db->changes({.after = begin})), ElementsAre("a=1", "b=2", "a=3", "b="));
  EXPECT_THAT(rows(*db->differences({.before = begin})), ElementsAre("a=3"));
  EXPECT_THAT(rows(*db->history("a", service::newest{})), ElementsAre("=3", "=1"));
  std::vector<std::string> told;
  while (told.size() < 4) {
    service::watched some = watch->next({});
    for (std::size_t i = 0; i < some.changes.size(); ++i) {
      told.push_back(std::string(some.changes.keys[i]) + "=" + std::string(some.changes.values[i]));
    }
    if (!some.changes.empty()) continue;
    const auto waked = std::make_shared<std::promise<void>>();
    watch->arm([waked] { waked->set_value(); });
    ASSERT_EQ(waked->get_future().wait_for(60s), std::future_status::ready);
  }
  EXPECT_THAT(told, ElementsAre("a=1", "b=2", "a=3", "b="));
  stop();
}

// Reads of the present give orders: one that comes after a drop waits for it, and the drop waits for no such read.
TEST_F(ServerGroup, is_changed_and_dropped_while_all_servers_read_the_present) {
  start();
  for (int round = 0; round < 5; ++round) {
    const auto db = create("one");
    put(*db, "key" + std::to_string(rank()), "value");
    std::vector<std::thread> readers;
    for (int i = 0; i < 4; ++i) {
      readers.emplace_back([&] {
        const auto read_on = [&] {
          for (;;) db->count({}, service::newest{});
        };
        EXPECT_EQ(code_of(read_on), errc::unavailable);  // until it is dropped
      });
    }
    meet();
    if (rank() == 0) {
      service::changed_settings slower;
      slower.interval = 50ms;
      service_->change(root_, "one", slower);
      std::this_thread::sleep_for(5ms);
      service_->drop(root_, "one");
    }
    for (std::thread& reader : readers) reader.join();
    meet();
  }
  stop();
}

// Under durability `tag` a power cut may take what a read of the present has closed.
TEST_F(ServerGroup, watches_are_told_only_what_a_power_cut_leaves_under_tag_durability) {
  if (!icecore::testing::root_of(icecore::testing::place::disk)) GTEST_SKIP() << "no folder here is on a disk";
  std::optional<icecore::testing::scratch> disk;
  if (rank() == 0) disk.emplace(icecore::testing::place::disk);
  start(of_rank(0, disk ? disk->path().native() : ""), ranks());
  const auto db = create("one", 0, {.durability = durability::tag});
  version begin = 0;
  if (rank() == 0) begin = db->tag({});
  begin = icecore::testing::of_rank_0(begin);
  const auto watch = db->watch_changes({.after = begin});
  meet();
  const std::string key = "key" + std::to_string(rank());
  put(*db, key, "1");
  meet();
  version closed = 0;
  if (rank() == ranks() - 1) closed = db->resolve(service::newest{});
  if (rank() == 0) service_->write_snapshot(root_, path() / "snapshot");
  meet();
  service::watched told = watch->next({});
  EXPECT_TRUE(told.changes.empty());
  EXPECT_EQ(told.told, begin);
  EXPECT_EQ(db->status().durable, begin);
  meet();
  // Nothing was written since: yet the tag makes durable what was closed before it.
  version tagged = 0;
  if (rank() == 0) tagged = db->tag({});
  meet();
  told = watch->next({});
  EXPECT_EQ(told.changes.size(), static_cast<std::size_t>(ranks()));
  tagged = icecore::testing::of_rank_0(tagged);
  EXPECT_EQ(db->status().durable, tagged);
  EXPECT_GE(tagged, closed);
  stop();
}

TEST_F(ServerGroup, what_a_group_does_not_do_is_refused) {
  start();
  const auto db = create("one");
  EXPECT_EQ(code_of([&] { db->grant(10s, 0); }), errc::invalid_argument);
  service::transaction two;
  two.then.push_back(service::operation::put("a", "1"));
  two.then.push_back(service::operation::put("b", "1"));
  EXPECT_EQ(code_of([&] { write(*db, two); }), errc::invalid_argument);
  if (rank() == 0) {
    service::database_settings settings;
    settings.name = "never";
    settings.rule = service::version_rule::write;
    EXPECT_EQ(code_of([&] { service_->create(root_, settings); }), errc::invalid_argument);
  }
  stop();
}

}  // namespace
}  // namespace icecore::server::group
