// G6: nothing wrong is ever returned. One bit at a time is flipped in the bytes of a small store. Each time the store
// either refuses to open or to answer, with an error that says so, or all its answers are right.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <random>

#include "base/memory/sanitizer.hpp"
#include "icecore/icecore.hpp"
#include "pool/format.hpp"
#include "support/damaging.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"
#include "support/sound_store.hpp"

namespace icecore::testing {
namespace {

class Damage : public ::testing::Test {
 protected:
  /// What a reader, a writer and verify do with a file of these bytes. Throws broken_promise.
  void read_damaged(const std::string& bad) {
    write_file(path_, bad);
    std::string complaint;
    options reading;
    reading.access = access::read_only;
    try {
      const store opened(path_, reading);
      read_everything(opened, holds_);
    } catch (const error& failure) {
      promise(is_said_clearly(failure), [&] { return "reading fails with: " + failure.message(); });
      complaint = failure.message();
    }
    promise(read_file(path_) == bad, [] { return std::string("a store opened for reading was changed"); });
    compare_with_verify(complaint);
    try {
      write_on();
    } catch (const error& failure) {
      promise(is_said_clearly(failure), [&] { return "writing fails with: " + failure.message(); });
    }
  }

  /// verify_file() finds all damage that matters, and says so before the store is opened.
  void compare_with_verify(const std::string& complaint) const {
    bool sound = false;
    try {
      sound = verify_file(path_).ok();
    } catch (const error& failure) {
      promise(is_said_clearly(failure), [&] { return "verify_file() fails with: " + failure.message(); });
    }
    promise(complaint.empty() || !sound,
            [&] { return "verify_file() finds nothing but reading fails with: " + complaint; });
  }

  /// A store that opens for writing in spite of the flip goes on as if it had not happened.
  void write_on() {
    {
      store opened(path_);
      read_everything(opened, holds_);
      opened.insert("key-5", "written on");
      opened.insert("another", "written on");
      opened.close();
    }
    // Damage that was not met was closed with the rest: that loses nothing.
    const store again = [&] {
      try {
        return store(path_);
      } catch (const error& failure) {
        throw broken_promise("written on and closed, it does not open: " + failure.message());
      }
    }();
    for (const auto& [key, history] : holds_.records) {
      const bool changed = key == "key-5";
      const auto found = again.find(key);
      promise(changed ? found == "written on" : found == holds_.find(key),
              [&] { return "written on: find(" + show(key) + ") gives " + show_found(found); });
    }
    promise(again.find("another") == "written on", [] { return std::string("written on: a new key is lost"); });
  }

  /// The question is refused with a reason, or answered as promised.
  template <class Question>
  static void ask(const Question& question) {
    try {
      question();
    } catch (const error& failure) {
      promise(is_said_clearly(failure), [&] { return "it fails with: " + failure.message(); });
    }
  }

  /// Asks each question as the first one to a store just opened.
  void ask_first(const std::string& bad) {
    const auto to = [&](const auto& question) {
      write_file(path_, bad);
      ask([&] {
        store opened(path_);
        question(opened);
      });
    };
    const key_bounds some{"key-1", "key-7"};
    const auto compare_keys = [&](const store& opened, const key_bounds& bounds) {
      std::vector<std::string> wanted;
      for (const auto& [key, history] : holds_.records) {
        if ((!bounds.from || key >= *bounds.from) && (!bounds.to || key < *bounds.to)) wanted.push_back(key);
      }
      const auto found = opened.keys(bounds);
      promise(std::ranges::equal(found, wanted), [] { return std::string("keys()"); });
    };
    to([&](store& s) { compare_keys(s, {}); });
    to([&](store& s) { compare_keys(s, some); });
    const auto compare_items = [&](const key_bounds& bounds, const auto& found, const char* how) {
      const auto wanted = holds_.items_at(version_max, bounds);
      const auto same = [](const auto& f, const auto& w) { return f.key == w.first && f.value == w.second; };
      promise(std::equal(found.begin(), found.end(), wanted.begin(), wanted.end(), same),
              [&] { return std::string(how); });
    };
    for (const key_bounds& bounds : {key_bounds{}, some}) {
      to([&](store& s) {
        std::vector<item> found;
        for (const item& one : s.latest().range(bounds)) found.push_back(one);
        compare_items(bounds, found, "a scan");
      });
      to([&](store& s) {
        std::vector<item> found;
        for (const item& one : s.latest().range(bounds).reversed()) found.insert(found.begin(), one);
        compare_items(bounds, found, "a scan backwards");
      });
      to([&](store& s) { compare_items(bounds, s.latest().items(1, bounds), "items()"); });
    }
    to([&](store& s) {
      const auto wanted = holds_.diff(1, holds_.clock - 1);
      std::vector<model::difference> found;
      for (const auto& [key, before, after] : s.diff(1, holds_.clock - 1))
        found.push_back({std::string(key), std::optional<std::string>(before), std::optional<std::string>(after)});
      promise(found == wanted, [] { return std::string("diff()"); });
    });
    to([&](store& s) {
      for (const auto& [key, history] : holds_.records) {
        ask([&] {
          auto wanted = history.rbegin();  // change by change: a wrong one is seen, whatever follows
          for (const change& one : s.history(key)) {
            promise(wanted != history.rend() && one.version == wanted->version && one.value == wanted->value,
                    [&] { return "the history of " + show(key); });
            ++wanted;
          }
          promise(wanted == history.rend(), [&] { return "the history of " + show(key) + " ends"; });
        });
      }
    });
    to([&](store& s) {
      for (const auto& [key, history] : holds_.records) {
        ask([&] {
          const bool there = s.remove(key).has_value();
          promise(there == holds_.find(key).has_value(), [&] { return "remove(" + show(key) + ")"; });
        });
      }
    });
  }

  /// Every byte (or a good part) of the closed store.
  void run(bool every) {
    fill_small_store(path_, {}, holds_).close();
    const std::string sound = read_file(path_);
    const auto offsets = offsets_to_flip(sound, every);
    RecordProperty("flips", std::to_string(offsets.size()));
    for_each_place(offsets, [&](std::size_t offset) {
      read_damaged(flipped(sound, offset, static_cast<unsigned>(offset * 7 + offset / 8) % 8));
    });
  }

  /// Calls damage(bytes, offset) for each part of this size of a closed store that is not empty.
  template <class Function>
  void for_each_used_part(index_kind index, std::size_t size, Function damage) {
    SCOPED_TRACE("index " + std::to_string(static_cast<int>(index)) + ", parts of " + std::to_string(size));
    std::filesystem::remove(path_);
    holds_ = {};
    options opening;
    opening.index = index;
    fill_small_store(path_, opening, holds_).close();
    const std::string sound = read_file(path_);
    std::vector<std::size_t> places;
    const std::string zeros(size, '\0');
    for (std::size_t at = 0; at + size <= sound.size(); at += size) {
      if (sound.compare(at, size, zeros) != 0) places.push_back(at);
    }
    for_each_place(places, [&](std::size_t at) { damage(sound, at); });
  }

  scratch folder_;
  std::filesystem::path path_ = folder_ / "damaged.ice";
  model holds_;
};

#ifdef ICECORE_LONG_TESTS

TEST_F(Damage, a_bit_flipped_in_any_byte_never_gives_a_wrong_answer) { run(true); }

#else

TEST_F(Damage, a_bit_flipped_in_any_used_byte_never_gives_a_wrong_answer) { run(false); }

TEST_F(Damage, a_line_a_sector_or_a_page_of_zeros_never_gives_a_wrong_answer) {
  for (const index_kind index : {index_kind::btree, index_kind::persistent}) {
    for (const std::size_t size : {64U, 512U, 4096U, 65'536U}) {
      for_each_used_part(index, size, [&](const std::string& sound, std::size_t at) {
        read_damaged(std::string(sound).replace(at, size, std::string(size, '\0')));
      });
    }
  }
}

/// After instant recovery nothing has been read: the first question meets the damage, whichever question it is.
TEST_F(Damage, whatever_is_asked_first_is_answered_rightly_or_refused) {
  options opening;
  opening.index = index_kind::persistent;
  fill_small_store(path_, opening, holds_).close();
  const std::string sound = read_file(path_);
  std::vector<std::size_t> places;
  // records, not nodes of the index: those are always checked completely
  const std::size_t first = sound.find("key-0");
  const std::size_t end = sound.find("in the version left open") + 24;
  ASSERT_NE(first, std::string::npos);
  ASSERT_LT(first, end);
  for (std::size_t at = first - sizeof(format::entry_header); at < end; ++at) {
    if (sound[at] != 0 || sound[at - 1] != 0) places.push_back(at);
  }
  std::erase_if(places, [&](std::size_t at) { return sound[at] == 'L' && at % 512 != 0; });
  for_each_place(places, [&](std::size_t at) {
    ask_first(flipped(sound, at, 0));  // the bit that distinguishes an insert from a removal, if there is a kind
    ask_first(flipped(sound, at, static_cast<unsigned>(at * 7 + at / 8) % 8));
  });
}

/// What lies behind the damaged record of a failed update must not be lost because of that.
TEST_F(Damage, a_write_that_met_damage_leaves_nothing_in_the_way_of_the_next_ones) {
  for (const bool removal : {false, true}) {
    std::filesystem::remove(path_);
    holds_ = {};
    options opening;
    opening.index = index_kind::persistent;
    fill_small_store(path_, opening, holds_).close();
    std::string bad = read_file(path_);
    const std::size_t entry = bad.find("key-9") - sizeof(format::entry_header);
    bad = flipped(bad, entry + offsetof(format::record_header, stamp), 3);
    write_file(path_, bad);
    child writer([&] {
      store s(path_);
      try {
        if (removal)
          s.remove("key-9");
        else
          s.insert("key-9", "on top");
        return 1;
      } catch (const error& failure) {
        if (failure.code() != errc::damaged) return 2;
      }
      s.insert("another", "behind it");
      ::kill(getpid(), SIGKILL);
      return 3;
    });
    ASSERT_EQ(writer.wait(), -SIGKILL);
    const store again(path_);
    EXPECT_TRUE(again.stats().recovered_instantly);
    EXPECT_EQ(again.find("another"), "behind it");
    EXPECT_EQ(again.find("key-8"), "changed");
  }
}

/// With many nodes: leaves, and nodes above them.
TEST_F(Damage, a_node_of_the_persistent_index_that_looks_locked_never_gives_a_wrong_answer) {
  options opening;
  opening.index = index_kind::persistent;
  {
    store s = fill_small_store(path_, opening, holds_);
    for (int i = 0; i < 400; ++i) {
      const std::string key = "many-" + std::to_string(i * 7919 % 400);
      s.insert(key, "value");
      holds_.insert(key, "value");
    }
    s.close();
  }
  const std::string sound = read_file(path_);
  constexpr std::size_t line = format::cache_line_size;
  std::vector<std::size_t> places;
  for (std::size_t at = 2 * format::granule_size + line; at + line <= sound.size(); at += sizeof(format::index_node)) {
    if (sound.compare(at, line, std::string(line, '\0')) != 0) places.push_back(at);
  }
  for_each_place(places, [&](std::size_t at) {
    std::string locked = sound;
    locked[at] |= 1;
    read_damaged(locked);
    read_damaged(locked.replace(at + 1, line - 1, std::string(line - 1, '\0')));
    read_damaged(locked.replace(at + 1, line - 1, std::string(line - 1, '\x7f')));
  });
}

/// As from a device on which a line has lost its charge: every word is odd, which in a node of the persistent index
/// means that it is locked.
TEST_F(Damage, a_line_or_a_sector_of_garbage_never_gives_a_wrong_answer) {
  for (const index_kind index : {index_kind::btree, index_kind::persistent}) {
    for (const std::size_t size : {64U, 512U}) {
      for_each_used_part(index, size, [&](const std::string& sound, std::size_t at) {
        std::string garbage;
        std::mt19937_64 random(at);
        while (garbage.size() < size) {
          const std::uint64_t word = random() | 1;
          garbage.append(reinterpret_cast<const char*>(&word), sizeof word);
        }
        read_damaged(std::string(sound).replace(at, size, garbage));
        const std::string locked = std::string("\1").append(size - 1, '\0');
        read_damaged(std::string(sound).replace(at, size, locked));
      });
    }
  }
}

TEST_F(Damage, a_line_a_sector_or_a_page_that_was_never_written_again_never_gives_a_wrong_answer) {
  {
    // the same store at an earlier close: its pages are intact and have the same pool's checksums
    store s = fill_small_store(path_, {}, holds_);
    s.close();
  }
  const std::string earlier = read_file(path_);
  {
    store s(path_);
    for (int i = 0; i < 40; ++i) {
      const std::string key = "key-" + std::to_string(i % 8);
      s.insert(key, "later");
      holds_.clock = s.clock();
      holds_.insert(key, "later");
      if (i % 10 == 0) s.tag();
    }
    holds_.clock = s.clock();
  }
  const std::string sound = read_file(path_);
  ASSERT_EQ(sound.size(), earlier.size());
  for (const std::size_t size : {64U, 512U, 4096U, 65'536U}) {
    SCOPED_TRACE(size);
    std::vector<std::size_t> places;
    // but not the roots: a root that the device lost after its sync cannot be distinguished from one never written
    for (std::size_t at = 65'536; at + size <= sound.size(); at += size) {
      if (sound.compare(at, size, earlier, at, size) != 0) places.push_back(at);
    }
    for_each_place(places,
                   [&](std::size_t at) { read_damaged(std::string(sound).replace(at, size, earlier, at, size)); });
  }
}

TEST_F(Damage, bytes_that_changed_places_never_give_a_wrong_answer) {
  fill_small_store(path_, {}, holds_).close();
  const std::string sound = read_file(path_);
  std::vector<std::size_t> places;
  for (std::size_t at = 65'536; at + 128 <= sound.size(); at += 8) {
    if (sound.compare(at, 64, sound, at + 64, 64) != 0) places.push_back(at);
  }
  for_each_place(places, [&](std::size_t at) {
    std::string swapped = sound;
    std::swap_ranges(swapped.begin() + static_cast<std::ptrdiff_t>(at),
                     swapped.begin() + static_cast<std::ptrdiff_t>(at + 64),
                     swapped.begin() + static_cast<std::ptrdiff_t>(at + 64));
    read_damaged(swapped);
  });
}

TEST_F(Damage, a_sound_store_is_found_sound_open_closed_and_after_a_crash) {
  {
    const store opened = fill_small_store(path_, {}, holds_);
    EXPECT_TRUE(opened.verify().ok());
    const auto report = opened.verify();
    EXPECT_EQ(report.tags, holds_.tags.size());
    EXPECT_GE(report.records, 30U);
    EXPECT_GT(report.entries, 10U);
    EXPECT_GT(report.segments, 0U);
    EXPECT_GT(report.bytes, 5'000U);
    std::filesystem::copy_file(path_, folder_ / "crashed.ice");
  }
  EXPECT_TRUE(verify_file(path_).ok());
  EXPECT_TRUE(verify_file(folder_ / "crashed.ice").ok()) << "what a crash leaves is not damage";
}

TEST_F(Damage, a_flipped_value_is_named_by_verify_with_its_key) {
  fill_small_store(path_, {}, holds_).close();
  const std::string sound = read_file(path_);
  const std::size_t offset = sound.find("of the empty key");
  ASSERT_NE(offset, std::string::npos);
  write_file(path_, flipped(sound, offset + 3, 2));
  const auto report = verify_file(path_);
  ASSERT_FALSE(report.ok());
  const auto& place = report.damages.front();
  EXPECT_LE(place.offset, offset);
  EXPECT_GT(place.offset + 4096, offset) << "the place named is far from the damage";
  EXPECT_FALSE(place.what.empty());
  expect_error(errc::damaged, "damaged.ice", [&] { const store opened(path_); });
}

TEST_F(Damage, whole_records_behind_one_whose_stamp_is_damaged_are_not_named) {
  {
    store s(path_);
    for (int i = 0; i < 12; ++i) s.insert("key " + std::to_string(i % 3), "value " + std::to_string(i));
  }
  const std::string sound = read_file(path_);
  for (int i = 0; i < 3; ++i) {
    const std::size_t key = sound.find("key " + std::to_string(i));
    const std::size_t entry = key - sizeof(format::entry_header);
    write_file(path_, flipped(sound, entry + offsetof(format::record_header, stamp), 1));
    const verify_report report = verify_file(path_);
    ASSERT_EQ(report.damages.size(), 1U) << report.damages.back().what;
    EXPECT_EQ(report.damages[0].offset, entry);
  }
}

TEST_F(Damage, damaged_root_pages_are_named_by_verify) {
  fill_small_store(path_, {}, holds_).close();
  const std::string closed = read_file(path_);
  std::string swapped = closed;
  std::swap_ranges(swapped.begin(), swapped.begin() + format::page_size, swapped.begin() + format::page_size);
  for (const std::string& sound : {closed, swapped}) {
    const auto sequence_at = [&](std::uint64_t offset) {
      std::uint64_t sequence = 0;
      std::memcpy(&sequence, sound.data() + offset + offsetof(format::root, sequence), sizeof sequence);
      return sequence;
    };
    const bool a_is_older = sequence_at(format::root_a_offset) < sequence_at(format::root_b_offset);
    const std::uint64_t older = a_is_older ? format::root_a_offset : format::root_b_offset;
    const std::uint64_t newer = a_is_older ? format::root_b_offset : format::root_a_offset;

    write_file(path_, flipped(sound, older + 100, 1));
    auto report = verify_file(path_);
    ASSERT_EQ(report.damages.size(), 1U) << "that page, and all else is sound";
    EXPECT_EQ(report.damages.front().structure, "root");
    EXPECT_EQ(report.damages.front().offset, older);

    write_file(path_, flipped(sound, newer + 100, 1));
    EXPECT_FALSE(verify_file(path_).ok());

    write_file(path_, flipped(flipped(sound, older + 100, 1), newer + 100, 1));
    report = verify_file(path_);
    // each page, and both together
    ASSERT_EQ(report.damages.size(), 3U);
    EXPECT_TRUE(std::ranges::all_of(report.damages, [](const damage& d) { return d.structure == "root"; }));
    EXPECT_TRUE(std::ranges::any_of(
        report.damages, [](const damage& d) { return d.what.find("both root pages") != std::string::npos; }));
  }
}

TEST_F(Damage, an_end_that_is_missing_is_reported_even_if_it_held_nothing) {
  std::string left;
  {
    const store opened = fill_small_store(path_, {}, holds_);
    left = read_file(path_);  // with free space behind what it holds
  }
  write_file(path_, left.substr(0, left.size() / 2));
  const verify_report report = verify_file(path_);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.damages.back().structure, "file");
  EXPECT_EQ(report.damages.back().offset, left.size() / 2);
  options reading;
  reading.access = access::read_only;
  reading.accept_copy = true;
  expect_error(errc::truncated, "its end is missing", [&] { const store opened(path_, reading); });
}

TEST_F(Damage, a_damaged_large_value_is_an_error_when_it_is_read_and_all_else_is_right) {
  fill_small_store(path_, {}, holds_).close();
  const std::string sound = read_file(path_);
  const std::size_t offset = sound.find(std::string(5'000, 'L'));
  ASSERT_NE(offset, std::string::npos);
  write_file(path_, flipped(sound, offset + 2'500, 0));
  EXPECT_FALSE(verify_file(path_).ok());
  try {
    const store opened(path_);
    expect_error(errc::damaged, "large", [&] { static_cast<void>(opened.find("large")); });
    expect_error(errc::damaged, "large", [&] { static_cast<void>(opened.find("large")); });
    expect_error(errc::damaged, "large", [&] { static_cast<void>(opened.history("large").newest_first()); });
    expect_error(errc::damaged, "large", [&] { static_cast<void>(opened.latest().extract(2)); });
    expect_error(errc::damaged, "large", [&] {
      for (const auto& one : opened.latest().range()) static_cast<void>(one);
    });
    EXPECT_EQ(opened.find("deep"), "11");
    EXPECT_FALSE(opened.verify().ok());
  } catch (const error& failure) {
    EXPECT_EQ(failure.code(), errc::damaged);  // refusing the whole store is safe too
  }
}

TEST_F(Damage, a_flip_in_a_store_whose_writer_died_never_gives_a_value_that_was_not_written) {
  const auto crashed = folder_ / "crashed.ice";
  {
    const store opened = fill_small_store(path_, {}, holds_);
    std::filesystem::copy_file(path_, crashed);
  }
  const std::string left = read_file(crashed);
  options accepting;
  accepting.accept_copy = true;
  std::vector<std::size_t> offsets = offsets_to_flip(left, false);
  if (memory_is_watched) {  // each takes ten times as long: one in five
    std::erase_if(offsets, [](std::size_t offset) { return offset % 5 != 0; });
  }
  for_each_place(offsets, [&](std::size_t offset) {
    write_file(path_, flipped(left, offset, static_cast<unsigned>(offset * 5 + offset / 8) % 8));
    try {
      const store opened(path_, accepting);
      for (const auto& [key, history] : holds_.records) {
        for (const auto& [version, value] : opened.history(key)) {
          const bool written = std::ranges::any_of(history, [&](const model::record& w) { return w.value == value; });
          promise(written, [&] { return show(key) + " has the value " + show_found(value); });
        }
      }
      for (const auto& one : opened.latest().range()) {
        promise(holds_.records.contains(std::string(one.key)),
                [&] { return "a key that never was: " + show(one.key); });
      }
    } catch (const error& failure) {
      promise(is_said_clearly(failure), [&] { return "reading fails with: " + failure.message(); });
    }
  });
}

#endif

}  // namespace
}  // namespace icecore::testing
