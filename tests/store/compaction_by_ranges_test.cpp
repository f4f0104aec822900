// Compactions that are done by ranges of keys (compaction_options::bytes_at_once): each range by a durable change, so
// that one which is cut off goes on where it was, and takes little space on the way. Crashes amid them are in the crash
// simulator, random scripts in model_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>

#include "icecore/icecore.hpp"
#include "pool/manifest/manifest.hpp"
#include "store/core.hpp"
#include "store/packed/compacting/packing.hpp"
#include "support/damaging.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/inside.hpp"
#include "support/model.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

constexpr unsigned keys = 400;

std::string key_of(std::size_t i) { return "key-" + std::to_string(1000 + i); }

void write(store& s, model& m, unsigned rounds, unsigned seed) {
  std::mt19937 random(seed);
  for (unsigned r = 0; r < rounds; ++r) {
    for (unsigned i = 0; i < keys / 4; ++i) {
      const std::string key = key_of(random() % keys);
      if (random() % 5 == 0) {
        ASSERT_EQ(s.remove(key).has_value(), m.remove(key).has_value());
      } else {
        const std::string value = std::to_string(random()) + std::string(random() % 40, 'v');
        s.insert(key, value);
        m.insert(key, value);
      }
    }
    ASSERT_EQ(s.tag(), m.close_version());
  }
}

struct cut_off final : std::runtime_error {
  cut_off() : std::runtime_error("cut off") {}
};

/// Each change tells its progress at least once, at its end.
compaction_options by_ranges(std::uint64_t bytes, std::function<void()> at_each_end = {}) {
  compaction_options how{.whole = true, .threads = 1, .bytes_at_once = bytes, .on_progress = {}};
  if (at_each_end) how.on_progress = [then = std::move(at_each_end)](const progress&) { then(); };
  return how;
}

/// One that is cut off at the end of this change, counted from 1.
compaction_options cut_off_at(int change) {
  return by_ranges(4096, [left = change]() mutable {
    if (--left == 0) throw cut_off();
  });
}

class CompactionByRanges : public ::testing::TestWithParam<setting> {
 protected:
  scratch folder_{GetParam().where};
  std::filesystem::path path_ = folder_ / "packed.ice";
  [[nodiscard]] options opening() const { return GetParam().options_at(path_); }

  [[nodiscard]] manifest manifest_now() const {
    options reading;
    reading.access = access::read_only;
    return store(path_, reading).core().packing();
  }
  /// Two strata of several extents each.
  void make_two_strata(model& m) const {
    for (unsigned turn = 1; turn <= 2; ++turn) {
      {
        store s(path_, opening());
        write(s, m, turn == 1 ? 12 : 2, turn);
      }
      compaction_options how = by_ranges(4096);
      how.whole = false;
      ASSERT_TRUE(compact(path_, opening(), how).packed);
      m.pack();
    }
  }
  void expect_sound(const model& m) const {
    const auto report = verify_file(path_);
    EXPECT_TRUE(report.ok()) << report.damages.front().what;
    compare_everything(store(path_, opening()), m, 5);
  }
};

TEST_P(CompactionByRanges, makes_one_stratum_by_many_changes_and_changes_no_answer) {
  model m;
  make_two_strata(m);
  {
    store s(path_, opening());
    write(s, m, 1, 3);
  }
  const std::uint32_t before = manifest_now().number;
  const compaction_report done = compact(path_, opening(), by_ranges(4096));
  m.pack();
  EXPECT_TRUE(done.packed);
  EXPECT_TRUE(done.erased);
  EXPECT_EQ(done.strata, 1U);
  EXPECT_EQ(done.up_to, m.clock - 1);
  const manifest now = manifest_now();
  EXPECT_GT(now.number, before + 3);
  EXPECT_FALSE(detail::is_unfinished(now));
  for (const auto& each : now.extents) EXPECT_EQ(each.flags & format::extent_replaces, 0U);
  options reading;
  reading.access = access::read_only;
  {
    const store s(path_, reading);
    EXPECT_EQ(done.keys, s.stats().packed_keys);
    EXPECT_EQ(done.records, s.stats().packed_records);
  }
  expect_sound(m);
  EXPECT_FALSE(compact(path_, opening()).packed);
}

TEST_P(CompactionByRanges, that_is_cut_off_goes_on_where_it_was) {
  model m;
  make_two_strata(m);
  std::uint64_t written_at_once = 0;
  {
    const auto copy = folder_ / "copy.ice";
    std::filesystem::copy_file(path_, copy);
    options how = opening();
    how.accept_copy = true;
    written_at_once = compact(copy, how, by_ranges(4096)).bytes_written;
  }
  std::uint32_t before = manifest_now().number;
  EXPECT_THROW(static_cast<void>(compact(path_, opening(), cut_off_at(4))), cut_off);
  m.pack();
  EXPECT_EQ(manifest_now().number, before + 3);
  EXPECT_TRUE(detail::is_unfinished(manifest_now()));
  expect_sound(m);
  {
    options reading;
    reading.access = access::read_only;
    compare_everything(store(path_, reading), m, 5);
    const store s(path_, reading);
    s.checkpoint().write(folder_ / "checkpoint.ice");
  }
  compare_everything(store(folder_ / "checkpoint.ice", opening()), m, 5);
  // by whatever is written meanwhile
  {
    store s(path_, opening());
    write(s, m, 1, 9);
  }
  compaction_options rest = by_ranges(4096);
  rest.whole = false;
  const compaction_report done = compact(path_, opening(), rest);
  m.pack();
  EXPECT_TRUE(done.packed);
  EXPECT_FALSE(detail::is_unfinished(manifest_now()));
  EXPECT_LT(done.bytes_written, written_at_once);
  EXPECT_LE(done.strata, 2U);
  expect_sound(m);
}

TEST_P(CompactionByRanges, of_an_open_store_goes_on_while_it_is_written) {
  model m;
  make_two_strata(m);
  store s(path_, opening());
  unsigned seed = 20;
  const compaction_report done = s.compact(by_ranges(4096, [&] {
    write(s, m, 1, ++seed);
    for (version v = 1; v < m.clock; v += 4) compare_version(s.at(v), m, v);
    compare_version(s.at(m.clock - 1), m, m.clock - 1);
  }));
  EXPECT_GT(seed, 23U);
  EXPECT_TRUE(done.packed);
  EXPECT_FALSE(detail::is_unfinished(s.core().packing()));
  m.pack();
  compare_everything(s, m, 5);
  const auto report = s.verify();
  EXPECT_TRUE(report.ok()) << report.damages.front().what;
  EXPECT_TRUE(s.compact({.whole = true, .on_progress = {}}).packed);
  m.pack();
  compare_everything(s, m, 5);
}

TEST_P(CompactionByRanges, of_an_open_store_that_is_cut_off_goes_on_by_any_later_one) {
  model m;
  make_two_strata(m);
  {
    store s(path_, opening());
    EXPECT_THROW(static_cast<void>(s.compact(cut_off_at(3))), cut_off);
    m.pack();
    EXPECT_TRUE(detail::is_unfinished(s.core().packing()));
    compare_everything(s, m, 5);
    s.insert(key_of(1), "later");
    m.insert(key_of(1), "later");
  }
  options how = opening();
  how.compaction = compaction_mode::automatic;
  store s(path_, how);
  while (detail::is_unfinished(s.core().packing())) std::this_thread::sleep_for(1ms);
  m.close_version();
  m.pack();
  compare_histories(s, m);
}

TEST_P(CompactionByRanges, drops_what_no_kept_version_shows) {
  model m;
  make_two_strata(m);
  {
    store s(path_, opening());
    for (unsigned i = 0; i < keys; i += 3) {
      s.remove(key_of(i));
      m.remove(key_of(i));
    }
    ASSERT_EQ(s.tag(), m.close_version());
    m.kept = {.newest = 2};
    s.set_retention(m.kept);
  }
  EXPECT_THROW(static_cast<void>(compact(path_, opening(), cut_off_at(4))), cut_off);
  m.expire();
  m.pack();
  expect_sound(m);
  const compaction_report done = compact(path_, opening(), by_ranges(4096));
  EXPECT_GT(done.records_dropped, 0U);
  expect_sound(m);
  options reading;
  reading.access = access::read_only;
  {
    const store s(path_, reading);
    EXPECT_EQ(s.stats().strata, 1U);
    EXPECT_LE(s.stats().packed_records, 2U * keys);
  }
  EXPECT_FALSE(compact(path_, opening(), by_ranges(4096)).packed);
}

TEST_P(CompactionByRanges, forgets_keys_while_another_one_is_unfinished) {
  model m;
  make_two_strata(m);
  EXPECT_THROW(static_cast<void>(compact(path_, opening(), cut_off_at(3))), cut_off);
  {
    store s(path_, opening());
    s.insert("SECRET-1", "SECRET");
    s.insert(key_of(3), "SECRET");
    s.tag();
    static_cast<void>(s.forget({.keys = {"SECRET-1", key_of(3)}, .prefixes = {}}));
  }
  EXPECT_TRUE(compact(path_, opening(), by_ranges(4096)).erased);
  const std::string bytes = read_file(path_);
  EXPECT_EQ(bytes.find("SECRET"), std::string::npos);
  EXPECT_EQ(bytes.find(key_of(3)), std::string::npos);
  EXPECT_FALSE(detail::is_unfinished(manifest_now()));
}

TEST_P(CompactionByRanges, takes_the_space_of_a_few_ranges_on_the_way) {
  {
    store s(path_, opening());
    std::mt19937_64 random(1);
    for (unsigned i = 0; i < 20'000; ++i) s.insert(key_of(i), std::to_string(random()) + std::string(380, 'v'));
  }
  constexpr std::uint64_t at_once = std::uint64_t{1} << 20;
  static_cast<void>(compact(path_, opening(), by_ranges(at_once)));  // about 8 MB
  std::uint64_t most = 0;
  std::uint64_t before = 0;
  const auto measured = [&](std::uint64_t bytes) {
    store s(path_, opening());
    most = before = detail::bytes_on_device(s.core().the_pool());
    const compaction_report done =
        s.compact(by_ranges(bytes, [&] { most = std::max(most, detail::bytes_on_device(s.core().the_pool())); }));
    return done.packed;
  };
  {
    store s(path_, opening());
    s.insert("new", "1");
  }
  ASSERT_TRUE(measured(at_once));
  EXPECT_LT(most, before + 4 * at_once);
  {
    store s(path_, opening());
    s.insert("new", "2");
  }
  ASSERT_TRUE(measured(0));
  EXPECT_GT(most, before + 6 * at_once);
}

INSTANTIATE_TEST_SUITE_P(EverySetting, CompactionByRanges, ::testing::ValuesIn(tmpfs_settings()),
                         [](const auto& of) { return of.param.name(); });

}  // namespace
}  // namespace icecore::testing
