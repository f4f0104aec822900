// icecore as a map: finds of the newest value, inserts of new versions, no tags. Every write is flushed.
//
// A scan is of a snapshot: it closes the open version if anything was written in it, which moves the clock by one and
// makes nothing durable, and steps a cursor of the version that it closed.
#include <array>

#include "icecore/icecore.hpp"
#include "kinds.hpp"
#include "map.hpp"

namespace icecore::bench {
namespace {

class icecore_map_session final : public map_session {
 public:
  explicit icecore_map_session(icecore::store& store) : store_(store) {}

  void insert(std::string_view key, std::string_view value) override { store_.insert(key, value); }
  void update(std::string_view key, std::string_view value) override { store_.insert(key, value); }
  std::optional<std::string_view> read(std::string_view key) override { return store_.find(key); }

  void scan(std::string_view from, std::size_t count, pair_columns& out) override {
    cursor at = store_.latest().cursor();
    at.seek(from);
    for (; at.valid() && out.count() < count; at.next()) out.add(at->key, at->value);
  }

 private:
  icecore::store& store_;
};

class icecore_map final : public map {
 public:
  icecore_map(const opening& how, index_kind index) : store_(how.folder / file_name, options_of(how, index)) {}

  std::unique_ptr<map_session> new_session() override { return std::make_unique<icecore_map_session>(store_); }

  void check_recovered() const override {
    if (!store_.stats().recovered_from_crash) throw std::runtime_error("the store was closed, not killed");
  }

 private:
  static constexpr const char* file_name = "store.ice";

  static options options_of(const opening& how, index_kind index) {
    options chosen;
    chosen.durability = durability::operation;
    chosen.emulate_durability = true;
    chosen.index = index;
    chosen.recovery_threads = how.threads;
    return chosen;
  }

  icecore::store store_;
};

struct form {
  const char* name;
  index_kind index;
  const char* what;
};

constexpr std::array forms = {
    form{"icecore-btree", index_kind::btree, "B+-tree in memory"},
    form{"icecore-skip_list", index_kind::skip_list, "lock-free skip list in memory, a key a node"},
    form{"icecore-persistent", index_kind::persistent, "persistent index"},
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
         .open_map = [index = one.index](const opening& how) { return std::make_unique<icecore_map>(how, index); }});
  }
  return kinds;
}

}  // namespace icecore::bench
