// Parts of feeds: what an acknowledgement makes durable, passes over the keys, and the ranges that writers filled.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <thread>

#include "icecore/feed.hpp"
#include "icecore/icecore.hpp"
#include "query/feed/key_pass.hpp"
#include "query/feed/new_records.hpp"
#include "query/kept/catalog.hpp"
#include "query/kept/kept_query.hpp"
#include "store/feed/settling.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/inside.hpp"
#include "support/process.hpp"
#include "support/roots.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t line_bytes = format::cache_line_size;
using line = std::array<char, line_bytes>;

std::map<const char*, line> flushed;  // waits for a fence
std::map<const char*, line> durable;

void note_flush(const void* data, std::size_t size) {
  const auto from = reinterpret_cast<std::uintptr_t>(data) / line_bytes * line_bytes;
  for (std::uintptr_t at = from; at < reinterpret_cast<std::uintptr_t>(data) + size; at += line_bytes) {
    const auto* bytes = reinterpret_cast<const char*>(at);
    std::memcpy(flushed[bytes].data(), bytes, line_bytes);
  }
}
void note_fence() {
  for (const auto& [at, content] : flushed) durable[at] = content;
  flushed.clear();
}

class FeedInside : public ::testing::Test {
 protected:
  FeedInside() : store_(folder_ / "store", alone()) {}
  /// Nobody else writes into the pool, so that a test may compare its bytes before and after a call.
  static options alone() {
    options how = setting{place::tmpfs, durability::operation}.options();
    how.publish_settled = false;
    return how;
  }
  void write(int version) {
    for (int i = 0; i < 20; ++i) store_.insert("key " + std::to_string(i), std::to_string(version));
    store_.tag();
  }

  scratch folder_;
  store store_;
};

TEST_F(FeedInside, an_acknowledged_place_is_durable_when_the_call_returns) {
  for (int v = 0; v < 4; ++v) write(v);
  feed f = store_.feed({.name = "mirror", .after = 1, .snapshot = true});
  auto& first = store_.core().the_pool().first();
  store_.core().the_pool().persist().replace_line_functions(note_flush, note_fence);
  for (int i = 0; i < 9; ++i) {
    const feed_batch batch = f.next(7);
    const std::vector<char> before(reinterpret_cast<const char*>(first.base()),
                                   reinterpret_cast<const char*>(first.base()) + first.size());
    durable.clear();
    f.acknowledge(batch.token);
    EXPECT_TRUE(flushed.empty());
    unsigned changed = 0;
    for (std::size_t at = 0; at + line_bytes <= before.size(); at += line_bytes) {
      const auto* now = reinterpret_cast<const char*>(first.base()) + at;
      if (std::memcmp(now, before.data() + at, line_bytes) == 0) continue;
      ++changed;
      ASSERT_TRUE(durable.contains(now)) << "byte " << at << " is not durable";
      EXPECT_EQ(std::memcmp(durable[now].data(), now, line_bytes), 0) << "byte " << at << " changed after its flush";
    }
    EXPECT_GE(changed, 1U);
    EXPECT_LE(changed, 2U);  // the place, and in the snapshot its key; never both places
  }
}

TEST_F(FeedInside, a_torn_place_leaves_the_one_before_it) {
  for (int v = 0; v < 3; ++v) write(v);
  feed f = store_.feed({.name = "mirror", .after = 0});
  std::string tokens[2];
  for (std::string& token : tokens) {
    token = f.next(10).token;
    auto& first = store_.core().the_pool().first();
    const std::vector<char> before(reinterpret_cast<const char*>(first.base()),
                                   reinterpret_cast<const char*>(first.base()) + first.size());
    f.acknowledge(token);
    if (&token == &tokens[0]) continue;
    for (std::size_t at = 0; at < before.size(); ++at) {
      char& now = reinterpret_cast<char*>(first.base())[at];
      if (now == before[at]) continue;
      now = before[at];  // the first byte that was changed did not reach the medium
      break;
    }
  }
  EXPECT_EQ(store_.open_feed("mirror").token(), tokens[0]);
}

TEST_F(FeedInside, a_feed_whose_places_are_damaged_is_not_begun_again) {
  write(1);
  static_cast<void>(store_.feed({.name = "mirror", .after = 0}));
  detail::query_catalog& catalog = detail::query_catalog::of(store_.core());
  for (const link at : catalog.space().heads([](link, const std::string&) {})) {
    auto& head = catalog.space().head_at(at);
    auto* const place = reinterpret_cast<format::feed_place*>(&head + 1);
    place->at ^= 4;
    expect_error(errc::damaged, "places", [&] { static_cast<void>(store_.open_feed("mirror")); });
    place->at ^= 4;
    head.definition_crc ^= 1;
    expect_error(errc::damaged, "mirror", [&] { static_cast<void>(store_.feed({.name = "mirror", .after = 0})); });
    head.definition_crc ^= 1;
  }
  EXPECT_EQ(store_.open_feed("mirror").next().changes.size(), 20U);
}

TEST_F(FeedInside, a_pass_over_the_keys_takes_whole_versions_in_order) {
  for (int v = 0; v < 30; ++v) write(v);
  detail::with_engine(store_.core(), [&](const auto& engine) {
    for (const std::size_t wanted : {std::size_t{1}, std::size_t{20}, std::size_t{70}, std::size_t{5'000}}) {
      std::size_t all = 0;
      version after = 3;
      while (after < 30) {
        const detail::whole_versions found = detail::pass_over_keys(engine, after, 30, wanted);
        EXPECT_GT(found.up_to, after);
        EXPECT_EQ(found.changes.size(), 20 * (found.up_to - after));
        EXPECT_LE(found.changes.size(), std::max<std::size_t>(20, wanted));
        version last = after + 1;
        for (const detail::change_at& c : found.changes) {
          EXPECT_GE(c.at, last);
          EXPECT_LE(c.at, found.up_to);
          last = c.at;
        }
        all += found.changes.size();
        after = found.up_to;
      }
      EXPECT_EQ(all, 27U * 20);
    }
  });
}

TEST_F(FeedInside, new_records_say_when_they_do_not_know_all) {
  write(1);
  detail::with_engine(store_.core(), [&](const auto& engine) {
    detail::new_records since(store_.core());
    EXPECT_EQ(since.collect(engine, 0, 1, 100)->changes.size(), 20U);
    write(2);
    write(3);
    auto found = since.collect(engine, 1, 3, 10);
    EXPECT_EQ(found->changes.size(), 20U);  // of whole versions
    EXPECT_EQ(found->up_to, 2U);
    EXPECT_EQ(since.collect(engine, 2, 3, 10)->changes.size(), 20U);
    EXPECT_TRUE(since.collect(engine, 3, 3, 10)->changes.empty());
    write(4);
    const_cast<filled_ranges&>(store_.core().writers().filled()).forget(4);  // as after a killed writer
    EXPECT_FALSE(since.collect(engine, 3, 4, 10));
    write(5);
    EXPECT_EQ(since.collect(engine, 4, 5, 10)->changes.size(), 20U);
  });
}

TEST_F(FeedInside, new_records_are_those_up_to_the_version_that_is_asked) {
  write(1);
  write(2);
  detail::with_engine(store_.core(), [&](const auto& engine) {
    detail::new_records since(store_.core());
    const auto found = since.collect(engine, 0, 1, 100);  // more may have been written before the ranges were read
    EXPECT_EQ(found->changes.size(), 20U);
    EXPECT_EQ(found->up_to, 1U);
    EXPECT_EQ(since.collect(engine, 1, 2, 100)->changes.size(), 20U);
  });
}

TEST_F(FeedInside, a_version_is_settled_when_the_writes_that_were_under_way_are_complete) {
  detail::settling nothing(store_.core().clock(), store_.core().writers());
  EXPECT_TRUE(nothing.is_done());
  auto lease = std::make_unique<writer_lease>(store_.core().writers());
  const version v = store_.tag();
  detail::settling one(store_.core().clock(), store_.core().writers());
  EXPECT_EQ(one.open(), v + 1);
  EXPECT_FALSE(one.is_done());
  feed f = store_.feed({.after = 0});
  EXPECT_EQ(f.next(10, 5ms).told, 0U);
  lease.reset();
  EXPECT_TRUE(one.is_done());
  lease = std::make_unique<writer_lease>(store_.core().writers());
  EXPECT_TRUE(one.is_done());  // a later write has a later version
  lease.reset();
  EXPECT_EQ(f.next(10, 5ms).told, v);
}

// ---- Lists of segments after a power cut ----

using change_of_lists = std::function<void(const query_space& space, format::query_anchor& anchor, link head)>;

/// What a power cut leaves of a store that syncs, if it keeps the words to which `change` sets the lists, and loses the
/// segment of a feed to which they lead.
std::string without_the_segment_of_a_feed(const setting& how, const std::filesystem::path& path, bool beside_a_query,
                                          const change_of_lists& change) {
  store s(path, how.options_at(path));
  s.insert("before", "x");
  s.tag();
  if (beside_a_query) static_cast<void>(s.start({.name = "older"}));
  static_cast<void>(s.feed({.name = "lost", .after = 0, .snapshot = true}));
  query_space& space = detail::query_catalog::of(s.core()).space();
  pool& first = s.core().the_pool().first();
  const link head = space.heads([](link, const std::string&) {}).front();
  auto& anchor = *reinterpret_cast<format::query_anchor*>(first.base() + format::query_anchor_offset);
  change(space, anchor, head);
  std::memset(first.base() + link_offset(head), 0, first.segment_at(head).size);
  return with_roots_changed(read_file(path), [](format::root& r) { r.boot_id[0] ^= 0xff; });
}

/// Fills the space, and then calls `take`, which needs a segment of the size of the one that was lost.
void expect_that_nothing_is_overwritten(const setting& how, const std::filesystem::path& path,
                                        const std::function<void(store& s)>& take) {
  store s(path, how.options_at(path));
  std::map<std::string, std::string> wanted{{"before", "x"}};
  for (char c = 'a'; c < 'u'; ++c) {
    wanted[std::string(1, c)] = std::string(50'000, c);
    s.insert(std::string(1, c), wanted[std::string(1, c)]);
  }
  s.tag();
  take(s);
  for (const auto& [key, value] : wanted) {
    const auto found = s.find(key);
    ASSERT_TRUE(found && *found == value) << key;
  }
  for (const damage& d : s.verify().damages) EXPECT_EQ(d.structure, "query") << d.what;
}

class ListsAfterAPowerCut : public ::testing::TestWithParam<setting> {
 protected:
  scratch folder_;
  std::filesystem::path path_ = folder_ / "store";
};

TEST_P(ListsAfterAPowerCut, lead_to_no_segment_that_is_not_there_although_none_is) {
  const auto free_alone = [](const query_space& space, format::query_anchor& anchor, link head) {
    space.write_link(anchor.newest, null_link);
    space.write_link(anchor.free[1], head);
  };
  write_file(path_, without_the_segment_of_a_feed(GetParam(), path_, false, free_alone));
  expect_that_nothing_is_overwritten(GetParam(), path_, [](store& s) {
    feed f = s.feed({.name = "next", .after = s.clock() - 1, .snapshot = true});
    f.acknowledge(f.next(5).token);
    EXPECT_TRUE(s.verify().ok());
  });
}

TEST_P(ListsAfterAPowerCut, lead_to_no_segment_that_is_not_there_where_the_list_of_queries_is_damaged) {
  link older = null_link;
  const auto free_and_damaged = [&](const query_space& space, format::query_anchor& anchor, link head) {
    older = space.heads([](link, const std::string&) {}).back();
    space.write_link(anchor.free[0], head);
    anchor.newest ^= std::uint64_t{1} << 20;
  };
  write_file(path_, without_the_segment_of_a_feed(GetParam(), path_, true, free_and_damaged));
  expect_that_nothing_is_overwritten(GetParam(), path_, [older](store& s) {
    expect_error(errc::damaged, "(query)", [&] { static_cast<void>(s.start({.name = "next"})); });
    const auto there = detail::query_catalog::of(s.core()).space().definition_of(older);
    ASSERT_TRUE(there);
    EXPECT_EQ(title_of(*there).name, "older") << "what cannot be found is taken for free";
  });
}

INSTANTIATE_TEST_SUITE_P(Indexes, ListsAfterAPowerCut,
                         ::testing::Values(setting{place::tmpfs, durability::tag},
                                           setting{place::tmpfs, durability::tag, index_kind::persistent}),
                         [](const auto& tested) { return tested.param.name(); });

// ---- The phase of a query ----

class PhaseOfAQuery : public ::testing::Test {
 protected:
  void SetUp() override {
    store_.insert("key", "x");
    store_.tag();
    static_cast<void>(store_.start({.name = "audit"}));
  }
  scratch folder_;
  store store_{folder_ / "store"};
};

TEST_F(PhaseOfAQuery, stays_finished_if_a_run_begins_that_looked_before) {
  auto& catalog = detail::query_catalog::of(store_.core());
  const auto q = catalog.find("audit");
  store_.query("audit").run();
  EXPECT_FALSE(catalog.begin_run(*q));
  EXPECT_EQ(q->phase(), format::query_phase::finished);
  EXPECT_EQ(q->state(), query_state::finished);
  EXPECT_EQ(store_.query("audit").progress().runs, 1U);
  store_.query("audit").drop();
}

TEST_F(PhaseOfAQuery, is_told_to_be_finished_once_the_run_that_makes_it_durable_has_ended) {
  auto& catalog = detail::query_catalog::of(store_.core());
  const auto q = catalog.find("audit");
  ASSERT_TRUE(catalog.begin_run(*q));
  catalog.set_phase(q->head_place(), format::query_phase::finished);
  EXPECT_EQ(q->state(), query_state::running);
  catalog.end_run(*q);
  EXPECT_EQ(q->state(), query_state::finished);
}

TEST(FilledRanges, are_read_as_they_were_left_or_not_at_all) {
  auto ranges = std::make_unique<filled_ranges>();
  filling mine;
  mine.begin(64);
  mine.publish(128);
  EXPECT_EQ(mine.read().from, 64U);
  EXPECT_EQ(mine.read().to, 128U);
  ranges->leave(mine, 128, 7);
  EXPECT_EQ(mine.read().from, 128U);
  EXPECT_EQ(mine.read().to, 128U);
  ranges->leave(mine, 128, 8);  // nothing was written in it
  ASSERT_EQ(ranges->count(), 1U);
  EXPECT_EQ(ranges->read(0)->newest, 7U);
  EXPECT_EQ(ranges->forgotten(), 0U);
  for (std::uint64_t n = 1; n <= filled_ranges::kept; ++n) {
    mine.begin(n * 1'000);
    ranges->leave(mine, n * 1'000 + 64, 100 + n);
  }
  EXPECT_FALSE(ranges->read(0));
  EXPECT_EQ(ranges->forgotten(), 7U);
  EXPECT_EQ(ranges->read(1)->from, 1'000U);
  EXPECT_EQ(ranges->read(filled_ranges::kept)->newest, 100 + filled_ranges::kept);
}

TEST(FilledRanges, are_whole_while_they_change) {
  filling mine;
  std::atomic<bool> over{false};
  std::jthread writer([&] {
    for (link at = 1; at < 400'000; ++at) {
      mine.begin(at << 20);
      mine.publish((at << 20) + 64);
    }
    over = true;
  });
  while (!over) {
    const auto now = mine.read();
    ASSERT_TRUE(now.to == now.from || now.to == now.from + 64) << now.from << " to " << now.to;
  }
}

}  // namespace
}  // namespace icecore::testing
