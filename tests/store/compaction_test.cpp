// A store that was compacted: what stays as it was, what it gives back, what damage of packed versions becomes, and who
// may look on. Random scripts with compactions are in model_test.cpp, crashes amid them in the crash simulator.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "icecore/icecore.hpp"
#include "pool/manifest/manifest.hpp"
#include "store/core.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/fingerprint.hpp"
#include "support/model.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"
#include "support/several_files.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

std::string key_of(std::size_t i) { return "key-" + std::to_string(1000 + i); }

/// `rounds` versions of `keys` keys; in each a fifth of the keys is written, and some are removed.
void write_rounds(store& s, model& m, unsigned keys, unsigned rounds, unsigned seed) {
  std::mt19937 random(seed);
  for (unsigned r = 0; r < rounds; ++r) {
    for (unsigned i = 0; i < keys / 5; ++i) {
      const std::string key = key_of(random() % keys);
      if (random() % 4 == 0) {
        ASSERT_EQ(s.remove(key).has_value(), m.remove(key).has_value());
      } else {
        const std::string value = std::to_string(random()) + std::string(random() % 50, 'v');
        s.insert(key, value);
        m.insert(key, value);
      }
    }
    const std::string name = "round " + std::to_string(seed) + "-" + std::to_string(r);
    const std::int64_t time_ns = 1000 * std::int64_t{seed} + r;
    const version v = s.tag({.name = name, .time_ns = time_ns});
    ASSERT_EQ(v, m.close_version());
    m.tags.push_back({v, time_ns, name, {}});
  }
}

std::uint64_t bytes_on_device(const std::filesystem::path& path) {
  struct stat about {};
  EXPECT_EQ(::stat(path.c_str(), &about), 0);
  return static_cast<std::uint64_t>(about.st_blocks) * 512;
}

class Compaction : public ::testing::TestWithParam<setting> {
 protected:
  scratch folder_{GetParam().where};
  std::filesystem::path path_ = folder_ / "packed.ice";
  [[nodiscard]] options opening() const { return GetParam().options_at(path_); }
};

TEST_P(Compaction, changes_no_answer_however_often_and_whatever_is_written_between) {
  model m;
  for (unsigned turn = 1; turn <= 5; ++turn) {
    {
      store s(path_, opening());
      write_rounds(s, m, 200, 6, turn);
      compare_everything(s, m, 5);
    }
    const auto form = turn % 2 == 0 ? compression::zstd : compression::none;
    const compaction_report done =
        compact(path_, opening(), {.whole = turn == 4, .threads = turn % 3, .compression = form, .on_progress = {}});
    EXPECT_TRUE(done.packed);
    EXPECT_EQ(done.up_to, m.clock - 1);
    EXPECT_GT(done.records, 0U);
    EXPECT_TRUE(turn != 4 || done.strata == 1);
    m.pack();
    const auto report = verify_file(path_);
    EXPECT_TRUE(report.ok()) << report.damages.front().what;
    compare_everything(store(path_, opening()), m, 5);
    options reading;
    reading.access = access::read_only;
    compare_everything(store(path_, reading), m, 5);
  }
}

TEST_P(Compaction, of_what_is_packed_already_does_nothing) {
  model m;
  {
    store s(path_, opening());
    write_rounds(s, m, 50, 3, 1);
  }
  EXPECT_TRUE(compact(path_, opening()).packed);
  const std::string before = read_file(path_);
  const compaction_report again = compact(path_, opening());
  EXPECT_FALSE(again.packed);
  EXPECT_EQ(again.strata, 1U);
  EXPECT_EQ(again.bytes_written, 0U);
  m.pack();
  compare_everything(store(path_, opening()), m);
  const store empty(folder_ / "empty.ice", GetParam().options_at(folder_ / "empty.ice"));
}

TEST_P(Compaction, of_an_empty_store_does_nothing) {
  { const store s(path_, opening()); }
  const compaction_report done = compact(path_, opening());
  EXPECT_FALSE(done.packed);
  EXPECT_EQ(done.strata, 0U);
}

TEST_P(Compaction, keeps_conditions_and_removals_right_over_packed_versions) {
  {
    store s(path_, opening());
    s.insert("there", "1");
    s.insert("removed", "1");
    s.tag();
    s.remove("removed");
  }
  static_cast<void>(compact(path_, opening()));
  store s(path_, opening());
  const auto changes = s.history("there").newest_first();
  const version since = changes.front().version;
  EXPECT_FALSE(s.insert_new("there", "2"));
  EXPECT_FALSE(s.replace("there", "2", since + 1));
  EXPECT_FALSE(s.replace("removed", "2", since));
  EXPECT_FALSE(s.remove("removed"));
  EXPECT_FALSE(s.remove("never"));
  EXPECT_TRUE(s.insert_new("removed", "2"));
  EXPECT_FALSE(s.insert_new("removed", "3"));
  EXPECT_TRUE(s.remove("there"));
  EXPECT_FALSE(s.find("there"));
  EXPECT_FALSE(s.remove("there"));
  EXPECT_FALSE(s.replace("there", "3", since));
  EXPECT_TRUE(s.insert_new("there", "4"));
  batch both;
  both.insert_new("there", "5");
  both.insert("other", "5");
  EXPECT_FALSE(s.apply_if(both));
  EXPECT_FALSE(s.find("other"));
  EXPECT_EQ(s.find("there")->bytes(), "4");
  EXPECT_EQ(s.find("there", since)->bytes(), "1");
}

TEST_P(Compaction, of_a_key_lets_a_batch_add_one_record_to_its_history) {
  {
    store s(path_, opening());
    s.insert("there", "1");
  }
  static_cast<void>(compact(path_, opening()));
  store s(path_, opening());
  batch both;  // over the persistent index each key is entered first, without a value
  both.insert("there", "2");
  both.insert("other", "2");
  s.apply(both);
  std::string shown;
  for (const change& c : s.history("there")) shown.append(c.value.value_or("removed")).append(" ");
  EXPECT_EQ(shown, "2 1 ");
}

TEST_P(Compaction, lets_one_of_several_threads_remove_a_packed_key) {
  constexpr unsigned keys = 200;
  {
    store s(path_, opening());
    for (unsigned i = 0; i < keys; ++i) s.insert(key_of(i), "value");
  }
  static_cast<void>(compact(path_, opening()));
  store s(path_, opening());
  std::atomic<unsigned> removed{0};
  std::vector<std::thread> all;
  for (unsigned t = 0; t < 3; ++t) {
    all.emplace_back([&] {
      for (unsigned i = 0; i < keys; ++i) removed += s.remove(key_of(i)) ? 1 : 0;
    });
  }
  for (std::thread& t : all) t.join();
  EXPECT_EQ(removed, keys);
  EXPECT_EQ(s.latest().size(), 0U);
  for (unsigned i = 0; i < keys; ++i) EXPECT_EQ(s.history(key_of(i)).newest_first().size(), 2U);
}

TEST_P(Compaction, lets_feeds_and_queries_go_on) {
  const filter half = filter("key >= 'key-1100'");
  version at = 0;
  std::vector<std::string> matches;
  model m;
  {
    store s(path_, opening());
    write_rounds(s, m, 200, 4, 1);
    at = s.clock() - 1;
    feed f = s.feed({.name = "mirror", .after = 0});
    const feed_batch told = f.next(10);
    f.acknowledge(told.token);
    query q = s.start({.name = "second half", .at = at, .where = half});
    q.run();
    for (const query_row& row : q.results()) matches.emplace_back(row.key);
    ASSERT_FALSE(matches.empty());
    write_rounds(s, m, 200, 2, 2);
  }
  // of several writes of a key in one version the last one stays
  using change_of = std::pair<version, std::string>;
  const auto rest = [&](store& s) {
    std::map<change_of, std::string> last;
    feed f = s.open_feed("mirror");
    for (feed_batch b = f.next(50); !b.changes.empty(); b = f.next(50)) {
      for (const auto& c : b.changes) last[{c.version, std::string(c.key)}] = c.value.value_or("removed");
    }
    return last;
  };
  std::map<change_of, std::string> expected;
  {
    store s(path_, opening());
    expected = rest(s);
    ASSERT_FALSE(expected.empty());
  }
  static_cast<void>(compact(path_, opening()));
  store s(path_, opening());
  const auto told = rest(s);
  const version began = expected.begin()->first.first;
  for (const auto& [what, value] : expected) {
    // a removal of what was written in the same version is no change any more
    EXPECT_EQ(told.contains(what) ? told.at(what) : "removed", value) << what.second;
  }
  for (const auto& [what, value] : told) {
    EXPECT_TRUE(expected.contains(what) || what.first == began) << what.first << " " << what.second;
  }
  const query q = s.query("second half");
  std::vector<std::string> found;
  for (const query_row& row : q.results()) found.emplace_back(row.key);
  EXPECT_EQ(found, matches);
}

INSTANTIATE_TEST_SUITE_P(EverySetting, Compaction, ::testing::ValuesIn(tmpfs_settings()),
                         [](const auto& tested) { return tested.param.name(); });

// ---- Space ----

TEST(CompactionOfSpace, keeps_a_store_small_whose_keys_are_written_again_and_again) {
  const scratch folder(place::tmpfs);
  const auto path = folder / "store.ice";
  options how;
  how.durability = durability::none;
  std::uint64_t least = ~std::uint64_t{0};
  std::uint64_t most = 0;
  for (unsigned turn = 0; turn < 8; ++turn) {
    {
      store s(path, how);
      for (unsigned i = 0; i < 20'000; ++i) s.insert(key_of(i), std::to_string(turn) + std::string(20, 'v'));
      s.tag();
    }
    const compaction_report done = compact(path, how);
    EXPECT_LT(done.bytes_after, done.bytes_before);
    EXPECT_EQ(bytes_on_device(path), done.bytes_after);
    const std::uint64_t a_turn = done.bytes_after / (turn + 1);
    least = std::min(least, a_turn);
    most = std::max(most, a_turn);
  }
  EXPECT_LT(most, 3 * least);
  const store s(path, how);
  EXPECT_EQ(s.latest().size(), 20'000U);
  EXPECT_EQ(s.history(key_of(7)).newest_first().size(), 8U);
  EXPECT_LT(s.stats().used_bytes, 2 * s.stats().packed_bytes);
}

TEST(CompactionOfSpace, packs_histories_and_values_that_are_longer_than_an_extent) {
  const scratch folder(place::tmpfs);
  const auto path = folder / "store.ice";
  options how;
  how.durability = durability::none;
  constexpr unsigned versions = 80;
  constexpr std::size_t size = std::size_t{1} << 20;
  const std::string huge(std::size_t{70} << 20, 'h');
  {
    store s(path, how);
    s.insert("a", "first");
    s.insert("z", "last");
    s.insert("huge", huge);
    for (unsigned v = 0; v < versions; ++v) {
      s.insert("long", std::string(size, static_cast<char>('a' + v % 26)) + std::to_string(v));
      s.tag();
    }
    s.insert("gone", "");
    static_cast<void>(s.forget({.keys = {"gone"}}));  // so that no value stays where it is
  }
  static_cast<void>(compact(path, how));
  const store s(path, how);
  ASSERT_GT(s.core().packing().extents.size(), 2U);
  const auto history = s.history("long").newest_first();
  ASSERT_EQ(history.size(), versions);
  for (unsigned v = 0; v < versions; ++v) {
    EXPECT_TRUE(history[versions - 1 - v].value->ends_with(std::to_string(v)));
    EXPECT_TRUE(s.find("long", history[versions - 1 - v].version)->bytes().ends_with(std::to_string(v)));
  }
  EXPECT_EQ(s.find("huge")->bytes(), huge);
  std::vector<std::string> keys;
  for (const auto& [key, value] : s.latest().range()) keys.emplace_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"a", "huge", "long", "z"}));
  keys.clear();
  for (const auto& [key, value] : s.latest().range().reversed()) keys.emplace_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"z", "long", "huge", "a"}));
  EXPECT_EQ(s.keys().size(), 4U);
  EXPECT_TRUE(s.verify().ok());
}

// ---- Who else is there ----

TEST(CompactionBesideOthers, is_refused_while_somebody_has_the_store_open) {
  const scratch folder(place::tmpfs);
  const auto path = folder / "store.ice";
  const store s(path);
  expect_error(errc::locked, "store.ice", [&] { static_cast<void>(compact(path)); });
  expect_error(errc::no_such_store, "none.ice", [&] { static_cast<void>(compact(folder / "none.ice")); });
  EXPECT_FALSE(std::filesystem::exists(folder / "none.ice"));
  options shared;
  shared.shared_as = folder / "common";
  expect_error(errc::invalid_argument, "one process alone", [&] { static_cast<void>(compact(path, shared)); });
}

TEST(CompactionBesideOthers, leaves_a_reader_what_it_has_and_gives_the_space_back_later) {
  const scratch folder(place::tmpfs);
  const auto path = folder / "store.ice";
  options how;
  how.durability = durability::none;
  model m;
  auto writer = std::make_unique<store>(path, how);
  write_rounds(*writer, m, 2'000, 10, 1);
  options reading;
  reading.access = access::read_only;
  auto reader = std::make_unique<store>(path, reading);
  ASSERT_TRUE(reader->beside_writer());
  const version shown = reader->refresh();
  const std::uint64_t before = fingerprint(reader->at(shown));
  writer.reset();
  EXPECT_TRUE(compact(path, how).packed);
  EXPECT_EQ(fingerprint(reader->at(shown)), before);
  auto view = std::make_unique<snapshot>(reader->at(shown));
  {
    store s(path, how);
    for (unsigned i = 0; i < 5'000; ++i) s.insert("new " + std::to_string(i), std::string(100, 'n'));
    const version added = s.tag({.name = "new"});
    EXPECT_EQ(reader->refresh(), added);
  }
  EXPECT_EQ(fingerprint(*view), before);
  const std::uint64_t with_reader = bytes_on_device(path);
  reader.reset();  // a view is enough to keep the bytes
  { const store s(path, how); }
  EXPECT_GE(bytes_on_device(path), with_reader);
  view.reset();
  { const store s(path, how); }
  EXPECT_LT(bytes_on_device(path), with_reader);
}

TEST(CompactionBesideOthers, gives_the_space_back_that_a_reader_kept_once_it_has_ended) {
  const scratch folder(place::tmpfs);
  const auto path = folder / "store.ice";
  options how;
  how.durability = durability::none;
  model m;
  auto writer = std::make_unique<store>(path, how);
  write_rounds(*writer, m, 2'000, 10, 1);
  options reading;
  reading.access = access::read_only;
  auto reader = std::make_unique<store>(path, reading);
  writer.reset();
  static_cast<void>(compact(path, how));
  const std::uint64_t with_reader = bytes_on_device(path);
  reader.reset();
  { const store s(path, how); }
  EXPECT_LT(bytes_on_device(path), with_reader);
  m.pack();
  compare_everything(store(path, how), m, 5);
}

TEST(CompactionBesideOthers, keeps_the_bytes_that_views_of_a_closed_store_lead_to) {
  const scratch folder(place::tmpfs);
  const auto path = folder / "store.ice";
  options how;
  how.durability = durability::none;
  model m;
  for (const bool reads_only : {false, true}) {
    {
      store s(path, how);
      write_rounds(s, m, 500, 3, reads_only ? 2 : 1);
    }
    options opening = how;
    if (reads_only) opening.access = access::read_only;
    store s(path, opening);
    const auto items = s.at(m.clock - 1).items();
    const std::vector<std::pair<std::string, std::string>> copies = [&] {
      std::vector<std::pair<std::string, std::string>> all;
      for (const item& i : items) all.emplace_back(i.key, i.value);
      return all;
    }();
    s.close();
    EXPECT_TRUE(compact(path, how, {.whole = true, .on_progress = {}}).packed);
    m.pack();
    {
      store after(path, how);
      for (unsigned i = 0; i < 2'000; ++i) after.insert(key_of(i), std::string(200, 'x'));
      for (unsigned i = 0; i < 2'000; ++i) m.insert(key_of(i), std::string(200, 'x'));
      ASSERT_EQ(after.tag(), m.close_version());
    }
    ASSERT_EQ(items.size(), copies.size());
    for (std::size_t i = 0; i < copies.size(); ++i) {
      EXPECT_EQ(items[i].key, copies[i].first);
      EXPECT_EQ(items[i].value, copies[i].second);
    }
  }
}

TEST(CompactionBesideOthers, is_no_damage_to_a_persistent_index_while_a_reader_keeps_the_space) {
  const scratch folder(place::tmpfs);
  const auto path = folder / "store.ice";
  options how;
  how.durability = durability::none;
  how.index = index_kind::persistent;
  model m;
  auto writer = std::make_unique<store>(path, how);
  write_rounds(*writer, m, 2'000, 10, 1);
  options reading;
  reading.access = access::read_only;
  auto reader = std::make_unique<store>(path, reading);
  ASSERT_TRUE(reader->beside_writer());
  writer.reset();
  static_cast<void>(compact(path, how));
  m.pack();
  for (int turn = 0; turn < 2; ++turn) {
    store s(path, how);
    EXPECT_TRUE(s.verify().ok());
    compare_everything(s, m, 5);
    s.close();
    EXPECT_TRUE(verify_file(path).ok());
  }
  const std::uint64_t with_reader = bytes_on_device(path);
  reader.reset();
  { const store s(path, how); }
  EXPECT_LT(bytes_on_device(path), with_reader);
  compare_everything(store(path, how), m, 5);
}

TEST(CompactionOfSpace, uses_free_segments_again_whatever_the_index) {
  for (const index_kind index : {index_kind::btree, index_kind::persistent}) {
    const scratch folder(place::tmpfs);
    const auto path = folder / "store.ice";
    options how;
    how.durability = durability::none;
    how.index = index;
    std::uintmax_t longest = 0;
    std::uintmax_t after_four = 0;
    for (unsigned turn = 0; turn < 12; ++turn) {
      {
        store s(path, how);
        for (unsigned i = 0; i < (turn == 0 ? 20'000U : 20U); ++i) s.insert(key_of(i), std::string(100, 'v'));
        s.tag();
      }
      static_cast<void>(compact(path, how, {.whole = true, .threads = 1, .on_progress = {}}));
      longest = std::max(longest, std::filesystem::file_size(path));
      if (turn == 3) after_four = longest;
    }
    EXPECT_LT(longest, 2 * after_four);
  }
}

TEST(CompactionBesideOthers, is_seen_by_a_reader_that_comes_later) {
  const scratch folder(place::tmpfs);
  const auto path = folder / "store.ice";
  options how;
  how.durability = durability::none;
  model m;
  {
    store s(path, how);
    write_rounds(s, m, 300, 5, 1);
  }
  static_cast<void>(compact(path, how));
  m.pack();
  store writer(path, how);
  write_rounds(writer, m, 300, 3, 2);
  options reading;
  reading.access = access::read_only;
  store reader(path, reading);
  ASSERT_TRUE(reader.beside_writer());
  const deadline soon("a settled version", 60s);
  while (reader.refresh() < m.clock - 1) std::this_thread::sleep_for(1ms);
  for (version v = 1; v < m.clock; ++v) compare_version(reader.at(v), m, v);
  write_rounds(writer, m, 300, 2, 3);
  while (reader.refresh() < m.clock - 1) std::this_thread::sleep_for(1ms);
  for (version v = 1; v < m.clock; ++v) compare_version(reader.at(v), m, v);
}

// ---- Copies ----

TEST(CompactionAndCopies, a_checkpoint_has_what_is_packed) {
  const scratch folder(place::tmpfs);
  const auto path = folder / "store.ice";
  options how;
  how.durability = durability::none;
  model m;
  {
    store s(path, how);
    write_rounds(s, m, 300, 5, 1);
  }
  static_cast<void>(compact(path, how));
  m.pack();
  store s(path, how);
  write_rounds(s, m, 300, 2, 2);
  s.checkpoint().write(folder / "copy.ice");
  EXPECT_TRUE(verify_file(folder / "copy.ice").ok());
  compare_everything(store(folder / "copy.ice", how), m, 5);
  static_cast<void>(compact(folder / "copy.ice", how));
  m.pack();
  compare_everything(store(folder / "copy.ice", how), m, 5);
}

TEST(CompactionAndCopies, several_files_share_what_is_packed) {
  const files where({place::tmpfs, durability::tag}, 3);
  model m;
  {
    store s(where.path(), where.making());
    write_rounds(s, m, 300, 5, 1);
  }
  EXPECT_TRUE(compact(where.path(), where.plain(), {.threads = 3, .on_progress = {}}).packed);
  m.pack();
  compare_everything(store(where.path(), where.plain()), m, 5);
  EXPECT_TRUE(verify_file(where.path()).ok());
}

// ---- Damage ----

class DamagedPacking : public ::testing::TestWithParam<compression> {
 protected:
  DamagedPacking() {
    how_.durability = durability::none;
    {
      store s(path_, how_);
      write_rounds(s, model_, 60, 5, 1);
    }
    static_cast<void>(compact(path_, how_, {.compression = GetParam(), .on_progress = {}}));
    model_.pack();
    sound_ = read_file(path_);
    const store s(path_, how_);
    packing_ = s.core().packing();
  }
  /// With one byte changed, verify_file() names the damage, or the byte does not count; and no answer is wrong.
  void flip(std::size_t at, bool counts) {
    std::string broken = sound_;
    broken[at] = static_cast<char>(broken[at] ^ 0x41);
    write_file(path_, broken);
    const auto report = verify_file(path_);
    EXPECT_FALSE(counts && report.ok()) << "byte " << at;
    try {
      options reading;
      reading.access = access::read_only;
      reading.beside_writer = false;
      const store s(path_, reading);
      const version v = s.clock() - 1;
      for (const auto& [key, history] : model_.records) {
        const auto found = s.find(key, v);
        const auto wanted = model_.find(key, v);
        EXPECT_TRUE(found.has_value() == wanted.has_value() && (!found || found->bytes() == *wanted)) << "byte " << at;
      }
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::damaged) << e.message();
    }
  }

  scratch folder_{place::tmpfs};
  std::filesystem::path path_ = folder_ / "store.ice";
  options how_;
  model model_;
  std::string sound_;
  manifest packing_;
};

TEST_P(DamagedPacking, of_the_place_that_leads_to_the_manifest_is_named) {
  const std::size_t slot = format::manifest_anchor_offset + sizeof(format::manifest_slot) * (packing_.number % 2);
  for (std::size_t at = 0; at < sizeof(format::manifest_slot); ++at) flip(slot + at, true);
}

TEST_P(DamagedPacking, of_the_manifest_is_named) {
  const std::size_t begin = link_offset(packing_.segment);
  for (std::size_t at = 0; at < 16; ++at) flip(begin + at, true);
  const std::size_t size = packing_.extents.size() * sizeof(format::named_extent);
  for (std::size_t at = 0; at < size; ++at) flip(begin + sizeof(format::segment_header) + at, true);
}

TEST_P(DamagedPacking, of_packed_records_is_named) {
  const format::named_extent& e = packing_.extents.front();
  const std::size_t begin = link_offset(e.segment);
  for (std::size_t at = 0; at < 16; ++at) flip(begin + at, true);
  for (std::size_t at = 0; at < e.size; at += 7) flip(begin + sizeof(format::segment_header) + at, true);
}

INSTANTIATE_TEST_SUITE_P(Each, DamagedPacking, ::testing::Values(compression::none, compression::zstd));

}  // namespace
}  // namespace icecore::testing
