// What an opening after a kill, and a clean close, have made durable on persistent memory: everything that the next
// opening relies on, whatever a killed process had left only in the caches. The machine may stop right after them.
//
// This program replaces the flushes: it stands in for libpmem2 and reports that memory is persistent memory. The medium
// has what was flushed and fenced, and no other line.
#include <gtest/gtest.h>
#include <libpmem2.h>
#include <linux/magic.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "icecore/icecore.hpp"
#include "index/persistent/persistent_index.hpp"
#include "pool/format.hpp"
#include "store/core.hpp"
#include "support/file.hpp"
#include "support/inside.hpp"
#include "support/scratch.hpp"

namespace {

using lines = std::map<std::uintptr_t, std::string>;
constexpr std::uintptr_t line_size = icecore::format::cache_line_size;

/// Lines by address: flushed, with their content at that time; durable once a fence followed.
lines on_their_way;
lines durable;
/// What a process leaves that is killed before its flush number `at_flush`.
struct left_by_kill {
  std::uint64_t at_flush = 0;  // 0: no process is killed
  std::filesystem::path path;
  std::optional<std::string> caches;
  lines durable;
} killed;
std::uint64_t flushes = 0;
/// Where the file is mapped, and what the medium had of it when the session began; logs are checked only in a session.
const std::byte* mapped_at = nullptr;
std::optional<std::string> medium_before;

std::string on_medium(const std::byte* first, std::size_t size) {
  std::string all;
  for (const std::byte* at = first; at < first + size; at += line_size) {
    const auto found = durable.find(reinterpret_cast<std::uintptr_t>(at));
    const auto offset = static_cast<std::size_t>(at - mapped_at);
    const bool was_there = offset < medium_before->size();
    all += found != durable.end() ? found->second
           : was_there            ? medium_before->substr(offset, line_size)
                                  : std::string(line_size, '\0');
  }
  return all;
}

/// While one copy of a writer's log is written, and may be torn, the other one must be durable.
void look_at_log(const void* flushed) {
  using namespace icecore::format;
  constexpr std::size_t size = sizeof(writer_log);
  constexpr std::size_t logs = first_segment_offset + sizeof(segment_header) + offsetof(index_anchor, writers);
  static_assert(logs % line_size == 0 && size % line_size == 0);
  const auto copy = (static_cast<std::size_t>(static_cast<const std::byte*>(flushed) - mapped_at) - logs) / size;
  if (copy >= 2 * writers_max) return;
  const auto is_durable = [&](std::size_t n) {
    const std::byte* const at = mapped_at + logs + n * size;
    return on_medium(at, size) == std::string(reinterpret_cast<const char*>(at), size);
  };
  if (!is_durable(copy) && !is_durable(copy ^ 1))
    ADD_FAILURE() << "neither copy of the log of writer " << copy / 2 << " is durable";
}

void take_flush(const void* data, std::size_t size) {
  if (medium_before && size == sizeof(icecore::format::writer_log)) look_at_log(data);
  if (++flushes == killed.at_flush) {
    killed.caches = icecore::testing::read_file(killed.path);
    killed.durable = durable;
  }
  const auto first = reinterpret_cast<std::uintptr_t>(data) / line_size * line_size;
  for (std::uintptr_t at = first; at < reinterpret_cast<std::uintptr_t>(data) + size; at += line_size) {
    on_their_way[at] = std::string(reinterpret_cast<const char*>(at), line_size);
  }
}
void take_fence() {
  for (auto& [at, bytes] : on_their_way) durable[at] = std::move(bytes);
  on_their_way.clear();
}

}  // namespace

extern "C" {

int fstatfs(int descriptor, struct statfs* about) noexcept {
  const auto result = static_cast<int>(syscall(SYS_fstatfs, descriptor, about));
  if (result == 0) about->f_type = EXT4_SUPER_MAGIC;  // with DAX
  return result;
}
pmem2_granularity pmem2_map_get_store_granularity(pmem2_map* map) {
  mapped_at = static_cast<const std::byte*>(pmem2_map_get_address(map));
  return PMEM2_GRANULARITY_CACHE_LINE;
}
pmem2_flush_fn pmem2_get_flush_fn(pmem2_map*) { return take_flush; }
pmem2_drain_fn pmem2_get_drain_fn(pmem2_map*) { return take_fence; }

}  // extern "C"

namespace icecore::testing {
namespace {

class ClosingFlush : public ::testing::Test {
 protected:
  void SetUp() override { setenv("PMEM2_FORCE_GRANULARITY", "CACHE_LINE", 1); }
  void TearDown() override { unsetenv("PMEM2_FORCE_GRANULARITY"); }
  [[nodiscard]] static options opening() {
    options o;
    o.durability = durability::operation;
    o.index = index_kind::persistent;
    return o;
  }
  /// Opens the store, does something and closes it; then the medium gets what is durable. Other files get what was
  /// durable when a process was killed in the session, when the store was open, and when the work was done.
  template <class Work>
  void session(const Work& work) {
    on_their_way.clear();
    durable.clear();
    flushes = 0;
    medium_before = medium_;
    const std::byte* base = nullptr;
    lines when_open;
    std::size_t size_when_open = 0;
    lines when_done;
    std::size_t size_when_done = 0;
    {
      store s(path_, opening());
      when_open = durable;
      size_when_open = std::filesystem::file_size(path_);
      base = s.core().the_pool().at(null_link);
      work(s);
      when_done = durable;
      size_when_done = std::filesystem::file_size(path_);
      s.close();
    }
    medium_before.reset();
    medium_when_open_ = medium_;
    bring(when_open, base, size_when_open, medium_when_open_);
    medium_when_done_ = medium_;
    bring(when_done, base, size_when_done, medium_when_done_);
    if (killed.caches) {
      medium_at_kill_ = medium_;
      bring(killed.durable, base, killed.caches->size(), medium_at_kill_);
    }
    bring(durable, base, read_file(path_).size(), medium_);
  }
  static void bring(const lines& from, const std::byte* base, std::size_t size, std::string& medium) {
    medium.resize(size);
    const auto begin = reinterpret_cast<std::uintptr_t>(base);
    for (const auto& [at, bytes] : from) {
      if (at >= begin && at + line_size <= begin + size) medium.replace(at - begin, line_size, bytes);
    }
  }

  /// Keys that split leaves and add a level on top; updates, removals, a batch; segments and tags that need more room.
  static void write(store& s, unsigned round) {
    const std::string mark = std::to_string(round);
    for (int i = 0; i < 40; ++i) s.insert("key " + std::to_string(i * 7 % 40 + 100) + mark, mark);
    for (int i = 0; i < 12; ++i) s.insert("key " + std::to_string(i * 5 + 100), std::string(4000, 'l'));
    for (int i = 0; i < 12; ++i) s.insert("key " + std::to_string(i * 5 + 100), "update " + mark);
    for (int i = 0; i < 30; ++i) s.tag("tag " + mark + " " + std::to_string(i));
    s.remove("key 100");
    batch together;
    together.insert("key 105", "of a batch " + mark);
    together.insert("new " + mark, "of a batch");
    s.apply(together);
    write_into_segments(s);
  }
  /// In a new store one segment is left with room; another is filled, left, and put on the same list, from which the
  /// first is taken.
  static void write_into_segments(store& s) {
    for (const std::size_t size : {50'000U, 20'000U, 36'000U, 12'000U, 60'000U})
      s.insert("large", std::string(size, 'l'));
  }
  static std::string content(const store& s) {
    std::string all;
    for (const std::string_view key : s.keys()) {
      all.append(key).append(":");
      for (const change& c : s.history(key).oldest_first())
        all.append(" ").append(std::to_string(c.version)).append("=").append(c.value ? c.value->substr(0, 20) : "-");
      all.append("\n");
    }
    for (const tag_info& t : s.tags()) all.append(t.name).append(" ").append(std::to_string(t.version)).append("\n");
    return all;
  }
  static void expect_sound(const store& s) {
    for (const std::string& wrong : s.core().index().check()) ADD_FAILURE() << wrong;
    const auto& index = dynamic_cast<const index::persistent_index&>(s.core().index());
    for (const std::string& wrong : index.lost_nodes()) ADD_FAILURE() << wrong;
    for (const std::string& wrong : segments_of(s).check()) ADD_FAILURE() << wrong;
    for (const damage& d : s.verify().damages) ADD_FAILURE() << d.structure << ": " << d.what;
  }
  /// What the store contains if the machine stops with this on the medium.
  [[nodiscard]] std::string content_of(const std::string& medium) {
    write_file(path_, medium);
    const store s(path_, opening());
    EXPECT_TRUE(s.stats().recovered_instantly);
    expect_sound(s);
    return content(s);
  }

  /// Kills the process that works on the store as it is, at one flush in `one_in`. What the next process finds is
  /// durable when it has opened the store, and everything is when it has done its work, and when it has closed the
  /// store. Returns the number of kills.
  template <class Work, class Next>
  unsigned kill_in(const Work& work, std::uint64_t one_in, const Next& work_of_next) {
    const std::string closed = read_file(path_);
    const std::string medium = medium_;
    killed.path = path_;
    unsigned kills = 0;
    for (std::uint64_t at = one_in; !HasFailure(); at += one_in) {
      write_file(path_, closed);
      medium_ = medium;
      killed.at_flush = at;
      session(work);
      killed.at_flush = 0;
      if (!killed.caches) break;
      ++kills;
      SCOPED_TRACE("killed at flush " + std::to_string(at));
      const std::string caches = *std::exchange(killed.caches, std::nullopt);
      std::string wanted;
      write_file(path_, caches);
      {
        const store s(path_, opening());
        EXPECT_TRUE(s.stats().recovered_instantly);
        wanted = content(s);
      }
      write_file(path_, caches);
      medium_ = medium_at_kill_;
      std::string written;
      session([&](store& s) {
        work_of_next(s);
        written = content(s);
      });
      EXPECT_EQ(content_of(medium_when_open_), wanted);
      EXPECT_EQ(content_of(medium_when_done_), written);
      EXPECT_EQ(content_of(medium_), written);
    }
    return kills;
  }

  scratch folder_;
  std::filesystem::path path_ = folder_ / "closed.ice";
  std::string medium_;
  std::string medium_at_kill_;
  std::string medium_when_open_;
  std::string medium_when_done_;
};

TEST_F(ClosingFlush, what_a_session_wrote_or_met_is_durable_when_it_is_closed) {
  std::string before;
  session([&](store& s) {
    write(s, 1);
    before = content(s);
  });
  EXPECT_EQ(content_of(medium_), before);
  write_file(path_, medium_);
  session([&](store& s) { EXPECT_EQ(content(s), before); });
  const std::string closed = read_file(path_);
  EXPECT_EQ(content_of(medium_), before);
  write_file(path_, closed);  // the machine goes on: a line that is flushed now takes along everything in it
  session([&](store& s) {
    EXPECT_FALSE(s.tags().empty());
    write(s, 2);
    before = content(s);
  });
  EXPECT_EQ(content_of(medium_), before);
}

TEST_F(ClosingFlush,
       what_a_killed_process_left_in_the_caches_is_durable_when_the_next_one_has_opened_the_store_and_closed_it) {
  session([](store& s) { write(s, 1); });
  EXPECT_GT(kill_in([](store& s) { write(s, 2); }, 4, [](store&) {}), 80U);
}

TEST_F(ClosingFlush, so_it_is_where_the_process_was_killed_while_a_segment_changed_hands) {
  session([](store&) {});
  EXPECT_GT(kill_in(write_into_segments, 1, write_into_segments), 20U);
}

// The next writer may put another segment in front of the one just linked, and opening looks no further.
TEST_F(ClosingFlush, a_change_of_segments_is_durable_before_the_next_one_begins) {
  session([](store& s) { write(s, 1); });
  write_file(path_, medium_);
  store s(path_, opening());
  auto& segments = const_cast<logged_segments&>(segments_of(s));
  constexpr unsigned writer = format::writers_max - 1;  // not in use
  segment_tail place{};
  for (int i = 0; i < 2; ++i) {
    place = segments.change(writer, place, {}, 0, 1000, 0);
    EXPECT_TRUE(on_their_way.empty());
  }
  segments.abandon(writer, place, {}, 0);
  s.close();
}

}  // namespace
}  // namespace icecore::testing
