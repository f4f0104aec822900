// Clusters whose ranks pack stores that they share: what ranks see of each other's stores meanwhile, and afterwards.
// All of it holds for stores that are reached by messages, too.
#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <thread>

#include "support/ranks.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

/// How many ranks say so.
int count_of(bool mine) {
  int one = mine ? 1 : 0;
  int all = 0;
  MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return all;
}

/// Whether this rank maps the store of another one.
bool reaches_another(const cluster& c) {
  bool any = false;
  for (int r = 0; r < c.size(); ++r) any |= r != c.rank() && c.reaches_directly(r);
  return any;
}

/// Repeats a step beside the test, if other threads may use MPI; else only where the test says step().
class beside {
 public:
  beside(const cluster& c, std::function<void()> work) : work_(std::move(work)), has_thread_(c.has_progress_thread()) {
    if (!has_thread_) return;
    thread_ = std::thread([this] {
      while (!ends_) work_();
    });
  }
  ~beside() { end(); }
  beside(const beside&) = delete;
  beside& operator=(const beside&) = delete;

  void step() const {
    if (!has_thread_) work_();
  }
  void end() {
    ends_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::function<void()> work_;
  bool has_thread_;
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

class SharedCompaction : public ClusterTest {
 protected:
  void SetUp() override {
    ClusterTest::SetUp();
    if (std::getenv("ICECORE_GROUP_SIZE") != nullptr || ranks() == 1) return;
    const cluster c(MPI_COMM_WORLD, path().parent_path() / "probe");
    ASSERT_TRUE(reaches_another(c)) << "the ranks do not share their stores: these tests would show nothing";
  }

  using content = std::map<std::string, std::string>;
  static content at(const cluster& c, version v) {
    content all;
    for (const auto& [key, value] : c.at(v).range()) all.emplace(key, value);
    return all;
  }
  /// The i-th key of this rank that belongs to an owner.
  static std::string mine(const cluster& c, int owner, int i) { return key_of(c, owner, 100 * (rank() + 1) + i); }
  /// Each rank writes to all owners.
  static void write(cluster& c, const std::string& text, int keys = 20) {
    for (int owner = 0; owner < ranks(); ++owner) {
      for (int i = 0; i < keys; ++i) c.insert(mine(c, owner, i), text + std::string(200, 'v'));
    }
  }
  /// Versions 1 to 4, of which 2 and 4 have names.
  static void fill(cluster& c) {
    for (version v = 1; v <= 4; ++v) {
      write(c, "version " + std::to_string(v));
      v % 2 == 0 ? c.tag("v" + std::to_string(v)) : c.tag();
    }
  }
  /// Packs until nothing is left of what was to go: on a busy machine a rank may look at it for longer than others
  /// wait.
  static bool is_erased(cluster& c) {
    constexpr int tries = 50;
    for (int n = 0; n < tries; ++n) {
      if (c.compact().erased) return true;  // the same on all ranks
    }
    return false;
  }
};

/// Who writes one set of keys, at all owners, and knows what is there.
class writer {
 public:
  writer(cluster& c, std::vector<std::vector<std::string>> by_owner)
      : cluster_(&c), by_owner_(std::move(by_owner)), random_(static_cast<unsigned>(rank())) {}

  void step() {
    const std::uint64_t n = ++writes_;
    if (n % 16 == 0) std::this_thread::sleep_for(1ms);  // or there would be ever more to pack
    const auto& keys = by_owner_[random_() % by_owner_.size()];
    const std::size_t i = random_() % keys.size();
    const std::string& key = keys[i];
    const std::string& other = keys[(i + 1) % keys.size()];
    const std::string text = std::to_string(n);
    require(shows(key, cluster_->find(key)), key, "what was written last is there");
    switch (random_() % 5) {
      case 0:
        cluster_->remove(key);
        there_.erase(key);
        break;
      case 1: {
        batch both;
        both.insert(key, text);
        both.insert(other, text);
        cluster_->apply(both);
        there_[key] = there_[other] = text;
        break;
      }
      case 2: {
        batch fresh;
        fresh.insert_new(key, text);
        require(cluster_->apply_if(fresh).has_value() != there_.contains(key), key, "a key is new, or is not");
        there_.emplace(key, text);
        break;
      }
      default:
        cluster_->insert(key, text);
        there_[key] = text;
    }
    require(shows(key, cluster_->find(key)), key, "a write is seen when it has returned");
  }
  /// What has to be there.
  void expect_all(const cluster& c, std::optional<version> at = std::nullopt) const {
    for (const auto& keys : by_owner_) {
      for (const std::string& key : keys) {
        EXPECT_TRUE(shows(key, at ? c.find(key, *at) : c.find(key))) << key << " of rank " << c.owner_of(key);
      }
    }
  }
  [[nodiscard]] std::uint64_t writes() const { return writes_; }
  [[nodiscard]] std::string wrong() const { return wrong_; }

 private:
  [[nodiscard]] bool shows(const std::string& key, const std::optional<std::string>& found) const {
    const auto known = there_.find(key);
    return known == there_.end() ? !found : found == known->second;
  }
  void require(bool holds, const std::string& key, const char* what) {
    if (!holds && wrong_.empty()) wrong_ = std::string(what) + ": " + key + ", write " + std::to_string(writes_);
  }

  cluster* cluster_;
  std::vector<std::vector<std::string>> by_owner_;
  std::map<std::string, std::string> there_;
  std::mt19937 random_;
  std::atomic<std::uint64_t> writes_{0};
  std::string wrong_;
};

TEST_F(SharedCompaction, each_acknowledged_write_is_there_whoever_wrote_it_where) {
  cluster c(MPI_COMM_WORLD, path(), small_buffers(consistency::sequential));
  std::vector<std::vector<std::string>> keys(static_cast<std::size_t>(ranks()));
  for (int owner = 0; owner < ranks(); ++owner) {
    for (int i = 0; i < 12; ++i) keys[static_cast<std::size_t>(owner)].push_back(mine(c, owner, i));
  }
  writer own(c, keys);
  beside writes(c, [&] { own.step(); });
  int failed = 0;
  for (int round = 0; round < 12; ++round) {
    for (int n = 0; n < 20; ++n) writes.step();
    compaction_options how{.whole = round % 4 == 3, .on_progress = {}};
    if (round % 3 == 2) how.compression = compression::zstd;
    const bool fails = round % 5 == 1 && rank() == round % ranks();
    how.on_progress = [&](const progress&) {
      writes.step();
      if (fails) throw error(errc::no_space, "this rank has no room");
    };
    const thrown ending = error_of([&] { c.compact(how); });
    const bool threw = ending.code == errc::no_space;
    EXPECT_TRUE(threw || ending.message == "nothing was thrown") << ending.message;
    const int all = count_of(threw);
    EXPECT_TRUE(all == 0 || all == ranks()) << all << " ranks threw";
    failed += all == 0 ? 0 : 1;
    if (round % 2 == 0) c.tag();
    EXPECT_EQ(c.clock(), of_rank_0(c.clock()));
    // also between two compactions, however busy the machine is
    for (const auto then = own.writes(); c.has_progress_thread() && own.writes() < then + 10;) {
      std::this_thread::sleep_for(1ms);
    }
  }
  writes.end();
  EXPECT_GT(failed, 0);
  EXPECT_GT(own.writes(), 100U);
  EXPECT_EQ(own.wrong(), "");
  own.expect_all(c);
  c.barrier();
  const version last = c.tag();
  EXPECT_TRUE(c.compact().packed);
  own.expect_all(c, last);
  EXPECT_TRUE(c.local().verify().ok());
  c.barrier();  // who waits in MPI itself answers no other rank
  c.close();
  cluster again(MPI_COMM_WORLD, path());
  own.expect_all(again, last);
  again.barrier();
  own.expect_all(again);
  again.barrier();
  again.close();
}

TEST_F(SharedCompaction, old_versions_show_the_same_while_they_are_packed_and_afterwards) {
  cluster c(MPI_COMM_WORLD, path());
  fill(c);
  c.set_retention({.tagged = true, .newest = 3});
  std::map<version, content> expected;
  for (const version v : {version{2}, version{4}}) expected.emplace(v, at(c, v));
  const auto last_key = mine(c, (rank() + 1) % ranks(), 3);
  const auto past = c.history(last_key);
  std::atomic<unsigned> looks{0};
  std::atomic<bool> differs{false};
  std::atomic<version> newest{4};
  beside reads(c, [&] {
    for (const auto& [v, all] : expected) {
      if (at(c, v) != all || c.at(v).size() != all.size()) differs = true;
      if (c.find(last_key, v) != all.at(last_key) || !c.contains(last_key, v)) differs = true;
      const std::vector<std::string_view> several = {last_key, "no key"};
      if (c.at(v).find_many(several) != std::vector<std::optional<std::string>>{all.at(last_key), std::nullopt}) {
        differs = true;
      }
    }
    if (!c.find(last_key, newest.load())) differs = true;
    ++looks;
  });
  for (int round = 0; round < 6; ++round) {
    write(c, "round " + std::to_string(round));
    const version closed = c.tag();
    const compression form = round % 2 == 0 ? compression::none : compression::zstd;
    EXPECT_TRUE(c.compact({.whole = round % 3 == 2, .compression = form, .on_progress = {}}).packed);
    newest = closed;
    reads.step();
    c.barrier();
  }
  for (const unsigned then = looks; c.has_progress_thread() && looks < then + 2;) std::this_thread::sleep_for(1ms);
  reads.end();
  EXPECT_FALSE(differs);
  EXPECT_GT(looks, 2U);
  for (const auto& [v, all] : expected) EXPECT_EQ(at(c, v), all) << v;
  c.barrier();
  c.close();
}

TEST_F(SharedCompaction, what_a_rank_looks_at_stays_in_the_stores_of_all_ranks) {
  cluster c(MPI_COMM_WORLD, path());
  fill(c);
  const content second = at(c, 2);
  c.barrier();
  std::optional<cluster_cursor> cursor(c.at(2).cursor());
  content seen;
  cursor->seek_first();
  for (std::size_t n = 0; n < second.size() / 2; ++n, cursor->next()) seen.emplace((*cursor)->key, (*cursor)->value);
  c.barrier();
  for (int round = 0; round < 3; ++round) {
    write(c, "round " + std::to_string(round));
    c.barrier();
    const compaction_report done = c.compact({.whole = true, .on_progress = {}});
    EXPECT_TRUE(done.packed);
    EXPECT_FALSE(done.erased);
  }
  for (; cursor->valid(); cursor->next()) seen.emplace((*cursor)->key, (*cursor)->value);
  EXPECT_EQ(seen, second);
  cursor.reset();
  c.barrier();
  EXPECT_TRUE(is_erased(c));
  c.close();
}

TEST_F(SharedCompaction, a_value_that_a_rank_visits_stays_as_it_was_found) {
  cluster c(MPI_COMM_WORLD, path());
  if (!c.has_progress_thread()) return c.close();  // the visitor waits while this thread packs
  fill(c);
  c.barrier();
  const std::string key = mine(c, (rank() + 1) % ranks(), 5);
  const std::string found(*c.find(key));
  std::atomic<bool> looks{false};
  std::atomic<bool> ends{false};
  bool same = false;
  std::thread visitor([&] {
    c.visit(key, [&](std::string_view bytes) {
      looks = true;
      while (!ends) std::this_thread::sleep_for(1ms);
      same = bytes == found;
    });
  });
  while (!looks) std::this_thread::sleep_for(1ms);
  c.barrier();
  for (int round = 0; round < 3; ++round) {
    write(c, "round " + std::to_string(round));
    c.barrier();
    EXPECT_TRUE(c.compact({.whole = true, .on_progress = {}}).packed);
  }
  ends = true;
  visitor.join();
  EXPECT_TRUE(same);
  EXPECT_TRUE(is_erased(c));
  c.close();
}

/// The stores of other ranks refuse it, too: a snapshot that began before asks them.
TEST_F(SharedCompaction, an_expired_version_is_refused_by_each_store_whoever_reads_it) {
  cluster c(MPI_COMM_WORLD, path());
  fill(c);
  const cluster_snapshot first = c.at(1);
  std::vector<cluster_cursor> cursors;
  for (int owner = 0; owner < ranks(); ++owner) cursors.push_back(first.cursor());
  c.set_retention({.tagged = true});
  EXPECT_EQ(c.compact().versions_expired, 2U);
  for (int owner = 0; owner < ranks(); ++owner) {
    const std::string key = mine(c, owner, 0);
    const auto expect_expired = [&](const std::function<void()>& read) {
      EXPECT_EQ(error_of(read).code, errc::version_expired) << "rank " << owner << ": " << error_of(read).message;
    };
    expect_expired([&] { cursors[static_cast<std::size_t>(owner)].seek(key); });  // asks this owner alone
    expect_expired([&] { static_cast<void>(first.find(key)); });
    expect_expired([&] { static_cast<void>(c.contains(key, 3)); });
    EXPECT_EQ(c.find(key, 2).value_or("").substr(0, 9), "version 2");
  }
  EXPECT_EQ(error_of([&] { static_cast<void>(first.size()); }).code, errc::version_expired);
  EXPECT_EQ(error_of([&] { static_cast<void>(c.local().at(1)); }).code, errc::version_expired);
  c.barrier();
  c.close();
}

TEST_F(SharedCompaction, a_feed_tells_what_is_packed_meanwhile_once) {
  cluster c(MPI_COMM_WORLD, path());
  const version from = c.tag();
  cluster_feed told = c.feed({.after = from, .unsynced = true});
  std::map<std::string, std::map<version, std::optional<std::string>>> changes;
  std::string wrong;
  version newest = 0;
  beside reads(c, [&] {
    for (const cluster_change& each : told.next(7, 1ms).changes) {
      if (each.version < newest) wrong = "version " + std::to_string(each.version) + " is told late";
      newest = each.version;
      if (!changes[each.key].emplace(each.version, each.value).second) wrong = each.key + " is told twice";
    }
  });
  for (int round = 0; round < 8; ++round) {
    write(c, "round " + std::to_string(round), 5);
    c.tag();  // no key is written twice in a version
    c.remove(mine(c, (rank() + 1) % ranks(), 2));
    c.tag();
    reads.step();
    if (round % 2 == 0) static_cast<void>(c.compact({.whole = round % 4 == 0, .on_progress = {}}));
    reads.step();
  }
  c.barrier();
  const version last = c.tag();
  reads.end();
  for (;;) {
    const cluster_feed_batch rest = told.next(1000, 0ms);
    for (const cluster_change& each : rest.changes) changes[each.key].emplace(each.version, each.value);
    if (rest.told == last) break;
  }
  EXPECT_EQ(wrong, "");
  for (const auto& [key, ignored] : at(c, last)) {
    std::map<version, std::optional<std::string>> written;
    for (const versioned_value& each : c.history(key)) written.emplace(each.version, each.value);
    EXPECT_EQ(changes[key], written) << key;
  }
  c.barrier();
  // feeds that have told all keep no space
  EXPECT_TRUE(is_erased(c));
  c.close();
}

TEST_F(SharedCompaction, a_checkpoint_that_is_written_meanwhile_has_what_it_began_with) {
  const auto folder = path().parent_path() / "checkpoint";
  cluster c(MPI_COMM_WORLD, path());
  fill(c);
  const content fourth = at(c, 4);
  c.barrier();
  checkpoint_event writing = c.checkpoint(folder);
  for (int round = 0; round < 3; ++round) {
    write(c, "round " + std::to_string(round));
    c.barrier();
    EXPECT_TRUE(c.compact({.whole = true, .on_progress = {}}).packed);
  }
  writing.wait();
  EXPECT_EQ(at(c, 4), fourth);
  c.barrier();
  c.close();
  cluster restored = cluster::restore(MPI_COMM_WORLD, {folder}, path().parent_path() / "restored");
  EXPECT_EQ(at(restored, 4), fourth);
  EXPECT_EQ(restored.find(mine(restored, 0, 0)), fourth.at(mine(restored, 0, 0)));
  restored.barrier();
  EXPECT_TRUE(restored.compact().packed);
  EXPECT_EQ(at(restored, 4), fourth);
  restored.barrier();
  restored.close();
}

TEST_F(SharedCompaction, of_the_persistent_index_shows_the_same) {
  cluster_options how;
  how.store.index = index_kind::persistent;
  cluster c(MPI_COMM_WORLD, path(), how);
  fill(c);
  const content second = at(c, 2);
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(c.compact({.whole = round == 2, .on_progress = {}}).packed);
    EXPECT_EQ(at(c, 2), second);
    write(c, "round " + std::to_string(round));
    c.barrier();
    const std::string theirs = key_of(c, 0, 100 * ranks() + round);  // the last rank's
    EXPECT_EQ(c.find(theirs), "round " + std::to_string(round) + std::string(200, 'v'));
    c.barrier();
  }
  c.close();
  cluster again(MPI_COMM_WORLD, path(), how);
  EXPECT_EQ(at(again, 2), second);
  again.close();
}

}  // namespace
}  // namespace icecore::testing
