// What goes wrong on one rank is an error on all of them, and the next call works.
#include <gtest/gtest.h>
#include <mpi.h>

#include <functional>
#include <new>
#include <random>
#include <stdexcept>

#include "cluster/gather/gather.hpp"
#include "cluster/gather/ranks/agreement.hpp"
#include "icecore/error.hpp"
#include "model.hpp"

namespace icecore::ranks {
namespace {

using testing::all_ranks;
using testing::items;
using testing::items_of;
using testing::map;
using testing::own_rank;
using testing::part_columns;

const MPI_Comm comm = MPI_COMM_WORLD;

using extraction = std::function<void(const pairs_view&, const gather_options&)>;

struct named_extraction {
  const char* name;
  extraction run;
};

std::vector<named_extraction> sorted_extractions() {
  return {
      {"naive_merge", [](const auto& own, const auto& how) { static_cast<void>(naive_merge(comm, own, how)); }},
      {"opt_merge", [](const auto& own, const auto& how) { static_cast<void>(opt_merge(comm, own, how)); }},
      {"distributed", [](const auto& own, const auto& how) { static_cast<void>(distributed(comm, own, how)); }},
      {"stream",
       [](const auto& own, const auto& how) {
         stream(
             comm, own, [](const pairs_view&) {}, how);
       }},
  };
}

/// The code and message of what `work` throws as an icecore::error.
std::pair<errc, std::string> error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const error& e) {
    return {static_cast<errc>(e.code().value()), e.message()};
  }
  return {errc{}, "nothing was thrown"};
}

void expect_everything_still_works() {
  const map own{{std::to_string(own_rank()), "here"}};
  const part_columns columns(own, 0, 0);
  EXPECT_EQ(opt_merge(comm, columns.view()).count(), own_rank() == 0 ? static_cast<std::size_t>(all_ranks()) : 0);
}

TEST(agreement, a_key_of_two_ranks_is_reported_by_all_with_its_holders) {
  if (all_ranks() < 2) GTEST_SKIP() << "one rank shares no key with another";
  for (const std::size_t width : {std::size_t{8}, std::size_t{0}}) {
    for (int first = 0; first < all_ranks() - 1; ++first) {
      map own;
      for (int i = 0; i < 50; ++i) own["k" + std::to_string(1000 * own_rank() + 100'000 + i) + "x"] = "12345678";
      if (own_rank() == first || own_rank() == all_ranks() - 1) own["k100010y"] = "87654321";
      const part_columns columns(own, width, width);
      for (const auto& [name, run] : sorted_extractions()) {
        const auto [code, message] = error_of([&, &run = run] { run(columns.view(), {}); });
        EXPECT_EQ(code, errc::damaged) << name;
        EXPECT_EQ(message, "ranks " + std::to_string(first) + " and " + std::to_string(all_ranks() - 1) +
                               " both hold the key 'k100010y': each key must have one owner")
            << name;
        expect_everything_still_works();
      }
    }
  }
}

TEST(agreement, a_root_that_is_no_rank_is_refused_by_all) {
  const map own{{"key", "value"}};
  const part_columns columns(own, 0, 0);
  auto all = sorted_extractions();
  all.push_back({"gather", [](const auto& view, const auto& how) { static_cast<void>(gather(comm, view, how)); }});
  for (const int root : {-1, all_ranks()}) {
    gather_options how;
    how.root = root;
    for (const auto& [name, run] : all) {
      if (std::string(name) == "distributed") continue;  // it has no root
      EXPECT_EQ(error_of([&, &run = run] { run(columns.view(), how); }).first, errc::invalid_argument) << name;
    }
  }
}

TEST(agreement, ranks_without_ranges_cannot_be_concatenated) {
  if (all_ranks() < 2) GTEST_SKIP() << "one rank is always a range";
  map own{{"a" + std::to_string(own_rank()), ""}, {"b" + std::to_string(own_rank()), ""}};
  const part_columns columns(own, 0, 0);
  const auto [code, message] = error_of([&] { static_cast<void>(concatenate(comm, columns.view())); });
  EXPECT_EQ(code, errc::invalid_argument);
  EXPECT_NE(message.find("first key of rank 1"), std::string::npos) << message;
  expect_everything_still_works();
}

TEST(agreement, a_sink_that_throws_ends_the_streaming_on_all_ranks) {
  std::mt19937_64 random(11);
  const map all_pairs = testing::random_map(random, 5000, {8, 0}, {8, 0});
  const auto parts = testing::spread_over(random, all_pairs, all_ranks(), testing::spread::by_hash);
  const part_columns own(parts[static_cast<std::size_t>(own_rank())], 8, 8);
  gather_options how;
  how.block_bytes = 512;
  how.root = all_ranks() - 1;
  for (const int pieces_before : {0, 1, 20, 60}) {
    int pieces = 0;
    const auto sink = [&](const pairs_view&) {
      if (pieces++ == pieces_before) throw std::runtime_error("the disk is full");
    };
    try {
      stream(comm, own.view(), sink, how);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const error& e) {
      EXPECT_NE(own_rank(), how.root);
      EXPECT_EQ(e.message(), "rank " + std::to_string(how.root) + ": the disk is full");
    } catch (const std::runtime_error& e) {
      EXPECT_EQ(own_rank(), how.root) << "the root gets its own exception";
      EXPECT_STREQ(e.what(), "the disk is full");
    }
    expect_everything_still_works();
  }
}

TEST(agreement, of_several_failures_the_lowest_ranks_is_reported_and_each_throws_its_own) {
  const int low = all_ranks() / 2;
  const auto own = error_of([&] {
    together(comm, [&] {
      if (own_rank() >= low) throw error(errc::locked, "rank " + std::to_string(own_rank()) + " failed");
    });
  });
  EXPECT_EQ(own.first, errc::locked);
  const std::string reported = "rank " + std::to_string(low) + ": rank " + std::to_string(low) + " failed";
  EXPECT_EQ(own.second, own_rank() < low ? reported : "rank " + std::to_string(own_rank()) + " failed");
}

TEST(agreement, lack_of_memory_stays_what_it_is) {
  EXPECT_THROW(together(comm,
                        [&] {
                          if (own_rank() == all_ranks() - 1) throw std::bad_alloc();
                        }),
               std::bad_alloc);
  EXPECT_NO_THROW(together(comm, [] {}));
}

TEST(agreement, a_result_for_which_there_is_no_memory_is_an_error_of_all) {
  // A part that says it is as large as all addresses: room for it cannot be had, and none of it is looked at before.
  const std::uint64_t offsets[2] = {0, std::uint64_t{1} << 62};
  pairs_view own{0, {0, offsets, ""}, {0, offsets, ""}};
  if (own_rank() == 0) own.count = 1;
  for (const auto& [name, run] : sorted_extractions()) {
    if (std::string(name) == "distributed") continue;  // it sends what the others shall have first
    EXPECT_THROW(run(own, {}), std::bad_alloc) << name;
  }
  EXPECT_THROW(static_cast<void>(gather(comm, own)), std::bad_alloc);
  expect_everything_still_works();
}

}  // namespace
}  // namespace icecore::ranks
