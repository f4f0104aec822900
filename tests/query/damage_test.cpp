// Damage in what is kept of queries: the store opens, the other queries are right, and the one that is hit either says
// so or still gives right rows. And queries of stores that are opened, copied and rebuilt in other ways.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>

#include "kept_answers.hpp"
#include "pool/query/query_format.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

bool is_of_damage(const error& e) {
  return e.code() == errc::damaged || e.code() == errc::no_such_query || e.code() == errc::bad_token ||
         e.code() == errc::unsupported_format;
}

/// How many of the queries are right, run to their ends; the others must say that they are damaged.
int use_all(store& s, version v) {
  const answers wanted = answer_of(s, v);
  int right = 0;
  for (const char* name : {"finished", "paused", "counted"}) {
    try {
      query q = s.query(name);
      expect_right(q, wanted, false);
      if (q.state() != query_state::cancelled) q.run();
      expect_right(q, wanted, q.state() == query_state::finished);
      ++right;
    } catch (const error& e) {
      EXPECT_TRUE(is_of_damage(e)) << name << ": " << e.what();
    }
  }
  return right;
}

class DamagedQueries : public ::testing::TestWithParam<setting> {
 protected:
  [[nodiscard]] options opening() const { return GetParam().options_at(path_); }

  /// Makes the store in another process, which closes it or is killed.
  void make_elsewhere(bool closes) const {
    child maker([&] {
      store s(path_, opening());
      make_queries(s);
      if (!closes) ::raise(SIGKILL);
      return 0;
    });
    ASSERT_EQ(maker.wait(), closes ? 0 : -SIGKILL);
  }

  scratch folder_{GetParam().where};
  std::filesystem::path path_ = folder_ / "store";
};

/// Where the segments of queries begin in a file; each has one granule.
std::vector<std::size_t> segments_of_queries(const std::string& file) {
  std::vector<std::size_t> places;
  for (std::size_t at = format::first_segment_offset; at + format::granule_size <= file.size();
       at += format::granule_size) {
    format::segment_header h;
    std::memcpy(static_cast<void*>(&h), file.data() + at, sizeof h);
    if (h.magic == format::query_segment_magic) places.push_back(at);
  }
  return places;
}

/// Where a byte that is not zero lies in the anchor or in segments of queries, in a file.
std::vector<std::size_t> bytes_of_queries(const std::string& file) {
  std::vector<std::size_t> places;
  const auto add = [&](std::size_t from, std::size_t size) {
    for (std::size_t at = from; at < from + size; ++at) {
      if (file[at] != 0) places.push_back(at);
    }
  };
  add(format::query_anchor_offset, sizeof(format::query_anchor));
  for (const std::size_t at : segments_of_queries(file)) add(at, format::granule_size);
  return places;
}

bool begins_with_chunk(const std::string& file, std::size_t segment) {
  std::uint32_t magic = 0;
  std::memcpy(&magic, file.data() + segment + sizeof(format::segment_header), sizeof magic);
  return magic == format::query_chunk_magic;
}

TEST_P(DamagedQueries, a_flipped_bit_gives_right_rows_or_an_error_of_that_query) {
  constexpr version v = 1;  // the tag's, which another process makes
  for (const bool closes : {true, false}) {
    std::filesystem::remove(path_);
    make_elsewhere(closes);
    const std::string whole = read_file(path_);
    const auto places = bytes_of_queries(whole);
    ASSERT_GT(places.size(), 800);
    std::size_t hit = 0;
    const bool slow = GetParam().where == place::disk || GetParam().index == index_kind::persistent;
    const std::size_t stride = slow ? 71 : 17;
    for (std::size_t n = 0; n < places.size(); n += stride) {
      std::string torn = whole;
      torn[places[n]] = static_cast<char>(torn[places[n]] ^ 1 << n % 8);
      write_file(path_, torn);
      SCOPED_TRACE("byte " + std::to_string(places[n]) + (closes ? "" : ", of a store left open"));
      const auto found = verify_file(path_).damages;
      for (const damage& d : found) ASSERT_EQ(d.structure, "query") << d.what;
      try {
        store s(path_, opening());
        const int right = use_all(s, v);
        if (right < 3) ++hit;
        if (right < 3) {
          ASSERT_FALSE(found.empty());
        }
        ASSERT_EQ(s.at(v).size(), keys_of_queries);
      } catch (const error& e) {
        FAIL() << e.what();
      }
      if (HasFailure()) return;
    }
    EXPECT_GT(hit, places.size() / stride / 10);
  }
}

TEST_P(DamagedQueries, a_segment_that_names_another_owner_is_found_by_its_chunks) {
  for (const bool closes : {true, false}) {
    std::filesystem::remove(path_);
    make_elsewhere(closes);
    const std::string whole = read_file(path_);
    std::size_t named = 0;
    std::size_t with_chunks = 0;
    for (const std::size_t segment : segments_of_queries(whole)) {
      if (begins_with_chunk(whole, segment)) ++with_chunks;
      std::string torn = whole;
      torn[segment + offsetof(format::segment_header, owner)] ^= 4;
      write_file(path_, torn);
      SCOPED_TRACE("segment at " + std::to_string(segment) + (closes ? "" : ", of a store left open"));
      const auto found = verify_file(path_).damages;
      named += found.size();
      for (const damage& d : found) {
        EXPECT_NE(d.what.find("names another owner"), std::string::npos) << d.what;
      }
      store s(path_, opening());
      EXPECT_EQ(use_all(s, 1), 3);
      // a session that synced and was left open: its lists were made anew, and the name with them
      if (!closes && GetParam().durability == durability::tag) {
        EXPECT_TRUE(s.verify().ok());
      }
    }
    // all but the segment that was freed
    EXPECT_EQ(with_chunks, 4);
    EXPECT_EQ(named, with_chunks - 1);
  }
}

/// Puts back the newest chunks that a query of one store showed at an earlier time, as if a crash had kept their words
/// from the media; how many.
int show_earlier_chunks(std::string& file, const std::string& earlier) {
  int changed = 0;
  for (const std::size_t segment : segments_of_queries(earlier)) {
    if (begins_with_chunk(earlier, segment)) continue;
    const std::size_t head_at = segment + sizeof(format::segment_header);
    format::query_head head;
    std::memcpy(static_cast<void*>(&head), file.data() + head_at, sizeof head);
    for (std::uint32_t part = 0; part < head.parts; ++part) {
      const std::size_t word =
          head_at + sizeof head + part * sizeof(format::query_part) + offsetof(format::query_part, newest);
      if (file.compare(word, sizeof(std::uint64_t), earlier, word, sizeof(std::uint64_t)) == 0) continue;
      file.replace(word, sizeof(std::uint64_t), earlier, word, sizeof(std::uint64_t));
      ++changed;
    }
  }
  return changed;
}

TEST_P(DamagedQueries, chunks_that_were_not_shown_are_found_in_a_segment_that_names_another_owner) {
  const auto run_and_be_killed = [&](std::uint64_t keys) {
    child runner([&] {
      store s(path_, opening());
      if (s.queries().empty()) {
        const std::string long_key(1000, 'k');  // chunks of many keys need a second segment
        for (int i = 0; i < keys_of_queries; ++i) s.insert(long_key + std::to_string(100 + i), std::to_string(i));
        s.start({.name = "moves", .at = s.tag()});
      }
      s.query("moves").run({.every_item = true, .keys = keys});
      ::raise(SIGKILL);
      return 0;
    });
    ASSERT_EQ(runner.wait(), -SIGKILL);
  };
  run_and_be_killed(9);
  const std::string earlier = read_file(path_);
  run_and_be_killed(keys_of_queries - 9 - 2);
  std::string whole = read_file(path_);
  ASSERT_EQ(show_earlier_chunks(whole, earlier), 1);
  for (const bool damaged : {false, true}) {
    std::string file = whole;
    int moves = -1;
    for (const std::size_t segment : segments_of_queries(file)) {
      if (!begins_with_chunk(file, segment)) continue;
      ++moves;
      if (damaged) file[segment + offsetof(format::segment_header, owner)] ^= 4;
    }
    ASSERT_GT(moves, 0);
    write_file(path_, file);
    store s(path_, opening());
    query q = s.query("moves");
    q.run();
    expect_right(q, answer_of(s, 1), true);
    EXPECT_EQ(q.progress().repeated, 0) << (damaged ? "damaged" : "not damaged");
  }
}

TEST_P(DamagedQueries, rows_that_are_bits_are_refused_where_keys_of_their_version_are_lost) {
  {
    store s(path_, opening());
    make_queries(s);
  }
  const std::string whole = read_file(path_);
  for (const int lost : {1, 31, keys_of_queries - 1}) {  // the first key of the query is of number 0
    std::string torn = whole;
    const std::string key = "key " + std::to_string(100 + lost);
    torn[torn.find(key) + key.size() - 1] ^= 1;
    write_file(path_, torn);
    options accepting = opening();
    accepting.access = access::read_only;
    accepting.accept_damage = true;
    const store s(path_, accepting);
    ASSERT_EQ(s.at(1).size(), keys_of_queries - 1);
    const query q = s.query("finished");
    if (GetParam().index == index_kind::hash) continue;  // there rows are keys
    expect_error(errc::damaged, "rows of a chunk", [&] { static_cast<void>(std::ranges::distance(q.results())); });
  }
}

TEST_P(DamagedQueries, queries_are_read_from_a_store_that_was_left_open) {
  make_elsewhere(false);
  const std::string before = read_file(path_);
  {
    options reading = opening();
    reading.access = access::read_only;
    const store s(path_, reading);
    const answers wanted = answer_of(s, 1);
    EXPECT_EQ(s.queries().size(), 3);
    for (query& q : s.queries()) {
      expect_right(q, wanted, q.name() != "paused");
      expect_error(errc::read_only, "", [&] { q.run(); });
      expect_error(errc::read_only, "", [&] { q.drop(); });
      expect_error(errc::read_only, "", [&] { q.acknowledge(0); });
    }
    EXPECT_EQ(s.query("paused").progress().examined, 9);
  }
  EXPECT_EQ(read_file(path_), before);
  store s(path_, opening());
  EXPECT_EQ(use_all(s, 1), 3);
}

TEST_P(DamagedQueries, a_copy_and_another_index_keep_queries) {
  {
    store s(path_, opening());
    make_queries(s);
  }
  {
    options copying = opening();
    copying.copy_of = path_;
    copying.placements.clear();
    store s(folder_ / "copy", copying);
    EXPECT_EQ(s.queries().size(), 3);
    EXPECT_EQ(use_all(s, 1), 3);
    query q = s.start({.name = "new"});
    q.run();
  }
  for (const index_kind to : {index_kind::skip_list, index_kind::persistent, index_kind::btree}) {
    options other = opening();
    other.index = to;
    other.change_index = true;
    store s(path_, other);
    EXPECT_EQ(s.queries().size(), 3);
    EXPECT_EQ(use_all(s, 1), 3);
    EXPECT_TRUE(s.verify().ok());
  }
}

INSTANTIATE_TEST_SUITE_P(All, DamagedQueries,
                         ::testing::Values(setting{place::tmpfs, durability::operation},
                                           setting{place::disk, durability::tag},
                                           setting{place::tmpfs, durability::operation, index_kind::persistent}),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace icecore::testing
