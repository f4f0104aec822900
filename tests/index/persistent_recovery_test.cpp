// What the persistent index does with what a crash leaves of it: nodes locked by nobody, splits half done, pairs and
// levels missing above, nodes taken and never linked. Each state is made as the media would have it.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "index_model.hpp"
#include "key_table.hpp"
#include "persistent_memory.hpp"

namespace icecore::index {
namespace {

class PersistentRecovery : public ::testing::Test {
 protected:
  static constexpr std::size_t entries_max = 100'000;

  /// A session: all that only memory knew of the one before is gone.
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
  /// The first node of a level, as the media has it.
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
  /// As a writer left it that is no more.
  static void lock(index_node& n) {
    const std::uint64_t word = n.lock.load();
    n.lock.store(node_word::lock(word, node_word::epoch(word), 0));
  }

  persistent_memory memory_;
  key_table table_{entries_max};
  bool empty_ = true;
  std::vector<std::string> expected_;
};

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

// The order words of an insert, the last first: each prefix of the stores shows the pair or does not, and nothing else.
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
  // The left one as it was before: its own pairs, and those of its right neighbour once more.
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

TEST_F(PersistentRecovery, what_no_pair_above_leads_to_is_found_and_told_above) {
  {
    persistent_index one = open();
    insert(one, 0, 400);
  }
  index_node& above = memory_.node_at(top());
  node_order order(above);
  ASSERT_EQ(order.level(), 1U);
  const unsigned before = order.count();
  order.cut(1);  // as if the machine had stopped each time before the level above was told
  order.store_in(above);
  lock(above);
  persistent_index other = open();
  expect_all(other);
  for (unsigned i = 0; i < 20'000 && node_order(above).count() + 1 < before; ++i) (void)other.find(big_endian(i % 400));
  EXPECT_GE(node_order(above).count() + 1, before) << "searches do not tell the level above";
  expect_all(other);
}

// Whatever a crash left, an operation is not slow for it: one that passes many nodes that nobody above knows tells of
// one of them.
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

// The same where there are more levels: two of them lack what leads to the nodes below.
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

// Nobody has looked at it yet, and its source is asked for a node first.
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
  // so that it is looked for to the right, too
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

TEST_F(PersistentRecovery, a_link_out_of_the_store_is_told) {
  persistent_index one = open();
  insert(one, 0, 400);
  memory_.node_at(first_of(0)).next.store(std::uint64_t{1} << 40);
  block b;
  one.seek_first(b);
  EXPECT_THROW(static_cast<void>(one.next_block(b)), std::runtime_error);
}

// ---- What check() tells ----

class PersistentCheck : public PersistentRecovery {
 protected:
  void SetUp() override {
    const node_space::parts parts = memory_.open();  // first: it makes the state anew
    index_.emplace(table_, parts, memory_.state());
    index_->build({}, 1);
    insert(*index_, 0, 400);
    ASSERT_TRUE(index_->check().empty());
    first_ = first_of(0);
    second_ = memory_.node_at(first_).next.load();
  }
  [[nodiscard]] index_node& first() { return memory_.node_at(first_); }
  [[nodiscard]] index_node& second() { return memory_.node_at(second_); }
  [[nodiscard]] index_node& above() { return memory_.node_at(top()); }
  [[nodiscard]] index_node& last() {
    link at = first_;
    while (const link next = memory_.node_at(at).next.load()) at = next;
    return memory_.node_at(at);
  }
  static auto& pair(index_node& n, unsigned i) { return n.pairs[node_order(n).slot(i)]; }

  /// check() says `what` while `word` is `wrong`, and nothing before and after.
  void expect_told(const std::string& what, std::atomic<std::uint64_t>& word, std::uint64_t wrong) {
    const std::uint64_t right = word.exchange(wrong);
    const auto told = index_->check();
    EXPECT_TRUE(std::ranges::any_of(told, [&](const std::string& t) { return t.find(what) != std::string::npos; }))
        << what << " is not among " << told.size() << ", the first of which is "
        << (told.empty() ? "missing" : told.front());
    word.store(right);
    EXPECT_TRUE(index_->check().empty());
  }
  /// A byte of the order words.
  void expect_byte_told(const std::string& what, index_node& n, unsigned byte, std::uint8_t wrong) {
    auto& word = n.order[byte / 8];
    const unsigned shift = byte % 8 * 8;
    expect_told(what, word, (word.load() & ~(std::uint64_t{0xff} << shift)) | std::uint64_t{wrong} << shift);
  }
  static constexpr unsigned count_byte = index_pairs_max;
  static constexpr unsigned level_byte = count_byte + 1;
  static constexpr unsigned prefix_byte = count_byte + 2;

  std::optional<persistent_index> index_;
  link first_ = null_link;
  link second_ = null_link;
};

TEST_F(PersistentCheck, tells_a_node_that_is_not_of_its_place) {
  expect_told("its checksum is wrong", second().lock, second().lock.load() ^ std::uint64_t{1} << 60);
  expect_byte_told("is of level 3 and not 0", second(), level_byte, 3);
  expect_told("its low is not its left neighbour's high", second().low, pair(second(), 3).to.load());
  expect_told("its first pair is not its low", second().low, pair(second(), 3).to.load());
  expect_told("has a bound but no right neighbour, or none but one", second().high, null_link);
  expect_told("has a bound but no right neighbour, or none but one", last().high, pair(first(), 0).to.load());
  expect_told("is beyond its bound", second().high, pair(second(), 3).to.load());
  expect_told("its bound's head is wrong", second().high_head, second().high_head.load() + 1);
}

TEST_F(PersistentCheck, tells_a_prefix_that_not_all_keys_have) {
  expect_byte_told("is open and has a prefix", first(), prefix_byte, 2);
  expect_byte_told("is open and has a prefix", last(), prefix_byte, 2);
  expect_byte_told("its prefix is longer than its bounds'", second(), prefix_byte, 8);
}

TEST_F(PersistentCheck, tells_pairs_that_are_wrong_or_in_another_order) {
  expect_byte_told("order byte 2 is 40", second(), 2, 40);
  ASSERT_LT(node_order(second()).count(), index_pairs_max);
  expect_byte_told("order byte 26 is 1", second(), 26, 1);
  expect_told("pair 4 leads to nothing", pair(second(), 4).to, null_link);
  expect_told("pair 0 leads to nothing", pair(first(), 0).to, null_link);
  expect_told("head 4 is not its key's", pair(second(), 4).head, 1);
  expect_told("key 4 is not above the one before", pair(second(), 4).to, pair(second(), 2).to.load());
}

TEST_F(PersistentCheck, tells_where_levels_do_not_fit_together) {
  ASSERT_EQ(node_order(above()).level(), 1U);
  expect_told("pair 3 leads to nothing", pair(above(), 3).to, first_);  // the first one, which has no low
  expect_told("the level above leads to nodes that are not in this level's list", pair(above(), 3).to, second_);
  expect_byte_told("leads to no node", above(), count_byte, 0);
  auto& anchored = memory_.anchor().first_leaf;
  const auto place = static_cast<link>(reinterpret_cast<std::byte*>(&anchored) - memory_.base());
  expect_told("is not the leaf that the anchor takes for the first", anchored,
              word_codec(12345).encode_link(second_, place));
  index_->count(1);
  EXPECT_EQ(index_->check(), std::vector<std::string>{"400 entries are there, 401 were counted"});
}

// ---- A key that the medium has changed ----

/// Keys of which the first levels tell nothing by their heads, so that they must be compared whole.
std::string alike(std::uint64_t i) { return "all begin alike " + big_endian(i); }

class DamagedKey : public PersistentRecovery {
 protected:
  static constexpr std::uint64_t keys = 2000;

  void SetUp() override {
    persistent_index one = open();
    for (std::uint64_t i = 0; i < keys; ++i) links_.push_back(add(one, i));
  }
  link add(persistent_index& to, std::uint64_t i) {
    const link entry = table_.add(alike(2 * i));
    EXPECT_EQ(to.insert(alike(2 * i), entry), entry);
    return entry;
  }
  /// The entries that nodes above the leaves compare keys with, and those that end nodes.
  [[nodiscard]] std::vector<link> separators() {
    std::vector<link> all;
    for (link leaf = first_of(0); leaf != null_link; leaf = memory_.node_at(leaf).next.load()) {
      if (const link low = memory_.node_at(leaf).low.load(); low != null_link) all.push_back(low);
    }
    return all;
  }
  /// Whether every call is right or says that something is damaged; how many said so.
  template <class Call>
  unsigned complaints(const Call& call) {
    unsigned complaints = 0;
    for (std::uint64_t i = 0; i < keys; ++i) {
      try {
        call(i);
      } catch (const std::runtime_error&) {
        ++complaints;
      }
    }
    return complaints;
  }
  void expect_none_hidden(persistent_index& in, link damaged) {
    SCOPED_TRACE("entry " + std::to_string(damaged));
    const unsigned finds = complaints([&](std::uint64_t i) {
      ASSERT_TRUE(links_[i] == damaged || in.find(alike(2 * i)) == links_[i]) << "key " << i << " is hidden";
    });
    const unsigned seeks = complaints([&](std::uint64_t i) {
      if (links_[i] == damaged) return;
      block b;
      in.seek(alike(2 * i), b);
      ASSERT_TRUE(std::ranges::find(b.entries.begin(), b.entries.begin() + static_cast<std::ptrdiff_t>(b.size),
                                    links_[i]) != b.entries.begin() + static_cast<std::ptrdiff_t>(b.size))
          << "a walk from key " << i << " leaves it out";
    });
    const unsigned many = complaints([&](std::uint64_t i) {
      const std::string key = alike(2 * i);
      const std::string_view asked[] = {key};
      link found[] = {null_link};
      in.find_many(asked, found);
      ASSERT_TRUE(links_[i] == damaged || found[0] == links_[i]) << "key " << i << " is hidden";
    });
    finds_ += finds;
    seeks_ += seeks;
    many_ += many;
  }

  std::vector<link> links_;
  unsigned finds_ = 0;  // that said so, and so on
  unsigned seeks_ = 0;
  unsigned many_ = 0;
};

TEST_F(DamagedKey, that_separates_nodes_hides_no_other) {
  constexpr std::size_t last_byte = 16 + 7;  // behind what all begin with
  for (const link separator : separators()) {
    for (const std::size_t byte : {last_byte, last_byte - 1, std::size_t{0}}) {
      persistent_index other = open();
      table_.damage(separator, byte, 6);
      expect_none_hidden(other, separator);
      table_.damage(separator, byte, 6);
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(finds_, 0U);
  EXPECT_GT(seeks_, 0U);
  EXPECT_GT(many_, 0U);
}

TEST_F(DamagedKey, is_given_to_no_node_as_its_bound) {
  persistent_index other = open();
  // where this leaf will be cut; the pairs behind, beside which others come, are right
  const index_node& leaf = memory_.node_at(memory_.node_at(first_of(0)).next.load());
  const link damaged = to_at(leaf, node_order(leaf), index_pairs_max / 2);
  const link behind = to_at(leaf, node_order(leaf), index_pairs_max / 2 + 6);
  const auto first = static_cast<std::uint64_t>(std::ranges::find(links_, behind) - links_.begin());
  const auto before = separators();
  table_.damage(damaged, 16 + 6, 6);
  unsigned refused = 0;
  for (std::uint64_t i = first; i < first + 5; ++i) {
    try {
      static_cast<void>(other.insert(alike(2 * i + 1), table_.add(alike(2 * i + 1))));
    } catch (const std::runtime_error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 0U);
  EXPECT_EQ(separators(), before);
}

TEST_F(DamagedKey, in_a_node_to_be_mended_leaves_it_as_it_is) {
  index_node& leaf = memory_.node_at(memory_.node_at(first_of(0)).next.load());
  lock(leaf);
  const std::uint64_t word = leaf.lock.load();
  const link damaged = to_at(leaf, node_order(leaf), 1);
  const auto i = static_cast<std::uint64_t>(std::ranges::find(links_, damaged) - links_.begin());
  persistent_index other = open();
  table_.damage(damaged, 16 + 6, 6);
  for (int again = 0; again < 2; ++again) {
    EXPECT_THROW(static_cast<void>(other.find(alike(2 * (i + 1)))), std::runtime_error);
    EXPECT_EQ(leaf.lock.load(), word) << "the next one waits for ever";
  }
  table_.damage(damaged, 16 + 6, 6);
  table_.forget_damage();
  other.count(keys);
  EXPECT_EQ(other.find(alike(2 * (i + 1))), links_[i + 1]);
}

// A checksum that two halves of a CRC make: no single bit of what it covers may be without effect.
TEST_F(PersistentRecovery, every_bit_of_a_node_changes_its_checksum) {
  index_node n{};
  node_order order(0, 0);
  for (unsigned i = 0; i < index_pairs_max; ++i) {
    n.pairs[i].head.store(mix64(i));
    n.pairs[i].to.store(mix64(i + 100));
    order.insert(i, (i * 7) % index_pairs_max);
  }
  order.store_in(n);
  const std::uint16_t right = check_of(n, 99);
  auto* const words = reinterpret_cast<std::atomic<std::uint64_t>*>(&n);
  constexpr std::size_t order_words_end = 8;
  for (std::size_t word = 1; word < sizeof n / 8 - 1; ++word) {
    for (unsigned bit = 0; bit < 64; ++bit) {
      // what counts and in which order changes what is summed up, not a bit of it
      const bool counts = word >= 4 && word < order_words_end;
      words[word].fetch_xor(std::uint64_t{1} << bit);
      EXPECT_TRUE(counts || check_of(n, 99) != right) << "word " << word << ", bit " << bit;
      words[word].fetch_xor(std::uint64_t{1} << bit);
    }
  }
}

}  // namespace
}  // namespace icecore::index
