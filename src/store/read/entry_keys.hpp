// Reads the index's keys from the entries.
#pragma once

#include <atomic>
#include <memory>
#include <string_view>

#include "base/key_head.hpp"
#include "history/heads/history_base.hpp"
#include "index/index.hpp"
#include "pool/file/persist.hpp"
#include "store/persistent/durable_media.hpp"

namespace icecore::detail {

/// Keys of entries that were read at opening or written since.
class entry_keys : public index::key_source {
 public:
  entry_keys(address_space space, persistence& persist) noexcept : space_(space), persist_(&persist) {}
  virtual ~entry_keys() = default;
  entry_keys(const entry_keys&) = delete;
  entry_keys& operator=(const entry_keys&) = delete;

  [[nodiscard]] std::string_view key_of(link entry) const noexcept final { return space_.record_at(entry).key(); }
  void prefetch(link entry) const noexcept final { __builtin_prefetch(space_.at(entry)); }
  [[noreturn]] void raise_owner_died() const final {
    persist_->poison("another process that shared the store was killed while it changed the index");
    persist_->raise_poisoned();
  }
  /// Whether the entry belongs to this key.
  [[nodiscard]] bool is_of(link entry, std::string_view key) const noexcept {
    // the entry's header says where the key is: as often in the next line as in this one
    __builtin_prefetch(space_.at(entry) + format::cache_line_size);
    return key_equal(space_.record_at(entry).key(), key);
  }

 protected:
  address_space space_;
  persistence* persist_;
};

/// Keys of entries on media that may not have been read since the store was opened.
class checked_entry_keys final : public entry_keys {
 public:
  checked_entry_keys(address_space space, persistence& persist, const durable_media& media)
      : entry_keys(space, persist),
        media_(&media),
        sound_(std::make_unique<std::atomic<link>[]>(std::size_t{1} << sound_bits)) {}

  [[nodiscard]] bool is_readable(link entry) const noexcept override {
    // Most entries lie so far from the end that any key they could have ends before it: these need not be read.
    constexpr std::uint64_t reach_max = sizeof(format::entry_header) + 16 + format::round_up(key_size_max, 8);
    if (media_->leads_into_pool(entry, reach_max)) return true;
    return media_->leads_into_pool(entry, sizeof(format::entry_header)) &&
           media_->leads_into_pool(entry, space_.record_at(entry).layout().value_offset());
  }
  void verify_key(link entry) const override {
    std::atomic<link>& known = sound_[entry * 0x9e3779b97f4a7c15U >> (64 - sound_bits)];
    if (known.load(std::memory_order_relaxed) == entry) return;  // relaxed: an entry's key never changes
    if (!media_->is_intact(entry)) media_->raise_damaged(entry, "the entry fails its checksum");
    known.store(entry, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t state_of(link entry) const noexcept override {
    const auto& e = space_.record_at(entry).as_entry();
    // relaxed, both: a caller that finds a difference issues a fence before it looks at the leaf again
    // (index/persistent/evidence.cpp, E1)
    const std::uint64_t head = e.head.load(std::memory_order_relaxed);
    return mix64(mix64(entry + mix64(head)) + e.committed_head().load(std::memory_order_relaxed));
  }
  void flush_state(link entry) const noexcept override {
    persist_->flush(&space_.record_at(entry).as_entry().head, 2 * sizeof(std::uint64_t));
  }

 private:
  static constexpr unsigned sound_bits = 12;

  const durable_media* media_;
  /// Entries that have passed their check lately. Those whose keys separate nodes are checked in each search.
  std::unique_ptr<std::atomic<link>[]> sound_;
};

}  // namespace icecore::detail
