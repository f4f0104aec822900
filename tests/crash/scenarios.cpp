#include "scenarios.hpp"

#include <iterator>
#include <random>
#include <utility>

#include "pool/format.hpp"

namespace icecore::crash {
namespace {

using kind = answered::kind;

planned insert(const std::string& key, const std::string& value) { return {kind::insert, {{key, value}}}; }
planned remove(const std::string& key) { return {kind::remove, {{key, std::nullopt}}}; }
planned find(const std::string& key) { return {kind::find, {{key, std::nullopt}}}; }
planned tag() { return {kind::tag}; }
planned look() { return {kind::look}; }
planned sync() { return {kind::sync}; }
planned insert_new(const std::string& key, const std::string& value) { return {kind::insert_new, {{key, value}}}; }
planned replace(const std::string& key, const std::string& value, version expected) {
  return {kind::replace, {{key, value}}, expected};
}
/// A batch with the condition that neither key is there.
planned both_new(const std::string& a, const std::string& b, const std::string& value) {
  return {kind::batch_new, {{a, value}, {b, value}}};
}
planned both(const std::string& a, const std::string& b, const std::string& value) {
  return {kind::batch, {{a, value}, {b, value}}};
}

/// Keys that one leaf has at opening.
unsigned leaf_keys(index_kind index) noexcept {
  return index == index_kind::persistent ? format::index_pairs_max : 57;  // of the lists none
}

/// Keys that there is room for in a leaf then: an index in memory is built anew, with room in its leaves.
unsigned leaf_room(index_kind index) noexcept { return index == index_kind::btree ? 64 - leaf_keys(index) : 0; }

const char* name_of(index_kind index) noexcept {
  constexpr const char* names[] = {"", "btree", "skip list", "persistent", "list", "hash"};
  return names[static_cast<std::size_t>(index)];
}

/// Splits of leaves of the persistent index beside readers and makers. `leaf`: the keys that one leaf has.
std::vector<scenario> splits_of_persistent(const std::vector<std::string>& leaf) {
  std::vector<scenario> all;
  const auto add = [&](const char* name, const std::vector<std::string>& before, std::vector<planned> a,
                       std::vector<planned> b) {
    const story_options how{durability::none, index_kind::persistent, device::persistent_memory, 2};
    all.push_back({std::string(name) + ", persistent", how, before, {std::move(a), std::move(b)}});
  };
  // Three leaves, each of which has more in common than all: heads change when the one between the others is cut.
  constexpr unsigned of_a_leaf = format::index_pairs_max - 1;  // so a leaf is cut that keys filled in their order
  const auto key_of = [](unsigned leaf_number, unsigned i) {
    return std::string("leaf-") + static_cast<char>('a' + leaf_number) + "-of-three-" + std::to_string(100 + i);
  };
  std::vector<std::string> leaves;
  for (unsigned i = 0; i < 2 * of_a_leaf + 5; ++i) leaves.push_back(key_of(i / of_a_leaf, i % of_a_leaf));
  const std::string low = key_of(1, 9) + "5";
  const std::string middle = key_of(1, 12);  // with `low`, the first one of the right half
  const std::string high = key_of(1, 18);
  add("a split between two leaves and a reader", leaves, {insert(low, "a1"), insert(high + "5", "a2")},
      {find(high), find(middle)});
  add("a split between two leaves and a maker", leaves,
      {insert(low, "a1"), insert(low + "5", "a2"), insert(low + "7", "a3")},
      {insert(high + "5", "b1"), insert(high + "7", "b2"), find(high)});
  add("a split between two leaves and a looker", leaves, {insert(low, "a1"), insert(high + "5", "a2")},
      {look(), look()});
  std::vector<std::string> full = leaves;
  full.push_back(key_of(1, 9) + "3");  // the one between two others
  add("a split of a full leaf between two and a reader", full, {insert(low, "a1")}, {find(high)});
  // The slot of the first pair that goes to the right is used again for what is inserted on the left.
  const std::string left = leaf[leaf.size() / 3] + "5";
  const std::string moved = leaf[leaf.size() / 2];
  add("a slot used again and a reader", leaf, {insert(left, "a1"), insert(left + "5", "a2")},
      {find(moved), find(moved)});
  add("a split and a looker", leaf, {insert(left, "a1"), insert(left + "5", "a2")}, {look(), look()});
  // The second one makes a bound of a key that came after the first one.
  const std::string& last = leaf.back();
  const std::string& before_last = leaf[leaf.size() - 2];
  add("two splits of one leaf and a maker", leaf,
      {insert(last + "1", "a1"), insert(before_last + "1", "a2"), insert(before_last + "2", "a3")},
      {insert(last + "2", "b1"), find(before_last)});
  // The second one is about to cut the leaf, too, when the slot that the first one has freed is used again.
  add("two makers behind a full leaf", leaf, {insert(last + "1", "a1"), insert(before_last + "1", "a2")},
      {insert(last + "2", "b1")});
  return all;
}

std::vector<scenario> scenarios_of(index_kind index) {
  std::vector<std::string> leaf;
  for (unsigned i = 0; i < leaf_keys(index); ++i) leaf.push_back("leaf-" + std::to_string(100 + i));
  const std::string there = leaf[leaf.size() * 2 / 3];
  const std::string left = leaf[leaf.size() / 3] + "5";
  const std::string right = there + "5";
  // What splits the leaf: so many more keys fill it.
  std::vector<planned> splitting;
  for (unsigned i = 0; i < leaf_room(index); ++i) splitting.push_back(insert(leaf[5 * i] + "3", "f"));
  splitting.push_back(insert(left, "a1"));
  std::vector<planned> splitting_and_find = splitting;
  splitting.push_back(insert(right, "a2"));
  splitting_and_find.push_back(find(right));
  const auto of = [](std::string name, std::vector<std::string> before, std::vector<planned> a,
                     std::vector<planned> b) {
    return scenario{std::move(name), {}, std::move(before), {std::move(a), std::move(b)}};
  };
  const std::vector<scenario> shapes = {
      of("two writers of one key", {"k"}, {insert("k", "a1"), insert("k", "a2")},
         {insert("k", "b1"), insert("k", "b2")}),
      of("two makers of one key", {}, {insert("k", "a1"), find("k")}, {insert("k", "b1"), find("k")}),
      of("writer and remover", {"k"}, {insert("k", "a1"), find("k")}, {remove("k"), remove("k")}),
      of("writer and reader", {"k"}, {insert("k", "a1"), remove("k")}, {find("k"), find("k")}),
      of("maker and tagger", {}, {insert("k", "a1"), insert("k", "a2")}, {tag(), tag()}),
      of("updater and tagger", {"k"}, {insert("k", "a1"), remove("k")}, {tag(), find("k")}),
      of("two taggers", {"k"}, {insert("k", "a1"), tag()}, {insert("k", "b1"), tag()}),
      of("batch and writer", {"k"}, {both("k", "l", "a1"), find("l")}, {insert("k", "b1"), find("k")}),
      of("batch and reader", {"k"}, {both("k", "l", "a1"), both("k", "m", "a2")},
         {find("k"), find("l"), find("k"), find("m")}),
      of("writer and looker", {"k"}, {insert("k", "a1"), insert("l", "a2")}, {find("k"), look(), find("l"), look()}),
      of("batch and tagger", {"k"}, {both("k", "l", "a1"), tag()}, {tag(), find("k")}),
      of("two makers of what is new", {}, {insert_new("k", "a1"), find("k")}, {insert_new("k", "b1"), find("k")}),
      of("maker of what is new and remover", {"k"}, {insert_new("k", "a1"), insert_new("k", "a2")},
         {remove("k"), find("k")}),
      of("maker of what is new and batch", {}, {insert_new("k", "a1"), find("l")}, {both("k", "l", "b1"), remove("k")}),
      of("maker of what is new and batch with conditions", {"l"}, {insert_new("k", "a1"), remove("l")},
         {both_new("k", "l", "b1"), find("k")}),
      of("two batches with conditions", {}, {both_new("k", "l", "a1"), find("k")},
         {both_new("l", "k", "b1"), find("l")}),
      of("replacer and tagger", {"k"}, {replace("k", "a1", 1), replace("k", "a2", 2)}, {tag(), find("k")}),
      of("two replacers", {"k"}, {replace("k", "a1", 1), find("k")}, {replace("k", "b1", 1), find("k")}),
      of("two batches", {"k", "l"}, {both("k", "l", "a1"), find("k")}, {both("l", "k", "b1"), find("l")}),
      of("a split and a reader", leaf, splitting, {find(there), find(left)}),
      of("a split and a maker", leaf, splitting_and_find, {insert(right, "b1"), find(left)}),
  };
  std::vector<scenario> all;
  if (index == index_kind::persistent) {
    // The first one writes where the head leads.
    const auto cut_off = [&](const char* name, std::vector<planned> a, std::vector<planned> b) {
      scenario s = of(name, {"k"}, std::move(a), std::move(b));
      s.how = {durability::operation, index, device::persistent_memory, 2};
      s.cut_off = true;
      all.push_back(std::move(s));
    };
    cut_off("a place used again and a reader", {insert("k", "a1")}, {find("k"), find("k")});
    cut_off("a place used again and a writer", {insert("k", "a1")}, {insert("k", "b1"), find("k")});
    cut_off("a place used again and a remover", {insert("k", "a1")}, {remove("k"), find("k")});
  }
  if (index == index_kind::persistent) {
    for (scenario& s : splits_of_persistent(leaf)) all.push_back(std::move(s));
  }
  if (index == index_kind::btree) {
    std::vector<std::string> leaves = leaf;
    for (unsigned i = 0; i < 7; ++i) leaves.push_back("leaf-" + std::to_string(900 + i));
    all.push_back(of("a split of one of two leaves and a maker", leaves, splitting_and_find,
                     {insert(right, "b1"), insert(left + "7", "b2"), find(left)}));
    all.push_back(of("insert and find-then-look", {"k"}, {insert("k", "a1")}, {find("k"), look()}));
    // Deep enough for samples of its versions (history/version_samples.hpp): each of the first two makes one.
    const std::vector<std::string> deep(63, "k");
    const auto a = insert("k", "a");
    all.push_back(of("a deep history", deep, {insert("k", "b1"), tag(), tag()}, {a, a, a, a, a, a, a, a, tag()}));
  }
  // Under deferred durability readers sync, and others share their syncs.
  if (index == index_kind::btree || index == index_kind::persistent || index == index_kind::list) {
    for (scenario s : {
             of("writer and reader", {"k"}, {insert("k", "a1"), remove("k")}, {find("k"), find("k")}),
             of("writer and syncer", {"k"}, {insert("k", "a1"), insert("k", "a2")}, {sync(), find("k")}),
             of("two syncers", {"k"}, {insert("k", "a1"), sync()}, {insert("k", "b1"), sync()}),
             of("batch and reader", {"k"}, {both("k", "l", "a1"), sync()}, {find("k"), find("l")}),
             of("updater and tagger", {"k"}, {insert("k", "a1"), remove("k")}, {tag(), find("k")}),
             of("writer and looker", {"k"}, {insert("k", "a1"), insert("l", "a2")}, {look(), look()}),
         }) {
      s.how = {.durability = durability::operation, .index = index, .on = device::disk, .writers = 2, .deferred = true};
      s.name += std::string(", ") + name_of(index) + ", deferred";
      all.push_back(std::move(s));
    }
  }
  const bool has_leaves = index != index_kind::list && index != index_kind::hash;
  for (const durability mode : {durability::none, durability::operation, durability::tag}) {
    for (scenario s : shapes) {
      if (!has_leaves && (mode == durability::tag || s.name.starts_with("a split"))) continue;
      s.how = {mode, index, mode == durability::tag ? device::disk : device::persistent_memory, 2};
      s.name += std::string(", ") + name_of(index);
      s.name += mode == durability::none ? ", none" : mode == durability::tag ? ", tag" : ", operation";
      all.push_back(std::move(s));
    }
  }
  return all;
}

constexpr index_kind indexes[] = {index_kind::btree, index_kind::skip_list, index_kind::persistent, index_kind::list,
                                  index_kind::hash};

}  // namespace

std::vector<scenario> all_scenarios() {
  std::vector<scenario> all;
  for (const index_kind index : indexes) {
    for (scenario& s : scenarios_of(index)) all.push_back(std::move(s));
  }
  return all;
}

scenario random_scenario(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  scenario s;
  s.name = "seed " + std::to_string(seed);
  constexpr durability modes[] = {durability::none, durability::operation, durability::tag};
  s.how.durability = modes[random() % 3];
  s.how.index = indexes[random() % std::size(indexes)];
  s.how.on = s.how.durability == durability::tag ? device::disk : device::persistent_memory;
  const std::size_t there = random() % 3 == 0 ? leaf_keys(s.how.index) - 2 + random() % 3 : random() % 4;
  for (std::size_t i = 0; i < there; ++i) s.before.push_back("k" + std::to_string(i));
  s.writers.resize(2 + random() % 3);
  unsigned number = 0;
  for (auto& plan : s.writers) {
    const std::size_t count = 2 + random() % 3;
    for (std::size_t i = 0; i < count; ++i) {
      const std::string key = "k" + std::to_string(random() % 3) + (random() % 4 == 0 ? "x" : "");
      const std::string value = "v" + std::to_string(++number);
      switch (random() % 11) {
        case 0:
          plan.push_back(remove(key));
          break;
        case 1:
          plan.push_back(find(key));
          break;
        case 2:
          plan.push_back(tag());
          break;
        case 4:
          plan.push_back(insert_new(key, value));
          break;
        case 5:
          plan.push_back(replace(key, value, 1 + random() % 3));
          break;
        case 6:
          plan.push_back(both_new(key, "k" + std::to_string(random() % 4) + "y", value));
          break;
        case 3:
          plan.push_back(both(key, "k" + std::to_string(random() % 4) + "y", value));
          break;
        default:
          plan.push_back(insert(key, value));
      }
    }
  }
  if (s.how.durability == durability::operation && random() % 3 == 0) {
    s.how.on = device::disk;
    s.how.deferred = true;
    for (auto& plan : s.writers) {
      for (planned& p : plan) {
        if (random() % 4 == 0) p = sync();
      }
    }
  }
  return s;
}

}  // namespace icecore::crash
