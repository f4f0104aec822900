// The evidence of a node that closing leaves in another node. A thread that later meets the node, or the heads of a
// leaf's entries, in an earlier state gets an error. A thread that meets sound ones never does, whatever else is
// outdated.
#include <cstring>
#include <stdexcept>

#include "persistent_fixture.hpp"

namespace icecore::index {
namespace {

class NodeEvidence : public PersistentRecovery {
 protected:
  static constexpr std::uint64_t keys = 5000;

  /// A session that does `work` and is closed. In the next session the evidence of all sessions so far counts.
  template <class Work>
  void session(const Work& work) {
    persistent_index one = open();
    one.count(expected_.size() - one.size());
    work(one);
    memory_.leave_evidence(one);
    memory_.believe(++sessions_);
  }
  void meet_all(persistent_index& in) { expect_all(in); }
  [[nodiscard]] std::string image() const {
    return {reinterpret_cast<const char*>(memory_.base()), static_cast<std::size_t>(memory_.used())};
  }
  /// Restores these bytes from the image.
  void restore(const std::string& image, std::uint64_t at, std::uint64_t size) {
    std::memcpy(memory_.base() + at, image.data() + at, size);
  }
  [[nodiscard]] bool is_reported(std::uint64_t key) {
    persistent_index one = open();
    try {
      static_cast<void>(one.find(big_endian(key)));
      return false;
    } catch (const std::runtime_error& e) {
      EXPECT_NE(std::strstr(e.what(), "is older than its evidence"), nullptr) << e.what();
      return true;
    }
  }
  [[nodiscard]] link leaf_of(std::uint64_t key) {
    link at = first_of(0);
    for (;;) {
      const index_node& n = memory_.node_at(at);
      const link high = n.high.load();
      if (high == null_link || big_endian(key) < table_.key_of(high)) return at;
      at = n.next.load();
    }
  }

  std::uint32_t sessions_ = 0;
};

TEST_F(NodeEvidence, of_sound_sessions_reports_nothing) {
  session([&](persistent_index& one) { insert(one, 0, keys, 2); });
  for (std::uint64_t i = 0; i < 4; ++i) {
    session([&](persistent_index& one) {
      insert(one, 2 * i * 500 + 1, 2 * (i + 1) * 500, 2);
      if (i % 2 == 1) meet_all(one);
      for (std::uint64_t slot = i; slot < expected_.size(); slot += 7) {
        const link entry = one.find(expected_[slot]);
        table_.set_state(entry, table_.state_of(entry) + 1);
      }
    });
  }
  persistent_index last = open();
  expect_all(last);
}

TEST_F(NodeEvidence, reports_a_node_of_an_earlier_session) {
  session([&](persistent_index& one) { insert(one, 0, keys, 2); });
  const std::string before = image();
  const link leaf = leaf_of(1001);
  session([&](persistent_index& one) { insert(one, 1001, 1003, 2); });
  restore(before, leaf, sizeof(index_node));
  EXPECT_TRUE(is_reported(1000));
  EXPECT_FALSE(is_reported(4000));
}

TEST_F(NodeEvidence, reports_a_node_as_it_was_earlier_in_the_session) {
  std::string before;
  link leaf = null_link;
  session([&](persistent_index& one) {
    insert(one, 0, keys, 2);
    before = image();
    leaf = leaf_of(1001);
    insert(one, 1001, 1003, 2);
  });
  restore(before, leaf, sizeof(index_node));
  EXPECT_TRUE(is_reported(1000));
}

TEST_F(NodeEvidence, reports_a_node_that_was_locked_when_its_page_was_written) {
  session([&](persistent_index& one) { insert(one, 0, keys, 2); });
  const link leaf = leaf_of(1000);
  lock(memory_.node_at(leaf));
  EXPECT_TRUE(is_reported(1000));
}

TEST_F(NodeEvidence, reports_links_of_an_entry) {
  session([&](persistent_index& one) { insert(one, 0, keys); });
  link entry = null_link;
  session([&](persistent_index& one) {
    entry = one.find(big_endian(1000));
    table_.set_state(entry, 7);
  });
  table_.set_state(entry, 0);
  EXPECT_TRUE(is_reported(1001));  // in the same leaf
  table_.set_state(entry, 7);
  EXPECT_FALSE(is_reported(1001));
}

TEST_F(NodeEvidence, of_an_earlier_time_reports_nothing) {
  session([&](persistent_index& one) { insert(one, 0, keys); });
  const std::string before = image();
  session([&](persistent_index& one) { table_.set_state(one.find(big_endian(1000)), 7); });
  const link leaf = leaf_of(1000);
  restore(before, memory_.partner_of(leaf) + offsetof(index_node, evidence), sizeof(std::uint64_t));
  EXPECT_FALSE(is_reported(1000));
}

TEST_F(NodeEvidence, from_before_a_crash_reports_nothing) {
  session([&](persistent_index& one) { insert(one, 0, keys); });
  const link entry = [&] {
    persistent_index crashed = open();
    return crashed.find(big_endian(1000));
  }();
  // The machine stopped: the leaf's word did not reach the media, but the entry's heads did.
  memory_.node_at(leaf_of(1000)).lock.store(node_word::in_epoch(memory_.node_at(leaf_of(1000)).lock.load(), sessions_));
  table_.set_state(entry, 7);
  memory_.believe(0);
  EXPECT_FALSE(is_reported(1000));
}

TEST_F(NodeEvidence, is_left_by_the_first_session_that_meets_the_node_after_a_crash) {
  session([&](persistent_index& one) { insert(one, 0, keys); });
  static_cast<void>(open());
  memory_.believe(0);
  link entry = null_link;
  {
    persistent_index one = open();
    entry = one.find(big_endian(1000));
    table_.set_state(entry, 7);
    memory_.leave_evidence(one);
  }
  memory_.believe(1);
  table_.set_state(entry, 0);
  EXPECT_TRUE(is_reported(1000));
}

TEST_F(NodeEvidence, is_none_of_a_node_that_is_locked_when_the_store_is_closed) {
  session([&](persistent_index& one) { insert(one, 0, keys); });
  session([&](persistent_index& one) {
    static_cast<void>(one.find(big_endian(1000)));
    lock(memory_.node_at(leaf_of(1000)));
  });
  EXPECT_FALSE(is_reported(1000));
}

TEST_F(NodeEvidence, lies_in_no_64_KiB_with_its_node) {
  session([&](persistent_index& one) { insert(one, 0, keys); });
  unsigned nodes = 0;
  for (link leaf = first_of(0); leaf != null_link; leaf = memory_.node_at(leaf).next.load(), ++nodes) {
    const link evidence = memory_.partner_of(leaf) + offsetof(index_node, evidence);
    EXPECT_NE(evidence / format::granule_size, leaf / format::granule_size);
    EXPECT_EQ(leaf / format::granule_size, (leaf + sizeof(index_node) - 1) / format::granule_size);
    EXPECT_NE(memory_.node_at(memory_.partner_of(leaf)).evidence.load(), 0U);
  }
  EXPECT_GT(nodes, format::nodes_of_granule);
}

}  // namespace
}  // namespace icecore::index
