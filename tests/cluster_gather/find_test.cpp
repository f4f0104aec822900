// Finding over ranks: all answers are the model's, whoever asks whom.
#include "cluster/gather/find.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <random>
#include <stdexcept>

#include "icecore/error.hpp"
#include "model.hpp"

namespace icecore::ranks {
namespace {

using testing::all_ranks;
using testing::map;
using testing::own_rank;

const MPI_Comm comm = MPI_COMM_WORLD;
constexpr version shown = 7;

/// A map over the ranks, keys of any length to some hundred bytes, and every rank's lookup in its part.
struct spread_map {
  std::mt19937_64 random{5};
  map all_pairs = testing::random_map(random, 200, {0, 300}, {0, 120});
  std::vector<map> parts = testing::spread_over(random, all_pairs, all_ranks(), testing::spread::by_hash);

  [[nodiscard]] local_lookup lookup() const {
    return [this](std::string_view key, version at) -> std::optional<std::string_view> {
      if (at != shown) throw error(errc::version_not_closed, "no such version");
      const map& own = parts[static_cast<std::size_t>(own_rank())];
      const auto found = own.find(std::string(key));
      if (found == own.end()) return std::nullopt;
      return found->second;
    };
  }
  [[nodiscard]] int owner_of(const std::string& key) const {
    for (std::size_t r = 0; r < parts.size(); ++r) {
      if (parts[r].contains(key)) return static_cast<int>(r);
    }
    return all_ranks() - 1;
  }
};

TEST(find, broadcast_finds_what_any_rank_has) {
  const spread_map m;
  for (const auto& [key, value] : m.all_pairs) {
    for (const int root : {0, all_ranks() - 1}) {
      const auto answer = broadcast_find(comm, {own_rank() == root ? key : "ignored", shown}, m.lookup(), root);
      EXPECT_EQ(answer, own_rank() == root ? std::optional(value) : std::nullopt);
    }
  }
  EXPECT_EQ(broadcast_find(comm, {"no such key", shown}, m.lookup()), std::nullopt);
}

TEST(find, routed_finds_what_the_owner_has) {
  const spread_map m;
  if (own_rank() != 0) {
    serve_routed_finds(comm, m.lookup());
    return;
  }
  for (const auto& [key, value] : m.all_pairs) {
    EXPECT_EQ(routed_find(comm, m.owner_of(key), {key, shown}, m.lookup()), value);
  }
  EXPECT_EQ(routed_find(comm, all_ranks() - 1, {"no such key", shown}, m.lookup()), std::nullopt);
  end_routed_finds(comm);
}

// The address of nothing may be none: sanitizers tell whether it is read from.
TEST(find, finds_an_empty_key_and_an_empty_value_that_have_no_address) {
  const auto look = [](std::string_view key, version) -> std::optional<std::string_view> {
    if (!key.empty() || own_rank() != all_ranks() - 1) return std::nullopt;
    return std::string_view();
  };
  const question nothing{std::string_view(), shown};
  EXPECT_EQ(broadcast_find(comm, nothing, look), own_rank() == 0 ? std::optional(std::string()) : std::nullopt);
  if (own_rank() != 0) {
    serve_routed_finds(comm, look);
    return;
  }
  EXPECT_EQ(routed_find(comm, all_ranks() - 1, nothing, look), std::string());
  end_routed_finds(comm);
}

TEST(find, a_failed_lookup_is_thrown_where_it_was_asked_and_the_owner_goes_on) {
  const spread_map m;
  const auto code_of = [](const auto& work) {
    try {
      static_cast<void>(work());
    } catch (const error& e) {
      return static_cast<errc>(e.code().value());
    }
    return errc{};
  };
  EXPECT_EQ(code_of([&] { return broadcast_find(comm, {"", shown + 1}, m.lookup()); }), errc::version_not_closed);
  if (own_rank() != 0) {
    serve_routed_finds(comm, m.lookup());
  } else {
    const int owner = all_ranks() - 1;
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(code_of([&] {
                  return routed_find(comm, owner, {"", shown + 1}, m.lookup());
                }),
                errc::version_not_closed);
      EXPECT_EQ(routed_find(comm, owner, {"no such key", shown}, m.lookup()), std::nullopt);
    }
    end_routed_finds(comm);
  }
  EXPECT_EQ(broadcast_find(comm, {"no such key", shown}, m.lookup()), std::nullopt);
}

TEST(find, a_lookup_that_fails_on_one_rank_fails_a_broadcast_on_all) {
  const auto look = [](std::string_view, version) -> std::optional<std::string_view> {
    if (own_rank() == all_ranks() - 1) throw error(errc::damaged, "lost");
    return "here";
  };
  try {
    static_cast<void>(broadcast_find(comm, {"key", shown}, look));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const error& e) {
    const int last = all_ranks() - 1;
    EXPECT_EQ(e.message(), own_rank() == last ? "lost" : "rank " + std::to_string(last) + ": lost");
  }
}

TEST(find, a_key_of_two_ranks_is_an_error_on_all) {
  if (all_ranks() < 2) GTEST_SKIP() << "one rank shares no key with another";
  const std::string value(100, 'v');
  const auto look = [&](std::string_view, version) -> std::optional<std::string_view> { return value; };
  try {
    static_cast<void>(broadcast_find(comm, {"key", shown}, look));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const error& e) {
    EXPECT_EQ(static_cast<errc>(e.code().value()), errc::damaged);
  }
}

TEST(find, a_key_that_no_store_takes_is_refused_by_all) {
  const auto look = [](std::string_view, version) -> std::optional<std::string_view> { return std::nullopt; };
  const std::string key(key_size_max + 1, 'k');
  try {
    static_cast<void>(broadcast_find(comm, {key, shown}, look));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const error& e) {
    EXPECT_EQ(static_cast<errc>(e.code().value()), errc::key_too_long);
  }
}

}  // namespace
}  // namespace icecore::ranks
