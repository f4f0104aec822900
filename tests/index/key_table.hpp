// Keys for tests of indexes: a key_source that is a table of strings. Slots are plain memory, so that the thread
// sanitizer notices if an index does not publish the keys that were written before the insert.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "index/index.hpp"

namespace icecore::index {

class key_table final : public key_source {
 public:
  explicit key_table(std::size_t capacity) : keys_(capacity), states_(capacity) {}

  /// A link to a new entry with this key. From any thread.
  link add(std::string key) {
    const std::size_t slot = used_.fetch_add(1, std::memory_order_relaxed);
    keys_.at(slot) = std::move(key);
    return link_of(slot);
  }

  [[nodiscard]] static link link_of(std::size_t slot) { return (slot + 1) * 8; }

  [[nodiscard]] std::string_view key_of(link entry) const noexcept override {
    const std::size_t slot = entry / 8 - 1;
    if (entry == null_link || entry % 8 != 0 || slot >= keys_.size()) {
      ADD_FAILURE() << "the index asked for a link it was never given: " << entry;
      return {};
    }
    return keys_[slot];
  }

  [[nodiscard]] bool is_readable(link entry) const noexcept override {
    return entry != null_link && entry % 8 == 0 && entry / 8 - 1 < keys_.size();
  }

  void prefetch(link entry) const noexcept override {
    EXPECT_TRUE(entry != null_link && entry % 8 == 0 && entry / 8 - 1 < keys_.size()) << entry;
  }

  void verify_key(link entry) const override {
    if (entry == damaged_ || !is_readable(entry)) throw std::runtime_error("the entry is damaged");
  }
  [[nodiscard]] std::uint64_t state_of(link entry) const noexcept override { return states_[entry / 8 - 1]; }
  /// Changes the part of the entry that is not its key.
  void set_state(link entry, std::uint64_t state) { states_[entry / 8 - 1] = state; }
  /// From now on the entry has a key other than the one it was given, as after a bit flip on media.
  void damage(link entry, std::size_t byte, unsigned bit) {
    char& changed = keys_[entry / 8 - 1][byte];
    changed = static_cast<char>(changed ^ (1 << bit));
    damaged_ = entry;
  }
  /// From now on an intact entry of another key lies at the link.
  void displace(link entry, std::string key) { keys_[entry / 8 - 1] = std::move(key); }
  void forget_damage() { damaged_ = null_link; }

 private:
  link damaged_ = null_link;
  std::vector<std::string> keys_;
  std::vector<std::uint64_t> states_;
  std::atomic<std::size_t> used_{0};
};

/// `number` as 8 bytes that compare like it.
[[nodiscard]] inline std::string big_endian(std::uint64_t number) {
  std::string key(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) key[i] = static_cast<char>(number >> (56 - 8 * i));
  return key;
}

}  // namespace icecore::index
