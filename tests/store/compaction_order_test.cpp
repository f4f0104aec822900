// In which order threads and processes learn that a compaction has replaced what they read. Each test repeats what is
// over in a moment, until the two sides have met in every order.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "icecore/changes.hpp"
#include "icecore/feed.hpp"
#include "icecore/icecore.hpp"
#include "icecore/query.hpp"
#include "pool/query/query_check.hpp"
#include "query/feed/new_records.hpp"
#include "store/beside/settled_records.hpp"
#include "store/core.hpp"
#include "store/engine.hpp"
#include "store/opened.hpp"
#include "store/shared_state.hpp"
#include "store/write/writer.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

options opening() { return setting{place::tmpfs, durability::operation}.options(); }

/// Ends and joins its threads.
class helpers {
 public:
  ~helpers() { end(); }
  template <typename Step>
  void repeat(Step step) {
    all_.emplace_back([this, step] {
      while (!over_.load(std::memory_order_relaxed)) step();
    });
  }
  void end() {
    over_ = true;
    for (std::thread& each : all_) each.join();
    all_.clear();
  }

 private:
  std::atomic<bool> over_{false};
  std::vector<std::thread> all_;
};

/// More feeds than cores: so they are interrupted at every place.
TEST(CompactionOrder, feeds_miss_no_version_that_is_closed_while_the_engine_is_replaced) {
  const scratch folder(place::tmpfs);
  store s(folder / "fed.ice", opening());
  s.insert("key", "0");
  const version before = s.tag();
  helpers readers;
  std::atomic<unsigned> gaps{0};
  std::atomic<std::uint64_t> told{0};
  for (unsigned i = 0; i < 6; ++i) {
    auto f = std::make_shared<feed>(s.feed({.after = before, .unsynced = true}));
    auto last = std::make_shared<version>(before);
    readers.repeat([&, f, last] {
      for (const key_change& each : f->next(1000, 0us).changes) {
        if (each.version != *last + 1) ++gaps;
        *last = each.version;
        ++told;
      }
    });
  }
  for (unsigned n = 1; n < 4000; ++n) {
    s.insert("key", std::to_string(n));
    s.tag();
    if (n % 8 == 0) static_cast<void>(s.compact());
  }
  readers.end();
  EXPECT_EQ(gaps, 0U);
  EXPECT_GT(told, 0U);
}

/// What a thread meets that is interrupted between its two looks: at the engine, and at the clock.
TEST(CompactionOrder, who_finds_a_version_closed_holds_an_engine_that_has_all_of_it) {
  const scratch folder(place::tmpfs);
  store s(folder / "packed.ice", opening());
  s.insert("key", "before");
  version v = 0;
  const detail::held_engine found = s.opened().hold_for([&](const detail::store_core& core) {
    if (v == 0) {
      EXPECT_TRUE(s.compact().packed);
      s.insert("key", "behind");
      v = s.tag();
    }
    core.check_readable(v);
  });
  const auto value = detail::with_engine(*found, [&](const auto& engine) { return engine.find("key", v); });
  EXPECT_EQ(value, "behind");
}

TEST(CompactionOrder, the_newest_version_has_not_expired_in_the_engine_that_is_held) {
  const scratch folder(place::tmpfs);
  store s(folder / "packed.ice", opening());
  s.set_retention({.newest = 1});
  s.insert("key", "first");
  version newest = 0;
  unsigned calls = 0;
  const detail::held_engine found = s.opened().hold_for([&](detail::store_core& core) {
    newest = core.close_version();
    if (++calls > 1) return;
    s.insert("key", "second");
    s.tag();
    EXPECT_GT(s.compact().records_dropped, 0U);
  });
  EXPECT_FALSE(s.is_expired(newest));
  const auto value = detail::with_engine(*found, [&](const auto& engine) { return engine.find("key", newest); });
  EXPECT_EQ(value, "second");
}

/// The reader asks for the open version behind many closed ones: while these are checked, it may be closed.
TEST(CompactionOrder, a_version_that_is_closed_while_it_is_asked_for_shows_all_of_it) {
  const scratch folder(place::tmpfs);
  store s(folder / "packed.ice", opening());
  s.insert("key", "0");
  const version first = s.tag();
  helpers others;
  others.repeat([&] { static_cast<void>(s.compact()); });
  others.repeat([&] {
    s.insert("key", std::to_string(s.clock()));
    s.tag();
  });
  constexpr std::size_t many = 20'000;
  std::vector<std::string_view> keys(many, "none");  // found absent at once, however long the other history grows
  keys.back() = "key";
  std::vector<std::optional<std::string_view>> out(many);
  std::vector<version> at(many, first);
  unsigned shown = 0;
#if defined(__SANITIZE_THREAD__)
  constexpr unsigned enough = 25;  // each takes a tenth of a second there
#else
  constexpr unsigned enough = 2000;
#endif
  for (unsigned n = 0; n < 2000 && shown < enough; ++n) {
    at.back() = s.clock() + n % 4;
    try {
      const pin holds = s.find_many(keys, at, out);
      ++shown;
      ASSERT_EQ(out.back(), *s.find("key", at.back()));  // as any later reader
    } catch (const error& e) {
      ASSERT_EQ(e.code(), errc::version_not_closed);
    }
  }
  EXPECT_GT(shown, 0U);
}

TEST(CompactionOrder, feeds_find_what_is_written_where_a_range_of_before_began) {
  const scratch folder(place::tmpfs);
  store s(folder / "fed.ice", opening());
  s.insert("key", "1");
  const version before = s.tag();
  ASSERT_TRUE(s.compact().packed);
  s.insert("key", "2");
  const version v = s.tag();
  filling of_before;  // a range in the same place, as a writer has left it before the space was given back
  const detail::store_core& core = s.core();
  core.writers().for_each_slot([&](unsigned, const writer_slot& slot) {
    const filling::range now = slot.filled.read();
    if (now.from != now.to) of_before.begin(now.from);
  });
  ASSERT_NE(of_before.from(), null_link);
  core.shared().writers.filled.leave(of_before, of_before.from() + format::cache_line_size, before);

  const std::size_t changes = detail::with_engine(core, [&](const auto& engine) {
    detail::new_records since(core);
    const auto found = since.collect(engine, v - 1, v, 100);
    return found ? found->changes.size() : 0;
  });
  EXPECT_EQ(changes, 1U);
}

TEST(CompactionOrder, who_finds_a_writer_without_a_range_learns_that_ranges_do_not_lead_to_all) {
  const scratch folder;
  pool_set p(folder / "written.ice", opening());
  index::arena memory({});
  writer_set writers(p, memory, detail::shared_state::make_in(memory).writers);
  std::atomic<version> written{0};  // a range was filled up to it
  std::atomic<unsigned> missed{0};
  const auto write = [&](version v) {
    {
      const writer_lease w(writers);
      static_cast<void>(w->allocate(record_layout::of_insert(8, false)));
    }
    written = v;
  };
  write(1);
  helpers readers;
  readers.repeat([&] {
    const version known = written;
    bool found = false;
    writers.for_each_slot([&](unsigned, const writer_slot& slot) {
      const filling::range now = slot.filled.read();
      found = found || now.from != now.to;
    });
    if (!found && writers.filled().forgotten() < known) ++missed;
  });
  for (version v = 1; v < 20'000; ++v) {
    {
      const writer_set::gate stopped(writers);
      writers.prepare_generation(writers.segment_tails());
      writers.begin_generation(writers.generation() + 1, v);
    }
    write(v + 1);
  }
  readers.end();
  EXPECT_EQ(missed, 0U);
}

TEST(CompactionOrder, a_reader_beside_never_takes_a_version_for_that_of_an_older_manifest) {
  const scratch folder(place::tmpfs);
  const auto path = folder / "written.ice";
  store s(path, opening());
  pool_set& pools = s.core().the_pool();
  const std::uint32_t first = pools.roots().read().manifest;
  options reading = opening();
  reading.access = access::read_only;
  pool_set seen(path, reading, beside_writer{});
  helpers readers;
  std::atomic<unsigned> wrong{0};
  std::atomic<std::uint64_t> looks{0};
  readers.repeat([&] {
    const auto now = detail::settled_records(seen).settled();
    if (!now) return;
    ++looks;
    if (now->version > now->manifest) ++wrong;
  });
  constexpr unsigned manifests = 20'000;
  for (unsigned n = 1; n < manifests; ++n) {  // version n is written behind manifest n
    pools.roots().update_both([&](format::root& r) { r.manifest = n; });
    s.core().opened().settled->publish(n);
  }
  readers.end();
  pools.roots().update_both([&](format::root& r) { r.manifest = first; });
  EXPECT_EQ(wrong, 0U);
  EXPECT_GT(looks, 0U);
}

TEST(CompactionOrder, queries_that_take_the_place_of_dropped_ones_are_no_damage) {
  const scratch folder(place::tmpfs);
  store s(folder / "asked.ice", opening());
  s.insert("key", "1");
  const version v = s.tag();
  helpers queries;
  std::atomic<unsigned> started{0};
  for (const char name : {'a', 'b', 'c'}) {  // long ones: to write them takes time
    queries.repeat([&, name] {
      const query_request what{.name = std::string(30'000, name), .at = v, .keep = query_keeps::count};
      s.start(what).drop();
      ++started;
    });
  }
#if defined(__SANITIZE_THREAD__)
  const unsigned enough = 1'000;  // the sanitizer sees at once who looks without the lock
#else
  const unsigned enough = 60'000;
#endif
  const detail::store_core& core = s.core();
  std::string damage;
  while (started < enough && damage.empty()) {
    const query_findings found = check_queries_in_use(core.the_pool(), core.shared().queries);
    if (!found.damages.empty()) damage = found.damages.front().what;
  }
  queries.end();
  EXPECT_EQ(damage, "");
}

}  // namespace
}  // namespace icecore::testing
