// What recovery makes durable on persistent memory: the records of a killed process, which may be only in the caches,
// before anything says that they count. Otherwise a power cut soon after the opening would leave a root that certifies
// them.
//
// This program replaces the flushes: it stands in for libpmem2 and reports that memory is persistent memory.
#include <gtest/gtest.h>
#include <libpmem2.h>
#include <linux/magic.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "history/record.hpp"
#include "icecore/icecore.hpp"
#include "pool/format.hpp"
#include "pool/manifest/manifest.hpp"
#include "pool/query/query_space.hpp"
#include "store/core.hpp"
#include "store/packed/retention/forgetting.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/inside.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace {

/// Lines by address: flushed, with their content at that time; durable once a fence followed.
using lines = std::map<std::uintptr_t, std::string>;
lines on_their_way;
lines durable;
int file_syncs = 0;
std::function<void(std::uintptr_t line)> when_flushed;

constexpr std::uintptr_t line_size = icecore::format::cache_line_size;

void take_flush(const void* data, std::size_t size) {
  const auto first = reinterpret_cast<std::uintptr_t>(data) / line_size * line_size;
  for (std::uintptr_t at = first; at < reinterpret_cast<std::uintptr_t>(data) + size; at += line_size) {
    on_their_way[at] = std::string(reinterpret_cast<const char*>(at), line_size);
    if (when_flushed) when_flushed(at);
  }
}
void take_fence() {
  for (auto& [at, bytes] : on_their_way) durable[at] = std::move(bytes);
  on_their_way.clear();
}

/// By which processes share a store: on a memory file system.
constexpr std::string_view common_name = "common";
[[nodiscard]] bool is_common(int descriptor) noexcept {
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t size = readlink(link.c_str(), path, sizeof path);
  return size > 0 && std::string_view(path, static_cast<std::size_t>(size)).ends_with(common_name);
}

}  // namespace

extern "C" {

int fstatfs(int descriptor, struct statfs* about) noexcept {
  const auto result = static_cast<int>(syscall(SYS_fstatfs, descriptor, about));
  if (result == 0 && !is_common(descriptor)) about->f_type = EXT4_SUPER_MAGIC;  // with DAX
  return result;
}
int fdatasync(int descriptor) {
  ++file_syncs;
  return static_cast<int>(syscall(SYS_fdatasync, descriptor));
}
pmem2_granularity pmem2_map_get_store_granularity(pmem2_map*) { return PMEM2_GRANULARITY_CACHE_LINE; }
pmem2_flush_fn pmem2_get_flush_fn(pmem2_map*) { return take_flush; }
pmem2_drain_fn pmem2_get_drain_fn(pmem2_map*) { return take_fence; }

}  // extern "C"

namespace icecore::testing {
namespace {

class RecoveryFlush : public ::testing::TestWithParam<index_kind> {
 protected:
  void SetUp() override { setenv("PMEM2_FORCE_GRANULARITY", "CACHE_LINE", 1); }
  void TearDown() override { unsetenv("PMEM2_FORCE_GRANULARITY"); }
  [[nodiscard]] options opening(durability mode = durability::operation) const {
    options o;
    o.durability = mode;
    o.index = GetParam();
    return o;
  }
  /// What a process leaves that is killed when it has put a segment's header somewhere: `put` does so and returns
  /// where.
  struct left_file {
    std::string bytes;
    link header;
  };
  [[nodiscard]] left_file killed_behind(const std::function<link(pool&)>& put) const {
    store s(path_, opening());
    s.insert("key", "value");
    announce_packed_segments(s.core().the_pool());
    const link header = put(s.core().the_pool().first());
    return {read_file(path_), header};
  }
  /// The file that a killed process leaves, with everything that was in the caches.
  void write_and_be_killed(durability mode) {
    std::string left;
    {
      store s(path_, opening(mode));
      for (int i = 0; i < 50; ++i) s.insert("key " + std::to_string(i), std::to_string(i));
      for (int i = 0; i < 50; i += 2) s.insert("key " + std::to_string(i), std::string(100, 'u'));
      s.insert("large", std::string(5000, 'l'));
      left = read_file(path_);
    }
    write_file(path_, left);
    on_their_way.clear();
    durable.clear();
  }

  /// A process is killed behind its stores to the first slot.
  void expect_retention_is_kept() {
    constexpr retention set{.newest = 7};
    constexpr std::uint64_t first_slot = format::manifest_anchor_offset + offsetof(format::manifest_anchor, retention);
    std::string left;
    {
      store s(path_, opening());
      s.insert("key", "value");
      s.set_retention({.newest = 3});
      left = read_file(path_);
      s.set_retention(set);
      left.replace(first_slot, sizeof(format::retention_slot),
                   read_file(path_).substr(first_slot, sizeof(format::retention_slot)));
    }
    write_file(path_, left);
    on_their_way.clear();
    durable.clear();
    const store s(path_, opening());
    ASSERT_TRUE(s.stats().recovered_from_crash);
    ASSERT_EQ(s.retention(), set);
    const char* const at = reinterpret_cast<const char*>(s.core().the_pool().first().base()) + first_slot;
    for (std::size_t i = 0; i < sizeof(format::retention_slot); ++i) {
      const auto address = reinterpret_cast<std::uintptr_t>(at + i);
      const auto found = durable.find(address / line_size * line_size);
      ASSERT_TRUE(found != durable.end()) << "byte " << i << " was not flushed and fenced";
      ASSERT_EQ(found->second[address % line_size], at[i]);
    }
  }

  scratch folder_;
  std::filesystem::path path_ = folder_ / "killed.ice";
};

[[nodiscard]] std::uintptr_t line_of(const void* at) {
  return reinterpret_cast<std::uintptr_t>(at) / line_size * line_size;
}

TEST_P(RecoveryFlush, a_reader_syncs_what_a_killed_process_left_before_it_shows_it) {
  write_and_be_killed(durability::operation);
  options reading = opening();
  reading.access = access::read_only;
  file_syncs = 0;
  const store s(path_, reading);
  EXPECT_GE(file_syncs, 1);
  EXPECT_EQ(s.find("key 1"), "1");
}

TEST_P(RecoveryFlush, all_that_counts_is_durable_when_the_store_is_open) {
  for (const durability mode : {durability::none, durability::operation}) {
    SCOPED_TRACE(static_cast<int>(mode));
    std::filesystem::remove(path_);
    write_and_be_killed(mode);
    const store s(path_, opening());
    const lines then = durable;  // readers flush what is not known to be durable
    ASSERT_EQ(s.durability().medium, medium::persistent_memory);
    ASSERT_TRUE(s.stats().recovered_from_crash);
    unsigned looked_at = 0;
    const auto expect_durable = [&](link l) {
      const record r(s.core().the_pool().at(l));
      const auto* const begin = reinterpret_cast<const char*>(r.address());
      for (const char* at = begin; at < begin + r.layout().size(); ++at, ++looked_at) {
        // an entry's head is recomputed at each opening; a stamp's last byte says that this process found it durable
        constexpr std::ptrdiff_t head = offsetof(format::entry_header, head);
        constexpr std::ptrdiff_t persisted = offsetof(format::record_header, stamp) + 7;
        if (r.is_entry() && at - begin >= head && at - begin < head + 16) continue;
        if (at - begin == persisted) continue;
        const auto address = reinterpret_cast<std::uintptr_t>(at);
        const auto found = then.find(address / line_size * line_size);
        ASSERT_TRUE(found != then.end()) << "byte " << link_offset(l) << " was not flushed and fenced";
        ASSERT_EQ(found->second[address % line_size], *at)
            << "byte " << link_offset(l) << " was changed behind the fence";
      }
    };
    for (int i = 0; i < 50; ++i) {
      const link newest = shown_record(s, "key " + std::to_string(i));
      expect_durable(newest);
      const record r(s.core().the_pool().at(newest));
      if (r.is_update()) expect_durable(r.as_update().entry);
      if (HasFailure()) return;
    }
    expect_durable(shown_record(s, "large"));
    EXPECT_GT(looked_at, 5000U);
  }
}

// Its records take their generation from the header, which the killed process may have left in the caches.
using OpeningAtOnceFlush = RecoveryFlush;
TEST_P(OpeningAtOnceFlush, the_header_of_a_segment_that_is_gone_on_with_is_durable_when_the_store_is_open) {
  write_and_be_killed(durability::operation);
  const store s(path_, opening());
  const lines then = durable;
  ASSERT_TRUE(s.stats().recovered_instantly);
  ASSERT_TRUE(s.stats().recovered_from_crash);
  const link record_at = shown_record(s, "key 0");
  const auto* const header =
      reinterpret_cast<const char*>(s.core().the_pool().at(record_at / format::granule_size * format::granule_size));
  for (std::size_t i = 0; i < sizeof(format::segment_header); ++i) {
    const auto address = reinterpret_cast<std::uintptr_t>(header + i);
    const auto found = then.find(address / line_size * line_size);
    ASSERT_TRUE(found != then.end()) << "byte " << i << " was not flushed and fenced";
    ASSERT_EQ(found->second[address % line_size], header[i]) << "byte " << i << " was changed behind the fence";
  }
}

// What an instant recovery finds before the end of the used part is a segment, or a claim leads to it: it looks at no
// other header. A half header there would be damage to the opening behind the next close.
TEST_P(OpeningAtOnceFlush, the_end_moves_behind_a_segment_whose_header_is_durable) {
  store s(path_, opening());
  s.insert("key", "value");
  pool& p = s.core().the_pool().first();
  auto& anchor = *reinterpret_cast<format::index_anchor*>(p.at(p.roots().read().anchor));
  const auto header = [&p](link at) {
    return std::string(reinterpret_cast<const char*>(p.at(at)), sizeof(format::segment_header));
  };
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t before = p.used_end();
    const std::uint64_t word = anchor.used_end[0];
    bool has_moved = false;
    when_flushed = [&](std::uintptr_t line) {
      if (line != line_of(&anchor.used_end[0]) || anchor.used_end[0] == word) return;
      has_moved = true;
      ASSERT_TRUE(p.valid_header(before, format::forget_segment_magic));
      const auto there = durable.find(line_of(p.at(before)));
      ASSERT_TRUE(there != durable.end());
      ASSERT_EQ(there->second, header(before));
    };
    const segment made = p.allocate(100, format::forget_segment_magic, {});
    when_flushed = {};
    ASSERT_FALSE(HasFailure());
    EXPECT_TRUE(has_moved);
    EXPECT_EQ(made.offset, before);
    // before anything is put into the segment
    const std::string& line = durable[line_of(&anchor.used_end[0])];
    const auto at = reinterpret_cast<std::uintptr_t>(&anchor.used_end[0]) % line_size;
    std::uint64_t noted = 0;
    std::memcpy(&noted, line.data() + at, sizeof noted);
    EXPECT_EQ(noted, anchor.used_end[0]);
    EXPECT_EQ(noted & format::stamp_version_mask, link_offset(made.end()));
  }
}

// A process that shares the store is killed amid the header of a segment that it gives out. Whoever goes on counts it
// as given out: half a header before the end that is noted would be damage to the opening behind a power cut.
TEST_P(OpeningAtOnceFlush, the_end_moves_behind_half_a_header_of_a_killed_process_when_that_is_gone) {
  options first = opening();
  first.shared_as = folder_ / std::string(common_name);
  const shared<std::atomic<bool>> is_shared;
  child other([&] {
    while (!*is_shared) std::this_thread::sleep_for(std::chrono::microseconds(100));
    options beside;
    beside.access = access::attached;
    beside.shared_as = first.shared_as;
    const store s(path_, beside);
    pool& p = s.core().the_pool().first();
    static_cast<void>(p.allocate(100, format::forget_segment_magic, [&p](const segment& claimed) {
      p.header_of(claimed.offset).magic = format::forget_segment_magic;
      ::raise(SIGKILL);
    }));
    return 0;
  });
  store s(path_, first);
  s.insert("key", "value");
  pool& p = s.core().the_pool().first();
  const auto& anchor = *reinterpret_cast<format::index_anchor*>(p.at(p.roots().read().anchor));
  const std::uint64_t before = p.used_end();
  *is_shared = true;
  ASSERT_EQ(other.wait(), -SIGKILL);
  ASSERT_EQ(p.header_of(before).magic, format::forget_segment_magic);
  bool has_moved = false;
  when_flushed = [&](std::uintptr_t line) {
    if (line != line_of(&anchor.used_end[0])) return;
    has_moved = true;
    const auto there = durable.find(line_of(p.at(before)));
    ASSERT_TRUE(there != durable.end()) << "it was not flushed and fenced";
    EXPECT_EQ(there->second, std::string(line_size, '\0'));
  };
  p.settle();
  when_flushed = {};
  EXPECT_TRUE(has_moved);
  EXPECT_EQ(p.used_end(), before + format::granule_size);
  const std::string& line = durable[line_of(&anchor.used_end[0])];
  EXPECT_EQ(line, std::string(reinterpret_cast<const char*>(line_of(&anchor.used_end[0])), line_size));
}

// A power cut between the two: a request to forget would be found there, and cleared by the compaction, when that place
// is part of another segment.
TEST_P(OpeningAtOnceFlush, a_header_behind_the_end_is_cleared_when_the_store_is_open) {
  auto [left, at] = killed_behind([](pool& p) {
    const link end = make_link(0, p.used_end());
    return p.format_segment(end, format::granule_size, format::forget_segment_magic).offset;
  });
  for (const bool is_whole : {true, false}) {
    SCOPED_TRACE(is_whole);
    if (!is_whole) std::memset(left.data() + at + offsetof(format::segment_header, generation), 0, 8);
    write_file(path_, left);
    on_their_way.clear();
    durable.clear();
    const store s(path_, opening());
    ASSERT_TRUE(s.stats().recovered_instantly);
    ASSERT_TRUE(s.stats().recovered_from_crash);
    EXPECT_EQ(durable[line_of(s.core().the_pool().at(at))], std::string(line_size, '\0'));
    EXPECT_TRUE(detail::forgotten_keys(s.core().the_pool()).segments().empty());
  }
}

// A power cut behind the next clean close would leave a part of it: damage to the opening behind that.
TEST_P(RecoveryFlush, the_header_of_a_request_that_a_killed_process_left_is_durable_when_the_store_is_open) {
  const auto [left, at] =
      killed_behind([](pool& p) { return p.allocate(100, format::forget_segment_magic, {}).offset; });
  write_file(path_, left);
  on_their_way.clear();
  durable.clear();
  const store s(path_, opening());
  ASSERT_TRUE(s.stats().recovered_from_crash);
  const auto* const header = reinterpret_cast<const char*>(s.core().the_pool().at(at));
  const auto found = durable.find(line_of(header));
  ASSERT_TRUE(found != durable.end()) << "it was not flushed and fenced";
  EXPECT_EQ(found->second, std::string(header, line_size));
}

TEST_P(RecoveryFlush, the_retention_that_a_killed_process_set_is_durable_when_the_store_is_open) {
  expect_retention_is_kept();
}

TEST_P(OpeningAtOnceFlush, the_retention_that_a_killed_process_set_is_durable_when_the_store_is_open) {
  expect_retention_is_kept();
}

// A version that expires by a release which a power cut then takes back would be held, and be gone.
TEST_P(RecoveryFlush, the_release_that_a_killed_process_made_is_durable_when_a_version_expires_by_it) {
  std::string left;
  std::string line;
  {
    store s(path_, opening());
    for (int i = 0; i < 3; ++i) {
      s.insert("key", std::to_string(i));
      s.tag();
    }
    s.hold_version("one", 1);
    s.set_retention({.newest = 1});
    const query_space space(s.core().the_pool(), s.core().shared().queries);
    const link head = space.heads([](link, const std::string&) {}).front();
    space.write(space.head_at(head).state, static_cast<std::uint64_t>(format::query_phase::dropped));
    left = read_file(path_);  // as it is killed before it makes that durable
    line = left.substr(link_offset(head) + sizeof(format::segment_header), line_size);
  }
  for (const bool while_open : {true, false}) {
    write_file(path_, left);
    on_their_way.clear();
    durable.clear();
    std::optional<store> s;
    if (while_open) s.emplace(path_, opening());
    const compaction_report done = while_open ? s->compact() : compact(path_, opening());
    EXPECT_EQ(done.versions_expired, 2U);
    const auto found = std::ranges::find(durable, line, [](const auto& each) { return each.second; });
    EXPECT_TRUE(found != durable.end()) << (while_open ? "open" : "alone") << ": it was not flushed and fenced";
  }
}

// A crash may have cut off the change before this one when one of the two slots was durable: that one counts.
TEST_P(RecoveryFlush, the_retention_that_counts_is_the_last_to_be_overwritten) {
  store s(path_, opening());
  auto& anchor =
      *reinterpret_cast<format::manifest_anchor*>(s.core().the_pool().first().base() + format::manifest_anchor_offset);
  const auto slot = [&](int n) {
    return std::string(reinterpret_cast<const char*>(&anchor.retention[n]), sizeof anchor.retention[n]);
  };
  constexpr retention one{.newest = 1};
  constexpr retention two{.newest = 2};
  for (const int durable_one : {0, 1}) {
    s.set_retention(one);
    const std::string before = slot(0);
    s.set_retention(two);
    std::memcpy(&anchor.retention[1 - durable_one], before.data(), before.size());
    ASSERT_EQ(s.retention(), two);
    const std::string counts = slot(durable_one);
    bool is_first = true;
    when_flushed = [&](std::uintptr_t line) {
      if (line != line_of(&anchor.retention[0]) && line != line_of(&anchor.retention[1])) return;
      if (!std::exchange(is_first, false)) return;
      EXPECT_EQ(slot(durable_one), counts);
    };
    s.set_retention({.tagged = true});
    when_flushed = {};
    EXPECT_FALSE(is_first);
  }
}

// Index pairs that a session without flushes left in the caches are never flushed later. And a session without flushes
// must not continue what one with flushes left, while the root still says that lines were flushed.
TEST_P(OpeningAtOnceFlush, a_session_is_opened_at_once_by_one_that_makes_durable_in_the_same_way_alone) {
  constexpr durability modes[] = {durability::none, durability::tag, durability::operation};
  for (const durability before : modes) {
    for (const durability after : modes) {
      SCOPED_TRACE(static_cast<int>(before));
      SCOPED_TRACE(static_cast<int>(after));
      std::filesystem::remove(path_);
      write_and_be_killed(before);
      const store s(path_, opening(after));
      ASSERT_TRUE(s.stats().recovered_from_crash);
      const bool same = (before == durability::operation) == (after == durability::operation);
      EXPECT_EQ(s.stats().recovered_instantly, same);
      for (int i = 1; i < 50; i += 2) ASSERT_EQ(s.find("key " + std::to_string(i)), std::to_string(i));
    }
  }
}

// The batch's keys that came before the failing one stay in the index. What lies behind them in the segment may be
// another thread's, whose fence orders no flush of this thread.
TEST_P(OpeningAtOnceFlush, keys_of_a_batch_that_fails_are_durable_when_it_has_failed) {
  store s(path_, opening());
  // a leaf has room for one key, and no node can be allocated for a second one
  for (unsigned i = 0; i + 1 < format::index_pairs_max; ++i) s.insert("key " + std::to_string(100 + i), "value");
  auto& pools = s.core().the_pool();
  auto& anchor = *reinterpret_cast<format::index_anchor*>(pools.at(pools.roots().read().anchor));
  std::vector<std::uint64_t> as_they_were;
  for (auto& source : anchor.nodes) as_they_were.push_back(source.position.exchange(1));
  on_their_way.clear();
  batch together;
  together.insert("key 200", std::string(100, 'x'));
  together.insert("key 201", "y");
  expect_error(errc::damaged, "a link of the index fails its check", [&] { s.apply(together); });
  const link first = s.core().entry_of("key 200");
  ASSERT_NE(first, null_link);
  ASSERT_EQ(s.core().entry_of("key 201"), null_link);
  EXPECT_TRUE(durable.contains(reinterpret_cast<std::uintptr_t>(pools.at(first)) / line_size * line_size));
  EXPECT_TRUE(on_their_way.empty()) << on_their_way.size() << " lines were flushed and not fenced";
  for (std::size_t i = 0; i < std::size(anchor.nodes); ++i) anchor.nodes[i].position = as_they_were[i];
  s.apply(together);
  EXPECT_EQ(s.find("key 201"), "y");
}

INSTANTIATE_TEST_SUITE_P(Lasting, OpeningAtOnceFlush, ::testing::Values(index_kind::persistent),
                         [](const auto&) { return "persistent"; });
INSTANTIATE_TEST_SUITE_P(Indexes, RecoveryFlush, ::testing::Values(index_kind::btree, index_kind::skip_list),
                         [](const auto& about) { return about.param == index_kind::btree ? "btree" : "skip_list"; });

}  // namespace
}  // namespace icecore::testing
