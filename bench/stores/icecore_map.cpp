// icecore as a map: finds of the newest value, inserts of new versions, no tags. Every write is flushed.
//
// A scan reads a snapshot: it closes the open version if anything was written in it, which moves the clock by one and
// makes nothing durable, and copies a page of the closed version.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>

#include "icecore/icecore.hpp"
#include "kinds.hpp"
#include "map.hpp"

namespace icecore::bench {
namespace {

/// NUMA nodes whose cores threads may run on, ascending; empty if the kernel does not report them.
std::vector<int> nodes_with_cores() {
  std::vector<int> nodes;
  std::error_code none_told;
  for (const auto& folder : std::filesystem::directory_iterator("/sys/devices/system/node", none_told)) {
    int node = 0;
    std::string cores;
    if (std::sscanf(folder.path().filename().c_str(), "node%d", &node) != 1) continue;
    if (std::ifstream(folder.path() / "cpulist") >> cores) nodes.push_back(node);
  }
  std::ranges::sort(nodes);
  return nodes;
}

class icecore_map_session final : public map_session {
 public:
  explicit icecore_map_session(icecore::store& store) : store_(store) {}

  void insert(std::string_view key, std::string_view value) override { store_.insert(key, value); }
  void update(std::string_view key, std::string_view value) override { store_.insert(key, value); }
  std::optional<std::string_view> read(std::string_view key) override {
    value_ = store_.find(key);
    return value_ ? std::optional<std::string_view>(*value_) : std::nullopt;
  }

  void scan(std::string_view from, std::size_t count, pair_columns& out) override {
    out.set_count(store_.latest().extract_page(from, {.keys = out.keys(),
                                                      .key_size = out.key_size(),
                                                      .values = out.values(),
                                                      .value_size = out.value_size(),
                                                      .capacity = std::min(count, out.capacity())}));
  }

 private:
  icecore::store& store_;
  std::optional<value> value_;  // what read() returned last
};

class icecore_map final : public map {
 public:
  icecore_map(const opening& how, index_kind index, bool several)
      : store_(how.folder / file_name, options_of(how, index, several)) {}

  std::unique_ptr<map_session> new_session() override { return std::make_unique<icecore_map_session>(store_); }

  void settle() override { static_cast<void>(store_.compact()); }

  void check_recovered() const override {
    if (!store_.stats().recovered_from_crash) throw std::runtime_error("the store was closed, not killed");
  }

 private:
  static constexpr const char* file_name = "store.ice";

  /// If there is only one node, two files that the threads share evenly.
  static std::vector<placement> a_file_a_node(const std::filesystem::path& folder) {
    const auto further = [&](int number) { return folder / fmt::format("{}.{}", file_name, number); };
    std::vector<placement> files;
    for (const int node : nodes_with_cores()) {
      files.push_back({files.empty() ? folder / file_name : further(node), node});
    }
    return files.size() > 1 ? files : std::vector{placement{further(1), -1}};
  }

  static options options_of(const opening& how, index_kind index, bool several) {
    options chosen;
    chosen.durability = durability::operation;
    chosen.emulate_durability = true;
    chosen.index = index;
    chosen.recovery_threads = how.threads;
    if (several) chosen.placements = a_file_a_node(how.folder);
    return chosen;
  }

  icecore::store store_;
};

struct form {
  const char* name;
  index_kind index;
  const char* what;
  bool several_files = false;
};

constexpr std::array forms = {
    form{"icecore-btree", index_kind::btree, "B+-tree in memory"},
    form{"icecore-skip_list", index_kind::skip_list, "lock-free skip list in memory, a key a node"},
    form{"icecore-hash", index_kind::hash, "lock-free split-ordered list in memory: a hash"},
    form{"icecore-persistent", index_kind::persistent, "persistent index"},
    form{"icecore-persistent-pools", index_kind::persistent,
         "persistent index; a file a NUMA node, two if there is one", true},
};

}  // namespace

std::vector<store_kind> icecore_map_kinds() {
  std::vector<store_kind> kinds;
  for (const form& one : forms) {
    kinds.push_back(
        {.name = one.name,
         .configuration = std::string(one.what) +
                          ". Every write durable; on a file system in memory the flushes are executed "
                          "though nothing outlives power. Updates are new versions, reads are of the newest.",
         .survives_kill = true,
         .parallel_extract = false,
         .open_map = [one](const opening& how) {
           return std::make_unique<icecore_map>(how, one.index, one.several_files);
         }});
  }
  return kinds;
}

}  // namespace icecore::bench
