#include "history/heads/observed_heads.hpp"

#include <algorithm>
#include <bit>

namespace icecore {

void newest_records::reserve(std::size_t more) {
  constexpr std::size_t least = 1024;
  const std::size_t used = used_.load(std::memory_order_relaxed);  // relaxed, all: nobody raises
  const std::size_t wanted = std::max(least, std::bit_ceil(2 * (used + more)));
  if (!tables_.empty() && wanted <= tables_.back()->mask + 1) return;
  // twice as much as needed: a table that is left stays until the end, and all of them together take as much as this
  auto made = std::make_unique<table>(tables_.empty() ? wanted : 2 * wanted);
  tables_.reserve(tables_.size() + 1);
  if (!tables_.empty()) {
    const table& before = *tables_.back();
    for (std::size_t from = 0; from <= before.mask; ++from) {
      const link entry = before.slots[from].entry.load(std::memory_order_relaxed);
      if (entry == null_link) continue;
      std::size_t i = mix64(entry) & made->mask;
      while (made->slots[i].entry.load(std::memory_order_relaxed) != null_link) i = (i + 1) & made->mask;
      made->slots[i].newest.store(before.slots[from].newest.load(std::memory_order_relaxed), std::memory_order_relaxed);
      made->slots[i].entry.store(entry, std::memory_order_relaxed);
    }
  }
  now_.store(made.get(), std::memory_order_release);  // release: its slots are filled
  tables_.push_back(std::move(made));
}

}  // namespace icecore
