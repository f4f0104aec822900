// Memory runs out at any moment: the call that meets it throws std::bad_alloc, what was acknowledged is there, and the
// store goes on, or opens again if it says that it must be.
//
// This program's allocations fail when a test wants it: malloc's, with which operator new and libpmem2 allocate; under
// a sanitizer, which needs malloc itself, those of operator new.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <new>

#include "base/memory/sanitizer.hpp"
#include "icecore/icecore.hpp"
#include "pool/pool.hpp"
#include "support/expect.hpp"
#include "support/model.hpp"
#include "support/scratch.hpp"
#include "support/sound_store.hpp"

namespace {

/// Counts down to the allocation that fails. Per thread: those of other threads never fail.
struct countdown {
  bool armed = false;
  bool for_good = false;  // that one and all after it
  long left = 0;
  bool failed = false;
};
thread_local countdown allocations;

bool fails() noexcept {
  if (!allocations.armed) return false;
  if (allocations.failed) return allocations.for_good;
  allocations.failed = allocations.left-- == 0;
  return allocations.failed;
}

}  // namespace

#if defined(ICECORE_UNDER_ADDRESS_SANITIZER) || defined(ICECORE_UNDER_THREAD_SANITIZER)
constexpr long stride = 13;  // each allocation takes several times as long here
constexpr bool malloc_fails = false;

void* operator new(std::size_t size) {
  void* const memory = fails() ? nullptr : std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return fails() ? nullptr : std::malloc(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

#else
constexpr long stride = 1;
constexpr bool malloc_fails = true;

struct folder_walk;

extern "C" {

/// libpmem2 looks for persistent memory at each mapping; glibc 2.36's fts_open() crashes if it gets no memory.
struct folder_walk* fts_open(char* const*, int, int (*)(const void*, const void*)) {
  errno = ENOENT;
  return nullptr;
}

void* __libc_malloc(std::size_t);  // NOLINT: the C library's names
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t size) noexcept { return fails() ? (errno = ENOMEM, nullptr) : __libc_malloc(size); }
void* calloc(std::size_t count, std::size_t size) noexcept {
  return fails() ? (errno = ENOMEM, nullptr) : __libc_calloc(count, size);
}
void* realloc(void* old, std::size_t size) noexcept {
  return fails() ? (errno = ENOMEM, nullptr) : __libc_realloc(old, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  return fails() ? (errno = ENOMEM, nullptr) : __libc_memalign(alignment, size);
}

}  // extern "C"

#endif

namespace icecore::testing {
namespace {

/// A call of the store and what it does to the model once it has returned.
struct operation {
  const char* name;
  std::function<void(store&)> call;
  std::function<void(model&)> happens = [](model&) {};
};

[[nodiscard]] batch some_batch() {
  batch together;
  together.insert("a", "of the batch");
  together.insert("new in the batch", std::string(5000, 'b'));
  together.remove("deep");
  return together;
}

[[nodiscard]] operation insert(std::string key, std::string value) {
  return {"insert", [=](store& s) { s.insert(key, value); }, [=](model& m) { m.insert(key, value); }};
}

/// Reading allocates what it returns; read_everything() compares the results afterwards.
[[nodiscard]] std::vector<operation> reading() {
  return {{"find", [](store& s) { (void)s.find("a"); }},
          {"find_many",
           [](store& s) {
             std::vector<std::string_view> keys(100, "a");
             std::vector<std::optional<std::string_view>> found(100);
             const pin holds = s.find_many(keys, s.clock() - 1, found);
           }},
          {"scan",
           [](store& s) {
             for (const auto& i : s.at(s.clock() - 1).range()) (void)i;
           }},
          {"scan backwards",
           [](store& s) {
             for (const auto& i : s.at(s.clock() - 1).range().reversed()) (void)i;
           }},
          {"history", [](store& s) { (void)s.history("deep").oldest_first(); }},
          {"diff",
           [](store& s) {
             for (const auto& d : s.diff(1, s.clock() - 1)) (void)d;
           }},
          {"keys", [](store& s) { (void)s.keys(); }},
          {"tags", [](store& s) { (void)s.tags(); }},
          {"extract", [](store& s) { (void)s.at(s.clock() - 1).extract(1); }},
          {"items", [](store& s) { (void)s.at(s.clock() - 1).items(1); }},
          {"size", [](store& s) { (void)s.at(s.clock() - 1).size(1); }},
          {"stats", [](store& s) { (void)s.stats(); }},
          {"verify", [](store& s) { (void)s.verify(); }}};
}

[[nodiscard]] std::vector<operation> script() {
  const batch together = some_batch();
  std::vector<operation> all;
  for (int i = 0; i < 70; ++i) all.push_back(insert("deep", std::to_string(i)));
  for (int i = 0; i < 40; ++i) all.push_back(insert("key-" + std::to_string(i), "value"));  // a leaf splits
  all.push_back(insert("a", "1"));
  all.push_back({"tag", [](store& s) { s.tag(); }, [](model& m) { m.close_version(); }});
  all.push_back({"tag with a name", [](store& s) { s.tag({.name = "a name", .note = "a note", .time_ns = 5}); },
                 [](model& m) {
                   m.tags.push_back({m.close_version(), 5, "a name", "a note"});
                 }});
  all.push_back({"remove", [](store& s) { (void)s.remove("a"); }, [](model& m) { (void)m.remove("a"); }});
  all.push_back({"batch", [=](store& s) { s.apply(together); }, [=](model& m) { m.apply(together); }});
  all.push_back(insert("large", std::string(200'000, 'l')));
  all.push_back(insert("larger", std::string(2'000'000, 'm')));  // the file grows
  all.push_back({"tag", [](store& s) { s.tag(); }, [](model& m) { m.close_version(); }});
  for (operation& one : reading()) all.push_back(std::move(one));
  return all;
}

class Allocations : public ::testing::TestWithParam<setting> {
 protected:
  void SetUp() override { steps_ = script(); }
  void TearDown() override { allocations = {}; }

  /// Runs the call. Returns true if memory ran out in it.
  template <class Call>
  bool ran_out(const Call& call) {
    bool thrown = false;
    allocations.armed = true;
    try {
      call();
    } catch (const std::bad_alloc&) {
      thrown = true;
    } catch (const error& failure) {
      allocations.armed = false;
      EXPECT_TRUE(failure.code() == errc::poisoned || failure.code() == errc::io) << failure.what();
      thrown = true;
    }
    allocations.armed = false;
    met_ = met_ || allocations.failed;
    return thrown;
  }

  /// Runs the script with the nth allocation failing. Returns whether there was an nth.
  bool run(long n, bool for_good) {
    met_ = false;
    std::filesystem::remove(path_);
    allocations = {false, for_good, n, false};
    model holds;
    std::optional<store> s;
    const options opening = GetParam().options();
    if (ran_out([&] { s.emplace(path_, opening); })) {
      allocations = {};
      s.emplace(path_, opening);
    }
    for (const operation& one : steps_) {
      SCOPED_TRACE(one.name);
      if (!ran_out([&] { one.call(*s); })) {
        one.happens(holds);
        continue;
      }
      allocations = {};
      go_on(s, holds);
    }
    (void)ran_out([&] { s->close(); });
    allocations = {};
    s.reset();
    const store again(path_, opening);
    read_everything(again, holds);
    EXPECT_TRUE(again.verify().ok());
    return met_;
  }

  /// After a failure the store answers and takes writes as before, or says that it must be opened again.
  void go_on(std::optional<store>& s, model& holds) {
    ++failures_;
    try {
      read_everything(*s, holds);
    } catch (const error& failure) {
      ASSERT_EQ(failure.code(), errc::poisoned) << failure.what();
      s.reset();  // closing a poisoned store fails, which is right
      s.emplace(path_, GetParam().options());
      ASSERT_GE(s->clock(), holds.clock);
      holds.clock = s->clock();
      read_everything(*s, holds);
    }
  }

  scratch folder_;
  std::filesystem::path path_ = folder_ / "memory.ice";
  std::vector<operation> steps_;
  bool met_ = false;
  unsigned failures_ = 0;
};

TEST_P(Allocations, whichever_fails_the_call_throws_and_nothing_acknowledged_is_lost) {
  long n = 0;
  while (run(n, false)) {
    ASSERT_FALSE(HasFailure()) << "allocation " << n << " failed";
    n += stride;
  }
  RecordProperty("allocations", static_cast<int>(n));
  EXPECT_GT(failures_, 100U / stride);
}

TEST_P(Allocations, when_none_succeeds_any_more_in_a_call_it_throws_and_nothing_acknowledged_is_lost) {
  for (long n = 0; run(n, true); n += 3 * stride)
    ASSERT_FALSE(HasFailure()) << "allocation " << n << " failed, and all after";
  EXPECT_GT(failures_, 30U / stride);
}

/// Whichever fails amid a kept query, the same call made again succeeds, and the answer is right.
TEST_P(Allocations, whichever_fails_a_kept_query_goes_on) {
  constexpr int keys = 40;
  unsigned failed = 0;
  bool met = true;
  const long step = GetParam().durability == durability::operation ? stride : 5 * stride;  // the others sync files
  for (long n = 0; met; n += step) {
    SCOPED_TRACE("allocation " + std::to_string(n));
    std::filesystem::remove(path_);
    allocations = {};
    store s(path_, GetParam().options());
    for (int i = 0; i < keys; ++i) s.insert("key-" + std::to_string(i), std::to_string(i));
    met_ = false;
    allocations = {false, false, n, false};
    const auto again_if_it_fails = [&](const auto& call) {
      if (!ran_out(call)) return;
      ++failed;
      met = true;
      allocations = {};
      call();
    };
    met = false;
    std::optional<query> q;
    again_if_it_fails([&] { q.emplace(s.start({.name = "q", .where = filter("ends_with(value, '3')")})); });
    again_if_it_fails([&] { q->run({.every_item = true, .keys = 9}); });
    again_if_it_fails([&] { q->acknowledge(1); });
    again_if_it_fails([&] { q.emplace(s.query("q")); });
    std::vector<std::string> rows;
    again_if_it_fails([&] {
      rows.clear();
      q->run();
      for (auto all = q->results(); const auto& row : all) rows.emplace_back(row.key);
    });
    EXPECT_EQ(rows, (std::vector<std::string>{"key-13", "key-23", "key-3", "key-33"}));
    EXPECT_EQ(q->progress().examined, keys);
    again_if_it_fails([&] { q->drop(); });
    again_if_it_fails([&] { EXPECT_TRUE(s.queries().empty()); });
    allocations = {};
    s.start({.name = "q"}).run();
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(failed, 20U / static_cast<unsigned>(step));
}

/// Whichever fails while an open store is packed: it goes on, and what is written afterwards is there when it is opened
/// again.
TEST_P(Allocations, whichever_fails_while_an_open_store_is_packed_later_writes_stay) {
  constexpr int keys = 40;
  const auto write = [](store& s, const std::string& value) {
    for (int i = 0; i < keys; ++i) s.insert("key-" + std::to_string(i), value);
    s.tag();
  };
  const std::string second(30'000, 's');  // all of them do not fit into the segments of before
  unsigned failed = 0;
  bool met = true;
  for (long n = 0; met; n += stride) {
    SCOPED_TRACE("allocation " + std::to_string(n));
    std::filesystem::remove(path_);
    allocations = {};
    std::optional<store> s(std::in_place, path_, GetParam().options());
    write(*s, "first");
    allocations = {false, false, n, false};
    if (ran_out([&] { s->compact({.threads = 1}); })) ++failed;
    met = allocations.failed;
    allocations = {};
    EXPECT_NO_THROW(write(*s, second));
    s.reset();
    s.emplace(path_, GetParam().options());
    for (int i = 0; i < keys; ++i) ASSERT_EQ(s->find("key-" + std::to_string(i)), second);
    EXPECT_TRUE(s->verify().ok());
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(failed, 20U / static_cast<unsigned>(stride));
}

/// Whichever fails: the checkpoint is there whole and the call returns, or it throws and nothing is there.
TEST_P(Allocations, whichever_fails_while_a_checkpoint_is_written_there_is_none_or_the_call_returns) {
  std::filesystem::remove(path_);
  store s(path_, GetParam().options());
  for (int i = 0; i < 40; ++i) s.insert("key-" + std::to_string(i), "value");
  const std::filesystem::path to = folder_ / "checkpoint.ice";
  unsigned failed = 0;
  bool met = true;
  for (long n = 0; met; n += stride) {
    SCOPED_TRACE("allocation " + std::to_string(n));
    const checkpoint cut = s.checkpoint();
    allocations = {false, false, n, false};
    const bool ran_out_of_memory = ran_out([&] { cut.write(to); });
    met = allocations.failed;
    allocations = {};
    if (ran_out_of_memory) ++failed;
    ASSERT_EQ(std::filesystem::exists(to), !ran_out_of_memory);
    if (!ran_out_of_memory) {
      ASSERT_TRUE(verify_file(to).ok());
    }
    std::filesystem::remove(to);
    std::filesystem::remove(to.native() + ".writing");
  }
  EXPECT_GT(failed, 3U / static_cast<unsigned>(stride));
}

INSTANTIATE_TEST_SUITE_P(EveryDurability, Allocations, ::testing::ValuesIn(tmpfs_settings()),
                         [](const auto& tested) { return tested.param.name(); });

TEST(Allocation, of_a_part_of_free_space_takes_no_memory_once_it_is_claimed) {
  constexpr std::uint64_t header = sizeof(format::segment_header);
  const scratch folder;
  pool space(folder / "store.ice", {});
  const segment hole = space.allocate(4 * format::granule_size - header);
  space.add_free(hole.offset, hole.size);
  segment part;
  EXPECT_NO_THROW(part = space.allocate(format::granule_size - header, format::segment_magic,
                                        [](const segment&) { allocations = {.armed = true, .for_good = true}; }));
  EXPECT_TRUE(allocations.armed);
  allocations = {};
  EXPECT_EQ(part.offset, hole.offset);
  EXPECT_EQ(space.allocate(3 * format::granule_size - header).offset, part.end()) << "the rest of it is free";
}

/// A frame that goes on with a history refers to one before it, for which zstd needs memory when it is inflated.
TEST(Allocation, that_fails_while_records_are_inflated_is_not_taken_for_damage) {
  if (!malloc_fails) GTEST_SKIP() << "zstd calls the sanitizer's malloc";
  const scratch folder{place::tmpfs};
  const std::filesystem::path path = folder / "store.ice";
  const auto value_of = [](version v) {
    return std::to_string(v * 7919) + std::string(4'000, 'v') + std::to_string(v);
  };
  constexpr version versions = 400;
  {
    store s(path);
    for (version v = 1; v <= versions; ++v) {
      s.insert("key", value_of(v));
      s.tag();
    }
    compaction_options how;
    how.compression = compression::zstd;
    ASSERT_TRUE(s.compact(how).packed);
  }
  unsigned failed = 0;
  bool met = true;
  for (long n = 0; met; n += stride) {
    const store s(path);
    met = false;
    for (version v = versions; v > 20; v -= 20) {
      allocations = {.armed = true, .left = n};
      try {
        (void)s.find("key", v);
      } catch (const std::bad_alloc&) {
        ++failed;
      }
      met = met || allocations.failed;
      allocations = {};
      ASSERT_EQ(s.find("key", v), value_of(v));
    }
  }
  EXPECT_GT(failed, 0U);
}

}  // namespace
}  // namespace icecore::testing
