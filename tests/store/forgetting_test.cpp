// Keys that are forgotten: what shows them until the next compaction, and that no byte of them is in a file afterwards.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "icecore/icecore.hpp"
#include "pool/manifest/manifest.hpp"
#include "store/core.hpp"
#include "store/packed/retention/forgetting.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"
#include "support/several_files.hpp"
#include "support/store_in_memory.hpp"

namespace icecore::testing {
namespace {

// Bytes that come from nowhere else.
const std::string secret_key = "K3y-0f-4-p3rs0n";
const std::string secret_value = "V4lu3-0f-4-p3rs0n-";

class Forgetting : public ::testing::TestWithParam<setting> {
 protected:
  [[nodiscard]] options opening() const { return GetParam().options_at(path_); }
  /// Three layers have the key, among others: two strata and what is written last; small and large values.
  void fill() const {
    for (unsigned layer = 0; layer < 3; ++layer) {
      {
        store s(path_, opening());
        const unsigned others = layer == 0 ? 3'000 : 100;  // the strata stay apart
        for (unsigned i = 0; i < others; ++i) s.insert("other " + std::to_string(i), "o" + std::to_string(layer));
        s.insert(secret_key, secret_value + std::to_string(layer));
        s.tag();
        s.insert(secret_key, secret_value + std::string(layer == 1 ? 200'000 : 5'000, 'l'));
        s.insert(secret_key + "/below", secret_value);
        s.tag("layer " + std::to_string(layer));
      }
      if (layer < 2) static_cast<void>(compact(path_, opening()));
    }
  }
  void expect_no_byte_of_it(const std::filesystem::path& file) const {
    const std::string bytes = read_file(file);
    // a part of each, too
    for (const std::string& secret : {secret_key, secret_value, secret_key.substr(2, 9), secret_value.substr(1, 11)}) {
      EXPECT_EQ(bytes.find(secret), std::string::npos) << secret << " in " << file;
    }
  }
  void expect_forgotten() const {
    expect_no_byte_of_it(path_);
    const store s(path_, opening());
    EXPECT_FALSE(s.find(secret_key));
    EXPECT_TRUE(s.history(secret_key).newest_first().empty());
    for (version v = 0; v < s.clock(); ++v) EXPECT_FALSE(s.find(secret_key, v)) << v;
    EXPECT_EQ(s.keys().size(), 3'000U);
    EXPECT_EQ(s.find("other 7", 1)->bytes(), "o0");
    EXPECT_EQ(s.find("other 7")->bytes(), "o2");
    EXPECT_TRUE(s.verify().ok());
  }

  scratch folder_{GetParam().where};
  std::filesystem::path path_ = folder_ / "store.ice";
};

TEST_P(Forgetting, leaves_no_byte_in_the_file_after_the_next_compaction) {
  fill();
  {
    store s(path_, opening());
    const forget_report done = s.forget({.keys = {secret_key}, .prefixes = {secret_key + "/"}, .note = "case 4711"});
    EXPECT_EQ(done.keys, 2U);
    EXPECT_EQ(done.tag, "forgotten-1");
    EXPECT_FALSE(s.find(secret_key));
    EXPECT_FALSE(s.find(secret_key + "/below"));
    EXPECT_TRUE(s.find(secret_key, 1)) << "closed versions show it until the compaction";
  }
  const compaction_report done = compact(path_, opening());
  EXPECT_TRUE(done.packed);
  EXPECT_TRUE(done.erased);
  expect_forgotten();
  store s(path_, opening());
  EXPECT_EQ(s.find_tag("forgotten-1")->note, "2 keys: case 4711");
  // and it may be written again
  s.insert(secret_key, "new");
  s.tag();
  s.close();
  static_cast<void>(compact(path_, opening()));
  EXPECT_EQ(store(path_, opening()).find(secret_key)->bytes(), "new");
}

TEST_P(Forgetting, of_a_prefix_takes_all_keys_that_begin_with_it) {
  fill();
  {
    store s(path_, opening());
    EXPECT_EQ(s.forget({.prefixes = {secret_key.substr(0, 4)}}).keys, 2U);
    EXPECT_EQ(s.forget({.prefixes = {"nothing begins with this"}}).keys, 0U);
    EXPECT_EQ(s.forget({.keys = {"no such key"}}).keys, 0U);
  }
  static_cast<void>(compact(path_, opening()));
  expect_forgotten();
}

// The call removes the keys behind its request. A compaction in between packs these removals on top of what it erases.
TEST_P(Forgetting, leaves_no_name_of_keys_that_are_removed_while_the_store_is_packed) {
  constexpr unsigned keys = 4'000;
  for (unsigned turn = 0; turn < 3; ++turn) {
    store s(path_, opening());
    for (unsigned i = 0; i < keys; ++i) s.insert(secret_key + std::to_string(i), "v");
    for (unsigned i = 0; i < keys / 4; ++i) s.insert("other " + std::to_string(i), "o");
    s.tag();
    static_cast<void>(s.compact());
    std::thread forgetting([&] { static_cast<void>(s.forget({.prefixes = {secret_key}})); });
    while (detail::forgotten_keys(s.core().the_pool()).segments().empty()) std::this_thread::yield();
    bool erased = s.compact().erased;
    forgetting.join();
    for (unsigned more = 0; more < 5 && !erased; ++more) erased = s.compact().erased;
    EXPECT_TRUE(erased);
    s.close();
    expect_no_byte_of_it(path_);
  }
}

TEST_P(Forgetting, is_not_lost_when_the_process_is_killed_behind_the_call) {
  fill();
  child writer([&] {
    store s(path_, opening());
    static_cast<void>(s.forget({.prefixes = {secret_key}}));
    ::raise(SIGKILL);
    return 0;
  });
  EXPECT_EQ(writer.wait(), -SIGKILL);
  EXPECT_FALSE(store(path_, opening()).find(secret_key));
  static_cast<void>(compact(path_, opening()));
  expect_forgotten();
}

// Amid the call, or amid the compaction that gives the request back: nothing else need be there to pack.
TEST_P(Forgetting, leaves_no_byte_of_a_request_that_a_crash_has_cut_off) {
  for (const bool while_open : {false, true}) {
    SCOPED_TRACE(while_open);
    { store(path_, opening()).insert("other", "value"); }
    static_cast<void>(compact(path_, opening()));
    {
      const store s(path_, opening());
      pool_set& pools = s.core().the_pool();
      announce_packed_segments(pools);
      const segment cut = pools.allocate(secret_key.size() + 1'000, 0, format::forget_segment_magic, {});
      std::memcpy(pools.at(cut.first_record()) + 200, secret_key.data(), secret_key.size());
    }
    EXPECT_NE(read_file(path_).find(secret_key), std::string::npos);
    const compaction_report report = while_open ? store(path_, opening()).compact() : compact(path_, opening());
    EXPECT_TRUE(report.erased);
    expect_no_byte_of_it(path_);
    EXPECT_EQ(store(path_, opening()).find("other"), "value");
  }
}

TEST_P(Forgetting, leaves_what_is_written_later) {
  fill();
  version up_to = 0;
  {
    store s(path_, opening());
    up_to = s.forget({.keys = {secret_key}}).up_to;
    s.insert(secret_key, "later");
    s.tag();
  }
  static_cast<void>(compact(path_, opening()));
  const store s(path_, opening());
  EXPECT_EQ(s.find(secret_key)->bytes(), "later");
  const auto history = s.history(secret_key).newest_first();
  ASSERT_EQ(history.size(), 1U);
  EXPECT_GT(history.front().version, up_to);
  EXPECT_TRUE(s.find(secret_key + "/below"));
}

// Without a tag, too: the version of what is forgotten is closed, so that the next write of the key is not one of it.
TEST_P(Forgetting, leaves_what_is_written_at_once_behind_a_call_that_makes_no_tag) {
  for (const bool while_open : {false, true}) {
    SCOPED_TRACE(while_open);
    const std::string key = secret_key + std::to_string(while_open);
    {
      store s(path_, opening());
      s.insert(key, secret_value);
      const forget_report done = s.forget({.keys = {key}, .tag = false});
      EXPECT_FALSE(s.find(key));
      EXPECT_GT(s.insert(key, "written later"), done.up_to);
      if (while_open) {
        EXPECT_TRUE(s.compact().erased);
      }
    }
    if (!while_open) static_cast<void>(compact(path_, opening()));
    EXPECT_EQ(read_file(path_).find(secret_value), std::string::npos);
    const store s(path_, opening());
    EXPECT_EQ(s.find(key)->bytes(), "written later");
    EXPECT_EQ(s.history(key).newest_first().size(), 1U);
  }
}

TEST_P(Forgetting, goes_into_checkpoints_that_are_made_before_the_compaction) {
  fill();
  {
    store s(path_, opening());
    static_cast<void>(s.forget({.prefixes = {secret_key}}));
    s.checkpoint().write(folder_ / "copy.ice");
  }
  static_cast<void>(compact(folder_ / "copy.ice", GetParam().options_at(folder_ / "copy.ice")));
  expect_no_byte_of_it(folder_ / "copy.ice");
}

TEST_P(Forgetting, reaches_what_compactions_meet_while_they_go_on) {
  constexpr unsigned threads = 3;
  constexpr unsigned keys = 60;
  const auto key_of = [](unsigned thread, unsigned i) { return std::to_string(thread) + " " + std::to_string(i); };
  store s(path_, opening());
  std::atomic<bool> over{false};
  std::thread packing([&] {
    while (!over) static_cast<void>(s.compact());
  });
  std::vector<std::thread> forgetting;
  for (unsigned t = 0; t < threads; ++t) {
    forgetting.emplace_back([&, t] {
      for (unsigned i = 0; i < keys; ++i) {
        s.insert(key_of(t, i), secret_value);
        static_cast<void>(s.latest());
        s.forget({.keys = {key_of(t, i)}});
      }
    });
  }
  for (std::thread& t : forgetting) t.join();
  over = true;
  packing.join();
  // the second one gives back what the last of those above held
  static_cast<void>(s.compact());
  EXPECT_TRUE(s.compact().erased);
  for (unsigned t = 0; t < threads; ++t) {
    for (unsigned i = 0; i < keys; ++i) EXPECT_TRUE(s.history(key_of(t, i)).newest_first().empty()) << key_of(t, i);
  }
  EXPECT_TRUE(s.verify().ok());
}

TEST_P(Forgetting, again_and_again_takes_no_more_space_of_an_open_store) {
  store s(path_, opening());
  const auto forget_some = [&] {
    for (unsigned i = 0; i < 10; ++i) {
      s.insert(secret_key, secret_value);
      s.forget({.keys = {secret_key}});
      EXPECT_TRUE(s.compact().erased);
    }
    return s.stats().file_bytes - s.stats().free_bytes;
  };
  static_cast<void>(forget_some());
  const std::uint64_t taken = forget_some();
  EXPECT_LE(forget_some(), taken + (std::uint64_t{64} << 10)) << "tags take some";
}

TEST_P(Forgetting, refuses_what_it_cannot_do) {
  store s(path_, opening());
  expect_error(errc::invalid_argument, "no key and no prefix", [&] { static_cast<void>(s.forget({})); });
  expect_error(errc::key_too_long, "keys have at most",
               [&] { static_cast<void>(s.forget({.keys = {std::string(key_size_max + 1, 'k')}})); });
  expect_error(errc::invalid_argument, "a note of", [&] {
    const std::string note(forget_note_size_max + 1, 'n');
    static_cast<void>(s.forget({.keys = {"k"}, .note = note}));
  });
  EXPECT_TRUE(s.tags().empty());
}

INSTANTIATE_TEST_SUITE_P(EverySetting, Forgetting, ::testing::ValuesIn(tmpfs_settings()),
                         [](const auto& tested) { return tested.param.name(); });

// ---- What else holds keys ----

class ForgettingElsewhere : public ::testing::Test, protected store_in_memory {
 protected:
  void expect_no_secret() const {
    const std::string bytes = read_file(path_);
    EXPECT_EQ(bytes.find(secret_key), std::string::npos);
    EXPECT_EQ(bytes.find(secret_value), std::string::npos);
  }
  void fill() const {
    store s(path_, how_);
    for (unsigned i = 0; i < 500; ++i) s.insert("other " + std::to_string(i), "o");
    s.insert(secret_key, secret_value);
    s.tag("filled");
  }
};

TEST_F(ForgettingElsewhere, drops_kept_queries_and_the_feeds_that_hold_a_key) {
  fill();
  {
    store s(path_, how_);
    s.start({.name = "all", .where = filter("true")}).run();
    s.start({.name = "dropped", .where = filter("true")}).run();
    s.query("dropped").drop();
    static_cast<void>(s.feed({.name = "of others", .after = 0}));
    static_cast<void>(s.feed({.name = "of it", .after = 0, .where = filter("key == '" + secret_key + "'")}));
    feed items = s.feed({.name = "amid it", .after = 1, .snapshot = true});
    items.acknowledge(items.next(1).token);  // upper case comes before lower case
    ASSERT_NE(read_file(path_).find(secret_key), std::string::npos);
    static_cast<void>(s.forget({.keys = {secret_key}}));
  }
  static_cast<void>(compact(path_, how_));
  expect_no_secret();
  const store s(path_, how_);
  EXPECT_TRUE(s.queries().empty());
  ASSERT_EQ(s.feeds().size(), 1U);
  EXPECT_EQ(s.feeds().front().name, "of others");
  EXPECT_TRUE(s.verify().ok());
}

TEST_F(ForgettingElsewhere, clears_the_space_of_queries_though_none_is_kept_any_more) {
  fill();
  {
    store s(path_, how_);
    s.start({.name = "dropped", .where = filter("true")}).run();
    s.query("dropped").drop();
    static_cast<void>(s.forget({.keys = {secret_key}}));
  }
  EXPECT_TRUE(compact(path_, how_).erased);
  expect_no_secret();
}

TEST_F(ForgettingElsewhere, finds_the_keys_in_compressed_strata_with_the_smallest_cache) {
  how_.block_cache_bytes = 1;
  const compaction_options compressed{.compression = compression::zstd, .on_progress = {}};
  for (const unsigned keys : {4'000U, 100U}) {  // two strata that stay apart
    {
      store s(path_, how_);
      for (unsigned i = 0; i < keys; ++i) s.insert("other " + std::to_string(i), std::string(300, 'o'));
      if (keys == 4'000) s.insert(secret_key, secret_value);
      s.tag();
    }
    static_cast<void>(compact(path_, how_, compressed));
  }
  {
    store s(path_, how_);
    ASSERT_EQ(s.stats().strata, 2U);
    // The search goes from one end of the strata to the other and back.
    static_cast<void>(s.forget({.keys = {"a", "other 2000", "other 3999", secret_key}, .prefixes = {"other 1", "z"}}));
  }
  const compaction_report done = compact(path_, how_, compressed);
  EXPECT_TRUE(done.erased);
  EXPECT_EQ(done.strata, 1U);
  const store s(path_, how_);
  for (const char* gone : {"other 2000", "other 3999", "other 1", "other 1234"}) EXPECT_FALSE(s.find(gone, 1)) << gone;
  EXPECT_FALSE(s.find(secret_key, 1));
  EXPECT_EQ(s.find("other 2001", 1)->bytes(), std::string(300, 'o'));
  EXPECT_TRUE(s.verify().ok());
}

TEST_F(ForgettingElsewhere, waits_for_a_reader_beside_the_writer) {
  fill();
  auto writer = std::make_unique<store>(path_, how_);
  options reading;
  reading.access = access::read_only;
  auto reader = std::make_unique<store>(path_, reading);
  ASSERT_TRUE(reader->beside_writer());
  static_cast<void>(writer->forget({.keys = {secret_key}}));
  writer.reset();
  EXPECT_FALSE(compact(path_, how_).erased);
  EXPECT_FALSE(store(path_, how_).find(secret_key, 1)) << "forgotten, but its bytes are still in the file";
  reader.reset();
  const compaction_report again = compact(path_, how_);
  EXPECT_TRUE(again.packed);
  EXPECT_TRUE(again.erased);
  expect_no_secret();
}

TEST_F(ForgettingElsewhere, is_counted_by_a_dry_run_which_changes_nothing) {
  fill();
  {
    store s(path_, how_);
    static_cast<void>(s.forget({.keys = {secret_key}}));
    s.set_retention({.newest = 1});
  }
  const std::string before = read_file(path_);
  const compaction_report told = compact(path_, how_, {.dry_run = true, .on_progress = {}});
  EXPECT_EQ(read_file(path_), before);
  EXPECT_FALSE(told.packed);
  EXPECT_EQ(told.versions_expired, 1U);
  EXPECT_EQ(told.records, 500U);
  EXPECT_GT(told.records_dropped, 0U);
  const compaction_report done = compact(path_, how_);
  EXPECT_EQ(told.versions_expired, done.versions_expired);
  EXPECT_EQ(told.records, done.records);
  EXPECT_EQ(told.records_dropped, done.records_dropped);
  EXPECT_EQ(told.bytes_written, done.bytes_written);
  EXPECT_EQ(told.keys, done.keys);
  EXPECT_EQ(told.strata, done.strata);
}

TEST(ForgettingInSeveralFiles, leaves_no_byte_in_any_of_them) {
  const files where({place::tmpfs, durability::tag}, 3);
  {
    store s(where.path(), where.making());
    for (unsigned i = 0; i < 300; ++i) s.insert("other " + std::to_string(i), std::string(1000, 'o'));
    s.insert(secret_key, secret_value);
    s.tag();
    static_cast<void>(s.forget({.keys = {secret_key}}));
  }
  EXPECT_TRUE(compact(where.path(), where.plain()).erased);
  for (unsigned i = 0; i < 3; ++i) {
    const std::string bytes = read_file(where.path(i));
    EXPECT_EQ(bytes.find(secret_key), std::string::npos) << i;
    EXPECT_EQ(bytes.find(secret_value), std::string::npos) << i;
  }
}

}  // namespace
}  // namespace icecore::testing
