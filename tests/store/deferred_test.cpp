// Deferred durability: no write waits, a sync waits once for all before it, and a read shows only what a sync covers.
//
// fdatasync below replaces the C library's in this program: it counts, and fails when a test wants it.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "icecore/icecore.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/roots.hpp"
#include "support/scratch.hpp"

namespace {

std::atomic<unsigned> syncs{0};
std::atomic<bool> syncs_fail{false};
std::atomic<bool> syncs_wait{false};
std::atomic<unsigned> waiting{0};

}  // namespace

extern "C" int fdatasync(int descriptor) {
  ++syncs;
  if (syncs_wait) ++waiting;
  while (syncs_wait) usleep(100);
  if (syncs_fail) {
    errno = EIO;
    return -1;
  }
  return static_cast<int>(syscall(SYS_fdatasync, descriptor));
}

namespace icecore::testing {
namespace {

/// How many syncs of files `call` makes.
template <class Call>
unsigned syncs_of(const Call& call) {
  const unsigned before = syncs;
  call();
  return syncs - before;
}

options deferred(index_kind index = index_kind::btree) {
  options opening;
  opening.durability = durability::operation;
  opening.deferred_durability = true;
  opening.index = index;
  return opening;
}

/// On a disk, with each kind of index.
class Deferred : public ::testing::TestWithParam<index_kind> {
 protected:
  void SetUp() override {
    if (!root_of(place::disk)) GTEST_SKIP() << "no disk here; set ICECORE_TEST_DISK to a folder on one";
    folder_.emplace(place::disk);
    s_.emplace(path(), deferred(GetParam()));
  }
  void TearDown() override { syncs_fail = false; }
  [[nodiscard]] std::filesystem::path path() const { return *folder_ / "store.ice"; }

  std::optional<scratch> folder_;
  std::optional<store> s_;
};

void write_some(store& s, const std::string& value) {
  for (int i = 0; i < 50; ++i) s.insert("key " + std::to_string(i), value);
  for (int i = 0; i < 50; ++i) s.insert("hot", value + std::to_string(i));
  s.insert("twice", value);
  s.remove("twice");
  s.insert_new("new", value);
  batch some;
  for (int i = 40; i < 60; ++i) some.insert("key " + std::to_string(i), value + " of a batch");
  some.remove("key 3");
  s.apply(some);
}

TEST_P(Deferred, says_so) {
  EXPECT_EQ(s_->durability().mode, durability::operation);
  EXPECT_TRUE(s_->durability().deferred);
  EXPECT_EQ(s_->durability().flush_method, "fdatasync");
  s_->close();
  options at_once = deferred(GetParam());
  at_once.deferred_durability = false;
  EXPECT_FALSE(store(path(), at_once).durability().deferred);
}

TEST_P(Deferred, writes_and_tags_wait_for_nothing_and_a_sync_waits_once_for_all) {
  write_some(*s_, "so that the file has grown");
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(syncs_of([&] {
                write_some(*s_, "round " + std::to_string(round));
                s_->tag();
                write_some(*s_, "again");
                s_->tag("named " + std::to_string(round));
                s_->insert("last", "of all");
                static_cast<void>(s_->latest());
              }),
              0U);
    EXPECT_LT(s_->durable_version(), s_->clock() - 1);
    EXPECT_EQ(syncs_of([&] { s_->sync(); }), 1U);
    EXPECT_EQ(s_->durable_version(), s_->clock() - 1);
  }
}

TEST_P(Deferred, writes_that_are_refused_wait_for_nothing) {
  s_->insert("key", "value");
  EXPECT_EQ(syncs_of([&] {
              EXPECT_FALSE(s_->insert_new("key", "other"));
              EXPECT_FALSE(s_->replace("key", "other", 77));
              EXPECT_TRUE(s_->remove("key"));
              EXPECT_FALSE(s_->remove("key"));
            }),
            0U);
}

TEST_P(Deferred, a_sync_closes_the_open_version_if_anything_was_written_in_it) {
  const version open = s_->clock();
  s_->insert("key", "value");
  s_->sync();
  EXPECT_EQ(s_->clock(), open + 1);
  s_->sync();
  EXPECT_EQ(s_->clock(), open + 1);
  s_->insert("key", "other");
  static_cast<void>(s_->latest());
  s_->sync();
  EXPECT_EQ(s_->clock(), open + 2) << "nothing was written since latest()";
}

TEST_P(Deferred, a_read_waits_for_a_sync_if_none_covers_what_it_shows_and_never_otherwise) {
  write_some(*s_, "value");
  const version closed = s_->tag();
  EXPECT_EQ(syncs_of([&] { EXPECT_TRUE(s_->find("key 7", closed)); }), 1U);
  EXPECT_EQ(s_->durable_version(), closed);
  EXPECT_EQ(syncs_of([&] {
              const snapshot then = s_->at(closed);
              std::size_t items = 0;
              for (const auto& item : then.range()) items += item.key.empty() ? 0 : 1;
              EXPECT_EQ(items, 61U);
              EXPECT_FALSE(s_->find("twice", closed));
              EXPECT_TRUE(s_->find("hot"));
              EXPECT_EQ(s_->history("hot").oldest_first().size(), 50U);
              const std::vector<std::string_view> keys = {"key 1", "key 3", "hot"};
              std::vector<std::optional<std::string_view>> found(keys.size());
              const pin holds = s_->find_many(keys, closed, found);
              EXPECT_FALSE(found[1]);
              std::size_t changed = 0;
              for (const auto& change : s_->diff(0, closed)) changed += change.key.empty() ? 0 : 1;
              EXPECT_EQ(changed, 61U);
            }),
            0U);
  const std::vector<std::pair<const char*, std::function<void()>>> reads = {
      {"find", [&] { EXPECT_EQ(s_->find("hot"), "newest"); }},
      {"find of what was removed", [&] { EXPECT_FALSE(s_->find("gone: find of what was removed")); }},
      {"latest", [&] { EXPECT_EQ(s_->latest().find("hot"), "newest"); }},
      {"history",
       [&] {
         for (const change& c : s_->history("hot")) static_cast<void>(c);
       }},
      {"scan",
       [&] {
         for (const auto& item : s_->latest().range()) static_cast<void>(item);
       }},
      {"diff",
       [&] {
         for (const auto& change : s_->diff(closed, s_->tag())) static_cast<void>(change);
       }},
      {"checkpoint", [&] { static_cast<void>(s_->checkpoint()); }},
  };
  for (const auto& [name, read] : reads) {
    s_->insert("hot", "newest");
    const std::string gone = std::string("gone: ") + name;  // a new key: its removal is its second record
    s_->insert(gone, "1");
    s_->remove(gone);
    s_->insert("only to be written", name);
    EXPECT_EQ(syncs_of(read), 1U) << name;
    EXPECT_EQ(syncs_of([&] { EXPECT_EQ(s_->find("hot"), "newest"); }), 0U) << name;
  }
}

TEST_P(Deferred, what_was_written_and_never_synced_survives_the_end_of_the_process_and_a_close) {
  write_some(*s_, "value");
  s_->tag("named");
  const std::string left = read_file(path());  // as a kill leaves it: all is in the page cache
  s_->close();
  EXPECT_EQ(store(path(), deferred()).find("hot"), "value49");
  write_file(path(), left);
  options opening = deferred();
  opening.accept_copy = true;
  const store again(path(), opening);
  EXPECT_EQ(again.find("hot"), "value49");
  EXPECT_TRUE(again.find_tag("named"));
  EXPECT_TRUE(again.verify().ok());
}

TEST_P(Deferred, a_sync_that_fails_poisons_the_store_and_covers_nothing) {
  s_->insert("key", "value");
  s_->sync();
  const version durable = s_->durable_version();
  s_->insert("key", "other");
  syncs_fail = true;
  expect_error(errc::poisoned, "fdatasync failed", [&] { s_->sync(); });
  syncs_fail = false;
  EXPECT_EQ(s_->durable_version(), durable);
  expect_error(errc::poisoned, "fdatasync failed", [&] { s_->sync(); });
  expect_error(errc::poisoned, "fdatasync failed", [&] { static_cast<void>(s_->find("key")); });
}

TEST_P(Deferred, threads_that_sync_at_the_same_time_share_syncs_and_each_finds_its_writes_durable) {
  constexpr int threads = 8;
  constexpr int rounds = 15;
  std::atomic<int> uncovered{0};
  const unsigned made = syncs_of([&] {
    std::vector<std::jthread> all;
    for (int t = 0; t < threads; ++t) {
      all.emplace_back([&, t] {
        for (int i = 0; i < rounds; ++i) {
          const version v = s_->insert("key " + std::to_string(t), std::to_string(i));
          s_->sync();
          uncovered += s_->durable_version() < v;
        }
      });
    }
  });
  EXPECT_EQ(uncovered, 0);
  EXPECT_LT(made, unsigned{threads * rounds}) << "each thread synced for itself";
}

// ---- A power cut during a sync ----

constexpr std::size_t sector = 512;

void change_boot(std::string& image) {
  image = with_roots_changed(std::move(image), [](format::root& r) { r.boot_id[0] ^= 0xff; });
}

/// `later`, in which random sectors are as they were in `earlier`, those of the roots too.
std::string mixed(const std::string& earlier, const std::string& later, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto old_in_64 = seed == 0 ? 0 : random() % (seed % 2 == 0 ? 4 : 65);  // often nearly all of it is there
  std::string image = later;
  for (std::size_t at = 0; at < later.size(); at += sector) {
    if (random() % 64 >= old_in_64) continue;
    for (std::size_t i = at; i < std::min(at + sector, later.size()); ++i)
      image[i] = i < earlier.size() ? earlier[i] : '\0';
  }
  return image;
}

TEST_P(Deferred, a_power_cut_during_a_sync_leaves_all_that_it_covers_or_nothing_and_all_before) {
  write_some(*s_, "first");
  s_->insert("large", std::string(9'000, 'a'));
  s_->tag("one");
  s_->sync();
  const version first = s_->durable_version();
  const std::string earlier = read_file(path());
  s_->insert("hot", "second");
  for (int i = 0; i < 30; ++i) s_->insert("more " + std::to_string(i), std::string(100, 'm'));
  s_->insert("large", std::string(9'000, 'b'));
  s_->tag("two");
  s_->sync();
  const version second = s_->durable_version();
  const std::string later = read_file(path());
  s_.reset();
  unsigned complete = 0;
  unsigned back = 0;
  for (std::uint64_t seed = 0; seed < 32; ++seed) {
    SCOPED_TRACE(seed);
    std::string image = mixed(earlier, later, seed);
    change_boot(image);
    write_file(path(), image);
    if (seed % 8 == 1) {
      EXPECT_TRUE(verify_file(path()).ok());
    }
    options opening = deferred(GetParam());
    opening.accept_copy = true;
    opening.crash = crash_kind::machine;  // the live page may be of any time
    const int lives = seed % 8 == 2 ? 2 : 1;
    for (int life = 0; life < lives; ++life) {
      const store s(path(), opening);
      EXPECT_EQ(s.find("large", first), std::string(9'000, 'a'));
      EXPECT_EQ(s.find("hot", first), "first49");
      EXPECT_TRUE(s.find_tag("one"));
      const bool all = s.find("hot") == "second";
      if (life == 0) ++(all ? complete : back);
      EXPECT_EQ(s.find("large"), std::string(9'000, all ? 'b' : 'a'));
      EXPECT_EQ(s.find_tag("two").has_value(), all);
      for (int i = 0; i < 30; ++i) EXPECT_EQ(s.contains("more " + std::to_string(i)), all);
      EXPECT_EQ(s.lost_versions().contains(second), !all);
      EXPECT_TRUE(s.verify().ok());
    }
  }
  EXPECT_GE(complete, 1U);
  EXPECT_GE(back, 10U);
}

TEST_P(Deferred, damage_to_what_an_earlier_sync_covered_is_reported_after_a_power_cut) {
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 20; ++i) s_->insert("round " + std::to_string(round) + " key " + std::to_string(i), "v");
    s_->sync();
  }
  std::string image = read_file(path());
  s_.reset();
  const std::size_t at = image.find("round 0 key 7");
  ASSERT_NE(at, std::string::npos);
  image[at] = 'x';
  change_boot(image);
  write_file(path(), image);
  options opening = deferred(GetParam());
  opening.accept_copy = true;
  opening.crash = crash_kind::machine;
  expect_error(errc::damaged, "damaged at byte", [&] { const store s(path(), opening); });
  EXPECT_FALSE(verify_file(path()).ok());
}

TEST_P(Deferred, while_a_sync_is_under_way_nobody_is_told_that_it_covers_anything) {
  feed f = s_->feed({});
  const version before = s_->durable_version();
  s_->insert("key", "value");
  const version closed = s_->tag();
  waiting = 0;
  syncs_wait = true;
  std::jthread syncing([&] { s_->sync(); });
  while (waiting == 0) std::this_thread::yield();
  EXPECT_EQ(s_->durable_version(), before);
  EXPECT_TRUE(f.next(10).changes.empty());
  s_->insert("key", "written meanwhile");
  const version later = s_->tag();
  syncs_wait = false;
  syncing.join();
  EXPECT_EQ(s_->durable_version(), closed);
  EXPECT_EQ(f.next(10).told, closed);
  EXPECT_EQ(f.next(10).told, closed) << "version " << later << " is not covered";
}

// ---- Feeds ----

TEST_P(Deferred, feeds_tell_what_a_sync_covered_and_neither_wait_nor_sync_for_more) {
  feed f = s_->feed({.after = 0});
  feed all = s_->feed({.after = 0, .unsynced = true});
  for (int round = 0; round < 5; ++round) {
    s_->insert("a", std::to_string(round));
    s_->tag();
    s_->insert("b", std::to_string(round));
    const version covered = s_->tag();
    EXPECT_EQ(syncs_of([&] { EXPECT_TRUE(f.next(100).changes.empty()); }), 0U);
    s_->sync();
    s_->insert("c", "not covered");
    s_->tag();
    EXPECT_EQ(syncs_of([&] {
                const feed_batch told = f.next(100);
                EXPECT_EQ(told.told, covered);
                EXPECT_EQ(told.changes.size(), round == 0 ? 2U : 3U);
                EXPECT_TRUE(f.next(100).changes.empty());
              }),
              0U);
  }
  EXPECT_EQ(all.next(100).told, s_->clock() - 1) << "unsynced: all that is closed, once a sync has covered it";
}

TEST_P(Deferred, a_sync_wakes_feeds_that_wait) {
  feed f = s_->feed({});
  std::atomic<version> told{0};
  std::jthread waiter([&] {
    const feed_batch some = f.next(10, std::chrono::minutes(5));
    told = some.told;
  });
  s_->insert("key", "value");
  const version closed = s_->tag();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(told, 0U) << "no sync covered it";
  s_->sync();
  waiter.join();
  EXPECT_EQ(told, closed);
}

TEST_P(Deferred, a_thousand_feeds_are_open_at_once_and_each_tells_all) {
  std::vector<feed> feeds;
  for (int i = 0; i < 1000; ++i) feeds.push_back(s_->feed({}));
  for (int i = 0; i < 10; ++i) s_->insert("key " + std::to_string(i), "value");
  const version closed = s_->tag();
  std::size_t early = 0;
  for (feed& f : feeds) early += f.next(100).changes.size();
  EXPECT_EQ(early, 0U);
  s_->sync();
  EXPECT_EQ(syncs_of([&] {
              for (feed& f : feeds) {
                const feed_batch told = f.next(100);
                ASSERT_EQ(told.changes.size(), 10U);
                ASSERT_EQ(told.told, closed);
              }
            }),
            0U);
}

std::string index_name(const ::testing::TestParamInfo<index_kind>& info) {
  static constexpr const char* names[] = {"", "btree", "skip_list", "persistent", "list", "hash"};
  return names[static_cast<std::size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(All, Deferred,
                         ::testing::Values(index_kind::btree, index_kind::skip_list, index_kind::persistent,
                                           index_kind::list, index_kind::hash),
                         index_name);

// ---- Elsewhere ----

TEST(DeferredElsewhere, is_refused_with_another_durability_and_in_a_shared_store) {
  const scratch folder(place::tmpfs);
  for (const auto mode : {durability::best_available, durability::none, durability::tag}) {
    options opening = deferred();
    opening.durability = mode;
    opening.emulate_durability = true;
    expect_error(errc::invalid_argument, "only durability 'operation' can be deferred",
                 [&] { const store s(folder / "store.ice", opening); });
  }
  options shared = deferred();
  shared.emulate_durability = true;
  shared.shared_as = folder / "shared";
  expect_error(errc::invalid_argument, "cannot be shared", [&] { const store s(folder / "store.ice", shared); });
  EXPECT_FALSE(std::filesystem::exists(folder / "store.ice"));
}

TEST(DeferredElsewhere, where_lines_are_flushed_reads_never_wait_and_feeds_tell_what_a_sync_covered) {
  const scratch folder(place::tmpfs);
  for (const auto index : {index_kind::btree, index_kind::persistent}) {
    options opening = deferred(index);
    opening.emulate_durability = true;
    store s(folder / ("store " + std::to_string(static_cast<int>(index))), opening);
    write_some(s, "value");
    const version open = s.clock();
    EXPECT_EQ(s.find("hot"), "value49");
    EXPECT_EQ(s.clock(), open) << "each write is durable: a read closes no version";
    const version closed = s.tag();
    feed f = s.feed({.after = 0});
    EXPECT_TRUE(f.next(1000).changes.empty());
    EXPECT_LT(s.durable_version(), closed);
    s.sync();
    EXPECT_EQ(s.durable_version(), closed);
    EXPECT_EQ(f.next(1000).told, closed);
  }
}

TEST(DeferredElsewhere, a_store_of_several_files_has_one_sync_for_each) {
  if (!root_of(place::disk)) GTEST_SKIP() << "no disk here; set ICECORE_TEST_DISK to a folder on one";
  const scratch folder(place::disk);
  options opening = deferred();
  opening.placements = {{folder / "second", -1}};
  store s(folder / "store.ice", opening);
  write_some(s, "value");
  EXPECT_EQ(syncs_of([&] { s.sync(); }), 2U);
  EXPECT_EQ(s.find("hot"), "value49");
}

TEST(DeferredElsewhere, a_store_that_never_synced_jointly_keeps_its_format) {
  if (!root_of(place::disk)) GTEST_SKIP() << "no disk here; set ICECORE_TEST_DISK to a folder on one";
  const scratch folder(place::disk);
  options at_once = deferred();
  at_once.deferred_durability = false;
  {
    store s(folder / "store.ice", at_once);
    s.insert("a", "1");
    s.sync();
    EXPECT_EQ(s.stats().format_minor, format::minor_with_evidence);
  }
  store s(folder / "store.ice", deferred());
  EXPECT_EQ(s.stats().format_minor, format::minor_with_evidence);
  s.insert("a", "2");
  s.sync();
  EXPECT_EQ(s.stats().format_minor, format::minor_with_joint_certificates);
}

}  // namespace
}  // namespace icecore::testing
