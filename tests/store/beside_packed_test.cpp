// Readers beside a process that packs the store while it writes it: they go on with what was packed when they refresh,
// while their own threads read; what a version shows never changes; and the writer uses again what no reader looks at.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "icecore/compaction.hpp"
#include "icecore/icecore.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/fingerprint.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"
#include "support/seed.hpp"
#include "support/several_files.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

options reading() {
  options opening;
  opening.access = access::read_only;
  return opening;
}

std::uint64_t bytes_on_devices(const std::filesystem::path& folder) {
  std::uint64_t sum = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    struct stat about {};
    EXPECT_EQ(::stat(entry.path().c_str(), &about), 0);
    sum += static_cast<std::uint64_t>(about.st_blocks) * 512;
  }
  return sum;
}

std::vector<std::string> names_of(const std::vector<tag_info>& tags) {
  std::vector<std::string> all;
  for (const tag_info& each : tags) all.push_back(std::to_string(each.version) + " " + each.name);
  return all;
}

/// What write() was told.
std::string turn_of(std::string_view value) { return std::string(value.substr(0, value.find(' '))); }

template <class Range>
std::size_t count(Range&& all) {
  std::size_t n = 0;
  for (const auto& each : all) {
    static_cast<void>(each);
    ++n;
  }
  return n;
}

class BesidePacked : public ::testing::TestWithParam<setting> {
 protected:
  scratch folder_{GetParam().where};
  std::filesystem::path path_ = folder_ / "packed.ice";

  [[nodiscard]] options writing() const { return GetParam().options_at(path_); }
  /// Where durability is deferred, readers show what a sync has covered.
  static void settle(store& writer) {
    if (GetParam().deferred) writer.sync();
  }
  /// Each key has `what`, so no two of its values are alike.
  static version write_unsettled(store& to, const std::string& what, int keys = 200) {
    for (int i = 0; i < keys; ++i) to.insert("key " + std::to_string(i), what + " of " + std::to_string(i));
    to.insert("large", what + std::string(100'000, 'l'));
    return to.tag("tag " + what);
  }
  static version write(store& to, const std::string& what, int keys = 200) {
    const version v = write_unsettled(to, what, keys);
    settle(to);
    return v;
  }
};

TEST_P(BesidePacked, a_reader_shows_all_that_its_writer_does_behind_each_compaction) {
  store writer(path_, writing());
  write(writer, "first");
  store reader(path_, reading());
  for (int turn = 0; turn < 4; ++turn) {
    const std::string what = "turn " + std::to_string(turn);
    const version v = write(writer, what);
    EXPECT_TRUE(writer.compact({.whole = turn % 2 == 1, .on_progress = {}}).packed);
    writer.insert("young", what);
    writer.remove("key " + std::to_string(turn));
    const version young = writer.tag("young " + what);
    settle(writer);
    EXPECT_EQ(reader.refresh(), young);
    EXPECT_EQ(reader.clock(), writer.clock());
    EXPECT_EQ(reader.stats().strata, writer.stats().strata);
    EXPECT_EQ(names_of(reader.tags()), names_of(writer.tags()));
    EXPECT_EQ(reader.keys(), writer.keys());
    EXPECT_EQ(reader.find("young"), what);
    EXPECT_EQ(reader.find("key " + std::to_string(turn)), std::nullopt);
    EXPECT_EQ(reader.find("large", v), what + std::string(100'000, 'l'));
    for (const version each : {v, young}) EXPECT_EQ(fingerprint(reader.at(each)), fingerprint(writer.at(each)));
    for (const std::string_view key : {"young", "key 1", "key 7", "large"}) {
      EXPECT_EQ(count(reader.history(key)), count(writer.history(key))) << key;
    }
    EXPECT_EQ(count(reader.diff(v, young)), count(writer.diff(v, young)));
    const auto to = folder_ / ("copy " + std::to_string(turn));
    reader.checkpoint().write(to);
    EXPECT_TRUE(verify_file(to).ok());
    EXPECT_EQ(fingerprint(store(to, reading()).at(young)), fingerprint(writer.at(young)));
    EXPECT_TRUE(reader.verify().ok());
  }
}

TEST_P(BesidePacked, versions_expire_for_a_reader_when_it_refreshes_but_not_under_its_snapshots) {
  store writer(path_, writing());
  writer.set_retention({.newest = 1});
  const version first = write(writer, "first");
  const version second = write(writer, "second");
  store reader(path_, reading());
  auto kept = std::make_unique<snapshot>(reader.at(first));
  const std::uint64_t was = fingerprint(*kept);
  EXPECT_TRUE(writer.compact({.whole = true, .on_progress = {}}).packed);
  EXPECT_EQ(fingerprint(reader.at(first)), was) << "until it refreshes";
  const version third = write(writer, "third");
  EXPECT_EQ(reader.refresh(), third);
  expect_error(errc::version_expired, "has expired", [&] { static_cast<void>(reader.at(first)); });
  EXPECT_EQ(fingerprint(*kept), was);
  EXPECT_EQ(reader.find("key 5", second), "second of 5");
  EXPECT_EQ(reader.find("key 5"), "third of 5");
  for (int i = 0; i < 3; ++i) {
    write(writer, "later " + std::to_string(i));
    EXPECT_TRUE(writer.compact({.whole = true, .on_progress = {}}).packed);
    static_cast<void>(reader.refresh());
    EXPECT_EQ(fingerprint(*kept), was);
  }
}

// A reader that stays, and refreshes, costs no more space than one that opens the store again each time.
TEST_P(BesidePacked, a_store_reaches_a_steady_size_beside_a_reader_that_refreshes) {
  store writer(path_, writing());
  writer.set_retention({.newest = 2});
  write(writer, "first", 2'000);
  store reader(path_, reading());
  std::uint64_t early = 0;
  constexpr int turns = 40;
  for (int turn = 0; turn < turns; ++turn) {
    write(writer, "turn " + std::to_string(turn), 2'000);
    EXPECT_TRUE(writer.compact({.whole = true, .on_progress = {}}).packed);
    static_cast<void>(reader.refresh());
    EXPECT_EQ(reader.find("key 1999"), "turn " + std::to_string(turn) + " of 1999");
    if (turn == 9) early = bytes_on_devices(folder_.path());
  }
  EXPECT_LE(bytes_on_devices(folder_.path()), early + early / 4);
}

// Its last pin may end long after its last refresh.
TEST_P(BesidePacked, a_reader_lets_go_when_its_last_snapshot_of_before_has_ended_without_refreshing_again) {
  store writer(path_, writing());
  write(writer, "first");
  store reader(path_, reading());
  auto kept = std::make_unique<snapshot>(reader.latest());
  EXPECT_TRUE(writer.compact().packed);
  static_cast<void>(reader.refresh());
  EXPECT_FALSE(writer.compact().packed) << "all is packed";
  EXPECT_GT(writer.stats().waiting_bytes, 0U) << "what the snapshot leads into";
  kept.reset();
  const deadline soon("the space that a reader has let go of", 60s);
  while (writer.stats().waiting_bytes != 0) {
    EXPECT_FALSE(writer.compact().packed);
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_TRUE(writer.compact().erased);
  EXPECT_EQ(reader.find("key 7"), "first of 7");
}

TEST_P(BesidePacked, threads_of_a_reader_read_while_it_goes_on_with_what_is_packed) {
  const deadline soon("threads that read while the store is packed", 150s);
  const std::uint64_t seed = test_seed();
  const shared<std::atomic<int>> turns;
  const shared<std::atomic<bool>> over;
  {
    store made(path_, writing());
    made.set_retention({.newest = 4});
    write(made, "0", 100);
  }
  child writes([&] {
    store s(path_, writing());
    for (int turn = 1; !*over; ++turn) {
      write(s, std::to_string(turn), 100);
      if (turn % 3 == 0) static_cast<void>(s.compact({.whole = turn % 2 == 0, .on_progress = {}}));
      ++*turns;
      if (turn % 16 == 0) std::this_thread::sleep_for(1ms);
    }
    return 0;
  });
  while (*turns == 0) std::this_thread::sleep_for(1ms);
  store reader(path_, reading());
  std::mutex lock;
  std::map<version, std::uint64_t> seen;
  version newest = 0;  // of the thread that refreshes
  std::atomic<int> refreshes{0};
  std::atomic<int> looks{0};
  constexpr int wanted = 150;
  in_threads(4, [&](unsigned thread) {
    for (std::uint64_t i = 0; refreshes < wanted || looks < wanted; ++i) {
      if (thread == 0) {
        EXPECT_GE(reader.refresh(), newest);
        newest = reader.latest().version();
        ++refreshes;
        std::this_thread::sleep_for(200us);
        continue;
      }
      // one key at a time, or all of them: each value of a version is of the same turn
      try {
        const snapshot now = reader.latest();
        const std::string zero(now.find("key 0").value());
        const std::string turn = zero.substr(0, zero.find(' '));
        EXPECT_EQ(now.find("key 99"), turn + " of 99");

        EXPECT_TRUE(reader.find_tag(now.version()));
        const std::uint64_t sum = fingerprint(now);
        {
          const std::scoped_lock one(lock);
          EXPECT_EQ(seen.try_emplace(now.version(), sum).first->second, sum) << "version " << now.version();
        }
        const auto again = reader.find("key " + std::to_string((i + seed) % 100), now.version());
        EXPECT_EQ(again, turn + " of " + std::to_string((i + seed) % 100));
        for (const change& each : reader.history("key 3")) EXPECT_TRUE(each.value);
      } catch (const error& e) {
        // between two calls it may have refreshed
        EXPECT_EQ(e.code(), errc::version_expired) << e.message();
      }
      ++looks;
    }
  });
  *over = true;
  EXPECT_EQ(writes.wait(), 0);
  EXPECT_GT(seen.size(), 3U);
  EXPECT_TRUE(verify_file(path_).ok());
}

// The version that a reader showed before has expired when it refreshes.
TEST_P(BesidePacked, readers_find_every_key_where_the_newest_version_alone_is_kept) {
  const deadline soon("threads that read while all but the newest version expires", 150s);
  const shared<std::atomic<int>> turns;
  const shared<std::atomic<bool>> over;
  {
    store made(path_, writing());
    made.set_retention({.newest = 1});
    write(made, "0", 20);
  }
  child writes([&] {
    store s(path_, writing());
    for (int turn = 1; !*over; ++turn) {
      write(s, std::to_string(turn), 20);
      // Where durability is deferred, it packs a version that is not published before.
      write_unsettled(s, std::to_string(turn) + "a", 20);
      static_cast<void>(s.compact({.whole = true, .on_progress = {}}));
      ++*turns;
    }
    return 0;
  });
  while (*turns == 0) std::this_thread::sleep_for(1ms);
  store reader(path_, reading());
  constexpr int wanted = 40;
  in_threads(4, [&](unsigned thread) {
    while (*turns < wanted) {
      if (thread == 0) {
        static_cast<void>(reader.refresh());
        continue;
      }
      EXPECT_TRUE(reader.find("key 7"));
      const snapshot now = reader.latest();
      const auto first = now.find("key 0");
      const auto last = now.find("key 19");
      if (!first || !last) {
        ADD_FAILURE() << "version " << now.version() << " has " << (first ? "the first key" : "no first key")
                      << ", and " << (last ? "the last one" : "no last one");
        continue;
      }
      EXPECT_EQ(turn_of(*first), turn_of(*last));
      if (thread == 1) {  // one that comes
        const store another(path_, reading());
        EXPECT_TRUE(another.find("key 7"));
        EXPECT_TRUE(another.latest().find("key 0"));
      }
    }
  });
  *over = true;
  EXPECT_EQ(writes.wait(), 0);
}

// No manifest names a request to forget: it goes although a reader keeps the newest one.
TEST_P(BesidePacked, a_checkpoint_of_a_reader_is_whole_although_a_request_to_forget_ends_meanwhile) {
  store writer(path_, writing());
  write(writer, "first");
  store reader(path_, reading());
  auto kept = std::make_unique<snapshot>(reader.latest());
  writer.forget({.keys = {"key 7"}, .prefixes = {}, .note = {}});
  EXPECT_TRUE(writer.compact().packed) << "the request waits for what the reader keeps";
  write(writer, "second");
  static_cast<void>(reader.refresh());
  auto cut = std::make_unique<checkpoint>(reader.checkpoint());
  kept.reset();
  static_cast<void>(reader.refresh());
  for (int turn = 0; turn < 4; ++turn) {
    write(writer, "turn " + std::to_string(turn), 3'000);
    EXPECT_TRUE(writer.compact().packed);
  }
  cut->write(folder_ / "copy");
  cut.reset();
  const auto report = verify_file(folder_ / "copy");
  EXPECT_TRUE(report.ok()) << report.damages.front().what;
  EXPECT_EQ(store(folder_ / "copy", reading()).find("key 9"), "second of 9");
  EXPECT_TRUE(reader.verify().ok());
}

TEST_P(BesidePacked, a_forked_child_of_a_reader_neither_refreshes_nor_lets_go_of_what_its_parent_keeps) {
  store writer(path_, writing());
  write(writer, "first");
  store reader(path_, reading());
  const snapshot kept = reader.latest();
  const std::uint64_t was = fingerprint(kept);
  EXPECT_TRUE(writer.compact().packed);
  static_cast<void>(reader.refresh());
  child forked([&] {
    expect_error(errc::forked, "forked", [&] { static_cast<void>(reader.refresh()); });
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(forked.wait(), 0);
  EXPECT_FALSE(writer.compact().packed);
  EXPECT_GT(writer.stats().waiting_bytes, 0U);
  EXPECT_EQ(fingerprint(kept), was);
}

TEST_P(BesidePacked, without_a_file_descriptor_left_a_refresh_is_an_error_that_changes_nothing) {
  store writer(path_, writing());
  const version first = write(writer, "first");
  store reader(path_, reading());
  EXPECT_TRUE(writer.compact().packed);
  const version second = write(writer, "second");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(next, 0);
  ::close(next);
  const rlimit none_left{static_cast<rlim_t>(next), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none_left), 0);
  std::string met;  // looked at when there are some again: a sanitizer needs one to look at an exception
  try {
    static_cast<void>(reader.refresh());
  } catch (const std::exception& e) {
    static_cast<void>(setrlimit(RLIMIT_NOFILE, &before));
    met = e.what();
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_NE(met.find("Too many open files"), std::string::npos) << met;
  EXPECT_EQ(reader.find("key 7"), "first of 7");
  EXPECT_EQ(reader.clock(), first + 1);
  EXPECT_EQ(reader.refresh(), second);
  EXPECT_EQ(reader.find("key 7"), "second of 7");
}

/// Where in the files a text is: file and offset. The first of several.
std::optional<std::pair<std::filesystem::path, std::size_t>> place_of(const std::filesystem::path& folder,
                                                                      const std::string& text) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string all = read_file(entry.path());
    if (const std::size_t at = all.find(text); at != std::string::npos) return {{entry.path(), at}};
  }
  return std::nullopt;
}

// What a reader knows of a place ends with what was there.
TEST_P(BesidePacked, a_reader_checks_a_large_value_where_it_has_checked_another_one_before) {
  store writer(path_, writing());
  writer.set_retention({.newest = 1});
  writer.insert("key", "v");
  writer.tag();
  store reader(path_, reading());
  std::set<std::pair<std::filesystem::path, std::size_t>> read;
  constexpr int turns = 60;
  for (int turn = 0; turn < turns; ++turn) {
    const std::string value = "value " + std::to_string(turn) + " " + std::string(100'000, 'v');
    writer.insert("large", value);
    writer.tag("turn " + std::to_string(turn));
    settle(writer);
    static_cast<void>(reader.refresh());
    const auto at = place_of(folder_.path(), value);
    ASSERT_TRUE(at);
    if (read.contains(*at)) {
      std::fstream file(at->first, std::ios::binary | std::ios::in | std::ios::out);
      file.seekp(static_cast<std::streamoff>(at->second + 50'000)).put('w');
      file.close();
      expect_error(errc::damaged, "value of key 'large'", [&] { static_cast<void>(reader.find("large")); });
      return;
    }
    read.insert(*at);
    EXPECT_EQ(reader.find("large"), value);
    writer.remove("large");
    writer.tag();
    EXPECT_TRUE(writer.compact({.whole = true, .on_progress = {}}).packed);
    static_cast<void>(reader.refresh());
  }
  FAIL() << "no place was used again";
}

TEST_P(BesidePacked, a_feed_tells_every_change_across_compactions) {
  const deadline soon("a feed beside a writer that packs the store", 120s);
  store writer(path_, writing());
  store reader(path_, reading());
  constexpr int turns = 12;
  std::thread writes([&] {
    for (int turn = 0; turn < turns; ++turn) {
      writer.insert("key", std::to_string(turn));
      writer.tag("turn " + std::to_string(turn));
      settle(writer);
      if (turn % 3 == 1) {
        EXPECT_TRUE(writer.compact({.whole = turn % 2 == 0, .on_progress = {}}).packed);
      }
      std::this_thread::sleep_for(5ms);
    }
  });
  feed changes = reader.feed({.after = 0, .unsynced = true});
  int told = 0;
  while (told < turns) {
    for (const key_change& each : changes.next(100, 100ms).changes) {
      EXPECT_EQ(each.key, "key");
      EXPECT_EQ(each.value, std::to_string(told));
      ++told;
    }
  }
  writes.join();
}

/// Keeps manifests from being kept, as an icecore of before does that has the file open, or a file system without
/// locks.
class taken_bytes {
 public:
  taken_bytes(const std::filesystem::path& path, std::int64_t first, std::int64_t count)
      : descriptor_(::open(path.c_str(), O_RDWR | O_CLOEXEC)) {
    constexpr std::int64_t bytes_of_manifests = (std::int64_t{1} << 62) - 2 - (std::int64_t{1} << 32);
    struct flock l {};
    l.l_type = F_WRLCK;
    l.l_whence = SEEK_SET;
    l.l_start = bytes_of_manifests + first;
    l.l_len = count;
    if (fcntl(descriptor_, F_OFD_SETLK, &l) != 0) throw std::runtime_error("the bytes are locked already");
  }
  ~taken_bytes() { ::close(descriptor_); }
  taken_bytes(const taken_bytes&) = delete;
  taken_bytes& operator=(const taken_bytes&) = delete;

 private:
  int descriptor_;
};

TEST_P(BesidePacked, where_no_manifest_can_be_kept_a_reader_keeps_all_and_goes_on_all_the_same) {
  store writer(path_, writing());
  write(writer, "first");
  const taken_bytes all(path_, 0, std::int64_t{1} << 32);
  store reader(path_, reading());
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_TRUE(writer.compact().packed);
    const version v = write(writer, "turn " + std::to_string(turn));
    EXPECT_EQ(reader.refresh(), v);
    EXPECT_EQ(fingerprint(reader.at(v)), fingerprint(writer.at(v)));
    EXPECT_GT(writer.stats().waiting_bytes, 0U);
  }
}

TEST_P(BesidePacked, where_one_manifest_cannot_be_kept_a_reader_keeps_all_until_it_has_another_one) {
  store writer(path_, writing());
  const version first = write(writer, "first");
  store reader(path_, reading());
  {
    const taken_bytes second(path_, 1, 1);
    EXPECT_TRUE(writer.compact().packed);
    EXPECT_EQ(reader.refresh(), first);
    EXPECT_EQ(reader.stats().strata, 1U);
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(writer.compact().packed) << "all is packed";
    EXPECT_GT(writer.stats().waiting_bytes, 0U);
  }
  const version second = write(writer, "second");
  EXPECT_TRUE(writer.compact({.whole = true, .on_progress = {}}).packed);
  EXPECT_EQ(fingerprint(reader.at(first)), fingerprint(writer.at(first)));
  EXPECT_EQ(reader.refresh(), second);
  EXPECT_FALSE(writer.compact().packed);
  EXPECT_EQ(writer.stats().waiting_bytes, 0U) << "the reader keeps the newest manifest alone";
  EXPECT_EQ(fingerprint(reader.at(first)), fingerprint(writer.at(first)));
}

std::vector<setting> settings() {
  setting deferred{place::tmpfs, durability::operation};
  deferred.deferred = true;
  setting deferred_on_disk{place::disk, durability::operation};  // where changing the root takes long
  deferred_on_disk.deferred = true;
  return {
      {place::tmpfs, durability::none},
      {place::tmpfs, durability::operation, index_kind::hash},
      {place::tmpfs, durability::operation, index_kind::persistent},
      {place::tmpfs, durability::none, index_kind::btree, 3},
      deferred,
      deferred_on_disk,
  };
}

TEST(BesidePackedOne, a_reader_may_refresh_while_it_verifies) {
  const deadline soon("a reader that refreshes while it verifies", 60s);
  const scratch folder(place::tmpfs);
  options writing;
  writing.durability = durability::none;
  store writer(folder / "store.ice", writing);
  constexpr std::uint64_t told_of = std::uint64_t{70} << 20;  // progress is told each 64 MiB, by one of the threads
  for (const char* key : {"a", "b", "c", "d"}) writer.insert(key, std::string(told_of, *key));
  writer.tag("first");
  store reader(folder / "store.ice", reading());
  int told = 0;
  const auto report = reader.verify([&](const progress&) {
    if (told++ != 0) return;
    writer.insert("e", "second");
    EXPECT_TRUE(writer.compact().packed);
    const version second = writer.tag("second");
    std::thread([&] { EXPECT_EQ(reader.refresh(), second); }).join();
    EXPECT_EQ(reader.refresh(), second);
    EXPECT_EQ(reader.stats().strata, 1U);
  });
  EXPECT_TRUE(report.ok());
  EXPECT_GT(told, 0);
}

INSTANTIATE_TEST_SUITE_P(Stores, BesidePacked, ::testing::ValuesIn(settings()),
                         [](const auto& one) { return one.param.name(); });

}  // namespace
}  // namespace icecore::testing
