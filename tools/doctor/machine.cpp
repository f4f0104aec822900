#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "doctor/findings.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

namespace fs = std::filesystem;

/// "[madvise]" of "always [madvise] never" without its brackets.
std::string chosen_of(const std::string& choices) {
  const std::size_t open = choices.find('[');
  const std::size_t close = choices.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return choices;
  return choices.substr(open + 1, close - open - 1);
}

/// How many numbers a list such as "0-3,8" names.
std::size_t count_of(const std::string& list) {
  std::size_t count = 0;
  std::size_t at = 0;
  while (at < list.size()) {
    char* end = nullptr;
    const unsigned long first = std::strtoul(list.c_str() + at, &end, 10);
    unsigned long last = first;
    if (*end == '-') last = std::strtoul(end + 1, &end, 10);
    count += last >= first ? last - first + 1 : 0;
    at = static_cast<std::size_t>(end - list.c_str()) + 1;
  }
  return count;
}

std::string limit_text(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : human_bytes(static_cast<double>(limit));
}

rlim_t limit_of(int resource) {
  rlimit limit{};
  return ::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

/// The first of the programs that is on PATH, with links resolved; empty if none is.
std::string program_on_path(std::initializer_list<std::string_view> names) {
  const char* const path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::string folder(rest.substr(0, rest.find(':')));
    for (const std::string_view name : names) {
      const fs::path program = fs::path(folder) / name;
      std::error_code failure;
      if (::access(program.c_str(), X_OK) == 0) {
        const fs::path real = fs::canonical(program, failure);
        return failure || real == program ? program.string() : fmt::format("{} ({})", program.string(), real.string());
      }
    }
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
  }
  return {};
}

}  // namespace

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

void look_at_huge_pages(bool memory_files, doctor_findings& found) {
  const fs::path folder = "/sys/kernel/mm/transparent_hugepage";
  const std::string enabled = chosen_of(first_line(folder / "enabled"));
  if (enabled.empty()) {
    found.push_back({light::yellow, "huge pages", "the kernel has none, or hides them (/sys is not there)",
                     "finds in large stores are slower; nothing to change inside of a container"});
  } else if (enabled == "never") {
    found.push_back(
        {light::yellow, "huge pages", "never", "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"});
  } else {
    found.push_back({light::green, "huge pages", fmt::format("{}: an index in memory gets them", enabled), ""});
  }
  const std::string shared = chosen_of(first_line(folder / "shmem_enabled"));
  if (shared.empty() || !memory_files) return;
  if (shared == "never" || shared == "deny") {
    found.push_back({light::yellow, "huge pages of memory files", shared,
                     "for stores on a memory file system, as root: echo advise > "
                     "/sys/kernel/mm/transparent_hugepage/shmem_enabled, or mount it with huge=advise"});
  } else {
    found.push_back({light::green, "huge pages of memory files", shared, ""});
  }
}

void look_at_numa(doctor_findings& found) {
  const std::size_t nodes = std::max<std::size_t>(1, count_of(first_line("/sys/devices/system/node/has_memory")));
  cpu_set_t mine;
  CPU_ZERO(&mine);
  const int cores = ::sched_getaffinity(0, sizeof mine, &mine) == 0 ? CPU_COUNT(&mine) : 1;
  const long all = ::sysconf(_SC_NPROCESSORS_ONLN);
  const std::string text = fmt::format("{} {} with memory; this process may use {} of {} cores", nodes,
                                       nodes == 1 ? "node" : "nodes", cores, all);
  if (nodes > 1) {
    found.push_back({light::yellow, "NUMA", text,
                     "for writers on several nodes, give each node a file of the store: --placement PATH@NODE "
                     "(docs/cli.md, \"Several files\")"});
  } else {
    found.push_back({light::green, "NUMA", text, ""});
  }
}

void look_at_limits(doctor_findings& found) {
  const auto add = [&](std::string part, bool good, std::string text, std::string advice) {
    found.push_back(
        {good ? light::green : light::yellow, std::move(part), std::move(text), good ? "" : std::move(advice)});
  };
  const rlim_t file = limit_of(RLIMIT_FSIZE);
  add("size of files", file == RLIM_INFINITY, limit_text(file), "a store cannot grow beyond it: ulimit -f unlimited");
  const rlim_t space = limit_of(RLIMIT_AS);
  add("address space", space == RLIM_INFINITY, limit_text(space),
      "a store is mapped as a whole, with room to grow: ulimit -v unlimited");
  const rlim_t files = limit_of(RLIMIT_NOFILE);
  constexpr rlim_t files_min = 1024;
  add("open files", files >= files_min, files == RLIM_INFINITY ? "unlimited" : grouped(files),
      fmt::format("a server or a cluster may need more: ulimit -n {}", files_min));
  if (const std::string maps = first_line("/proc/sys/vm/max_map_count"); !maps.empty()) {
    constexpr long maps_min = 65'530;  // what Linux begins with
    add("mapped areas", std::atol(maps.c_str()) >= maps_min, maps,
        fmt::format("as root: sysctl vm.max_map_count={}", maps_min));
  }
  if (const std::string overcommit = first_line("/proc/sys/vm/overcommit_memory"); !overcommit.empty()) {
    add("overcommit of memory", overcommit != "2",
        overcommit == "2" ? "strict (2)" : fmt::format("allowed ({})", overcommit),
        "memory that is reserved counts as used: sysctl vm.overcommit_memory=0, or give stores less");
  }
  const std::string group = first_line("/sys/fs/cgroup/memory.max");
  if (!group.empty() && group != "max") {
    found.push_back({light::green, "memory of this group", human_bytes(std::atof(group.c_str())), ""});
  }
}

void look_at_shared_memory(doctor_findings& found) {
  constexpr double needed_bytes = 128e6;  // containers begin with 64 MB
  struct statvfs status {};
  if (::statvfs("/dev/shm", &status) != 0) {
    found.push_back({light::yellow, "/dev/shm", "is not there",
                     "stores that processes share, and MPI within a node, need it: mount -t tmpfs tmpfs /dev/shm"});
    return;
  }
  const double bytes = static_cast<double>(status.f_blocks) * static_cast<double>(status.f_frsize);
  const std::string text =
      fmt::format("{}, {} free", human_bytes(bytes),
                  human_bytes(static_cast<double>(status.f_bavail) * static_cast<double>(status.f_frsize)));
  if (bytes < needed_bytes) {
    found.push_back(
        {light::yellow, "/dev/shm", text,
         "it is small for shared stores and MPI: mount -o remount,size=50% /dev/shm, or docker run --shm-size"});
  } else {
    found.push_back({light::green, "/dev/shm", text, ""});
  }
}

void look_at_crash_evidence(doctor_findings& found) {
  if (!first_line("/proc/sys/kernel/random/boot_id").empty()) {
    found.push_back({light::green, "crashes", "it can be told whether a process or the machine ended (boot_id)", ""});
  } else {
    found.push_back({light::yellow, "crashes", "the kernel hides when it was started (boot_id)",
                     "after a crash, say what it was: --crash process or --crash machine; or mount /proc"});
  }
}

void look_at_mpi(doctor_findings& found) {
  const std::string program = program_on_path({"mpirun", "mpiexec"});
  found.push_back({light::green, "MPI", program.empty() ? "not found; only clusters over ranks need it" : program, ""});
}

}  // namespace icecore::cli
