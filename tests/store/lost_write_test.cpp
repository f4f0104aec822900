// Writes that the device lost or damaged, after a kill: the store shows everything acknowledged, or says what is
// missing. What the page cache had when the writer was killed is taken for the content of the device.
#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <cstring>
#include <string>

#include "icecore/icecore.hpp"
#include "pool/format.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/process.hpp"
#include "support/roots.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

std::string key(int i) { return "key " + std::to_string(i); }
std::string newest_value(int i) { return "newest of " + std::to_string(i); }

/// The position of the root page that counts, or of the other one.
std::uint64_t root_page(const std::string& file, bool newest) {
  const auto sequence_at = [&](std::uint64_t offset) {
    format::root root;
    std::memcpy(&root, file.data() + offset, sizeof root);
    return root.sequence;
  };
  const bool a_is_newer = sequence_at(format::root_a_offset) > sequence_at(format::root_b_offset);
  return a_is_newer == newest ? format::root_a_offset : format::root_b_offset;
}

/// What a writer of the store leaves if it is killed after `write`.
template <class Write>
std::string image_of_killed(const std::filesystem::path& path, const options& how, const Write& write) {
  child writer([&] {
    store s(path, how);
    write(s);
    return raise(SIGKILL);
  });
  EXPECT_EQ(writer.wait(), -SIGKILL);
  return read_file(path);
}

options reading() {
  options o;
  o.access = access::read_only;
  return o;
}

// ---- Root pages ----

struct lost_root {
  durability mode;
  index_kind index;
  int files = 1;
};

class LostRoot : public ::testing::TestWithParam<lost_root> {
 protected:
  static constexpr int keys = 9000;  // so many that the file grows twice

  [[nodiscard]] options how() const {
    options o;
    o.durability = GetParam().mode;
    o.index = GetParam().index;
    o.emulate_durability = true;
    if (GetParam().files > 1) o.placements = {{paths_[1], -1}};
    return o;
  }

  /// Runs `write` in a writer that is killed afterwards. Returns what it left.
  template <class Write>
  [[nodiscard]] std::string killed_after(const Write& write) const {
    store(path_, how()).insert("first", "1");
    return image_of_killed(path_, how(), write);
  }

  void expect_all(const store& s) const {
    int found = 0;
    for (int i = 0; i < keys; ++i) found += s.find(key(i)) == newest_value(i) ? 1 : 0;
    EXPECT_EQ(found, keys);
    EXPECT_EQ(s.find("first"), "1");
    EXPECT_TRUE(s.verify().ok());
  }

  const scratch folder_;
  const std::array<std::filesystem::path, 2> paths_{folder_ / "store.ice", folder_ / "secondary.ice"};
  const std::filesystem::path& path_ = paths_[0];
};

TEST_P(LostRoot, one_root_page_costs_nothing_after_a_kill) {
  static_cast<void>(killed_after([](store& s) {
    for (int i = 0; i < keys; ++i) s.insert(key(i), newest_value(i));
  }));
  std::array<std::string, 2> images;
  const auto files = static_cast<std::size_t>(GetParam().files);
  for (std::size_t i = 0; i < files; ++i) images[i] = read_file(paths_[i]);
  for (std::size_t spoilt = 0; spoilt < files; ++spoilt) {
    const std::uint64_t page = root_page(images[spoilt], true);
    std::string flipped = images[spoilt];
    flipped[page + 1000] ^= 1;
    std::string zeroed = images[spoilt];
    zeroed.replace(page, format::page_size, format::page_size, '\0');
    std::string foreign = images[spoilt];
    foreign.replace(page, format::page_size, format::page_size, 'x');
    for (const std::string& damaged : {flipped, zeroed, foreign}) {
      for (std::size_t i = 0; i < files; ++i) write_file(paths_[i], i == spoilt ? damaged : images[i]);
      expect_all(store(path_, reading()));
      EXPECT_TRUE(read_file(paths_[spoilt]) == damaged) << "a reader changes nothing";
      {
        store s(path_, how());
        expect_all(s);
        s.insert("later", "x");
      }
      expect_all(store(path_, reading()));
    }
  }
}

TEST_P(LostRoot, a_session_whose_newest_root_was_not_written_costs_nothing_after_a_kill) {
  store(path_, how()).insert("first", "1");
  const std::string before = read_file(path_);
  const std::string image = killed_after([](store& s) { s.insert("second", "2"); });
  // the page has its content from before the newest root was written to it
  std::string stale = image;
  const std::uint64_t page = root_page(image, true);
  stale.replace(page, format::page_size, before, page, format::page_size);
  write_file(path_, stale);
  store s(path_, how());
  EXPECT_EQ(s.find("first"), "1");
  EXPECT_EQ(s.find("second"), "2");
  EXPECT_TRUE(s.verify().ok());
}

TEST_P(LostRoot, no_version_comes_twice_when_the_root_that_moved_the_limit_is_lost) {
  constexpr version far = 100'000'000;
  std::string image = killed_after([](store& s) {
    s.skip_to(far);
    s.insert("second", "2");
  });
  image[root_page(image, true) + 1000] ^= 1;
  write_file(path_, image);
  const store s(path_, how());
  EXPECT_GE(s.clock(), far);
}

TEST_P(LostRoot, a_file_that_is_longer_than_its_root_tells_is_not_cut_off) {
  constexpr version far = 2'000'000'000;  // no write is in this version
  const std::string image = killed_after([](store& s) {
    for (int i = 0; i < keys; ++i) s.insert(key(i), newest_value(i));
    s.skip_to(far);
  });
  const std::string stale = with_roots_changed(image, [](format::root& r) { r.file_size = std::uint64_t{1} << 18; });
  write_file(path_, stale);
  for (const options& o : {reading(), how()}) {
    expect_error(errc::damaged, "the newest root is lost", [&] { const store s(path_, o); });
    EXPECT_TRUE(read_file(path_) == stale);
  }
  options copying = how();
  copying.copy_of = path_;
  copying.accept_copy = true;
  copying.placements.clear();
  expect_error(errc::damaged, "the newest root is lost", [&] { const store s(folder_ / "copy.ice", copying); });
  EXPECT_FALSE(std::filesystem::exists(folder_ / "copy.ice"));
  EXPECT_FALSE(verify_file(path_).ok());
  options accepting = reading();
  accepting.accept_damage = true;
  {
    const store s(path_, accepting);
    for (int i = 0; i < keys; ++i) ASSERT_EQ(s.find(key(i)), newest_value(i));
    EXPECT_GE(s.clock(), far);
  }
  repair_options repairing;
  repairing.from = path_;
  repairing.to = folder_ / "repaired.ice";
  const repair_report report = repair(repairing);
  EXPECT_FALSE(report.complete()) << "nothing tells that this is all";
  const store s(repairing.to, reading());
  expect_all(s);
}

INSTANTIATE_TEST_SUITE_P(EveryKind, LostRoot,
                         ::testing::Values(lost_root{durability::none, index_kind::btree},
                                           lost_root{durability::tag, index_kind::skip_list},
                                           lost_root{durability::operation, index_kind::btree},
                                           lost_root{durability::operation, index_kind::persistent},
                                           lost_root{durability::tag, index_kind::btree, 2}));

// ---- Records ----

struct hole {
  durability mode;
  index_kind index;
  std::uint64_t size;
};

class Hole : public ::testing::TestWithParam<hole> {};

TEST_P(Hole, of_zeros_among_records_of_a_killed_writer_is_damage) {
  constexpr int keys = 1500;
  const scratch folder;
  const auto path = folder / "store.ice";
  options how;
  how.durability = GetParam().mode;
  how.index = GetParam().index;
  how.emulate_durability = true;
  {
    store s(path, how);
    for (int i = 0; i < keys; i += 2) s.insert(key(i), "older");
    s.tag("older");
  }
  std::string image = image_of_killed(path, how, [](store& s) {
    for (int i = 0; i < keys; ++i) s.insert(key(i), newest_value(i));
  });
  const std::size_t hit = image.find(newest_value(keys / 3)) / GetParam().size * GetParam().size;
  image.replace(hit, GetParam().size, GetParam().size, '\0');
  write_file(path, image);

  EXPECT_FALSE(verify_file(path).ok());
  EXPECT_THROW(store(path, reading()), error);
  options accepting = reading();
  accepting.accept_damage = true;
  const auto read_all = [&](const store& s) {
    int right = 0;
    for (int i = 0; i < keys; ++i) {
      try {
        const auto found = s.find(key(i));
        if (!found) continue;  // its entry is lost
        EXPECT_EQ(found, newest_value(i)) << "an older value";
        ++right;
      } catch (const error& e) {
        EXPECT_EQ(e.code(), errc::damaged) << e.message();
      }
    }
    return right;
  };
  const int lost_at_most = 1 + static_cast<int>(GetParam().size) / 40;
  EXPECT_GE(read_all(store(path, accepting)), keys - 2 * lost_at_most);
  try {  // without the persistent index opening refuses it; with it, the call that meets the damage does
    const store s(path, how);
    EXPECT_EQ(GetParam().index, index_kind::persistent);
    read_all(s);
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::damaged) << e.message();
  }
}

std::vector<hole> holes() {
  std::vector<hole> all;
  for (const std::uint64_t size : {64U, 512U, 4096U, 16384U}) {
    for (const durability mode : {durability::none, durability::tag, durability::operation}) {
      all.push_back({mode, index_kind::btree, size});
      all.push_back({mode, index_kind::persistent, size});
    }
    all.push_back({durability::operation, index_kind::skip_list, size});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(EverySize, Hole, ::testing::ValuesIn(holes()));

// ---- The end of what a killed writer left ----

class LostEnd : public ::testing::TestWithParam<index_kind> {
 protected:
  [[nodiscard]] options how() const {
    options o;
    o.durability = durability::operation;
    o.emulate_durability = true;
    o.index = GetParam();
    return o;
  }
  /// What a writer leaves if it is killed after `write`.
  template <class Write>
  [[nodiscard]] std::string killed_after(const Write& write) const {
    return image_of_killed(path_, how(), write);
  }
  /// The same after a power cut. Under operation durability everything acknowledged counts then too.
  [[nodiscard]] static std::string in_another_boot(std::string image) {
    return with_roots_changed(image, [](format::root& r) { std::memset(r.boot_id, 7, sizeof r.boot_id); });
  }
  /// Expects that an opening with accepted damage shows no older value than the newest.
  void expect_newest_or_nothing(int keys) const {
    options accepting = reading();
    accepting.accept_damage = true;
    const store s(path_, accepting);
    for (int i = 0; i < keys; ++i) testing::expect_newest_or_nothing(s, key(i), newest_value(i));
  }

  const scratch folder_;
  const std::filesystem::path path_ = folder_ / "store.ice";
};

TEST_P(LostEnd, with_some_records_of_a_batch_is_damage_and_no_part_of_the_batch_is_shown) {
  constexpr int keys = 8;
  std::string image = killed_after([](store& s) {
    for (int i = 0; i < keys; ++i) s.insert(key(i), "older");
    batch together;
    for (int i = 0; i < keys; ++i) together.insert(key(i), newest_value(i));
    s.apply(together);
  });
  // one line of the last record, and everything behind it
  const std::size_t from = image.find(newest_value(keys - 1)) / format::cache_line_size * format::cache_line_size;
  const std::size_t end = (from / format::granule_size + 1) * format::granule_size;
  image.replace(from, end - from, end - from, '\0');
  write_file(path_, image);
  EXPECT_FALSE(verify_file(path_).ok());
  expect_error(errc::damaged, "of a batch are missing", [&] { const store s(path_, reading()); });
  expect_error(errc::damaged, "of a batch are missing", [&] { const store s(path_, how()); });
  expect_newest_or_nothing(keys);
}

TEST_P(LostEnd, shows_nothing_older_where_certified_records_before_it_are_lost_too) {
  constexpr int keys = 40;
  {
    store s(path_, how());
    for (int i = 0; i < keys; ++i) s.insert(key(i), "older");
    for (int i = 0; i < keys; ++i) s.insert("of the first session " + key(i), "x");
  }
  std::string image = killed_after([](store& s) {
    for (int i = 0; i < keys; ++i) s.insert(key(i), newest_value(i));
  });
  const std::size_t from = image.find("of the first session " + key(keys - 1));
  const std::size_t end = (from / format::granule_size + 1) * format::granule_size;
  image.replace(from, end - from, end - from, '\0');
  for (const std::string& file : {image, in_another_boot(image)}) {
    write_file(path_, file);
    expect_error(errc::damaged, "", [&] { const store s(path_, reading()); });
    expect_newest_or_nothing(keys);
  }
}

TEST_P(LostEnd, shows_nothing_older_to_whoever_accepts_damage) {
  constexpr int keys = 40;
  std::string image = killed_after([](store& s) {
    for (int i = 0; i < keys; ++i) s.insert(key(i), "older");
    for (int i = 0; i < keys; ++i) s.insert(key(i), newest_value(i));
    s.insert("one more", "x");  // with the persistent index, a write advances the committed head of the one before
  });
  const std::size_t from = image.find(newest_value(keys / 2)) / format::cache_line_size * format::cache_line_size;
  const std::size_t end = (from / format::granule_size + 1) * format::granule_size;
  image.replace(from, end - from, end - from, '\0');
  image[image.find(newest_value(0))] ^= 1;  // on its own, the lost end looks like writes that the crash interrupted
  for (const std::string& file : {image, in_another_boot(image)}) {
    write_file(path_, file);
    expect_newest_or_nothing(keys);
  }
}

TEST_P(LostEnd, with_a_lost_header_shows_nothing_older_to_whoever_accepts_damage) {
  constexpr int keys = 40;
  std::string image = killed_after([](store& s) {
    for (int i = 0; i < keys; ++i) s.insert(key(i), "older");
    for (int i = 0; i < keys; ++i) s.insert(key(i), newest_value(i));
  });
  const std::size_t segment = image.find(key(0)) / format::granule_size * format::granule_size;
  image.replace(segment, sizeof(format::segment_header), sizeof(format::segment_header), 'x');
  const std::size_t from = image.find(newest_value(keys / 2)) / format::cache_line_size * format::cache_line_size;
  image.replace(from, format::page_size, format::page_size, 'x');
  write_file(path_, image);
  expect_newest_or_nothing(keys);
}

TEST_P(LostEnd, with_a_large_value_is_damage_where_memory_survived) {
  const std::string large(format::large_value_size, 'v');
  std::string image = killed_after([&](store& s) {
    s.insert(key(0), "older");
    s.insert(key(0), large);
  });
  image[image.find(large) + large.size() / 2] ^= 1;
  write_file(path_, image);
  EXPECT_FALSE(verify_file(path_).ok());
  expect_error(errc::damaged, "", [&] { EXPECT_EQ(store(path_, reading()).find(key(0)), large); });
  options accepting = reading();
  accepting.accept_damage = true;
  const store s(path_, accepting);
  testing::expect_newest_or_nothing(s, key(0), large);
}

TEST_P(LostEnd, of_a_large_value_with_a_record_behind_it_is_damage_though_the_zeros_look_like_padding) {
  // The value ends 8 bytes behind the beginning of a line. The tag fits in the rest of that line, but the record behind
  // it does not: that one begins on the next line whether the tag is there or not.
  const std::string large(format::large_value_size + 8, 'v');
  {
    store s(path_, how());
    s.insert("large", large);
  }
  std::string image = killed_after([&](store& s) {
    s.tag({.name = "a tag", .note = ""});
    s.insert("of 64 by", std::string(16, 'x'));
  });
  const std::size_t line = image.find(large) + format::large_value_size;
  ASSERT_LT(image.find("a tag"), line + format::cache_line_size);
  image.replace(line, format::cache_line_size, format::cache_line_size, '\0');
  write_file(path_, image);
  EXPECT_FALSE(verify_file(path_).ok());
  expect_error(errc::damaged, "may be missing here", [&] { EXPECT_EQ(store(path_, reading()).tags().size(), 1U); });
}

TEST_P(LostEnd, before_a_record_is_damage_where_exactly_one_line_of_one_record_is_lost) {
  std::string image = killed_after([](store& s) {
    for (int i = 10; i < 20; ++i) s.insert("of 64 " + std::to_string(i), std::string(16, 'x'));  // one line each
  });
  const std::size_t line = image.find("of 64 17") / format::cache_line_size * format::cache_line_size;
  image.replace(line, format::cache_line_size, format::cache_line_size, '\0');
  write_file(path_, image);
  expect_error(errc::damaged, "missing", [&] { const store s(path_, reading()); });
  expect_error(errc::damaged, "missing", [&] { const store s(path_, how()); });
}

TEST_P(LostEnd, with_a_large_value_shows_nothing_older_where_more_is_lost) {
  const std::string large(format::large_value_size, 'v');
  std::string image = killed_after([&](store& s) {
    s.insert(key(0), "older");
    s.insert(key(1), "before it");
    s.insert(key(0), large);
  });
  image[image.find(large) + large.size() / 2] ^= 1;
  image[image.find("before it")] ^= 1;
  for (const std::string& file : {image, in_another_boot(image)}) {
    write_file(path_, file);
    options accepting = reading();
    accepting.accept_damage = true;
    const store s(path_, accepting);
    testing::expect_newest_or_nothing(s, key(0), large);
  }
}

TEST_P(LostEnd, with_the_record_of_a_batch_is_damage_where_a_reader_stamped_its_last_record) {
  constexpr int keys = 2;
  std::string image = killed_after([](store& s) {
    for (int i = 0; i < keys; ++i) s.insert(key(i), "older");
    batch together;
    for (int i = 0; i < keys; ++i) together.insert(key(i), newest_value(i));
    s.apply(together);
    for (int i = 0; i < keys; ++i) static_cast<void>(s.find(key(i)));
  });
  std::size_t at = image.find(newest_value(0)) / format::cache_line_size * format::cache_line_size;
  while (image[at] != static_cast<char>(format::record_kind::batch)) at -= sizeof(link);
  image[at + format::stamp_offset] ^= 1;
  write_file(path_, image);
  EXPECT_FALSE(verify_file(path_).ok());
  expect_newest_or_nothing(keys);
}

TEST_P(LostEnd, with_the_record_of_a_batch_is_no_damage_after_a_power_cut_though_a_reader_stamped_its_others) {
  std::string image = killed_after([](store& s) {
    s.insert(key(0), "older");
    batch one;
    one.insert(key(0), newest_value(0));
    s.apply(one);
  });
  const std::size_t value = image.find(newest_value(0));
  // the reader has stamped it, but has not yet seen that it is durable (H5)
  auto& update =
      *reinterpret_cast<format::update_header*>(&image[value - sizeof(link) - sizeof(format::update_header)]);
  ASSERT_TRUE(update.record.stamp.fetch_and(~format::stamp_persisted));
  std::size_t at = value / sizeof(link) * sizeof(link);
  while (image[at] != static_cast<char>(format::record_kind::batch)) at -= sizeof(link);
  image.replace(at, sizeof(format::batch_header), sizeof(format::batch_header), '\0');
  write_file(path_, in_another_boot(image));
  options opening = how();
  opening.check_values = true;  // reads everything, whatever the index
  EXPECT_EQ(store(path_, opening).find(key(0)), "older");
}

TEST_P(LostEnd, with_the_record_of_a_batch_is_damage_after_a_power_cut_where_its_last_record_is_marked_as_persisted) {
  std::string image = killed_after([](store& s) {
    s.insert(key(0), "older");
    batch one;
    one.insert(key(0), newest_value(0));
    s.apply(one);
    static_cast<void>(s.find(key(0)));
  });
  std::size_t at = image.find(newest_value(0)) / sizeof(link) * sizeof(link);
  while (image[at] != static_cast<char>(format::record_kind::batch)) at -= sizeof(link);
  image.replace(at, sizeof(format::batch_header), sizeof(format::batch_header), '\0');
  write_file(path_, in_another_boot(image));
  EXPECT_FALSE(verify_file(path_).ok());
  expect_newest_or_nothing(1);
}

TEST_P(LostEnd, hides_no_other_record_that_was_lost_with_that_of_a_batch) {
  constexpr int keys = 3;
  std::string image = killed_after([](store& s) {
    for (int i = 0; i < keys; ++i) s.insert(key(i), "older");
    s.insert("one more", "x");
    batch together;
    for (int i = 0; i < keys; ++i) together.insert(key(i), newest_value(i));
    s.apply(together);
    s.insert("behind it", "x");
  });
  const std::size_t from = image.find("one more") / format::cache_line_size * format::cache_line_size;
  std::size_t batch_at = image.find(newest_value(0)) / sizeof(link) * sizeof(link);
  while (image[batch_at] != static_cast<char>(format::record_kind::batch)) batch_at -= sizeof(link);
  const std::size_t size = batch_at + sizeof(format::batch_header) - from;
  image.replace(from, size, size, '\0');
  write_file(path_, image);
  repair_options o;
  o.from = path_;
  o.to = folder_ / "repaired.ice";
  EXPECT_FALSE(repair(o).complete());
  expect_newest_or_nothing(keys);
}

TEST_P(LostEnd, with_part_of_a_page_is_a_loss_that_repair_tells) {
  std::string image = killed_after([](store& s) {
    for (int i = 0; i < 100; ++i) s.insert(key(i), newest_value(i));
  });
  image.resize(image.find(newest_value(99)) / format::page_size * format::page_size + format::page_size - 1);
  write_file(path_, image);
  repair_options o;
  o.from = path_;
  o.to = folder_ / "repaired.ice";
  const repair_report report = repair(o);
  const store repaired(o.to, reading());
  for (int i = 0; i < 100 && report.complete(); ++i) EXPECT_EQ(repaired.find(key(i)), newest_value(i));
}

INSTANTIATE_TEST_SUITE_P(EveryKind, LostEnd,
                         ::testing::Values(index_kind::btree, index_kind::skip_list, index_kind::persistent));

}  // namespace
}  // namespace icecore::testing
