#include "cluster/read/merge.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace icecore::mpi {

scan_request merge::everything() const {
  scan_request all{at_, bounds_.from ? std::string_view(*bounds_.from) : std::string_view(), false, std::nullopt};
  if (bounds_.to) all.to = *bounds_.to;
  all.backward = backward_;
  return all;
}

void merge::seek(std::string_view key, bool after) {
  backward_ = false;
  scan_request wanted = everything();
  const bool within = key >= wanted.from;
  if (within) {
    wanted.from = key;
    wanted.after = after;
  }
  std::vector<int> owners;
  const int last = core_.ordered() && bounds_.to ? core_.owner_of(*bounds_.to) : core_.ranks() - 1;
  for (int owner = core_.ordered() ? core_.owner_of(wanted.from) : 0; owner <= last; ++owner) owners.push_back(owner);
  begin(std::move(owners), wanted, within && !after && !key.empty() && !core_.owns_whole_keys());
}

void merge::seek_before(std::optional<std::string_view> key) {
  backward_ = true;
  scan_request wanted = everything();
  if (key && (!wanted.to || *key < *wanted.to)) wanted.to = key;
  std::vector<int> owners;
  const int first = core_.ordered() ? core_.owner_of(wanted.from) : 0;
  for (int owner = core_.ordered() && wanted.to ? core_.owner_of(*wanted.to) : core_.ranks() - 1; owner >= first;
       --owner) {
    owners.push_back(owner);
  }
  begin(std::move(owners), wanted, false);
}

void merge::begin(std::vector<int> owners, const scan_request& wanted, bool sought) {
  heads_.clear();
  waiting_.clear();
  unasked_.clear();
  if (!core_.ordered()) {
    const auto own = std::find(owners.begin(), owners.end(), core_.rank());
    std::rotate(own, own + 1, owners.end());  // this rank last, see open()
    if (sought) {                             // N1
      const int owner = core_.owner_of(wanted.from);
      open({&owner, 1}, wanted);
      std::erase(owners, owner);
      if (valid() && current().key == wanted.from) {
        unasked_ = std::move(owners);
        return;
      }
    }
    open(owners, wanted);
    return;
  }
  waiting_.assign(owners.rbegin(), owners.rend());
  while (heads_.empty() && !waiting_.empty()) open_next_range(wanted);
}

void merge::open(std::span<const int> owners, const scan_request& wanted) {
  std::vector<std::unique_ptr<item_stream>> all;  // the other ranks work while this one reads its own store
  for (const int owner : owners) all.push_back(core_.of(owner).scan(wanted));
  for (auto& each : all) {
    if (!each->valid()) continue;
    const item first = each->current();
    heads_.push_back({std::move(each), first});
    std::push_heap(heads_.begin(), heads_.end(), later());
  }
}

void merge::ask_the_others() {
  scan_request behind = everything();
  behind.from = current().key;
  behind.after = true;
  open(std::exchange(unasked_, {}), behind);
}

void merge::next() {
  if (!unasked_.empty()) ask_the_others();
  std::pop_heap(heads_.begin(), heads_.end(), later());
  head& stepped = heads_.back();
  stepped.items->next();
  if (stepped.items->valid()) {
    stepped.now = stepped.items->current();
    std::push_heap(heads_.begin(), heads_.end(), later());
    return;
  }
  heads_.pop_back();
  while (heads_.empty() && !waiting_.empty()) open_next_range(everything());
}

void merge::open_next_range(const scan_request& wanted) {
  const int owner = waiting_.back();
  waiting_.pop_back();
  open({&owner, 1}, wanted);
}

}  // namespace icecore::mpi
