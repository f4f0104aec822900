// Nodes of the persistent index that differ from what was written: check() reports each wrong part, and operations
// fail.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <optional>
#include <thread>

#include "persistent_fixture.hpp"

namespace icecore::index {
namespace {

// ---- What check() reports ----

class PersistentCheck : public PersistentRecovery {
 protected:
  void SetUp() override {
    const node_space::parts parts = memory_.open();  // first, because it creates the state anew
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

  /// check() reports `what` while `word` is `wrong`, and nothing before and after.
  void expect_reported(const std::string& what, std::atomic<std::uint64_t>& word, std::uint64_t wrong) {
    const std::uint64_t right = word.exchange(wrong);
    const auto reported = index_->check();
    EXPECT_TRUE(std::ranges::any_of(reported, [&](const std::string& t) { return t.find(what) != std::string::npos; }))
        << what << " is not among " << reported.size() << ", the first of which is "
        << (reported.empty() ? "missing" : reported.front());
    word.store(right);
    EXPECT_TRUE(index_->check().empty());
  }
  /// A byte of the order words.
  void expect_byte_reported(const std::string& what, index_node& n, unsigned byte, std::uint8_t wrong) {
    auto& word = n.order[byte / 8];
    const unsigned shift = byte % 8 * 8;
    expect_reported(what, word, (word.load() & ~(std::uint64_t{0xff} << shift)) | std::uint64_t{wrong} << shift);
  }
  static constexpr unsigned count_byte = index_pairs_max;
  static constexpr unsigned level_byte = count_byte + 1;
  static constexpr unsigned prefix_byte = count_byte + 2;

  std::optional<persistent_index> index_;
  link first_ = null_link;
  link second_ = null_link;
};

TEST_F(PersistentCheck, tells_a_node_that_is_not_of_its_place) {
  expect_reported("its checksum is wrong", second().lock, second().lock.load() ^ std::uint64_t{1} << 60);
  expect_byte_reported("has level 3, not 0", second(), level_byte, 3);
  expect_reported("its lower bound is not its left neighbour's upper bound", second().low, pair(second(), 3).to.load());
  expect_reported("its first pair does not lead to its lower bound", second().low, pair(second(), 3).to.load());
  expect_reported("has an upper bound but no right neighbour, or a right neighbour but no upper bound", second().high,
                  null_link);
  expect_reported("has an upper bound but no right neighbour, or a right neighbour but no upper bound", last().high,
                  pair(first(), 0).to.load());
  expect_reported("is not below the upper bound", second().high, pair(second(), 3).to.load());
  expect_reported("the head of its upper bound is wrong", second().high_head, second().high_head.load() + 1);
}

TEST_F(PersistentCheck, tells_a_prefix_that_not_all_keys_have) {
  expect_byte_reported("has a prefix but lacks a bound", first(), prefix_byte, 2);
  expect_byte_reported("has a prefix but lacks a bound", last(), prefix_byte, 2);
  expect_byte_reported("its prefix is longer than the one that its bounds share", second(), prefix_byte, 8);
}

TEST_F(PersistentCheck, tells_pairs_that_are_wrong_or_in_another_order) {
  expect_byte_reported("order byte 2 has the wrong value 40", second(), 2, 40);
  ASSERT_LT(node_order(second()).count(), index_pairs_max);
  expect_byte_reported("order byte 26 has the wrong value 1", second(), 26, 1);
  expect_reported("pair 4 leads to no entry", pair(second(), 4).to, null_link);
  expect_reported("pair 0 leads to no entry", pair(first(), 0).to, null_link);
  expect_reported("head 4 is not its key's", pair(second(), 4).head, 1);
  expect_reported("key 4 is not greater than the one before", pair(second(), 4).to, pair(second(), 2).to.load());
}

TEST_F(PersistentCheck, tells_where_levels_do_not_fit_together) {
  ASSERT_EQ(node_order(above()).level(), 1U);
  expect_reported("pair 3 leads to no entry, or to a node without a lower bound", pair(above(), 3).to,
                  first_);  // the first pair, which has no low
  expect_reported("the level above leads to nodes that are not in this level's list", pair(above(), 3).to, second_);
  expect_byte_reported("no pair of this level leads to a node", above(), count_byte, 0);
  auto& anchored = memory_.anchor().first_leaf;
  const auto place = static_cast<link>(reinterpret_cast<std::byte*>(&anchored) - memory_.base());
  expect_reported("is not the leaf that the anchor names as the first", anchored,
                  word_codec(12345).encode_link(second_, place));
  index_->count(1);
  EXPECT_EQ(index_->check(), std::vector<std::string>{"the leaves lead to 400 entries, but the count is 401"});
}

// ---- A key that the medium has changed ----

/// Keys whose heads are equal in the first levels, so that whole keys must be compared.
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
  /// The entries whose keys separate nodes: nodes above the leaves compare keys with them, and they bound nodes.
  [[nodiscard]] std::vector<link> separators() {
    std::vector<link> all;
    for (link leaf = first_of(0); leaf != null_link; leaf = memory_.node_at(leaf).next.load()) {
      if (const link low = memory_.node_at(leaf).low.load(); low != null_link) all.push_back(low);
    }
    return all;
  }
  /// Requires that every call is right or reports damage; returns how many reported it.
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
  unsigned finds_ = 0;  // how many finds reported damage; the same for seeks and find_many
  unsigned seeks_ = 0;
  unsigned many_ = 0;
};

TEST_F(DamagedKey, that_separates_nodes_hides_no_other) {
  constexpr std::size_t last_byte = 16 + 7;  // behind the common beginning of all keys
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
  // where this leaf will be split; the pairs behind, next to which others are inserted, are right
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

// ---- A key whose entry was lost, with another key's entry in its place ----

class DisplacedKey : public PersistentRecovery {
 protected:
  void SetUp() override {
    persistent_index one = open();
    insert(one, 0, 800, 2);
    leaf_ = &memory_.node_at(memory_.node_at(first_of(0)).next.load());
  }
  /// The key of a pair of the leaf; from now on another key's entry lies in its place.
  std::string displace(link entry) {
    std::string key(table_.key_of(entry));
    table_.displace(entry, big_endian(100'000));
    return key;
  }
  [[nodiscard]] link entry(unsigned i) const { return to_at(*leaf_, node_order(*leaf_), i); }

  index_node* leaf_ = nullptr;
};

TEST_F(DisplacedKey, is_reported_to_who_looks_for_it) {
  const std::string beside(table_.key_of(entry(4)));
  const std::string key = displace(entry(3));
  persistent_index other = open();
  EXPECT_NE(other.find(beside), null_link);
  EXPECT_THROW(static_cast<void>(other.find(key)), std::runtime_error);
  EXPECT_THROW(static_cast<void>(other.insert(key, table_.add(key))), std::runtime_error);
}

TEST_F(DisplacedKey, ends_no_node) {
  const std::string last(table_.key_of(entry(node_order(*leaf_).count() - 1)));
  displace(leaf_->high.load());
  persistent_index other = open();
  EXPECT_THROW(static_cast<void>(other.find(last)), std::runtime_error);
}

TEST_F(DisplacedKey, is_given_to_no_node_as_its_bound) {
  persistent_index other = open();
  leaf_ = &memory_.node_at(first_of(0));
  const link high = leaf_->high.load();
  const unsigned free = index_pairs_max - node_order(*leaf_).count();
  displace(entry(index_pairs_max / 2));  // where the leaf will be split, since all new keys are greater
  unsigned refused = 0;
  for (unsigned i = 0; i < free + 3; ++i) {
    const std::string key = big_endian(2 * (index_pairs_max / 2 + 3 + i) + 1);
    try {
      static_cast<void>(other.insert(key, table_.add(key)));
    } catch (const std::runtime_error&) {
      ++refused;
    }
  }
  EXPECT_EQ(refused, 3U);
  EXPECT_EQ(leaf_->high.load(), high) << "the leaf was cut";
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

// ---- A link that leads nowhere, in a node whose 16-bit checksum is right by chance ----

class UnboundedLink : public PersistentRecovery {
 protected:
  void SetUp() override {
    persistent_index one = open();
    insert(one, 0, 2000);
  }
  /// A session in which `word` of the node is `wrong`: every call is right or reports it, and at least one reports it.
  void expect_reported(link ref, std::atomic<std::uint64_t>& word, std::uint64_t wrong) {
    index_node& n = memory_.node_at(ref);
    const std::uint64_t lock = n.lock.load();
    const std::uint64_t right = word.exchange(wrong);
    const std::uint32_t seed = word_codec(12345).record_seed(0, ref);
    n.lock.store(node_word::make(node_word::epoch(lock), lock, false, check_of(n, seed)));
    persistent_index in = open();
    unsigned reported = 0;
    for (const std::string& key : expected_) {
      try {
        EXPECT_NE(in.find(key), null_link);
      } catch (const std::runtime_error& e) {
        const std::string what = e.what();
        EXPECT_TRUE(what.starts_with("a node of the index has a link that points outside the store") ||
                    what == "the entry is damaged")
            << what;
        ++reported;
      }
    }
    EXPECT_GT(reported, 0U);
    word.store(right);
    n.lock.store(lock);
  }
  static constexpr link outside = link{1} << 40;
};

TEST_F(UnboundedLink, is_reported_and_not_followed) {
  const link leaf = memory_.node_at(first_of(0)).next.load();
  index_node& n = memory_.node_at(leaf);
  for (const link wrong : {outside, null_link, outside + 4}) {
    for (unsigned i = 0; i < node_order(n).count(); ++i)
      expect_reported(leaf, n.pairs[node_order(n).slot(i)].to, wrong);
  }
  expect_reported(leaf, n.next, outside);
  expect_reported(leaf, n.high, outside);
  expect_reported(leaf, n.low, outside);
  index_node& above = memory_.node_at(top());
  ASSERT_GT(node_order(above).level(), 0U);
  for (unsigned i = 0; i < node_order(above).count(); ++i)
    expect_reported(top(), above.pairs[node_order(above).slot(i)].to, outside);
}

// check() examines the node above first, before any thread has checked the one below.
TEST_F(UnboundedLink, is_reported_and_not_followed_by_who_checks_all_nodes) {
  memory_.node_at(memory_.node_at(first_of(0)).next.load()).low.store(outside);
  const persistent_index in = open();
  try {
    static_cast<void>(in.check());
    FAIL() << "it is reported by nobody";
  } catch (const std::runtime_error& reported) {
    EXPECT_TRUE(std::string(reported.what()).starts_with("a node of the index")) << reported.what();
  }
}

// ---- A source of nodes from an earlier time ----

TEST_F(PersistentRecovery, a_node_source_of_before_other_nodes_were_given_out_gives_none_out_again) {
  persistent_index one = open();
  insert(one, 0, 2000);
  const format::node_source& now = memory_.anchor().nodes[0];
  format::node_source then{};
  std::memcpy(static_cast<void*>(&then), &now, sizeof then);
  insert(one, 2000, 3000);
  ASSERT_NE(then.position.load(), now.position.load());
  std::memcpy(static_cast<void*>(&memory_.anchor().nodes[0]), &then, sizeof then);
  persistent_index other = open();
  unsigned refused = 0;
  for (std::uint64_t i = 10'000; i < 10'100; ++i) {
    try {
      static_cast<void>(other.insert(big_endian(i), table_.add(big_endian(i))));
      expected_.push_back(big_endian(i));
    } catch (const std::runtime_error& e) {
      EXPECT_TRUE(std::string(e.what()).starts_with("the index's source of new nodes points to a node that is in use"))
          << e.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 0U);
  expect_all(other);
}

// ---- A lock that no thread holds ----

class LockedNode : public PersistentRecovery {
 protected:
  void SetUp() override {
    in_.emplace(open());
    insert(*in_, 0, 200);
    leaf_ = &memory_.node_at(memory_.node_at(first_of(0)).next.load());
    free_ = leaf_->lock.load();
    lock(*leaf_);  // by a live process, in this session
  }

  std::optional<persistent_index> in_;
  index_node* leaf_ = nullptr;
  std::uint64_t free_ = 0;
};

TEST_F(LockedNode, by_nobody_is_damaged_and_not_waited_for) {
  for (const std::string& key : expected_) {
    try {
      EXPECT_NE(in_->find(key), null_link);
    } catch (const std::runtime_error& reported) {
      EXPECT_TRUE(
          std::string(reported.what()).starts_with("a node of the index is locked, but no thread holds its lock"))
          << reported.what();
      leaf_->lock.store(free_);
      return expect_all(*in_);
    }
  }
  FAIL() << "no key is in the locked node";
}

TEST_F(LockedNode, by_a_thread_is_waited_for_however_long_it_takes) {
  memory_.state().holders.enter();
  auto found = std::async(std::launch::async, [&] { expect_all(*in_); });
  EXPECT_EQ(found.wait_for(std::chrono::seconds(1)), std::future_status::timeout);
  leaf_->lock.store(free_);
  memory_.state().holders.leave();
  EXPECT_NO_THROW(found.get());
}

// A lock of the previous session, so the node would be repaired: it would become a leaf without keys.
TEST_F(LockedNode, by_a_dead_process_without_pairs_is_damaged) {
  for (auto& word : leaf_->order) word.store(0);
  in_.emplace(open());
  unsigned refused = 0;
  for (const std::string& key : expected_) {
    try {
      EXPECT_NE(in_->find(key), null_link);
    } catch (const std::runtime_error& reported) {
      EXPECT_NE(std::string(reported.what()).find("left half-written is in a state that no writer leaves"),
                std::string::npos)
          << reported.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 0U);
}

TEST(LockHolders, are_counted_until_the_last_one_leaves) {
  lock_holders holders;
  EXPECT_TRUE(holders.none());
  holders.enter();
  std::thread([&] {
    holders.enter();
    holders.leave();
  }).join();
  EXPECT_FALSE(holders.none());
  std::thread([&] { holders.enter(); }).join();
  holders.leave();
  EXPECT_FALSE(holders.none());
}

// The checksum combines the two halves of a CRC: every single bit that it covers must have an effect.
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
      // a bit of the order words changes which pairs are summed up, and in which order
      const bool counts = word >= 4 && word < order_words_end;
      words[word].fetch_xor(std::uint64_t{1} << bit);
      EXPECT_TRUE(counts || check_of(n, 99) != right) << "word " << word << ", bit " << bit;
      words[word].fetch_xor(std::uint64_t{1} << bit);
    }
  }
}

}  // namespace
}  // namespace icecore::index
