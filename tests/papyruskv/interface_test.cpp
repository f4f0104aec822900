// The rest of the interface: each call does what papyrus/kv.h says, and survives what a program should not do.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/repository.hpp"

namespace icecore::testing {
namespace {

using ::testing::HasSubstr;
using Interface = PapyrusTest;

TEST_F(Interface, every_rank_puts_and_gets_every_key) {
  for (const int consistency : {PAPYRUSKV_RELAXED, PAPYRUSKV_SEQUENTIAL}) {
    const std::string name = "db" + std::to_string(consistency);
    const int db = open(name.c_str(), PAPYRUSKV_CREATE | consistency | PAPYRUSKV_RDWR);
    for (int i = 0; i < 300; ++i) put(db, key_of(i % ranks(), 1000 * rank() + i), std::to_string(i));
    EXPECT_EQ(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE), PAPYRUSKV_OK);
    for (int writer = 0; writer < ranks(); ++writer) {
      for (int i = 0; i < 300; ++i) ASSERT_EQ(get(db, key_of(i % ranks(), 1000 * writer + i)), std::to_string(i));
    }
    EXPECT_EQ(local_keys(db), [] {
      int mine = 0;
      for (int i = 0; i < 300; ++i) mine += i % ranks() == rank() ? ranks() : 0;
      return mine;
    }());
    EXPECT_EQ(papyruskv_close(db), PAPYRUSKV_OK);
  }
}

TEST_F(Interface, values_of_all_sizes_travel) {
  const int db = open("db");
  const std::vector<std::size_t> sizes{0, 1, 8, 1000, 131'072, 5'000'000};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::string value(sizes[i], static_cast<char>('a' + i));
    EXPECT_EQ(put(db, key_of(next(), static_cast<int>(i)), value), PAPYRUSKV_OK);
    EXPECT_EQ(get(db, key_of(next(), static_cast<int>(i))), value);
  }
  EXPECT_EQ(papyruskv_barrier(db, PAPYRUSKV_SSTABLE), PAPYRUSKV_OK);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::size_t length = 99;
    const std::string key = key_of(rank(), static_cast<int>(i));
    EXPECT_EQ(papyruskv_get(db, key.data(), key.size(), nullptr, &length), PAPYRUSKV_OK) << "the length alone";
    EXPECT_EQ(length, sizes[i]);
    EXPECT_EQ(get(db, key), std::string(sizes[i], static_cast<char>('a' + i)));
  }
}

TEST_F(Interface, a_missing_key_leaves_the_callers_variables_alone) {
  const int db = open("db");
  for (const int owner : {rank(), next()}) {
    const std::string key = key_of(owner, 12345);
    char* value = nullptr;
    std::size_t length = 77;
    papyruskv_pos_t pos{&length};
    EXPECT_EQ(papyruskv_get_pos(db, key.data(), key.size(), &value, &length, &pos), PAPYRUSKV_ERR);
    EXPECT_EQ(value, nullptr);
    EXPECT_EQ(length, 77U);
    EXPECT_EQ(pos.handle, nullptr);
    EXPECT_THAT(papyruskv_error_message(), HasSubstr("the key does not exist"));
    EXPECT_EQ(remove(db, key), PAPYRUSKV_OK) << "deleting it is no error";
  }
}

TEST_F(Interface, a_fence_shows_what_was_put_and_to_storage_too) {
  const int db = open("db");
  for (const int level : {PAPYRUSKV_MEMTABLE, PAPYRUSKV_SSTABLE}) {
    const std::string value = "level " + std::to_string(level);
    put(db, key_of(next(), rank()), value);
    EXPECT_EQ(papyruskv_fence(db, level), PAPYRUSKV_OK) << papyruskv_error_message();
    EXPECT_EQ(papyruskv_barrier(db, level), PAPYRUSKV_OK);
    EXPECT_EQ(get(db, key_of(rank(), previous())), value);
    EXPECT_EQ(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE), PAPYRUSKV_OK);
  }
  for (const int unknown : {0, 3, -1}) {
    EXPECT_EQ(papyruskv_fence(db, unknown), PAPYRUSKV_ERR);
    EXPECT_EQ(papyruskv_barrier(db, unknown), PAPYRUSKV_ERR);
  }
}

TEST_F(Interface, signals_carry_what_was_put_in_any_database) {
  const int first = open("first");
  const int second = open("second");
  int to = next();
  int from = previous();
  for (int i = 0; i < 30; ++i) {
    put(first, key_of(next(), rank()), std::to_string(i));
    put(second, key_of(next(), rank()), std::to_string(-i));
    EXPECT_EQ(papyruskv_signal_notify(0xbeef, &to, 1), PAPYRUSKV_OK);
    EXPECT_EQ(papyruskv_signal_wait(0xbeef, &from, 1), PAPYRUSKV_OK);
    ASSERT_GE(std::stoi(get(first, key_of(rank(), previous())).value_or("-1")), i);
    ASSERT_LE(std::stoi(get(second, key_of(rank(), previous())).value_or("1")), -i);
  }
  std::vector<int> all;
  for (int r = 0; r < ranks(); ++r) all.push_back(r);
  EXPECT_EQ(papyruskv_signal_notify(1, all.data(), ranks()), PAPYRUSKV_OK);
  EXPECT_EQ(papyruskv_signal_wait(1, all.data(), ranks()), PAPYRUSKV_OK);
  int nobody = ranks();
  EXPECT_EQ(papyruskv_signal_notify(1, &nobody, 1), PAPYRUSKV_ERR);
  EXPECT_EQ(papyruskv_signal_wait(1, &nobody, 1), PAPYRUSKV_ERR);
  EXPECT_EQ(papyruskv_signal_wait(1, nullptr, 1), PAPYRUSKV_ERR);
  EXPECT_EQ(papyruskv_signal_wait(1, all.data(), -1), PAPYRUSKV_ERR);
  EXPECT_EQ(papyruskv_signal_wait(1, nullptr, 0), PAPYRUSKV_OK);
  EXPECT_EQ(papyruskv_barrier(first, PAPYRUSKV_MEMTABLE), PAPYRUSKV_OK);
}

TEST_F(Interface, a_rank_that_does_not_exist_keeps_no_other_from_being_notified_or_waited_for) {
  const int db = open("db");
  const std::string key = key_of(0);
  std::vector<int> reported = {-1};
  for (int r = 0; r < ranks(); ++r) reported.push_back(r);
  reported.push_back(ranks());
  int awaited[] = {ranks(), 0};
  for (int round = 0; round < 10; ++round) {
    if (rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(3));  // the others wait already
      put(db, key, std::to_string(round));
      EXPECT_EQ(papyruskv_signal_notify(6, reported.data(), static_cast<int>(reported.size())), PAPYRUSKV_ERR);
      EXPECT_THAT(papyruskv_error_message(), HasSubstr("there is no rank -1"));
    }
    EXPECT_EQ(papyruskv_signal_wait(6, awaited, 2), PAPYRUSKV_ERR);
    EXPECT_THAT(papyruskv_error_message(), HasSubstr("there is no rank " + std::to_string(ranks())));
    EXPECT_EQ(get(db, key), std::to_string(round)) << "it has waited for rank 0";
    EXPECT_EQ(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE), PAPYRUSKV_OK);
  }
}

TEST_F(Interface, one_thread_may_signal_while_another_opens_and_closes) {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  if (level != MPI_THREAD_MULTIPLE) GTEST_SKIP() << "MPI allows one thread";
  std::atomic<bool> ends{false};
  std::thread signalling([&ends] {
    int self = rank();
    while (!ends.load()) {
      EXPECT_EQ(papyruskv_signal_notify(5, &self, 1), PAPYRUSKV_OK) << papyruskv_error_message();
      EXPECT_EQ(papyruskv_signal_wait(5, &self, 1), PAPYRUSKV_OK) << papyruskv_error_message();
    }
  });
  for (int round = 0; round < 20; ++round) {
    const int db = open("db");
    for (int i = 0; i < 300; ++i) put(db, key_of(next(), i), std::to_string(round));  // which a signal has to send
    EXPECT_EQ(papyruskv_close(db), PAPYRUSKV_OK) << papyruskv_error_message();
  }
  ends.store(true);
  signalling.join();
}

// ---- Updates ----

/// Adds what the caller gives to a counter; the caller gets what it was before.
int add(const char* /*key*/, std::size_t /*keylen*/, char** val, std::size_t* vallen, void* userin,
        std::size_t userinlen, void* userout, std::size_t useroutlen) {
  long count = 0;
  if (*vallen == sizeof count) std::memcpy(&count, *val, sizeof count);
  if (useroutlen == sizeof count) std::memcpy(userout, &count, sizeof count);
  long more = 0;
  if (userinlen == sizeof more) std::memcpy(&more, userin, sizeof more);
  count += more;
  std::memcpy(*val, &count, sizeof count);
  *vallen = sizeof count;
  return 1;
}

TEST_F(Interface, no_update_of_a_key_is_lost) {
  const int db = open("db");
  ASSERT_EQ(papyruskv_register_update(db, 7, add), PAPYRUSKV_OK);
  constexpr int times = 300;
  for (int owner = 0; owner < std::min(ranks(), 2); ++owner) {
    const std::string key = key_of(owner);
    std::vector<long> before;
    for (int i = 0; i < times; ++i) {
      long one = 1;
      long seen = -1;
      ASSERT_EQ(papyruskv_update(db, key.data(), key.size(), nullptr, 7, &one, sizeof one, &seen, sizeof seen),
                PAPYRUSKV_OK)
          << papyruskv_error_message();
      before.push_back(seen);
    }
    EXPECT_TRUE(std::is_sorted(before.begin(), before.end()));
    EXPECT_EQ(std::adjacent_find(before.begin(), before.end()), before.end()) << "each saw another number";
    ASSERT_EQ(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE), PAPYRUSKV_OK);
    const long all = long{times} * ranks();
    EXPECT_EQ(get(db, key), std::string(reinterpret_cast<const char*>(&all), sizeof all));
  }
}

/// Doubles the value's length; leaves an empty one alone.
int repeat(const char* /*key*/, std::size_t /*keylen*/, char** val, std::size_t* vallen, void* /*userin*/,
           std::size_t /*userinlen*/, void* /*userout*/, std::size_t /*useroutlen*/) {
  if (*vallen == 0) return 0;
  std::memcpy(*val + *vallen, *val, *vallen);
  *vallen *= 2;
  return 1;
}

char elsewhere[] = "a value of its own";
int replace(const char* /*key*/, std::size_t /*keylen*/, char** val, std::size_t* vallen, void* /*userin*/,
            std::size_t /*userinlen*/, void* /*userout*/, std::size_t /*useroutlen*/) {
  *val = elsewhere;
  *vallen = std::strlen(elsewhere);
  return 1;
}

TEST_F(Interface, an_update_may_grow_the_value_in_place_put_it_elsewhere_or_leave_it) {
  const int db = open("db");
  ASSERT_EQ(papyruskv_register_update(db, 1, repeat), PAPYRUSKV_OK);
  ASSERT_EQ(papyruskv_register_update(db, 2, replace), PAPYRUSKV_OK);
  EXPECT_EQ(papyruskv_register_update(db, 2, repeat), PAPYRUSKV_ERR) << "the number is taken";
  EXPECT_EQ(papyruskv_register_update(db, 3, nullptr), PAPYRUSKV_ERR);
  const std::string key = key_of(next(), rank());
  put(db, key, "abc");  // staged: the update comes after it
  const auto update = [&](std::string_view of, int function, papyruskv_pos_t* pos = nullptr) {
    return papyruskv_update(db, of.data(), of.size(), pos, function, nullptr, 0, nullptr, 0);
  };
  EXPECT_EQ(update(key, 1), PAPYRUSKV_OK) << papyruskv_error_message();
  EXPECT_EQ(get(db, key), "abcabc");
  char* value = nullptr;
  papyruskv_pos_t pos{};
  EXPECT_EQ(papyruskv_get_pos(db, key.data(), key.size(), &value, nullptr, &pos), PAPYRUSKV_OK);
  papyruskv_free(&value);
  EXPECT_NE(pos.handle, nullptr);
  EXPECT_EQ(update(key, 1, &pos), PAPYRUSKV_OK);
  EXPECT_EQ(get(db, key), "abcabcabcabc");
  EXPECT_EQ(update(key, 2), PAPYRUSKV_OK);
  EXPECT_EQ(get(db, key), elsewhere);
  const std::string absent = key_of(next(), 1000 + rank());
  EXPECT_EQ(update(absent, 1), PAPYRUSKV_OK);
  EXPECT_EQ(get(db, absent), std::nullopt) << "the function wrote nothing";
  EXPECT_EQ(update(key, 4), PAPYRUSKV_ERR) << "no such function";

  EXPECT_EQ(papyruskv_protect(db, PAPYRUSKV_UDONLY), PAPYRUSKV_OK);
  EXPECT_EQ(update(key, 2, &pos), PAPYRUSKV_OK);
  EXPECT_EQ(update(absent, 2), PAPYRUSKV_ERR) << "a new key under update-only";
  EXPECT_EQ(papyruskv_protect(db, PAPYRUSKV_RDONLY), PAPYRUSKV_OK);
  EXPECT_EQ(update(key, 1), PAPYRUSKV_ERR);
}

// ---- Opening ----

TEST_F(Interface, without_create_a_database_must_be_there) {
  int db = 5;
  EXPECT_EQ(papyruskv_open("absent", PAPYRUSKV_RDWR, nullptr, &db), PAPYRUSKV_ERR);
  EXPECT_EQ(db, -1);
  EXPECT_EQ(papyruskv_open("absent", PAPYRUSKV_CREATE, nullptr, &db), PAPYRUSKV_OK);
  EXPECT_EQ(put(db, "key", "value"), PAPYRUSKV_OK) << "read-write unless the flags say otherwise";
}

/// What `work` writes to standard error.
template <typename Work>
std::string reported_by(Work&& work) {
  ::testing::internal::CaptureStderr();
  work();
  return ::testing::internal::GetCapturedStderr();
}

TEST_F(Interface, why_all_ranks_were_refused_is_reported_once_to_who_looks_at_no_result) {
  int db = 5;
  const std::string reported = reported_by([&db] { papyruskv_open("absent", PAPYRUSKV_RDWR, nullptr, &db); });
  EXPECT_EQ(db, -1);
  if (rank() == 0) {
    EXPECT_THAT(reported, HasSubstr("[rank 0] papyruskv_open: "));
    EXPECT_THAT(reported, HasSubstr(papyruskv_error_message()));
  } else {
    EXPECT_EQ(reported, "");
  }
  const std::string checkpoint = beside("nothing");
  const std::string again =
      reported_by([&] { papyruskv_restart(checkpoint.c_str(), "db", PAPYRUSKV_RDWR, nullptr, &db, nullptr); });
  EXPECT_EQ(again.find(papyruskv_error_message()) != std::string::npos, rank() == 0) << again;
  EXPECT_EQ(reported_by([&] { papyruskv_get(db, "key", 3, nullptr, nullptr); }), "") << "what a program may expect";
}

TEST_F(Interface, why_a_rank_alone_was_refused_is_reported_by_it) {
  int db = 0;
  EXPECT_THAT(reported_by([&db] { papyruskv_open("a/b", usual_flags, nullptr, &db); }),
              HasSubstr("'a/b' is not a valid name"));
  const std::string repeated = reported_by([] { papyruskv_init(nullptr, nullptr, "x"); });
  EXPECT_THAT(repeated, HasSubstr("[rank " + std::to_string(rank()) + "] papyruskv_init: it was called already"));
  const variable logs("PAPYRUSKV_LOG", "1");
  const std::string logged = reported_by([&db] { papyruskv_open("a/b", usual_flags, nullptr, &db); });
  EXPECT_EQ(std::count(logged.begin(), logged.end(), '\n'), 1) << "once: " << logged;
}

TEST_F(Interface, flags_say_consistency_and_protection) {
  int db = 0;
  const int before = open("db");
  put(before, "a1", "there");
  papyruskv_close(before);
  db = open("db", PAPYRUSKV_SEQUENTIAL | PAPYRUSKV_RDONLY);
  EXPECT_EQ(put(db, "a1", "other"), PAPYRUSKV_ERR);
  EXPECT_EQ(get(db, "a1"), "there");
  papyruskv_close(db);
  for (const int wrong : {PAPYRUSKV_CREATE | PAPYRUSKV_SEQUENTIAL | PAPYRUSKV_RELAXED,
                          PAPYRUSKV_CREATE | PAPYRUSKV_RDWR | PAPYRUSKV_RDONLY, PAPYRUSKV_CREATE | 1024, -1}) {
    EXPECT_EQ(papyruskv_open("db", wrong, nullptr, &db), PAPYRUSKV_ERR) << wrong;
  }
}

TEST_F(Interface, a_wrong_name_or_one_that_is_open_is_refused) {
  int db = 0;
  const std::string long_name(256, 'n');
  for (const char* const wrong : {"", ".", "..", "a/b", long_name.c_str(), static_cast<const char*>(nullptr)}) {
    EXPECT_EQ(papyruskv_open(wrong, usual_flags, nullptr, &db), PAPYRUSKV_ERR);
  }
  EXPECT_EQ(papyruskv_open("db", usual_flags, nullptr, nullptr), PAPYRUSKV_ERR);
  EXPECT_EQ(papyruskv_open("db", usual_flags, nullptr, &db), PAPYRUSKV_OK);
  int again = 0;
  EXPECT_EQ(papyruskv_open("db", usual_flags, nullptr, &again), PAPYRUSKV_ERR);
  EXPECT_EQ(put(db, "still", "there"), PAPYRUSKV_OK);
}

TEST_F(Interface, a_hash_can_be_chosen_while_the_database_is_empty) {
  int db = 0;
  ASSERT_EQ(papyruskv_open("db", usual_flags, nullptr, &db), PAPYRUSKV_OK);
  ASSERT_EQ(papyruskv_register_update(db, 7, add), PAPYRUSKV_OK);
  ASSERT_EQ(papyruskv_consistency(db, PAPYRUSKV_SEQUENTIAL), PAPYRUSKV_OK);
  ASSERT_EQ(papyruskv_protect(db, PAPYRUSKV_WRONLY), PAPYRUSKV_OK);
  const auto to_last = [](const char*, std::size_t, std::size_t nranks) { return static_cast<int>(nranks) - 1; };
  EXPECT_EQ(papyruskv_hash(db, nullptr), PAPYRUSKV_OK);
  EXPECT_EQ(papyruskv_hash(db, to_last), PAPYRUSKV_OK) << papyruskv_error_message();
  EXPECT_EQ(get(db, "x"), std::nullopt);
  EXPECT_THAT(papyruskv_error_message(), HasSubstr("write-only")) << "as it was before";
  ASSERT_EQ(papyruskv_protect(db, PAPYRUSKV_RDWR), PAPYRUSKV_OK);
  for (int i = 0; i < 20; ++i) put(db, std::to_string(100 * rank() + i), "x");
  ASSERT_EQ(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE), PAPYRUSKV_OK);
  EXPECT_EQ(local_keys(db), rank() == ranks() - 1 ? 20 * ranks() : 0);
  EXPECT_EQ(papyruskv_hash(db, to_last), PAPYRUSKV_OK) << "which it has";
  EXPECT_EQ(papyruskv_hash(db, [](const char*, std::size_t, std::size_t) { return 0; }), PAPYRUSKV_ERR);
  long one = 1;
  EXPECT_EQ(papyruskv_update(db, "count", 5, nullptr, 7, &one, sizeof one, nullptr, 0), PAPYRUSKV_OK);
  int wrong = 0;
  ASSERT_EQ(papyruskv_open("wrong", usual_flags, nullptr, &wrong), PAPYRUSKV_OK);
  ASSERT_EQ(
      papyruskv_hash(wrong, [](const char*, std::size_t, std::size_t nranks) { return static_cast<int>(nranks); }),
      PAPYRUSKV_OK);
  EXPECT_EQ(put(wrong, "key", ""), PAPYRUSKV_ERR) << "a hash that returns no rank";
}

bool hash_throws = false;
int to_first_or_throw(const char* /*key*/, std::size_t /*keylen*/, std::size_t /*nranks*/) {
  if (hash_throws) throw std::runtime_error("this hash does not work");
  return 0;
}

TEST_F(Interface, a_hash_that_throws_at_one_rank_leaves_no_rank_waiting) {
  papyruskv_option_t option{0, 0, to_first_or_throw};
  int db = 0;
  ASSERT_EQ(papyruskv_open("db", usual_flags, &option, &db), PAPYRUSKV_OK);
  put(db, "key", "there");
  ASSERT_EQ(papyruskv_close(db), PAPYRUSKV_OK);
  hash_throws = rank() == 0;
  EXPECT_EQ(papyruskv_open("db", PAPYRUSKV_RDWR, &option, &db), PAPYRUSKV_ERR);
  EXPECT_THAT(papyruskv_error_message(), HasSubstr("rank 0: this hash does not work"));
  hash_throws = false;
  ASSERT_EQ(papyruskv_open("db", PAPYRUSKV_RDWR, &option, &db), PAPYRUSKV_OK);
  EXPECT_EQ(get(db, "key"), "there");
}

/// Leaves the value as it is.
int look(const char* /*key*/, std::size_t /*keylen*/, char** /*val*/, std::size_t* /*vallen*/, void* /*userin*/,
         std::size_t /*userinlen*/, void* /*userout*/, std::size_t /*useroutlen*/) {
  return 0;
}

TEST_F(Interface, update_functions_are_there_as_soon_as_a_hash_was_chosen) {
  const int db = open("db");
  constexpr int functions = 200;
  for (int i = 0; i < functions; ++i) ASSERT_EQ(papyruskv_register_update(db, i, look), PAPYRUSKV_OK);
  const papyruskv_hash_fn_t hashes[] = {
      [](const char*, std::size_t, std::size_t) { return 0; },
      [](const char*, std::size_t, std::size_t nranks) { return static_cast<int>(nranks) - 1; }};
  for (int round = 0; round < 20; ++round) {
    ASSERT_EQ(papyruskv_hash(db, hashes[round % 2]), PAPYRUSKV_OK) << papyruskv_error_message();
    EXPECT_EQ(papyruskv_update(db, "a", 1, nullptr, functions - 1, nullptr, 0, nullptr, 0), PAPYRUSKV_OK)
        << papyruskv_error_message();
    ASSERT_EQ(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE), PAPYRUSKV_OK);
  }
}

TEST_F(Interface, a_destroyed_database_is_gone_and_can_be_made_anew) {
  const int db = open("db");
  const int other = open("other");
  put(db, key_of(next(), rank()), "x");
  put(other, key_of(next(), rank()), "stays");
  EXPECT_EQ(papyruskv_destroy(db, nullptr), PAPYRUSKV_OK) << papyruskv_error_message();
  EXPECT_FALSE(std::filesystem::exists(path() / "db"));
  EXPECT_EQ(put(db, "a", ""), PAPYRUSKV_ERR);
  EXPECT_EQ(papyruskv_destroy(db, nullptr), PAPYRUSKV_ERR);
  EXPECT_EQ(papyruskv_close(db), PAPYRUSKV_OK);
  EXPECT_EQ(papyruskv_close(db), PAPYRUSKV_ERR);
  const int anew = open("db");
  EXPECT_EQ(get(anew, key_of(rank(), previous())), std::nullopt);
  EXPECT_EQ(papyruskv_barrier(other, PAPYRUSKV_MEMTABLE), PAPYRUSKV_OK);
  EXPECT_EQ(get(other, key_of(rank(), previous())), "stays");
}

TEST_F(Interface, iterators_show_the_keys_of_their_time_in_order) {
  const int db = open("db");
  papyruskv_iter_t at = nullptr;
  EXPECT_EQ(papyruskv_iter_local(db, &at), PAPYRUSKV_OK);
  EXPECT_EQ(at, nullptr) << "nothing is there";
  EXPECT_EQ(papyruskv_iter_next(db, &at), PAPYRUSKV_ERR);
  for (int i = 10; i < 30; ++i) put(db, key_of(rank(), i), std::to_string(i));
  ASSERT_EQ(papyruskv_iter_local(db, &at), PAPYRUSKV_OK);
  put(db, key_of(rank(), 99), "later");
  put(db, key_of(rank(), 20), "later");
  remove(db, key_of(rank(), 21));
  for (int i = 10; i < 30; ++i) {
    ASSERT_NE(at, nullptr);
    EXPECT_EQ(std::string(at->key, at->keylen), key_of(rank(), i));
    EXPECT_EQ(std::string(at->val, at->vallen), std::to_string(i));
    at->key[0] = 'z';  // a copy
    EXPECT_EQ(papyruskv_iter_next(db, &at), PAPYRUSKV_OK);
  }
  EXPECT_EQ(at, nullptr);
  _papyruskv_iter_t of_nobody{};
  at = &of_nobody;
  EXPECT_EQ(papyruskv_iter_next(db, &at), PAPYRUSKV_ERR);
  EXPECT_EQ(get(db, key_of(rank(), 20)), "later");
  EXPECT_EQ(local_keys(db), 20);
}

// ---- What a program should not do ----

TEST_F(Interface, no_call_crashes_on_a_handle_that_is_none) {
  const int closed = open("db");
  papyruskv_close(closed);
  const int later = open("other") + 1024;
  char* value = nullptr;
  std::size_t length = 0;
  int event = 0;
  papyruskv_iter_t iter = nullptr;
  for (const int db : {closed, later, 0, -1, -1000, 77, 1 << 30}) {
    EXPECT_EQ(papyruskv_put(db, "a", 1, "b", 1), PAPYRUSKV_ERR);
    EXPECT_EQ(papyruskv_get(db, "a", 1, &value, &length), PAPYRUSKV_ERR);
    EXPECT_EQ(papyruskv_get_pos(db, "a", 1, &value, &length, nullptr), PAPYRUSKV_ERR);
    EXPECT_EQ(papyruskv_delete(db, "a", 1), PAPYRUSKV_ERR);
    EXPECT_EQ(papyruskv_fence(db, PAPYRUSKV_MEMTABLE), PAPYRUSKV_ERR);
    EXPECT_EQ(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE), PAPYRUSKV_ERR);
    EXPECT_EQ(papyruskv_consistency(db, PAPYRUSKV_RELAXED), PAPYRUSKV_ERR);
    EXPECT_EQ(papyruskv_protect(db, PAPYRUSKV_RDWR), PAPYRUSKV_ERR);
    EXPECT_EQ(papyruskv_destroy(db, &event), PAPYRUSKV_ERR);
    EXPECT_EQ(papyruskv_wait(db, 1), PAPYRUSKV_ERR);
    EXPECT_EQ(papyruskv_hash(db, nullptr), PAPYRUSKV_ERR);
    EXPECT_EQ(papyruskv_iter_local(db, &iter), PAPYRUSKV_ERR);
    EXPECT_EQ(papyruskv_iter_next(db, &iter), PAPYRUSKV_ERR);
    EXPECT_EQ(papyruskv_register_update(db, 1, add), PAPYRUSKV_ERR);
    EXPECT_EQ(papyruskv_update(db, "a", 1, nullptr, 1, nullptr, 0, nullptr, 0), PAPYRUSKV_ERR);
    EXPECT_EQ(papyruskv_close(db), PAPYRUSKV_ERR);
    EXPECT_THAT(papyruskv_error_message(), HasSubstr(std::to_string(db)));
  }
}

TEST_F(Interface, null_pointers_are_errors) {
  const int db = open("db");
  EXPECT_EQ(papyruskv_put(db, nullptr, 3, "b", 1), PAPYRUSKV_ERR);
  EXPECT_EQ(papyruskv_put(db, "a", 1, nullptr, 1), PAPYRUSKV_ERR);
  EXPECT_EQ(papyruskv_put(db, "a", 1, nullptr, 0), PAPYRUSKV_OK) << "an empty value";
  EXPECT_EQ(papyruskv_get(db, nullptr, 1, nullptr, nullptr), PAPYRUSKV_ERR);
  EXPECT_EQ(papyruskv_delete(db, nullptr, 1), PAPYRUSKV_ERR);
  EXPECT_EQ(papyruskv_free(nullptr), PAPYRUSKV_ERR);
  char* nothing = nullptr;
  EXPECT_EQ(papyruskv_free(&nothing), PAPYRUSKV_OK);
  EXPECT_EQ(papyruskv_iter_local(db, nullptr), PAPYRUSKV_ERR);
  EXPECT_EQ(papyruskv_iter_next(db, nullptr), PAPYRUSKV_ERR);
  EXPECT_EQ(papyruskv_update(db, "a", 1, nullptr, 1, nullptr, 5, nullptr, 0), PAPYRUSKV_ERR);
}

TEST_F(Interface, calls_outside_of_init_and_finalize_are_errors) {
  EXPECT_EQ(papyruskv_init(nullptr, nullptr, repository().c_str()), PAPYRUSKV_ERR) << "a second time";
  ASSERT_EQ(papyruskv_finalize(), PAPYRUSKV_OK);
  int db = 0;
  EXPECT_EQ(papyruskv_open("db", usual_flags, nullptr, &db), PAPYRUSKV_ERR);
  EXPECT_EQ(papyruskv_put(1, "a", 1, "b", 1), PAPYRUSKV_ERR);
  EXPECT_EQ(papyruskv_finalize(), PAPYRUSKV_ERR);
  EXPECT_EQ(papyruskv_init(nullptr, nullptr, nullptr), PAPYRUSKV_ERR);
  EXPECT_EQ(papyruskv_init(nullptr, nullptr, ""), PAPYRUSKV_ERR);
  EXPECT_EQ(papyruskv_init(nullptr, nullptr, "$NO_SUCH_VARIABLE"), PAPYRUSKV_ERR);
  EXPECT_EQ(papyruskv_init(nullptr, nullptr, "/proc/no/such/folder"), PAPYRUSKV_ERR);
  ASSERT_EQ(papyruskv_init(nullptr, nullptr, repository().c_str()), PAPYRUSKV_OK);
}

// ---- The environment ----

TEST_F(Interface, the_environment_can_name_the_repository) {
  const int db = open("db");
  put(db, key_of(next(), rank()), "x");
  ASSERT_EQ(papyruskv_finalize(), PAPYRUSKV_OK);
  const variable named("ICECORE_TEST_REPOSITORY", repository());
  ASSERT_EQ(papyruskv_init(nullptr, nullptr, "$ICECORE_TEST_REPOSITORY"), PAPYRUSKV_OK);
  EXPECT_EQ(get(open("db", PAPYRUSKV_RDWR), key_of(rank(), previous())), "x");
}

TEST_F(Interface, finalize_removes_the_repository_unless_the_environment_keeps_it) {
  const int db = open("db");
  put(db, key_of(next(), rank()), "x");
  ASSERT_EQ(papyruskv_finalize(), PAPYRUSKV_OK);
  EXPECT_TRUE(std::filesystem::exists(path() / "db")) << "PAPYRUSKV_DESTROY_REPOSITORY is 0";
  unsetenv("PAPYRUSKV_DESTROY_REPOSITORY");
  ASSERT_EQ(papyruskv_init(nullptr, nullptr, repository().c_str()), PAPYRUSKV_OK);
  EXPECT_EQ(get(open("db", PAPYRUSKV_RDWR), key_of(rank(), previous())), "x");
  ASSERT_EQ(papyruskv_finalize(), PAPYRUSKV_OK);
  EXPECT_FALSE(std::filesystem::exists(path()));
  ASSERT_EQ(papyruskv_init(nullptr, nullptr, repository().c_str()), PAPYRUSKV_OK);
}

/// Gets answer what other ranks ask meanwhile, and send nothing that is staged.
void wait_for_all_without_a_fence(int db) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (int done = 0; done == 0; MPI_Test(&request, &done, MPI_STATUS_IGNORE))
    static_cast<void>(get(db, key_of(rank())));
}

TEST_F(Interface, the_environment_sets_what_it_can_and_wrong_values_are_reported) {
  ASSERT_EQ(papyruskv_finalize(), PAPYRUSKV_OK);
  {
    const variable wrong("PAPYRUSKV_CONSISTENCY", "both");
    EXPECT_EQ(papyruskv_init(nullptr, nullptr, repository().c_str()), PAPYRUSKV_ERR);
    EXPECT_THAT(papyruskv_error_message(), HasSubstr("PAPYRUSKV_CONSISTENCY"));
  }
  const variable group("PAPYRUSKV_GROUP_SIZE", "-1");
  const variable mode("PAPYRUSKV_CONSISTENCY", "1");
  const variable sstable("PAPYRUSKV_SSTABLE", "2");
  const variable local("PAPYRUSKV_CACHE_LOCAL", "1");
  const variable remote("PAPYRUSKV_CACHE_REMOTE", "0");
  const variable size("PAPYRUSKV_CACHE_SIZE", "1000000");
  const variable bloom("PAPYRUSKV_BLOOM", "1");
  const variable memtable("PAPYRUSKV_MEMTABLE_SIZE", "1073741824");
  const variable buffer("PAPYRUSKV_REMOTE_BUFFER_SIZE", "1024");
  const variable entry("PAPYRUSKV_REMOTE_BUFFER_ENTRY_MAX", "4096");
  ASSERT_EQ(papyruskv_init(nullptr, nullptr, repository().c_str()), PAPYRUSKV_OK) << papyruskv_error_message();
  const int db = open("db", PAPYRUSKV_CREATE | PAPYRUSKV_RDWR);
  put(db, key_of(next(), rank()), "x");
  wait_for_all_without_a_fence(db);
  EXPECT_EQ(get(db, key_of(rank(), previous())), "x") << "sequential, and a put between groups";
  wait_for_all_without_a_fence(db);
  EXPECT_EQ(papyruskv_protect(db, PAPYRUSKV_RDONLY), PAPYRUSKV_OK);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(get(db, key_of(next(), rank())), "x");
}

}  // namespace
}  // namespace icecore::testing
