#include "cluster/merge.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

namespace icecore::mpi {
namespace {

/// For heaps, whose first is the greatest: the stream with the least key is to be first.
constexpr auto later = [](const auto& a, const auto& b) { return a->key() > b->key(); };

}  // namespace

scan_request merge::request(std::string_view from, bool after) const {
  return {at_, from, after, bounds_.to ? std::optional<std::string_view>(*bounds_.to) : std::nullopt};
}

void merge::seek(std::string_view key) {
  const std::string_view from = bounds_.from ? std::max(key, std::string_view(*bounds_.from)) : key;
  heads_.clear();
  waiting_.clear();
  std::vector<int> owners(static_cast<std::size_t>(core_.ranks()));
  std::iota(owners.begin(), owners.end(), 0);
  if (!core_.ordered()) {
    std::rotate(owners.begin(), owners.begin() + core_.rank() + 1, owners.end());  // this rank's own last, see open()
    open(owners, from);
    return;
  }
  const int last = bounds_.to ? core_.owner_of(*bounds_.to) : core_.ranks() - 1;
  for (int owner = last; owner >= core_.owner_of(from); --owner) waiting_.push_back(owner);
  while (heads_.empty() && !waiting_.empty()) open_next_range_from(from);
}

void merge::open(std::span<const int> owners, std::string_view from) {
  std::vector<std::pair<partition*, answer<scan_block>>> answers;  // the other ranks work while this one reads its own
  for (const int owner : owners) answers.emplace_back(&core_.of(owner), core_.of(owner).scan(request(from, false)));
  for (auto& [owner, first] : answers) {
    auto opened = std::make_unique<stream>(stream{owner, first.take()});
    if (opened->block.items.empty()) continue;
    heads_.push_back(std::move(opened));
    std::push_heap(heads_.begin(), heads_.end(), later);
  }
}

item merge::current() const {
  const auto& [key, value] = heads_.front()->block.items[heads_.front()->position];
  return {key, value};
}

bool merge::refill(stream& ended) const {
  if (ended.block.last) return false;
  const std::string last = std::move(ended.block.items.back().first);
  ended.block = ended.from->scan(request(last, true)).take();
  ended.position = 0;
  return !ended.block.items.empty();
}

void merge::next() {
  std::pop_heap(heads_.begin(), heads_.end(), later);
  stream& stepped = *heads_.back();
  if (++stepped.position < stepped.block.items.size() || refill(stepped)) {
    std::push_heap(heads_.begin(), heads_.end(), later);
    return;
  }
  heads_.pop_back();
  while (heads_.empty() && !waiting_.empty()) open_next_range_from({});
}

void merge::open_next_range_from(std::string_view from) {
  const int owner = waiting_.back();
  waiting_.pop_back();
  open({&owner, 1}, from);
}

}  // namespace icecore::mpi
