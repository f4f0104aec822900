// What a power cut may leave on a device: of everything written since the last sync, any 512-byte sector in its old or
// its new state. Made by hand from two images of the file, with the boot id changed, because a test cannot cut power.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "base/checksum.hpp"
#include "icecore/store.hpp"
#include "pool/format.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

constexpr std::size_t sector = 512;

/// Another boot of the machine: nothing of the live page can be trusted, and no memory survived.
void change_boot(std::string& image) {
  for (const std::uint64_t at : {format::root_a_offset, format::root_b_offset}) {
    format::root r;
    std::memcpy(&r, image.data() + at, sizeof r);
    if (r.magic != format::magic) continue;
    r.boot_id[0] = static_cast<std::uint8_t>(~r.boot_id[0]);
    r.crc = crc32c(0, &r, offsetof(format::root, crc));
    std::memcpy(image.data() + at, &r, sizeof r);
  }
}

/// `later`, in which random sectors behind the roots are as they were in `earlier`. Roots are synced one by one.
std::string mixed(const std::string& earlier, const std::string& later, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const unsigned old_in_eight = static_cast<unsigned>(random() % 9);
  std::string image = later;
  for (std::size_t at = format::live_page_offset; at < later.size(); at += sector) {
    if (random() % 8 >= old_in_eight) continue;
    const std::size_t size = std::min(sector, later.size() - at);
    for (std::size_t i = 0; i < size; ++i) image[at + i] = at + i < earlier.size() ? earlier[at + i] : '\0';
  }
  return image;
}

/// The root that creating this store wrote first, to page B.
std::string first_root(const std::string& closed_store) {
  format::root r;
  std::memcpy(&r, closed_store.data() + format::root_a_offset, sizeof r);
  r.sequence = 1;
  r.file_size = format::first_segment_offset;
  r.clock = 1;
  r.clock_limit = std::uint64_t{1} << 20;
  r.durable_version = r.certified_records = r.certified_sum = r.epoch = r.anchor = 0;
  r.state = format::root_state::clean;
  r.used_end = format::first_segment_offset;
  r.crc = crc32c(0, &r, offsetof(format::root, crc));
  return {reinterpret_cast<const char*>(&r), sizeof r};
}

class PowerCut : public ::testing::TestWithParam<setting> {
 protected:
  PowerCut() : folder_(GetParam().where) {}

  [[nodiscard]] std::filesystem::path path() const { return folder_ / "store.ice"; }
  [[nodiscard]] bool keeps_each_write() const { return GetParam().keeps_each_write(); }
  [[nodiscard]] store open() const { return store(path(), GetParam().options()); }
  /// For a file that belongs to something else.
  void expect_untouched(const std::string& theirs) const {
    write_file(path(), theirs);
    expect_error(errc::not_a_store, "not an icecore store", [&] { const store s = open(); });
    EXPECT_TRUE(read_file(path()) == theirs);
  }

  /// Makes what was written so far durable, in the way of the mode.
  static version make_durable(store& s, const setting& how) {
    if (how.durability == durability::none || how.deferred) {
      s.sync();
      return s.clock() - 1;
    }
    return s.tag("durable");
  }

  static version make_durable_unnamed(store& s, const setting& how) {
    if (how.durability == durability::none || how.deferred) return make_durable(s, how);
    return s.tag();
  }

 private:
  scratch folder_;
};

std::string key(int i) { return "key " + std::to_string(i); }

TEST_P(PowerCut, goes_back_to_the_last_durable_point_whichever_sectors_were_written_since) {
  constexpr int keys = 300;
  std::string earlier;
  std::string later;
  version durable = 0;
  version clock = 0;
  {
    store s = open();
    for (int i = 0; i < keys; ++i) s.insert(key(i), "first " + std::string(static_cast<std::size_t>(i % 90), 'x'));
    s.insert("large", std::string(10'000, 'l'));
    durable = make_durable(s, GetParam());
    earlier = read_file(path());
    for (int i = 0; i < keys; i += 2) {
      s.insert(key(i), "second");
      // Under tag durability it would be a durable point.
      if (GetParam().durability != durability::tag) s.tag();
    }
    for (int i = 1; i < keys; i += 4) s.remove(key(i));
    batch both;
    both.insert(key(0), "third");
    both.insert("new in a batch", "x");
    both.remove("large");
    s.apply(both);
    for (int i = keys; i < 2 * keys; ++i) s.insert(key(i), "late");
    later = read_file(path());
    clock = s.clock();
  }
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    std::string image = mixed(earlier, later, seed);
    if (keeps_each_write()) {  // all but the live page, which is never synced
      image.replace(format::live_page_offset + format::page_size, std::string::npos, later,
                    format::live_page_offset + format::page_size);
    }
    change_boot(image);
    write_file(path(), image);
    version reopened_clock = 0;
    for (int opening = 0; opening < 3; ++opening) {
      store s = open();
      const snapshot then = s.at(durable);
      ASSERT_EQ(then.size(), static_cast<std::size_t>(keys) + 1);
      for (int i = 0; i < keys; ++i) {
        ASSERT_EQ(then.find(key(i)), "first " + std::string(static_cast<std::size_t>(i % 90), 'x'));
      }
      ASSERT_EQ(then.find("large"), std::string(10'000, 'l'));
      ASSERT_EQ(s.find(key(0)), keeps_each_write() ? "third" : "first ");
      ASSERT_EQ(s.contains("new in a batch"), keeps_each_write());
      ASSERT_EQ(s.contains(key(keys)), keeps_each_write());
      ASSERT_EQ(s.contains("large"), !keeps_each_write());
      const bool by_tag = GetParam().durability == durability::tag || keeps_each_write();
      ASSERT_EQ(s.tags().size(), by_tag ? 1U : 0U);
      ASSERT_TRUE(s.verify().ok());
      // no number is used twice, and few are skipped
      ASSERT_GE(s.clock(), std::max(clock, reopened_clock));
      ASSERT_LE(s.clock(), clock + (version{9} << 17));
      reopened_clock = s.clock();
      if (opening == 1) s.insert("after", "the cut");
      if (opening == 2) {
        ASSERT_EQ(s.find("after"), "the cut");
      }
    }
  }
}

/// Every way to read a version.
void expect_lost(const store& s, version v) {
  const std::vector<std::string_view> keys = {"a"};
  std::vector<std::optional<std::string_view>> answers(1);
  const std::string part = "version " + std::to_string(v) + " is lost";
  expect_error(errc::version_lost, part, [&] { static_cast<void>(s.find("a", v)); });
  expect_error(errc::version_lost, part, [&] { static_cast<void>(s.at(v)); });
  expect_error(errc::version_lost, part, [&] { static_cast<void>(s.find_many(keys, v, answers)); });
  expect_error(errc::version_lost, part,
               [&] { static_cast<void>(s.find_many(keys, std::vector<version>{v}, answers)); });
  expect_error(errc::version_lost, part, [&] { static_cast<void>(s.diff(0, v)); });
  expect_error(errc::version_lost, part, [&] { static_cast<void>(s.diff(v, 0)); });
}

TEST_P(PowerCut, takes_versions_that_were_not_durable_and_reading_one_is_an_error_for_ever) {
  std::string image;
  version durable = 0;
  version lost = 0;
  {
    store s = open();
    s.insert("a", "1");
    durable = make_durable(s, GetParam());
    image = read_file(path());  // all that reaches the medium, unless each operation is durable
    s.insert("a", "2");
    if (GetParam().durability == durability::tag) {
      lost = s.clock();  // a tag would be durable
    } else {
      lost = s.tag();
    }
    if (keeps_each_write()) image = read_file(path());
  }
  change_boot(image);
  write_file(path(), image);
  for (const access how : {access::read_only, access::read_write, access::read_write, access::read_only}) {
    SCOPED_TRACE(static_cast<int>(how));
    options opening = GetParam().options();
    opening.access = how;
    store s(path(), opening);
    EXPECT_EQ(s.find("a", durable), "1");
    if (keeps_each_write()) {
      EXPECT_TRUE(s.lost_versions().empty());
      EXPECT_EQ(s.find("a", lost), "2");
      EXPECT_EQ(s.find("a", s.clock() - 1), "2");
      continue;
    }
    ASSERT_EQ(s.lost_versions().ranges().size(), 1U);
    const version_range taken = s.lost_versions().ranges().front();
    EXPECT_EQ(taken.first, durable + 1);
    EXPECT_LE(taken.end, s.clock());
    for (const version v : {durable + 1, lost, taken.end - 1}) expect_lost(s, v);
    EXPECT_EQ(s.find("a"), "1");
    EXPECT_EQ(s.latest().find("a"), "1");
    EXPECT_EQ(s.latest().find("a"), "1");
    const checkpoint copied = s.checkpoint();
    copied.write(path().native() + ".copy");
    if (how == access::read_write) {
      // what comes after them is as usual
      const std::string value = "after " + std::to_string(s.clock());
      s.insert("a", value);
      EXPECT_EQ(s.find("a", s.tag()), value);
      s.insert("a", "1");
    }
    options of_copy = opening;
    of_copy.access = access::read_write;
    const store copy(path().native() + ".copy", of_copy);
    expect_lost(copy, lost);
    EXPECT_FALSE(copy.lost_versions().contains(copied.version()));
    EXPECT_EQ(copy.find("a"), "1");
    EXPECT_EQ(copy.find("a", durable), "1");
    std::filesystem::remove(copy.path());
  }
  if (keeps_each_write()) return;
  static_cast<void>(repair({.from = path(), .to = path().native() + ".repaired"}));
  const store repaired(path().native() + ".repaired", GetParam().options());
  expect_lost(repaired, lost);
  EXPECT_EQ(repaired.find("a", durable), "1");
  EXPECT_EQ(repaired.find("a"), "1");
}

using LossyPowerCut = PowerCut;

// A recovery that was killed, or whose machine stopped, has noted what is lost, or has left what shows it.
TEST_P(LossyPowerCut, takes_versions_and_a_second_one_amid_the_recovery_finds_them_lost_all_the_same) {
  std::string image;
  version lost = 0;
  {
    store s = open();
    s.insert("a", "1");
    make_durable(s, GetParam());
    image = read_file(path());
    lost = s.clock();
  }
  change_boot(image);
  write_file(path(), image);
  std::string reopened;
  {
    const store s = open();
    reopened = read_file(path());
  }
  // each root that the recovery wrote, and the older one that replaces a damaged page
  for (const std::uint64_t damaged : {format::root_a_offset, format::root_b_offset}) {
    std::string left = reopened;
    change_boot(left);
    left[damaged + 100] = static_cast<char>(left[damaged + 100] + 1);
    write_file(path(), left);
    const store s = open();
    expect_lost(s, lost);
    EXPECT_EQ(s.find("a"), "1");
  }
}

TEST_P(LossyPowerCut, many_of_them_take_more_ranges_than_a_root_has_room_for_and_none_is_forgotten) {
  std::vector<version> lost;
  std::vector<std::pair<version, std::string>> kept;
  for (int cut = 0; cut < 60; ++cut) {
    std::string image;
    {
      store s = open();
      // some versions of each session are durable, more and more of them
      for (int i = 0; i < cut % 7 + 1; ++i) {
        const std::string value = std::to_string(cut) + "/" + std::to_string(i);
        s.insert("a", value);
        kept.emplace_back(make_durable_unnamed(s, GetParam()), value);
      }
      image = read_file(path());
      lost.push_back(s.clock());
    }
    change_boot(image);
    write_file(path(), image);
  }
  const store s = open();
  EXPECT_LE(s.lost_versions().ranges().size(), version_ranges::count_max);
  for (const version v : lost) expect_lost(s, v);
  std::size_t readable = 0;
  for (const auto& [v, value] : kept) {
    if (s.lost_versions().contains(v)) continue;
    ++readable;
    ASSERT_EQ(s.find("a", v), value);
  }
  // the ranges that were merged have the fewest versions between them
  EXPECT_GE(readable, kept.size() - 10);
}

TEST_P(PowerCut, skips_no_more_versions_after_many_openings) {
  version clock = 0;
  for (int i = 0; i < 20; ++i) {
    store s = open();
    s.insert("key", std::to_string(i));
    clock = s.clock();
  }
  std::string image;
  {
    store s = open();
    s.insert("key", "in flight");
    image = read_file(path());
  }
  change_boot(image);
  write_file(path(), image);
  const store s = open();
  EXPECT_GE(s.clock(), clock);
  EXPECT_LE(s.clock(), clock + (version{9} << 17));
}

TEST_P(PowerCut, while_the_store_is_made_leaves_a_file_that_can_be_opened) {
  { const store s = open(); }
  const std::string first = first_root(read_file(path()));
  for (const std::size_t unit : {sizeof(std::uint64_t), std::size_t{64}, sector}) {
    for (unsigned seed = 0; seed < 60; ++seed) {
      SCOPED_TRACE("units of " + std::to_string(unit) + ", seed " + std::to_string(seed));
      std::mt19937_64 random(seed);
      std::string image(format::first_segment_offset, '\0');
      for (std::size_t at = 0; at < first.size(); at += unit) {
        if (random() % 2 == 0) image.replace(format::root_b_offset + at, unit, first, at, unit);
      }
      write_file(path(), image);
      store s = open();
      s.insert("key", "value");
      EXPECT_EQ(s.find("key"), "value");
    }
  }
}

TEST_P(PowerCut, while_a_store_is_made_is_not_seen_in_a_file_of_somebody_else) {
  std::string theirs(format::first_segment_offset, '\0');
  theirs.replace(5000, 6, "theirs");  // where a torn root would be
  expect_untouched(theirs);
  // nearly a torn first root: the file's number, how many there are, and the size of granules, in one word
  const auto with_numbers = [](std::uint16_t number, std::uint16_t count, std::uint32_t granule) {
    std::string bytes(format::first_segment_offset, '\0');
    const std::uint64_t word = number | std::uint64_t{count} << 16 | std::uint64_t{granule} << 32;
    std::memcpy(bytes.data() + format::root_b_offset + offsetof(format::root, pool_number), &word, sizeof word);
    return bytes;
  };
  expect_untouched(with_numbers(0, 1, 4096));
  expect_untouched(with_numbers(2, 2, format::granule_size));
  expect_untouched(with_numbers(0, format::files_max + 1, format::granule_size));
  write_file(path(), with_numbers(1, 2, format::granule_size));
  EXPECT_NO_THROW(static_cast<void>(open())) << "of a store of two files";
}

/// The settings in which not everything acknowledged survives.
std::vector<setting> lossy_settings() {
  std::vector<setting> lossy;
  std::ranges::copy_if(all_settings(), std::back_inserter(lossy),
                       [](const setting& s) { return !s.keeps_each_write(); });
  return lossy;
}

INSTANTIATE_TEST_SUITE_P(EveryDurability, LossyPowerCut, ::testing::ValuesIn(lossy_settings()),
                         [](const auto& instance) { return instance.param.name(); });
INSTANTIATE_TEST_SUITE_P(EveryDurability, PowerCut, ::testing::ValuesIn(all_settings()),
                         [](const auto& instance) { return instance.param.name(); });

}  // namespace
}  // namespace icecore::testing
