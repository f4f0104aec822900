// Large values stay where they were written: compactions refer to them, and give their segments back when nothing does.
// Crashes amid that are in the crash simulator.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>

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

constexpr unsigned small_keys = 300;

std::string small_key(unsigned i) { return "small-" + std::to_string(1000 + i); }
std::string large_key(unsigned i) { return "tensor-" + std::to_string(100 + i); }

std::string large_value(unsigned seed, std::size_t size) {
  std::mt19937_64 random(seed);
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i + 8 <= size; i += 8) {
    const std::uint64_t word = random();
    std::memcpy(bytes.data() + i, &word, sizeof word);
  }
  return bytes;
}

class LargeValues : public ::testing::TestWithParam<setting> {
 protected:
  [[nodiscard]] options opening() const { return GetParam().options_at(path_); }

  /// Large values of these sizes, and small ones between them.
  void fill(store& s, model& m, const std::vector<std::size_t>& sizes, unsigned seed) const {
    for (unsigned i = 0; i < sizes.size(); ++i) {
      const std::string value = large_value(seed + i, sizes[i]);
      s.insert(large_key(i), value);
      m.insert(large_key(i), value);
      for (unsigned k = 0; k < small_keys; k += static_cast<unsigned>(sizes.size())) {
        s.insert(small_key(k + i), std::to_string(seed + k));
        m.insert(small_key(k + i), std::to_string(seed + k));
      }
    }
    ASSERT_EQ(s.tag(), m.close_version());
  }
  /// Makes a store with two versions of each large value, packed and closed.
  [[nodiscard]] model pack_two_versions() const {
    model m;
    {
      store s(path_, opening());
      fill(s, m, sizes_, 1);
      fill(s, m, sizes_, 30);
    }
    static_cast<void>(compact(path_, opening()));
    return m;
  }
  [[nodiscard]] manifest manifest_now() const {
    options reading;
    reading.access = access::read_only;
    return store(path_, reading).core().packing();
  }
  void expect_sound(const model& m) const {
    const auto report = verify_file(path_);
    EXPECT_TRUE(report.ok()) << report.damages.front().what;
    compare_everything(store(path_, opening()), m, 5);
  }

  const std::vector<std::size_t> sizes_{70'000, 300'000, 1'100'000, 2'500'000};
  scratch folder_{GetParam().where};
  std::filesystem::path path_ = folder_ / "large.ice";
};

TEST_P(LargeValues, stay_where_they_are_through_any_number_of_compactions) {
  model m;
  {
    store s(path_, opening());
    fill(s, m, sizes_, 1);
  }
  const compaction_report first = compact(path_, opening());
  m.pack();
  EXPECT_TRUE(first.packed);
  EXPECT_LT(first.bytes_written, 70'000U);
  const manifest before = manifest_now();
  ASSERT_EQ(before.values.size(), sizes_.size());
  expect_sound(m);
  EXPECT_EQ(store(path_, opening()).stats().format_major, format::version_major_with_values);
  {
    store s(path_, opening());
    s.insert(small_key(1), "new");
    m.insert(small_key(1), "new");
    ASSERT_EQ(s.tag(), m.close_version());
  }
  const compaction_report second = compact(path_, opening(), {.whole = true, .on_progress = {}});
  m.pack();
  EXPECT_EQ(second.strata, 1U);
  EXPECT_LT(second.bytes_written, 70'000U);
  const manifest after = manifest_now();
  ASSERT_EQ(after.values.size(), before.values.size());
  for (std::size_t i = 0; i < after.values.size(); ++i) EXPECT_EQ(after.values[i].at(), before.values[i].at());
  expect_sound(m);
}

TEST_P(LargeValues, are_where_views_of_before_lead_after_a_compaction_beside_writers) {
  model m;
  store s(path_, opening());
  fill(s, m, sizes_, 1);
  const auto before = s.find(large_key(3));
  ASSERT_TRUE(before);
  const char* const at = before->bytes().data();
  ASSERT_TRUE(s.compact().packed);
  m.pack();
  EXPECT_EQ(s.find(large_key(3))->bytes().data(), at);
  fill(s, m, {90'000, 800'000, 64, 1'300'000}, 20);  // the third one is small now
  ASSERT_TRUE(s.compact({.whole = true, .on_progress = {}}).packed);
  m.pack();
  EXPECT_EQ(s.find(large_key(3), 1)->bytes().data(), at);
  EXPECT_EQ(before->bytes(), large_value(4, sizes_[3]));
  compare_everything(s, m, 5);
  EXPECT_TRUE(s.verify().ok());
  const std::string names[] = {large_key(0), small_key(0), large_key(2)};
  const std::string_view keys[] = {names[0], names[1], names[2]};
  std::optional<std::string_view> found[3];
  const pin holds = s.find_many(keys, 1, found);
  EXPECT_EQ(found[0], large_value(1, sizes_[0]));
  EXPECT_EQ(found[2], large_value(3, sizes_[2]));
}

TEST_P(LargeValues, give_their_segments_back_when_no_kept_version_shows_them) {
  model m;
  {
    store s(path_, opening());
    s.set_retention({.newest = 1});
    for (unsigned turn = 0; turn < 6; ++turn) fill(s, m, sizes_, 10 * turn);
  }
  const compaction_report done = compact(path_, opening());
  EXPECT_TRUE(done.erased);
  ASSERT_EQ(manifest_now().values.size(), sizes_.size());  // those of the version before the newest are not kept
  for (unsigned turn = 6; turn < 9; ++turn) {
    {
      store s(path_, opening());
      fill(s, m, sizes_, 10 * turn);
    }
    ASSERT_TRUE(compact(path_, opening()).packed);
    EXPECT_EQ(manifest_now().values.size(), sizes_.size());
  }
  std::size_t live = 0;
  for (const std::size_t size : sizes_) live += size;
  {
    store s(path_, opening());
    EXPECT_LT(detail::bytes_on_device(s.core().the_pool()), 2 * live);
    for (unsigned i = 0; i < sizes_.size(); ++i) {
      EXPECT_EQ(s.find(large_key(i))->bytes(), large_value(80 + i, sizes_[i])) << i;
      s.remove(large_key(i));
    }
    s.tag();
    s.tag();
  }
  const compaction_report last = compact(path_, opening(), {.whole = true, .on_progress = {}});
  EXPECT_TRUE(manifest_now().values.empty());
  EXPECT_LT(last.bytes_after, live / 4);
  EXPECT_TRUE(verify_file(path_).ok());
}

TEST_P(LargeValues, that_a_change_does_not_merge_stay_with_the_records_that_refer_to_them) {
  model m;
  for (unsigned turn = 0; turn < 3; ++turn) {
    {
      store s(path_, opening());
      s.set_retention({.newest = 2});
      fill(s, m, {40'000, 50'000, 60'000, 45'000, 70'000, 35'000}, 10 * turn);
      s.remove(large_key(turn));
      m.remove(large_key(turn));
      ASSERT_EQ(s.tag(), m.close_version());
    }
    m.kept = {.newest = 2};
    compaction_options how{.threads = 1, .bytes_at_once = 4096, .on_progress = {}};
    unsigned changes = 0;
    how.on_progress = [&](const progress&) {
      if (++changes == turn + 2) throw std::runtime_error("cut off");
    };
    try {
      static_cast<void>(compact(path_, opening(), how));
    } catch (const std::runtime_error&) {
      ASSERT_TRUE(verify_file(path_).ok());
    }
    how.on_progress = {};
    static_cast<void>(compact(path_, opening(), how));
    m.pack();
    m.expire();
    const auto report = verify_file(path_);
    ASSERT_TRUE(report.ok()) << report.damages.front().what;
    compare_everything(store(path_, opening()), m, 5);
  }
}

TEST_P(LargeValues, are_shown_by_histories_and_differences) {
  model m;
  constexpr unsigned versions = 12;
  {
    store s(path_, opening());
    for (unsigned v = 0; v < versions; ++v) {
      if (v % 4 == 3) {
        s.remove("tensor");
        m.remove("tensor");
      } else {
        const std::string value = v % 5 == 1 ? "small" : large_value(v, 33'000 + 1000 * v);
        s.insert("tensor", value);
        m.insert("tensor", value);
      }
      ASSERT_EQ(s.tag(), m.close_version());
    }
  }
  static_cast<void>(compact(path_, opening()));
  m.pack();
  EXPECT_GE(manifest_now().values.size(), 6U);
  {
    const store s(path_, opening());
    const auto shown = s.history("tensor").newest_first();
    const auto wanted = m.newest_first("tensor");
    ASSERT_EQ(shown.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_EQ(shown[i].version, wanted[i].version);
      EXPECT_EQ(shown[i].value, wanted[i].value) << i;
    }
  }
  expect_sound(m);
}

TEST_P(LargeValues, that_a_view_leads_to_keep_their_space_through_several_compactions) {
  store s(path_, opening());
  const std::string first = large_value(1, 900'000);
  s.insert("tensor", first);
  s.tag();
  {
    const auto view = s.find("tensor");
    ASSERT_TRUE(view);
    static_cast<void>(s.compact());
    s.set_retention({.newest = 1});
    s.insert("tensor", large_value(2, 900'000));
    s.tag();
    s.tag();
    EXPECT_FALSE(s.compact().erased);
    ASSERT_EQ(s.core().packing().values.size(), 1U);
    s.insert("another", large_value(3, 900'000));
    EXPECT_TRUE(view->bytes() == first);
  }
  s.insert("small", "1");
  EXPECT_TRUE(s.compact().erased);
  EXPECT_TRUE(s.verify().ok());
  EXPECT_TRUE(s.find("tensor")->bytes() == large_value(2, 900'000));
  EXPECT_TRUE(s.find("another")->bytes() == large_value(3, 900'000));
}

TEST_P(LargeValues, are_packed_with_their_records_if_these_are_compressed) {
  model m;
  {
    store s(path_, opening());
    fill(s, m, sizes_, 1);
  }
  static_cast<void>(compact(path_, opening()));
  m.pack();
  ASSERT_EQ(manifest_now().values.size(), sizes_.size());
  static_cast<void>(compact(path_, opening(), {.whole = true, .compression = compression::zstd, .on_progress = {}}));
  EXPECT_TRUE(manifest_now().values.empty());
  expect_sound(m);
  static_cast<void>(compact(path_, opening(), {.whole = true, .on_progress = {}}));
  EXPECT_TRUE(manifest_now().values.empty());
  expect_sound(m);
}

TEST_P(LargeValues, leave_no_byte_of_what_is_forgotten_beside_them) {
  const std::string secret = "S3cr3t-0f-s0m3b0dy";
  {
    store s(path_, opening());
    for (unsigned i = 0; i < 4; ++i) {  // behind the large value there is room in its segment
      s.insert(large_key(i), large_value(i, 150'000));
      s.insert(secret + std::to_string(i), secret);
    }
    s.insert(secret + "-large", large_value(9, 200'000) + secret);
    s.tag();
  }
  static_cast<void>(compact(path_, opening()));
  ASSERT_EQ(manifest_now().values.size(), 5U);
  ASSERT_NE(read_file(path_).find(secret), std::string::npos);
  {
    store s(path_, opening());
    static_cast<void>(s.forget({.prefixes = {secret}}));
  }
  EXPECT_TRUE(compact(path_, opening()).erased);
  EXPECT_EQ(read_file(path_).find(secret), std::string::npos);
  store s(path_, opening());
  EXPECT_EQ(s.keys().size(), 4U);
  for (unsigned i = 0; i < 4; ++i) EXPECT_EQ(s.find(large_key(i))->bytes(), large_value(i, 150'000));
  EXPECT_TRUE(s.verify().ok());
}

// A stratum that refers to a value need not have the keys whose records are beside it.
TEST_P(LargeValues, leave_no_byte_beside_them_of_what_is_forgotten_and_in_no_stratum_or_in_another_one) {
  const std::string secret = "S3cr3t-0f-s0m3b0dy";
  for (const bool has_expired : {false, true}) {
    {
      store s(path_, opening());
      for (unsigned k = 0; k < small_keys; ++k) s.insert(small_key(k), "x");
      s.tag();
      unsigned written = 0;
      const auto write_secrets = [&] {
        for (; written < 4; ++written) s.insert(secret + std::to_string(written), secret);
      };
      for (unsigned i = 0; i < 4; ++i) {
        s.insert(large_key(i), large_value(i, 150'000));
        if (has_expired) write_secrets();
      }
      s.tag();
      if (has_expired) {
        for (unsigned i = 0; i < 4; ++i) s.remove(secret + std::to_string(i));
        s.set_retention({.newest = 1});
        s.tag();
      }
      // while the records are packed: so these become a stratum of their own
      ASSERT_TRUE(s.compact({.on_progress = [&](const progress&) { write_secrets(); }}).packed);
      EXPECT_EQ(s.stats().strata, has_expired ? 1U : 2U);
    }
    ASSERT_FALSE(manifest_now().values.empty());
    ASSERT_NE(read_file(path_).find(secret), std::string::npos);
    {
      store s(path_, opening());
      EXPECT_EQ(s.forget({.prefixes = {secret}}).keys, has_expired ? 0U : 4U);
    }
    EXPECT_TRUE(compact(path_, opening()).erased);
    EXPECT_EQ(read_file(path_).find(secret), std::string::npos);
    {
      store s(path_, opening());
      EXPECT_EQ(s.keys().size(), small_keys + 4);
      for (unsigned i = 0; i < 4; ++i) EXPECT_EQ(s.find(large_key(i))->bytes(), large_value(i, 150'000));
      EXPECT_TRUE(s.verify().ok());
    }
    std::filesystem::remove(path_);
  }
}

TEST_P(LargeValues, are_copied_by_checkpoints_and_read_as_a_log) {
  model m;
  store s(path_, opening());
  fill(s, m, sizes_, 1);
  ASSERT_TRUE(s.compact().packed);
  m.pack();
  const auto copy = folder_ / "copy.ice";
  s.checkpoint().write(copy);
  EXPECT_TRUE(verify_file(copy).ok());
  options reading;
  reading.access = access::read_only;
  reading.accept_copy = true;
  compare_everything(store(copy, reading), m, 5);
}

TEST_P(LargeValues, that_are_damaged_are_named_and_never_shown) {
  model m;
  {
    store s(path_, opening());
    fill(s, m, sizes_, 1);
  }
  static_cast<void>(compact(path_, opening()));
  const manifest now = manifest_now();
  const std::string sound = read_file(path_);
  for (unsigned i = 0; i < now.values.size(); ++i) {
    const format::named_value& value = now.values[i];
    for (const std::uint64_t at : {std::uint64_t{0}, value.size / 2, value.size - 1}) {
      write_file(path_, flipped(sound, link_offset(value.at()) + at, 3));
      const verify_report report = verify_file(path_);
      ASSERT_EQ(report.damages.size(), 1U);
      EXPECT_EQ(report.damages.front().offset, link_offset(value.at()));
      ASSERT_TRUE(report.damages.front().key);
      EXPECT_EQ(report.damages.front().version, 1U);
      const std::string key = *report.damages.front().key;
      store s(path_, opening());
      expect_error(errc::damaged, "damaged at byte " + std::to_string(link_offset(value.at())),
                   [&] { static_cast<void>(s.find(key, 1)); });
      EXPECT_EQ(s.keys().size(), m.items_at(version_max).size());  // no value is read
      for (unsigned k = 0; k < sizes_.size(); ++k) {
        if (large_key(k) == key) continue;
        EXPECT_EQ(s.find(large_key(k))->bytes(), large_value(1 + k, sizes_[k]));
      }
      // it is not written anew with a right checksum
      expect_error(errc::damaged, "packed value", [&] {
        static_cast<void>(s.compact({.whole = true, .compression = compression::zstd, .on_progress = {}}));
      });
    }
    write_file(path_, flipped(sound, link_offset(value.segment) + 4, 1));
    EXPECT_FALSE(verify_file(path_).ok());
  }
}

TEST_P(LargeValues, that_are_damaged_are_what_repair_leaves_out) {
  const model m = pack_two_versions();
  manifest now = manifest_now();
  ASSERT_EQ(now.values.size(), 2 * sizes_.size());
  write_file(path_, flipped(read_file(path_), link_offset(now.values.front().at()) + 5, 3));
  const verify_report found = verify_file(path_);
  ASSERT_EQ(found.damages.size(), 1U);
  const std::string key = *found.damages.front().key;
  const version lost = *found.damages.front().version;
  const auto mended = folder_ / "mended.ice";
  const repair_report report = repair({.from = path_, .to = mended});
  ASSERT_EQ(report.losses.size(), 1U);
  EXPECT_EQ(report.losses.front().key, key);
  ASSERT_EQ(report.unknown.size(), 1U);
  EXPECT_EQ(report.unknown.front().first, lost);
  EXPECT_TRUE(verify_file(mended).ok());
  const store s(mended);
  for (version v = 1; v <= 2; ++v) {
    for (unsigned i = 0; i < sizes_.size(); ++i) {
      const bool is_lost = large_key(i) == key && v == lost;
      const auto value = s.find(large_key(i), v);
      ASSERT_EQ(value.has_value(), !is_lost);
      if (!value) continue;
      EXPECT_EQ(value->bytes(), m.find(large_key(i), v));
    }
  }
}

TEST_P(LargeValues, survive_in_a_mended_store_if_the_header_of_a_segment_is_damaged) {
  const model m = pack_two_versions();
  const manifest now = manifest_now();
  const std::string sound = read_file(path_);
  std::vector<link> segments{now.extents.front().segment};
  for (const format::named_value& each : now.values) segments.push_back(each.segment);
  for (const link at : segments) {
    write_file(path_, flipped(sound, link_offset(at) + 4, 1));
    const verify_report found = verify_file(path_);
    ASSERT_EQ(found.damages.size(), 1U);
    EXPECT_EQ(found.damages.front().offset, link_offset(at));
    expect_error(errc::damaged, "damaged at byte " + std::to_string(link_offset(at)),
                 [&] { const store s(path_, opening()); });
    const auto mended = folder_ / ("mended" + std::to_string(link_offset(at)));
    const repair_report report = repair({.from = path_, .to = mended});
    EXPECT_TRUE(report.complete());
    EXPECT_FALSE(report.repaired.empty());
    EXPECT_TRUE(verify_file(mended).ok());
    compare_everything(store(mended), m, 5);
  }
}

TEST_P(LargeValues, that_nobody_may_know_of_are_named) {
  model m;
  {
    store s(path_, opening());
    fill(s, m, sizes_, 1);
  }
  static_cast<void>(compact(path_, opening()));
  options how = opening();
  how.creation = creation::open_existing;
  {  // a manifest without the first value, which a record refers to
    const auto opened = detail::open_store(path_, how);
    pool_set& pools = opened->current().the_pool();
    manifest next = opened->current().packing();
    next.values.erase(next.values.begin());
    store_manifest(pools, opened->current().packing(), next);
    pools.roots().update_both([&](format::root& r) { name_manifest(r, next); });
    opened->close();
  }
  EXPECT_FALSE(verify_file(path_).ok());
  const store s(path_, opening());
  unsigned refused = 0;
  for (unsigned i = 0; i < sizes_.size(); ++i) {
    try {
      EXPECT_EQ(s.find(large_key(i))->bytes(), large_value(1 + i, sizes_[i]));
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::damaged);
      ++refused;
    }
  }
  EXPECT_EQ(refused, 1U);
}

TEST_P(LargeValues, that_cannot_be_where_the_manifest_says_are_refused) {
  model m;
  {
    store s(path_, opening());
    fill(s, m, sizes_, 1);
  }
  static_cast<void>(compact(path_, opening()));
  {
    store s(path_, opening());
    s.insert("young", "value");
  }
  const std::string sound = read_file(path_);
  options how = opening();
  how.creation = creation::open_existing;
  const auto forge = [&](const auto& change) {
    write_file(path_, sound);
    how.accept_copy = true;
    const auto opened = detail::open_store(path_, how);
    pool_set& pools = opened->current().the_pool();
    manifest next = opened->current().packing();
    change(next.values, pools, next.era);
    store_manifest(pools, opened->current().packing(), next);
    pools.roots().update_both([&](format::root& r) { name_manifest(r, next); });
    opened->close();
  };
  using values = std::vector<format::named_value>;
  const std::vector<std::function<void(values&, const pool_set&, std::uint32_t)>> changes{
      [](values& v, const pool_set&, std::uint32_t) { v[0].record = 0; },
      [](values& v, const pool_set&, std::uint32_t) { v[0].record = v[0].offset + 8; },
      [](values& v, const pool_set&, std::uint32_t) { v[0].size = UINT64_MAX - v[0].offset; },
      [](values& v, const pool_set&, std::uint32_t) { v[0].offset = UINT64_MAX - v[0].size + 9; },
      [](values& v, const pool_set&, std::uint32_t) { std::swap(v[0], v[1]); },
      [](values& v, const pool_set&, std::uint32_t) { v[1] = v[0]; },
      [](values& v, const pool_set& pools, std::uint32_t era) {  // where writers may go on
        for_each_segment(pools, [&](const segment& s, const format::segment_header& h) {
          if (h.magic == format::segment_magic && h.era == era) v = {{s.offset, 64, 128, 8, 0, 0}};
        });
      },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    SCOPED_TRACE(i);
    forge(changes[i]);
    expect_error(errc::damaged, "packed value", [&] { const store s(path_, opening()); });
    EXPECT_FALSE(verify_file(path_).ok());
    try {  // it need not do so, but ends
      static_cast<void>(repair({.from = path_, .to = folder_ / ("mended" + std::to_string(i))}));
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::damaged);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EverySetting, LargeValues, ::testing::ValuesIn(tmpfs_settings()),
                         [](const auto& of) { return of.param.name(); });

}  // namespace
}  // namespace icecore::testing
