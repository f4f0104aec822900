// Every way to extract gives the pairs of a model, for random sizes, layouts and spreads over ranks.
#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <new>
#include <optional>
#include <random>
#include <string>

#include "cluster/gather/gather.hpp"
#include "model.hpp"

namespace icecore::ranks {
namespace {

using testing::all_ranks;
using testing::item_shape;
using testing::items;
using testing::items_of;
using testing::map;
using testing::own_rank;
using testing::part_columns;
using testing::spread;

const MPI_Comm comm = MPI_COMM_WORLD;

/// Keys and values of a trial, and whether every second rank has them as columns of any size all the same.
struct layout {
  item_shape keys;
  item_shape values;
  bool mixed = false;
};
const std::vector<layout> layouts{
    {{8, 0}, {8, 0}},    {{8, 0}, {8, 0}, true},  {{8, 0}, {0, 40}}, {{0, 12}, {8, 0}},
    {{0, 12}, {0, 100}}, {{6, 0}, {24, 0}, true}, {{3, 0}, {1, 0}},  {{5, 0}, {0, 0}},
};
const std::vector<spread> spreads{spread::by_hash, spread::by_range, spread::on_one_rank, spread::on_some};

/// One random map over the ranks, the same on all of them, with random options.
struct trial {
  std::mt19937_64 random;
  spread how_spread;
  gather_options how;
  map all_pairs;
  std::vector<map> parts;
  part_columns own;

  trial(std::uint64_t seed, const layout& of, spread spread_as)
      : random(seed),
        how_spread(spread_as),
        all_pairs(testing::random_map(random, random() % 8 == 0 ? random() % 4 : random() % 700, of.keys, of.values)),
        parts(testing::spread_over(random, all_pairs, all_ranks(), spread_as)),
        own(parts[static_cast<std::size_t>(own_rank())], any_size_here(of) ? 0 : of.keys.width,
            any_size_here(of) ? 0 : of.values.width) {
    how.root = static_cast<int>(random() % static_cast<unsigned>(all_ranks()));
    how.threads = 1 + static_cast<unsigned>(random() % 3);
    how.block_bytes = std::array<std::size_t, 3>{1, 300, 1 << 16}[random() % 3];
    how.samples_per_rank = 1 + random() % 20;
    how.message_bytes_max = std::array<std::size_t, 3>{7, 1000, 1 << 30}[random() % 3];
  }

  static bool any_size_here(const layout& of) { return of.mixed && own_rank() % 2 == 1; }

  [[nodiscard]] bool at_root() const { return own_rank() == how.root; }
  [[nodiscard]] items expected_at_root() const { return at_root() ? items_of(all_pairs) : items(); }
};

template <class Check>
void for_all_trials(Check check) {
  const int repetitions = all_ranks() < 4 ? 3 : 1;  // waiting ranks of some MPIs never leave their core to others
  std::uint64_t seed = 0;
  for (const layout& of : layouts) {
    for (const spread how : spreads) {
      for (int repetition = 0; repetition < repetitions; ++repetition) {
        SCOPED_TRACE(::testing::Message()
                     << "seed " << ++seed << " of " << all_ranks() << " ranks, rank " << own_rank());
        check(trial(seed, of, how));
      }
    }
  }
}

TEST(extraction, gathered_pairs_are_those_of_rank_after_rank) {
  for_all_trials([](const trial& t) {
    items expected;
    for (const map& part : t.parts) expected.insert(expected.end(), part.begin(), part.end());
    if (!t.at_root()) expected.clear();
    EXPECT_EQ(items_of(gather(comm, t.own.view(), t.how).view()), expected);
  });
}

TEST(extraction, naive_merge_gives_all_pairs_in_order_to_the_root) {
  for_all_trials([](trial t) {
    for (const heads way : {heads::tournament, heads::linear_scan}) {
      t.how.heads = way;
      EXPECT_EQ(items_of(naive_merge(comm, t.own.view(), t.how).view()), t.expected_at_root());
    }
  });
}

TEST(extraction, opt_merge_gives_all_pairs_in_order_to_the_root) {
  for_all_trials([](trial t) {
    for (const std::size_t piece : {std::size_t{7}, t.how.pairs_per_piece}) {
      t.how.pairs_per_piece = piece;
      EXPECT_EQ(items_of(opt_merge(comm, t.own.view(), t.how).view()), t.expected_at_root());
    }
  });
}

TEST(extraction, distributed_gives_each_rank_its_stretch_of_all_pairs_in_order) {
  for_all_trials([](const trial& t) {
    const items stretch = items_of(distributed(comm, t.own.view(), t.how).view());
    const std::uint64_t count = stretch.size();
    std::uint64_t before = 0;
    std::uint64_t total = 0;
    MPI_Exscan(&count, &before, 1, MPI_UINT64_T, MPI_SUM, comm);
    MPI_Allreduce(&count, &total, 1, MPI_UINT64_T, MPI_SUM, comm);
    if (own_rank() == 0) before = 0;  // MPI_Exscan leaves it unsaid
    const items all = items_of(t.all_pairs);
    ASSERT_EQ(total, all.size());
    const auto from = all.begin() + static_cast<std::ptrdiff_t>(before);
    EXPECT_EQ(stretch, items(from, from + static_cast<std::ptrdiff_t>(count)));
  });
}

TEST(extraction, distributed_gives_about_equal_stretches_wherever_the_pairs_were) {
  for (const spread how : spreads) {
    std::mt19937_64 random(7);
    const map all_pairs = testing::random_map(random, 4000, {8, 0}, {8, 0});
    const auto parts = testing::spread_over(random, all_pairs, all_ranks(), how);
    const part_columns own(parts[static_cast<std::size_t>(own_rank())], 8, 8);
    const std::size_t share = all_pairs.size() / static_cast<std::size_t>(all_ranks());
    EXPECT_LT(distributed(comm, own.view()).count(), share + share / 4 + 8);
  }
}

TEST(extraction, stream_gives_all_pairs_in_order_to_the_sink_of_the_root) {
  for_all_trials([](const trial& t) {
    items streamed;
    stream(
        comm, t.own.view(),
        [&](const pairs_view& some) {
          EXPECT_GT(some.count, 0U);
          for (const auto& item : items_of(some)) streamed.push_back(item);
        },
        t.how);
    EXPECT_EQ(streamed, t.expected_at_root());
  });
}

TEST(extraction, streamed_pieces_are_as_large_as_a_block) {
  std::mt19937_64 random(3);
  const map all_pairs = testing::random_map(random, 3000, {8, 0}, {8, 0});
  const auto parts = testing::spread_over(random, all_pairs, all_ranks(), spread::by_hash);
  const part_columns own(parts[static_cast<std::size_t>(own_rank())], 8, 8);
  gather_options how;
  how.block_bytes = 1024;
  std::size_t pieces = 0;
  stream(
      comm, own.view(),
      [&](const pairs_view& some) {
        ++pieces;
        EXPECT_LE(some.count * 16, how.block_bytes + 16);
      },
      how);
  if (own_rank() == 0) {
    EXPECT_EQ(pieces, (all_pairs.size() * 16 + 1023) / 1024);
  }
}

/// What this process may take from now on, until the end of the block.
class memory_limit {
 public:
  explicit memory_limit(std::size_t more) {
    std::ifstream("/proc/self/statm") >> pages_;
    getrlimit(RLIMIT_AS, &before_);
    rlimit now = before_;
    now.rlim_cur = pages_ * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + more;
    setrlimit(RLIMIT_AS, &now);
  }
  ~memory_limit() { setrlimit(RLIMIT_AS, &before_); }
  memory_limit(const memory_limit&) = delete;
  memory_limit& operator=(const memory_limit&) = delete;

 private:
  std::size_t pages_ = 0;
  rlimit before_{};
};

TEST(extraction, a_block_for_which_the_root_has_no_memory_ends_the_stream_on_all_ranks) {
  const std::string large(std::size_t{192} << 20, 'L');
  for (const int when : {0, 1, 2}) {  // which block of the last rank is large
    int block = 0;
    std::string key;
    std::uint64_t offsets_of_key[2] = {0, 0};
    std::uint64_t offsets_of_value[2] = {0, 0};
    const next_block own = [&]() -> pairs_view {
      if (block == 4) return {};
      const bool is_large = block == when && own_rank() == all_ranks() - 1;
      key = std::to_string(block++) + "-" + std::to_string(own_rank());
      offsets_of_key[1] = key.size();
      offsets_of_value[1] = is_large ? large.size() : 4;
      return {1, {0, offsets_of_key, key.data()}, {0, offsets_of_value, large.data()}};
    };
    std::size_t streamed = 0;
    const pairs_sink sink = [&](const pairs_view& some) { streamed += some.count; };
    gather_options how;
    how.block_bytes = 1;
    std::optional<memory_limit> limit;
    if (own_rank() == 0 && all_ranks() > 1) limit.emplace(std::size_t{128} << 20);
    if (all_ranks() > 1) {
      EXPECT_THROW(stream(comm, own, sink, how), std::bad_alloc) << when;
    } else {
      EXPECT_NO_THROW(stream(comm, own, sink, how));
    }
    limit.reset();
    EXPECT_LE(streamed, static_cast<std::size_t>(4 * all_ranks()));
  }
}

TEST(extraction, ranges_are_concatenated_in_order) {
  for_all_trials([](trial t) {
    if (t.how_spread != spread::by_range && t.how_spread != spread::on_one_rank) return;
    EXPECT_EQ(items_of(concatenate(comm, t.own.view(), t.how).view()), t.expected_at_root());
  });
}

}  // namespace
}  // namespace icecore::ranks
