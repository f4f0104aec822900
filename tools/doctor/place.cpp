#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string_view>

#include "doctor/findings.hpp"
#include "icecore/store.hpp"
#include "line/arguments.hpp"
#include "line/wording.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

namespace fs = std::filesystem;

struct mount_point {
  std::string folder;
  std::string kind;
  std::string options;
};

/// A field of /proc/self/mountinfo, where some characters are octal escapes.
std::string unescaped_field(const std::string& field) {
  std::string out;
  for (std::size_t i = 0; i < field.size(); ++i) {
    if (field[i] == '\\' && i + 3 < field.size()) {
      out += static_cast<char>(std::stoi(field.substr(i + 1, 3), nullptr, 8));
      i += 3;
    } else {
      out += field[i];
    }
  }
  return out;
}

/// The mount that holds a folder: of those whose place is a part of its path the longest, the last one of equals.
mount_point mount_of(const fs::path& folder) {
  const std::string path = fs::canonical(folder).string();
  mount_point best;
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    // 36 35 98:0 /root /mount/point rw,noatime master:1 - ext4 /dev/sda1 rw,dax
    std::istringstream words(line);
    const std::vector<std::string> fields{std::istream_iterator<std::string>(words), {}};
    const auto dash = std::ranges::find(fields, "-");
    if (fields.size() < 6 || fields.end() - dash < 4) continue;
    const std::string place = unescaped_field(fields[4]);
    const bool holds = place == "/" || path == place || (path.starts_with(place) && path[place.size()] == '/');
    if (holds && place.size() >= best.folder.size()) best = {place, dash[1], fields[5] + ',' + dash[3]};
  }
  return best;
}

bool has_option(const mount_point& mount, std::string_view wanted) {
  std::istringstream options(mount.options);
  for (std::string one; std::getline(options, one, ',');) {
    if (one == wanted || one.starts_with(std::string(wanted) + '=')) return one != std::string(wanted) + "=never";
  }
  return false;
}

bool is_one_of(std::string_view kind, std::initializer_list<std::string_view> kinds) {
  return std::ranges::find(kinds, kind) != kinds.end();
}

void look_at_kind(const mount_point& mount, const std::string& text, doctor_findings& found) {
  constexpr std::string_view part = "file system";
  if (mount.kind.starts_with("nfs") ||
      is_one_of(mount.kind, {"cifs", "smb3", "9p", "ceph", "lustre", "gpfs", "beegfs"})) {
    found.push_back({light::yellow, std::string(part), text,
                     "a file system over a network: write a store from one machine at a time, and measure it "
                     "(icecore bench --path); a local device is faster"});
  } else if (mount.kind.starts_with("fuse") || is_one_of(mount.kind, {"overlay", "aufs"})) {
    found.push_back({light::yellow, std::string(part), text,
                     "a file system above another: put stores on a volume of the device itself"});
  } else if (is_one_of(mount.kind, {"tmpfs", "ramfs"})) {
    found.push_back({light::yellow, std::string(part), text, "it is memory: a power cut takes everything on it"});
  } else {
    found.push_back({light::green, std::string(part), text, ""});
  }
}

std::string_view mode_name(durability mode) {
  return mode == durability::operation ? "operation" : mode == durability::tag ? "tag" : "none";
}

std::string_view words_of(medium m) {
  switch (m) {
    case medium::persistent_memory:
      return "persistent memory";
    case medium::block_device:
      return "a block device";
    case medium::memory:
      break;
  }
  return "memory";
}

/// A store that is made to try a folder, and removed.
class trial_store {
 public:
  explicit trial_store(const fs::path& folder) : path_(folder / fmt::format(".icecore-doctor-{}.ice", ::getpid())) {}
  ~trial_store() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  trial_store(const trial_store&) = delete;
  trial_store& operator=(const trial_store&) = delete;

  [[nodiscard]] store open(durability mode) const {
    options opening;
    opening.creation = creation::create_new;
    opening.durability = mode;
    return store(path_, opening);
  }
  void remove() const { fs::remove(path_); }

 private:
  fs::path path_;
};

/// The time of one write with what the mode makes it wait for, in milliseconds: the middle one of some.
double wait_ms(store& s, durability mode) {
  constexpr int times = 7;
  std::vector<double> waits;
  for (int i = 0; i < times; ++i) {
    const auto start = std::chrono::steady_clock::now();
    s.insert("key", "value");
    if (mode == durability::tag) (void)s.tag();
    waits.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::sort(waits);
  return waits[times / 2];
}

void try_mode(const trial_store& trial, durability mode, doctor_findings& found) {
  const std::string part = fmt::format("durability {}", mode_name(mode));
  const std::string_view kept = mode == durability::operation ? "every write" : "every tag";
  try {
    store s = trial.open(mode);
    const double ms = wait_ms(s, mode);
    const durability_info given = s.durability();
    s.close();
    trial.remove();
    found.push_back(
        {light::green, part,
         fmt::format("{} survives a power cut, by {}; one takes {:.3f} ms here", kept, given.flush_method, ms), ""});
  } catch (const error& refused) {
    if (refused.code() != errc::not_durable) throw;
    found.push_back({light::yellow, part,
                     fmt::format("{} cannot be made to survive a power cut here",
                                 mode == durability::tag ? "tags" : "single writes"),
                     "put the store on a block device or on persistent memory"});
  }
}

}  // namespace

void look_at_file_system(const fs::path& folder, doctor_findings& found) {
  struct statvfs status {};
  if (::statvfs(folder.c_str(), &status) != 0) {
    found.push_back({light::red, "file system", fmt::format("{} cannot be looked at", folder.string()),
                     "make the folder, or name another"});
    return;
  }
  const mount_point mount = mount_of(folder);
  const double free = static_cast<double>(status.f_bavail) * static_cast<double>(status.f_frsize);
  look_at_kind(mount, fmt::format("{} at {}", mount.kind.empty() ? "unknown" : mount.kind, shown(mount.folder)), found);
  constexpr double free_min = 100e6;
  found.push_back(
      {free < free_min ? light::yellow : light::green, "free space", human_bytes(free),
       free < free_min ? "make room, or choose another device; a full device refuses writes (code 7)" : ""});
  if (has_option(mount, "dax")) {
    found.push_back({light::green, "DAX", "the file system is mounted with it", ""});
  } else {
    std::error_code failure;
    const bool pmem = fs::exists("/dev/pmem0", failure) || fs::exists("/dev/dax0.0", failure);
    found.push_back({pmem ? light::yellow : light::green, "DAX",
                     pmem ? "this machine has persistent memory, but this file system does not use it"
                          : "no persistent memory on this machine",
                     pmem ? "to use it: mkfs.ext4 /dev/pmem0; mount -o dax=always /dev/pmem0 FOLDER" : ""});
  }
  if (::access(folder.c_str(), W_OK) != 0) {
    found.push_back({light::red, "permission", fmt::format("nothing can be written to {}", shown(folder.string())),
                     "change its owner or mode, or mount it for writing; stores in it can be read"});
  }
}

void look_at_durability(const fs::path& folder, doctor_findings& found) {
  if (::access(folder.c_str(), W_OK) != 0) return;  // look_at_file_system() says so
  const trial_store trial(folder);
  try {
    {
      store s = trial.open(durability::best_available);
      const durability_info given = s.durability();
      s.close();
      trial.remove();
      found.push_back(
          {given.medium == medium::memory ? light::yellow : light::green, "medium",
           fmt::format("{} ({}); the best mode is {}", words_of(given.medium), given.filesystem, mode_name(given.mode)),
           given.medium == medium::memory ? "for what must survive, write checkpoints to a device (icecore checkpoint)"
                                          : ""});
    }
    try_mode(trial, durability::tag, found);
    try_mode(trial, durability::operation, found);
  } catch (const error& failure) {
    found.push_back({light::red, "writing a store", in_words_of_the_command(failure.message()),
                     "resolve this first; no store can be made here"});
  }
}

bool is_memory(const fs::path& folder) {
  std::error_code failure;
  return fs::exists(folder, failure) && is_one_of(mount_of(folder).kind, {"tmpfs", "ramfs"});
}

void look_at_store(const fs::path& path, doctor_findings& found) {
  try {
    options opening;
    opening.access = access::read_only;
    opening.creation = creation::open_existing;
    const store s(path, opening);
    const statistics holds = s.stats();
    const std::string text =
        fmt::format("{} keys, {} records, {} tags, index {}, opened in {:.3f} s", grouped(holds.keys),
                    grouped(holds.records), grouped(holds.tags), index_name(holds.index), holds.recovery_seconds);
    if (s.beside_writer()) {
      found.push_back({light::green, "store", text + "; another process has it open for writing", ""});
    } else if (holds.recovered_from_crash) {
      found.push_back({light::yellow, "store", text + "; its last writer had not closed it",
                       "a verb that writes, such as icecore tag, recovers it for good"});
    } else {
      found.push_back({light::green, "store", text, ""});
    }
    constexpr double slow_seconds = 5;
    if (holds.recovery_seconds > slow_seconds && holds.index != index_kind::persistent) {
      found.push_back({light::yellow, "opening",
                       fmt::format("{:.1f} s, for the index is built each time", holds.recovery_seconds),
                       fmt::format("icecore reindex {} --index persistent opens at once", shown(path.string()))});
    }
  } catch (const error& failure) {
    found.push_back({light::red, "store", in_words_of_the_command(failure.message()),
                     failure.code() == errc::damaged
                         ? "icecore verify names the places, icecore repair saves what is intact"
                         : "the message says what to do"});
  }
}

}  // namespace icecore::cli
