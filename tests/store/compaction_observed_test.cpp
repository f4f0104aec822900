// Packing a store while readers that never lock look at it: what they have stays until they refresh, and no space is
// given back under them. Who opens it while it is being packed waits. Who packs it is told how far that is.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "icecore/compaction.hpp"
#include "icecore/icecore.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/fingerprint.hpp"
#include "support/model.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"
#include "support/seed.hpp"
#include "support/several_files.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

options by_default() {
  options opening;
  opening.access = access::read_only;
  return opening;
}

options never_locking() {
  options opening = by_default();
  opening.never_locks = true;
  return opening;
}

class CompactionObserved : public ::testing::TestWithParam<setting> {
 protected:
  scratch folder_{GetParam().where};
  std::filesystem::path path_ = folder_ / "packed.ice";
  model model_;
  scribe scribes_{2, test_seed()};

  [[nodiscard]] options writing() const { return GetParam().options_at(path_); }
  /// Some versions, the last one tagged, in one session that closes the store.
  void write_versions(int versions, const std::string& name) {
    store s(path_, writing());
    for (int i = 0; i < versions; ++i) {
      scribes_.write(s, model_, 150);
      const std::string tag = name + " " + std::to_string(i);
      const version v = s.tag({.name = tag, .note = {}, .time_ns = 8});
      model_.close_version();
      model_.tags.push_back({v, 8, tag, ""});
    }
    // so that bytes are worth being given back
    s.insert("large", std::string(1 << 20, name[0]));
    model_.insert("large", std::string(1 << 20, name[0]));
  }
  void pack() {
    EXPECT_TRUE(compact(path_, writing(), {.whole = false, .threads = 2, .on_progress = {}}).packed);
    model_.close_version();
    model_.pack();
  }
  [[nodiscard]] std::uint64_t bytes_on_devices() const {
    std::uint64_t sum = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      struct stat about {};
      EXPECT_EQ(::stat(entry.path().c_str(), &about), 0);
      sum += static_cast<std::uint64_t>(about.st_blocks) * 512;
    }
    return sum;
  }
};

TEST_P(CompactionObserved, a_packed_store_is_observed_and_followed) {
  write_versions(3, "old");
  pack();
  store reader(path_, never_locking());
  EXPECT_TRUE(reader.beside_writer());
  EXPECT_EQ(reader.stats().strata, 1U);
  compare_everything(reader, model_);
  compare_everything(store(path_, by_default()), model_);
  model_.close_version();  // a version that is shown gets nothing more
  write_versions(2, "new");
  EXPECT_EQ(reader.refresh(), model_.clock);
  compare_everything(reader, model_);
  EXPECT_TRUE(reader.verify().ok());
}

TEST_P(CompactionObserved, a_reader_goes_on_with_what_is_packed_and_what_it_holds_stays_as_long) {
  write_versions(3, "old");
  store reader(path_, never_locking());
  const version shown = reader.refresh();
  auto before = std::make_unique<snapshot>(reader.at(shown));
  const std::uint64_t was = fingerprint(*before);
  const std::uint64_t bytes_before = bytes_on_devices();
  pack();
  EXPECT_GT(bytes_on_devices(), bytes_before) << "what is packed is there twice";
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_EQ(reader.refresh(), model_.clock);
    compare_everything(reader, model_);
    EXPECT_EQ(reader.stats().strata, 1U);
    EXPECT_EQ(fingerprint(reader.at(shown)), was);
    EXPECT_EQ(fingerprint(*before), was);
    model_.close_version();  // the next writer sees that somebody looks
    write_versions(2, turn == 0 ? "new" : "newer");
    EXPECT_EQ(reader.refresh(), model_.clock);
    compare_everything(reader, model_);
    pack();
  }
  EXPECT_TRUE(verify_file(path_).ok());
  const std::uint64_t with_snapshot = bytes_on_devices();
  EXPECT_EQ(reader.refresh(), model_.clock);
  { const store s(path_, writing()); }
  EXPECT_GE(bytes_on_devices(), with_snapshot) << "of what the snapshot leads into";
  EXPECT_EQ(fingerprint(*before), was);
  before.reset();
  model_.close_version();
  EXPECT_EQ(reader.refresh(), model_.clock);
  EXPECT_EQ(fingerprint(reader.at(shown)), was);
  { const store s(path_, writing()); }
  EXPECT_LT(bytes_on_devices(), with_snapshot) << "the reader, which is still there, keeps only what it looks at";
  EXPECT_EQ(fingerprint(reader.at(shown)), was);
  EXPECT_TRUE(reader.verify().ok());
}

TEST_P(CompactionObserved, a_reader_that_does_not_refresh_keeps_what_it_has) {
  write_versions(3, "old");
  const store reader(path_, never_locking());
  const version shown = reader.clock();
  const std::uint64_t was = fingerprint(reader.at(shown));
  pack();
  const std::uint64_t packed = bytes_on_devices();
  for (int turn = 0; turn < 2; ++turn) {
    {
      const store s(path_, writing());
    }
    EXPECT_GE(bytes_on_devices(), packed);
    EXPECT_EQ(fingerprint(reader.at(shown)), was);
    EXPECT_EQ(reader.find("large"), std::string(1 << 20, 'o'));
  }
}

TEST_P(CompactionObserved, a_reader_that_locks_keeps_it_out) {
  write_versions(2, "old");
  const store observer(path_, never_locking());
  {
    const store reader(path_, by_default());
    expect_error(errc::locked, "open for reading", [&] { static_cast<void>(compact(path_, writing())); });
  }
  EXPECT_TRUE(compact(path_, writing()).packed);
}

TEST_P(CompactionObserved, whoever_opens_the_store_meanwhile_waits_for_it) {
  {
    store s(path_, writing());
    for (int i = 0; i < 120'000; ++i) s.insert("key " + std::to_string(i), "v");
    s.tag();
  }
  store there(path_, never_locking());
  std::thread comes;
  std::atomic<int> opening{0};
  std::atomic<int> opened{0};
  std::string failed;
  const compaction_options how{.whole = false, .threads = 1, .on_progress = [&](const progress&) {
                                 if (comes.joinable()) return;
                                 EXPECT_EQ(there.refresh(), 2U);
                                 comes = std::thread([&] {
                                   for (const options& each : {by_default(), never_locking()}) {
                                     try {
                                       ++opening;
                                       const store reader(path_, each);
                                       opened += reader.find("key 7") == "v" && reader.stats().strata == 1 ? 1 : 0;
                                     } catch (const error& e) {
                                       failed += e.message();
                                     }
                                   }
                                 });
                                 while (opening == 0) std::this_thread::sleep_for(1ms);
                                 std::this_thread::sleep_for(100ms);
                               }};
  EXPECT_TRUE(compact(path_, writing(), how).packed);
  ASSERT_TRUE(comes.joinable()) << "no progress was told";
  comes.join();
  EXPECT_EQ(opened, 2);
  EXPECT_EQ(failed, "");
}

TEST_P(CompactionObserved, versions_never_change_while_writers_and_compactions_come_and_go) {
  const deadline soon("readers of a store that is written and packed", 120s);
  store(path_, writing()).insert("first", "x");
  const shared<std::atomic<int>> turns;
  const shared<std::atomic<int>> seen_turns;  // each turn is looked at, however fast the writers are
  constexpr int all = 20;
  child writers([&] {
    for (int turn = 0; turn < all; ++turn) {
      {
        store s(path_, writing());
        for (int i = 0; i < 20; ++i) {
          s.insert("key " + std::to_string(i % 7), std::to_string(turn) + " " + std::to_string(i));
          if (i % 8 == 0) s.tag();
        }
      }
      if (turn % 2 == 1) {
        options alone = writing();
        static_cast<void>(compact(path_, alone, {.whole = turn % 4 == 3, .threads = 1, .on_progress = {}}));
      }
      ++*turns;
      while (turn + 1 < all && *seen_turns <= turn) std::this_thread::yield();
    }
    return 0;
  });
  std::map<version, std::uint64_t> seen;
  store reader(path_, never_locking());
  const auto look = [&] {
    const version shown = reader.refresh();
    const std::uint64_t now = fingerprint(reader.at(shown));
    EXPECT_EQ(now, seen.try_emplace(shown, now).first->second) << "version " << shown;
    for (const auto& [v, was] : seen) EXPECT_EQ(fingerprint(reader.at(v)), was) << "version " << v;
  };
  while (*turns < all) {
    const int before = *turns;
    look();
    *seen_turns = before;
  }
  EXPECT_EQ(writers.wait(), 0);
  look();
  look();
  EXPECT_EQ(reader.find("key 0"), "19 14");
  EXPECT_GT(reader.stats().strata, 0U);
  EXPECT_GT(seen.size(), 2U);
  const store last(path_, writing());
  for (const auto& [v, was] : seen) EXPECT_EQ(fingerprint(last.at(v)), was) << "version " << v;
}

/// Of those that `made` names, which lie in versions that the reader shows.
void expect_tags(const store& reader, const std::vector<tag_info>& made) {
  const version open = reader.clock();
  for (const tag_info& each : made) {
    if (each.version >= open) continue;
    const auto found = reader.find_tag(each.name);
    ASSERT_TRUE(found) << each.name << " of version " << each.version << ", shown up to " << open - 1;
    EXPECT_EQ(found->version, each.version);
  }
}

TEST_P(CompactionObserved, by_the_process_that_writes_it_leaves_readers_that_come_then_every_tag) {
  write_versions(3, "old");
  store s(path_, writing());
  s.tag("last");  // so that the compaction closes no version
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_TRUE(s.compact({.whole = true, .on_progress = {}}).packed);
    for (const options& each : {by_default(), never_locking()}) {
      const store reader(path_, each);
      EXPECT_TRUE(reader.beside_writer());
      EXPECT_EQ(reader.clock(), s.clock());
      EXPECT_EQ(reader.tags().size(), s.tags().size());
      expect_tags(reader, s.tags());
      EXPECT_EQ(fingerprint(reader.at("last")), fingerprint(s.at("last")));
    }
    s.insert("more", "of turn " + std::to_string(turn));
    s.tag("turn " + std::to_string(turn));
  }
}

TEST_P(CompactionObserved, a_reader_that_comes_amid_its_end_has_the_tags_of_all_versions_that_it_shows) {
  const deadline soon("readers that come while a store is packed", 120s);
  write_versions(1, "old");
  constexpr int compactions = 60;
  std::mutex lock;
  std::vector<tag_info> made;
  std::atomic<bool> over{false};
  std::thread writer([&] {
    store s(path_, writing());
    for (int i = 0; i < compactions; ++i) {
      s.insert("key", std::to_string(i));
      const std::string name = "before compaction " + std::to_string(i);
      const version v = s.tag(name);
      {
        const std::scoped_lock one(lock);
        made.push_back({v, 0, name, ""});
      }
      EXPECT_TRUE(s.compact().packed);
    }
    over = true;
    std::this_thread::sleep_for(20ms);
  });
  int opened = 0;
  while (!over) {
    const store reader(path_, never_locking());
    const std::scoped_lock one(lock);
    expect_tags(reader, made);
    ++opened;
  }
  writer.join();
  EXPECT_GT(opened, 1);
}

std::vector<setting> settings() {
  return {
      {place::tmpfs, durability::none},
      {place::tmpfs, durability::operation, index_kind::hash},
      {place::tmpfs, durability::operation, index_kind::persistent},
      {place::tmpfs, durability::none, index_kind::btree, 3},
  };
}

// The page that leads to manifests says other things by then.
TEST_P(CompactionObserved, a_reader_makes_whole_checkpoints_although_the_writer_has_packed_the_store_since) {
  store writer(path_, writing());
  for (int i = 0; i < 3; ++i) {
    writer.insert("key " + std::to_string(i), "1");
    writer.tag("tag " + std::to_string(i));
    ASSERT_TRUE(writer.compact().packed);
  }
  const store reader(path_, by_default());
  const version shown = reader.clock() - 1;
  EXPECT_EQ(reader.find("key 2", shown), "1");
  for (int packed = 0; packed < 3; ++packed) {
    const auto to = folder_ / ("copy " + std::to_string(packed));
    reader.checkpoint().write(to);
    EXPECT_TRUE(verify_file(to).ok()) << packed;
    EXPECT_EQ(fingerprint(store(to, by_default()).at(shown)), fingerprint(reader.at(shown)));
    writer.insert("later", std::to_string(packed));
    writer.tag();
    ASSERT_TRUE(writer.compact().packed);
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, CompactionObserved, ::testing::ValuesIn(settings()),
                         [](const auto& one) { return one.param.name(); });

TEST(CompactionProgress, is_told_by_the_calling_thread_until_all_records_are_packed) {
  for (const unsigned threads : {1U, 3U}) {
    const scratch folder(place::tmpfs);
    const auto path = folder / "store.ice";
    {
      store s(path);
      for (int i = 0; i < 500; ++i) s.insert(std::to_string(i), std::string(1'000, 'v'));
    }
    std::vector<std::uint64_t> told;
    const auto here = std::this_thread::get_id();
    compaction_options how{.threads = threads, .on_progress = {}};
    how.on_progress = [&](const progress& p) {
      if (p.what != "packing records") return;
      EXPECT_EQ(std::this_thread::get_id(), here);
      EXPECT_EQ(p.total, 500U);
      told.push_back(p.done);
    };
    static_cast<void>(compact(path, {}, how));
    ASSERT_FALSE(told.empty()) << "however little there is to do";
    EXPECT_TRUE(std::ranges::is_sorted(told));
    EXPECT_EQ(told.back(), 500U);
    {
      store s(path);
      s.insert("more", "v");
    }
    how.whole = true;
    how.on_progress = [](const progress& p) {
      if (p.what == "packing records") throw std::runtime_error("of the caller");
    };
    EXPECT_THROW(static_cast<void>(compact(path, {}, how)), std::runtime_error);
    EXPECT_EQ(store(path).stats().strata, 1U) << "as it was";
  }
}

}  // namespace
}  // namespace icecore::testing
