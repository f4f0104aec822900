#include "report.hpp"

#include <mntent.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>

namespace icecore::bench {

std::string fixed(double number, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, number);
  return text;
}

void table::print() const {
  std::vector<std::size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const int width = static_cast<int>(widths[i]);
      std::printf("%s%*s", i == 0 ? "" : "  ", i == 0 ? -width : width, row[i].c_str());
    }
    std::printf("\n");
  }
}

namespace {

std::string first_line_of(const char* path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

}  // namespace

std::string mount_of(const std::filesystem::path& folder) {
  std::error_code unknown;
  const std::string wanted = std::filesystem::canonical(folder, unknown).string() + "/";
  const std::unique_ptr<FILE, int (*)(FILE*)> mounts(setmntent("/proc/self/mounts", "r"), endmntent);
  std::string found;
  std::size_t longest = 0;
  if (!mounts) return found;
  while (const mntent* m = getmntent(mounts.get())) {
    const std::string_view where = m->mnt_dir;
    const std::string below = where == "/" ? "/" : std::string(where) + "/";
    if (!wanted.starts_with(below) || below.size() < longest) continue;  // a later mount hides an equal earlier one
    longest = below.size();
    found = std::string(m->mnt_type) + " (" + m->mnt_opts + ")";
  }
  return found;
}

json machine() {
  json about;
  std::ifstream processors("/proc/cpuinfo");
  for (std::string line; std::getline(processors, line);) {
    if (line.starts_with("model name")) {
      about["processor"] = line.substr(line.find(':') + 2);
      break;
    }
  }
  about["hardware_threads"] = std::thread::hardware_concurrency();
  utsname names{};
  if (uname(&names) == 0) about["kernel"] = names.release;
  about["transparent_huge_pages"] = first_line_of("/sys/kernel/mm/transparent_hugepage/enabled");
  about["huge_pages_of_shared_memory"] = first_line_of("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  const char* const tunables = std::getenv("GLIBC_TUNABLES");
  about["glibc_tunables"] = tunables == nullptr ? "" : tunables;
  about["compiler"] = __VERSION__;
  return about;
}

void tell(const std::string& what) {
  static const bool terminal = isatty(STDERR_FILENO) == 1;
  if (terminal) std::fprintf(stderr, "\r\x1b[K%s", what.c_str());
}

}  // namespace icecore::bench
