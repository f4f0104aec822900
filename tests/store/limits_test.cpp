// Every limit of keys, values, tags and versions, and sizes around the format's own boundaries.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <vector>

#include "base/memory/sanitizer.hpp"
#include "history/clock.hpp"
#include "icecore/icecore.hpp"
#include "pool/format.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

class Limits : public ::testing::Test {
 protected:
  scratch folder_;
  store store_{folder_ / "limits.ice"};

  void reopen() {
    const auto path = store_.path();
    store_.close();
    store_ = store(path);
  }
};

std::string pattern(std::size_t size, unsigned seed) {
  std::string bytes(size, '\0');
  std::uint64_t state = seed + 1;
  for (char& c : bytes) {
    state = state * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
    c = static_cast<char>(state >> 56);
  }
  return bytes;
}

TEST_F(Limits, the_longest_key_is_kept_and_a_longer_one_is_refused) {
  const std::string longest = pattern(key_size_max, 1);
  store_.insert(longest, "value");
  EXPECT_EQ(store_.find(longest), "value");
  const std::string longer = longest + "x";
  expect_error(errc::key_too_long, "65536", [&] { store_.insert(longer, "value"); });
  expect_error(errc::key_too_long, "65536", [&] { store_.remove(longer); });
  batch some;
  expect_error(errc::key_too_long, "65536", [&] { some.insert(longer, "value"); });
  expect_error(errc::key_too_long, "65536", [&] { some.remove(longer); });
  EXPECT_TRUE(some.empty());
  EXPECT_EQ(store_.find(longer), std::nullopt);
  EXPECT_FALSE(store_.contains(longer));
  EXPECT_EQ(store_.stats().records, 1U) << "a refused write has happened";
  reopen();
  EXPECT_EQ(store_.find(longest), "value");
}

#if !defined(ICECORE_UNDER_THREAD_SANITIZER) && !defined(ICECORE_UNDER_ADDRESS_SANITIZER)  // they take terabytes
TEST(LittleAddressSpace, has_room_for_several_stores) {
  const scratch folder;
  child limited([&] {
    constexpr rlim_t gibibyte = rlim_t{1} << 30;
    rlim_t pages = 0;  // of this process, whatever ran in it before
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t most = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + gibibyte;
    const rlimit limit{most, most};
    if (setrlimit(RLIMIT_AS, &limit) != 0) return 1;
    try {
      std::vector<store> all;
      for (int i = 0; i < 3; ++i) all.emplace_back(folder / ("limited-" + std::to_string(i)));
      for (store& s : all) {
        for (int i = 0; i < 1000; ++i) s.insert(std::to_string(i), pattern(1000, 7));
      }
      return std::ranges::all_of(all, [](const store& s) { return s.stats().keys == 1000; }) ? 0 : 2;
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
      return 3;
    }
  });
  EXPECT_EQ(limited.wait(), 0);
}
#endif

TEST_F(Limits, versions_are_skipped_at_once_up_to_the_last) {
  store_.insert("a", "1");
  constexpr version far = version_max - (1 << 20);
  store_.skip_to(far);
  EXPECT_EQ(store_.clock(), far);
  store_.skip_to(5);
  EXPECT_EQ(store_.clock(), far) << "the clock went back";
  EXPECT_EQ(store_.insert("a", "2"), far);
  expect_error(errc::invalid_argument, std::to_string(version_max), [&] { store_.skip_to(version_max); });
  EXPECT_EQ(store_.tag(), far);
  reopen();
  EXPECT_EQ(store_.clock(), far + 1);
  EXPECT_EQ(store_.find("a", far - 1), "1");
  EXPECT_EQ(store_.find("a", far), "2");
}

TEST(Limit, a_tag_that_the_last_version_refuses_leaves_the_store_whole) {
  for (const durability mode : {durability::none, durability::tag, durability::operation}) {
    for (const index_kind kind : {index_kind::btree, index_kind::persistent}) {
      SCOPED_TRACE(static_cast<int>(mode));
      SCOPED_TRACE(static_cast<int>(kind));
      const scratch folder;
      const auto path = folder / "last.ice";
      options opening;
      opening.durability = mode;
      opening.emulate_durability = true;
      opening.index = kind;
      store s(path, opening);
      s.insert("a", "1");
      s.skip_to(version_clock::last_open);
      for (const std::size_t note_size : {std::size_t{200}, std::size_t{5000}}) {
        expect_error(errc::invalid_argument, "used up", [&] { s.tag("a name", std::string(note_size, 'n')); });
      }
      EXPECT_EQ(s.insert("b", "behind it"), version_clock::last_open);
      EXPECT_TRUE(s.tags().empty());
      s.close();
      store again(path, opening);
      EXPECT_EQ(again.find("a"), "1");
      EXPECT_EQ(again.find("b"), "behind it");
      EXPECT_TRUE(again.verify().ok());
    }
  }
}

TEST_F(Limits, the_empty_key_and_the_empty_value_are_like_others) {
  store_.insert("", "");
  const version v = store_.tag();
  store_.insert("", "now");
  store_.insert("a", "");
  EXPECT_EQ(store_.find("", v), "");
  EXPECT_EQ(store_.find(""), "now");
  const snapshot present = store_.latest();
  EXPECT_EQ(present.first(), (item{"", "now"}));
  EXPECT_EQ(store_.find("a"), "");
  EXPECT_TRUE(store_.remove("").has_value());
  EXPECT_FALSE(store_.remove("").has_value());
  reopen();
  EXPECT_EQ(store_.find("", v), "");
  EXPECT_EQ(store_.find(""), std::nullopt);
  EXPECT_EQ(store_.find("a"), "");
}

TEST_F(Limits, values_of_sizes_around_words_lines_pages_and_segments_are_kept) {
  std::vector<std::size_t> sizes;
  for (const std::size_t boundary :
       {std::size_t{0}, std::size_t{8}, std::size_t{64}, std::size_t{512}, std::size_t{4096},
        std::size_t{format::granule_size}, std::size_t{2 * format::granule_size}, std::size_t{1} << 20,
        std::size_t{2} << 20}) {
    for (std::size_t around = 0; around <= 160; around += around < 24 ? 1 : 8) {
      if (boundary >= around) sizes.push_back(boundary - around);
      if (around <= 64) sizes.push_back(boundary + around);
    }
  }
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  for (const std::size_t size : sizes) store_.insert("size-" + std::to_string(size), pattern(size, 7));
  const auto all_right = [&] {
    for (const std::size_t size : sizes) {
      const auto found = store_.find("size-" + std::to_string(size));
      ASSERT_TRUE(found.has_value()) << size;
      ASSERT_TRUE(*found == pattern(size, 7)) << "a value of " << size << " bytes has changed";
    }
  };
  all_right();
  reopen();
  all_right();
  EXPECT_TRUE(store_.verify().ok());
}

TEST_F(Limits, keys_of_every_size_up_to_a_segment_keep_their_order) {
  std::vector<std::string> keys;
  for (std::size_t size = 0; size <= key_size_max; size = size < 80 ? size + 1 : size * 5 / 4) {
    keys.push_back(std::string(size, 'k'));
  }
  keys.push_back(std::string(key_size_max, 'k'));
  for (const auto& key : keys) store_.insert(key, std::to_string(key.size()));
  std::size_t i = 0;
  for (const auto& [key, value] : store_.latest().range()) {
    ASSERT_EQ(value, std::to_string(keys.at(i).size()));
    ++i;
  }
  EXPECT_EQ(i, keys.size());
  reopen();
  EXPECT_EQ(store_.latest().size(), keys.size());
}

TEST_F(Limits, a_value_too_large_for_a_fresh_file_makes_it_grow) {
  const std::string large = pattern(40 << 20, 3);
  store_.insert("large", large);
  store_.insert("large", "small again");
  const version v = store_.tag();
  store_.insert("large", large);
  EXPECT_EQ(store_.find("large", v), "small again");
  EXPECT_TRUE(store_.find("large") == large);
  reopen();
  EXPECT_TRUE(store_.find("large") == large);
  EXPECT_TRUE(store_.verify().ok());
}

TEST_F(Limits, a_new_store_takes_at_most_two_mebibytes) {
  EXPECT_LE(std::filesystem::file_size(store_.path()), 2U << 20);
  EXPECT_EQ(std::filesystem::file_size(store_.path()), store_.stats().file_bytes);
}

TEST_F(Limits, a_long_note_that_was_damaged_is_not_taken_for_sound) {
  const auto path = store_.path();
  store_.tag("name", std::string(5000, 'n'));
  store_.close();
  std::string content = read_file(path);
  const auto note = content.find(std::string(5000, 'n'));
  ASSERT_NE(note, std::string::npos);
  content[note + 2500] = 'm';
  write_file(path, content);
  expect_error(errc::damaged, "checksum", [&] { store s(path); });
}

TEST_F(Limits, tag_names_and_notes_of_the_longest_size_are_kept_and_longer_ones_refused) {
  const std::string longest = pattern(65'535, 5);
  const version v = store_.tag(longest, longest);
  const std::string longer(65'536, 't');
  expect_error(errc::invalid_argument, "65536", [&] { store_.tag(longer); });
  expect_error(errc::invalid_argument, "65536", [&] { store_.tag("name", longer); });
  EXPECT_EQ(store_.clock(), v + 1) << "a refused tag has closed the version";
  reopen();
  const auto kept = store_.find_tag(longest);
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(kept->version, v);
  EXPECT_TRUE(kept->name == longest && kept->note == longest);
}

TEST_F(Limits, tag_times_of_all_signs_are_kept_and_found) {
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t greatest = std::numeric_limits<std::int64_t>::max();
  const version first = store_.tag({.name = "first", .time_ns = least});
  const version middle = store_.tag({.name = "middle", .time_ns = 0});
  const version also_middle = store_.tag({.name = "also middle", .time_ns = 0});
  const version last = store_.tag({.name = "last", .time_ns = greatest});
  const version late_but_old = store_.tag({.name = "late", .time_ns = -5});
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(store_.find_tag_at_time(least)->version, first);
    EXPECT_EQ(store_.find_tag_at_time(-6)->version, first);
    EXPECT_EQ(store_.find_tag_at_time(-1)->version, late_but_old);
    EXPECT_EQ(store_.find_tag_at_time(greatest - 1)->version, also_middle) << "of equal times the greater version";
    EXPECT_EQ(store_.find_tag_at_time(greatest)->version, last);
    EXPECT_EQ(store_.find_tag("middle")->version, middle);
    reopen();
  }
}

TEST_F(Limits, version_zero_is_the_empty_store) {
  EXPECT_EQ(store_.clock(), 1U);
  EXPECT_EQ(store_.at(version{0}).size(), 0U);
  EXPECT_EQ(store_.at(0).version(), 0U);
  store_.insert("a", "1");
  EXPECT_EQ(store_.find("a", 0), std::nullopt);
  const snapshot none = store_.at(version{0});
  EXPECT_FALSE(none.first().has_value());
}

template <typename Which>
concept leads_to_a_snapshot = requires(const store& s, Which which) { s.at(which); };

TEST_F(Limits, versions_may_be_any_integers_but_no_null_pointers) {
  static_assert(leads_to_a_snapshot<int> && leads_to_a_snapshot<unsigned> && leads_to_a_snapshot<version>);
  static_assert(leads_to_a_snapshot<const char*> && !leads_to_a_snapshot<std::nullptr_t>);
  store_.insert("a", "1");
  const version closed = store_.tag();
  EXPECT_EQ(store_.at(static_cast<int>(closed)).find("a"), "1");
  expect_error(errc::version_not_closed, "", [&] { static_cast<void>(store_.at(-1)); });
}

TEST_F(Limits, versions_that_no_tag_has_closed_cannot_be_read) {
  store_.insert("a", "1");
  std::vector<std::string_view> keys = {"a"};
  std::vector<std::optional<std::string_view>> answers(1);
  const std::vector<version> open_version = {1};
  for (const version open : {version{1}, version{2}, version_max, version_max + 1, ~version{0}}) {
    expect_error(errc::version_not_closed, "", [&] { static_cast<void>(store_.find("a", open)); });
    expect_error(errc::version_not_closed, "", [&] { static_cast<void>(store_.at(open)); });
    expect_error(errc::version_not_closed, "", [&] { static_cast<void>(store_.find_many(keys, open, answers)); });
    expect_error(errc::version_not_closed, "", [&] { static_cast<void>(store_.diff(0, open)); });
    expect_error(errc::version_not_closed, "", [&] { static_cast<void>(store_.diff(open, 0)); });
  }
  expect_error(errc::version_not_closed, "", [&] { static_cast<void>(store_.find_many(keys, open_version, answers)); });
}

TEST_F(Limits, closed_versions_alone_can_be_lost_and_stay_so) {
  store_.insert("a", "1");
  store_.tag();
  store_.insert("a", "2");
  store_.tag("two");
  const auto lose = [&](version first, version end) {
    version_ranges some;
    some.add({first, end});
    store_.lose(some);
  };
  expect_error(errc::invalid_argument, "version 3 cannot be lost: it is not closed", [&] { lose(2, 4); });
  expect_error(errc::invalid_argument, "version 0 cannot be lost: it is the empty store", [&] { lose(0, 2); });
  EXPECT_TRUE(store_.lost_versions().empty());
  lose(2, 3);
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(store_.find("a", 1), "1");
    expect_error(errc::version_lost, "version 2 is lost", [&] { static_cast<void>(store_.find("a", 2)); });
    expect_error(errc::version_lost, "version 2 is lost", [&] { static_cast<void>(store_.at("two")); });
    expect_error(errc::version_lost, "version 2 is lost",
                 [&] { static_cast<void>(store_.at(std::chrono::system_clock::now())); });
    EXPECT_EQ(store_.latest().find("a"), "2");
    EXPECT_EQ(store_.history("a").newest_first().size(), 2U) << "records are there, whatever versions are lost";
    reopen();
  }
  // the older root page, which replaces a damaged newest one, says so too
  lose(1, 2);
  std::string image = read_file(store_.path());
  const auto path = store_.path();
  store_.close();
  const auto sequence_of = [&](std::uint64_t page) {
    std::uint64_t sequence = 0;
    std::memcpy(&sequence, image.data() + page + offsetof(format::root, sequence), sizeof sequence);
    return sequence;
  };
  const bool a_is_newest = sequence_of(format::root_a_offset) > sequence_of(format::root_b_offset);
  image[(a_is_newest ? format::root_a_offset : format::root_b_offset) + 100] ^= 1;
  write_file(path, image);
  options opening;
  opening.accept_copy = true;
  store_ = store(path, opening);
  expect_error(errc::version_lost, "version 1 is lost", [&] { static_cast<void>(store_.find("a", 1)); });
}

TEST_F(Limits, finds_of_many_want_spans_of_one_size) {
  const std::vector<std::string_view> keys(3, "a");
  std::vector<std::optional<std::string_view>> answers(2);
  const std::vector<version> versions(2);
  expect_error(errc::invalid_argument, "", [&] { static_cast<void>(store_.find_many(keys, version{0}, answers)); });
  const snapshot present = store_.latest();
  expect_error(errc::invalid_argument, "", [&] { present.find_many(keys, answers); });
  expect_error(errc::invalid_argument, "3 keys, 3 versions and room for 2",
               [&] { static_cast<void>(store_.find_many(keys, std::vector<version>(3), answers)); });
  answers.resize(3);
  expect_error(errc::invalid_argument, "", [&] { static_cast<void>(store_.find_many(keys, versions, answers)); });
  EXPECT_TRUE(store_.find_many({}, version{0}, {}));
}

TEST_F(Limits, what_is_too_large_for_the_store_is_too_large_for_a_batch) {
  batch operations;
  const std::string_view larger("x", value_size_max + 1);  // recognized by its size, not read
  expect_error(errc::value_too_large, "4294967296 bytes", [&] { operations.insert("key", larger); });
  const std::string longer(key_size_max + 1, 'k');
  expect_error(errc::key_too_long, "65536 bytes", [&] { operations.insert(longer, ""); });
  expect_error(errc::key_too_long, "65536 bytes", [&] { operations.remove(longer); });
  EXPECT_TRUE(operations.empty());
}

TEST_F(Limits, a_tag_with_nothing_to_keep_only_closes_the_version) {
  EXPECT_EQ(store_.tag(tag_options{}), 1U);
  EXPECT_EQ(store_.clock(), 2U);
  EXPECT_TRUE(store_.tags().empty());
  EXPECT_EQ(store_.stats().tags, 0U);
}

TEST_F(Limits, unknown_tags_and_taken_names_are_reported) {
  store_.tag("one");
  expect_error(errc::unknown_tag, "two", [&] { static_cast<void>(store_.at("two")); });
  expect_error(errc::unknown_tag, "", [&] { static_cast<void>(store_.at("")); });
  expect_error(errc::unknown_tag, "", [&] { static_cast<void>(store_.at(std::chrono::system_clock::time_point())); });
  expect_error(errc::tag_exists, "one", [&] { store_.tag("one"); });
  EXPECT_EQ(store_.clock(), 2U);
  EXPECT_EQ(store_.find_tag("two"), std::nullopt);
  EXPECT_EQ(store_.find_tag(version{99}), std::nullopt);
  EXPECT_EQ(store_.find_tag_at_time(0), std::nullopt);
}

TEST_F(Limits, of_threads_that_tag_with_one_name_exactly_one_succeeds) {
  for (unsigned round = 0; round < 50; ++round) {
    std::atomic<unsigned> tagged{0};
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        try {
          store_.tag("round-" + std::to_string(round));
          ++tagged;
        } catch (const error& failure) {
          EXPECT_EQ(failure.code(), errc::tag_exists);
        }
      });
    }
    threads.clear();
    EXPECT_EQ(tagged, 1U);
  }
  EXPECT_EQ(store_.tags().size(), 50U);
}

}  // namespace
}  // namespace icecore::testing
