// Pages of a closed store that are damaged, or of an earlier time because the device lost a write. An opening that
// accepts the damage shows nothing older than the newest value, and the clock does not go back.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "icecore/icecore.hpp"
#include "pool/format.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

constexpr int keys = 100;

std::string key(int i) { return "key " + std::to_string(i); }
std::string newest_value(int i) { return "newest of " + std::to_string(1000 + i); }

class StalePage : public ::testing::TestWithParam<index_kind> {
 protected:
  [[nodiscard]] options how() const {
    options o;
    o.durability = durability::none;
    o.index = GetParam();
    return o;
  }
  [[nodiscard]] static options accepting() {
    options o;
    o.access = access::read_only;
    o.accept_damage = true;
    return o;
  }
  void SetUp() override {
    {
      store s(path_, how());
      for (int i = 0; i < keys; ++i) s.insert(key(i), "older");
      s.tag("older");
    }
    before_ = read_file(path_);
  }
  /// The file as it is, except that these bytes are of the earlier time.
  [[nodiscard]] std::string with_stale(std::size_t at, std::size_t size) const {
    std::string file = read_file(path_);
    return file.replace(at, size, before_, at, size);
  }

  /// Checks the keys that `of` selects.
  template <class Which>
  void expect_newest_or_nothing(const Which& of) const {
    const store s(path_, accepting());
    for (int i = 0; i < keys; ++i) {
      if (of(i)) testing::expect_newest_or_nothing(s, key(i), newest_value(i));
    }
  }

  const scratch folder_;
  const std::filesystem::path path_ = folder_ / "store.ice";
  std::string before_;
};

TEST_P(StalePage, with_the_header_of_a_segment_hides_no_newer_record_behind_it) {
  {
    store s(path_, how());
    for (int i = 0; i < keys; ++i) s.insert(key(i), newest_value(i));
    batch together;  // its stamp is on the stale page, some of its records are behind it
    for (int i = 0; i < keys; ++i) together.insert(key(i), newest_value(i));
    s.apply(together);
  }
  std::string file = read_file(path_);
  const std::size_t segment = file.find(key(0)) / format::granule_size * format::granule_size;
  for (std::size_t pages = 2; pages <= 4; ++pages) {
    write_file(path_, file);
    const std::string stale = with_stale(segment, pages * format::page_size);
    write_file(path_, stale);
    EXPECT_FALSE(verify_file(path_).ok());
    options full = how();
    full.access = access::read_only;
    full.check_values = true;
    expect_error(errc::damaged, "", [&] { const store s(path_, full); });
    const std::size_t end = segment + pages * format::page_size;
    expect_newest_or_nothing([&](int i) {
      const std::size_t at = stale.rfind(newest_value(i));
      return at != std::string::npos && at > end + sizeof(format::update_header) + sizeof(link);
    });
  }
}

TEST_P(StalePage, with_a_lost_header_and_a_spoilt_end_of_a_segment_shows_nothing_older) {
  {
    store s(path_, how());
    for (int i = 0; i < keys; ++i) s.insert(key(i), newest_value(i));
  }
  std::string file = read_file(path_);
  const std::size_t segment = file.find(key(0)) / format::granule_size * format::granule_size;
  file.replace(segment, sizeof(format::segment_header), sizeof(format::segment_header), 'x');
  const std::size_t from = file.find(newest_value(keys - 10)) / format::cache_line_size * format::cache_line_size;
  file.replace(from, format::page_size, format::page_size, 'x');
  write_file(path_, file);
  expect_newest_or_nothing([](int) { return true; });
}

TEST_P(StalePage, with_a_lost_header_and_a_spoilt_large_value_shows_nothing_older) {
  const std::string large(format::large_value_size, 'v');
  {
    store s(path_, how());
    s.insert(key(0), large);
  }
  std::string file = read_file(path_);
  const std::size_t segment = file.find(key(0)) / format::granule_size * format::granule_size;
  file.replace(segment, sizeof(format::segment_header), sizeof(format::segment_header), 'x');
  file[file.find(large) + large.size() / 2] ^= 1;
  write_file(path_, file);
  const store s(path_, accepting());
  testing::expect_newest_or_nothing(s, key(0), large);
}

TEST_P(StalePage, that_two_records_of_a_key_have_changed_places_shows_nothing_older_in_between) {
  {
    store s(path_, how());
    s.insert(key(0), "in between");
    s.tag("in between");
    s.tag("one more");
    s.insert(key(0), newest_value(0));
  }
  std::string file = read_file(path_);
  const auto line_of = [&](const std::string& value) {
    return file.find(value) / format::cache_line_size * format::cache_line_size;
  };
  const std::size_t one = line_of("in between");
  const std::size_t other = line_of(newest_value(0));
  ASSERT_NE(one, other);
  const std::string kept = file.substr(one, format::cache_line_size);
  file.replace(one, kept.size(), file, other, kept.size());
  file.replace(other, kept.size(), kept);
  write_file(path_, file);
  const store s(path_, accepting());
  testing::expect_newest_or_nothing(s, key(0), newest_value(0));
  testing::expect_newest_or_nothing(s.at("in between"), key(0), "in between");
}

TEST_P(StalePage, with_a_lost_header_and_record_of_a_batch_shows_nothing_older_in_between) {
  version between = 0;
  {
    store s(path_, how());
    s.insert(key(0), "in between");
    between = s.tag();
    batch one;
    one.insert(key(0), newest_value(0));
    s.apply(one);
  }
  std::string file = read_file(path_);
  const std::size_t segment = file.find(key(0)) / format::granule_size * format::granule_size;
  file.replace(segment, sizeof(format::segment_header), sizeof(format::segment_header), 'x');
  const std::size_t from = file.find("in between") / format::cache_line_size * format::cache_line_size;
  std::size_t batch_at = file.find(newest_value(0)) / sizeof(link) * sizeof(link);
  while (file[batch_at] != static_cast<char>(format::record_kind::batch)) batch_at -= sizeof(link);
  const std::size_t size = batch_at + sizeof(format::batch_header) - from;
  file.replace(from, size, size, '\0');
  write_file(path_, file);
  std::vector<std::uint64_t> places;
  for (const damage& d : verify_file(path_).damages) {
    if (d.what.starts_with("the record's stamp is damaged")) places.push_back(d.offset);
  }
  EXPECT_EQ(places.size(), 1U) << "the record behind the lost one of its batch is read once";
  const store s(path_, accepting());
  testing::expect_newest_or_nothing(s, key(0), newest_value(0));
  testing::expect_newest_or_nothing(s.at(between), key(0), "in between");
}

TEST_P(StalePage, of_both_roots_does_not_set_the_clock_back) {
  version clock = 0;
  {
    store s(path_, how());
    for (int i = 0; i < 5; ++i) {
      s.insert(key(i), newest_value(i));
      s.tag("newer " + std::to_string(i));
    }
    clock = s.clock();
  }
  write_file(path_, with_stale(0, format::first_segment_offset));
  {
    const store s(path_, accepting());
    EXPECT_GE(s.clock(), clock);
  }
  repair_options repairing;
  repairing.from = path_;
  repairing.to = folder_ / "repaired.ice";
  static_cast<void>(repair(repairing));
  const store repaired(repairing.to, how());
  EXPECT_GE(repaired.clock(), clock);
}

TEST_P(StalePage, of_both_roots_is_reported_after_a_kill_although_they_say_that_the_store_was_closed) {
  child writer([&] {
    store s(path_, how());
    s.insert("one more", "value");
    s.tag("one more");
    return raise(SIGKILL);
  });
  ASSERT_EQ(writer.wait(), -SIGKILL);
  write_file(path_, with_stale(0, format::first_segment_offset));
  options how_to_read = how();
  how_to_read.access = access::read_only;
  for (const options& o : {how_to_read, how()}) expect_error(errc::damaged, "", [&] { const store s(path_, o); });
}

INSTANTIATE_TEST_SUITE_P(EveryKind, StalePage,
                         ::testing::Values(index_kind::btree, index_kind::skip_list, index_kind::persistent));

}  // namespace
}  // namespace icecore::testing
