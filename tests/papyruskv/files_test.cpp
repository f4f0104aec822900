// What becomes of files and folders: of a repository, of what else is in it, of what a program that ended left behind.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "icecore/cluster.hpp"
#include "support/repository.hpp"

namespace icecore::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Files = PapyrusTest;

/// Makes an empty file, at rank 0.
void touch(const fs::path& file) {
  if (rank() == 0) std::ofstream(file).put('x');
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_F(Files, destroying_the_repository_leaves_checkpoints_and_what_others_keep_there) {
  const int db = open("db");
  put(db, key_of(next(), rank()), "kept");
  const std::string checkpoint = (path() / "checkpoints").string();
  ASSERT_EQ(papyruskv_checkpoint(db, checkpoint.c_str(), nullptr), PAPYRUSKV_OK) << papyruskv_error_message();
  ASSERT_EQ(papyruskv_finalize(), PAPYRUSKV_OK);
  const char* const others[] = {"rank-notes.txt", "rank-.ice", "rank-1.ice.old", "manifest.txt", "manifest."};
  for (const char* const name : others) touch(path() / "db" / name);
  touch(path() / "db" / "manifest.0");  // a manifest that was not finished
  {
    const variable destroys("PAPYRUSKV_DESTROY_REPOSITORY", "1");
    ASSERT_EQ(papyruskv_init(nullptr, nullptr, repository().c_str()), PAPYRUSKV_OK);
    ASSERT_EQ(papyruskv_finalize(), PAPYRUSKV_OK);
  }
  for (const char* const name : others) EXPECT_TRUE(fs::exists(path() / "db" / name)) << name;
  for (const char* const name : {"rank-0.ice", "manifest", "manifest.0"}) {
    EXPECT_FALSE(fs::exists(path() / "db" / name)) << name;
  }
  ASSERT_EQ(papyruskv_init(nullptr, nullptr, repository().c_str()), PAPYRUSKV_OK);
  int restored = 0;
  ASSERT_EQ(papyruskv_restart(checkpoint.c_str(), "anew", PAPYRUSKV_RDWR, nullptr, &restored, nullptr), PAPYRUSKV_OK)
      << papyruskv_error_message();
  EXPECT_EQ(get(restored, key_of(rank(), previous())), "kept");
}

TEST_F(Files, a_checkpoint_is_not_opened_as_a_database) {
  const int db = open("db");
  put(db, key_of(next(), rank()), "kept");
  ASSERT_EQ(papyruskv_checkpoint(db, (path() / "then").c_str(), nullptr), PAPYRUSKV_OK) << papyruskv_error_message();
  int never = 0;
  EXPECT_EQ(papyruskv_open("then", usual_flags, nullptr, &never), PAPYRUSKV_ERR);
  EXPECT_THAT(papyruskv_error_message(), HasSubstr("holds a checkpoint"));
  EXPECT_FALSE(fs::exists(path() / "then" / "manifest"));
}

/// The lines of a manifest that name the ranks' pools: a copy keeps them.
std::string pools_of(const fs::path& manifest) {
  std::ifstream file(manifest);
  std::string pools;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("pool ")) pools += line + '\n';
  }
  EXPECT_NE(pools, "") << manifest;
  return pools;
}

TEST_F(Files, a_restart_copies_the_checkpoint_unless_the_environment_wants_it_redistributed) {
  papyruskv_option_t option{0, 0, [](const char*, std::size_t, std::size_t) { return 0; }};
  int db = 0;
  ASSERT_EQ(papyruskv_open("db", usual_flags, &option, &db), PAPYRUSKV_OK);
  put(db, "key" + std::to_string(rank()), "kept");
  const std::string checkpoint = beside("checkpoint");
  ASSERT_EQ(papyruskv_checkpoint(db, checkpoint.c_str(), nullptr), PAPYRUSKV_OK) << papyruskv_error_message();
  const std::string written = pools_of(fs::path(checkpoint) / "checkpoint");
  for (const bool forced : {false, true}) {
    ASSERT_EQ(papyruskv_finalize(), PAPYRUSKV_OK);
    const variable redistributes("PAPYRUSKV_FORCE_REDISTRIBUTE", forced ? "1" : "0");
    ASSERT_EQ(papyruskv_init(nullptr, nullptr, repository().c_str()), PAPYRUSKV_OK);
    ASSERT_EQ(papyruskv_restart(checkpoint.c_str(), "db", PAPYRUSKV_RDWR, &option, &db, nullptr), PAPYRUSKV_OK)
        << papyruskv_error_message();
    EXPECT_EQ(pools_of(path() / "db" / "manifest") == written, !forced);
    EXPECT_EQ(get(db, "key" + std::to_string(next())), "kept");
    EXPECT_EQ(local_keys(db), rank() == 0 ? ranks() : 0);
  }
}

/// How many keys all ranks hold.
int keys_of_all(int db) {
  // a rank that waits in MPI alone answers no other, if it has one thread
  EXPECT_EQ(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE), PAPYRUSKV_OK);
  const int mine = local_keys(db);
  int all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return all;
}

/// That version 1 is said to have expired, by the interface that has versions, and that the newest is there.
void expect_expired(const fs::path& folder, const std::string& key) {
  cluster c(MPI_COMM_WORLD, folder);
  try {
    static_cast<void>(c.find(key, 1));
    ADD_FAILURE() << "version 1 is back";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::version_expired) << e.what();
  }
  EXPECT_EQ(c.find(key), "three");
  c.close();
}

TEST_F(Files, versions_that_expired_in_a_database_are_met_by_no_call_and_come_back_by_no_restart) {
  const std::string key = "key" + std::to_string(rank());
  {
    cluster c(MPI_COMM_WORLD, path() / "db");
    for (const char* const value : {"one", "two", "three"}) {
      c.insert(key, value);
      c.tag(value);
    }
    c.set_retention({.newest = 1});
    EXPECT_EQ(c.compact().versions_expired, 2U);
    c.close();
  }
  expect_expired(path() / "db", key);
  int db = 0;
  ASSERT_EQ(papyruskv_open("db", PAPYRUSKV_RDWR, nullptr, &db), PAPYRUSKV_OK) << papyruskv_error_message();
  EXPECT_EQ(get(db, "key" + std::to_string(next())), "three");
  EXPECT_EQ(keys_of_all(db), ranks());
  const std::string checkpoint = beside("checkpoint");
  ASSERT_EQ(papyruskv_checkpoint(db, checkpoint.c_str(), nullptr), PAPYRUSKV_OK) << papyruskv_error_message();
  EXPECT_EQ(put(db, key, "later"), PAPYRUSKV_OK);
  EXPECT_EQ(papyruskv_barrier(db, PAPYRUSKV_SSTABLE), PAPYRUSKV_OK);
  EXPECT_EQ(get(db, "key" + std::to_string(next())), "later");
  ASSERT_EQ(papyruskv_close(db), PAPYRUSKV_OK);
  for (const bool redistributes : {false, true}) {
    const variable forced("PAPYRUSKV_FORCE_REDISTRIBUTE", redistributes ? "1" : "0");
    restart_program();
    ASSERT_EQ(papyruskv_restart(checkpoint.c_str(), "db", PAPYRUSKV_RDWR, nullptr, &db, nullptr), PAPYRUSKV_OK)
        << papyruskv_error_message();
    EXPECT_EQ(get(db, "key" + std::to_string(next())), "three");
    ASSERT_EQ(papyruskv_close(db), PAPYRUSKV_OK);
    expect_expired(path() / "db", key);
  }
}

/// No file of this process may be written while it lives.
class no_room {
 public:
  no_room() {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit none{0, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &none);
  }
  ~no_room() { setrlimit(RLIMIT_FSIZE, &before_); }
  no_room(const no_room&) = delete;
  no_room& operator=(const no_room&) = delete;

 private:
  rlimit before_{};
};

/// A checkpoint that the last rank cannot write; the first rank waits for it, the others do not.
void leave_failed_checkpoint(int db, const std::string& folder) {
  std::optional<no_room> full;
  if (rank() == ranks() - 1) full.emplace();
  int event = 0;
  ASSERT_EQ(papyruskv_checkpoint(db, folder.c_str(), &event), PAPYRUSKV_OK) << papyruskv_error_message();
  int first = 0;
  if (rank() == 0) {
    EXPECT_EQ(papyruskv_wait(db, event), PAPYRUSKV_ERR);
    for (int r = 0; r < ranks(); ++r) EXPECT_EQ(papyruskv_signal_notify(1, &r, 1), PAPYRUSKV_OK);
  }
  EXPECT_EQ(papyruskv_signal_wait(1, &first, 1), PAPYRUSKV_OK);
}

TEST_F(Files, a_failed_checkpoint_is_reported_by_destroy_and_hash_and_nobody_waits_for_ever) {
  const int expected = rank() == 0 ? PAPYRUSKV_OK : PAPYRUSKV_ERR;
  const int going = open("going");
  leave_failed_checkpoint(going, beside("checkpoint"));
  EXPECT_EQ(papyruskv_destroy(going, nullptr), expected);
  EXPECT_FALSE(fs::exists(path() / "going"));
  EXPECT_EQ(papyruskv_close(going), PAPYRUSKV_OK);

  const int db = open("db");
  leave_failed_checkpoint(db, beside("checkpoint"));
  EXPECT_EQ(papyruskv_hash(db, [](const char*, std::size_t, std::size_t) { return 0; }), expected);
  put(db, "key" + std::to_string(rank()), "goes on");
  EXPECT_EQ(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE), PAPYRUSKV_OK);
  EXPECT_EQ(local_keys(db), rank() == 0 ? ranks() : 0);
}

/// A database with one key of each rank, closed.
void make_database(const char* name, const std::string& value) {
  const int db = open(name);
  put(db, key_of((rank() + 1) % ranks(), rank()), value);
  EXPECT_EQ(papyruskv_close(db), PAPYRUSKV_OK) << papyruskv_error_message();
}

/// What a restart of `db` leaves that is killed before its checkpoint is whole.
void leave_half_a_restart(const fs::path& repository) {
  if (rank() == 0) {
    fs::rename(repository / "db", repository / ".replaced-db");
    fs::create_directory(repository / "db");
    std::ofstream(repository / "db" / "restoring").flush();
    std::ofstream(repository / "db" / "rank-0.ice").put('x');
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_F(Files, a_restart_that_was_killed_has_lost_nothing) {
  make_database("other", "other");
  make_database("db", "old");
  const std::string key = key_of(rank(), previous());
  leave_half_a_restart(path());
  int failed = 0;
  EXPECT_EQ(papyruskv_restart(beside("nothing").c_str(), "other", PAPYRUSKV_RDWR, nullptr, &failed, nullptr),
            PAPYRUSKV_ERR)
      << "another database's restart";
  const int db = open("db", PAPYRUSKV_RDWR);
  EXPECT_EQ(get(db, key), "old");
  EXPECT_FALSE(fs::exists(path() / ".replaced-db"));
  const std::string checkpoint = beside("checkpoint");
  ASSERT_EQ(papyruskv_checkpoint(db, checkpoint.c_str(), nullptr), PAPYRUSKV_OK) << papyruskv_error_message();
  put(db, key_of(next(), rank()), "newer");
  EXPECT_EQ(papyruskv_close(db), PAPYRUSKV_OK);

  leave_half_a_restart(path());
  EXPECT_EQ(papyruskv_restart(beside("nothing").c_str(), "db", PAPYRUSKV_RDWR, nullptr, &failed, nullptr),
            PAPYRUSKV_ERR);
  const int again = open("db", PAPYRUSKV_RDWR);
  EXPECT_EQ(get(again, key), "newer");
  EXPECT_EQ(papyruskv_close(again), PAPYRUSKV_OK);

  leave_half_a_restart(path());
  int restored = 0;
  EXPECT_EQ(papyruskv_restart(checkpoint.c_str(), "db", PAPYRUSKV_RDWR, nullptr, &restored, nullptr), PAPYRUSKV_OK)
      << papyruskv_error_message();
  EXPECT_EQ(get(restored, key), "old");
  EXPECT_FALSE(fs::exists(path() / ".replaced-db"));
}

TEST_F(Files, a_restart_that_was_killed_when_all_was_whole_is_done) {
  make_database("db", "new");
  make_database("before", "old");
  if (rank() == 0) fs::rename(path() / "before", path() / ".replaced-db");
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(get(open("db", PAPYRUSKV_RDWR), key_of(rank(), previous())), "new");
  EXPECT_FALSE(fs::exists(path() / ".replaced-db"));
  int db = 0;
  EXPECT_EQ(papyruskv_open(".replaced-db", usual_flags, nullptr, &db), PAPYRUSKV_ERR) << "no name for a database";
}

TEST_F(Files, that_one_rank_cannot_remove_is_reported_to_all) {
  ASSERT_EQ(papyruskv_finalize(), PAPYRUSKV_OK);
  const fs::path before = fs::current_path();
  fs::current_path(path());
  ASSERT_EQ(papyruskv_init(nullptr, nullptr, "here"), PAPYRUSKV_OK);
  const int db = open("db");
  if (rank() == 0) fs::create_directories(path() / "here" / "db" / "manifest.9" / "in the way");
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank() != 0) fs::current_path(before);  // the others do not find the folder, and so need to remove nothing
  EXPECT_EQ(papyruskv_destroy(db, nullptr), PAPYRUSKV_ERR);
  EXPECT_THAT(papyruskv_error_message(), HasSubstr("rank 0: "));
  EXPECT_THAT(papyruskv_error_message(), HasSubstr("manifest.9"));
  EXPECT_EQ(papyruskv_close(db), PAPYRUSKV_OK);
  fs::current_path(before);
}

}  // namespace
}  // namespace icecore::testing
