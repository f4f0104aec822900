// Extracting a version over all ranks: every method against a model that every rank knows, and against the cursor.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <thread>

#include "support/ranks.hpp"

namespace icecore::testing {
namespace {

using model = std::map<std::string, std::string>;
using pairs = std::vector<std::pair<std::string, std::string>>;

constexpr extraction_method all_methods[] = {extraction_method::gather, extraction_method::naive_merge,
                                             extraction_method::opt_merge, extraction_method::distributed};

class Extraction : public ClusterTest {
 protected:
  /// The same on all ranks: keys and values of any size, or of 8 bytes each.
  static model random_model(unsigned seed, int count, bool words) {
    std::mt19937 random(seed);
    const auto text = [&](std::size_t size_max) {
      std::string made(words ? 8 : random() % (size_max + 1), '\0');
      for (char& byte : made) byte = static_cast<char>(random());
      return made;
    };
    model all;
    for (int i = 0; i < count; ++i) all[text(20)] = text(100);
    return all;
  }

  /// Each rank writes a part of the model, to whomever it belongs.
  static version fill(cluster& c, const model& all) {
    int number = 0;
    for (const auto& [key, value] : all) {
      if (number++ % ranks() == rank()) c.insert(key, value);
    }
    return c.tag();
  }

  static cluster_options on_rank_0_only() {
    cluster_options o;
    o.ownership = ownership::by_function("rank-0", [](std::string_view, int) { return 0; });
    return o;
  }
  static cluster_options by_ranges() {
    cluster_options o;
    std::vector<std::string> splits;
    for (int r = 1; r < ranks(); ++r) splits.emplace_back(1, static_cast<char>(256 * r / ranks()));
    o.ownership = ownership::by_ranges(splits);
    return o;
  }

  static pairs within(const model& all, const key_bounds& bounds) {
    const auto from = bounds.from ? all.lower_bound(*bounds.from) : all.begin();
    const auto to = bounds.to ? all.lower_bound(*bounds.to) : all.end();
    return {from, to};
  }

  static pairs pairs_of(const extracted_pairs& extracted) {
    pairs all;
    for (std::size_t i = 0; i < extracted.size(); ++i) all.emplace_back(extracted[i].key, extracted[i].value);
    return all;
  }

  /// The stretches of all ranks, one behind the other, on every rank.
  static pairs all_stretches(const pairs& mine) {
    std::string bytes;
    const auto put = [&bytes](const std::string& text) {
      const auto size = static_cast<std::uint32_t>(text.size());
      bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
      bytes.append(text);
    };
    for (const auto& [key, value] : mine) {
      put(key);
      put(value);
    }
    std::vector<int> sizes(static_cast<std::size_t>(ranks()));
    const int size = static_cast<int>(bytes.size());
    MPI_Allgather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, MPI_COMM_WORLD);
    std::vector<int> begins{0};
    for (const int one : sizes) begins.push_back(begins.back() + one);
    std::string all(static_cast<std::size_t>(begins.back()), '\0');
    MPI_Allgatherv(bytes.data(), size, MPI_BYTE, all.data(), sizes.data(), begins.data(), MPI_BYTE, MPI_COMM_WORLD);
    pairs read;
    auto take = [&, at = std::size_t{0}]() mutable {
      std::uint32_t length = 0;
      std::memcpy(&length, all.data() + at, sizeof length);
      at += sizeof length + length;
      return all.substr(at - length, length);
    };
    for (std::size_t bytes_read = 0; bytes_read < all.size();) {
      std::string key = take();
      std::string value = take();
      bytes_read += 2 * sizeof(std::uint32_t) + key.size() + value.size();
      read.emplace_back(std::move(key), std::move(value));
    }
    return read;
  }

  static pairs streamed(const cluster_snapshot& then, const extraction_options& how) {
    pairs all;
    then.stream(
        [&all](std::span<const item> some) {
          for (const item& one : some) all.emplace_back(one.key, one.value);
        },
        how);
    return all;
  }

  static void check(const cluster_snapshot& then, const model& all, const extraction_options& how, bool ordered) {
    const pairs expected = within(all, how.bounds);
    const bool root = rank() == how.root;
    for (const extraction_method method : all_methods) {
      const extracted_pairs extracted = then.extract(method, how);
      pairs found = pairs_of(extracted);
      if (method == extraction_method::distributed) found = all_stretches(found);
      if (method == extraction_method::gather) std::sort(found.begin(), found.end());
      const bool here = root || method == extraction_method::distributed;
      EXPECT_EQ(found, here ? expected : pairs{}) << "method " << static_cast<int>(method);
    }
    EXPECT_EQ(streamed(then, how), root ? expected : pairs{});
    if (ordered) {
      EXPECT_EQ(pairs_of(then.extract(extraction_method::concatenate, how)), root ? expected : pairs{});
    }
    pairs by_cursor;
    for (const auto& [key, value] : then.range(how.bounds)) by_cursor.emplace_back(key, value);
    EXPECT_EQ(by_cursor, expected);
  }

  /// Some member of the class of functions that a rank calls for its error.
  static thrown error_of_extract(const cluster_snapshot& then, const extraction_options& how) {
    return error_of([&] { static_cast<void>(then.extract(extraction_method::opt_merge, how)); });
  }

  static void expect_everything_still_works(const cluster_snapshot& then, std::size_t count) {
    EXPECT_EQ(then.extract(extraction_method::opt_merge).size(), rank() == 0 ? count : 0);
  }
};

TEST_F(Extraction, all_methods_give_what_the_model_and_the_cursor_have) {
  for (const bool words : {false, true}) {
    for (const bool ordered : {false, true}) {
      const model all = random_model(words ? 1 : 2, 3000, words);
      cluster c(MPI_COMM_WORLD, path() / std::to_string(2 * words + ordered),
                ordered ? by_ranges() : cluster_options());
      const version v = fill(c, all);
      for (const auto& [key, value] : all) {
        if (c.owner_of(key) == rank()) c.insert(key, "later");
      }
      c.tag();
      const cluster_snapshot then = c.at(v);
      check(then, all, {}, ordered);
      extraction_options how;
      how.root = ranks() - 1;
      how.threads = 2;
      how.linear_scan = true;
      how.bounds = {"A", "\x80"};
      check(then, all, how, ordered);
      how.bounds = {"\x80", std::nullopt};
      how.memory_bytes_max = 1 << 20;
      check(then, all, how, ordered);
      how.bounds = {"A", "A"};
      check(then, all, how, ordered);
      c.close();
    }
  }
}

TEST_F(Extraction, of_8_byte_keys_and_values_has_no_offsets) {
  const model all = random_model(3, 500, true);
  cluster c(MPI_COMM_WORLD, path());
  const version v = fill(c, all);
  const extracted_pairs extracted = c.at(v).extract(extraction_method::opt_merge);
  if (rank() == 0) {
    EXPECT_EQ(extracted.keys().width, 8U);
    EXPECT_EQ(extracted.values().width, 8U);
    EXPECT_EQ(extracted.keys().bytes.size(), 8 * all.size());
    EXPECT_TRUE(extracted.keys().offsets.empty());
  }
  c.close();
}

TEST_F(Extraction, outlives_the_cluster) {
  const model all = random_model(4, 100, false);
  extracted_pairs extracted;
  {
    cluster c(MPI_COMM_WORLD, path());
    const version v = fill(c, all);
    extracted = c.at(v).extract(extraction_method::opt_merge);
    c.close();
  }
  EXPECT_EQ(pairs_of(extracted), rank() == 0 ? within(all, {}) : pairs{});
}

TEST_F(Extraction, of_an_empty_cluster_is_empty) {
  cluster c(MPI_COMM_WORLD, path(), by_ranges());
  check(c.at(c.tag()), {}, {}, true);
  c.close();
}

TEST_F(Extraction, of_ranks_without_keys_is_that_of_the_others) {
  const model all = random_model(5, 1000, false);
  cluster c(MPI_COMM_WORLD, path(), on_rank_0_only());
  const cluster_snapshot then = c.at(fill(c, all));
  check(then, all, {}, false);
  extraction_options how;
  how.root = ranks() - 1;
  check(then, all, how, false);
  c.close();
}

TEST_F(Extraction, finds_by_broadcast_what_find_finds) {
  const model all = random_model(6, 200, false);
  cluster c(MPI_COMM_WORLD, path());
  const cluster_snapshot then = c.at(fill(c, all));
  const std::string long_value(100'000, 'v');
  c.insert("long", long_value);
  const cluster_snapshot now = c.at(c.tag());
  int number = 0;
  for (const auto& [key, value] : all) {
    const int root = number++ % ranks();
    const auto found = then.find_by_broadcast(rank() == root ? key : "not looked at", root);
    EXPECT_EQ(found, rank() == root ? std::optional(value) : std::nullopt);
  }
  EXPECT_EQ(then.find_by_broadcast("long"), std::nullopt);
  EXPECT_EQ(now.find_by_broadcast("long"), rank() == 0 ? std::optional(long_value) : std::nullopt);
  EXPECT_EQ(error_of([&] { static_cast<void>(now.find_by_broadcast(std::string(70'000, 'k'))); }).code,
            errc::key_too_long);
  EXPECT_EQ(error_of([&] { static_cast<void>(now.find_by_broadcast("long", ranks())); }).code, errc::invalid_argument);
  c.close();
}

TEST_F(Extraction, throws_on_all_ranks_what_one_rank_does_wrong) {
  const model all = random_model(7, 2000, false);
  const int wrong = ranks() - 1;
  const std::string reported = "rank " + std::to_string(wrong) + ": ";
  cluster c(MPI_COMM_WORLD, path());
  const cluster_snapshot then = c.at(fill(c, all));
  extraction_options how;
  if (rank() == wrong) how.bounds = {"b", "a"};
  for (const thrown& error :
       {error_of_extract(then, how), error_of([&] { then.stream([](std::span<const item>) {}, how); })}) {
    EXPECT_EQ(error.code, errc::invalid_argument);
    EXPECT_THAT(error.message, ::testing::StartsWith(reported + "the bounds of an extraction are in the wrong order"));
  }
  if (ranks() > 1) {
    how = {};
    how.root = rank() == wrong ? 1 : 0;
    EXPECT_EQ(error_of_extract(then, how).code, errc::invalid_argument) << "other roots";
  }
  how = {};
  how.root = ranks();
  EXPECT_EQ(error_of_extract(then, how).code, errc::invalid_argument) << "no such root";
  EXPECT_EQ(error_of([&] { static_cast<void>(then.extract(extraction_method::concatenate)); }).code,
            errc::invalid_argument);
  expect_everything_still_works(then, all.size());
  c.close();
}

TEST_F(Extraction, throws_on_all_ranks_what_the_check_of_one_throws) {
  const model all = random_model(12, 1000, false);
  cluster c(MPI_COMM_WORLD, path());
  const cluster_snapshot then = c.at(fill(c, all));
  const std::string wrong = all.rbegin()->first;
  const int owner = c.owner_of(wrong);
  std::size_t checked = 0;
  extraction_options how;
  how.check = [&](const item& one) {
    EXPECT_EQ(all.at(std::string(one.key)), one.value);
    ++checked;
  };
  for (const extraction_method method : all_methods) static_cast<void>(then.extract(method, how));
  std::size_t own = 0;
  for (const auto& [key, value] : all) own += c.owner_of(key) == rank() ? 1 : 0;
  EXPECT_EQ(checked, std::size(all_methods) * own);
  how.check = [&](const item& one) {
    if (one.key == wrong) throw error(errc::bad_input, "this one");
  };
  const thrown error = error_of_extract(then, how);
  EXPECT_EQ(error.code, errc::bad_input);
  EXPECT_EQ(error.message, "rank " + std::to_string(owner) + ": this one");
  expect_everything_still_works(then, all.size());
  c.close();
}

TEST_F(Extraction, throws_on_all_ranks_if_one_needs_more_memory_than_it_may_take) {
  const model all = random_model(8, 2000, false);
  cluster c(MPI_COMM_WORLD, path(), on_rank_0_only());
  const cluster_snapshot then = c.at(fill(c, all));
  extraction_options how;
  how.memory_bytes_max = 40'000;  // less than the pairs of rank 0, and more than the others'
  thrown error = error_of_extract(then, how);
  EXPECT_EQ(error.code, errc::invalid_argument);
  EXPECT_THAT(error.message, ::testing::StartsWith("rank 0: the pairs of this rank need more than"));
  how.memory_bytes_max = 200'000;  // enough for the pairs, not for merging them
  how.root = ranks() - 1;
  if (ranks() > 1) {
    error = error_of_extract(then, how);
    EXPECT_EQ(error.code, errc::invalid_argument);
    EXPECT_THAT(error.message, ::testing::HasSubstr("memory_bytes_max allows 200000"));
  }
  EXPECT_EQ(streamed(then, how), rank() == how.root ? within(all, {}) : pairs{});
  how.memory_bytes_max = 1000;
  EXPECT_EQ(error_of([&] { then.stream([](std::span<const item>) {}, how); }).code, errc::invalid_argument);
  expect_everything_still_works(then, all.size());
  c.close();
}

TEST_F(Extraction, throws_on_all_ranks_what_a_sink_throws) {
  const model all = random_model(9, 20'000, false);
  cluster c(MPI_COMM_WORLD, path());
  const cluster_snapshot then = c.at(fill(c, all));
  extraction_options how;
  how.root = ranks() / 2;
  how.memory_bytes_max = 64 * 1024;  // small blocks
  for (const int pieces_before : {0, 1, 7}) {
    int pieces = 0;
    const auto sink = [&](std::span<const item>) {
      if (pieces++ == pieces_before) throw error(errc::no_space, "the disk is full");
    };
    EXPECT_EQ(error_of([&] { then.stream(sink, how); }).code, errc::no_space);
    EXPECT_EQ(pieces, rank() == how.root ? pieces_before + 1 : 0);
    expect_everything_still_works(then, all.size());
  }
  c.close();
}

TEST_F(Extraction, throws_on_all_ranks_if_one_has_a_damaged_value) {
  const int wrong = ranks() - 1;
  const std::string value = "here it begins " + std::string(100'000, 'x');
  version v = 0;
  std::string key;
  {
    cluster c(MPI_COMM_WORLD, path());
    key = key_of(c, wrong);
    c.insert(key_of(c, rank(), 1), "sound");
    if (rank() == wrong) c.insert(key, value);
    for (int filled = 0, i = 0; filled < 20; ++i) {  // so that a stream comes to it later than in its first block
      const std::string before = "a" + std::to_string(i);
      if (c.owner_of(before) != wrong) continue;
      if (rank() == wrong) c.insert(before, std::string(10'000, 'f'));
      ++filled;
    }
    v = c.tag();
    c.close();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank() == wrong) {
    const auto pool = path() / ("rank-" + std::to_string(wrong) + ".ice");
    std::fstream file(pool, std::ios::in | std::ios::out | std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const auto place = bytes.find("here it begins");
    ASSERT_NE(place, std::string::npos);
    file.seekp(static_cast<std::streamoff>(place + 50'000));
    file.put('y');
  }
  MPI_Barrier(MPI_COMM_WORLD);
  cluster c(MPI_COMM_WORLD, path());
  const cluster_snapshot then = c.at(v);
  for (const extraction_method method : all_methods) {
    EXPECT_EQ(error_of([&] { static_cast<void>(then.extract(method)); }).code, errc::damaged);
  }
  EXPECT_EQ(error_of([&] { then.stream([](std::span<const item>) {}); }).code, errc::damaged);
  EXPECT_EQ(error_of([&] { static_cast<void>(then.find_by_broadcast(key)); }).code, errc::damaged);
  extraction_options how;  // without it
  how.bounds = {key + "\x01", std::nullopt};
  EXPECT_LE(then.extract(extraction_method::gather, how).size(), static_cast<std::size_t>(ranks()));
  c.close();
}

TEST_F(Extraction, is_no_other_collective_function) {
  if (ranks() == 1) GTEST_SKIP() << "one rank always agrees with itself";
  cluster c(MPI_COMM_WORLD, path());
  const cluster_snapshot then = c.at(c.tag());
  const thrown error = error_of([&] {
    if (rank() == 0) {
      c.barrier();
    } else {
      static_cast<void>(then.extract(extraction_method::gather));
    }
  });
  EXPECT_EQ(error.code, errc::mpi);
  EXPECT_THAT(error.message, ::testing::HasSubstr("some ranks called barrier while others called extract"));
}

TEST_F(Extraction, lets_the_sink_of_the_root_read_and_write_the_cluster) {
  const model all = random_model(10, 2000, false);
  cluster c(MPI_COMM_WORLD, path());
  const cluster_snapshot then = c.at(fill(c, all));
  extraction_options how;
  how.root = ranks() - 1;
  how.memory_bytes_max = 64 * 1024;  // small blocks
  std::size_t count = 0;
  then.stream(
      [&](std::span<const item> some) {
        const std::string key(some.front().key);
        EXPECT_EQ(then.find(key), all.at(key));
        c.insert(key, "changed");
        c.fence();
        EXPECT_EQ(c.find(key), "changed");
        count += some.size();
      },
      how);
  EXPECT_EQ(count, rank() == how.root ? all.size() : 0);
  c.close();
}

TEST_F(Extraction, does_not_keep_finds_of_other_threads_waiting) {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  if (level != MPI_THREAD_MULTIPLE) GTEST_SKIP() << "one thread only";
  const model all = random_model(11, 20'000, false);
  for (const bool progress_thread : {true, false}) {
    cluster_options o;
    o.progress_thread = progress_thread;
    cluster c(MPI_COMM_WORLD, path() / std::to_string(progress_thread), o);
    const cluster_snapshot then = c.at(fill(c, all));
    std::atomic<bool> done{false};
    int found = 0;
    std::thread finder([&] {
      for (auto it = all.begin(); !done; ++it) {
        if (it == all.end()) it = all.begin();
        if (then.find(it->first) == it->second) ++found;
      }
    });
    for (int i = 0; i < 3; ++i) {
      for (const extraction_method method : all_methods) static_cast<void>(then.extract(method));
      EXPECT_EQ(streamed(then, {}).size(), rank() == 0 ? all.size() : 0);
    }
    // a rank that has no thread answers in its calls only, and others may still be asking it
    done = true;
    std::atomic<bool> joined{false};
    std::thread joiner([&] {
      finder.join();
      joined = true;
    });
    while (!joined) c.fence();
    joiner.join();
    c.barrier();
    EXPECT_GT(found, 0);
    c.close();
  }
}

}  // namespace
}  // namespace icecore::testing
