// Pieces of a cleanly closed store with the persistent index are of an earlier time, because the device lost a write.
// After instant recovery, the call that meets them reports it. An undamaged store is never reported as damaged.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "icecore/icecore.hpp"
#include "pool/checked_word.hpp"
#include "pool/format.hpp"
#include "pool/root/root.hpp"
#include "support/file.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

constexpr unsigned keys = 3000;
constexpr unsigned tags = 130;  // three blocks

std::string key_of(unsigned i) { return "key " + std::to_string(i * 7919 % keys); }
std::string value_of(unsigned i) { return "value of " + std::to_string(i); }
std::string newer_of(unsigned i) { return value_of(i) + ", newer"; }

format::root root_of(const std::string& file) {
  return newest_root(reinterpret_cast<const std::byte*>(file.data())).value();
}

/// Two states of a store, as two consecutive sessions left it closed.
class Evidence : public ::testing::TestWithParam<durability> {
 protected:
  [[nodiscard]] static options opening() {
    options o;
    o.durability = GetParam();
    o.emulate_durability = true;
    o.index = index_kind::persistent;
    return o;
  }
  void fill(store& s, unsigned from, unsigned to) const {
    for (unsigned i = from; i < to; ++i) {
      s.insert(key_of(i), value_of(i));
      if (i % (keys / tags) == 0) s.tag("tag " + std::to_string(i));
    }
  }
  void SetUp() override {
    {
      store s(path_, opening());
      fill(s, 0, keys / 2);
    }
    before_ = read_file(path_);
    {
      store s(path_, opening());
      ASSERT_TRUE(s.stats().recovered_instantly);
      for (unsigned i = 0; i < keys / 2; i += 2) s.insert(key_of(i), newer_of(i));
      for (unsigned i = 1; i < keys / 2; i += 50) s.remove(key_of(i));
      fill(s, keys / 2, keys);
    }
    after_ = read_file(path_);
    const store s(path_, reading());
    tags_there_ = s.tags().size();
  }
  [[nodiscard]] static options reading() {
    options o = opening();
    o.access = access::read_only;
    return o;
  }
  [[nodiscard]] static std::optional<std::string> newest_of(unsigned i) {
    if (i < keys / 2 && i % 2 == 0) return newer_of(i);
    if (i < keys / 2 && i % 50 == 1) return std::nullopt;
    return value_of(i);
  }

  /// Whether the call reports damage.
  template <class Call>
  static bool is_reported(const Call& call) {
    try {
      call();
      return false;
    } catch (const error& failure) {
      EXPECT_EQ(failure.code(), errc::damaged) << failure.what();
      return true;
    }
  }
  template <class Call>
  static void count_reported(unsigned& reported, const Call& call) {
    if (is_reported(call)) ++reported;
  }
  static void expect_newest(const store& s, unsigned i) {
    const auto found = s.find(key_of(i));
    EXPECT_EQ(found ? std::optional<std::string>(*found) : std::nullopt, newest_of(i)) << key_of(i);
  }
  /// Every answer is right, or reports damage, also for a process that writes on, and in the next session.
  [[nodiscard]] unsigned complaints_about(const std::string& file, unsigned step) const {
    write_file(path_, file);
    unsigned reported = 0;
    std::vector<unsigned> third;
    count_reported(reported, [&] {
      const store s(path_, reading());
      EXPECT_TRUE(s.stats().recovered_instantly);
      for (unsigned i = 0; i < keys; i += step) count_reported(reported, [&] { expect_newest(s, i); });
      count_reported(reported, [&] { EXPECT_EQ(s.tags().size(), tags_there_); });
      count_reported(reported, [&] { EXPECT_EQ(s.keys().size(), keys); });
    });
    count_reported(reported, [&] {
      store s(path_, opening());
      for (unsigned i = 0; i < keys; i += 31) {
        count_reported(reported, [&] {
          s.insert(key_of(i), "third");
          third.push_back(i);
        });
      }
      s.close();
    });
    count_reported(reported, [&] {
      const store s(path_, reading());
      for (const unsigned i : third) {
        count_reported(reported, [&] {
          const std::size_t before = i < keys / 2 && (i % 2 == 0 || i % 50 == 1) ? 2 : 1;
          EXPECT_EQ(s.history(key_of(i)).oldest_first().size(), before + 1) << key_of(i);
        });
      }
    });
    return reported;
  }
  void expect_reported_or_harmless(std::size_t unit, std::size_t every) {
    unsigned tried = 0;
    unsigned reported = 0;
    std::size_t seen = 0;
    for (std::size_t at = format::first_segment_offset; at < after_.size(); at += unit) {
      const std::string earlier = at < before_.size() ? before_.substr(at, unit) : std::string(unit, '\0');
      if (earlier.size() != unit || after_.compare(at, unit, earlier) == 0 || seen++ % every != 0) continue;
      SCOPED_TRACE(std::to_string(unit) + " bytes at " + std::to_string(at));
      std::string spoilt = after_;
      spoilt.replace(at, unit, earlier);
      ++tried;
      reported += complaints_about(spoilt, 1) != 0 ? 1 : 0;
      if (HasFailure()) return;
    }
    EXPECT_GT(tried, 0U);
    EXPECT_GT(reported, 0U);
  }

  const scratch folder_;
  const std::filesystem::path path_ = folder_ / "store.ice";
  std::string before_;
  std::string after_;
  std::size_t tags_there_ = 0;
};

TEST_P(Evidence, of_a_sound_store_reports_nothing) { EXPECT_EQ(complaints_about(after_, 1), 0U); }
TEST_P(Evidence, reports_64_KiB_of_an_earlier_time) { expect_reported_or_harmless(format::granule_size, 1); }
TEST_P(Evidence, reports_a_page_of_an_earlier_time) { expect_reported_or_harmless(format::page_size, 7); }
TEST_P(Evidence, reports_a_sector_of_an_earlier_time) { expect_reported_or_harmless(512, 61); }
TEST_P(Evidence, reports_a_line_of_an_earlier_time) { expect_reported_or_harmless(64, 461); }

TEST_P(Evidence, reports_a_line_as_it_was_earlier_in_the_session) {
  std::string earlier;
  {
    store s(path_, opening());
    for (unsigned i = 0; i < keys; i += 3) s.insert(key_of(i), "earlier");
    s.sync();
    earlier = read_file(path_);
    for (unsigned i = 0; i < keys; i += 3) s.insert(key_of(i), "latest");
  }
  const std::string closed = read_file(path_);
  const std::size_t entry = closed.find(key_of(0));  // its head lies before it
  ASSERT_NE(entry, std::string::npos);
  const std::size_t page = entry / format::page_size * format::page_size;
  std::string spoilt = closed;
  spoilt.replace(page, format::page_size, earlier, page, format::page_size);
  ASSERT_NE(spoilt, closed);
  write_file(path_, spoilt);
  for (const options& o : {reading(), opening()}) {
    store s(path_, o);
    ASSERT_TRUE(s.stats().recovered_instantly);
    unsigned reported = 0;
    for (unsigned i = 0; i < keys; i += 3) {
      count_reported(reported, [&] { EXPECT_EQ(s.find(key_of(i)), "latest"); });
    }
    EXPECT_GT(reported, 0U);
    if (o.access == access::read_write) {
      EXPECT_TRUE(is_reported([&] { s.insert(key_of(0), "on top"); }));
    }
  }
  EXPECT_FALSE(verify_file(path_).ok());
}

TEST_P(Evidence, reports_a_settled_word_of_an_earlier_time) {
  const std::size_t key = after_.find(key_of(0));
  const std::size_t committed = key - sizeof(std::uint64_t);  // the last word of an entry before its key
  ASSERT_NE(after_.compare(committed, 8, before_, committed, 8), 0);
  std::string spoilt = after_;
  spoilt.replace(committed, 8, before_, committed, 8);
  write_file(path_, spoilt);
  const store s(path_, reading());
  EXPECT_TRUE(is_reported([&] { static_cast<void>(s.find(key_of(0))); }));
}

TEST_P(Evidence, reports_links_to_tags_of_an_earlier_time) {
  store(path_, opening()).tag("one more");
  const std::string closed = read_file(path_);
  const word_codec codec(pool_seed_of(root_of(closed)));
  unsigned tried = 0;
  for (std::size_t block = format::first_segment_offset + sizeof(format::segment_header);
       block + sizeof(format::tag_block) <= after_.size(); block += 64) {
    std::uint64_t first = 0;  // of its links: it leads to the block itself
    std::memcpy(&first, closed.data() + block + offsetof(format::tag_block, tags), sizeof first);
    if (codec.decode_link(first, block + offsetof(format::tag_block, tags)) != block) continue;
    std::string spoilt = closed;
    spoilt.replace(block, sizeof(format::tag_block), after_, block, sizeof(format::tag_block));
    if (spoilt == closed) continue;
    ++tried;
    write_file(path_, spoilt);
    const store s(path_, reading());
    EXPECT_TRUE(is_reported([&] { static_cast<void>(s.tags()); }));
  }
  EXPECT_EQ(tried, 1U);  // the newest block
}

TEST_P(Evidence, is_left_by_a_session_that_changes_links_alone) {
  {
    store s(path_, opening());
    s.insert(key_of(0), "changed");
  }
  const std::string closed = read_file(path_);
  const std::size_t entry = closed.find(key_of(0));
  const std::size_t line = (entry - 16) / format::cache_line_size * format::cache_line_size;  // both links
  std::string spoilt = closed;
  spoilt.replace(line, 2 * format::cache_line_size, after_, line, 2 * format::cache_line_size);
  ASSERT_NE(spoilt, closed);
  write_file(path_, spoilt);
  const store s(path_, reading());
  EXPECT_TRUE(is_reported([&] { static_cast<void>(s.find(key_of(0))); }));
}

TEST_P(Evidence, from_before_a_kill_reports_nothing) {
  child writer([&] {
    store s(path_, opening());
    for (unsigned i = 0; i < keys; i += 3) s.insert(key_of(i), "third");
    return ::raise(SIGKILL);
  });
  ASSERT_EQ(writer.wait(), -SIGKILL);
  // Links reached the media, but no leaf's word did: as if the machine had stopped.
  std::string file = read_file(path_);
  for (std::size_t at = format::first_segment_offset; at + format::granule_size <= file.size();
       at += format::granule_size) {
    format::segment_header h;
    std::memcpy(&h, file.data() + at, sizeof h);
    if (h.magic != format::index_segment_magic || h.granules != 2) continue;
    for (std::size_t node = at + sizeof h; node < at + format::node_segment_size; node += sizeof(format::index_node)) {
      if (node % format::granule_size < sizeof h || node >= after_.size()) continue;
      // the word, if nothing else in the first line has changed
      if (file.compare(node + 8, 56, after_, node + 8, 56) == 0) file.replace(node, 8, after_, node, 8);
    }
  }
  write_file(path_, file);
  for (unsigned session = 0; session < 3; ++session) {
    store s(path_, opening());
    ASSERT_TRUE(s.stats().recovered_instantly);
    for (unsigned i = 0; i < keys; i += session + 1) {
      const auto found = s.find(key_of(i));
      EXPECT_EQ(found ? std::optional<std::string>(*found) : std::nullopt, i % 3 == 0 ? "third" : newest_of(i))
          << key_of(i);
    }
  }
}

TEST_P(Evidence, counts_where_the_store_was_closed_after_all_others_had_ended) {
  for (const bool is_there : {false, true}) {
    write_file(path_, after_);
    const scratch memory{place::tmpfs};
    const shared<std::atomic<int>> step;
    const auto wait_for = [&](int number) {
      while (*step < number) std::this_thread::sleep_for(std::chrono::microseconds(100));
    };
    child other([&] {
      wait_for(1);
      options beside;
      beside.access = access::attached;
      beside.shared_as = memory / "common";
      store s(path_, beside);
      s.insert(key_of(0), "from beside");
      *step = 2;
      wait_for(3);
      return 0;
    });
    options how = opening();
    how.shared_as = memory / "common";
    store s(path_, how);
    *step = 1;
    wait_for(2);
    if (!is_there) {
      *step = 3;
      EXPECT_EQ(other.wait(), 0);
    }
    s.close();
    const format::root closed = root_of(read_file(path_));
    EXPECT_EQ(closed.evidence_from == closed.epoch + 1, is_there);
    if (is_there) {
      *step = 3;
      EXPECT_EQ(other.wait(), 0);
    }
    const store again(path_, reading());
    EXPECT_EQ(again.find(key_of(0)), "from beside");
    for (unsigned i = 1; i < keys; ++i) expect_newest(again, i);
  }
}

TEST_P(Evidence, is_looked_at_by_many_threads_at_once_and_reports_nothing_about_a_sound_store) {
  for (int round = 0; round < 10; ++round) {
    store s(path_, opening());
    std::vector<std::thread> crew;
    for (unsigned t = 0; t < 4; ++t) {
      crew.emplace_back([&, t] {
        for (unsigned i = 0; i < keys; ++i) {
          const unsigned key = t % 2 == 0 ? i : keys - 1 - i;
          EXPECT_FALSE(is_reported([&] { s.insert(key_of(key), "by " + std::to_string(t)); }));
        }
      });
    }
    for (std::thread& one : crew) one.join();
  }
}

INSTANTIATE_TEST_SUITE_P(EveryMode, Evidence, ::testing::Values(durability::none, durability::operation));

}  // namespace
}  // namespace icecore::testing
