#include "store/sorted_entries.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/threads.hpp"

namespace icecore::detail {
namespace {

/// An entry with the first 8 bytes of its key, so that most comparisons stay in this array.
struct headed {
  std::uint64_t head;
  link entry;
};

std::uint64_t head_of(std::string_view key) noexcept {
  std::uint64_t head = 0;
  std::memcpy(&head, key.data(), std::min<std::size_t>(key.size(), 8));
  return __builtin_bswap64(head);  // media and machine are little-endian
}

class by_key {
 public:
  explicit by_key(const address_space& space) noexcept : space_(&space) {}
  bool operator()(const headed& a, const headed& b) const noexcept {
    if (a.head != b.head) return a.head < b.head;
    return space_->record_at(a.entry).key() < space_->record_at(b.entry).key();
  }

 private:
  const address_space* space_;
};

}  // namespace

std::vector<link> sorted_entries(const survey& found, const address_space& space, unsigned threads) {
  const by_key less(space);
  std::vector<std::vector<headed>> runs(found.parts().size());
  run_on_threads(static_cast<unsigned>(runs.size()), [&](unsigned t) {
    const auto& entries = found.parts()[t].entries;
    runs[t].reserve(entries.size());
    for (const link e : entries) runs[t].push_back({head_of(space.record_at(e).key()), e});
    std::sort(runs[t].begin(), runs[t].end(), less);
  });
  while (runs.size() > 1) {
    std::vector<std::vector<headed>> merged((runs.size() + 1) / 2);
    run_on_threads(std::min(threads, static_cast<unsigned>(merged.size())), [&](unsigned t) {
      for (std::size_t i = t; i < merged.size(); i += threads) {
        if (2 * i + 1 == runs.size()) {
          merged[i] = std::move(runs[2 * i]);
          continue;
        }
        auto& a = runs[2 * i];
        auto& b = runs[2 * i + 1];
        merged[i].resize(a.size() + b.size());
        std::merge(a.begin(), a.end(), b.begin(), b.end(), merged[i].begin(), less);
        a = {};
        b = {};
      }
    });
    runs = std::move(merged);
  }
  std::vector<link> links;
  if (runs.empty()) return links;
  links.reserve(runs.front().size());
  for (const auto& h : runs.front()) links.push_back(h.entry);
  return links;
}

}  // namespace icecore::detail
