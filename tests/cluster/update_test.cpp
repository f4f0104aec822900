// What owners do for others: updates; and looks at values without a copy, fences to storage.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "support/ranks.hpp"

namespace icecore::testing {
namespace {

using ::testing::HasSubstr;
using Update = ClusterTest;

constexpr int count_up = 1;
constexpr int take = 2;
constexpr int refuse = 3;

/// Adds the input to a counter and gives back what it was before; moves a value out; throws.
void define_all(cluster& c) {
  c.define_update(count_up,
                  [](std::string_view, std::optional<std::string>& value, std::string_view input, std::string& output) {
                    output = value.value_or("0");
                    value = std::to_string(std::stoi(output) + std::stoi(std::string(input)));
                    return true;
                  });
  c.define_update(take, [](std::string_view, std::optional<std::string>& value, std::string_view, std::string& output) {
    if (!value) return false;
    output = *value;
    value.reset();
    return true;
  });
  c.define_update(refuse,
                  [](std::string_view key, std::optional<std::string>&, std::string_view, std::string&) -> bool {
                    throw error(errc::bad_input, "not " + std::string(key));
                  });
  c.barrier();
}

TEST_F(Update, that_throws_something_else_is_an_error_at_whoever_asked) {
  cluster c(MPI_COMM_WORLD, path());
  constexpr int throw_a_number = 4;
  c.define_update(
      throw_a_number,
      [](std::string_view, std::optional<std::string>&, std::string_view, std::string&) -> bool { throw 1; });
  c.barrier();
  const int other = (rank() + 1) % ranks();
  if (other != rank()) {
    const thrown reported = error_of([&] { static_cast<void>(c.update(key_of(c, other), throw_a_number, "")); });
    EXPECT_EQ(reported.code, errc::io) << reported.message;
  }
  c.barrier();
  c.insert(key_of(c, other, rank()), "well");
  c.close();
}

TEST_F(Update, each_update_sees_what_those_before_it_wrote) {
  cluster c(MPI_COMM_WORLD, path());
  define_all(c);
  constexpr int times = 200;
  const std::string key = key_of(c, ranks() - 1);
  std::set<std::string> before;
  for (int i = 0; i < times; ++i) before.insert(c.update(key, count_up, "1"));
  EXPECT_EQ(before.size(), std::size_t{times}) << "each saw another number";
  c.barrier();
  EXPECT_EQ(c.find(key), std::to_string(times * ranks()));
  c.close();
}

TEST_F(Update, several_threads_of_a_rank_lose_none) {
  if (std::getenv("ICECORE_TEST_SINGLE") != nullptr) GTEST_SKIP() << "MPI allows one thread";
  cluster c(MPI_COMM_WORLD, path());
  define_all(c);
  const std::string key = key_of(c, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) static_cast<void>(c.update(key, count_up, "2"));
    });
  }
  for (std::thread& each : threads) each.join();
  c.barrier();
  EXPECT_EQ(c.find(key), std::to_string(600 * ranks()));
  c.close();
}

TEST_F(Update, no_update_overwrites_unseen_what_was_inserted_in_turn) {
  if (std::getenv("ICECORE_TEST_SINGLE") != nullptr) GTEST_SKIP() << "MPI allows one thread";
  cluster c(MPI_COMM_WORLD, path());
  constexpr int count_up_slowly = 4;
  c.define_update(count_up_slowly,
                  [](std::string_view, std::optional<std::string>& value, std::string_view, std::string&) {
                    std::this_thread::sleep_for(std::chrono::microseconds(50));  // between the read and the write
                    value = std::to_string(std::stoi(value.value_or("0")) + 1);
                    return true;
                  });
  c.barrier();
  const std::string key = key_of(c, rank());
  std::atomic<bool> over{false};
  std::thread updates([&] {
    while (!over) static_cast<void>(c.update(key, count_up_slowly, {}));
  });
  constexpr int stride = 1'000'000;
  for (int i = 1; i <= 300; ++i) {
    static_cast<void>(c.insert_in_turn(key, std::to_string(i * stride)));
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    EXPECT_EQ(std::stoi(c.find(key).value_or("0")) / stride, i) << "updates count up from the value that was inserted";
  }
  over = true;
  updates.join();
  c.barrier();
  c.close();
}

TEST_F(Update, only_a_keys_owner_inserts_in_turn) {
  cluster c(MPI_COMM_WORLD, path());
  const int other = (rank() + 1) % ranks();
  const std::string key = key_of(c, other, rank());
  if (other == rank()) {
    EXPECT_EQ(c.insert_in_turn(key, "mine"), c.clock());
    EXPECT_EQ(c.find(key), "mine");
  } else {
    const thrown refused = error_of([&] { static_cast<void>(c.insert_in_turn(key, "not mine")); });
    EXPECT_EQ(refused.code, errc::invalid_argument);
    EXPECT_THAT(refused.message, HasSubstr("rank " + std::to_string(other)));
    EXPECT_EQ(c.find(key), std::nullopt);
  }
  c.barrier();
  c.close();
}

TEST_F(Update, what_one_takes_nobody_else_gets) {
  cluster c(MPI_COMM_WORLD, path());
  define_all(c);
  const std::string key = key_of(c, 0);
  if (rank() == 0) c.insert(key, "the only one");
  c.barrier();
  const int mine = c.update(key, take, {}) == "the only one" ? 1 : 0;
  int all = 0;
  c.barrier();
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(all, 1);
  EXPECT_EQ(c.find(key), std::nullopt);
  c.close();
}

TEST_F(Update, an_update_comes_after_what_its_rank_staged) {
  cluster c(MPI_COMM_WORLD, path(), small_buffers());
  define_all(c);
  for (int owner = 0; owner < ranks(); ++owner) {
    const std::string key = key_of(c, owner, rank());
    c.insert(key, "41");
    EXPECT_EQ(c.update(key, count_up, "1"), "41");
    EXPECT_EQ(c.find(key), "42");
    c.remove(key);
    EXPECT_EQ(c.update(key, count_up, "1"), "0");
  }
  c.close();
}

TEST_F(Update, what_goes_wrong_at_the_owner_is_thrown_to_the_asker) {
  cluster c(MPI_COMM_WORLD, path());
  define_all(c);
  const std::string key = key_of(c, (rank() + 1) % ranks(), rank());
  const thrown refused = error_of([&] { static_cast<void>(c.update(key, refuse, {})); });
  EXPECT_EQ(refused.code, errc::bad_input);
  EXPECT_THAT(refused.message, HasSubstr("not " + key));
  EXPECT_EQ(error_of([&] { static_cast<void>(c.update(key, 99, {})); }).code, errc::invalid_argument);
  EXPECT_EQ(error_of([&] { c.define_update(take, [](auto&&...) { return false; }); }).code, errc::invalid_argument);
  EXPECT_EQ(error_of([&] { c.define_update(4, {}); }).code, errc::invalid_argument);
  EXPECT_EQ(c.update(key, count_up, "1"), "0") << "it goes on";

  c.protect(protection::update_only);
  EXPECT_EQ(c.update(key, count_up, "1"), "1");
  EXPECT_EQ(error_of([&] { static_cast<void>(c.update(key, take, {})); }).code, errc::protection) << "a remove";
  c.protect(protection::read_only);
  EXPECT_EQ(error_of([&] { static_cast<void>(c.update(key, count_up, "1")); }).code, errc::protection);
  c.protect(protection::write_only);
  EXPECT_EQ(error_of([&] { static_cast<void>(c.update(key, count_up, "1")); }).code, errc::protection);
  c.close();
}

TEST_F(Update, a_look_at_a_value_is_what_find_finds) {
  cluster c(MPI_COMM_WORLD, path());
  const auto look = [&c](const std::string& key) {
    std::optional<std::string> seen;
    const bool there = c.visit(key, [&seen](std::string_view value) { seen = value; });
    EXPECT_EQ(there, seen.has_value());
    return seen;
  };
  const std::string large(300'000, 'x');
  for (int owner = 0; owner < ranks(); ++owner) {
    const std::string key = key_of(c, owner, rank());
    EXPECT_EQ(look(key), std::nullopt);
    c.insert(key, large);
    EXPECT_EQ(look(key), large) << "staged";
    c.fence();
    EXPECT_EQ(look(key), large);
    c.remove(key);
    EXPECT_EQ(look(key), std::nullopt);
    c.insert(key, "");
    EXPECT_EQ(look(key), "");
  }
  c.protect(protection::read_only);
  for (int i = 0; i < 2; ++i) {
    for (int owner = 0; owner < ranks(); ++owner) EXPECT_EQ(look(key_of(c, owner, rank())), "");
  }
  c.protect(protection::write_only);
  EXPECT_EQ(error_of([&] { look(key_of(c, 0, 0)); }).code, errc::protection);
  c.close();
}

TEST_F(Update, tags_are_cuts_also_beside_fences_to_storage) {
  cluster c(MPI_COMM_WORLD, path());
  const std::string key = key_of(c, (rank() + 1) % ranks(), rank());
  std::vector<version> tags;
  for (int i = 0; i < 20; ++i) {
    c.insert(key, std::to_string(i));
    if ((i + rank()) % 3 == 0) c.fence(barrier_level::storage);
    if (i % 2 == 1) tags.push_back(c.tag());
  }
  for (std::size_t i = 0; i < tags.size(); ++i) {
    EXPECT_EQ(tags[i], of_rank_0(tags[i]));
    for (int writer = 0; writer < ranks(); ++writer) {
      EXPECT_EQ(c.find(key_of(c, (writer + 1) % ranks(), writer), tags[i]), std::to_string(2 * i + 1));
    }
    c.barrier();
  }
  c.close();
}

}  // namespace
}  // namespace icecore::testing
