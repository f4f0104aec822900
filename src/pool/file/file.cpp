#include "pool/file/file.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/bytes.hpp"
#include "base/raise.hpp"
#include "pool/format.hpp"

namespace icecore {
namespace {

constexpr unsigned long xfs_magic = 0x58465342UL;
constexpr unsigned long zfs_magic = 0x2fc12fc1UL;
constexpr unsigned long lustre_magic = 0x0bd00bd0UL;
constexpr unsigned long gpfs_magic = 0x47504653UL;
constexpr unsigned long ramfs_magic = 0x858458f6UL;

struct filesystem_type {
  unsigned long magic;
  const char* name;
};
constexpr std::array filesystem_types = {
    filesystem_type{TMPFS_MAGIC, "tmpfs"},
    filesystem_type{ramfs_magic, "ramfs"},
    filesystem_type{HUGETLBFS_MAGIC, "hugetlbfs"},
    filesystem_type{EXT4_SUPER_MAGIC, "ext"},
    filesystem_type{xfs_magic, "xfs"},
    filesystem_type{BTRFS_SUPER_MAGIC, "btrfs"},
    filesystem_type{F2FS_SUPER_MAGIC, "f2fs"},
    filesystem_type{zfs_magic, "zfs"},
    filesystem_type{NFS_SUPER_MAGIC, "nfs"},
    filesystem_type{lustre_magic, "lustre"},
    filesystem_type{gpfs_magic, "gpfs"},
    filesystem_type{OVERLAYFS_SUPER_MAGIC, "overlay"},
};

unsigned long filesystem_magic(int descriptor) noexcept {
  struct statfs s {};
  if (fstatfs(descriptor, &s) != 0) return 0;
  return static_cast<unsigned long>(s.f_type) & 0xffffffffUL;
}

}  // namespace

pool_file::pool_file(const std::filesystem::path& path, access how, creation create) : path_(path) {
  // O_NONBLOCK: opening a FIFO must not wait for its other end; it changes nothing for regular files
  const int flags = O_CLOEXEC | O_NONBLOCK | (how == access::read_only ? O_RDONLY : O_RDWR);
  const bool may_create = how == access::read_write && create != creation::open_existing;
  if (may_create) {
    descriptor_ = ::open(path.c_str(), flags | O_CREAT | O_EXCL, 0666);
    created_ = descriptor_ >= 0;
  }
  if (descriptor_ < 0 && !(may_create && (create == creation::create_new || errno != EEXIST))) {
    descriptor_ = ::open(path.c_str(), flags);
    // a dangling symbolic link: O_EXCL does not follow it
    if (descriptor_ < 0 && errno == ENOENT && may_create) descriptor_ = ::open(path.c_str(), flags | O_CREAT, 0666);
  }
  if (descriptor_ < 0) raise_not_opened(errno, may_create);
  try {
    check_kind();
    in_memory_ = is_on_memory_filesystem(descriptor_);
    open_for_locks(flags);
    if (how == access::read_only && size() == 0) refuse_empty();
    lock(how);
    begin_viewing(how);
  } catch (...) {
    ::close(descriptor_);
    locks_.reset();
    throw;
  }
}

pool_file::pool_file(const std::filesystem::path& path, beside_writer /*how*/)
    : path_(path), descriptor_(::open(path.c_str(), O_CLOEXEC | O_NONBLOCK | O_RDONLY)) {
  if (descriptor_ < 0) raise_not_opened(errno, false);
  try {
    check_kind();
    in_memory_ = is_on_memory_filesystem(descriptor_);
    begin_viewing(access::read_only);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

/// Takes no lock: it would refuse the process that is making a store here.
void pool_file::refuse_empty() const {
  struct flock holder {};
  holder.l_type = F_RDLCK;
  holder.l_whence = SEEK_SET;
  if (fcntl(locks_->get(), F_OFD_GETLK, &holder) == 0 && holder.l_type != F_UNLCK) raise_locked(access::read_only);
  raise(errc::not_a_store, "{}: is empty; open it for writing first", path_.native());
}

void pool_file::raise_not_opened(int number, bool may_create) const {
  const std::string& path = path_.native();
  if (number == ENOENT && !may_create) {
    raise(errc::no_such_store, "{}: no store there; to make one, open it for writing with creation allowed", path);
  }
  if (number == EEXIST) raise(errc::store_exists, "{}: a new store was asked for, but the path exists already", path);
  if (number == EISDIR) raise(errc::not_a_store, "{}: is a directory; a store is one file", path);
  if (number == ENXIO)
    raise(errc::not_a_store, "{}: is a socket, or a device file without a device; a store is one file", path);
  raise_errno(number, "open", path);
}

/// Opens the path once more, since only that gives another file description. So it may be another file by now.
void pool_file::open_for_locks(int flags) {
  locks_.emplace([&] { return ::open(path_.c_str(), flags); });
  if (locks_->get() < 0) raise_errno(errno, "open", path_.native());
  if (!is_other_file(locks_->get())) return;
  raise(errc::io, "{}: was replaced by another file while it was being opened; open it again", path_.native());
}

bool pool_file::is_other_file(int descriptor) const {
  struct stat one {};
  struct stat other {};
  if (fstat(descriptor_, &one) != 0 || fstat(descriptor, &other) != 0) raise_errno(errno, "fstat", path_.native());
  return one.st_dev != other.st_dev || one.st_ino != other.st_ino;
}

pool_file::~pool_file() {
  // A child that was just forked may still hold the descriptor, and with it the lock: release the lock explicitly. In
  // that child itself there is nothing to release.
  struct flock l {};
  l.l_type = F_UNLCK;
  l.l_whence = SEEK_SET;
  if (locks_) fcntl(locks_->get(), F_OFD_SETLK, &l);
  ::close(descriptor_);
}

void pool_file::check_kind() const {
  struct stat s {};
  if (fstat(descriptor_, &s) != 0) raise_errno(errno, "fstat", path_.native());
  if (S_ISREG(s.st_mode)) return;
  const char* what = S_ISDIR(s.st_mode)    ? "a directory"
                     : S_ISFIFO(s.st_mode) ? "a FIFO"
                     : S_ISSOCK(s.st_mode) ? "a socket"
                                           : "a device";
  raise(errc::not_a_store, "{}: is {}; a store is one regular file", path_.native(), what);
}

void pool_file::lock(access how) const {
  if (how == access::attached) {
    lock_attached();
    return;
  }
  for (const range& each : of_writer) {
    if (try_lock(how == access::read_only ? F_RDLCK : F_WRLCK, each)) continue;
    if (errno == EAGAIN || errno == EACCES) raise_locked(how);
    const int number = errno;
    raise(errc::io, "{}: the file system refused a lock ({}); put the store on one that supports locks", path_.native(),
          std::strerror(number));
  }
}

bool pool_file::set_lock(int descriptor, int type, const range& what) noexcept {
  struct flock l {};
  l.l_type = static_cast<short>(type);
  l.l_whence = SEEK_SET;
  l.l_start = what.from;
  l.l_len = what.bytes;
  return fcntl(descriptor, F_OFD_SETLK, &l) == 0;
}

bool pool_file::try_lock(int type, const range& what) const noexcept { return set_lock(locks_->get(), type, what); }

bool pool_file::observe() {
  const std::scoped_lock one_at_a_time(observing_);
  if (!locks_) {
    try {
      open_for_locks(O_CLOEXEC | O_NONBLOCK | O_RDONLY);
    } catch (const error&) {
      locks_.reset();
      return false;
    }
  }
  return try_lock(F_RDLCK, {observers_at, 1});
}

bool pool_file::is_observed() const noexcept {
  const auto holder = holder_against(F_WRLCK, {observers_at, 1});
  return holder && holder->l_type != F_UNLCK;
}

bool pool_file::is_being_written() const noexcept {
  return std::ranges::any_of(of_writer, [&](const range& each) {
    const auto holder = holder_against(F_RDLCK, each);
    return !holder || holder->l_type != F_UNLCK;
  });
}

/// A lock of another opening that does not allow one of this type; F_UNLCK if there is none; empty if the file system
/// does not say.
std::optional<struct flock> pool_file::holder_against(int type, const range& what) const noexcept {
  struct flock l {};
  l.l_type = static_cast<short>(type);
  l.l_whence = SEEK_SET;
  l.l_start = what.from;
  l.l_len = what.bytes;
  if (fcntl(locks_->get(), F_OFD_GETLK, &l) != 0) return std::nullopt;
  return l;
}

void pool_file::admit_attached() const {
  struct flock l {};
  l.l_type = F_UNLCK;
  l.l_whence = SEEK_SET;
  l.l_start = attached_from;
  if (fcntl(locks_->get(), F_OFD_SETLK, &l) != 0) raise_errno(errno, "fcntl", path_.native());
}

/// Locks one byte beyond the end of the largest possible file, where the process that shares the file leaves space. So
/// a process that opens the file sees that another one still writes it, even once the sharing process is dead.
void pool_file::lock_attached() const {
  constexpr off_t processes_max = 1 << 16;
  struct flock l {};
  l.l_type = F_WRLCK;
  l.l_whence = SEEK_SET;
  l.l_len = 1;
  for (off_t i = 0; i < processes_max; ++i) {
    l.l_start = attached_from + i;
    if (fcntl(locks_->get(), F_OFD_SETLK, &l) == 0) return;
    if (errno != EAGAIN && errno != EACCES) raise_errno(errno, "fcntl", path_.native());
    refuse_if_not_shared(l.l_start);
  }
  raise(errc::locked, "{}: {} processes are attached already, the maximum", path_.native(), processes_max);
}

/// For a byte for attached processes that some process holds: another attached process, or one that has locked the
/// whole file and so leaves no space for attached ones.
void pool_file::refuse_if_not_shared(std::int64_t at) const {
  struct flock holder {};
  holder.l_type = F_WRLCK;
  holder.l_whence = SEEK_SET;
  holder.l_start = at;
  holder.l_len = 1;
  if (fcntl(locks_->get(), F_OFD_GETLK, &holder) != 0 || holder.l_type == F_UNLCK) return;  // it was released meanwhile
  if (holder.l_type == F_WRLCK && holder.l_start >= attached_from) return;
  raise(errc::locked,
        "{}: another process has it open{} and does not share it; the file that it was shared as before is out of "
        "date: remove that file",
        path_.native(), holder.l_type == F_RDLCK ? " for reading" : "");
}

void pool_file::raise_locked(access how) const {
  std::optional<struct flock> holder;
  for (const range& each : of_writer) {
    if (!holder || holder->l_type == F_UNLCK)
      holder = holder_against(how == access::read_only ? F_RDLCK : F_WRLCK, each);
  }
  if (holder && holder->l_type == F_WRLCK && holder->l_start >= attached_from) {
    raise(errc::locked,
          "{}: the process that shared it has ended, but attached processes still use it; end these first",
          path_.native());
  }
  if (holder && holder->l_type == F_RDLCK) {
    raise(errc::locked, "{}: another process has it open for reading; close that, or open for reading too",
          path_.native());
  }
  std::uint64_t pid = 0;
  std::array<char, 64> host{};
  constexpr auto pid_at = format::live_page_offset + offsetof(format::live_page, writer_pid);
  constexpr auto host_at = format::live_page_offset + offsetof(format::live_page, writer_host);
  if (pread(descriptor_, &pid, sizeof pid, pid_at) != sizeof pid || pid == 0) {
    raise(errc::locked, "{}: another process has it open for writing", path_.native());
  }
  if (pread(descriptor_, host.data(), host.size() - 1, host_at) < 0) host[0] = '\0';
  raise(errc::locked, "{}: open for writing by process {} on {}{}; close it there first", path_.native(), pid,
        host.data(), pid == static_cast<std::uint64_t>(getpid()) ? " (this process)" : "");
}

std::uint64_t pool_file::size() const {
  struct stat s {};
  if (fstat(descriptor_, &s) != 0) raise_errno(errno, "fstat", path_.native());
  return static_cast<std::uint64_t>(s.st_size);
}

std::uint64_t pool_file::inode() const {
  struct stat s {};
  if (fstat(descriptor_, &s) != 0) raise_errno(errno, "fstat", path_.native());
  return s.st_ino;
}

file_identity pool_file::identity() const {
  struct stat s {};
  if (fstat(descriptor_, &s) != 0) raise_errno(errno, "fstat", path_.native());
  file_identity found{s.st_dev, s.st_ino, 0};
  struct statx more {};
  if (statx(descriptor_, "", AT_EMPTY_PATH, STATX_BTIME, &more) == 0 && (more.stx_mask & STATX_BTIME) != 0) {
    found.born_ns = more.stx_btime.tv_sec * 1'000'000'000 + more.stx_btime.tv_nsec;
  }
  return found;
}

std::optional<std::uint64_t> pool_file::next_data(std::uint64_t from) const noexcept {
  const off_t at = lseek(descriptor_, static_cast<off_t>(from), SEEK_DATA);
  if (at >= 0) return static_cast<std::uint64_t>(at);
  if (errno == ENXIO) return std::nullopt;
  return from;  // the file system cannot tell
}

std::optional<std::uint64_t> pool_file::next_hole(std::uint64_t from) const noexcept {
  const off_t at = lseek(descriptor_, static_cast<off_t>(from), SEEK_HOLE);
  if (at < 0) return std::nullopt;
  return static_cast<std::uint64_t>(at);
}

bool pool_file::read(void* into, std::size_t size, std::uint64_t offset) const {
  for (std::size_t done = 0; done < size;) {
    const ssize_t some =
        pread(descriptor_, static_cast<std::byte*>(into) + done, size - done, static_cast<off_t>(offset + done));
    if (some == 0) return false;
    if (some > 0) {
      done += static_cast<std::size_t>(some);
    } else if (errno != EINTR) {
      raise_errno(errno, fmt::format("reading {} bytes of the store at byte {}", size, offset), path_.native());
    }
  }
  return true;
}

void pool_file::grow(std::uint64_t size, bool huge_pages) const {
  const std::uint64_t before = this->size();
  if (size <= before) return;
  if (huge_pages && on_memory_filesystem()) allocate_huge_pages(before, size);
  const int failed = allocate(descriptor_, before, size);
  if (failed != 0) {
    shrink(before);  // some file systems keep a part of what they allocated
    raise_errno(failed, fmt::format("growing the store from {} to {} bytes", before, size), path_.native());
  }
}

// A memory file system uses huge pages only if the administrator mounted it so; MADV_COLLAPSE (Linux 6.1) requests them
// range by range. It does nothing for an empty range. A range with a single page becomes a huge page for the cost of
// clearing it; allocating and faulting in 512 small pages costs five times as much. Everything here is a hint: a
// failure leaves holes, which the caller fills.
void pool_file::allocate_huge_pages(std::uint64_t from, std::uint64_t to) const noexcept {
  constexpr int collapse = 25;  // MADV_COLLAPSE, which older headers lack
  const std::uint64_t first = format::round_up(from, huge_page_bytes);
  const std::uint64_t end = to / huge_page_bytes * huge_page_bytes;
  if (first >= end) return;
  for (std::uint64_t at = first; at < end; at += huge_page_bytes) {
    if (allocate(descriptor_, at, at + format::page_size) != 0) return;
  }
  // mapped only for this, at an address that is aligned as the file offset is
  const std::uint64_t bytes = end - first;
  const std::uint64_t reserved = bytes + huge_page_bytes;
  void* const addresses = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (addresses == MAP_FAILED) return;
  const auto aligned = format::round_up(reinterpret_cast<std::uintptr_t>(addresses), huge_page_bytes);
  void* const mapped = mmap(reinterpret_cast<void*>(aligned), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                            descriptor_, static_cast<off_t>(first));
  if (mapped != MAP_FAILED) (void)madvise(mapped, bytes, collapse);
  munmap(addresses, reserved);
}

void pool_file::remove_created_file() const noexcept {
  shrink(0);
  if (created_) ::unlink(path_.c_str());
}

void pool_file::shrink(std::uint64_t size) const noexcept {
  // a failure leaves unused bytes at the end, which is harmless
  if (ftruncate(descriptor_, static_cast<off_t>(size)) != 0) return;
}

void pool_file::sync() const {
  if (fdatasync(descriptor_) != 0) raise_errno(errno, "fdatasync", path_.native());
}

void pool_file::sync_with_directory() const {
  if (fsync(descriptor_) != 0) raise_errno(errno, "fsync", path_.native());
  auto directory = path_.parent_path();
  if (directory.empty()) directory = ".";
  const int d = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (d < 0) raise_errno(errno, "opening its directory", path_.native());
  const int failed = fsync(d) != 0 ? errno : 0;
  ::close(d);
  // some file systems report that they cannot sync directories; their names are as durable as they can be
  if (failed != 0 && failed != EINVAL && failed != ENOTSUP)
    raise_errno(failed, "fsync of its directory", path_.native());
}

bool pool_file::give_back(std::uint64_t from, std::uint64_t size) const noexcept {
  constexpr int punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  int failed = 0;
  do {
    failed = ::fallocate(descriptor_, punch, static_cast<off_t>(from), static_cast<off_t>(size)) != 0 ? errno : 0;
  } while (failed == EINTR);
  return failed == 0;
}

void pool_file::require_blocks(std::uint64_t from, std::uint64_t size) const {
  const int failed = allocate(descriptor_, from, from + size);
  if (failed != 0) raise_errno(failed, fmt::format("allocating {} bytes at {}", size, from), path_.native());
}

void pool_file::set_size(std::uint64_t size) const {
  if (ftruncate(descriptor_, static_cast<off_t>(size)) != 0) raise_errno(errno, "ftruncate", path_.native());
}

std::uint64_t pool_file::device_capacity() const noexcept {
  struct statvfs s {};
  if (fstatvfs(descriptor_, &s) != 0) return 0;
  return static_cast<std::uint64_t>(s.f_blocks) * s.f_frsize;
}

std::string pool_file::filesystem_name() const {
  const unsigned long magic = filesystem_magic(descriptor_);
  for (const auto& t : filesystem_types) {
    if (t.magic == magic) return t.name;
  }
  return fmt::format("{:#x}", magic);
}

// A signal undoes a whole call of posix_fallocate(): it allocates in pieces, each done before a profiler's next signal
// comes.
int allocate(int descriptor, std::uint64_t from, std::uint64_t to) noexcept {
  constexpr std::uint64_t piece = std::uint64_t{64} << 20;
  while (from < to) {
    const std::uint64_t size = std::min(piece, to - from);
    const int failed = posix_fallocate(descriptor, static_cast<off_t>(from), static_cast<off_t>(size));
    if (failed == EINTR) continue;
    if (failed != 0) return failed;
    from += size;
  }
  return 0;
}

bool is_on_memory_filesystem(int descriptor) noexcept {
  const unsigned long magic = filesystem_magic(descriptor);
  return magic == TMPFS_MAGIC || magic == ramfs_magic || magic == HUGETLBFS_MAGIC;
}

bool pool_file::is_dax() const noexcept {
  struct statx s {};
  if (statx(descriptor_, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &s) != 0) return false;
  return (s.stx_attributes_mask & s.stx_attributes & STATX_ATTR_DAX) != 0;
}

}  // namespace icecore
