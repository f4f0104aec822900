// Repair of stores that were packed: what is intact of strata and of what was written since is in the copy, what is
// lost is named, nothing wrong is shown, and what was forgotten never comes back.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <random>

#include "icecore/icecore.hpp"
#include "pool/manifest/manifest.hpp"
#include "store/packed/compacting/plan/merge_plan.hpp"
#include "store/packed/open_strata.hpp"
#include "support/damaging.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/model.hpp"
#include "support/promises.hpp"
#include "support/scratch.hpp"
#include "support/seed.hpp"

namespace icecore::testing {
namespace {

using truth = std::map<std::string, std::map<version, std::optional<std::string>>>;

std::optional<std::string> held_at(const truth& all, const std::string& key, version v, version up_to = version_max) {
  const auto history = all.find(key);
  if (history == all.end()) return std::nullopt;
  auto behind = history->second.upper_bound(std::min(v, up_to));
  return behind == history->second.begin() ? std::nullopt : std::prev(behind)->second;
}

std::string text_of(const repair_report& report) {
  std::string text;
  for (const auto* list : {&report.losses, &report.repaired}) {
    for (const damage& d : *list) {
      text += (list == &report.losses ? "lost " : "repaired ") + d.structure + " at byte " + std::to_string(d.offset) +
              (d.key ? " key " + show(*d.key) : "") + ": " + d.what + "\n";
    }
  }
  for (const auto& u : report.unknown) {
    text += "unknown " + show(u.key) + ": " + std::to_string(u.first) + " to " + std::to_string(u.last) + "\n";
  }
  return text;
}

bool says(const repair_report& report, std::string_view part) {
  return std::ranges::any_of(report.losses, [&](const damage& d) { return d.what.find(part) != std::string::npos; });
}

struct form {
  std::string name;
  index_kind index;
  icecore::compression compression;
  bool unfinished = false;  ///< a merge by ranges of keys was cut off
  friend void PrintTo(const form& f, std::ostream* out) { *out << f.name; }
};

class PackedRepair : public ::testing::TestWithParam<form> {
 protected:
  [[nodiscard]] options opening() const {
    options o;
    o.index = GetParam().index;
    o.durability = durability::none;
    return o;
  }
  [[nodiscard]] compaction_options packing() const {
    return {.threads = 1,
            .bytes_at_once = GetParam().unfinished ? std::uint64_t{6000} : 0,
            .compression = GetParam().compression,
            .on_progress = {}};
  }

  void put(store& s, const std::string& key, const std::string& value) { held_[key][s.insert(key, value)] = value; }
  void take(store& s, const std::string& key) {
    if (const auto v = s.remove(key)) held_[key][*v] = std::nullopt;
  }

  /// Of a merge by ranges of keys the first ones are done.
  void leave_unfinished() const {
    struct cut_off {};
    int changes = 0;
    const compaction_options how{
        .whole = true, .threads = 1, .bytes_at_once = 6000, .on_progress = [&](const progress&) {
          if (++changes == 3) throw cut_off();
        }};
    EXPECT_THROW(static_cast<void>(compact(path_, opening(), how)), cut_off);
    EXPECT_TRUE(detail::is_unfinished(packing_of()));
  }
  /// A large stratum, a small one, and what was written since. One history is longer than several blocks.
  void fill() {
    std::mt19937 random(7);
    const auto value = [&](std::size_t size) {
      std::string bytes;
      while (bytes.size() < size) bytes += static_cast<char>('!' + random() % 90);
      return bytes;
    };
    const auto key = [](unsigned i) { return "key-" + std::to_string(1000 + i); };
    {
      store s(path_, opening());
      for (version v = 1; v <= 40; ++v) {
        put(s, "deep", value(400));
        if (v == 1) {
          for (unsigned i = 0; i < 300; ++i) put(s, key(i), value(60));
        } else {
          for (auto i = static_cast<unsigned>(v); i < 300; i += 37) put(s, key(i), value(60));
          take(s, key(static_cast<unsigned>(v)));
        }
        if (v % 8 == 0) tags_.push_back("tag-" + std::to_string(v));
        s.tag(v % 8 == 0 ? tag_options{.name = tags_.back(), .note = "a note"} : tag_options{});
      }
    }
    static_cast<void>(compact(path_, opening(), packing()));
    {
      store s(path_, opening());
      for (unsigned i = 0; i < 300; i += 11) put(s, key(i), value(50));
      put(s, "deep", value(300));
      take(s, key(55));
      put(s, "only in the second", value(30));
      s.tag({.name = "second"});
    }
    static_cast<void>(compact(path_, opening(), packing()));
    packed_up_to_ = 41;
    if (GetParam().unfinished) leave_unfinished();
    {
      store s(path_, opening());
      for (unsigned i = 0; i < 300; i += 23) put(s, key(i), value(20));
      take(s, key(33));
      put(s, "young", "value");
      s.tag({.name = "third"});
      put(s, "deep", "newest");
      put(s, key(44), value(5'000));
      clock_ = s.clock();
    }
    tags_.insert(tags_.end(), {"second", "third"});
    sound_ = read_file(path_);
  }

  repair_report repaired(const std::string& bytes) {
    write_file(path_, bytes);
    std::filesystem::remove(repaired_);
    const repair_report report = repair({.from = path_, .to = repaired_});
    promise(read_file(path_) == bytes, [] { return std::string("the damaged store was changed"); });
    promise(verify_file(repaired_).ok(), [] { return std::string("the repaired store is damaged"); });
    try {
      judge(report);
    } catch (const broken_promise& broken) {
      throw broken_promise(broken.what() + std::string("\n") + text_of(report));
    }
    return report;
  }

  void judge(const repair_report& report) const {
    const store s(repaired_);
    promise(s.clock() >= clock_, [] { return std::string("the clock went back"); });
    const bool shows_older = says(report, "show these in its place");
    for (const auto key : s.keys()) {
      promise(held_.contains(std::string(key)), [&] { return "a key that never was: " + show(key); });
    }
    std::map<std::string, std::vector<unknown_versions>> unknown;
    for (const auto& u : report.unknown) unknown[u.key].push_back(u);
    for (const auto& [key, history] : held_) {
      const bool there = !s.history(key).newest_first().empty();
      promise(there || !report.losses.empty(), [&, k = key] { return show(k) + " is gone without a word"; });
      for (version v = 1; v < clock_; ++v) {
        if (s.is_expired(v)) continue;
        const auto shown = s.find(key, v);
        const bool is_unknown =
            std::ranges::any_of(unknown[key], [&](const auto& u) { return u.first <= v && v <= u.last; });
        const auto held = held_at(held_, key, v);
        const bool is_right = is_unknown || !there ? !shown : shown == held;
        const bool is_older = shows_older && shown == held_at(held_, key, v, packed_up_to_);
        promise(is_right || is_older, [&, k = key] {
          return show(k) + " in version " + std::to_string(v) + " is " + show_found(shown) + ", was " +
                 show_found(held) + (is_unknown ? " and is unknown" : "");
        });
      }
      for (const auto& [v, value] : s.history(key).oldest_first()) {
        const auto was = history.find(v);
        const bool is_loss = !value && !unknown[key].empty();
        promise(is_loss || (was != history.end() && value == was->second),
                [&, k = key, at = v] { return show(k) + " was not written in " + std::to_string(at); });
      }
    }
    for (const std::string& name : tags_) {
      promise(s.find_tag(name).has_value() || !report.losses.empty(),
              [&] { return "the tag " + name + " is gone without a word"; });
    }
  }

  /// A bit of the records, and some of each extent's header and fence.
  void flip_everywhere(int of_each);

  [[nodiscard]] manifest packing_of() const {
    options reading;
    reading.access = access::read_only;
    return manifest_of(pool_set(path_, reading));
  }
  /// Where the blocks of an extent lie in the file, and their first keys.
  [[nodiscard]] std::vector<std::pair<std::size_t, std::string>> blocks_of(std::size_t number) const {
    options reading;
    reading.access = access::read_only;
    const pool_set pools(path_, reading);
    const manifest all = manifest_of(pools);
    const auto extent = detail::open_extent(pools, all.extents.at(number));
    std::vector<std::pair<std::size_t, std::string>> found;
    for (std::uint32_t i = 0; i < extent->blocks(); ++i) {
      const std::size_t begin = all.extents[number].segment + sizeof(format::segment_header) + extent->media_place(i);
      found.emplace_back(begin, std::string(extent->block_at(i).key(0)));
    }
    return found;
  }
  [[nodiscard]] std::size_t extent_at(std::size_t number) const {
    return packing_of().extents.at(number).segment + sizeof(format::segment_header);
  }
  [[nodiscard]] bool is_compressed() const { return GetParam().compression != compression::none; }

  scratch folder_;
  std::filesystem::path path_ = folder_ / "damaged.ice";
  std::filesystem::path repaired_ = folder_ / "repaired.ice";
  truth held_;
  std::vector<std::string> tags_;
  version packed_up_to_ = 0;
  version clock_ = 0;
  std::string sound_;
};

TEST_P(PackedRepair, of_a_sound_store_gives_an_equal_one) {
  fill();
  const repair_report report = repaired(sound_);
  EXPECT_TRUE(report.complete() && report.repaired.empty() && report.unknown.empty()) << text_of(report);
  const store s(repaired_);
  EXPECT_EQ(s.clock(), clock_);
  EXPECT_EQ(s.stats().index, GetParam().index);
  EXPECT_EQ(s.keys().size(), store(path_, opening()).keys().size());
  std::uint64_t records = 0;
  for (const auto& [key, history] : held_) {
    records += history.size();
    EXPECT_EQ(s.history(key).oldest_first().size(), history.size()) << key;
  }
  EXPECT_EQ(report.records, records);
  EXPECT_EQ(report.tags, 7U);
  EXPECT_EQ(s.find_tag("tag-8")->note, "a note");
  EXPECT_EQ(s.find_tag("tag-8")->version, 8U);
}

TEST_P(PackedRepair, names_what_a_damaged_block_held_by_keys_and_versions) {
  fill();
  const auto blocks = blocks_of(1);  // of the large stratum
  ASSERT_GT(blocks.size(), 8U);
  const std::size_t amid = blocks.size() - 3;
  ASSERT_NE(blocks[amid].second, "deep");
  const repair_report report = repaired(flipped(sound_, blocks[amid].first + 200, 3));
  ASSERT_FALSE(report.losses.empty());
  EXPECT_FALSE(report.complete());
  for (const damage& d : report.losses) {
    EXPECT_EQ(d.structure, "packed") << text_of(report);
    const std::string_view keys =
        is_compressed() ? "the keys from 'deep' on" : "the keys from 'key-1";  // a frame has all
    EXPECT_NE(d.what.find(keys), std::string::npos) << text_of(report);
    EXPECT_NE(d.what.find("in versions 1 to 40 is lost"), std::string::npos) << text_of(report);
  }
  // A key of the block has newer records in the other stratum or in what was written since: these are there, and before
  // them nothing is known.
  ASSERT_FALSE(report.unknown.empty()) << text_of(report);
  const store s(repaired_);
  if (!is_compressed()) {
    EXPECT_EQ(s.find("key-1000", 1), held_at(held_, "key-1000", 1)) << "another block";
    EXPECT_EQ(s.find("deep", 7), held_at(held_, "deep", 7)) << "another block";
  }
  EXPECT_EQ(s.find("deep"), "newest");
}

TEST_P(PackedRepair, never_shows_an_older_record_for_one_that_is_lost_in_a_younger_stratum) {
  fill();
  const auto blocks = blocks_of(0);  // of the small stratum, which is the younger one
  const repair_report report = repaired(flipped(sound_, blocks.front().first + 100, 1));
  EXPECT_TRUE(says(report, "in versions 41 to 41 is lost")) << text_of(report);
  const store s(repaired_);
  EXPECT_EQ(s.find("deep", 40), held_at(held_, "deep", 40)) << "what is older is there in its own versions";
  EXPECT_FALSE(s.find("deep", 41));
  EXPECT_EQ(s.find("deep"), "newest") << "and what is newer";
}

TEST_P(PackedRepair, never_shows_what_is_packed_for_an_entry_that_is_lost_if_its_key_can_be_told) {
  fill();
  const std::string key = "key-1046";  // packed, and written since: nothing else has its newest record
  const std::string newest = *held_.at(key).rbegin()->second;
  const std::size_t at = sound_.find(newest);
  ASSERT_NE(at, std::string::npos);
  const repair_report report = repaired(flipped(sound_, at + 3, 1));
  EXPECT_TRUE(std::ranges::any_of(report.unknown, [&](const auto& u) { return u.key == key && u.last == clock_; }))
      << text_of(report);
  const store s(repaired_);
  EXPECT_FALSE(s.find(key));
  EXPECT_EQ(s.find(key, packed_up_to_), held_at(held_, key, packed_up_to_));
  // where the key itself is damaged, nobody knows it, and the report says what that means
  const std::size_t name = sound_.rfind(key, at);
  ASSERT_LT(at - name, 64U);
  EXPECT_TRUE(says(repaired(flipped(sound_, name + 5, 1)), "show these in its place"));
}

TEST_P(PackedRepair, loses_no_block_of_an_extent_whose_header_or_fence_is_damaged) {
  fill();
  const std::size_t begin = extent_at(1);
  const std::size_t size = packing_of().extents.at(1).size;
  for (const std::size_t at : {begin, begin + 30, begin + 70, is_compressed() ? begin + 300 : begin + size - 100}) {
    const repair_report report = repaired(flipped(sound_, at, 2));
    if (is_compressed()) {
      EXPECT_TRUE(says(report, "is lost")) << at;
    } else {
      EXPECT_TRUE(report.complete()) << at << "\n" << text_of(report);
      ASSERT_EQ(report.repaired.size(), 1U) << text_of(report);
      EXPECT_NE(report.repaired.front().what.find("all of its records are intact"), std::string::npos);
    }
  }
}

TEST_P(PackedRepair, finds_the_blocks_around_a_hole_without_the_fence) {
  fill();
  if (is_compressed()) GTEST_SKIP() << "frames are found by the table alone";
  const auto blocks = blocks_of(1);
  std::string bytes = sound_;
  bytes.replace(blocks[9].first, 64, 64, '\0');
  bytes[extent_at(1) + packing_of().extents.at(1).size - 100] ^= 4;
  const repair_report report = repaired(bytes);
  EXPECT_TRUE(says(report, "checksum mismatch of the fence")) << text_of(report);
  EXPECT_EQ(report.losses.size(), 1U) << text_of(report);
  bytes[extent_at(1) + 20] ^= 4;  // and without the header
  EXPECT_FALSE(repaired(bytes).complete());
  bytes = flipped(sound_, extent_at(1) + 20, 2);
  EXPECT_FALSE(repaired(flipped(bytes, blocks[5].first + 300, 0)).complete()) << "a block's own checksum decides";
}

void PackedRepair::flip_everywhere(int of_each) {
  fill();
  std::vector<std::size_t> places;
  const std::uint64_t seed = test_seed();
  std::mt19937_64 random(seed);
  std::vector<std::size_t> filled;
  for (std::size_t i = format::first_segment_offset; i < sound_.size(); ++i) {
    if (sound_[i] != 0) filled.push_back(i);
  }
  for (int i = 0; i < 60; ++i) places.push_back(filled[random() % filled.size()]);
  const manifest all = packing_of();
  for (const format::named_extent& e : all.extents) {  // headers, the fences' beginnings and ends
    for (int i = 0; i < of_each; ++i) {
      places.push_back(e.segment + random() % 64);
      places.push_back(e.segment + sizeof(format::segment_header) + random() % 256);
      places.push_back(e.segment + sizeof(format::segment_header) + e.size - 1 - random() % 200);
    }
  }
  for_each_place(places, [&](std::size_t at) {
    try {
      static_cast<void>(repaired(flipped(sound_, at, static_cast<unsigned>(at % 8))));
    } catch (const error& failure) {  // the header of the manifest's segment has no second copy
      const bool is_manifest =
          failure.code() == errc::damaged && failure.message().find("(manifest)") != std::string::npos;
      promise(is_manifest, [&] { return "repair fails with " + failure.message(); });
    }
  });
}

TEST_P(PackedRepair, gives_the_truth_or_says_what_is_lost_wherever_a_bit_is_flipped) { flip_everywhere(8); }

class UnfinishedRepair : public PackedRepair {};

TEST_P(UnfinishedRepair, gives_the_truth_or_says_what_is_lost_wherever_a_bit_is_flipped) { flip_everywhere(2); }

/// Then neither the extent nor its neighbours say which versions are lost.
TEST_P(UnfinishedRepair, says_what_is_lost_where_a_header_and_a_block_are_damaged) {
  fill();
  const manifest all = packing_of();
  std::vector<std::size_t> extents(all.extents.size());
  std::iota(extents.begin(), extents.end(), 0U);
  for_each_place(extents, [&](std::size_t number) {
    const std::size_t begin = all.extents[number].segment + sizeof(format::segment_header);
    std::string bytes = flipped(sound_, begin + 16, 1);
    for (std::size_t at = begin + 128; at + 512 < begin + all.extents[number].size; at += 512) bytes[at] ^= 1;
    static_cast<void>(repaired(bytes));
  });
}

TEST_P(PackedRepair, keeps_the_retention_and_what_has_expired) {
  {
    store s(path_, opening());
    for (version v = 1; v <= 30; ++v) {
      put(s, "a", std::to_string(v));
      if (v % 10 == 0) put(s, "b", std::to_string(v));
      s.tag();
    }
    s.set_retention({.newest = 12, .weekly = 3});
  }
  static_cast<void>(compact(path_, opening(), packing()));
  clock_ = 31;
  const std::string bytes = read_file(path_);
  const repair_report report = repaired(bytes);
  EXPECT_TRUE(report.complete()) << text_of(report);
  const store s(repaired_);
  const store before(path_, opening());
  EXPECT_EQ(s.retention(), before.retention());
  EXPECT_EQ(s.retention().newest, 12U);
  EXPECT_EQ(s.retention().weekly, 3U);
  ASSERT_FALSE(s.expired_versions().empty());
  ASSERT_TRUE(std::ranges::equal(s.expired_versions(), before.expired_versions()));
  expect_error(errc::version_expired, "has expired", [&] { static_cast<void>(s.find("a", 3)); });
  EXPECT_EQ(s.find("b", 19), "10") << "the newest record before a kept version";
}

TEST_P(PackedRepair, says_that_a_retention_cannot_be_read) {
  {
    store s(path_, opening());
    put(s, "a", "1");
    s.set_retention({.newest = 12});
    clock_ = s.clock();
  }
  std::string bytes = read_file(path_);
  const std::size_t at = format::manifest_anchor_offset + offsetof(format::manifest_anchor, retention);
  bytes[at + 9] ^= 1;
  EXPECT_TRUE(repaired(bytes).complete()) << "the other slot says the same";
  EXPECT_EQ(store(repaired_).retention().newest, 12U);
  bytes[at + sizeof(format::retention_slot) + 9] ^= 1;
  const repair_report report = repaired(bytes);
  EXPECT_TRUE(says(report, "which versions the store keeps cannot be read")) << text_of(report);
  EXPECT_TRUE(store(repaired_).retention().keeps_all());
}

class ForgottenRepair : public PackedRepair {
 protected:
  static constexpr const char* secret = "K3y-0f-4-p3rs0n";
  void fill_and_forget() {
    {
      store s(path_, opening());
      for (unsigned i = 0; i < 500; ++i) put(s, "other-" + std::to_string(1000 + i), "value");
      s.insert(secret, "S3cret-1");
      s.insert("lists/1", "S3cret-2");
      s.tag();
    }
    static_cast<void>(compact(path_, opening(), packing()));
    store s(path_, opening());
    s.insert(secret, "S3cret-3");
    s.tag();
    static_cast<void>(s.forget({.keys = {secret}, .prefixes = {"lists/"}}));
    s.tag();
    s.insert("lists/2", "later");
    held_["lists/2"][s.clock()] = "later";
    s.tag();
    clock_ = s.clock();
  }
  void expect_no_byte() const {
    const std::string bytes = read_file(repaired_);
    for (const char* part : {secret, "S3cret", "lists/1"}) EXPECT_EQ(bytes.find(part), std::string::npos) << part;
  }
};

TEST_P(ForgottenRepair, never_has_what_a_pending_request_forgets) {
  fill_and_forget();
  sound_ = read_file(path_);
  const repair_report report = repaired(sound_);
  EXPECT_TRUE(report.complete() && report.unknown.empty()) << text_of(report);
  expect_no_byte();
  EXPECT_EQ(store(repaired_).find("lists/2"), "later") << "what was written later stays";
  EXPECT_TRUE(store(repaired_).find_tag("forgotten-1").has_value());
  // also if what else is written of the key is damaged
  const std::size_t at = sound_.find("S3cret-3");
  ASSERT_NE(at, std::string::npos);
  static_cast<void>(repaired(flipped(sound_, at, 0)));
  expect_no_byte();
  const auto blocks = blocks_of(0);
  static_cast<void>(repaired(flipped(sound_, blocks.front().first + 100, 0)));
  expect_no_byte();
}

TEST_P(ForgottenRepair, names_a_request_that_is_damaged_as_do_verify_and_compact) {
  fill_and_forget();
  sound_ = read_file(path_);
  std::size_t request = 0;
  {
    options reading;
    reading.access = access::read_only;
    const pool_set pools(path_, reading);
    for_each_segment(pools, [&](const segment& s, const format::segment_header& h) {
      if (h.magic == format::forget_segment_magic) request = s.first_record();
    });
  }
  ASSERT_NE(request, 0U);
  // any byte of it that counts
  const std::size_t size = sizeof(format::forget_header) + 2 * sizeof(format::forgotten_key) + 15 + 6;
  for (std::size_t i = 0; i < size; ++i) {
    if (i >= offsetof(format::forget_header, made) && i < sizeof(format::forget_header)) continue;
    write_file(path_, flipped(sound_, request + i, i % 8));
    const verify_report found = verify_file(path_);
    ASSERT_EQ(found.damages.size(), 1U) << i;
    EXPECT_EQ(found.damages.front().structure, "forget");
    EXPECT_EQ(found.damages.front().offset, request);
  }
  EXPECT_EQ(store(path_, opening()).verify().damages.size(), 1U);
  expect_error(errc::damaged, "a request to forget cannot be read",
               [&] { static_cast<void>(compact(path_, opening())); });
  const repair_report report = repair({.from = path_, .to = repaired_});
  EXPECT_TRUE(says(report, "a request to forget cannot be read")) << text_of(report);
  // and its header is a segment's
  write_file(path_, flipped(sound_, request - sizeof(format::segment_header) + 9, 1));
  EXPECT_FALSE(verify_file(path_).ok());
  // without the mark it is as it was
  write_file(path_, flipped(sound_, request + offsetof(format::forget_header, made), 1));
  EXPECT_TRUE(verify_file(path_).ok());
  EXPECT_TRUE(compact(path_, opening()).erased);
  EXPECT_FALSE(store(path_, opening()).find(secret, 1));
}

TEST_P(PackedRepair, loses_nothing_where_one_copy_of_the_manifest_is_intact) {
  fill();
  const manifest packing = packing_of();
  const std::size_t slot = format::manifest_anchor_offset + packing.number % 2 * sizeof(format::manifest_slot);
  const std::size_t first = link_offset(packing.segment) + sizeof(format::segment_header);
  const std::size_t end = link_offset(packing.segment) + format::granule_size;
  const std::size_t size = packing.extents.size() * sizeof(format::named_extent);
  const std::size_t copied_slot = end - sizeof(format::manifest_slot);
  const std::pair<std::size_t, std::size_t> parts[] = {{slot, sizeof(format::manifest_slot)},
                                                       {first, size},
                                                       {copied_slot - size, size},
                                                       {copied_slot, sizeof(format::manifest_slot)}};
  for (const auto& [begin, bytes] : parts) {
    for (const std::size_t at : {begin, begin + bytes / 2, begin + bytes - 1}) {
      const repair_report report = repaired(flipped(sound_, at, 3));
      EXPECT_TRUE(report.complete()) << at << text_of(report);
      ASSERT_EQ(report.repaired.size(), 1U) << at << text_of(report);
      EXPECT_EQ(report.repaired.front().structure, "manifest");
      const auto found = verify_file(path_);
      ASSERT_EQ(found.damages.size(), 1U) << at;
      EXPECT_EQ(found.damages.front().structure, "manifest");
      EXPECT_EQ(store(path_, opening()).find("deep")->bytes(), "newest");
    }
  }
  std::string both = flipped(flipped(sound_, slot + 20, 3), first + 1, 2);  // one of each: together all is there
  EXPECT_TRUE(repaired(both).complete());
  EXPECT_EQ(verify_file(path_).damages.size(), 2U);
}

TEST_P(PackedRepair, refuses_a_store_of_whose_manifest_no_copy_is_intact_and_says_what_is_lost) {
  fill();
  const manifest packing = packing_of();
  const std::size_t first = link_offset(packing.segment) + sizeof(format::segment_header);
  const std::size_t end = link_offset(packing.segment) + format::granule_size;
  const std::size_t size = packing.extents.size() * sizeof(format::named_extent);
  const std::size_t slot = format::manifest_anchor_offset + packing.number % 2 * sizeof(format::manifest_slot);
  const std::size_t copied_slot = end - sizeof(format::manifest_slot);
  for (const auto& [one, other] :
       {std::pair(first + 3, copied_slot - size + 3), std::pair(slot + 9, copied_slot + 9)}) {
    write_file(path_, flipped(flipped(sound_, one, 0), other, 0));
    expect_error(errc::damaged, "(manifest)", [&] { repair({.from = path_, .to = repaired_}); });
    expect_error(errc::damaged, "which versions have expired, is not known: restore a checkpoint",
                 [&] { repair({.from = path_, .to = repaired_}); });
    EXPECT_FALSE(std::filesystem::exists(repaired_));
  }
}

TEST_P(PackedRepair, reads_a_manifest_that_has_no_second_copy) {
  fill();
  const std::size_t end = link_offset(packing_of().segment) + format::granule_size;
  std::string old = sound_;  // as an older icecore has written it
  const std::size_t copy = sizeof(format::manifest_slot) + packing_of().extents.size() * sizeof(format::named_extent);
  std::fill_n(old.begin() + static_cast<std::ptrdiff_t>(end - copy), copy, '\0');
  const repair_report report = repaired(old);
  EXPECT_TRUE(report.complete() && report.repaired.empty()) << text_of(report);
  EXPECT_TRUE(verify_file(path_).ok());
}

const std::vector<form>& forms() {
  static const std::vector<form> all{{"btree", index_kind::btree, compression::none},
                                     {"persistent", index_kind::persistent, compression::none},
                                     {"hash", index_kind::hash, compression::none},
                                     {"compressed", index_kind::btree, compression::zstd}};
  return all;
}
std::string name_of(const ::testing::TestParamInfo<form>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Forms, PackedRepair, ::testing::ValuesIn(forms()), name_of);
INSTANTIATE_TEST_SUITE_P(Forms, UnfinishedRepair,
                         ::testing::Values(form{"btree", index_kind::btree, compression::none, true},
                                           form{"compressed", index_kind::btree, compression::zstd, true}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Forms, ForgottenRepair, ::testing::ValuesIn(forms()), name_of);

}  // namespace
}  // namespace icecore::testing
