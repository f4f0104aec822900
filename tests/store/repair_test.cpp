// Repair, and reading in spite of damage: everything intact is there, what is lost is named, and nothing wrong is
// shown.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>

#include "history/record.hpp"
#include "icecore/icecore.hpp"
#include "pool/format.hpp"
#include "support/damaging.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/scratch.hpp"
#include "support/seed.hpp"
#include "support/sound_store.hpp"

namespace icecore::testing {
namespace {

[[nodiscard]] options accepting_damage() {
  options reading;
  reading.access = access::read_only;
  reading.accept_damage = true;
  reading.accept_copy = true;
  return reading;
}

[[nodiscard]] std::string text_of(const repair_report& report) {
  std::string text;
  for (const auto* list : {&report.losses, &report.repaired}) {
    for (const damage& d : *list) {
      text += (list == &report.losses ? "lost " : "repaired ") + d.structure + " at byte " + std::to_string(d.offset) +
              (d.key ? " key " + show(*d.key) : "") + (d.version ? " version " + std::to_string(*d.version) : "") +
              ": " + d.what + "\n";
    }
  }
  for (const auto& u : report.unknown) {
    text += "unknown " + show(u.key) + ": " + std::to_string(u.first) + " to " + std::to_string(u.last) + "\n";
  }
  return text;
}

[[nodiscard]] bool is_unknown(const repair_report& report, const std::string& key, version v) {
  return std::ranges::any_of(report.unknown,
                             [&](const auto& u) { return u.key == key && u.first <= v && v <= u.last; });
}

/// Whether part of a loss, or all of it, cannot be attributed to a key.
[[nodiscard]] bool has_nameless(const repair_report& report) {
  return std::ranges::any_of(report.losses, [](const damage& d) { return !d.key; });
}

/// Judges a repaired store, given what the undamaged one held.
class judge {
 public:
  judge(const store& repaired, const repair_report& report, const model& held)
      : repaired_(repaired), report_(report), held_(held) {}

  void all() const {
    promise(repaired_.clock() >= held_.clock, [] { return std::string("the clock went back"); });
    for (const auto key : repaired_.keys()) {
      promise(held_.records.contains(std::string(key)), [&] { return "a key that never was: " + show(key); });
    }
    for (const auto& [key, history] : held_.records) one_key(key, history);
    tags();
  }

 private:
  void one_key(const std::string& key, const std::vector<model::record>& history) const {
    const auto found = repaired_.history(key).oldest_first();
    if (found.empty() && !history.empty()) {
      const bool named = std::ranges::any_of(report_.unknown, [&](const auto& u) { return u.key == key; }) ||
                         std::ranges::any_of(report_.losses, [&](const damage& d) { return d.key == key; });
      promise(named || has_nameless(report_), [&] { return "the key " + show(key) + " is gone without a word"; });
    }
    for (const auto& [v, value] : found) {
      const bool held = std::ranges::any_of(
          history, [&, v = v, value = value](const auto& r) { return r.version == v && r.value == value; });
      promise(held || (!value && is_unknown(report_, key, v)),
              [&] { return show(key) + " never was " + show_found(value) + " in " + std::to_string(v); });
    }
    for (version v = 0; v < held_.clock; ++v) {
      const auto shown = repaired_.find(key, v);
      if (is_unknown(report_, key, v) || found.empty()) {
        promise(!shown, [&] { return show(key) + " has a value in version " + std::to_string(v); });
      } else {
        promise(shown == held_.find(key, v), [&] {
          return show(key) + " in version " + std::to_string(v) + " is " + show_found(shown) + ", was " +
                 show_found(held_.find(key, v));
        });
      }
    }
    if (!found.empty()) every_record(key, history, found);
  }

  /// Every record of the undamaged store is there or named.
  void every_record(const std::string& key, const std::vector<model::record>& history,
                    const pinned_list<change>& found) const {
    for (const auto& r : history) {
      const bool there =
          std::ranges::any_of(found, [&](const change& c) { return c.version == r.version && c.value == r.value; });
      const bool named = std::ranges::any_of(
          report_.losses, [&](const damage& d) { return d.key == key && (!d.version || *d.version == r.version); });
      // a removal behind a stand-in removal changes nothing
      const bool idle = !r.value && is_unknown(report_, key, r.version - 1);
      // of several lost above the newest intact one only the newest may be named: the others are counted
      const bool counted = has_nameless(report_) && is_unknown(report_, key, r.version);
      promise(there || named || idle || counted, [&] {
        return "a record of " + show(key) + " in version " + std::to_string(r.version) + " is gone without a word";
      });
    }
  }

  void tags() const {
    const auto found = repaired_.tags();
    const auto same = [](const tag_info& a, const tag_info& b) {
      return a.version == b.version && a.name == b.name && a.note == b.note && a.time_ns == b.time_ns;
    };
    for (const tag_info& t : found) {
      promise(std::ranges::any_of(held_.tags, [&](const auto& h) { return same(h, t); }),
              [&] { return "a tag that never was: " + t.name; });
    }
    for (const tag_info& t : held_.tags) {
      promise(std::ranges::any_of(found, [&](const auto& f) { return same(f, t); }) || has_nameless(report_),
              [&] { return "the tag " + t.name + " is gone without a word"; });
    }
  }

  const store& repaired_;
  const repair_report& report_;
  const model& held_;
};

/// Checks that a store opened in spite of its damage gives the truth, an error, or nothing for a key that it has lost.
void read_in_spite_of_damage(const std::filesystem::path& path, const model& held) {
  const store opened(path, accepting_damage());
  const auto keys = opened.keys();
  const std::set<std::string, std::less<>> known(keys.begin(), keys.end());
  for (version v = 0; v < held.clock; ++v) {
    for (const auto& [key, history] : held.records) {
      try {
        const auto found = opened.find(key, v);
        promise(found == held.find(key, v) || (!found && !known.contains(key)), [&] {
          return "find(" + show(key) + ", " + std::to_string(v) + ") gives " + show_found(found) + ", not " +
                 show_found(held.find(key, v));
        });
      } catch (const error& failure) {
        promise(failure.code() == errc::damaged, [&] { return "find fails with " + failure.message(); });
      }
    }
    try {
      const auto wanted = held.items_at(v);
      for (const auto& [key, value] : opened.at(v).range()) {
        const auto there = wanted.find(std::string(key));
        promise(there != wanted.end() && there->second == value, [&] { return "a scan shows " + show(key); });
      }
    } catch (const error& failure) {
      promise(failure.code() == errc::damaged, [&] { return "a scan fails with " + failure.message(); });
    }
  }
}

class Repair : public ::testing::Test {
 protected:
  void SetUp() override {
    fill_small_store(path_, {}, holds_).close();
    sound_ = read_file(path_);
  }

  /// Repairs a file with these bytes, judges the result, and reads the file in spite of its damage.
  repair_report repaired(const std::string& bytes) {
    write_file(path_, bytes);
    std::filesystem::remove(repaired_);
    const repair_report report = repair({.from = path_, .to = repaired_});
    promise(read_file(path_) == bytes, [] { return std::string("the damaged store was changed"); });
    promise(verify_file(repaired_).ok(), [] { return std::string("the repaired store is damaged"); });
    const store opened(repaired_);
    try {
      judge(opened, report, holds_).all();
    } catch (const broken_promise& broken) {
      throw broken_promise(broken.what() + std::string("\n") + text_of(report));
    }
    read_in_spite_of_damage(path_, holds_);
    return report;
  }

  /// The position of a value in the undamaged store.
  [[nodiscard]] std::size_t place_of(std::string_view value) const {
    const std::size_t at = sound_.find(value);
    EXPECT_NE(at, std::string::npos);
    return at;
  }

  scratch folder_;
  std::filesystem::path path_ = folder_ / "damaged.ice";
  std::filesystem::path repaired_ = folder_ / "repaired.ice";
  model holds_;
  std::string sound_;
};

TEST_F(Repair, a_sound_store_repairs_to_an_equal_one) {
  const repair_report report = repaired(sound_);
  EXPECT_TRUE(report.complete());
  EXPECT_TRUE(report.repaired.empty() && report.unknown.empty()) << text_of(report);
  const store opened(repaired_);
  read_everything(opened, holds_);
  EXPECT_EQ(opened.clock(), holds_.clock);
  EXPECT_EQ(report.clock, holds_.clock);
  EXPECT_EQ(report.tags, holds_.tags.size());
  const auto stats = opened.stats();
  EXPECT_EQ(report.records, stats.records);
  EXPECT_EQ(report.keys, stats.keys);
}

TEST_F(Repair, the_index_kind_stays) {
  const auto other = folder_ / "skip_list.ice";
  options with_skip_list;
  with_skip_list.index = index_kind::skip_list;
  store(other, with_skip_list).close();
  static_cast<void>(repair({.from = other, .to = repaired_}));
  EXPECT_EQ(store(repaired_).stats().index, index_kind::skip_list);
}

TEST_F(Repair, what_a_dead_writer_left_repairs_to_what_opening_gives) {
  model holds;
  const auto crashed = folder_ / "crashed.ice";
  {
    const store opened = fill_small_store(folder_ / "open.ice", {}, holds);
    std::filesystem::copy_file(folder_ / "open.ice", crashed);
  }
  const repair_report report = repair({.from = crashed, .to = repaired_});
  EXPECT_TRUE(report.complete()) << text_of(report);
  options copy;
  copy.accept_copy = true;
  const store opened(crashed, copy);
  const store again(repaired_);
  read_everything(opened, holds);
  read_everything(again, holds);
  EXPECT_EQ(again.clock(), opened.clock());
}

TEST_F(Repair, a_place_that_is_taken_is_refused_and_nothing_is_left_of_a_failure) {
  write_file(repaired_, "something");
  expect_error(errc::store_exists, "repaired.ice", [&] { repair({.from = path_, .to = repaired_}); });
  EXPECT_EQ(read_file(repaired_), "something");
  std::filesystem::remove(repaired_);
  expect_error(errc::no_such_store, "nowhere", [&] { repair({.from = folder_ / "nowhere", .to = repaired_}); });
  {
    const store writer(path_);
    expect_error(errc::locked, "process", [&] { repair({.from = path_, .to = repaired_}); });
  }
  write_file(folder_ / "text", std::string(100'000, 't'));
  expect_error(errc::not_a_store, "text", [&] { repair({.from = folder_ / "text", .to = repaired_}); });
  EXPECT_FALSE(std::filesystem::exists(repaired_));
  EXPECT_FALSE(std::filesystem::exists(repaired_.native() + ".repairing"));
}

TEST_F(Repair, damage_is_accepted_for_reading_only) {
  options writing;
  writing.accept_damage = true;
  expect_error(errc::invalid_argument, "repair", [&] { const store s(folder_ / "new.ice", writing); });
  EXPECT_FALSE(std::filesystem::exists(folder_ / "new.ice"));
}

TEST_F(Repair, a_lost_record_in_the_middle_of_a_history_hides_what_is_older_only_in_its_versions) {
  // deep: the 5th of its 12 records, "4"; 4 in each version
  const auto& history = holds_.records.at("deep");
  const store sound(path_, accepting_damage());
  const auto records = sound.history("deep").oldest_first();
  const auto at = static_cast<std::size_t>(records[4].value->data() - records[0].value->data()) + place_of("deep") + 8;
  ASSERT_EQ(sound_.substr(at, 1), "4");
  const repair_report report = repaired(flipped(sound_, at, 1));
  ASSERT_EQ(report.losses.size(), 1U) << text_of(report);
  EXPECT_EQ(report.losses[0].key, "deep");
  EXPECT_EQ(report.losses[0].version, history[4].version);
  EXPECT_EQ(report.losses[0].offset / 64, at / 64);
  EXPECT_TRUE(report.unknown.empty()) << "a later record of its version stands\n" << text_of(report);
}

TEST_F(Repair, a_lost_newest_record_never_lets_an_older_one_be_the_newest) {
  const repair_report report = repaired(flipped(sound_, place_of("batched"), 1));  // key-1: "vvvvv", then this
  ASSERT_EQ(report.losses.size(), 1U) << text_of(report);
  EXPECT_EQ(report.losses[0].key, "key-1");
  EXPECT_EQ(report.losses[0].version, holds_.records.at("key-1").back().version);
  ASSERT_EQ(report.unknown.size(), 1U) << text_of(report);
  EXPECT_EQ(report.unknown[0].first, holds_.records.at("key-1").back().version);
  EXPECT_EQ(report.unknown[0].last, holds_.clock);
  const store opened(path_, accepting_damage());
  expect_error(errc::damaged, "key-1", [&] { static_cast<void>(opened.find("key-1")); });
  expect_error(errc::damaged, "key-1", [&] { static_cast<void>(opened.contains("key-1")); });
  expect_error(errc::damaged, "key-1", [&] { static_cast<void>(opened.history("key-1").newest_first()); });
  expect_error(errc::damaged, "key-1", [&] { static_cast<void>(opened.latest().extract(2)); });
  expect_error(errc::damaged, "key-1", [&] { static_cast<void>(opened.latest().size()); });
  EXPECT_EQ(opened.find("key-1", 1), std::string(5, 'v'));
  EXPECT_EQ(opened.find("deep"), "11");
  EXPECT_FALSE(opened.verify().ok());
}

TEST_F(Repair, a_record_that_was_zeroed_as_a_whole_is_missed_at_its_place) {
  // 56 bytes, a gap behind each, and 64: exactly as many zeros as may lie between two records
  for (const std::string value : {"8 bytes!", "16 bytes, a line"}) {
    const auto lines = folder_ / (std::to_string(value.size()) + ".ice");
    {
      store s(lines);
      for (int i = 10; i < 20; ++i) s.insert("key " + std::to_string(i) + "..", value);
      s.close();
    }
    std::string bytes = read_file(lines);
    const std::size_t line = bytes.find("key 15..") / 64 * 64;
    write_file(lines, bytes.replace(line, 64, 64, '\0'));
    std::filesystem::remove(repaired_);
    const repair_report report = repair({.from = lines, .to = repaired_});
    ASSERT_EQ(report.losses.size(), 1U) << text_of(report);
    EXPECT_GE(report.losses[0].offset + 8, line);
    EXPECT_LE(report.losses[0].offset, line);
    EXPECT_EQ(report.records, 9U);
  }
}

// The heads lead behind the gap: to intact records that are newer than everything read before it.
TEST(DamagedTail, nothing_older_is_shown_for_what_lies_behind_a_gap_in_what_a_killed_writer_left) {
  constexpr int keys = 20;
  const scratch folder;
  const auto path = folder / "killed.ice";
  options opening;
  opening.durability = durability::tag;
  opening.emulate_durability = true;
  const auto key = [](int i) { return "key " + std::to_string(i); };
  const auto newest = [](int i) { return "newest of " + std::to_string(1000 + i) + std::string(150, 'n'); };
  {
    store s(path, opening);
    for (int i = 0; i < keys; ++i) s.insert(key(i), "older");
  }
  std::string image;
  {
    store s(path, opening);
    s.tag();
    for (int i = 0; i < keys; ++i) s.insert(key(i), newest(i));
    s.tag("certified");
    image = read_file(path);
  }
  const std::size_t value = image.find(newest(7));
  ASSERT_NE(value, std::string::npos);
  const std::size_t line = value / 64 * 64;
  image.replace(line - 64, 256, std::string(256, '\0'));  // and the end of the record before it
  write_file(path, image);
  const auto found_in = [&](const store& s, int i) {
    try {
      return std::string(s.find(key(i)).value_or("nothing"));
    } catch (const error& failure) {
      EXPECT_EQ(failure.code(), errc::damaged) << failure.what();
      return std::string("nothing");
    }
  };
  int shown = 0;
  const auto expect_no_older = [&](const store& s) {
    for (int i = 0; i < keys; ++i) {
      const std::string found = found_in(s, i);
      shown += found == newest(i) ? 1 : 0;
      EXPECT_TRUE(found == newest(i) || found == "nothing") << key(i) << " shows " << found;
    }
  };
  expect_no_older(store(path, accepting_damage()));
  const auto repaired = folder / "repaired.ice";
  const repair_report report = repair({.from = path, .to = repaired});
  EXPECT_FALSE(report.complete());
  expect_no_older(store(repaired));
  EXPECT_GE(shown, 10) << "what lies before the gap is intact";
}

TEST_F(Repair, a_lost_entry_is_named_by_its_place_with_all_that_hung_from_it) {
  const std::size_t at = place_of("deep");
  const repair_report report = repaired(flipped(sound_, at, 1));
  EXPECT_EQ(store(repaired_).find("deep"), std::nullopt);
  EXPECT_EQ(report.losses.size(), holds_.records.at("deep").size()) << text_of(report);
  EXPECT_EQ(report.losses[0].structure, "entry");
  EXPECT_LE(report.losses[0].offset, at);
  EXPECT_GT(report.losses[0].offset + 64, at);
}

TEST_F(Repair, a_lost_large_value_is_named_and_its_versions_are_unknown) {
  const repair_report report = repaired(flipped(sound_, place_of(std::string(5'000, 'L')) + 2'500, 0));
  ASSERT_EQ(report.losses.size(), 1U) << text_of(report);
  EXPECT_EQ(report.losses[0].key, "large");
  EXPECT_EQ(report.losses[0].version, holds_.records.at("large")[0].version);
  ASSERT_EQ(report.unknown.size(), 1U);
}

TEST_F(Repair, a_damaged_segment_header_costs_nothing) {
  for (const std::size_t at : {65'536U, 65'540U, 65'544U, 65'548U}) {
    const repair_report report = repaired(flipped(sound_, at, 1));
    EXPECT_TRUE(report.complete()) << text_of(report);
    EXPECT_EQ(report.repaired.size(), 1U) << text_of(report);
    read_everything(store(repaired_), holds_);
  }
  const repair_report report = repaired(std::string(sound_).replace(65'536, 64, 64, '\0'));
  EXPECT_TRUE(report.complete()) << text_of(report);
}

TEST_F(Repair, a_damaged_root_page_costs_nothing) {
  for (const std::size_t at : {8U, 4104U}) {
    const repair_report report = repaired(flipped(sound_, at, 1));
    EXPECT_TRUE(report.complete()) << text_of(report);
    EXPECT_FALSE(report.repaired.empty());
    read_everything(store(repaired_), holds_);
  }
}

TEST_F(Repair, a_damaged_newest_root_page_is_named_even_where_the_older_one_reports_a_longer_file) {
  unsigned refused = 0;
  for (const std::size_t at : {8U, 4104U}) {
    write_file(path_, flipped(sound_, at, 1));
    try {
      store(path_).close();
    } catch (const error& failure) {
      EXPECT_EQ(failure.code(), errc::damaged) << failure.message();
      EXPECT_NE(failure.message().find("root page at byte " + std::to_string(at / 4096 * 4096)), std::string::npos)
          << failure.message();
      ++refused;
    }
  }
  EXPECT_EQ(refused, 1U) << "the newest one";
}

TEST_F(Repair, without_both_root_pages_the_records_tell_the_seed) {
  for (const char filled_with : {'\0', 'x'}) {
    const repair_report report = repaired(std::string(sound_).replace(0, 8192, 8192, filled_with));
    EXPECT_FALSE(report.complete());
    EXPECT_TRUE(report.unknown.empty()) << text_of(report);
    read_everything(store(repaired_), holds_);
  }
}

TEST_F(Repair, a_file_that_was_cut_short_keeps_what_is_left) {
  for (const std::size_t size : {70'000U, 72'000U, 66'000U}) {
    const repair_report report = repaired(sound_.substr(0, size));
    EXPECT_FALSE(report.complete());
  }
}

// ---- Random damage of random stores ----

class random_damage {
 public:
  explicit random_damage(std::uint64_t seed) : random_(seed) {}

  /// A store of a few versions with something of every kind, closed.
  void fill(const std::filesystem::path& path, model& holds) {
    options writing;
    writing.index = below(2) == 0 ? index_kind::btree : index_kind::skip_list;
    store s(path, writing);
    const unsigned operations = 20 + below(150);
    for (unsigned i = 0; i < operations; ++i) operate(s, holds, i);
    s.close();
  }

  [[nodiscard]] std::string damaged(std::string bytes, std::string& what) {
    const std::size_t used = bytes.find_last_not_of('\0') + 1;
    const auto zero = [&](std::size_t size) {
      const std::size_t at = (below(8) == 0 ? 0 : 65'536) + below(static_cast<unsigned>(used)) % (used - 65'536);
      const std::size_t from = at / size * size;
      what = std::to_string(size) + " zeros at " + std::to_string(from);
      for (std::size_t i = from; i < std::min(from + size, bytes.size()); ++i) bytes[i] = '\0';
    };
    switch (below(7)) {
      case 0:
        zero(64);
        break;
      case 1:
        zero(512);
        break;
      case 2:
        zero(4096);
        break;
      case 3: {
        const std::size_t at = 65'536 + below(static_cast<unsigned>(used - 65'536) / 64 - 1) * 64;
        what = "lines exchanged at " + std::to_string(at);
        for (std::size_t i = at; i < at + 64; ++i) std::swap(bytes[i], bytes[i + 64]);
        break;
      }
      case 4: {
        const std::size_t size = 65'536 + below(static_cast<unsigned>(used - 65'536));
        what = "cut to " + std::to_string(size);
        bytes.resize(size);
        break;
      }
      default: {
        const std::size_t at = below(8) == 0 ? below(65'536) : 65'536 + below(static_cast<unsigned>(used - 65'536));
        what = "a bit flipped at " + std::to_string(at);
        bytes = flipped(std::move(bytes), at, below(8));
      }
    }
    return bytes;
  }

 private:
  [[nodiscard]] unsigned below(unsigned n) { return std::uniform_int_distribution<unsigned>(0, n - 1)(random_); }

  [[nodiscard]] std::string value(unsigned i) {
    const unsigned sort = below(12);
    const std::size_t size = sort == 0 ? 4096 + below(9000) : sort == 1 ? 70'000 * below(2) : below(60);
    return std::to_string(i) + std::string(size, static_cast<char>('a' + below(26)));
  }

  void operate(store& s, model& holds, unsigned i) {
    const std::string key = "key " + std::to_string(below(12));
    switch (below(8)) {
      case 0:
        s.tag();
        holds.close_version();
        break;
      case 1:
        s.tag({.name = "tag " + std::to_string(i), .note = "note", .time_ns = i});
        holds.tags.push_back({holds.close_version(), i, "tag " + std::to_string(i), "note"});
        break;
      case 2:
        s.remove(key);
        holds.remove(key);
        break;
      case 3: {
        batch some;
        for (unsigned n = below(4); n-- > 0;) some.insert("key " + std::to_string(below(14)), value(i));
        some.remove(key);
        s.apply(some);
        holds.apply(some);
        break;
      }
      default: {
        const std::string v = value(i);
        s.insert(key, v);
        holds.insert(key, v);
      }
    }
  }

  std::mt19937_64 random_;
};

class RandomDamage : public Repair {
 protected:
  /// Makes `stores` stores and damages each of them several times.
  void run(std::uint64_t seed, unsigned stores, unsigned damages_of_each) {
    std::vector<std::size_t> places(stores);
    for (std::size_t i = 0; i < stores; ++i) places[i] = i;
    for_each_place(places, [&](std::size_t i) { one_store(seed + i, damages_of_each); });
  }

  void one_store(std::uint64_t seed, unsigned damages) {
    random_damage random(seed);
    holds_ = {};
    std::filesystem::remove(path_);
    random.fill(path_, holds_);
    sound_ = read_file(path_);
    for (unsigned n = 0; n < damages; ++n) {
      std::string what;
      const std::string bad = random.damaged(sound_, what);
      try {
        static_cast<void>(repaired(bad));
      } catch (const error& failure) {
        promise(is_said_clearly(failure), [&] { return what + ": repair fails with " + failure.message(); });
      } catch (const broken_promise& broken) {
        throw broken_promise(what + " (ICECORE_TEST_SEED=" + std::to_string(seed) + "): " + broken.what());
      }
    }
  }
};

// a header and a batch were lost, with zeros between what is intact
TEST_F(RandomDamage, that_once_hid_a_newest_record_without_a_word) { one_store(10'058, 20); }

#ifdef ICECORE_LONG_TESTS
TEST_F(RandomDamage, repairs_to_what_was_there_and_names_the_rest) { run(test_seed(), 4000, 50); }
#else
TEST_F(RandomDamage, repairs_to_what_was_there_and_names_the_rest) { run(test_seed(), 60, 20); }
#endif

}  // namespace
}  // namespace icecore::testing
