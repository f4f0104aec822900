// System calls fail: the store reports it, never claims anything untrue, and opens again with everything acknowledged.
//
// The calls below replace the C library's in this program, and fail when a test wants it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <optional>
#include <utility>

#include "icecore/icecore.hpp"
#include "support/expect.hpp"
#include "support/model.hpp"
#include "support/scratch.hpp"

namespace {

/// Which calls fail: the one after `calls_left` more, and the `times` - 1 calls after it.
struct {
  int calls_left = -1;  // negative: none
  int times = 1;
  int error = EIO;
  bool syncs_only = false;
  int made = 0;
} faults;

/// What the next fdatasync() does first.
std::function<void()> at_next_sync;

bool fails(bool is_sync) {
  if (faults.syncs_only && !is_sync) return false;
  ++faults.made;
  if (faults.calls_left < 0) return false;
  if (faults.calls_left-- > 0) return false;
  if (--faults.times > 0) faults.calls_left = 0;
  return true;
}

}  // namespace

extern "C" {

int fdatasync(int descriptor) {
  if (const auto first = std::exchange(at_next_sync, nullptr)) first();
  if (fails(true)) {
    errno = faults.error;
    return -1;
  }
  return static_cast<int>(syscall(SYS_fdatasync, descriptor));
}

int fsync(int descriptor) {
  if (fails(true)) {
    errno = faults.error;
    return -1;
  }
  return static_cast<int>(syscall(SYS_fsync, descriptor));
}

int posix_fallocate(int descriptor, off_t offset, off_t length) {
  if (fails(false)) return faults.error;
  return syscall(SYS_fallocate, descriptor, 0, offset, length) == 0 ? 0 : errno;
}

int ftruncate(int descriptor, off_t length) noexcept {
  if (fails(false)) {
    errno = faults.error;
    return -1;
  }
  return static_cast<int>(syscall(SYS_ftruncate, descriptor, length));
}

int fstatfs(int descriptor, struct statfs* about) noexcept {
  if (fails(false)) {
    errno = faults.error;
    return -1;
  }
  return static_cast<int>(syscall(SYS_fstatfs, descriptor, about));
}

}  // extern "C"

namespace icecore::testing {
namespace {

void no_faults() { faults = {}; }

/// The `n`th call from now on fails, and the `times` - 1 calls after it.
void fail_call(int n, int error, int times = 1) { faults = {n, times, error, false, 0}; }

class Faults : public ::testing::TestWithParam<setting> {
 protected:
  void TearDown() override { no_faults(); }

  /// Whether the error is one that a failing call may lead to.
  static void expect_documented(const error& failure) {
    const auto code = static_cast<errc>(failure.code().value());
    EXPECT_TRUE(code == errc::io || code == errc::no_space || code == errc::poisoned || code == errc::not_durable ||
                code == errc::permission)
        << failure.code().value() << ": " << failure.what();
    EXPECT_NE(failure.message().find("fault.ice"), std::string::npos) << "no place named: " << failure.what();
  }

  /// Expects the store to hold the keys 0 .. count - 1, each with its number, and perhaps the next one.
  void expect_acknowledged(std::uint64_t count) const {
    store s(path_, GetParam().options());
    const map<std::uint64_t, std::uint64_t> numbers(s);
    for (std::uint64_t n = 0; n < count; ++n) ASSERT_EQ(numbers.find(n), n);
    EXPECT_LE(s.latest().size(), count + 1);
    EXPECT_TRUE(s.verify().ok());
  }

  scratch folder_{GetParam().where};
  std::filesystem::path path_ = folder_ / "fault.ice";
};

TEST_P(Faults, a_failed_sync_poisons_the_store_until_it_is_opened_again) {
  if (GetParam().durability == durability::operation) GTEST_SKIP() << "flushed by cache lines: no call that can fail";
  {
    store s(path_, GetParam().options());
    map<std::uint64_t, std::uint64_t> numbers(s);
    numbers.insert(0, 0);
    s.sync();
    numbers.insert(1, 1);
    faults = {0, 1, EIO, true, 0};  // one sync fails; a second one would "succeed"
    try {
      s.sync();
      ADD_FAILURE() << "a sync that failed was acknowledged";
    } catch (const error& failure) {
      expect_documented(failure);
    }
    no_faults();
    expect_error(errc::poisoned, "fault.ice", [&] { numbers.insert(2, 2); });
    expect_error(errc::poisoned, "fault.ice", [&] { static_cast<void>(numbers.remove(1)); });
    expect_error(errc::poisoned, "fault.ice", [&] { s.apply(batch{}); });
    expect_error(errc::poisoned, "fault.ice", [&] { s.tag(); });
    expect_error(errc::poisoned, "fault.ice", [&] { s.tag("a name"); });
    expect_error(errc::poisoned, "fault.ice", [&] { s.sync(); });
    expect_error(errc::poisoned, "fault.ice", [&] { s.close(); });
  }
  store again(path_, GetParam().options());
  map<std::uint64_t, std::uint64_t> numbers(again);
  EXPECT_EQ(numbers.find(0), 0U) << "what was synced before the failure is lost";
  numbers.insert(3, 3);
  again.tag("a name");
}

TEST_P(Faults, a_tag_whose_sync_fails_is_not_acknowledged) {
  if (GetParam().durability != durability::tag) GTEST_SKIP() << "tags of this mode need no sync";
  store s(path_, GetParam().options());
  s.insert("a", "1");
  faults = {1, 1, EIO, true, 0};  // the data is synced, the root is not
  EXPECT_THROW(s.tag("lost"), error);
  no_faults();
  expect_error(errc::poisoned, "fault.ice", [&] { s.tag("later"); });
}

TEST_P(Faults, a_tag_that_waits_for_its_sync_is_no_damage_to_the_list_of_tags) {
  if (GetParam().durability != durability::tag) GTEST_SKIP() << "tags of this mode need no sync";
  options opening = GetParam().options();
  opening.index = index_kind::persistent;
  for (const bool is_shared : {false, true}) {
    if (is_shared) opening.shared_as = folder_ / "common";
    store s(path_, opening);
    s.insert("a", "1");
    s.tag(is_shared ? "shared" : "alone");
    std::optional<verify_report> report;
    at_next_sync = [&] { report = s.verify(); };
    s.tag(is_shared ? "waits, shared" : "waits, alone");
    ASSERT_TRUE(report);
    EXPECT_EQ(report->tags, is_shared ? 4U : 2U) << "the tag that waits is among the records";
    EXPECT_TRUE(report->ok()) << report->damages.front().structure << ": " << report->damages.front().what;
  }
}

TEST_P(Faults, whichever_call_fails_at_creation_it_is_reported_and_the_next_attempt_succeeds) {
  for (const int fault : {EIO, ENOSPC}) {
    for (int n = 0;; ++n) {
      SCOPED_TRACE("call " + std::to_string(n));
      fail_call(n, fault);
      bool failed = false;
      try {
        store s(path_, GetParam().options());
        s.insert("a", "1");
        s.close();
      } catch (const error& failure) {
        failed = true;
        expect_documented(failure);
      }
      const bool reached = faults.calls_left < 0;
      no_faults();
      store s(path_, GetParam().options());
      s.insert("a", "2");
      s.close();
      std::filesystem::remove(path_);
      if (!failed && !reached) break;
      ASSERT_LT(n, 200);
    }
  }
}

TEST_P(Faults, whichever_call_fails_at_opening_after_a_crash_nothing_acknowledged_is_lost) {
  const auto original = folder_ / "original.ice";
  options accepting = GetParam().options();
  accepting.accept_copy = true;
  {
    store s(original, GetParam().options());
    map<std::uint64_t, std::uint64_t> numbers(s);
    for (std::uint64_t n = 0; n < 100; ++n) numbers.insert(n, n);
    s.sync();
    std::filesystem::copy_file(original, folder_ / "crashed.ice");
  }
  for (int n = 0;; ++n) {
    SCOPED_TRACE("call " + std::to_string(n));
    std::filesystem::remove(path_);
    std::filesystem::copy_file(folder_ / "crashed.ice", path_);
    fail_call(n, EIO);
    bool failed = false;
    try {
      const store s(path_, accepting);
    } catch (const error& failure) {
      failed = true;
      expect_documented(failure);
    }
    const bool reached = faults.calls_left < 0;
    no_faults();
    {
      store s(path_, accepting);
      const map<std::uint64_t, std::uint64_t> numbers(s);
      for (std::uint64_t i = 0; i < 100; ++i) ASSERT_EQ(numbers.find(i), i);
    }
    expect_acknowledged(100);
    if (!failed && !reached) break;
    ASSERT_LT(n, 200);
  }
}

TEST_P(Faults, whichever_call_fails_while_it_grows_nothing_acknowledged_is_lost) {
  const std::string large(900'000, 'x');
  for (const int fault : {EIO, ENOSPC}) {
    for (int n = 0;; ++n) {
      SCOPED_TRACE("call " + std::to_string(n));
      std::filesystem::remove(path_);
      std::uint64_t acknowledged = 0;
      bool failed = false;
      bool continue_reading = true;
      {
        store s(path_, GetParam().options());
        map<std::uint64_t, std::uint64_t> numbers(s);
        fail_call(n, fault, 2);
        try {
          for (int i = 0; i < 8; ++i) {
            s.insert("large-" + std::to_string(i), large);
            numbers.insert(acknowledged, acknowledged);
            ++acknowledged;
            s.tag();
          }
          s.close();
        } catch (const error& failure) {
          failed = true;
          expect_documented(failure);
          if (failure.code() == errc::poisoned) continue_reading = false;  // after a failed sync no call answers
          for (std::uint64_t i = 0; continue_reading && i < acknowledged; ++i) {
            ASSERT_EQ(numbers.find(i), i) << "not readable any more";
          }
        }
      }
      const bool reached = faults.calls_left < 0;
      no_faults();
      store s(path_, GetParam().options());
      const map<std::uint64_t, std::uint64_t> numbers(s);
      for (std::uint64_t i = 0; i < acknowledged; ++i) ASSERT_EQ(numbers.find(i), i);
      for (std::uint64_t i = 0; i < acknowledged; ++i) ASSERT_TRUE(s.find("large-" + std::to_string(i)) == large);
      if (!failed && !reached) break;
      ASSERT_LT(n, 500);
    }
  }
}

TEST_P(Faults, whichever_call_fails_while_it_is_packed_nothing_acknowledged_is_lost) {
  constexpr std::uint64_t numbers_max = 100;
  const auto write = [](store& s) {
    map<std::uint64_t, std::uint64_t> numbers(s);
    for (std::uint64_t n = 0; n < numbers_max; ++n) {
      numbers.insert(n, n);
      if (n % 10 == 0) s.insert("some", std::string(60'000, 'x'));
      if (n % 10 == 0) s.tag();
    }
  };
  for (const bool is_open : {false, true}) {
    for (int n = 0;; ++n) {
      SCOPED_TRACE((is_open ? "open, call " : "alone, call ") + std::to_string(n));
      std::filesystem::remove(path_);
      std::optional<store> s(std::in_place, path_, GetParam().options());
      write(*s);
      s->compact();  // what it made is given back below
      write(*s);
      if (!is_open) s.reset();
      fail_call(n, EIO);
      bool failed = false;
      try {
        if (is_open) {
          s->compact();
        } else {
          static_cast<void>(compact(path_, GetParam().options()));
        }
      } catch (const error& failure) {
        failed = true;
        expect_documented(failure);
        if (is_open && failure.code() == errc::poisoned) {
          expect_error(errc::poisoned, "fault.ice", [&] { s->insert("more", "x"); });
        }
      }
      const bool reached = faults.calls_left < 0;
      no_faults();
      s.reset();
      expect_acknowledged(numbers_max);
      if (!failed && !reached) break;
      ASSERT_LT(n, 200);
    }
  }
}

/// The kernel tells of it once. A later sync would succeed, and what was written meanwhile could be lost.
TEST_P(Faults, a_failed_sync_of_what_was_given_back_poisons_the_store) {
  for (int n = 0;; ++n) {
    SCOPED_TRACE("sync " + std::to_string(n));
    std::filesystem::remove(path_);
    store s(path_, GetParam().options());
    for (std::size_t i = 0; i < 10; ++i) {
      s.insert("some", std::string(i, 'x'));
      s.tag();
    }
    s.compact();  // what it made is given back below
    s.insert("some", "y");
    fail_call(n, EIO);
    faults.syncs_only = true;
    bool failed = false;
    try {
      s.compact({.whole = true});
    } catch (const error& failure) {
      failed = true;
      EXPECT_EQ(failure.code(), errc::poisoned) << failure.what();
    }
    const bool reached = faults.calls_left < 0;
    no_faults();
    if (failed) expect_error(errc::poisoned, "fault.ice", [&] { s.insert("more", "x"); });
    EXPECT_TRUE(failed || !reached);
    if (!reached) break;
    ASSERT_LT(n, 200);
  }
}

TEST_P(Faults, a_file_truncated_by_another_program_is_noticed_at_the_next_sync) {
  if (GetParam().durability == durability::operation) GTEST_SKIP() << "nothing is synced on a memory file system";
  store s(path_, GetParam().options());
  s.insert("key", "value");
  s.sync();
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 4096);  // free space: no thread touches it
  expect_error(errc::poisoned, "truncated", [&] { s.sync(); });
}

TEST_P(Faults, a_file_truncated_by_another_program_is_noticed_before_more_is_stored_in_it) {
  const std::string large(100'000, 'v');  // takes a segment of its own
  using call = void (*)(store&, const std::string&);
  const std::pair<const char*, call> calls[] = {
      {"insert", [](store& s, const std::string& value) { s.insert("large", value); }},
      {"tag", [](store& s, const std::string&) { s.tag("named"); }},
      {"sync", [](store& s, const std::string&) { s.sync(); }},
      {"close", [](store& s, const std::string&) { s.close(); }}};
  for (const auto& [name, make] : calls) {
    SCOPED_TRACE(name);
    {
      store s(path_, GetParam().options());
      s.insert("key", "value");
      const std::uintmax_t cut = std::filesystem::file_size(path_) - 4096;  // free space
      std::filesystem::resize_file(path_, cut);
      expect_error(errc::poisoned, "truncated the file", [&] { make(s, large); });
      EXPECT_EQ(std::filesystem::file_size(path_), cut) << "there are zeros now where something was";
    }
    std::filesystem::remove(path_);
  }
}

TEST_P(Faults, a_memory_file_system_without_room_for_the_tags_is_an_error_that_says_so) {
  options opening = GetParam().options();
  {
    store s(path_, opening);
    for (int i = 0; i < 300; ++i) s.tag("tag " + std::to_string(i), std::string(2'000, 'n'));
  }
  opening.shared_as = folder_ / "common";
  bool said = false;
  for (int n = 0; n < 100 && !said; ++n) {
    fail_call(n, ENOSPC);
    try {
      const store s(path_, opening);
    } catch (const error& e) {
      said = e.code() == errc::no_space && e.message().find("300 tags") != std::string::npos;
    } catch (const std::bad_alloc&) {  // not yet at the tags
    }
  }
  EXPECT_TRUE(said);
  EXPECT_FALSE(std::filesystem::exists(opening.shared_as));
}

TEST(FaultsOfReading, what_was_durable_at_opening_is_not_synced_again_when_it_is_read) {
  if (!root_of(place::disk)) GTEST_SKIP() << "this machine has no place on a disk";
  const scratch folder(place::disk);
  constexpr std::uint64_t keys = 500;
  {
    store s(folder / "store.ice", setting{place::disk, durability::none}.options());
    map<std::uint64_t, std::uint64_t> numbers(s);
    for (std::uint64_t i = 0; i < keys; ++i) numbers.insert(i, i);
  }
  store s(folder / "store.ice", setting{place::disk, durability::operation}.options());
  map<std::uint64_t, std::uint64_t> numbers(s);
  faults = {.syncs_only = true};
  for (std::uint64_t i = 0; i < keys; ++i) ASSERT_EQ(numbers.find(i), i);
  EXPECT_EQ(faults.made, 0);
  numbers.insert(0, 1);
  EXPECT_EQ(faults.made, 1);
  no_faults();
}

INSTANTIATE_TEST_SUITE_P(EveryDurability, Faults, ::testing::ValuesIn(tmpfs_settings()),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace icecore::testing
