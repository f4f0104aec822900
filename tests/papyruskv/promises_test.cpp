// What other libraries of this interface get wrong.
#include <gmock/gmock.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "support/repository.hpp"

namespace icecore::testing {
namespace {

using ::testing::HasSubstr;
using Promises = PapyrusTest;

TEST_F(Promises, a_put_after_a_delete_of_the_same_key_is_seen) {
  const int db = open("db");
  for (int owner = 0; owner < ranks(); ++owner) {
    const std::string key = key_of(owner, rank());
    for (const bool fenced : {false, true}) {
      put(db, key, "first");
      EXPECT_EQ(remove(db, key), PAPYRUSKV_OK);
      EXPECT_EQ(get(db, key), std::nullopt);
      if (fenced) papyruskv_fence(db, PAPYRUSKV_MEMTABLE);
      EXPECT_EQ(put(db, key, "second"), PAPYRUSKV_OK);
      EXPECT_EQ(get(db, key), "second");
    }
  }
  EXPECT_EQ(papyruskv_barrier(db, PAPYRUSKV_SSTABLE), PAPYRUSKV_OK);
  for (int writer = 0; writer < ranks(); ++writer) EXPECT_EQ(get(db, key_of(next(), writer)), "second");
}

TEST_F(Promises, keys_may_hold_nul_bytes_and_have_any_length_to_65535) {
  const int db = open("db");
  const std::string start = key_of(next(), rank());
  for (const std::size_t length : {std::size_t{4}, std::size_t{5}, std::size_t{1000}, std::size_t{65'535}}) {
    std::string key = start;
    key.resize(length, '\0');
    EXPECT_EQ(put(db, key, std::to_string(length)), PAPYRUSKV_OK) << papyruskv_error_message();
  }
  EXPECT_EQ(put(db, start + std::string("\0x", 2), "x"), PAPYRUSKV_OK);
  EXPECT_EQ(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE), PAPYRUSKV_OK);
  const std::string theirs = key_of(rank(), previous());
  for (const std::size_t length : {std::size_t{4}, std::size_t{5}, std::size_t{1000}, std::size_t{65'535}}) {
    std::string key = theirs;
    key.resize(length, '\0');
    EXPECT_EQ(get(db, key), std::to_string(length));
  }
  EXPECT_EQ(get(db, theirs + std::string("\0x", 2)), "x");
  EXPECT_EQ(get(db, theirs), std::nullopt);

  const std::string longer(65'536, 'a');
  EXPECT_EQ(put(db, longer, ""), PAPYRUSKV_ERR);
  EXPECT_EQ(get(db, longer), std::nullopt);
  EXPECT_EQ(put(db, "", "the empty key"), PAPYRUSKV_OK);
  EXPECT_EQ(get(db, ""), "the empty key");
}

TEST_F(Promises, a_reader_sees_its_own_unfenced_remote_puts) {
  const int db = open("db");
  for (int i = 0; i < 200; ++i) {
    const std::string key = key_of((rank() + i) % ranks(), rank() * 1000 + i % 7);
    const std::string value(static_cast<std::size_t>(i), 'x');
    put(db, key, value);
    ASSERT_EQ(get(db, key), value);
  }
}

TEST_F(Promises, reopening_a_kept_repository_finds_the_data) {
  const int first = open("kept");
  put(first, key_of(next(), rank()), "of rank " + std::to_string(rank()));
  EXPECT_EQ(papyruskv_close(first), PAPYRUSKV_OK) << papyruskv_error_message();
  const int second = open("kept", PAPYRUSKV_RDWR);  // in the same program
  EXPECT_NE(second, first);
  EXPECT_EQ(get(second, key_of(rank(), previous())), "of rank " + std::to_string(previous()));
  put(second, key_of(rank(), rank() + 100), "more");

  restart_program();  // and in the next, without a close
  const int third = open("kept", PAPYRUSKV_RDWR);
  for (int owner = 0; owner < ranks(); ++owner) {
    EXPECT_EQ(get(third, key_of(owner, (owner + ranks() - 1) % ranks())),
              "of rank " + std::to_string((owner + ranks() - 1) % ranks()));
    EXPECT_EQ(get(third, key_of(owner, owner + 100)), "more");
  }
}

TEST_F(Promises, relaxed_after_sequential_works_again) {
  const int db = open("db");
  for (int round = 0; round < 3; ++round) {
    const std::string value = "round " + std::to_string(round);
    EXPECT_EQ(papyruskv_consistency(db, PAPYRUSKV_SEQUENTIAL), PAPYRUSKV_OK);
    put(db, key_of(next(), rank()), value);
    int to = next();
    int from = previous();
    papyruskv_signal_notify(round, &to, 1);
    papyruskv_signal_wait(round, &from, 1);
    EXPECT_EQ(get(db, key_of(rank(), previous())), value);

    EXPECT_EQ(papyruskv_consistency(db, PAPYRUSKV_RELAXED), PAPYRUSKV_OK);
    for (int i = 0; i < 500; ++i) EXPECT_EQ(put(db, key_of(next(), 1000 * (rank() + 1) + i), value), PAPYRUSKV_OK);
    EXPECT_EQ(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE), PAPYRUSKV_OK);
    for (int i = 0; i < 500; ++i) EXPECT_EQ(get(db, key_of(rank(), 1000 * (previous() + 1) + i)), value);
  }
  EXPECT_EQ(papyruskv_consistency(db, 3), PAPYRUSKV_ERR);
}

TEST_F(Promises, a_get_under_write_only_is_an_error) {
  const int db = open("db");
  put(db, key_of(next(), rank()), "there");
  EXPECT_EQ(papyruskv_protect(db, PAPYRUSKV_WRONLY), PAPYRUSKV_OK);
  EXPECT_EQ(get(db, key_of(next(), rank())), std::nullopt);
  EXPECT_THAT(papyruskv_error_message(), HasSubstr("write-only"));
  EXPECT_EQ(put(db, key_of(next(), rank()), "again"), PAPYRUSKV_OK);
  EXPECT_EQ(papyruskv_protect(db, PAPYRUSKV_RDWR), PAPYRUSKV_OK);
  EXPECT_EQ(get(db, key_of(next(), rank())), "again");
}

TEST_F(Promises, a_put_under_read_only_is_an_error) {
  const int db = open("db");
  put(db, key_of(next(), rank()), "there");
  EXPECT_EQ(papyruskv_protect(db, PAPYRUSKV_RDONLY), PAPYRUSKV_OK);
  for (int owner = 0; owner < ranks(); ++owner) {
    EXPECT_EQ(put(db, key_of(owner, rank()), "other"), PAPYRUSKV_ERR);
    EXPECT_EQ(remove(db, key_of(owner, rank())), PAPYRUSKV_ERR);
  }
  for (int i = 0; i < 2; ++i) EXPECT_EQ(get(db, key_of(rank(), previous())), "there");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(get(db, key_of(next(), rank())), "there");
}

TEST_F(Promises, a_put_of_a_new_key_under_update_only_is_an_error) {
  const int db = open("db");
  put(db, key_of(next(), rank()), "there");
  EXPECT_EQ(papyruskv_protect(db, PAPYRUSKV_UDONLY), PAPYRUSKV_OK);
  EXPECT_EQ(put(db, key_of(next(), 100 + rank()), "new"), PAPYRUSKV_ERR);
  EXPECT_EQ(put(db, key_of(rank(), 100 + rank()), "new"), PAPYRUSKV_ERR);
  EXPECT_EQ(remove(db, key_of(next(), rank())), PAPYRUSKV_ERR);
  EXPECT_EQ(put(db, key_of(next(), rank()), "changed"), PAPYRUSKV_OK);
  EXPECT_EQ(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE), PAPYRUSKV_OK);
  EXPECT_EQ(get(db, key_of(rank(), previous())), "changed");
}

TEST_F(Promises, an_unknown_protection_value_is_an_error) {
  const int db = open("db");
  for (const int unknown : {0, 1, 7, 24, 128, -8}) EXPECT_EQ(papyruskv_protect(db, unknown), PAPYRUSKV_ERR) << unknown;
  EXPECT_EQ(papyruskv_protect(db, PAPYRUSKV_RDONLY), PAPYRUSKV_OK) << "nobody waits in the refused ones";
}

TEST_F(Promises, an_unknown_event_is_an_error) {
  const int db = open("db");
  for (const int unknown : {-1, 0, 1, 1000}) EXPECT_EQ(papyruskv_wait(db, unknown), PAPYRUSKV_ERR) << unknown;
  const int going = open("going");
  int event = 0;
  EXPECT_EQ(papyruskv_destroy(going, &event), PAPYRUSKV_OK);
  EXPECT_EQ(papyruskv_wait(db, event), PAPYRUSKV_ERR) << "another database's";
  EXPECT_EQ(papyruskv_wait(going, event), PAPYRUSKV_OK);
  EXPECT_EQ(papyruskv_wait(going, event), PAPYRUSKV_ERR) << "it was waited for";
}

/// What a get into a buffer did.
struct got {
  int result;
  std::size_t length;
  std::string bytes;  ///< 32 of them, '#' where nothing was written
};

/// `vallen`: what the program has there before.
got get_into_buffer(int db, const std::string& key, std::optional<std::size_t> vallen) {
  std::array<char, 32> room;
  room.fill('#');
  char* value = room.data();
  std::size_t length = vallen.value_or(0);
  const int result = papyruskv_get(db, key.data(), key.size(), &value, vallen ? &length : nullptr);
  EXPECT_EQ(value, room.data());
  return {result, length, std::string(room.begin(), room.end())};
}

/// Puts both values, and calls `look` with their keys: of this rank and the next, staged and not.
template <typename Look>
void with_two_values(int db, const std::string& first, const std::string& second, Look look) {
  for (const int owner : {rank(), (rank() + 1) % ranks()}) {
    for (const bool staged : {true, false}) {
      const std::string keys[] = {key_of(owner, 2 * rank()), key_of(owner, 2 * rank() + 1)};
      put(db, keys[0], first);
      put(db, keys[1], second);
      if (!staged) papyruskv_fence(db, PAPYRUSKV_MEMTABLE);
      look(keys[0], keys[1]);
    }
  }
}

const std::string untouched(32, '#');
constexpr std::size_t garbage = 0xdeadbeefdeadbeef;

TEST_F(Promises, a_buffer_of_the_size_given_at_opening_is_never_overrun) {
  const int db = open("db", usual_flags, 16);
  const std::string fits(16, 'f');
  with_two_values(db, fits, std::string(17, 'l'), [&](const std::string& short_key, const std::string& long_key) {
    for (const std::size_t left_there : {std::size_t{16}, std::size_t{0}, std::size_t{3}, std::size_t{32}, garbage}) {
      const got refused = get_into_buffer(db, long_key, left_there);
      EXPECT_EQ(refused.result, PAPYRUSKV_ERR) << left_there;
      EXPECT_THAT(papyruskv_error_message(), HasSubstr("17 bytes"));
      EXPECT_EQ(refused.length, 17U) << "how large it must be";
      EXPECT_EQ(refused.bytes, untouched);
      const got complete = get_into_buffer(db, short_key, left_there);
      EXPECT_EQ(complete.result, PAPYRUSKV_OK) << left_there << ": " << papyruskv_error_message();
      EXPECT_EQ(complete.length, 16U);
      EXPECT_EQ(complete.bytes, fits + std::string(16, '#'));
    }
    EXPECT_EQ(get_into_buffer(db, long_key, std::nullopt).bytes, untouched);
    EXPECT_EQ(get_into_buffer(db, short_key, std::nullopt).result, PAPYRUSKV_OK);
  });
}

TEST_F(Promises, a_length_that_is_used_again_after_a_shorter_value_is_no_limit) {
  const int db = open("db", usual_flags, 16);
  with_two_values(db, "abc", std::string(16, 'l'), [&](const std::string& short_key, const std::string& long_key) {
    const got first = get_into_buffer(db, short_key, garbage);
    EXPECT_EQ(first.length, 3U);
    const got second = get_into_buffer(db, long_key, first.length);
    EXPECT_EQ(second.result, PAPYRUSKV_OK) << papyruskv_error_message();
    EXPECT_EQ(second.bytes, std::string(16, 'l') + std::string(16, '#'));
  });
}

TEST_F(Promises, a_buffer_of_which_nothing_was_given_at_opening_has_the_size_in_vallen) {
  const int db = open("db");
  const std::string value(17, 'l');
  with_two_values(db, value, "", [&](const std::string& key, const std::string& empty) {
    for (const std::size_t given : {std::size_t{0}, std::size_t{16}}) {
      const got refused = get_into_buffer(db, key, given);
      EXPECT_EQ(refused.result, PAPYRUSKV_ERR);
      EXPECT_EQ(refused.length, 17U);
      EXPECT_EQ(refused.bytes, untouched);
    }
    EXPECT_EQ(get_into_buffer(db, key, std::nullopt).result, PAPYRUSKV_ERR);
    for (const std::size_t given : {std::size_t{17}, std::size_t{32}}) {
      EXPECT_EQ(get_into_buffer(db, key, given).bytes, value + std::string(15, '#')) << papyruskv_error_message();
    }
    EXPECT_EQ(get_into_buffer(db, empty, 0).result, PAPYRUSKV_OK);
  });
}

int to_first(const char* /*key*/, std::size_t /*keylen*/, std::size_t /*nranks*/) { return 0; }
int to_last(const char* /*key*/, std::size_t /*keylen*/, std::size_t nranks) { return static_cast<int>(nranks) - 1; }

TEST_F(Promises, each_database_has_its_own_hash) {
  papyruskv_option_t by_first{0, 0, to_first};
  papyruskv_option_t by_last{0, 0, to_last};
  int first = 0;
  int last = 0;
  int built_in = 0;
  EXPECT_EQ(papyruskv_open("first", usual_flags, &by_first, &first), PAPYRUSKV_OK);
  EXPECT_EQ(papyruskv_open("last", usual_flags, &by_last, &last), PAPYRUSKV_OK);
  EXPECT_EQ(papyruskv_open("built-in", usual_flags, nullptr, &built_in), PAPYRUSKV_OK);
  for (int i = 0; i < 50; ++i) {
    const std::string key = "key-" + std::to_string(rank()) + "-" + std::to_string(i);
    for (const int db : {first, last, built_in}) put(db, key, key);
  }
  for (const int db : {first, last, built_in}) EXPECT_EQ(papyruskv_barrier(db, PAPYRUSKV_MEMTABLE), PAPYRUSKV_OK);
  EXPECT_EQ(local_keys(first), rank() == 0 ? 50 * ranks() : 0);
  EXPECT_EQ(local_keys(last), rank() == ranks() - 1 ? 50 * ranks() : 0);
  EXPECT_GT(local_keys(built_in), 0);
  const std::string theirs = "key-" + std::to_string(next()) + "-7";
  for (const int db : {first, last, built_in}) EXPECT_EQ(get(db, theirs), theirs);
}

TEST_F(Promises, a_database_opens_again_by_its_own_hash_only) {
  if (ranks() == 1) GTEST_SKIP() << "one rank owns every key by any hash";
  papyruskv_option_t by_first{0, 0, to_first};
  papyruskv_option_t by_last{0, 0, to_last};
  int db = 0;
  EXPECT_EQ(papyruskv_open("db", usual_flags, &by_first, &db), PAPYRUSKV_OK);
  const std::string key = "key-" + std::to_string(rank());
  put(db, key, "value");
  EXPECT_EQ(papyruskv_close(db), PAPYRUSKV_OK);
  EXPECT_EQ(papyruskv_open("db", PAPYRUSKV_RDWR, &by_last, &db), PAPYRUSKV_ERR);
  EXPECT_EQ(papyruskv_open("db", PAPYRUSKV_RDWR, nullptr, &db), PAPYRUSKV_ERR);
  EXPECT_EQ(papyruskv_open("db", PAPYRUSKV_RDWR, &by_first, &db), PAPYRUSKV_OK);
  EXPECT_EQ(get(db, key), "value");
}

TEST_F(Promises, a_storage_barrier_includes_what_slower_ranks_put_before_it) {
  const int db = open("db");
  for (int slow = 0; slow < ranks(); ++slow) {
    if (rank() == slow) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      for (int owner = 0; owner < ranks(); ++owner) put(db, key_of(owner, slow), "slow");
    }
    ASSERT_EQ(papyruskv_barrier(db, PAPYRUSKV_SSTABLE), PAPYRUSKV_OK);
    for (int owner = 0; owner < ranks(); ++owner) ASSERT_EQ(get(db, key_of(owner, slow)), "slow");
  }
}

/// Values of many sizes, a key of each rank at each.
std::string value_of(int writer, int i) {
  return std::string(static_cast<std::size_t>(i * 37 % 3000), static_cast<char>('a' + (writer + i) % 26));
}

// On other numbers of ranks: programs.on_... (CMakeLists.txt)
TEST_F(Promises, restart_with_redistribution_restores_everything) {
  constexpr int count = 400;
  const int db = open("db");
  for (int i = 0; i < count; ++i) put(db, key_of(i % ranks(), 1000 * rank() + i), value_of(rank(), i));
  for (int i = 0; i < count; i += 10) remove(db, key_of(i % ranks(), 1000 * rank() + i));
  const std::string checkpoint = beside("checkpoint");
  int event = 0;
  ASSERT_EQ(papyruskv_checkpoint(db, checkpoint.c_str(), &event), PAPYRUSKV_OK) << papyruskv_error_message();
  put(db, key_of(next(), 1000 * rank() + 1), "after the checkpoint");
  put(db, key_of(next(), 100'000 + rank()), "after the checkpoint");
  ASSERT_EQ(papyruskv_wait(db, event), PAPYRUSKV_OK) << papyruskv_error_message();

  ASSERT_EQ(papyruskv_finalize(), PAPYRUSKV_OK);
  const variable forced("PAPYRUSKV_FORCE_REDISTRIBUTE", "1");
  ASSERT_EQ(papyruskv_init(nullptr, nullptr, repository().c_str()), PAPYRUSKV_OK);
  papyruskv_option_t other{0, 0, to_last};
  int restored = 0;
  ASSERT_EQ(papyruskv_restart(checkpoint.c_str(), "db", PAPYRUSKV_RDWR, &other, &restored, &event), PAPYRUSKV_OK)
      << papyruskv_error_message();
  ASSERT_EQ(papyruskv_wait(restored, event), PAPYRUSKV_OK);
  const auto expected_at = [](int writer, int i) {
    return i % 10 == 0 ? std::nullopt : std::optional<std::string>(value_of(writer, i));
  };
  for (int writer = 0; writer < ranks(); ++writer) {
    for (int i = 0; i < count; ++i) {
      ASSERT_EQ(get(restored, key_of(i % ranks(), 1000 * writer + i)), expected_at(writer, i));
    }
    ASSERT_EQ(get(restored, key_of(next(), 100'000 + writer)), std::nullopt);
  }
  EXPECT_EQ(local_keys(restored), rank() == ranks() - 1 ? ranks() * count * 9 / 10 : 0) << "each at its new owner";
  EXPECT_EQ(papyruskv_barrier(restored, PAPYRUSKV_MEMTABLE), PAPYRUSKV_OK);
  EXPECT_EQ(put(restored, key_of(rank(), 1), "goes on"), PAPYRUSKV_OK);
}

TEST_F(Promises, a_restart_replaces_the_database_or_leaves_it) {
  const int db = open("db");
  put(db, key_of(next(), rank()), "then");
  const std::string checkpoint = beside("checkpoint");
  ASSERT_EQ(papyruskv_checkpoint(db, checkpoint.c_str(), nullptr), PAPYRUSKV_OK) << papyruskv_error_message();
  put(db, key_of(next(), rank()), "now");
  int restored = 0;
  EXPECT_EQ(papyruskv_restart(checkpoint.c_str(), "db", PAPYRUSKV_RDWR, nullptr, &restored, nullptr), PAPYRUSKV_ERR)
      << "it is open";
  ASSERT_EQ(papyruskv_close(db), PAPYRUSKV_OK);

  EXPECT_EQ(papyruskv_restart(beside("nothing").c_str(), "db", PAPYRUSKV_RDWR, nullptr, &restored, nullptr),
            PAPYRUSKV_ERR);
  EXPECT_EQ(restored, -1);
  const int left = open("db", PAPYRUSKV_RDWR);
  EXPECT_EQ(get(left, key_of(rank(), previous())), "now");
  ASSERT_EQ(papyruskv_close(left), PAPYRUSKV_OK);

  papyruskv_option_t option{0, 0, to_first};
  ASSERT_EQ(papyruskv_restart(checkpoint.c_str(), "db", PAPYRUSKV_RDWR, &option, &restored, nullptr), PAPYRUSKV_OK)
      << papyruskv_error_message();
  EXPECT_EQ(get(restored, key_of(rank(), previous())), "then");
  EXPECT_EQ(papyruskv_checkpoint(restored, nullptr, nullptr), PAPYRUSKV_ERR);
  EXPECT_EQ(papyruskv_checkpoint(restored, "", nullptr), PAPYRUSKV_ERR);
  EXPECT_EQ(papyruskv_restart(nullptr, "x", PAPYRUSKV_RDWR, nullptr, &restored, nullptr), PAPYRUSKV_ERR);
}

TEST_F(Promises, finalize_ends_whatever_is_left) {
  for (int round = 0; round < 5; ++round) {
    const int first = open("first");
    const int second = open("second", PAPYRUSKV_CREATE | PAPYRUSKV_SEQUENTIAL);
    for (int i = 0; i < 100; ++i) put(first, key_of(i % ranks(), 1000 * rank() + i), "staged still");
    put(second, key_of(next(), rank()), "x");
    int to = next();
    papyruskv_signal_notify(99, &to, 1);  // nobody waits for it
    papyruskv_iter_t unfinished = nullptr;
    papyruskv_iter_local(first, &unfinished);
    int event = 0;  // nobody waits for it either
    EXPECT_EQ(papyruskv_checkpoint(second, beside("checkpoint").c_str(), &event), PAPYRUSKV_OK);
    if (rank() % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    restart_program();
  }
}

}  // namespace
}  // namespace icecore::testing
