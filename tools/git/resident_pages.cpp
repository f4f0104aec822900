#include "git/resident_pages.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

namespace icecore::cli {
namespace {

constexpr std::uint64_t resident_bytes_max = std::uint64_t{256} << 20U;
constexpr auto between_glances = std::chrono::milliseconds(4);

/// Bytes of files that this process has mapped and touched.
std::uint64_t resident_file_bytes() {
  static const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::ifstream statm("/proc/self/statm");  // all, resident, resident of files
  std::uint64_t pages = 0;
  statm >> pages >> pages >> pages;
  return statm ? pages * page_bytes : 0;
}

void release_pages_of(const std::vector<std::filesystem::path>& files) {
  std::vector<std::string> names;  // as the kernel tells them
  for (const auto& file : files) {
    std::error_code failure;
    if (auto name = std::filesystem::canonical(file, failure); !failure) names.push_back(name.string());
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    // "7f0c8a000000-7f0c8b000000 rw-s 00000000 fe:00 1234   /data/history.ice"
    std::istringstream fields(line);
    std::uintptr_t first = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    std::string access;
    std::string skipped;
    fields >> std::hex >> first >> dash >> end >> access >> skipped >> skipped >> skipped >> std::ws;
    std::string name;
    std::getline(fields, name);
    const bool shared = access.size() == 4 && access[3] == 's';
    if (!fields || !shared || std::ranges::find(names, name) == names.end()) continue;
    // Of a shared mapping this only forgets where the pages are. A failure leaves them mapped, which does no harm.
    (void)::madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);  // NOLINT(performance-no-int-to-ptr)
  }
}

}  // namespace

resident_bound::resident_bound(std::vector<std::filesystem::path> files)
    : files_(std::move(files)), thread_([this] { watch(); }) {}

resident_bound::~resident_bound() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  stopping_.notify_all();
  thread_.join();
}

void resident_bound::add(const std::filesystem::path& file) {
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(files_, file) == files_.end()) files_.push_back(file);
}

void resident_bound::watch() {
  std::unique_lock lock(mutex_);
  while (!stopping_.wait_for(lock, between_glances, [this] { return stopped_; })) {
    if (resident_file_bytes() > resident_bytes_max) release_pages_of(files_);
  }
}

}  // namespace icecore::cli
