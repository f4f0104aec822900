// Any system call fails, once, with any errno it may have: the store reports it in a documented error that names the
// file, or does without the call. What was acknowledged is there when the store is opened again.
//
// The calls below replace the C library's in this program, for libpmem2 too, and fail when a test wants it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/random.h>
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

}  // namespace
}  // namespace icecore::testing
