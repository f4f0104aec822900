#include "icecore_filtered.hpp"

#include <fmt/format.h>

#include "kinds.hpp"

namespace icecore::bench {
namespace {

options options_of(index_kind index, unsigned recovery_threads) {
  options chosen;
  chosen.durability = durability::operation;
  chosen.emulate_durability = true;
  chosen.index = index;
  chosen.recovery_threads = recovery_threads;
  return chosen;
}

}  // namespace

icecore_filtered::icecore_filtered(const std::filesystem::path& folder, index_kind index, unsigned recovery_threads)
    : store_(folder / "store.ice", options_of(index, recovery_threads)) {}

void icecore_filtered::load(std::span<const filtered_pair> pairs) {
  for (const filtered_pair& p : pairs) store_.insert(text_of(p.key_bytes()), bytes_of(p.number));
  store_.tag();
}

void icecore_filtered::find_below(std::int64_t below, unsigned threads, std::string& keys) {
  const snapshot then = store_.at(store_.clock() - 1);
  if (threads == 1) {
    keys.clear();
    for (const item& found : then.where(condition(below))) keys.append(found.key);
    return;
  }
  const auto columns = then.extract(condition(below), {"key"}, threads);
  keys.assign(columns.front().bytes.data(), columns.front().bytes.size());
}

filter icecore_filtered::condition(std::int64_t below) {
  return filter(fmt::format("number < {}", below), layout("number i64"));
}

std::vector<store_kind> icecore_filtered_kinds() {
  return {{.name = "icecore",
           .configuration = "B+-tree, every write durable, the filter as an expression",
           .survives_kill = true,
           .parallel_extract = true,
           .open_filtered = [](const opening& how) {
             return std::make_unique<icecore_filtered>(how.folder, index_kind::btree, how.threads);
           }}};
}

}  // namespace icecore::bench
