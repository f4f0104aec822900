#include "crashes/recorder.hpp"

#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>
#include <set>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "support/boot.hpp"

namespace icecore::service::crashes {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr unsigned threads_max = 1024;  // of a child that ever sync
constexpr std::size_t sector = 512;
constexpr std::size_t moments_kept = 3;
constexpr auto lie_lasts = 20ms;

[[noreturn]] void failed(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

/// The child's: where its syncs are told; null outside of a child.
recorder* telling = nullptr;
std::atomic<unsigned> next_thread{0};

std::string read_all(int descriptor) {
  struct stat now {};
  if (::fstat(descriptor, &now) != 0) failed("fstat");
  std::string bytes(static_cast<std::size_t>(now.st_size), '\0');
  std::size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t n = ::pread(descriptor, bytes.data() + got, bytes.size() - got, static_cast<off_t>(got));
    if (n < 0) failed("pread");
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  bytes.resize(got);
  return bytes;
}

std::string read_file(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) failed(path.c_str());
  std::string bytes = read_all(descriptor);
  ::close(descriptor);
  return bytes;
}

std::pair<std::uint64_t, std::int64_t> identity_of(const fs::path& path, bool& folder) {
  struct statx about {};
  if (::statx(AT_FDCWD, path.c_str(), 0, STATX_INO | STATX_BTIME | STATX_TYPE, &about) != 0) failed(path.c_str());
  folder = S_ISDIR(about.stx_mode);
  return {about.stx_ino, about.stx_btime.tv_sec * 1'000'000'000 + about.stx_btime.tv_nsec};
}

/// How much of what is new is there: of a thousand sectors, so many.
unsigned new_in_thousand(unsigned kind, std::mt19937_64& random) {
  switch (kind) {
    case 0:
      return 0;
    case 1:
      return 1000;
    case 2:
      return 10;
    case 3:
      return 990;
    default:
      return static_cast<unsigned>(random() % 1001);
  }
}

}  // namespace

struct recorder::told {
  unsigned thread;
  int descriptor;
  bool begins;
};
struct recorder::shared {
  sem_t answered[threads_max];
};

recorder::recorder(fs::path folder, device kind) : folder_(std::move(folder)), kind_(kind) {
  void* memory = ::mmap(nullptr, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) failed("mmap");
  shared_ = new (memory) shared;
  for (sem_t& each : shared_->answered) ::sem_init(&each, 1, 0);
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_) != 0) failed("socketpair");
  bool is_folder = false;
  root_ = identity_of(folder_, is_folder);
  look_at(folder_, true);
}

recorder::~recorder() {
  ::close(ends_[0]);
  ::close(ends_[1]);
  ::munmap(shared_, sizeof(shared));
}

void recorder::in_child() { telling = this; }

// ---- The child's ----

int recorder::told_sync(int descriptor) {
  if (telling == nullptr) return 0;  // the parent's files need not survive
  static thread_local const unsigned mine = next_thread++;
  return telling->tell(mine, descriptor);
}

// Devices take their time: meanwhile other threads write.
int recorder::tell(unsigned thread, int descriptor) {
  if (thread >= threads_max) std::abort();
  for (const bool begins : {true, false}) {
    const told what{thread, descriptor, begins};
    if (::send(ends_[1], &what, sizeof what, 0) != sizeof what) std::_Exit(8);
    while (::sem_wait(&shared_->answered[thread]) != 0) {
    }
    if (begins) std::this_thread::sleep_for(std::chrono::microseconds((thread * 7919U + calls_++ * 131U) % 800));
  }
  return 0;
}

// ---- The parent's ----

recorder::node& recorder::known(const identity& which, bool folder) {
  node& n = nodes_[which];
  n.folder = folder;
  return n;
}

// What is gone keeps what it was when it was last looked at: its name may come back.
void recorder::look_at(const fs::path& path, bool durable) {
  bool folder = false;
  const identity which = identity_of(path, folder);
  moment now{.when = ++when_};
  if (folder) {
    for (const auto& entry : fs::directory_iterator(path)) {
      bool ignored = false;
      now.entries.emplace(entry.path().filename(), identity_of(entry.path(), ignored));
      look_at(entry.path(), durable);
    }
  } else {
    now.bytes = std::make_shared<const std::string>(read_file(path));
  }
  node& n = known(which, folder);
  n.now = std::move(now);
  if (durable) n.durable = n.now;
}

void recorder::become_durable(const identity& which, const moment& then) {
  node& n = nodes_[which];
  if (then.when < n.durable.when) return;  // a sync that began later has returned
  n.durable = then;
  std::erase_if(n.since, [&](const moment& each) { return each.when <= then.when; });
}

void recorder::pay(bool all) {
  const auto now = std::chrono::steady_clock::now();
  for (; !owed_.empty() && (all || owed_.front().due <= now); owed_.pop_front()) {
    become_durable(owed_.front().which, owed_.front().then);
  }
}

void recorder::answer(const told& what) {
  pay(false);
  if (what.begins) {
    ++syncs_;
    stop_child();
    const fs::path at = "/proc/" + std::to_string(child_) + "/fd/" + std::to_string(what.descriptor);
    bool folder = false;
    const identity which = identity_of(at, folder);
    moment then{.when = ++when_};
    if (folder) {
      for (const auto& entry : fs::directory_iterator(fs::read_symlink(at))) {
        bool ignored = false;
        then.entries.emplace(entry.path().filename(), identity_of(entry.path(), ignored));
      }
    } else {
      then.bytes = std::make_shared<const std::string>(read_file(at));
    }
    node& n = known(which, folder);
    if (!folder) {
      n.since.push_back(then);
      if (n.since.size() > moments_kept) n.since.erase(n.since.begin());
    }
    running_[what.thread] = {which, std::move(then)};
    resume();
  } else if (const auto found = running_.find(what.thread); found != running_.end()) {
    auto& [which, then] = found->second;
    if (kind_ == device::lies) {
      owed_.push_back({which, std::move(then), std::chrono::steady_clock::now() + lie_lasts});
    } else {
      become_durable(which, then);
    }
    running_.erase(found);
  }
  ::sem_post(&shared_->answered[what.thread]);
}

void recorder::stop_child() {
  ::kill(child_, SIGSTOP);
  int status = 0;
  if (::waitpid(child_, &status, WUNTRACED) != child_ || !WIFSTOPPED(status)) {
    throw std::runtime_error("the process that was recorded has ended by itself: " +
                             std::to_string(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status)));
  }
  stopped_ = true;
}

void recorder::resume() {
  stopped_ = false;
  ::kill(child_, SIGCONT);
}

void recorder::run(pid_t child, std::chrono::microseconds so_long, bool up_to_a_sync) {
  child_ = child;
  const auto until = std::chrono::steady_clock::now() + so_long;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    const bool over = left <= 0ms;
    if (over && !up_to_a_sync) break;
    pollfd there{ends_[0], POLLIN, 0};
    const int n = ::poll(&there, 1, over ? 50 : static_cast<int>(left.count()));
    if (n <= 0 && over) break;
    if (n <= 0) continue;
    if (over) break;  // the sync that has just begun, or ended, is not answered: the power is cut within it
    told what{};
    if (::recv(ends_[0], &what, sizeof what, 0) != sizeof what) failed("recv");
    answer(what);
  }
  stop_child();
}

void recorder::look() {
  pay(false);
  look_at(folder_, false);
}

// ---- Images ----

// Each sector comes from one of the moments in which the file was since its last sync.
void recorder::draw_folder(const node& of, const fs::path& to, std::mt19937_64& random, unsigned kind) const {
  fs::create_directory(to);
  const names& before = of.durable.entries;
  const names& now = of.now.entries;
  std::set<identity> stays;
  for (const auto& [name, which] : before) stays.insert(which);
  const bool renamed = std::ranges::any_of(now, [&](const auto& each) {
    const auto was = before.find(each.first);
    return stays.contains(each.second) && (was == before.end() || was->second != each.second);
  });
  const unsigned share = new_in_thousand(kind, random);
  const bool together = random() % 1000 < share;
  std::set<std::string> all;
  for (const auto& [name, which] : before) all.insert(name);
  for (const auto& [name, which] : now) all.insert(name);
  for (const std::string& name : all) {
    const names& from = (renamed ? together : random() % 1000 < share) ? now : before;
    const auto which = from.find(name);
    if (which == from.end()) continue;
    const node& n = nodes_.at(which->second);
    if (n.folder) {
      draw_folder(n, to / name, random, kind);
      continue;
    }
    std::vector<const std::string*> moments;
    static const std::string nothing;
    moments.push_back(n.durable.bytes ? n.durable.bytes.get() : &nothing);
    for (const moment& each : n.since) moments.push_back(each.bytes.get());
    moments.push_back(n.now.bytes ? n.now.bytes.get() : moments.back());
    const unsigned new_share = new_in_thousand(kind, random);
    const auto any = [&]() -> const std::string& {
      if (random() % 1000 >= new_share) return *moments.front();
      if (kind == 1) return *moments.back();
      return *moments[1 + random() % (moments.size() - 1)];
    };
    std::string bytes(any().size(), '\0');
    for (std::size_t at = 0; at < bytes.size(); at += sector) {
      const std::string& source = any();
      if (at >= source.size()) continue;
      std::memcpy(bytes.data() + at, source.data() + at, std::min({sector, source.size() - at, bytes.size() - at}));
    }
    const int file = ::open((to / name).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    struct stat made {};
    if (file < 0 || ::fstat(file, &made) != 0) failed("open");
    testing::change_boot(bytes, testing::inodes{which->second.first, made.st_ino});
    if (::write(file, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) failed("write");
    ::close(file);
  }
}

void recorder::draw(const fs::path& to, std::mt19937_64& random) const {
  draw_folder(nodes_.at(root_), to, random, static_cast<unsigned>(random() % 8));
}

}  // namespace icecore::service::crashes

extern "C" {
int fdatasync(int descriptor) { return icecore::service::crashes::recorder::told_sync(descriptor); }
int fsync(int descriptor) { return icecore::service::crashes::recorder::told_sync(descriptor); }
}
