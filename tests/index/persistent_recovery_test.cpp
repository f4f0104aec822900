// How the persistent index recovers from what a crash leaves of it: nodes locked by no thread, splits half done, pairs
// and levels missing above, nodes taken and never linked. The tests make each state as the media would have it.
#include <algorithm>
#include <optional>

#include "persistent_fixture.hpp"
#include "recorded_lines.hpp"

namespace icecore::index {
namespace {

TEST_F(PersistentRecovery, an_index_that_is_opened_has_what_the_one_before_had) {
  {
    persistent_index one = open();
    insert(one, 0, 5000, 3);
    expect_all(one);
  }
  persistent_index other = open();
  expect_all(other);
  insert(other, 1, 5000, 3);
  expect_all(other);
}

TEST_F(PersistentRecovery, a_node_that_a_dead_writer_locked_is_taken_over) {
  {
    persistent_index one = open();
    insert(one, 0, 1000);
  }
  for (link leaf = first_of(0); leaf != null_link; leaf = memory_.node_at(leaf).next.load())
    lock(memory_.node_at(leaf));
  lock(memory_.node_at(top()));
  persistent_index other = open();
  expect_all(other);
}

// The order words of an insert, the last first: each prefix of the stores shows the pair or does not, and changes
// nothing else.
TEST_F(PersistentRecovery, an_insert_cut_off_between_order_words_is_done_or_never_was) {
  for (unsigned stored = 0; stored <= node_order::words; ++stored) {
    persistent_memory memory;
    key_table table(100);
    {
      persistent_index one(table, memory.open(), memory.state());
      one.build({}, 1);
      for (std::uint64_t i = 1; i <= 20; ++i) {
        const std::string key = big_endian(2 * i);
        (void)one.insert(key, table.add(key));
      }
    }
    const auto place = reinterpret_cast<std::byte*>(&memory.anchor().first_leaf) - memory.base();
    index_node& leaf =
        memory.node_at(*word_codec(12345).decode_link(memory.anchor().first_leaf.load(), static_cast<link>(place)));
    const std::string key = big_endian(7);
    node_order order(leaf);
    const unsigned slot = order.free_slot();
    leaf.pairs[slot].head.store(head_of(key));
    leaf.pairs[slot].to.store(table.add(key));
    lock(leaf);
    order.insert(3, slot);
    index_node whole{};
    for (auto& word : whole.order) word.store(0);
    order.store_in(whole);
    for (unsigned i = 0; i < stored; ++i) {
      const unsigned word = node_order::words - 1 - i;
      leaf.order[word].store(whole.order[word].load());
    }
    persistent_index other(table, memory.open(), memory.state());
    const bool there = other.find(key) != null_link;
    EXPECT_EQ(there, stored == node_order::words) << stored << " words were stored";
    other.count(20 + (there ? 1 : 0));
    for (const std::string& wrong : other.check()) ADD_FAILURE() << stored << " words: " << wrong;
  }
}

TEST_F(PersistentRecovery, a_split_that_was_cut_off_after_its_link_is_finished) {
  {
    persistent_index one = open();
    insert(one, 0, 200);
  }
  // The left node as it was before the split: its own pairs, and once more those of its right neighbour.
  index_node& left = memory_.node_at(first_of(0));
  const index_node& right = memory_.node_at(left.next.load());
  node_order order(left);
  const node_order moved(right);
  const unsigned room = std::min(index_pairs_max - order.count(), moved.count());
  ASSERT_GT(room, 0U);
  lock(left);
  for (unsigned i = 0; i < room; ++i) {
    const unsigned slot = order.free_slot();
    left.pairs[slot].head.store(head_at(right, moved, i));
    left.pairs[slot].to.store(to_at(right, moved, i));
    order.insert(order.count(), slot);
  }
  order.store_in(left);
  left.high.store(right.high.load());
  left.high_head.store(right.high_head.load());
  persistent_index other = open();
  expect_all(other);
}

TEST_F(PersistentRecovery, what_no_pair_above_leads_to_is_found_and_reported_above) {
  {
    persistent_index one = open();
    insert(one, 0, 400);
  }
  index_node& above = memory_.node_at(top());
  node_order order(above);
  ASSERT_EQ(order.level(), 1U);
  const unsigned before = order.count();
  order.cut(1);  // as if the machine had stopped each time before the pair above was added
  order.store_in(above);
  lock(above);
  persistent_index other = open();
  expect_all(other);
  for (unsigned i = 0; i < 20'000 && node_order(above).count() + 1 < before; ++i) (void)other.find(big_endian(i % 400));
  EXPECT_GE(node_order(above).count() + 1, before) << "searches do not tell the level above";
  expect_all(other);
}

// Whatever a crash left, no operation becomes slow: a search that passes many nodes without a pair above promotes one
// of them.
TEST_F(PersistentRecovery, a_search_repairs_no_more_than_one_pair_above) {
  {
    persistent_index one = open();
    insert(one, 0, 700);
  }
  index_node& above = memory_.node_at(top());
  node_order order(above);
  ASSERT_EQ(order.level(), 1U);
  const unsigned leaves = order.count();
  ASSERT_GT(leaves, 20U);
  order.cut(1);
  order.store_in(above);
  lock(above);
  const persistent_index other = open();
  unsigned repaired = 0;
  for (unsigned i = 0; i < 100; ++i) {
    const unsigned before = node_order(above).count();
    ASSERT_NE(other.find(big_endian(i % 2 == 0 ? 699 : 350)), null_link);
    const unsigned now = node_order(above).count() - before;
    EXPECT_LE(now, 1U) << "of search " << i;
    repaired += now;
  }
  EXPECT_GT(repaired, 1U) << "but searches do repair";
}

// The same with more levels: two of them lack the pairs for the nodes below.
TEST_F(PersistentRecovery, a_search_repairs_no_more_than_one_pair_in_all_levels) {
  {
    persistent_index one = open();
    insert(one, 0, 12'000);
  }
  ASSERT_EQ(node_order(memory_.node_at(top())).level(), 2U);
  std::vector<index_node*> cut;
  for (const unsigned level : {2U, 1U}) {
    for (link at = first_of(level); at != null_link; at = memory_.node_at(at).next.load()) {
      index_node& n = memory_.node_at(at);
      node_order order(n);
      order.cut(1);
      order.store_in(n);
      lock(n);
      cut.push_back(&n);
    }
  }
  const persistent_index other = open();
  const auto pairs = [&] {
    unsigned sum = 0;
    for (const index_node* n : cut) sum += node_order(*n).count();
    return sum;
  };
  unsigned repaired = 0;
  for (unsigned i = 0; i < 200; ++i) {
    const unsigned before = pairs();
    ASSERT_NE(other.find(big_endian(i * 7919 % 12'000)), null_link);
    const unsigned now = pairs() - before;
    EXPECT_LE(now, 1U) << "of search " << i;
    repaired += now;
  }
  EXPECT_GT(repaired, 10U);
}

TEST_F(PersistentRecovery, a_node_taken_and_not_linked_is_taken_again) {
  {
    persistent_index one = open();
    insert(one, 0, 1000);
  }
  const std::uint64_t taken = memory_.used();
  for (unsigned crash = 0; crash < 1000; ++crash) {
    persistent_index other = open();
    const taken_node lost(other.space(), other);
  }
  EXPECT_EQ(memory_.used(), taken) << "crashes leak nodes";
  persistent_index other = open();
  expect_all(other);
  insert(other, 1000, 3000);
  expect_all(other);
}

/// Media that record what is flushed and fenced.
persistence recording() {
  return {
      -1,   "memory", medium::persistent_memory, durability::operation, recorded_lines::flush, recorded_lines::fence,
      false};
}

// Otherwise another crash would leave the node in use while its source is about to give it out.
TEST_F(PersistentRecovery, a_source_that_a_crash_left_behind_goes_on_before_its_node_is_linked) {
  {
    persistent_index one = open();
    insert(one, 0, 1000);
  }
  link lost = null_link;
  {
    persistent_index one = open();
    lost = taken_node(one.space(), one, 0).where();
  }
  auto& source = memory_.anchor().nodes[0];
  const auto place = static_cast<link>(reinterpret_cast<std::byte*>(&source.position) - memory_.base());
  source.position = word_codec(12345).encode_link(lost, place);  // the second of two stores did not reach the media
  persistence media = recording();
  node_space::parts parts = memory_.open();
  parts.persist = &media;
  recorded_lines::begin();
  persistent_index other(table_, parts, memory_.state());
  const taken_node again(other.space(), other, 0);
  ASSERT_EQ(again.where(), lost);
  EXPECT_NE(word_codec(12345).decode_link(source.position, place), lost);
  EXPECT_EQ(recorded_lines::flushed(source.position), source.position.load());
}

// Otherwise a crash would leave the node in no level, although its source says that it is in use.
TEST_F(PersistentRecovery, what_leads_to_a_node_on_top_is_durable_before_its_source_says_that_it_is_in_use) {
  static_cast<void>(open());  // builds the index
  persistence media = recording();
  node_space::parts parts = memory_.open();
  parts.persist = &media;
  const auto& highest = memory_.anchor().top;
  const std::uint64_t first = highest;
  unsigned levels = 0;
  recorded_lines::begin([&](const void* data) {
    for (const auto& source : memory_.anchor().nodes) {
      if (data != &source || (source.pending & format::pending_in_use) == 0 || highest == first) continue;
      ++levels;
      EXPECT_EQ(recorded_lines::durable(highest), highest.load());
    }
  });
  persistent_index one(table_, parts, memory_.state());
  insert(one, 0, 1000);
  recorded_lines::begin();
  EXPECT_GT(levels, 1U);
  expect_all(one);
}

// No thread has checked the node yet, and the first operation takes a node from its source.
TEST_F(PersistentRecovery, a_node_in_use_is_never_given_out_again_however_damaged) {
  {
    persistent_index one = open();
    insert(one, 0, 1000);
  }
  const word_codec codec(12345);
  unsigned looked_at = 0;
  for (unsigned source = 0; source < node_space::tag_source; ++source) {
    auto& word = memory_.anchor().nodes[source].pending;
    const auto place = static_cast<link>(reinterpret_cast<std::byte*>(&word) - memory_.base());
    const link last = *codec.decode_link(word.load() & ~format::pending_in_use, place);
    if (last == null_link) continue;
    ++looked_at;
    index_node& n = memory_.node_at(last);
    const link low = n.low.load();
    for (const link wrong : {low ^ 64, low ^ 8192, null_link, std::uint64_t{1} << 40}) {
      const std::uint64_t pending = word.load();
      const std::uint64_t position = memory_.anchor().nodes[source].position.load();
      n.low.store(wrong);
      {
        persistent_index other = open();
        const taken_node fresh(other.space(), other, source);
        EXPECT_NE(fresh.where(), last);
      }
      n.low.store(low);
      word.store(pending);
      memory_.anchor().nodes[source].position.store(position);
    }
  }
  EXPECT_GT(looked_at, 0U);
}

TEST_F(PersistentRecovery, a_node_that_is_damaged_is_named) {
  {
    persistent_index one = open();
    insert(one, 0, 1000);
  }
  index_node& leaf = memory_.node_at(memory_.node_at(first_of(0)).next.load());
  leaf.pairs[node_order(leaf).slot(0)].to.fetch_xor(64);
  persistent_index other = open();
  EXPECT_THROW(for (const std::string& key : expected_) static_cast<void>(other.find(key)), std::runtime_error);
}

TEST_F(PersistentRecovery, a_node_filled_and_not_linked_is_taken_again_whatever_it_says) {
  {
    persistent_index one = open();
    insert(one, 0, 1000);
  }
  // so that the search for it also moves to the right
  index_node& above = memory_.node_at(top());
  node_order order(above);
  order.cut(1);
  order.store_in(above);
  lock(above);
  struct said {
    unsigned level;
    link low;
  };
  const link some = key_table::link_of(700);
  for (const said& s : {said{0, some}, said{9, some}, said{0, std::uint64_t{1} << 40}, said{0, null_link},
                        said{1, null_link}, said{1, some}}) {
    SCOPED_TRACE("level " + std::to_string(s.level) + ", low " + std::to_string(s.low));
    link lost = null_link;
    {
      persistent_index one = open();
      const taken_node fresh(one.space(), one);
      lost = fresh.where();
      (*fresh).low.store(s.low);
      node_order(s.level).store_in(*fresh);
    }
    persistent_index other = open();
    const taken_node again(other.space(), other);
    EXPECT_EQ(again.where(), lost);
  }
  persistent_index other = open();
  expect_all(other);
}

TEST_F(PersistentRecovery, walks_find_what_no_pair_above_leads_to) {
  {
    persistent_index one = open();
    insert(one, 0, 400);
  }
  index_node& above = memory_.node_at(top());
  const auto forget = [&] {
    node_order order(above);
    order.cut(1);
    order.store_in(above);
    lock(above);
  };
  forget();
  {
    const persistent_index other = open();
    block last;
    other.seek_last(last);
    ASSERT_GT(last.size, 0U);
    EXPECT_EQ(table_.key_of(last.entries[last.size - 1]), big_endian(399));
  }
  for (const std::uint64_t i : {1U, 50U, 200U, 399U}) {
    forget();
    const persistent_index other = open();
    block found;
    other.seek(big_endian(i), found);
    const auto end = found.entries.begin() + static_cast<std::ptrdiff_t>(found.size);
    EXPECT_TRUE(std::find(found.entries.begin(), end, key_table::link_of(i)) != end) << "key " << i;
    forget();
    const persistent_index another = open();
    ASSERT_TRUE(another.block_before(big_endian(i), found));
    EXPECT_EQ(found.entries[found.size - 1], key_table::link_of(i - 1));
  }
}

TEST_F(PersistentRecovery, sources_of_nodes_that_a_dead_process_had_are_taken_over) {
  persistent_index one = open();
  insert(one, 0, 1000);
  for (auto& source : memory_.state().space.of) source.taken.store(1U << 16 | persistent_memory::dead_process);
  insert(one, 1000, 2000);
  expect_all(one);
}

TEST_F(PersistentRecovery, a_link_out_of_the_store_is_reported) {
  persistent_index one = open();
  insert(one, 0, 400);
  memory_.node_at(first_of(0)).next.store(std::uint64_t{1} << 40);
  block b;
  one.seek_first(b);
  EXPECT_THROW(static_cast<void>(one.next_block(b)), std::runtime_error);
}

}  // namespace
}  // namespace icecore::index
