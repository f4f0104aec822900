// Checkpoints and restores: all of an instant, on as many ranks as one likes, or nothing.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <map>

#include "support/ranks.hpp"

namespace icecore::testing {
namespace {

using ::testing::HasSubstr;

/// Where it is wanted, files of this process do not grow while it lives.
class no_larger_files {
 public:
  explicit no_larger_files(bool wanted) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit none{0, before_.rlim_max};
    if (wanted) setrlimit(RLIMIT_FSIZE, &none);
  }
  ~no_larger_files() { setrlimit(RLIMIT_FSIZE, &before_); }
  no_larger_files(const no_larger_files&) = delete;
  no_larger_files& operator=(const no_larger_files&) = delete;

 private:
  rlimit before_{};
};

class Checkpoint : public ClusterTest {
 protected:
  [[nodiscard]] std::filesystem::path folder() const { return path().parent_path() / "checkpoint"; }
  [[nodiscard]] std::filesystem::path other() const { return path().parent_path() / "other"; }

  /// Three versions, two of them named; each rank writes keys of its own to whichever rank owns them.
  static void fill(cluster& c) {
    const auto mine = [&](int i) { return "r" + std::to_string(c.rank()) + "/" + std::to_string(i); };
    for (int i = 0; i < 100; ++i) c.insert(mine(i), "one");
    c.tag("one", "first note");
    for (int i = 0; i < 100; i += 2) c.insert(mine(i), std::string(static_cast<std::size_t>(i) * 200, 'x'));
    c.insert("common", std::to_string(c.rank()));
    c.tag();
    c.barrier();
    for (int i = 0; i < 100; i += 5) c.remove(mine(i));
    if (c.rank() == 0) {
      batch absent;
      absent.remove("never there");
      absent.insert(key_of(c, c.owner_of("never there"), 1), "of a batch");
      c.apply(absent);
    }
    c.tag({"three", "third note", 3});
    c.barrier();
  }
  /// Everything that can be read, on each rank.
  using past = std::map<std::string, std::vector<versioned_value>>;
  static past everything(const cluster& c) {
    past all;
    for (version v = 1; v < c.clock(); ++v) {
      for (const auto& [key, value] : c.at(v).range()) all.try_emplace(std::string(key));
    }
    for (auto& [key, records] : all) records = c.history(key);
    return all;
  }
  static void expect_same(const cluster& c, const past& all, version clock) {
    EXPECT_EQ(c.clock(), clock);
    EXPECT_EQ(everything(c), all);
    ASSERT_EQ(c.tags().size(), 2U);
    EXPECT_EQ(c.tags()[0].name, "one");
    EXPECT_EQ(c.tags()[0].note, "first note");
    EXPECT_EQ(c.tags()[1].name, "three");
    EXPECT_EQ(c.tags()[1].time_ns, 3);
    EXPECT_TRUE(c.local().verify().ok());
    for (const std::string_view key : c.local().keys()) EXPECT_EQ(c.owner_of(key), c.rank());
  }
  /// A communicator of the first `count` ranks; MPI_COMM_NULL on the others.
  [[nodiscard]] static MPI_Comm first_ranks(int count) {
    MPI_Comm some = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank() < count ? 0 : MPI_UNDEFINED, rank(), &some);
    return some;
  }
  void make(const cluster_options& opening = {}) {
    cluster c(MPI_COMM_WORLD, path(), opening);
    fill(c);
    all_ = everything(c);
    clock_ = c.clock();
    c.checkpoint(folder()).wait();
    MPI_Barrier(MPI_COMM_WORLD);  // the ranks wait for a checkpoint that is complete, not for each other
    c.close();
  }

  /// Versions 2 and 3 are lost, whoever is asked for which key; all others are as they were.
  static void expect_lost(const cluster& c, const std::string& key) {
    for (const version v : {version{2}, version{3}}) {
      EXPECT_EQ(error_of([&] { static_cast<void>(c.at(v)); }).code, errc::version_lost) << v;
      EXPECT_EQ(error_of([&] { static_cast<void>(c.find(key, v)); }).code, errc::version_lost) << v;
      EXPECT_EQ(error_of([&] { static_cast<void>(c.contains(key, v)); }).code, errc::version_lost) << v;
      const std::vector<std::string_view> keys = {key};
      EXPECT_EQ(error_of([&] { static_cast<void>(c.find_many(keys, v)); }).code, errc::version_lost) << v;
    }
    const thrown by_name = error_of([&] { static_cast<void>(c.at("three")); });
    EXPECT_EQ(by_name.code, errc::version_lost);
    EXPECT_THAT(by_name.message, HasSubstr("version 3 is lost: on at least one rank"));
    EXPECT_EQ(c.find(key, 1), "1");
    EXPECT_EQ(c.find(key, 4), "4");
    EXPECT_EQ(c.history(key).size(), 4U);
  }
  static void lose(const std::filesystem::path& pool, version lost) {
    version_ranges one;
    one.add({lost, lost + 1});
    store part(pool);
    part.lose(one);
    part.close();
  }

  /// A checkpoint that has failed, because this rank may write no file.
  [[nodiscard]] checkpoint_event fail_on(int failing, cluster& c) const {
    c.barrier();  // what the others have staged is in the store, which cannot grow then
    const no_larger_files while_it_is_written(rank() == failing);
    const checkpoint_event begun = c.checkpoint(folder());
    while (!begun.done()) c.fence();
    return begun;
  }

  past all_;
  version clock_ = 0;
};

TEST_F(Checkpoint, versions_that_a_power_cut_took_on_some_rank_are_lost_on_all_and_in_what_is_restored) {
  std::string key;
  {
    cluster c(MPI_COMM_WORLD, path());
    key = key_of(c, (rank() + 1) % ranks(), rank());
    for (version v = 1; v <= 4; ++v) {
      c.insert(key, std::to_string(v));
      v == 3 ? c.tag("three") : c.tag();
    }
    c.close();
  }
  // as recovery leaves the pools: different versions are lost on different ranks
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank() == 0) lose(path() / "rank-0.ice", 2);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank() == ranks() - 1) lose(path() / ("rank-" + std::to_string(rank()) + ".ice"), 3);
  MPI_Barrier(MPI_COMM_WORLD);
  {
    cluster_options reading;
    reading.store.access = access::read_only;
    cluster c(MPI_COMM_WORLD, path(), reading);
    expect_lost(c, key);
    c.close();
  }
  {
    cluster c(MPI_COMM_WORLD, path());
    expect_lost(c, key);
    EXPECT_TRUE(c.local().lost_versions().contains(2));
    EXPECT_TRUE(c.local().lost_versions().contains(3));
    c.checkpoint(folder()).wait();
    MPI_Barrier(MPI_COMM_WORLD);
    c.close();
  }
  for (const bool redistribute : {false, true}) {
    SCOPED_TRACE(redistribute);
    cluster c = cluster::restore(MPI_COMM_WORLD, {folder(), redistribute}, other() / std::to_string(redistribute));
    expect_lost(c, key);
    EXPECT_TRUE(c.local().lost_versions().contains(2));
    EXPECT_TRUE(c.local().lost_versions().contains(3));
    c.close();
  }
}

TEST_F(Checkpoint, is_restored_with_every_version_and_tag) {
  make();
  cluster c = cluster::restore(MPI_COMM_WORLD, {folder()}, other());
  expect_same(c, all_, clock_);
  c.insert("goes on", "1");
  const version v = c.tag("goes on");
  c.barrier();
  EXPECT_EQ(c.find("goes on", v), "1");
  c.close();
  cluster again(MPI_COMM_WORLD, other());
  EXPECT_EQ(again.at("goes on").find("goes on"), "1");
  EXPECT_EQ(again.at("three").find("common"), again.find("common"));
  again.close();
}

TEST_F(Checkpoint, is_redistributed_to_other_numbers_of_ranks) {
  make();
  for (int count = 1; count < ranks(); count += 1 + count / 2) {
    MPI_Comm some = first_ranks(count);
    if (some == MPI_COMM_NULL) continue;
    cluster c = cluster::restore(some, {folder()}, other() / std::to_string(count));
    expect_same(c, all_, clock_);
    c.close();
    MPI_Comm_free(&some);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_F(Checkpoint, is_as_good_as_the_closed_stores_of_all_ranks) {
  make();
  checkpoint_source from;
  for (int r = 0; r < ranks(); ++r) from.stores.push_back(path() / ("rank-" + std::to_string(r) + ".ice"));
  for (int count = 1; count <= ranks(); count += 1 + count / 2) {
    MPI_Comm some = first_ranks(count);
    if (some == MPI_COMM_NULL) continue;
    cluster c = cluster::restore(some, from, other() / std::to_string(count));
    expect_same(c, all_, clock_);
    c.close();
    MPI_Comm_free(&some);
  }
  from.stores.push_back(path() / "no such store");
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(error_of([&] { static_cast<void>(cluster::restore(MPI_COMM_WORLD, from, other() / "never")); }).code,
            errc::no_such_store);
  from.stores.assign(1, path() / ("rank-" + std::to_string(rank()) + ".ice"));
  if (ranks() > 1) {
    const auto why = error_of([&] { static_cast<void>(cluster::restore(MPI_COMM_WORLD, from, other() / "never")); });
    EXPECT_EQ(why.code, errc::other_cluster) << "the ranks were told different ones";
    EXPECT_NE(why.message.find(from.stores.front().native()), std::string::npos) << why.message;
  }
}

TEST_F(Checkpoint, of_few_ranks_is_redistributed_to_more) {
  const int few = (ranks() + 1) / 2;
  MPI_Comm some = first_ranks(few);
  if (some != MPI_COMM_NULL) {
    cluster c(some, path());
    fill(c);
    all_ = everything(c);
    clock_ = c.clock();
    c.checkpoint(folder()).wait();
    c.close();
    MPI_Comm_free(&some);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  cluster c = cluster::restore(MPI_COMM_WORLD, {folder()}, other());
  clock_ = of_rank_0(clock_);
  EXPECT_EQ(c.clock(), clock_);
  const past found = everything(c);
  if (rank() < few) {
    expect_same(c, all_, clock_);
  }
  EXPECT_GT(found.size(), 50U);
  c.close();
}

TEST_F(Checkpoint, is_redistributed_where_that_is_asked_for_or_the_ownership_is_another) {
  make();
  {
    cluster c = cluster::restore(MPI_COMM_WORLD, {folder(), true}, other() / "asked");
    expect_same(c, all_, clock_);
    c.close();
  }
  {
    std::vector<std::string> splits;
    for (int r = 1; r < ranks(); ++r) splits.push_back("r" + std::to_string(r));
    cluster_options ranges;
    ranges.ownership = ownership::by_ranges(splits);
    cluster c = cluster::restore(MPI_COMM_WORLD, {folder()}, other() / "ranges", ranges);
    expect_same(c, all_, clock_);
    c.close();
  }
}

TEST_F(Checkpoint, of_a_function_that_is_not_the_one_of_its_name_is_redistributed) {
  const auto by = [](int more) {
    cluster_options o;
    o.ownership = ownership::by_function(
        "mine", [more](std::string_view key, int n) { return (static_cast<int>(key.size()) + more) % n; });
    return o;
  };
  make(by(0));
  for (const int more : {0, 1}) {
    cluster c = cluster::restore(MPI_COMM_WORLD, {folder()}, other() / std::to_string(more), by(more));
    expect_same(c, all_, clock_);
    c.close();
  }
}

TEST_F(Checkpoint, is_redistributed_in_rounds_where_it_is_large) {
  constexpr std::size_t total = std::size_t{80} << 20;
  constexpr std::size_t value_size = 200'000;
  const std::size_t each = total / value_size / static_cast<std::size_t>(ranks());
  const auto key = [](std::size_t i) { return std::to_string(rank()) + "/" + std::to_string(i); };
  // rank 0 needs many rounds, the others few: none may run ahead
  const auto value = [](std::size_t i, int version) {
    return std::string(rank() == 0 ? value_size : 1000,
                       static_cast<char>('a' + (i + static_cast<std::size_t>(version)) % 26));
  };
  // versions of few records, and one of more than goes into a round
  const std::vector<std::size_t> parts = {10, 10, 10, 1, 2};
  cluster_options of_writer;  // the file of rank 0 is large
  of_writer.ownership = ownership::by_function(
      "writer", [](std::string_view k, int n) { return std::stoi(std::string(k.substr(0, k.find('/')))) % n; });
  cluster c(MPI_COMM_WORLD, path(), of_writer);
  std::vector<version> tags;
  std::size_t first = 0;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const std::size_t end = part + 1 == parts.size() ? each : first + each / parts[part];
    for (std::size_t i = first; i < end; ++i) c.insert(key(i), value(i, static_cast<int>(part)));
    for (std::size_t i = 0; i < first; i += 7) c.remove(key(i));
    first = end;
    tags.push_back(c.tag("part " + std::to_string(part)));
  }
  const auto digest = [&](const cluster& of, version v) {
    std::size_t sum = 0;
    for (const auto& [k, found] : of.at(v).range()) sum = sum * 31 + std::hash<std::string_view>{}(found) + k.size();
    return sum;
  };
  std::vector<std::size_t> digests;
  for (const version v : tags) digests.push_back(digest(c, v));
  c.checkpoint(folder()).wait();
  c.close();
  cluster restored = cluster::restore(MPI_COMM_WORLD, {folder()}, other());
  for (std::size_t part = 0; part < parts.size(); ++part) {
    EXPECT_EQ(digest(restored, tags[part]), digests[part]) << "version " << tags[part];
    EXPECT_EQ(restored.find_tag("part " + std::to_string(part))->version, tags[part]);
  }
  restored.close();
}

TEST_F(Checkpoint, has_nothing_that_is_written_after_its_call) {
  cluster c(MPI_COMM_WORLD, path(), small_buffers());
  const auto mine = [](int i) { return std::to_string(rank()) + "/" + std::to_string(i); };
  for (int i = 0; i < 300; ++i) c.insert(mine(i), "before");
  const checkpoint_event writing = c.checkpoint(folder());
  for (int i = 0; i < 600; ++i) c.insert(mine(i), "after");
  writing.wait();
  EXPECT_TRUE(writing.done());
  EXPECT_EQ(writing.progress().done, writing.progress().total);
  c.close();
  cluster restored = cluster::restore(MPI_COMM_WORLD, {folder()}, other());
  for (int i = 0; i < 600; ++i) {
    const auto found = restored.find(mine(i));
    ASSERT_EQ(found, i < 300 ? std::optional<std::string>("before") : std::nullopt) << "staged writes are in it";
  }
  restored.close();
}

TEST_F(Checkpoint, replaces_the_one_before_when_it_is_complete) {
  cluster c(MPI_COMM_WORLD, path());
  for (int round = 0; round < 3; ++round) {
    c.insert(std::to_string(rank()), std::to_string(round));
    const checkpoint_event first = c.checkpoint(folder());
    c.insert(std::to_string(rank()), std::to_string(round) + "!");
    if (round == 1) static_cast<void>(c.checkpoint(folder()));  // nobody waits for this one
    first.wait();
  }
  c.close();
  int files = 0;
  if (rank() == 0) {
    for (const auto& each : std::filesystem::directory_iterator(folder())) files += each.is_regular_file() ? 1 : 0;
    EXPECT_EQ(files, ranks() + 1) << "those of one checkpoint, and its manifest";
  }
  MPI_Barrier(MPI_COMM_WORLD);
  cluster restored = cluster::restore(MPI_COMM_WORLD, {folder()}, other());
  EXPECT_EQ(restored.find(std::to_string(rank())), "2");
  restored.close();
}

TEST_F(Checkpoint, that_one_rank_cannot_write_is_reported_to_all_and_leaves_the_one_before) {
  cluster c(MPI_COMM_WORLD, path());
  c.insert(std::to_string(rank()), "whole");
  c.checkpoint(folder()).wait();
  c.insert(std::to_string(rank()), "more");
  MPI_Barrier(MPI_COMM_WORLD);
  const int last = ranks() - 1;
  const checkpoint_event doomed = fail_on(last, c);
  const thrown reported = error_of([&] { doomed.wait(); });
  EXPECT_EQ(reported.code, errc::no_space) << reported.message;
  EXPECT_THAT(reported.message, HasSubstr("rank " + std::to_string(last)));
  EXPECT_EQ(c.find(std::to_string(rank())), "more") << "the cluster itself is well";
  c.close();
  cluster restored = cluster::restore(MPI_COMM_WORLD, {folder()}, other());
  EXPECT_EQ(restored.find(std::to_string(rank())), "whole");
  restored.close();
}

TEST_F(Checkpoint, that_failed_while_nobody_waited_is_reported_by_close) {
  cluster c(MPI_COMM_WORLD, path());
  c.insert(std::to_string(rank()), "value");
  static_cast<void>(fail_on(0, c));
  c.checkpoint(folder()).wait();  // one that succeeds does not hide it
  const thrown reported = error_of([&] { c.close(); });
  EXPECT_EQ(reported.code, errc::no_space) << reported.message;
  cluster restored = cluster::restore(MPI_COMM_WORLD, {folder()}, other());
  EXPECT_EQ(restored.find(std::to_string(rank())), "value");
  restored.close();
}

TEST_F(Checkpoint, is_written_to_a_folder_by_one_job_at_a_time) {
  cluster c(MPI_COMM_WORLD, path());
  c.insert(std::to_string(rank()), "value");
  int held = -1;
  if (rank() == 0) {
    std::filesystem::create_directories(folder());
    held = open(folder().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    flock(held, LOCK_EX);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const thrown reported = error_of([&] { static_cast<void>(c.checkpoint(folder())); });
  EXPECT_EQ(reported.code, errc::locked) << reported.message;
  if (held >= 0) ::close(held);
  MPI_Barrier(MPI_COMM_WORLD);
  // a folder is the same by whatever name
  const checkpoint_event first = c.checkpoint(folder() / "");
  const checkpoint_event second = c.checkpoint(folder() / ".." / folder().filename());
  first.wait();
  second.wait();
  c.close();
  cluster restored = cluster::restore(MPI_COMM_WORLD, {folder()}, other());
  EXPECT_EQ(restored.find(std::to_string(rank())), "value");
  restored.close();
}

TEST_F(Checkpoint, that_is_not_complete_is_refused) {
  make();
  const auto refused = [&](errc code, const std::string& part) {
    for (const bool redistribute : {false, true}) {
      MPI_Barrier(MPI_COMM_WORLD);
      const thrown reported = error_of([&] {
        static_cast<void>(cluster::restore(MPI_COMM_WORLD, {folder(), redistribute}, other()));
      });
      EXPECT_EQ(reported.code, code) << reported.message;
      EXPECT_THAT(reported.message, HasSubstr(part));
      MPI_Barrier(MPI_COMM_WORLD);
      EXPECT_TRUE(!std::filesystem::exists(other()) || std::filesystem::is_empty(other())) << "nothing is left";
      MPI_Barrier(MPI_COMM_WORLD);
    }
  };
  const auto on_rank_0 = [&](auto&& work) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank() == 0) work();
  };
  std::filesystem::path part;
  for (const auto& each : std::filesystem::directory_iterator(folder())) {
    const std::string name = each.path().filename();
    if (name.starts_with("rank-" + std::to_string(ranks() - 1) + ".")) part = each.path();
  }
  const auto aside = path().parent_path() / "aside";
  on_rank_0([&] { std::filesystem::rename(part, aside); });
  refused(errc::other_cluster, part.filename());
  on_rank_0([&] {
    std::filesystem::copy_file(aside, part);
    std::fstream file(part, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(65'536 + 64 + 40);  // the first record's key
    file.put('?');
  });
  refused(errc::damaged, part.filename().native() + ": damaged at byte");
  on_rank_0([&] {
    std::filesystem::copy_file(aside, part, std::filesystem::copy_options::overwrite_existing);
    std::fstream file(part, std::ios::in | std::ios::out | std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    file.seekp(static_cast<std::streamoff>(bytes.find(std::string(5000, 'x')) + 4000));
    file.put('?');
  });
  refused(errc::damaged, part.filename().native() + ": damaged at byte");
  on_rank_0([&] {
    std::filesystem::rename(aside, part);
    std::filesystem::rename(folder() / "checkpoint", aside);
  });
  refused(errc::other_cluster, "complete");
  on_rank_0([&] { std::filesystem::rename(aside, folder() / "checkpoint"); });
  MPI_Barrier(MPI_COMM_WORLD);
  cluster c = cluster::restore(MPI_COMM_WORLD, {folder()}, other());
  expect_same(c, all_, clock_);
  c.close();
}

TEST_F(Checkpoint, is_restored_only_where_nothing_is) {
  make();
  const thrown reported = error_of([&] { static_cast<void>(cluster::restore(MPI_COMM_WORLD, {folder()}, path())); });
  EXPECT_EQ(reported.code, errc::store_exists) << reported.message;
  // what a restore that was cut off has left is cleared away
  if (rank() == 0) {
    std::filesystem::create_directories(other());
    std::ofstream(other() / "restoring");
    std::ofstream(other() / "rank-0.ice") << "half";
  }
  MPI_Barrier(MPI_COMM_WORLD);
  cluster c = cluster::restore(MPI_COMM_WORLD, {folder()}, other());
  expect_same(c, all_, clock_);
  c.close();
}

TEST_F(Checkpoint, of_different_folders_is_an_error_on_all_ranks) {
  if (ranks() == 1) GTEST_SKIP() << "one rank names one folder";
  cluster c(MPI_COMM_WORLD, path());
  const thrown reported = error_of([&] { static_cast<void>(c.checkpoint(folder() / std::to_string(rank()))); });
  EXPECT_EQ(reported.code, errc::invalid_argument) << reported.message;
  c.insert("still", "there");
  c.close();
}

}  // namespace
}  // namespace icecore::testing
