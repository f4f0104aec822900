// What stores say and show while calls of the system fail: reads of a reader beside the writer, and threads.
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "failing_calls.hpp"
#include "icecore/icecore.hpp"
#include "support/expect.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

constexpr int keys = 3'000;
constexpr int calls_at_most = 60;  // of an opening

std::string key_of(int i) { return "key " + std::to_string(i); }

struct how {
  bool packed;
  bool never_locks;
};

class FailingReads : public ::testing::TestWithParam<how> {
 protected:
  FailingReads() : writer_(path_) {
    write("first");
    if (GetParam().packed) {
      EXPECT_TRUE(writer_.compact().packed);
    }
    write("second");
    writer_.sync();
  }
  void write(const std::string& name) {
    for (int i = 0; i < keys; ++i) writer_.insert(key_of(i), name + std::string(100, '.'));
    writer_.tag(name);
  }
  static void expect_all(const store& reader) {
    ASSERT_TRUE(reader.find_tag("second"));
    const snapshot now = reader.at("second");
    for (int i = 0; i < keys; ++i) ASSERT_EQ(now.find(key_of(i)), "second" + std::string(100, '.')) << i;
  }

  scratch folder_{place::tmpfs};
  std::filesystem::path path_ = folder_ / "written.ice";
  store writer_;
};

TEST_P(FailingReads, of_a_store_that_is_opened_beside_the_writer_are_told_or_do_not_matter) {
  options reading;
  reading.access = access::read_only;
  reading.never_locks = GetParam().never_locks;
  int refused = 0;
  for (int n = 0; n < calls_at_most; ++n) {
    try {
      const store reader = [&] {
        const failing_call broken("pread", EIO, {.after = n, .times = 1});
        return store(path_, reading);
      }();
      ASSERT_NO_FATAL_FAILURE(expect_all(reader)) << "call " << n << " failed";
    } catch (const error& told) {
      EXPECT_EQ(told.code(), errc::io) << told.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
}

TEST_P(FailingReads, of_a_refresh_are_told_or_do_not_matter) {
  options reading;
  reading.access = access::read_only;
  reading.never_locks = GetParam().never_locks;
  for (int n = 0; n < calls_at_most / 4; ++n) {
    store reader(path_, reading);
    const std::string added = "added " + std::to_string(n);
    for (int i = 0; i < 200; ++i) writer_.insert(added, std::string(2'000, 'a'));  // more segments
    writer_.tag(added);
    writer_.sync();
    try {
      const failing_call broken("pread", EIO, {.after = n, .times = 1});
      reader.refresh();
    } catch (const error& told) {
      EXPECT_EQ(told.code(), errc::io) << told.what();
    }
    reader.refresh();
    ASSERT_TRUE(reader.at(added).find(added)) << "call " << n << " failed";
    ASSERT_NO_FATAL_FAILURE(expect_all(reader)) << "call " << n << " failed";
  }
}

INSTANTIATE_TEST_SUITE_P(Each, FailingReads,
                         ::testing::Values(how{false, false}, how{false, true}, how{true, false}, how{true, true}));

// ---- Threads ----

TEST(NoThreads, a_store_that_would_pack_itself_is_not_opened_and_the_next_one_is) {
  const scratch folder(place::tmpfs);
  options opening;
  opening.compaction = compaction_mode::automatic;
  opening.grow_in_background = false;
  {
    const failing_call broken("pthread_create", EAGAIN);
    expect_error(errc::io, "no thread could be made", [&] { const store s(folder / "store.ice", opening); });
  }
  store s(folder / "store.ice", opening);
  s.insert("key", "value");
  EXPECT_EQ(s.find("key"), "value");
}

TEST(NoThreads, a_query_that_is_kept_is_run_by_its_caller_alone) {
  const scratch folder(place::disk);
  options opening;
  opening.grow_in_background = false;
  store s(folder / "store.ice", opening);
  for (int i = 0; i < keys; ++i) s.insert(key_of(i), "value");
  s.tag();
  const failing_call broken("pthread_create", EAGAIN);
  query all = s.start({.name = "all"});
  all.run();
  EXPECT_EQ(all.state(), query_state::finished);
  EXPECT_EQ(all.progress().rows, static_cast<std::uint64_t>(keys));
}

}  // namespace
}  // namespace icecore::testing
