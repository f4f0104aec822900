// Who looks at a pool file, so that nobody gives its space back meanwhile: pool_file's functions for that.
//
// Who looks has a shared lock of the kind of flock(); it keeps everything. Or it keeps one manifest, by a shared lock
// of the kind of fcntl() on the byte of that one's number. Who gives back asks for both.
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/vfs.h>

#include <cerrno>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include "base/raise.hpp"
#include "pool/file/file.hpp"

namespace icecore {
namespace {

/// Whether locks of the kind of flock() are apart from those of fcntl() here.
[[nodiscard]] bool tells_viewers(int descriptor) noexcept {
  constexpr unsigned long smb_magic = 0x517bUL;
  constexpr unsigned long cifs_magic = 0xff534d42UL;
  constexpr unsigned long smb2_magic = 0xfe534d42UL;
  struct statfs s {};
  if (fstatfs(descriptor, &s) != 0) return false;
  const unsigned long magic = static_cast<unsigned long>(s.f_type) & 0xffffffffUL;
  return magic != NFS_SUPER_MAGIC && magic != smb_magic && magic != cifs_magic && magic != smb2_magic;
}

}  // namespace

void pool_file::begin_viewing(access how) {
  viewer_ = std::make_shared<const lock_descriptor>(
      [this] { return ::open(path_.c_str(), O_CLOEXEC | O_NONBLOCK | O_RDONLY); });
  if (how != access::attached && !view(*viewer_) && how == access::read_only)
    raise_errno(errno, "flock", path_.native());
}

void pool_file::begin_to_view() const noexcept {
  try {
    static_cast<void>(view(*viewer_));
  } catch (const error&) {  // somebody gives space back for longer than a process can wait that ends
  }
}

/// Waits for who gives space back just now, who holds the lock alone: but not for ever. False if it has no lock then,
/// where others may.
bool pool_file::view(const lock_descriptor& by) const {
  constexpr std::chrono::seconds at_most{30};
  constexpr std::chrono::milliseconds between_looks{1};
  if (!tells_viewers(descriptor_)) return true;
  if (by.get() < 0) return false;
  const auto until = std::chrono::steady_clock::now() + at_most;
  while (::flock(by.get(), LOCK_SH | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return errno == ENOSYS || errno == EOPNOTSUPP;  // there are no such locks here
    if (std::chrono::steady_clock::now() >= until) {
      raise(errc::locked, "{}: another process gives space of the store back, and does not end; open it again later",
            path_.native());
    }
    std::this_thread::sleep_for(between_looks);
  }
  return true;
}

std::shared_ptr<const void> pool_file::without_other_viewers(std::uint32_t manifest) const {
  const int lock = viewer_->get();
  if (lock < 0 || !tells_viewers(descriptor_)) return nullptr;
  const auto take = [lock](int how) {
    int failed = 0;
    do {
      failed = ::flock(lock, how) != 0 ? errno : 0;
    } while (failed == EINTR);
    return failed == 0;
  };
  // A conversion that fails may lose the shared lock: it is taken again. Nobody else can hold it alone, since this
  // process alone has the file open for writing.
  if (!take(LOCK_EX | LOCK_NB) || is_any_kept_but(manifest)) {
    take(LOCK_SH);
    return nullptr;
  }
  return {this, [take](const pool_file*) { take(LOCK_SH); }};
}

/// A process's locks on one byte are one lock, which any of them takes away: so it is counted.
struct pool_file::keeper {
  template <typename Open>
  explicit keeper(Open open) : by(open) {}

  lock_descriptor by;
  std::mutex mutex;
  std::map<std::uint32_t, unsigned> kept;  // how often

  [[nodiscard]] bool begin(std::uint32_t manifest) {
    const std::scoped_lock lock(mutex);
    unsigned& count = kept[manifest];
    if (count == 0 && !set_lock(by.get(), F_RDLCK, byte_of(manifest))) {
      kept.erase(manifest);
      return false;
    }
    ++count;
    return true;
  }
  void end(std::uint32_t manifest) noexcept {
    if (by.get() < 0) return;  // in a forked child, which has no lock, and where another thread may have held the mutex
    const std::scoped_lock lock(mutex);
    const auto found = kept.find(manifest);
    if (--found->second != 0) return;
    kept.erase(found);
    static_cast<void>(set_lock(by.get(), F_UNLCK, byte_of(manifest)));
  }
};

std::shared_ptr<const void> pool_file::keep_by_lock(std::uint32_t manifest) {
  const std::scoped_lock one_at_a_time(observing_);
  if (keeper_ == nullptr) {
    auto made = std::make_shared<keeper>([this] { return ::open(path_.c_str(), O_CLOEXEC | O_NONBLOCK | O_RDONLY); });
    if (made->by.get() < 0 || is_other_file(made->by.get())) return nullptr;
    keeper_ = std::move(made);
  }
  struct one {
    std::shared_ptr<keeper> by;
    std::uint32_t manifest;
    ~one() {
      if (by != nullptr) by->end(manifest);
    }
  };
  auto made = std::make_shared<one>();
  if (!keeper_->begin(manifest)) return nullptr;
  made->by = keeper_;
  made->manifest = manifest;
  return made;
}

std::shared_ptr<const void> pool_file::keep(std::uint32_t manifest) {
  auto kept = keep_by_lock(manifest);
  return kept != nullptr ? std::move(kept) : keep_all();
}

std::shared_ptr<const void> pool_file::keep_all() const {
  auto made = std::make_shared<const lock_descriptor>(
      [this] { return ::open(path_.c_str(), O_CLOEXEC | O_NONBLOCK | O_RDONLY); });
  if (made->get() < 0) raise_errno(errno, "open", path_.native());
  if (is_other_file(made->get())) {
    raise(errc::io, "{}: another file is there by now; close the store, and open it again", path_.native());
  }
  if (!view(*made)) raise_errno(errno, "flock", path_.native());
  return made;
}

void pool_file::end_viewing() const noexcept {
  if (viewer_->get() >= 0) static_cast<void>(::flock(viewer_->get(), LOCK_UN));
}

bool pool_file::is_any_kept_but(std::uint32_t manifest) const noexcept {
  const auto is_kept = [this](std::int64_t from, std::int64_t end) {
    if (from == end) return false;
    const auto holder = holder_against(F_WRLCK, {manifests_from + from, end - from});
    return !holder || holder->l_type != F_UNLCK;
  };
  return is_kept(0, manifest) || is_kept(std::int64_t{manifest} + 1, manifests_max);
}

}  // namespace icecore
