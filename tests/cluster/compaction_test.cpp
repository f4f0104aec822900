// Clusters whose ranks pack their stores: one decision, one instant, and all reads as before. The tests are run with
// stores that ranks of a node share, and with stores of one rank each; shared_compaction_test.cpp is about the former.
#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <map>
#include <thread>

#include "support/ranks.hpp"

namespace icecore::testing {
namespace {

using ::testing::HasSubstr;

class Compaction : public ClusterTest {
 protected:
  [[nodiscard]] std::filesystem::path folder() const { return path().parent_path() / "checkpoint"; }
  [[nodiscard]] std::filesystem::path other() const { return path().parent_path() / "other"; }
  [[nodiscard]] std::filesystem::path pool(int of) const { return path() / ("rank-" + std::to_string(of) + ".ice"); }

  /// Versions 1 to 4, of which 2 and 4 have names; each rank writes to whichever rank owns its keys.
  static void fill(cluster& c) {
    const auto mine = [&](int i) { return "r" + std::to_string(c.rank()) + "/" + std::to_string(i); };
    for (version v = 1; v <= 4; ++v) {
      for (int i = 0; i < 40; i += static_cast<int>(v)) {
        c.insert(mine(i), std::to_string(v) + std::string(static_cast<std::size_t>(i) * 50, 'x'));
      }
      if (v == 3) c.remove(mine(7));
      v % 2 == 0 ? c.tag("v" + std::to_string(v), "note") : c.tag();
    }
    c.barrier();
  }
  using content = std::map<std::string, std::string>;
  static content at(const cluster& c, version v) {
    content all;
    for (const auto& [key, value] : c.at(v).range()) all.emplace(key, value);
    return all;
  }
  static std::map<std::string, std::vector<versioned_value>> histories(const cluster& c, version newest) {
    std::map<std::string, std::vector<versioned_value>> all;
    for (const auto& [key, value] : c.at(newest).range()) all.emplace(key, c.history(key));
    return all;
  }
  static void expect_expired(const cluster& c, version v) {
    const std::string key = key_of(c, c.size() - 1);
    const std::vector<std::string_view> keys = {key};
    EXPECT_EQ(error_of([&] { static_cast<void>(c.at(v)); }).code, errc::version_expired) << v;
    EXPECT_EQ(error_of([&] { static_cast<void>(c.find(key, v)); }).code, errc::version_expired) << v;
    EXPECT_EQ(error_of([&] { static_cast<void>(c.contains(key, v)); }).code, errc::version_expired) << v;
    EXPECT_EQ(error_of([&] { static_cast<void>(c.find_many(keys, v)); }).code, errc::version_expired) << v;
    EXPECT_THAT(error_of([&] { static_cast<void>(c.at(v)); }).message, HasSubstr("has expired: a compaction gave up"));
  }
};

TEST_F(Compaction, every_version_shows_what_it_did_and_the_report_has_the_sums) {
  cluster c(MPI_COMM_WORLD, path());
  fill(c);
  std::vector<content> before;
  for (version v = 1; v <= 4; ++v) before.push_back(at(c, v));
  const auto history = histories(c, 4);
  const cluster_snapshot open_before = c.at(2);
  const compaction_report told = c.compact({.dry_run = true, .on_progress = {}});
  EXPECT_FALSE(told.packed);
  bool told_progress = false;
  const compaction_report done = c.compact({.on_progress = [&](const progress&) { told_progress = true; }});
  EXPECT_TRUE(done.packed);
  EXPECT_TRUE(told_progress);
  EXPECT_EQ(done.keys, 40U * static_cast<unsigned>(ranks()));
  EXPECT_EQ(done.strata, static_cast<std::uint64_t>(ranks()));
  EXPECT_EQ(done.records, told.records);
  EXPECT_EQ(done.up_to, 4U);
  EXPECT_EQ(done.versions_expired, 0U);
  EXPECT_GT(done.bytes_before, 0U);
  for (version v = 1; v <= 4; ++v) EXPECT_EQ(at(c, v), before[v - 1]) << v;
  EXPECT_EQ(histories(c, 4), history);
  content from_before;
  for (const auto& [key, value] : open_before.range()) from_before.emplace(key, value);
  EXPECT_EQ(from_before, before[1]);
  c.barrier();  // who waits in MPI itself answers no other rank
  EXPECT_EQ(c.clock(), of_rank_0(c.clock()));
  EXPECT_FALSE(c.compact().packed);  // there is nothing new
  c.insert(key_of(c, 0, rank()), "later");
  EXPECT_TRUE(c.compact({.whole = true, .compression = compression::zstd, .on_progress = {}}).packed);
  EXPECT_EQ(at(c, 2), before[1]);
  EXPECT_EQ(c.find(key_of(c, 0, (rank() + 1) % ranks())), "later");
  EXPECT_TRUE(c.local().verify().ok());
  c.close();
  cluster again(MPI_COMM_WORLD, path());
  for (version v = 1; v <= 4; ++v) EXPECT_EQ(at(again, v), before[v - 1]) << v;
  again.close();
}

TEST_F(Compaction, each_version_is_one_cut_while_ranks_write) {
  cluster c(MPI_COMM_WORLD, path(), small_buffers(consistency::sequential));
  fill(c);
  const bool beside = c.has_progress_thread();
  std::atomic<bool> stop{false};
  const std::string first = key_of(c, (rank() + 1) % ranks(), 1000 + rank());
  const std::string second = key_of(c, rank(), 2000 + rank());
  const auto write = [&] {
    for (int i = 100; i < (beside ? 3000 : 150) && !stop.load(); ++i) {  // as many digits: texts compare as numbers
      c.insert(first, std::to_string(10'000 + i));
      c.insert(second, std::to_string(10'000 + i));
    }
  };
  std::thread writer;
  beside ? static_cast<void>(writer = std::thread(write)) : write();
  const version from = c.clock();
  for (int n = 0; n < 4; ++n) c.compact({.threads = 1, .on_progress = {}});
  stop.store(true);
  if (beside) writer.join();
  const version last = c.tag();
  for (version v = from; v <= last; ++v) {
    // the second write began when the first had returned: who shows it, shows the first
    EXPECT_LE(c.find(second, v).value_or(""), c.find(first, v).value_or("")) << "version " << v;
  }
  EXPECT_EQ(c.find(second, last), c.find(first, last));
  c.barrier();  // as above
  EXPECT_EQ(c.clock(), of_rank_0(c.clock()));
  c.close();
}

TEST_F(Compaction, a_version_expires_on_all_ranks_or_on_none) {
  cluster c(MPI_COMM_WORLD, path());
  fill(c);
  c.set_retention({.tagged = true});
  EXPECT_EQ(c.retention(), (retention{.tagged = true}));
  const content second = at(c, 2);
  const content fourth = at(c, 4);
  const compaction_report done = c.compact();
  EXPECT_EQ(done.versions_expired, 2U);
  EXPECT_GT(done.records_dropped, 0U);
  const auto expect_rest = [&](const cluster& of) {
    for (const version v : {version{1}, version{3}}) expect_expired(of, v);
    EXPECT_EQ(at(of, 2), second);
    EXPECT_EQ(at(of, 4), fourth);
    EXPECT_TRUE(of.local().is_expired(1));  // also where there are no tags
    EXPECT_FALSE(of.local().is_expired(2));
    EXPECT_EQ(of.tags().size(), 2U);
  };
  expect_rest(c);
  c.close();
  cluster again(MPI_COMM_WORLD, path());
  expect_rest(again);
  EXPECT_EQ(again.retention(), (retention{.tagged = true}));
  again.close();
}

TEST_F(Compaction, what_expired_in_the_store_of_one_rank_is_expired_for_all) {
  {
    cluster c(MPI_COMM_WORLD, path());
    fill(c);
    c.close();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const int last = ranks() - 1;
  if (rank() == last) {  // packed alone, by a rule of its own
    store alone(pool(last));
    const version_range gone[] = {{1, 2}};
    alone.expire(gone);
    alone.close();
    EXPECT_TRUE(icecore::compact(pool(last)).packed);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  cluster c(MPI_COMM_WORLD, path());
  expect_expired(c, 1);
  EXPECT_FALSE(at(c, 2).empty());
  c.compact();
  EXPECT_TRUE(c.local().is_expired(1));
  c.close();
}

TEST_F(Compaction, a_packed_cluster_is_restored_on_any_ranks_with_what_expired) {
  cluster c(MPI_COMM_WORLD, path());
  fill(c);
  c.set_retention({.tagged = true});
  static_cast<void>(c.compact({.compression = compression::zstd, .on_progress = {}}));
  c.insert(key_of(c, (rank() + 1) % ranks(), rank()), "behind what is packed");
  const version newest = c.tag("newest");
  const content second = at(c, 2);
  const content last = at(c, newest);
  c.checkpoint(folder()).wait();
  MPI_Barrier(MPI_COMM_WORLD);
  c.close();
  const auto expect_all = [&](const cluster& restored) {
    expect_expired(restored, 1);
    expect_expired(restored, 3);
    EXPECT_EQ(at(restored, 2), second);
    EXPECT_EQ(at(restored, newest), last);
    EXPECT_EQ(restored.tags().size(), 3U);
    EXPECT_TRUE(restored.local().verify().ok());
  };
  for (const bool redistributes : {false, true}) {
    cluster same =
        cluster::restore(MPI_COMM_WORLD, {folder(), redistributes}, other() / (redistributes ? "moved" : "copied"));
    expect_all(same);
    EXPECT_EQ(same.retention(), (retention{.tagged = true}));
    same.close();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  cluster alone = cluster::restore(MPI_COMM_SELF, {folder()}, other() / ("alone-" + std::to_string(rank())));
  expect_all(alone);
  alone.close();
}

TEST_F(Compaction, the_rule_of_another_ranks_store_is_not_the_restored_clusters) {
  cluster(MPI_COMM_WORLD, path()).close();
  MPI_Barrier(MPI_COMM_WORLD);
  const int last = ranks() - 1;
  if (rank() == last && last != 0 && std::filesystem::exists(pool(last))) {
    store(pool(last)).set_retention({.newest = 1});
  }
  MPI_Barrier(MPI_COMM_WORLD);
  cluster c(MPI_COMM_WORLD, path());
  fill(c);
  c.checkpoint(folder()).wait();
  MPI_Barrier(MPI_COMM_WORLD);
  c.close();
  cluster moved = cluster::restore(MPI_COMM_WORLD, {folder(), true}, other() / "moved");
  EXPECT_TRUE(moved.retention().keeps_all());
  moved.close();
}

TEST_F(Compaction, what_a_query_of_a_rank_reads_stays_on_all) {
  cluster c(MPI_COMM_WORLD, path());
  fill(c);
  static_cast<void>(c.start({.name = "third", .at = 3}));
  c.set_retention({.newest = 1});
  EXPECT_EQ(c.compact().versions_expired, 2U);  // 1 and 2, but not 3
  expect_expired(c, 1);
  EXPECT_FALSE(at(c, 3).empty());
  EXPECT_FALSE(c.local().is_expired(3));
  c.drop_query("third");
  EXPECT_EQ(c.compact().versions_expired, 1U);
  expect_expired(c, 3);
  c.close();
}

TEST_F(Compaction, a_held_version_stays_on_all_ranks_until_it_is_released) {
  cluster c(MPI_COMM_WORLD, path());
  fill(c);
  EXPECT_EQ(c.hold_version("third", 3), 3U);
  c.insert(key_of(c, (rank() + 1) % ranks(), rank()), "open");
  const version now = c.hold_version("now");
  EXPECT_EQ(now, 5U);
  const content third = at(c, 3);
  const content fifth = at(c, 5);
  c.insert(key_of(c, (rank() + 1) % ranks(), rank()), "later");
  EXPECT_EQ(c.tag(), 6U) << "all ranks are at one version";
  EXPECT_EQ(error_of([&] { c.hold_version("third", 2); }).code, errc::query_exists);
  EXPECT_EQ(error_of([&] { c.hold_version("open", 99); }).code, errc::version_not_closed);
  EXPECT_EQ(error_of([&] { c.release_version("none"); }).code, errc::no_such_query);
  if (ranks() > 1) {
    EXPECT_EQ(error_of([&] { c.hold_version("differs", rank() == 0 ? 1 : 2); }).code, errc::invalid_argument);
  }
  c.set_retention({.newest = 1});
  EXPECT_EQ(c.compact().versions_expired, 3U);
  EXPECT_EQ(error_of([&] { c.hold_version("first", 1); }).code, errc::version_expired);
  const auto expect_held = [&](const cluster& of) {
    expect_expired(of, 2);
    expect_expired(of, 4);
    EXPECT_EQ(at(of, 3), third);
    EXPECT_EQ(at(of, 5), fifth);
    ASSERT_EQ(of.held_versions().size(), 2U);
    EXPECT_EQ(of.held_versions()[0].name, "third");
    EXPECT_EQ(of.held_versions()[1].version, 5U);
  };
  expect_held(c);
  c.checkpoint(folder()).wait();
  MPI_Barrier(MPI_COMM_WORLD);
  c.close();
  for (const bool redistributes : {false, true}) {
    cluster same =
        cluster::restore(MPI_COMM_WORLD, {folder(), redistributes}, other() / (redistributes ? "moved" : "copied"));
    expect_held(same);
    static_cast<void>(same.compact({.whole = true, .on_progress = {}}));
    expect_held(same);
    same.close();
  }
  cluster again(MPI_COMM_WORLD, path());
  expect_held(again);
  again.release_version("third");
  EXPECT_EQ(again.compact().versions_expired, 1U);
  expect_expired(again, 3);
  EXPECT_EQ(again.held_versions().size(), 1U);
  again.close();
}

TEST_F(Compaction, a_hold_that_a_crash_left_on_some_ranks_is_in_nobodys_way) {
  cluster(MPI_COMM_WORLD, path()).close();
  MPI_Barrier(MPI_COMM_WORLD);
  {
    cluster c(MPI_COMM_WORLD, path());
    fill(c);
    c.close();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const int last = ranks() - 1;
  if (rank() == last) {
    store alone(pool(last));
    alone.hold_version("left", 2);
    alone.hold_version("more", 1);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  cluster c(MPI_COMM_WORLD, path());
  c.release_version("more");
  if (ranks() > 1) {
    EXPECT_EQ(c.hold_version("left", 3), 3U);
    ASSERT_EQ(c.held_versions().size(), 1U);
    EXPECT_EQ(c.held_versions().front().version, 3U);
  }
  c.release_version("left");
  EXPECT_TRUE(c.held_versions().empty());
  c.close();
}

TEST_F(Compaction, the_ranks_pack_only_if_versions_expire_if_told_to) {
  const compaction_options if_expiring{.only_if_expiring = true, .on_progress = {}};
  cluster c(MPI_COMM_WORLD, path());
  fill(c);
  EXPECT_FALSE(c.compact(if_expiring).packed);
  EXPECT_EQ(c.local().stats().strata, 0U);
  c.hold_version("one", 1);
  c.hold_version("two", 2);
  c.set_retention({.newest = 1});
  const compaction_options counts{.dry_run = true, .only_if_expiring = true, .on_progress = {}};
  EXPECT_EQ(c.compact(counts).versions_expired, 1U);
  const content fourth = at(c, 4);
  const compaction_report done = c.compact(if_expiring);
  EXPECT_TRUE(done.packed);
  EXPECT_EQ(done.versions_expired, 1U);
  EXPECT_FALSE(c.compact(if_expiring).packed);
  EXPECT_EQ(at(c, 4), fourth);
  if (ranks() > 1) {
    const compaction_options differs{.only_if_expiring = rank() == 0, .on_progress = {}};
    EXPECT_EQ(error_of([&] { static_cast<void>(c.compact(differs)); }).code, errc::invalid_argument);
  }
  c.close();
}

TEST_F(Compaction, the_error_of_one_rank_is_thrown_on_all_and_the_next_call_does_the_rest) {
  cluster c(MPI_COMM_WORLD, path());
  fill(c);
  const int failing = ranks() - 1;
  for (int i = 0; i < 50; ++i) c.insert(key_of(c, failing, i), "value");
  c.tag();
  const content before = at(c, 2);
  const thrown failed = error_of([&] {
    c.compact({.on_progress = [&](const progress&) {
      if (rank() == failing) throw error(errc::no_space, "this rank can go on no longer");
    }});
  });
  EXPECT_EQ(failed.code, errc::no_space);
  EXPECT_THAT(failed.message, HasSubstr("this rank can go on no longer"));
  const std::string whose = rank() == failing ? "" : "rank " + std::to_string(failing) + ": ";
  EXPECT_THAT(failed.message, HasSubstr(whose));
  EXPECT_EQ(at(c, 2), before);
  EXPECT_TRUE(c.compact().packed);
  EXPECT_EQ(at(c, 2), before);
  const version closed = c.tag();
  EXPECT_EQ(closed, of_rank_0(closed));
  c.close();
}

/// Packs until nothing is left of what was to go: on a busy machine a rank may look at it for longer than others wait.
bool is_erased(cluster& c) {
  constexpr int tries = 50;
  for (int n = 0; n < tries; ++n) {
    if (c.compact().erased) return true;  // the same on all ranks
  }
  return false;
}

/// Whether a store's file has these bytes somewhere.
bool has_bytes(const std::filesystem::path& file, std::string_view sought) {
  std::ifstream in(file, std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return all.find(sought) != std::string::npos;
}

TEST_F(Compaction, what_all_ranks_forget_is_in_no_file_of_any) {
  cluster c(MPI_COMM_WORLD, path());
  fill(c);
  const std::string secret = "the secret of rank ";
  const std::string mine = secret + std::to_string(rank());
  for (int r = 0; r < ranks(); ++r) {
    c.insert("user/" + std::to_string(r) + "/" + std::to_string(rank()), mine);
    c.insert("other/" + std::to_string(r) + "/" + std::to_string(rank()), mine);
  }
  c.insert("stays/" + std::to_string(rank()), "what is not secret");
  const version before = c.tag("before");
  // the owners have not made these writes yet
  for (int r = 0; r < ranks(); ++r) c.insert(key_of(c, r, rank()), mine);
  std::vector<std::string> others;
  for (int r = 0; r < ranks() * ranks(); ++r) {
    others.push_back("other/" + std::to_string(r % ranks()) + "/" + std::to_string(r / ranks()));
    others.push_back(key_of(c, r % ranks(), r / ranks()));
  }
  const forget_report done = c.forget({.keys = others, .prefixes = {"user/"}, .note = "case 4711"});
  const auto each = static_cast<std::uint64_t>(ranks());
  EXPECT_EQ(done.keys, 3 * each * each);
  EXPECT_EQ(done.up_to, before + 1);
  EXPECT_EQ(done.tag, "forgotten-1");
  EXPECT_EQ(c.clock(), of_rank_0(c.clock()));
  const auto tag = c.find_tag("forgotten-1");
  ASSERT_TRUE(tag);
  EXPECT_EQ(tag->version, before + 2) << "that of what the keys showed was closed before they were removed";
  EXPECT_EQ(tag->note, std::to_string(done.keys) + " keys: case 4711");
  EXPECT_EQ(c.find("user/0/0"), std::nullopt);
  for (int r = 0; r < ranks(); ++r) EXPECT_EQ(c.find(key_of(c, r, rank())), std::nullopt);
  EXPECT_EQ(c.find("other/0/0"), std::nullopt);
  EXPECT_EQ(c.find("user/0/0", before), secret + "0");  // as long as nothing is packed
  EXPECT_TRUE(has_bytes(pool(c.owner_of("user/0/0")), secret));
  c.barrier();
  c.insert("user/0/" + std::to_string(rank()), "written later");
  c.tag();
  EXPECT_EQ(c.forget({.keys = {"never there"}, .tag = false}).tag, "");
  EXPECT_EQ(c.forget({.keys = {"stays/" + std::to_string(ranks() + 1)}}).tag, "forgotten-2");

  EXPECT_TRUE(is_erased(c));
  EXPECT_FALSE(has_bytes(pool(rank()), secret));
  c.barrier();  // who waits in MPI itself answers no other rank
  EXPECT_EQ(c.find("user/0/0", before), std::nullopt);
  c.close();
  MPI_Barrier(MPI_COMM_WORLD);
  cluster again(MPI_COMM_WORLD, path());
  EXPECT_EQ(again.find("user/0/0", before), std::nullopt);
  EXPECT_EQ(again.find("other/0/0", before), std::nullopt);
  EXPECT_EQ(again.find("user/0/0"), "written later");
  EXPECT_EQ(again.find("stays/0"), "what is not secret");
  EXPECT_EQ(again.find_tag("forgotten-1")->version, before + 2);
  again.close();
}

TEST_F(Compaction, ranks_forget_together_or_not_at_all) {
  cluster c(MPI_COMM_WORLD, path());
  fill(c);
  const version open = c.clock();
  const thrown nothing = error_of([&] { c.forget({}); });
  EXPECT_EQ(nothing.code, errc::invalid_argument);
  EXPECT_THAT(nothing.message, HasSubstr("no key and no prefix is named"));
  if (ranks() > 1) {
    const thrown different = error_of([&] { c.forget({.keys = {rank() == 0 ? "a" : "b"}}); });
    EXPECT_EQ(different.code, errc::invalid_argument);
    EXPECT_THAT(different.message, HasSubstr("the ranks forget different keys"));
  }
  c.protect(protection::read_only);
  EXPECT_EQ(error_of([&] { c.forget({.prefixes = {"r"}}); }).code, errc::protection);
  c.protect(protection::read_write);
  EXPECT_EQ(c.clock(), open);
  EXPECT_EQ(at(c, 4).size(), 39U * static_cast<unsigned>(ranks()));  // each rank removed a key
  EXPECT_EQ(c.find("r0/1"), c.find("r0/1", 4));
  c.close();
}

TEST_F(Compaction, ranks_must_ask_for_the_same) {
  cluster_options automatic;
  automatic.store.compaction = compaction_mode::automatic;
  const thrown alone = error_of([&] { cluster(MPI_COMM_WORLD, path(), automatic); });
  EXPECT_EQ(alone.code, errc::invalid_argument);
  EXPECT_THAT(alone.message, HasSubstr("call the cluster's compact()"));

  cluster c(MPI_COMM_WORLD, path());
  const thrown level = error_of([&] { c.compact({.compression_level = 20, .on_progress = {}}); });
  EXPECT_EQ(level.code, errc::invalid_argument);
  EXPECT_THAT(level.message, HasSubstr("compression_level is 20"));
  if (ranks() > 1) {
    const thrown compact = error_of([&] { c.compact({.whole = rank() == 0, .on_progress = {}}); });
    EXPECT_EQ(compact.code, errc::invalid_argument);
    EXPECT_THAT(compact.message, HasSubstr("compact with different options"));
    const thrown kept = error_of([&] { c.set_retention({.newest = rank() == 0 ? 1U : 2U}); });
    EXPECT_EQ(kept.code, errc::invalid_argument);
    EXPECT_THAT(kept.message, HasSubstr("different retentions"));
  }
  EXPECT_EQ(c.retention(), retention::all());
  c.close();
}

}  // namespace
}  // namespace icecore::testing
