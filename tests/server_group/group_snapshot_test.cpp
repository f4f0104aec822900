// Snapshots of a dependent group: one cut of all servers, and restored for any number of servers.
#include <sys/resource.h>

#include <csignal>
#include <fstream>

#include "group/restore.hpp"
#include "group_support.hpp"
#include "service/snapshot/files.hpp"

namespace icecore::server::group {
namespace {

using std::filesystem::exists;

class GroupSnapshot : public ServerGroup {
 protected:
  // What a database is after a snapshot of it: all of its past, by any server.
  struct past {
    std::vector<std::string> changes;
    std::vector<std::pair<std::string, version>> tags;
    friend bool operator==(const past&, const past&) = default;
  };
  static past past_of(service::database& db, version up_to, version after = 0) {
    past all;
    const auto stream = db.changes({.after = after, .up_to = up_to});
    for (service::row_block block; stream->next(block, {.rows = 100});) {
      for (std::size_t i = 0; i < block.size(); ++i) {
        all.changes.push_back(std::to_string(block.versions[i]) + " " + std::string(block.keys[i]) + "=" +
                              std::string(block.values[i]));
      }
    }
    for (const auto& tag : db.tags()) all.tags.emplace_back(std::string(tag.name), tag.version);
    return all;
  }

  // 200 keys, each written in some of five versions, some removed; a value that is stored apart.
  static void fill(service::database& db) {
    for (int v = 1; v <= 5; ++v) {
      for (int i = 0; i < 200; i += v) put(db, "key" + std::to_string(i), "v" + std::to_string(v));
      if (v == 3) {
        for (int i = 0; i < 200; i += 7) one(db, service::operation::remove("key" + std::to_string(i)));
        put(db, "large", std::string(300'000, 'x'));
      }
      db.tag({.name = "tag" + std::to_string(v), .note = "note"});
    }
  }

  // The snapshot at `from`, restored for so many servers of this job's ranks.
  service::restore_notes restore(const std::vector<std::filesystem::path>& from, const std::filesystem::path& to,
                                 int servers) {
    service::restore_notes notes;
    MPI_Comm some = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank() < servers ? 0 : 1, rank(), &some);
    if (rank() < servers) notes = restore_group(some, {.from = from, .to = to});
    MPI_Comm_free(&some);
    meet();
    return notes;
  }

  // A server that stands alone, on this rank.
  static std::unique_ptr<service::service> alone(const std::filesystem::path& data, service::group_place place = {}) {
    service::service_options options;
    options.data = data;
    options.limits.free_disk_bytes = 0;
    options.group = std::move(place);
    return std::make_unique<service::service>(std::move(options));
  }
};

// The first database takes a while to write, and the second one is dropped before its turn.
TEST_F(GroupSnapshot, is_complete_when_a_database_is_dropped_while_it_is_written) {
  start();
  const auto first = create("first");
  const auto second = create("second");
  for (int i = 0; i < 24; ++i) put(*first, "n" + std::to_string(rank()) + std::to_string(i), std::string(1 << 20, 'x'));
  put(*second, "n" + std::to_string(rank()), "1");
  meet();
  if (rank() == ranks() - 1) {
    bool dropped = false;
    const auto report = service_->write_snapshot(root_, path() / "snapshot", [&](const icecore::progress&) {
      if (!std::exchange(dropped, true)) service_->drop(root_, "second");
    });
    ASSERT_TRUE(dropped);
    ASSERT_EQ(report.parts.size(), 1U);
    EXPECT_EQ(report.parts[0].database, "first");
    EXPECT_FALSE(exists(path() / "snapshot.partial"));
  }
  meet();
  stop();
  restore({path() / "snapshot"}, path() / "restored", ranks());
  start(path() / "restored", ranks());
  EXPECT_EQ(code_of([&] { static_cast<void>(service_->find_database(root_, "second")); }), errc::denied);
  const auto whole = service_->find_database(root_, "first");
  EXPECT_EQ(whole->count({}, service::newest{}), 24U * static_cast<unsigned>(ranks()));
  meet();
  stop();
}

TEST_F(GroupSnapshot, is_one_cut_of_all_servers_while_writes_go_on) {
  start();
  const auto first = create("first");
  const auto second = create("second");
  std::atomic<bool> over{false};
  // Each rank writes to one database and then to the other: at each instant they are equal, or the first is one ahead.
  const std::string mine = "n" + std::to_string(rank());
  std::thread writer([&] {
    for (int i = 1; !over; ++i) {
      put(*first, mine, std::to_string(i));
      put(*second, mine, std::to_string(i));
    }
  });
  while (read(*second, mine) == "(none)") std::this_thread::yield();
  meet();
  constexpr int snapshots = 4;
  for (int i = 0; i < snapshots; ++i) {
    if (rank() == i % ranks()) {  // any server may be asked
      const auto report = service_->write_snapshot(root_, path() / ("snapshot" + std::to_string(i)));
      EXPECT_EQ(report.parts.size(), 2U);
    }
    meet();
  }
  if (rank() == 0) {
    EXPECT_EQ(code_of([&] { service_->write_snapshot(root_, path() / "snapshot0"); }), errc::store_exists);
    EXPECT_EQ(code_of([&] { service_->write_snapshot(root_, path() / "one/two/three/four"); }), errc{});
  }
  meet();
  over = true;
  writer.join();
  stop();
  for (int i = 0; i < snapshots; ++i) {
    restore({path() / ("snapshot" + std::to_string(i))}, path() / ("restored" + std::to_string(i)), ranks());
    start(path() / ("restored" + std::to_string(i)), ranks());
    const auto a = service_->find_database(root_, "first");
    const auto b = service_->find_database(root_, "second");
    for (int r = 0; r < ranks(); ++r) {
      const int before = std::stoi(read(*a, "n" + std::to_string(r)));
      const int after = std::stoi(read(*b, "n" + std::to_string(r)));
      EXPECT_TRUE(before == after || before == after + 1) << before << " and " << after;
    }
    stop();
  }
}

TEST_F(GroupSnapshot, keeps_all_versions_and_tags_on_any_number_of_servers) {
  start();
  const auto db = create("one");
  past was;
  version newest = 0;
  if (rank() == 0) {
    put(*db, "first of all", "1");
    const version begins = db->tag({});
    EXPECT_EQ(begins, 1U);
    fill(*db);
    db->compact(begins);
    newest = db->resolve(service::newest{});
    was = past_of(*db, newest, 1);
    service_->write_snapshot(root_, path() / "snapshot");
    EXPECT_FALSE(exists(path() / "snapshot.partial"));
    EXPECT_FALSE(exists(path() / "snapshot/rank-0.json"));
  }
  stop();
  for (int servers = 1; servers <= ranks(); ++servers) {
    const auto to = path() / ("on" + std::to_string(servers));
    EXPECT_TRUE(restore({path() / "snapshot"}, to, servers).empty());
    start(to, servers);
    if (rank() == 0) {
      const auto again = service_->find_database(root_, "one");
      EXPECT_EQ(past_of(*again, newest, 1), was) << servers;
      EXPECT_EQ(read(*again, "key21", service::tag_name{"tag2"}), "v1");
      EXPECT_EQ(read(*again, "key21", service::tag_name{"tag3"}), "(none)");
      EXPECT_EQ(read(*again, "large").size(), 300'000U);
      EXPECT_EQ(code_of([&] { read(*again, "key21", version{0}); }), errc::version_expired);
      put(*again, "after", "1");
      EXPECT_GT(again->tag({}), newest);
    }
    stop();
  }
  if (rank() == 0) {  // and by a server that stands alone
    service::restore_snapshot({.from = {path() / "snapshot"}, .to = path() / "alone"});
    const auto server = alone(path() / "alone");
    EXPECT_EQ(past_of(*server->find_database(root_, "one"), newest, 1), was);
  }
  meet();
}

TEST_F(GroupSnapshot, of_a_server_that_stands_alone_becomes_one_of_a_group) {
  past was;
  version newest = 0;
  if (rank() == 0) {
    const auto server = alone(path() / "alone");
    server->users().ensure_root("secret");
    service::database_settings settings;
    settings.name = "one";
    settings.rule = service::version_rule::write;
    settings.compression = service::value_compression::zstd;
    const auto db = server->create(root_, settings);
    fill(*db);
    const auto lease = db->grant(100s, 0).number;
    one(*db, {.what = service::operation::kind::put, .key = "leased", .value = "1", .lease = lease});
    newest = db->resolve(service::newest{});
    was = past_of(*db, newest);
    server->write_snapshot(root_, path() / "snapshot");
  }
  meet();
  const auto notes = restore({path() / "snapshot"}, path() / "group", ranks());
  if (rank() == 0) {
    EXPECT_THAT(notes, ElementsAre(::testing::HasSubstr("rule"), ::testing::HasSubstr("leases")));
  }
  start(path() / "group", ranks(), true);
  const auto db = service_->find_database(root_, "one");
  if (rank() == 0) {
    EXPECT_EQ(past_of(*db, newest), was);
    EXPECT_EQ(read(*db, "leased"), "1");
    EXPECT_NO_THROW(static_cast<void>(service_->users().log_in("root", "secret")));
  }
  stop();
}

TEST_F(GroupSnapshot, of_independent_servers_becomes_one_of_a_group_and_back) {
  constexpr std::uint32_t servers = 3;
  std::vector<std::filesystem::path> snapshots;
  for (std::uint32_t s = 0; s < servers; ++s) snapshots.push_back(path() / ("snapshot" + std::to_string(s)));
  const auto value = [](const std::string& tag, int i) { return tag + "-" + std::to_string(i); };
  if (rank() == 0) {
    for (std::uint32_t s = 0; s < servers; ++s) {
      const auto server = alone(path() / ("server" + std::to_string(s)), {.name = "i", .index = s, .size = servers});
      service::database_settings settings;
      settings.name = "one";
      settings.rule = service::version_rule::tag;
      const auto db = server->create(root_, settings);
      for (const std::string tag : {"a", "b", "c"}) {
        for (int i = 0; i < 100; ++i) {
          const std::string key = "key" + std::to_string(i);
          if (service::owner_of(key, servers) == s) put(*db, key, value(tag, i));
        }
        // Servers count by themselves: some close versions that others do not.
        for (std::uint32_t extra = 0; extra < s; ++extra) {
          put(*db, "own" + std::to_string(s), tag);
          db->tag({});
        }
        db->tag({.name = tag});
      }
      if (s == 1) db->tag({.name = "mine alone"});
      server->write_snapshot(root_, snapshots[s]);
    }
  }
  meet();
  const auto look_at = [&](service::database& db) {
    for (const std::string tag : {"a", "b", "c"}) {
      for (int i = 0; i < 100; ++i) {
        EXPECT_EQ(read(db, "key" + std::to_string(i), service::tag_name{tag}), value(tag, i));
      }
      EXPECT_EQ(read(db, "own1", service::tag_name{tag}), tag);
    }
    EXPECT_EQ(db.tags().size(), 3U);
    EXPECT_EQ(db.count({}, service::newest{}), 102U);
  };
  const auto notes = restore(snapshots, path() / "group", ranks());
  if (rank() == 0) {
    EXPECT_THAT(notes, ElementsAre(::testing::HasSubstr("new numbers"), ::testing::HasSubstr("mine alone")));
  }
  start(path() / "group", ranks());
  if (rank() == 0) {
    look_at(*service_->find_database(root_, "one"));
    service_->write_snapshot(root_, path() / "of-group");
  }
  stop();
  if (rank() == 0) {
    service::restore_snapshot({.from = snapshots, .to = path() / "alone", .place = service::group_place{}});
    look_at(*alone(path() / "alone")->find_database(root_, "one"));
    // To two independent servers: each has what it owns, and every tag.
    for (std::uint32_t s = 0; s < 2; ++s) {
      const service::group_place place{.name = "j", .index = s, .size = 2};
      const auto to = path() / ("back" + std::to_string(s));
      service::restore_snapshot({.from = {path() / "of-group"}, .to = to, .place = place});
      const auto server = alone(to, place);
      const auto db = server->find_database(root_, "one");
      for (int i = 0; i < 100; ++i) {
        const std::string key = "key" + std::to_string(i);
        EXPECT_EQ(read(*db, key, service::tag_name{"b"}),
                  service::owner_of(key, 2) == s ? value("b", i) : std::string("(none)"));
      }
      EXPECT_EQ(db->tags().size(), 3U);
    }
    const auto refused = [&](std::vector<std::filesystem::path> from) {
      return code_of([&] {
        service::restore_snapshot({.from = std::move(from), .to = path() / "never", .place = service::group_place{}});
      });
    };
    EXPECT_EQ(refused({snapshots[0]}), errc::bad_input) << "of three servers";
    EXPECT_EQ(refused({snapshots[1], snapshots[0], snapshots[2]}), errc::bad_input) << "not in order";
    EXPECT_EQ(refused({snapshots[0], snapshots[1]}), errc::bad_input) << "one is missing";
    EXPECT_EQ(refused({snapshots[0], path() / "of-group"}), errc::bad_input) << "of another kind";
    EXPECT_EQ(refused({}), errc::bad_input);
    EXPECT_FALSE(exists(path() / "never"));
    EXPECT_FALSE(exists(path() / "never.partial"));
  }
  meet();
}

TEST_F(GroupSnapshot, that_cannot_be_complete_is_refused_by_all_and_leaves_nothing) {
  start();
  const auto db = create("one");
  put(*db, "key" + std::to_string(rank()), "1");
  meet();
  rlimit was{};
  getrlimit(RLIMIT_FSIZE, &was);
  if (rank() == ranks() - 1) {  // this server cannot write its file
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{.rlim_cur = 4096, .rlim_max = was.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  meet();
  const auto to = path() / "snapshot";
  if (rank() == 0) {
    EXPECT_EQ(code_of([&] { service_->write_snapshot(root_, to); }), errc::no_space);
    EXPECT_FALSE(exists(to));
    EXPECT_FALSE(exists(service::new_folder::partial_of(to)));
  }
  meet();
  setrlimit(RLIMIT_FSIZE, &was);
  meet();
  if (rank() == ranks() - 1) {
    EXPECT_EQ(service_->write_snapshot(root_, to).parts.size(), 1U) << "the next one is complete";
  }
  stop();
}

TEST_F(GroupSnapshot, whose_files_have_changed_is_refused_by_all) {
  start();
  const auto db = create("one");
  if (rank() == 0) {
    fill(*db);
    service_->write_snapshot(root_, path() / "snapshot");
    std::fstream file(path() / "snapshot/databases/1/rank-0.ice", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(70'000);
    file.put('!');
  }
  stop();
  EXPECT_EQ(code_of([&] { restore({path() / "snapshot"}, path() / "never", ranks()); }), errc::damaged);
  EXPECT_EQ(code_of([&] { restore({path() / "nothing"}, path() / "never", ranks()); }), errc::bad_input);
  meet();
  EXPECT_FALSE(exists(path() / "never"));
}

// What a killed restore leaves is a folder of another name.
TEST_F(GroupSnapshot, restored_in_part_is_nothing_that_starts) {
  start();
  if (rank() == 0) service_->write_snapshot(root_, path() / "snapshot");
  meet();
  const auto db = create("one");
  put(*db, "key" + std::to_string(rank()), "1");
  stop();
  if (rank() == 0) {  // as if it was killed after the records had been written
    std::filesystem::create_directories(path() / "restored.partial/group/1/cluster");
    std::ofstream(path() / "restored.partial/group/1/cluster/rank-0.ice") << "half";
  }
  meet();
  EXPECT_FALSE(exists(path() / "restored"));
  restore({path() / "snapshot"}, path() / "restored", ranks());
  EXPECT_FALSE(exists(path() / "restored/group/1"));
  EXPECT_FALSE(exists(path() / "restored.partial"));
  start(path() / "restored", ranks());
  EXPECT_TRUE(service_->list(root_).empty());
  stop();
}

}  // namespace
}  // namespace icecore::server::group
