// A persistent index in memory of its own, opened session after session. The tests of its repairs and checks share it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "index_model.hpp"
#include "key_table.hpp"
#include "persistent_memory.hpp"

namespace icecore::index {

class PersistentRecovery : public ::testing::Test {
 protected:
  static constexpr std::size_t entries_max = 100'000;

  /// A session: everything that was only in memory in the session before is gone.
  [[nodiscard]] persistent_index open() {
    const node_space::parts parts = memory_.open();
    persistent_index opened(table_, parts, memory_.state());
    if (empty_) opened.build({}, 1);
    empty_ = false;
    return opened;
  }
  void insert(persistent_index& into, std::uint64_t from, std::uint64_t to, std::uint64_t step = 1) {
    for (std::uint64_t i = from; i < to; i += step) {
      const std::string key = big_endian(i);
      const link entry = table_.add(key);
      ASSERT_EQ(into.insert(key, entry), entry);
      expected_.push_back(key);
    }
  }
  void expect_all(persistent_index& in) {
    in.count(expected_.size() - in.size());
    std::ranges::sort(expected_);
    for (const std::string& key : expected_) {
      const link found = in.find(key);
      ASSERT_NE(found, null_link) << "a key is gone";
      ASSERT_EQ(table_.key_of(found), key);
    }
    std::vector<std::string> walked;
    block b;
    in.seek_first(b);
    do {
      for (std::size_t i = 0; i < b.size; ++i) walked.emplace_back(table_.key_of(b.entries[i]));
    } while (in.next_block(b));
    EXPECT_EQ(walked, expected_);
    for (const std::string& wrong : in.check()) ADD_FAILURE() << wrong;
  }
  /// The first node of a level, as the media have it.
  [[nodiscard]] link first_of(unsigned level) {
    link at = top();
    while (node_order(memory_.node_at(at)).level() > level) {
      const index_node& n = memory_.node_at(at);
      at = to_at(n, node_order(n), 0);
    }
    return at;
  }
  [[nodiscard]] link top() {
    const auto& word = memory_.anchor().top;
    const auto place = static_cast<link>(reinterpret_cast<std::byte*>(&memory_.anchor().top) - memory_.base());
    return *word_codec(12345).decode_link(word.load(), place);
  }
  /// Locks the node as a writer that is gone left it.
  static void lock(index_node& n) {
    const std::uint64_t word = n.lock.load();
    n.lock.store(node_word::lock(word, node_word::epoch(word), 0));
  }

  persistent_memory memory_;
  key_table table_{entries_max};
  bool empty_ = true;
  std::vector<std::string> expected_;
};

}  // namespace icecore::index
