// What is durable beside the records of a store with the persistent index (writers' logs, lists of segments, the
// index's anchor) is damaged as devices do it. Every answer is right, or an error says what is damaged. Nothing hangs.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "icecore/icecore.hpp"
#include "pool/checked_word.hpp"
#include "pool/format.hpp"
#include "pool/root/root.hpp"
#include "store/core.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

constexpr unsigned keys = 4'000;
constexpr unsigned tags = 100;

[[nodiscard]] std::string key_of(unsigned i) { return "key " + std::to_string(i); }
[[nodiscard]] std::string value_of(unsigned i) { return "a value of some length, " + std::to_string(i); }

class PersistentDamage : public ::testing::Test {
 protected:
  [[nodiscard]] static options opening() {
    options o;
    o.index = index_kind::persistent;
    o.durability = durability::operation;
    o.emulate_durability = true;
    return o;
  }
  static void fill(store& s, unsigned from, unsigned to) {
    for (unsigned i = from; i < to; ++i) {
      s.insert(key_of(i), value_of(i));
      if (i % (keys / tags) == 0) s.tag({.name = "tag " + std::to_string(i)});
    }
  }
  /// The file that a process leaves if it is killed after all its writes; segments of several kinds are in it.
  [[nodiscard]] std::string killed() const {
    child writer([&] {
      store s(path_, opening());
      fill(s, 0, keys);
      ::kill(getpid(), SIGKILL);
      return 0;
    });
    EXPECT_EQ(writer.wait(), -SIGKILL);
    return read_file(path_);
  }
  [[nodiscard]] static format::root root_of(const std::string& file) {
    format::root a;
    format::root b;
    std::memcpy(&a, file.data() + format::root_a_offset, sizeof a);
    std::memcpy(&b, file.data() + format::root_b_offset, sizeof b);
    return a.sequence > b.sequence ? a : b;
  }
  [[nodiscard]] static link anchor_of(const std::string& file) { return root_of(file).anchor; }
  [[nodiscard]] static link link_in(const std::string& file, link place) {
    std::uint64_t word = 0;
    std::memcpy(&word, file.data() + place, sizeof word);
    return word_codec(pool_seed_of(root_of(file))).decode_link(word, place).value_or(null_link);
  }
  /// Opens the file and asks everything; counts the answers that are refused as damaged.
  [[nodiscard]] unsigned complaints_of(const std::string& file) const {
    write_file(path_, file);
    unsigned complaints = 0;
    const auto ask = [&](const auto& call) {
      try {
        call();
      } catch (const error& failure) {
        EXPECT_EQ(failure.code(), errc::damaged) << failure.what();
        ++complaints;
      }
    };
    ask([&] {
      const store s(path_, opening());
      EXPECT_TRUE(s.stats().recovered_instantly);
      ask([&] { EXPECT_EQ(s.tags().size(), tags); });
      ask([&] { EXPECT_EQ(s.keys().size(), keys); });
      for (unsigned i = 0; i < keys; i += 7) ask([&] { EXPECT_EQ(s.find(key_of(i)), value_of(i)) << key_of(i); });
    });
    return complaints;
  }

  scratch folder_;
  std::filesystem::path path_ = folder_ / "spoiled.ice";
};

TEST_F(PersistentDamage, a_flipped_bit_in_either_copy_of_a_log_loses_nothing_after_a_kill) {
  const std::string file = killed();
  const link anchor = anchor_of(file);
  unsigned logs = 0;
  for (unsigned w = 0; w < format::writers_max; ++w) {
    for (unsigned copy = 0; copy < 2; ++copy) {
      const std::size_t at =
          anchor + offsetof(format::index_anchor, writers) + (2 * w + copy) * sizeof(format::writer_log);
      format::writer_log log;
      std::memcpy(&log, file.data() + at, sizeof log);
      if (log.sequence == 0) continue;
      ++logs;
      for (const std::size_t byte : {offsetof(format::writer_log, sequence), offsetof(format::writer_log, open),
                                     offsetof(format::writer_log, totals) + 24, offsetof(format::writer_log, crc)}) {
        std::string spoiled = file;
        spoiled[at + byte] = static_cast<char>(spoiled[at + byte] ^ 1);
        write_file(path_, spoiled);
        {
          store s(path_, opening());
          EXPECT_TRUE(s.stats().recovered_instantly);
          EXPECT_EQ(s.stats().keys, keys) << "byte " << byte << " of copy " << copy;
          s.insert("one more", "value");
          s.close();
        }
        EXPECT_TRUE(verify_file(path_).ok()) << "byte " << byte << " of copy " << copy;
      }
    }
  }
  EXPECT_EQ(logs, 2U) << "no log to spoil";
}

TEST_F(PersistentDamage, segments_that_changed_places_are_reported_after_a_kill) {
  const std::string file = killed();
  std::vector<std::size_t> segments;
  for (std::size_t at = format::first_segment_offset; at < file.size(); at += format::granule_size) {
    if (file.find_first_not_of('\0', at) < at + format::granule_size) segments.push_back(at);
  }
  ASSERT_GT(segments.size(), 5U);
  for (std::size_t i = 0; i + 1 < segments.size(); ++i) {
    for (std::size_t j = i + 1; j < segments.size(); j += 2) {
      std::string swapped = file;
      std::swap_ranges(swapped.begin() + static_cast<std::ptrdiff_t>(segments[i]),
                       swapped.begin() + static_cast<std::ptrdiff_t>(segments[i] + format::granule_size),
                       swapped.begin() + static_cast<std::ptrdiff_t>(segments[j]));
      SCOPED_TRACE("segments at " + std::to_string(segments[i]) + " and " + std::to_string(segments[j]));
      EXPECT_GT(complaints_of(swapped), 0U);
    }
  }
}

TEST_F(PersistentDamage, zeros_in_the_list_of_tags_are_reported_after_a_kill) {
  const std::string file = killed();
  const link place = anchor_of(file) + offsetof(format::index_anchor, tags);
  const link newest = link_in(file, place);
  for (const link block : {newest, link_in(file, newest)}) {  // the full one before it
    ASSERT_NE(block, null_link);
    for (link at = block; at < block + sizeof(format::tag_block); at += format::cache_line_size) {
      std::string spoiled = file;
      spoiled.replace(at, format::cache_line_size, format::cache_line_size, '\0');
      if (spoiled == file) continue;  // behind the last link
      SCOPED_TRACE("the line at byte " + std::to_string(at - block) + " of the block at " + std::to_string(block));
      EXPECT_GT(complaints_of(spoiled), 0U);
    }
  }
}

// As a device does it that lost all that was written to the anchor's first line and to the first leaf.
TEST_F(PersistentDamage, an_index_without_keys_is_reported_where_logs_tell_of_some) {
  child writer([&] {
    store s(path_, opening());
    std::filesystem::copy_file(path_, folder_ / "empty.ice");
    for (unsigned i = 0; i < keys; ++i) s.insert(key_of(i), value_of(i));
    ::kill(getpid(), SIGKILL);
    return 0;
  });
  EXPECT_EQ(writer.wait(), -SIGKILL);
  const std::string empty = read_file(folder_ / "empty.ice");
  std::string file = read_file(path_);
  const link anchor = anchor_of(empty);
  ASSERT_EQ(anchor, anchor_of(file));
  const link leaf = link_in(empty, anchor + offsetof(format::index_anchor, first_leaf));
  file.replace(anchor, format::cache_line_size, empty, anchor, format::cache_line_size);
  file.replace(leaf, sizeof(format::index_node), empty, leaf, sizeof(format::index_node));
  write_file(path_, file);
  expect_error(errc::damaged, "it is empty", [&] { const store s(path_, opening()); });
}

TEST_F(PersistentDamage, a_newest_record_that_lost_its_stamp_is_not_of_today) {
  version tagged = 0;
  {
    store s(path_, opening());
    s.insert("one key", "its value");
    tagged = s.tag("a tag");
    s.insert("other key", "its value");
  }
  std::string file = read_file(path_);
  const std::size_t entry = file.find("one key") - sizeof(format::entry_header);
  file.replace(entry + offsetof(format::record_header, stamp), 8, 8, '\0');
  write_file(path_, file);
  store s(path_, opening());
  EXPECT_TRUE(s.stats().recovered_instantly);
  expect_error(errc::damaged, "stamp", [&] { static_cast<void>(s.find("one key")); });
  expect_error(errc::damaged, "stamp", [&] { static_cast<void>(s.find("one key", tagged)); });
  expect_error(errc::damaged, "stamp", [&] { static_cast<void>(s.history("one key").newest_first()); });
  expect_error(errc::damaged, "stamp", [&] { s.insert("one key", "another value"); });
}

// ---- A line of the anchor is of an earlier time, because the device lost a write ----

class LastingAnchor : public PersistentDamage {
 protected:
  /// The files as they were in the middle of a process's life and when it was killed. In between segments were left
  /// with room, taken again and filled, nodes were split, and blocks of tags filled up.
  void write_and_be_killed() {
    child writer([&] {
      store s(path_, opening());
      const std::string large(30'000, 'l');
      for (unsigned i = 0; i < larges; ++i) s.insert("large " + std::to_string(i), large);
      fill(s, 0, keys / 2);
      write_file(earlier_, read_file(path_));
      fill(s, keys / 2, keys);
      ::kill(getpid(), SIGKILL);
      return 0;
    });
    EXPECT_EQ(writer.wait(), -SIGKILL);
    before_ = read_file(earlier_);
    after_ = read_file(path_);
  }
  /// The anchor's lines that differ.
  [[nodiscard]] std::vector<std::size_t> changed_lines() const {
    std::vector<std::size_t> all;
    const std::size_t begin = anchor_of(after_);
    for (std::size_t at = begin; at < begin + sizeof(format::index_anchor); at += format::cache_line_size) {
      if (before_.compare(at, format::cache_line_size, after_, at, format::cache_line_size) != 0) all.push_back(at);
    }
    return all;
  }
  [[nodiscard]] std::string with_old(std::size_t at, std::size_t bytes) const {
    std::string spoiled = after_;
    spoiled.replace(at, bytes, before_, at, bytes);
    return spoiled;
  }
  /// Writes to the store, and checks that nothing was lost without an error.
  void expect_nothing_hidden() const {
    const auto ask = [&](const auto& call) {
      try {
        call();
      } catch (const error& failure) {
        EXPECT_EQ(failure.code(), errc::damaged) << failure.what();
      }
    };
    ask([&] {
      store s(path_, opening());
      for (unsigned i = 0; i < 1'000; ++i) ask([&] { s.insert("new " + std::to_string(i), std::string(400, 'n')); });
      ask([&] { EXPECT_EQ(s.tags().size(), tags); });
      for (unsigned i = 0; i < keys; i += 3) ask([&] { EXPECT_EQ(s.find(key_of(i)), value_of(i)) << key_of(i); });
      for (unsigned i = 0; i < larges; ++i)
        ask([&] { EXPECT_EQ(s.find("large " + std::to_string(i)), std::string(30'000, 'l')); });
      ask([&] { s.close(); });
    });
  }

  static constexpr unsigned larges = 40;
  std::filesystem::path earlier_ = folder_ / "earlier.ice";
  std::string before_;
  std::string after_;
};

TEST_F(LastingAnchor, of_an_earlier_time_gives_nothing_out_again_and_keeps_nobody_waiting_after_a_kill) {
  const deadline limit("a write to a store with a line of an earlier time in its anchor", std::chrono::seconds(100));
  write_and_be_killed();
  const auto lines = changed_lines();
  ASSERT_GT(lines.size(), 5U);
  for (const std::size_t at : lines) {
    SCOPED_TRACE("the line at byte " + std::to_string(at - anchor_of(after_)) + " of the anchor");
    write_file(path_, with_old(at, format::cache_line_size));
    expect_nothing_hidden();
  }
}

TEST_F(PersistentDamage, a_link_that_passes_a_record_of_its_key_is_reported) {
  {
    store s(path_, opening());
    for (const char* value : {"first", "second", "third", "fourth"}) {
      s.insert("key", value);
      s.tag();
    }
  }
  std::string file = read_file(path_);
  const std::size_t third = file.find("third") - sizeof(format::update_header);
  format::update_header update;
  std::memcpy(static_cast<void*>(&update), file.data() + third, sizeof update);
  ASSERT_NE(update.older, update.entry);
  std::memcpy(file.data() + third + offsetof(format::update_header, older), &update.entry, sizeof update.entry);
  write_file(path_, file);
  options reading = opening();
  reading.access = access::read_only;
  const store s(path_, reading);
  ASSERT_TRUE(s.stats().recovered_instantly);
  EXPECT_EQ(s.find("key"), "fourth");
  EXPECT_EQ(s.find("key", 1), "first");
  expect_error(errc::damaged, "do not lead to older records", [&] { static_cast<void>(s.find("key", 2)); });
}

TEST_F(PersistentDamage, a_head_that_leads_to_another_key_is_reported_by_all_kinds_of_reading) {
  store s(path_, opening());
  for (const char* value : {"first", "second"}) {
    for (const char* key : {"key", "other"}) s.insert(key, value);
    s.tag();
  }
  s.insert("last", "value");  // the writer's pending commit is made
  const detail::store_core& core = s.core();
  auto& one = core.records().at(core.index().find("key")).as_entry();
  auto& other = core.records().at(core.index().find("other")).as_entry();
  ASSERT_EQ(one.head.load(), one.committed_head().load());
  one.committed_head() = other.head.load();
  one.head = other.head.load();
  const auto is_reported = [](const auto& read) {
    expect_error(errc::damaged, "does not lead to a record of its key", read);
  };
  is_reported([&] { static_cast<void>(s.find("key")); });
  is_reported([&] { static_cast<void>(s.find("key", 1)); });
  is_reported([&] { static_cast<void>(s.at(1).items()); });
  is_reported([&] { static_cast<void>(s.at(2).size()); });
  is_reported([&] { static_cast<void>(s.history("key").newest_first()); });
  is_reported([&] {
    for (const difference& each : s.diff(1, 2)) static_cast<void>(each);
  });
  const std::string_view asked[] = {"other", "key"};
  std::optional<std::string_view> found[2];
  const snapshot first = s.at(1);
  is_reported([&] { first.find_many(asked, found); });
  EXPECT_EQ(s.find("other"), "second");
}

TEST_F(PersistentDamage, of_a_head_and_the_newest_record_shows_nothing_older_to_whoever_accepts_it) {
  {
    store s(path_, opening());
    s.insert("key", "older");
    s.insert("key", "newest");
  }
  std::string file = read_file(path_);
  const std::size_t entry = file.find("older") - sizeof(format::entry_header) - format::round_up(3, 8);
  std::memset(file.data() + entry + offsetof(format::entry_header, head), 0, sizeof(link));
  const std::size_t line = file.find("newest") / format::cache_line_size * format::cache_line_size;
  std::memset(file.data() + line, 0, format::cache_line_size);
  write_file(path_, file);
  options accepting = opening();
  accepting.access = access::read_only;
  accepting.accept_damage = true;
  const store s(path_, accepting);
  expect_newest_or_nothing(s, "key", "newest");
}

}  // namespace
}  // namespace icecore::testing
