// verify beside the process that writes the store: it finds what is damaged of what was settled when it began, and
// nothing that is not damaged, whatever the writer does meanwhile.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "base/memory/sanitizer.hpp"
#include "icecore/icecore.hpp"
#include "store/core.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/model.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"
#include "support/several_files.hpp"
#include "support/shared_store.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

std::string what_is_wrong(const verify_report& report) {
  std::string all;
  for (const damage& d : report.damages) {
    all += d.file + " byte " + std::to_string(d.offset) + " (" + d.structure + "): " + d.what + "\n";
  }
  return all;
}

/// Changes a byte of the file of the folder that says so, as a device would.
void flip_in(const std::filesystem::path& folder, const std::string& needle) {
  for (const auto& each : std::filesystem::directory_iterator(folder)) {
    const std::string bytes = read_file(each.path());
    const std::size_t at = bytes.find(needle);
    if (at == std::string::npos) continue;
    std::fstream file(each.path(), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(needle[0] ^ 1));
    return;
  }
  FAIL() << needle << " is in no file";
}

std::vector<setting> settings() {
  std::vector<setting> all = {
      {place::tmpfs, durability::none},
      {place::tmpfs, durability::operation, index_kind::skip_list},
      {place::tmpfs, durability::tag, index_kind::hash},
      {place::tmpfs, durability::operation, index_kind::persistent},
      {place::tmpfs, durability::tag, index_kind::persistent, 2},
      {place::tmpfs, durability::operation, index_kind::btree, 1, true},
  };
  if (root_of(place::disk)) all.push_back({place::disk, durability::tag});
  return all;
}

class VerifyBeside : public ::testing::TestWithParam<setting> {
 protected:
  scratch folder_{GetParam().where};
  std::filesystem::path path_ = folder_ / "written.ice";

  [[nodiscard]] options writing() const { return GetParam().options_at(path_); }
  void remove_all() const {
    for (const auto& each : std::filesystem::directory_iterator(folder_.path())) std::filesystem::remove(each.path());
  }
  /// Records of several sizes in two versions, and what is open behind them.
  void fill(store& writer, std::size_t large_bytes = 100'000) const {
    for (int i = 0; i < 300; ++i) writer.insert("key " + std::to_string(i), "value-of-" + std::to_string(i) + ";");
    writer.insert("large", std::string(large_bytes, 'l'));
    writer.tag("one");
    for (int i = 0; i < 300; i += 3) writer.insert("key " + std::to_string(i), "newer-of-" + std::to_string(i) + ";");
    writer.remove("key 1");
    writer.tag("two");
    if (GetParam().deferred) writer.sync();
    writer.insert("open", "not settled");
  }
};

TEST_P(VerifyBeside, what_is_settled_is_checked_and_counted) {
  store writer(path_, writing());
  fill(writer);
  const verify_report report = verify_file(path_);
  EXPECT_TRUE(report.ok()) << what_is_wrong(report);
  EXPECT_EQ(report.entries, 301U);
  EXPECT_EQ(report.records, 301U + 100U + 1U);
  EXPECT_EQ(report.tags, 2U);
  writer.close();
  EXPECT_EQ(verify_file(path_).entries, 302U);
}

TEST_P(VerifyBeside, a_damaged_record_among_settled_ones_is_found) {
  for (const char* needle : {"value-of-7;", "newer-of-0;"}) {
    SCOPED_TRACE(needle);
    remove_all();
    store writer(path_, writing());
    fill(writer);
    flip_in(path_.parent_path(), needle);
    const verify_report report = verify_file(path_);
    EXPECT_FALSE(report.ok());
    // what is lost is known by its neighbours
    EXPECT_EQ(report.entries, needle[0] == 'v' ? 300U : 301U);
  }
}

TEST_P(VerifyBeside, a_damaged_large_value_and_a_damaged_header_are_found) {
  {
    store writer(path_, writing());
    fill(writer);
    flip_in(path_.parent_path(), std::string(5'000, 'l'));
    const verify_report report = verify_file(path_);
    ASSERT_EQ(report.damages.size(), 1U) << what_is_wrong(report);
    EXPECT_EQ(report.damages[0].key, "large");
  }
  remove_all();
  store writer(path_, writing());
  fill(writer);
  const link record = writer.core().entry_of("key 5");
  link header = record / format::granule_size * format::granule_size;
  pool& p = writer.core().the_pool().of(record);
  while (!p.valid_header(header)) header -= format::granule_size;
  p.header_of(header).crc ^= 1;
  const verify_report report = verify_file(path_);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.damages[0].what, "the segment's header is damaged") << what_is_wrong(report);
  p.header_of(header).crc ^= 1;
}

TEST_P(VerifyBeside, the_last_record_that_the_root_certifies_is_missed) {
  if (GetParam().durability != durability::tag) GTEST_SKIP() << "the root certifies no record of this session";
  store writer(path_, writing());
  writer.insert("a", "first-value;");
  writer.insert("b", "last-value;");
  writer.tag();
  flip_in(path_.parent_path(), "last-value;");
  const verify_report report = verify_file(path_);
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.damages[0].what.find("certifies 2 records, but 1 were found"), std::string::npos)
      << what_is_wrong(report);
}

TEST_P(VerifyBeside, damage_of_what_is_packed_is_found) {
  store writer(path_, writing());
  fill(writer, 10'000);  // no value stays where it was written, with the records beside it
  static_cast<void>(writer.compact());
  writer.insert("behind", "it");
  writer.tag("three");
  if (GetParam().deferred) writer.sync();
  const verify_report before = verify_file(path_);
  EXPECT_TRUE(before.ok()) << what_is_wrong(before);
  EXPECT_EQ(before.tags, 3U);
  flip_in(path_.parent_path(), "newer-of-33;");
  const verify_report report = verify_file(path_);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.damages[0].structure, "packed") << what_is_wrong(report);
}

TEST_P(VerifyBeside, a_reader_that_was_there_before_the_store_was_packed_finds_no_damage) {
  store writer(path_, writing());
  fill(writer);
  options reading;
  reading.access = access::read_only;
  const store reader(path_, reading);
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(reader.verify().ok()) << "behind " << i << " compactions\n" << what_is_wrong(reader.verify());
    writer.insert("key " + std::to_string(i), "again");
    static_cast<void>(writer.compact({.whole = true}));
  }
  writer.close();
  EXPECT_TRUE(reader.verify().ok()) << what_is_wrong(reader.verify());
}

TEST_P(VerifyBeside, a_dry_run_counts_beside_the_writer_and_changes_nothing) {
  store writer(path_, writing());
  fill(writer);
  writer.set_retention({.newest = 1});
  const compaction_report told = compact(path_, {}, {.dry_run = true});
  EXPECT_EQ(told.records, 300U) << "of version 2: all keys but the removed one";
  EXPECT_EQ(told.up_to, 2U);
  EXPECT_EQ(told.versions_expired, 1U);
  EXPECT_FALSE(told.packed);
  const query needs_the_first = writer.start({.name = "first version", .at = 1});
  const compaction_report held = compact(path_, {}, {.dry_run = true, .only_if_expiring = true});
  EXPECT_EQ(held.versions_expired, held.up_to - 2) << "all but the newest one and the first";
  const store reader(path_, [] {
    options reading;
    reading.access = access::read_only;
    return reading;
  }());
  EXPECT_EQ(reader.stats().oldest_held, 1U);
  EXPECT_EQ(reader.retention().newest, 1U);
}

TEST_P(VerifyBeside, a_dry_run_of_an_open_store_does_not_make_its_format_a_later_one) {
  store writer(path_, writing());
  fill(writer);
  const std::uint32_t before = writer.stats().format_major;
  static_cast<void>(writer.compact({.dry_run = true}));
  EXPECT_EQ(writer.stats().format_major, before);
}

TEST_P(VerifyBeside, nothing_is_damaged_while_a_process_writes_packs_closes_and_is_killed) {
#ifdef ICECORE_UNDER_THREAD_SANITIZER
  GTEST_SKIP() << "a child of a process with threads makes some of its own";
#endif
  const deadline soon("verify beside writers", 120s);
  const shared<std::atomic<int>> turns;
  const shared<std::atomic<int>> verified;
  constexpr int all = 12;
  { store(path_, writing()).insert("first", "x"); }
  const auto open_for_writing = [&] {
    for (;;) {
      try {
        return store(path_, writing());
      } catch (const error& e) {  // a closed store is verified with a lock
        if (e.code() != errc::locked) throw;
      }
      std::this_thread::sleep_for(100us);
    }
  };
  const auto write = [&](int turn) {
    store s = open_for_writing();
    for (int i = 0; i < 600; ++i) {
      s.insert("key " + std::to_string(i % 97), std::string(static_cast<std::size_t>(i) * 7 % 5'000, 'v'));
      if (i % 31 == 0) s.tag("tag " + std::to_string(turn) + " " + std::to_string(i));
      if (i % 50 == 0) s.sync();
      if (i == 200 && turn % 2 == 1) s.start({.name = "query " + std::to_string(turn)}).run();
      if (i == 300 && turn % 4 == 3) s.query("query " + std::to_string(turn - 2)).drop();
      if (i % 200 == 100 && turn % 3 != 0) static_cast<void>(s.compact({.whole = i == 300}));
    }
    if (turn % 4 == 2) ::kill(::getpid(), SIGKILL);
  };
  child writers([&] {
    for (int turn = 0; turn < all; ++turn) {
      child session([&] {
        write(turn);
        return 0;
      });
      const int ended = session.wait();
      if (ended != (turn % 4 == 2 ? -SIGKILL : 0)) {
        *turns = all;
        return 1;
      }
      ++*turns;
      while (turn % 3 == 0 && *verified <= turn) std::this_thread::sleep_for(100us);
    }
    return 0;
  });
  while (*turns < all) {
    const int before = *turns;
    const verify_report report = verify_file(path_);
    EXPECT_TRUE(report.ok()) << "turn " << before << "\n" << what_is_wrong(report);
    EXPECT_GT(report.entries, 0U);
    if (::testing::Test::HasFailure()) break;
    *verified = before;
  }
  *verified = all;
  EXPECT_EQ(writers.wait(), 0);
}

INSTANTIATE_TEST_SUITE_P(All, VerifyBeside, ::testing::ValuesIn(settings()),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace icecore::testing
