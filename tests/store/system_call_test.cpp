// Any system call fails, once, with any errno it may have: the store reports it in a documented error that names the
// file, or does without the call. What was acknowledged is there when the store is opened again.
//
// The calls below replace the C library's in this program, for libpmem2 too, and fail when a test wants it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <string_view>

#include "icecore/icecore.hpp"
#include "support/expect.hpp"
#include "support/scratch.hpp"

namespace {

/// The call that fails, on this thread and while armed: after `left` more calls of that name, `times` calls in a row.
struct planned_fault {
  std::string_view name;
  int error = 0;
  int left = 0;
  int times = 1;
  bool armed = false;
  bool met = false;
};
thread_local planned_fault fault;
/// What this thread has written with pwrite.
thread_local std::uint64_t written_bytes = 0;

bool fails(std::string_view name) noexcept {
  if (!fault.armed || fault.name != name || fault.times == 0) return false;
  if (fault.left-- > 0) return false;
  fault.left = 0;
  --fault.times;
  fault.met = true;
  errno = fault.error;
  return true;
}

template <class... Arguments>
int call(long number, Arguments... arguments) noexcept {
  return static_cast<int>(syscall(number, arguments...));
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  return fails("open") ? -1 : call(SYS_openat, AT_FDCWD, path, flags, mode);
}
int fstat(int descriptor, struct stat* about) noexcept {
  return fails("fstat") ? -1 : call(SYS_fstat, descriptor, about);
}
int fcntl(int descriptor, int command, ...) {
  va_list more;
  va_start(more, command);
  void* const argument = va_arg(more, void*);
  va_end(more);
  return fails("fcntl") ? -1 : call(SYS_fcntl, descriptor, command, argument);
}
void* mmap(void* at, size_t size, int protection, int flags, int descriptor, off_t offset) noexcept {
  if (fails("mmap")) return MAP_FAILED;
  return reinterpret_cast<void*>(syscall(SYS_mmap, at, size, protection, flags, descriptor, offset));
}
int mprotect(void* at, size_t size, int protection) noexcept {
  return fails("mprotect") ? -1 : call(SYS_mprotect, at, size, protection);
}
int madvise(void* at, size_t size, int advice) noexcept {
  return fails("madvise") ? -1 : call(SYS_madvise, at, size, advice);
}
int posix_fallocate(int descriptor, off_t offset, off_t size) {
  if (fails("posix_fallocate")) return fault.error;
  return call(SYS_fallocate, descriptor, 0, offset, size) == 0 ? 0 : errno;
}
/// The error 0: writes a part.
ssize_t pwrite(int descriptor, const void* from, size_t size, off_t offset) {
  if (fails("pwrite")) {
    if (fault.error != 0) return -1;
    size = (size + 1) / 2;
  }
  const ssize_t done = syscall(SYS_pwrite64, descriptor, from, size, offset);
  if (done > 0) written_bytes += static_cast<std::uint64_t>(done);
  return done;
}
int ftruncate(int descriptor, off_t size) noexcept {
  return fails("ftruncate") ? -1 : call(SYS_ftruncate, descriptor, size);
}
int fsync(int descriptor) { return fails("fsync") ? -1 : call(SYS_fsync, descriptor); }
int fdatasync(int descriptor) { return fails("fdatasync") ? -1 : call(SYS_fdatasync, descriptor); }
int statx(int folder, const char* path, int flags, unsigned mask, struct statx* about) noexcept {
  return fails("statx") ? -1 : call(SYS_statx, folder, path, flags, mask, about);
}
int fstatfs(int descriptor, struct statfs* about) noexcept {
  return fails("fstatfs") ? -1 : call(SYS_fstatfs, descriptor, about);
}
ssize_t getrandom(void* to, size_t size, unsigned flags) {
  return fails("getrandom") ? -1 : syscall(SYS_getrandom, to, size, flags);
}

}  // extern "C"

namespace icecore::testing {
namespace {

struct kind_of_fault {
  const char* call;
  std::vector<int> errors;
};

void PrintTo(const kind_of_fault& kind, std::ostream* out) { *out << kind.call; }

class SystemCalls : public ::testing::TestWithParam<kind_of_fault> {
 protected:
  void TearDown() override { fault = {}; }

  /// Runs the call with the fault armed; empty if it succeeded.
  template <class Call>
  static std::optional<errc> failure_of(const Call& run) {
    fault.armed = true;
    std::optional<errc> failed;
    try {
      run();
    } catch (const error& failure) {
      fault.armed = false;
      failed = static_cast<errc>(failure.code().value());
      EXPECT_NE(failure.message().find("calls.ice"), std::string::npos) << "no place named: " << failure.what();
      EXPECT_TRUE(failed == errc::io || failed == errc::no_space || failed == errc::permission ||
                  failed == errc::poisoned || failed == errc::not_durable || failed == errc::locked ||
                  failed == errc::no_such_store || failed == errc::not_a_store || failed == errc::store_exists)
          << failure.what();
    } catch (const std::bad_alloc&) {
      failed = errc::io;
      EXPECT_TRUE(fault.name == "mmap" || fault.name == "mprotect") << fault.name;
    }
    fault.armed = false;
    return failed;
  }

  /// Creates, writes, grows, tags, syncs, closes and opens again until something fails.
  void write(const options& opening) {
    std::optional<store> s;
    const auto failed = [&](const auto& run) { return failure_of(run).has_value(); };
    if (failed([&] { s.emplace(path_, opening); })) return;
    for (int round = 0; round < 3; ++round) {
      if (failed([&] { s->insert("number-" + std::to_string(acknowledged_), "value"); })) return;
      ++acknowledged_;
      if (failed([&] { s->insert("large", std::string(1'500'000, 'x')); })) return;
      if (failed([&] { s->tag(); }) || failed([&] { s->sync(); })) return;
    }
    if (failed([&] { s->close(); })) return;
    options reading = opening;
    reading.access = access::read_only;
    if (failed([&] { s.emplace(path_, reading); })) return;
    item_range numbers = s->latest().prefix("number-");
    EXPECT_EQ(numbers.begin()->value, "value");
    if (failed([&] { EXPECT_TRUE(s->verify().ok()); })) return;
    s.reset();
    if (failed([&] { s.emplace(path_, opening); })) return;
    if (failed([&] { s->insert("number-" + std::to_string(acknowledged_), "value"); })) return;
    ++acknowledged_;
  }

  void expect_acknowledged(const options& opening) const {
    const store s(path_, opening);
    for (int n = 0; n < acknowledged_; ++n) {
      ASSERT_EQ(s.find("number-" + std::to_string(n)), "value") << "acknowledged, and lost";
    }
    EXPECT_TRUE(s.verify().ok());
  }

  std::optional<scratch> folder_;
  std::filesystem::path path_;
  int acknowledged_ = 0;
};

TEST_P(SystemCalls, whichever_fails_is_reported_or_done_without_and_nothing_acknowledged_is_lost) {
  std::vector<setting> places = {{place::tmpfs, durability::operation}};
  if (root_of(place::disk)) places.push_back({place::disk, durability::tag});
  int met = 0;
  for (const setting& where : places) {
    folder_.emplace(where.where);
    path_ = *folder_ / "calls.ice";
    for (const int number : GetParam().errors) {
      for (int n = 0;; ++n) {
        SCOPED_TRACE(where.name() + ", call " + std::to_string(n) + ": " + std::strerror(number));
        std::filesystem::remove(path_);
        acknowledged_ = 0;
        fault = {GetParam().call, number, n};
        write(where.options());
        const bool reached = fault.met;
        fault = {};
        if (!reached) break;
        ++met;
        expect_acknowledged(where.options());
        ASSERT_FALSE(HasFailure());
        ASSERT_LT(n, 500);
      }
    }
  }
  EXPECT_GT(met, 0) << "the store does not make this call";
}

INSTANTIATE_TEST_SUITE_P(
    Each, SystemCalls,
    ::testing::Values(kind_of_fault{"open", {EINTR, EMFILE, ENOENT, ENOMEM, EACCES}},
                      kind_of_fault{"fstat", {EIO, EOVERFLOW}}, kind_of_fault{"fcntl", {EINVAL, ENOLCK, EINTR}},
                      kind_of_fault{"mmap", {ENOMEM, EPERM}}, kind_of_fault{"mprotect", {ENOMEM}},
                      kind_of_fault{"madvise", {EINVAL, ENOMEM}},
                      kind_of_fault{"posix_fallocate", {ENOSPC, EIO, EDQUOT, EINTR, EOPNOTSUPP}},
                      kind_of_fault{"pwrite", {ENOSPC, EIO, EDQUOT, EINTR, ENOMEM, 0}},
                      kind_of_fault{"ftruncate", {EIO, EINTR}}, kind_of_fault{"fsync", {EIO, EINTR, ENOSPC}},
                      kind_of_fault{"fdatasync", {EIO, EINTR, ENOSPC}}, kind_of_fault{"fstatfs", {EIO, EINTR, ENOSYS}},
                      kind_of_fault{"getrandom", {EINTR, ENOSYS}}),
    [](const auto& tested) { return std::string(tested.param.call); });

TEST(InterruptedCalls, a_growth_that_signals_interrupt_goes_on) {
  const scratch folder;
  store s(folder / "calls.ice");
  fault = {.name = "posix_fallocate", .error = EINTR, .times = 5, .armed = true};
  EXPECT_NO_THROW(s.insert("large", std::string(3'000'000, 'x')));
  EXPECT_EQ(fault.times, 0) << "nothing was interrupted";
  fault = {};
  EXPECT_EQ(s.find("large")->size(), 3'000'000U);
}

/// Values that the store writes instead of storing them through its mapping, in each setting that does so.
class LargeValues : public ::testing::TestWithParam<setting> {
 protected:
  void SetUp() override {
    if (!root_of(GetParam().where)) GTEST_SKIP() << "there is no such place here";
    folder_.emplace(GetParam().where);
    path_ = *folder_ / "calls.ice";
    opening_ = GetParam().options();
  }
  void TearDown() override { fault = {}; }

  /// No two words of it are equal.
  static std::string value_of(std::uint64_t seed, std::size_t size) {
    std::string value(size, '\0');
    for (std::size_t at = 0; at < size; ++at) {
      value[at] = static_cast<char>((seed + at / 8 + 1) * 0x9e3779b97f4a7c15U >> 8 * (at % 8));
    }
    return value;
  }
  void expect_after_opening(std::string_view key, std::string_view value) const {
    for (const access how : {access::read_only, access::read_write}) {
      options opening = opening_;
      opening.access = how;
      const store s(path_, opening);
      EXPECT_TRUE(s.find(key) == value) << key;
      EXPECT_TRUE(s.verify().ok());
    }
  }

  std::optional<scratch> folder_;
  std::filesystem::path path_;
  options opening_;
};

TEST_P(LargeValues, are_written_and_are_what_was_inserted) {
  constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;
  store s(path_, opening_);
  const std::vector<std::size_t> sizes = {mebibyte - 1, mebibyte, mebibyte + 1, 3 * mebibyte + 77, 20 * mebibyte};
  for (const std::size_t size : sizes) {
    const std::string key = std::to_string(size);
    written_bytes = 0;
    s.insert(key, value_of(size, size));  // an entry
    const version first = s.tag();
    s.insert(key, value_of(size + 1, size));                   // an update
    EXPECT_EQ(written_bytes, size < mebibyte ? 0 : 2 * size);  // each byte once
    EXPECT_TRUE(s.find(key, first) == value_of(size, size)) << size;
    EXPECT_TRUE(s.find(key) == value_of(size + 1, size)) << size;
    batch both;
    both.insert(key, value_of(size + 2, size));
    both.insert("new " + key, value_of(size + 3, size));
    s.apply(both);
  }
  s.tag();
  EXPECT_TRUE(s.verify().ok());
  s.close();
  for (const std::size_t size : sizes) {
    expect_after_opening(std::to_string(size), value_of(size + 2, size));
    expect_after_opening("new " + std::to_string(size), value_of(size + 3, size));
  }
}

TEST_P(LargeValues, that_no_room_was_left_for_have_not_happened_and_the_store_goes_on) {
  constexpr std::size_t size = 3'000'000;
  std::optional<store> s(std::in_place, path_, opening_);
  s->insert("known", value_of(1, size));
  for (const char* const key : {"known", "unknown"}) {
    for (int pieces = 0; pieces < 6; ++pieces) {
      for (const int number : {ENOSPC, EDQUOT}) {
        SCOPED_TRACE(std::string(key) + ", piece " + std::to_string(pieces));
        fault = {.name = "pwrite", .error = number, .left = pieces, .armed = true};
        expect_error(errc::no_space, "calls.ice", [&] { s->insert(key, value_of(2, size)); });
        ASSERT_TRUE(fault.met);
        fault = {};
        EXPECT_EQ(s->find("unknown"), std::nullopt);
        EXPECT_TRUE(s->find("known") == value_of(1, size));
        s->insert("small", std::to_string(pieces));  // into what the value has left
        s->tag();
        EXPECT_TRUE(s->verify().ok());
      }
    }
  }
  s->close();
  s.reset();
  expect_after_opening("known", value_of(1, size));
  s.emplace(path_, opening_);
  s->insert("unknown", value_of(3, size));
  s->close();
  s.reset();
  expect_after_opening("unknown", value_of(3, size));
}

TEST_P(LargeValues, of_a_batch_that_no_room_was_left_for_have_not_happened) {
  constexpr std::size_t size = 3'000'000;
  std::optional<store> s(std::in_place, path_, opening_);
  s->insert("known", value_of(1, size));
  s->tag();
  batch both;
  both.insert("known", value_of(2, size));
  both.insert("unknown", value_of(2, size));
  fault = {.name = "pwrite", .error = ENOSPC, .left = 8, .armed = true};
  expect_error(errc::no_space, "calls.ice", [&] { s->apply(both); });
  fault = {};
  expect_error(errc::poisoned, "calls.ice", [&] { s->insert("small", "1"); });  // what is linked cannot be unlinked
  try {
    s->close();
  } catch (const error& failure) {
    EXPECT_EQ(failure.code(), errc::poisoned);
  }
  s.reset();
  s.emplace(path_, opening_);
  EXPECT_EQ(s->find("unknown"), std::nullopt);
  EXPECT_TRUE(s->find("known") == value_of(1, size));
  EXPECT_TRUE(s->verify().ok());
}

TEST_P(LargeValues, fit_into_a_file_that_is_longer_than_the_process_may_write) {
  constexpr std::size_t size = 3'000'000;
  store s(path_, opening_);
  fault = {.name = "pwrite", .error = ENOSPC, .armed = true};
  expect_error(errc::no_space, "calls.ice", [&] { s.insert("large", value_of(1, size)); });  // its space stays
  fault = {};
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit less{std::uint64_t{1} << 20, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &less), 0);  // beyond it a write ends the process (SIGXFSZ)
  s.insert("large", value_of(2, size));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_TRUE(s.find("large") == value_of(2, size));
  s.close();
  expect_after_opening("large", value_of(2, size));
}

INSTANTIATE_TEST_SUITE_P(Each, LargeValues,
                         ::testing::Values(setting{place::tmpfs, durability::none},
                                           setting{place::disk, durability::tag},
                                           setting{place::disk, durability::operation},
                                           setting{place::disk, durability::tag, index_kind::persistent},
                                           setting{place::disk, durability::none, index_kind::btree, 2}),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace icecore::testing
