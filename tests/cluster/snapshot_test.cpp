// All keys of a version in order, from all ranks.
#include <map>
#include <random>
#include <tuple>

#include "support/ranks.hpp"

namespace icecore::testing {
namespace {

class Snapshot : public ClusterTest {
 protected:
  static std::string name(int number) {
    std::string text = std::to_string(number);
    return std::string(6 - text.size(), '0') + text;
  }

  /// 0 to count, of values that several blocks of an owner are needed for.
  version fill(cluster& c, int count) const {
    for (int i = rank(); i < count; i += ranks()) {
      c.insert(name(i), std::string(static_cast<std::size_t>(i % 1000), static_cast<char>(i)));
    }
    return c.tag();
  }

  static cluster_options by_ranges(int count) {
    cluster_options o;
    std::vector<std::string> splits;
    for (int r = 1; r < ranks(); ++r) splits.push_back(name(count * r / ranks()));
    o.ownership = ownership::by_ranges(splits);
    return o;
  }

  static void expect_between(const cluster_snapshot& then, const key_bounds& bounds, int from, int to) {
    int expected = from;
    for (const auto& [key, value] : then.range(bounds)) {
      ASSERT_EQ(key, name(expected));
      ASSERT_EQ(value, std::string(static_cast<std::size_t>(expected % 1000), static_cast<char>(expected)));
      ++expected;
    }
    ASSERT_EQ(expected, std::max(from, to));
  }

  /// From the last key down, and to and fro.
  static void check_backward(const cluster_snapshot& then, int count) {
    for (const auto& [bounds, from, to] : {std::tuple{key_bounds{}, 0, count},
                                           {key_bounds{name(100), name(1234)}, 100, 1234},
                                           {key_bounds{name(50), name(50)}, 50, 50}}) {
      int expected = to;
      cluster_cursor at = then.cursor(bounds);
      for (at.seek_last(); at.valid(); at.previous()) {
        --expected;
        ASSERT_EQ(at->key, name(expected));
        ASSERT_EQ(at->value, std::string(static_cast<std::size_t>(expected % 1000), static_cast<char>(expected)));
      }
      ASSERT_EQ(expected, from);
    }
    std::mt19937 random(7);
    cluster_cursor at = then.cursor(key_bounds{name(10), name(count - 10)});
    for (int i = 0; i < 20; ++i) {
      int place = 20 + static_cast<int>(random() % static_cast<unsigned>(count - 40));
      at.seek_before(name(place));
      ASSERT_EQ(at->key, name(--place));
      at.seek_after(at->key);  // the cursor's own key, which lies in what seeking gives up
      ASSERT_EQ(at->key, name(++place));
      at.seek(at->key);
      ASSERT_EQ(at->key, name(place));
      for (int step = 0; step < 8; ++step) {
        const bool up = random() % 2 == 0;
        up ? at.next() : at.previous();
        place += up ? 1 : -1;
        ASSERT_EQ(at->key, name(place));
      }
    }
    at.seek_before(name(10));
    EXPECT_FALSE(at.valid());
    at.seek_before(name(5));
    EXPECT_FALSE(at.valid());
    at.seek_after(name(count));
    EXPECT_FALSE(at.valid());
    at.seek_before(name(count) + "x");
    EXPECT_EQ(at->key, name(count - 11));
    at.seek_after(name(3));
    EXPECT_EQ(at->key, name(10));
  }

  static void check(const cluster& c, version v, int count) {
    const cluster_snapshot then = c.at(v);
    EXPECT_EQ(then.version(), v);
    EXPECT_EQ(then.size(), static_cast<std::uint64_t>(count));
    expect_between(then, {}, 0, count);
    expect_between(then, {name(100), name(1234)}, 100, 1234);
    expect_between(then, {std::nullopt, name(7)}, 0, 7);
    expect_between(then, {name(count - 5), std::nullopt}, count - 5, count);
    expect_between(then, {name(50), name(50)}, 50, 50);
    expect_between(then, key_bounds::of_prefix("0012"), 1200, 1300);
    expect_between(then, key_bounds::of_prefix("x"), 0, 0);

    cluster_cursor at = then.cursor();
    EXPECT_FALSE(at.valid());
    std::mt19937 random(static_cast<unsigned>(rank()));
    for (int i = 0; i < 20; ++i) {
      const int number = static_cast<int>(random() % static_cast<unsigned>(count - 2));
      at.seek(name(number));
      ASSERT_TRUE(at.valid());
      EXPECT_EQ(at->key, name(number));
      at.next();
      EXPECT_EQ(at->key, name(number + 1));
      at.seek(name(number) + "x");
      EXPECT_EQ(at->key, name(number + 1));
    }
    check_backward(then, count);
    at.seek(name(count));
    EXPECT_FALSE(at.valid());
    at.seek_first();
    EXPECT_EQ(at->key, name(0));
  }
};

TEST_F(Snapshot, shows_all_keys_in_order_from_every_rank) {
  constexpr int count = 3000;
  cluster c(MPI_COMM_WORLD, path());
  const version v = fill(c, count);
  for (int i = rank(); i < count; i += ranks()) c.remove(name(i));  // later
  c.tag();
  check(c, v, count);
  EXPECT_EQ(c.at(v + 1).size(), 0U);
  EXPECT_FALSE(c.at(v + 1).range().begin() != c.at(v + 1).range().end());
  c.close();
}

TEST_F(Snapshot, shows_ranges_of_owners_one_after_the_other) {
  constexpr int count = 3000;
  cluster c(MPI_COMM_WORLD, path(), by_ranges(count));
  for (int r = 0; r < ranks(); ++r) EXPECT_EQ(c.owner_of(name(count * r / ranks())), r);
  check(c, fill(c, count), count);
  c.close();
}

TEST_F(Snapshot, of_an_empty_cluster_is_empty) {
  cluster c(MPI_COMM_WORLD, path());
  const version v = c.tag();
  EXPECT_EQ(c.at(v).size(), 0U);
  cluster_cursor at = c.at(v).cursor();
  at.seek_first();
  EXPECT_FALSE(at.valid());
  c.close();
}

TEST_F(Snapshot, stays_as_it_is_while_others_write) {
  cluster c(MPI_COMM_WORLD, path());
  const version v = fill(c, 500);
  int expected = 0;
  for (const auto& [key, value] : c.at(v).range()) {
    c.insert(name(expected), "changed while it is read");
    ASSERT_EQ(key, name(expected++));
    ASSERT_EQ(value.size(), static_cast<std::size_t>((expected - 1) % 1000));
  }
  EXPECT_EQ(expected, 500);
  c.close();
}

TEST_F(Snapshot, pages_of_a_filter_are_asked_for_by_one_rank_alone) {
  cluster c(MPI_COMM_WORLD, path(), small_buffers());
  constexpr int keys = 90;
  for (int i = 0; i < keys; ++i) c.insert("key " + std::to_string(rank() * keys + i), std::to_string(i));
  c.barrier();
  const version v = c.tag();
  const auto then = c.at(v);
  const filter some("ends_with(value, '7')");
  const auto all = static_cast<std::uint64_t>(9 * ranks());
  EXPECT_EQ(then.count(some), all);
  for (const bool reverse : {false, true}) {
    for (const std::uint64_t matches : {1U, 4U, 9U, 1000U}) {
      std::vector<std::pair<std::string, std::string>> found;
      std::string token;
      std::uint64_t examined = 0;
      for (bool end = false; !end;) {
        const page_limits limits{.matches = matches, .examined = 50, .reverse = reverse, .secret = "secret"};
        const cluster_page p = then.page(some, limits, token);
        EXPECT_EQ(p.items, then.page(some, limits, token).items);
        EXPECT_LE(p.items.size(), matches);
        EXPECT_LE(p.examined, 50U);
        EXPECT_EQ(p.token.empty(), p.end);
        found.insert(found.end(), p.items.begin(), p.items.end());
        examined += p.examined;
        token = p.token;
        end = p.end;
        ASSERT_LE(found.size(), all);
      }
      EXPECT_EQ(examined, static_cast<std::uint64_t>(keys * ranks()));
      ASSERT_EQ(found.size(), all);
      // rank by rank, and in key order within each
      for (std::size_t i = 1; i < found.size(); ++i) {
        const auto place = [&](const std::string& key) { return std::pair(c.owner_of(key), key); };
        EXPECT_EQ(place(found[i - 1].first) < place(found[i].first), !reverse);
      }
    }
  }
  const std::string token = then.page(some, {.matches = 2}).token;
  std::string other = token;
  other[0] = static_cast<char>(ranks());
  EXPECT_EQ(error_of([&] { static_cast<void>(then.page(some, {}, other)); }).code, errc::bad_token);
  other = token;
  other.back() = static_cast<char>(other.back() ^ 1);
  EXPECT_EQ(error_of([&] { static_cast<void>(then.page(some, {}, other)); }).code, errc::bad_token);
  EXPECT_EQ(error_of([&] { static_cast<void>(then.page(some, {}, token.substr(0, 3))); }).code, errc::bad_token);
  EXPECT_EQ(error_of([&] { static_cast<void>(then.page(filter("true"), {}, token)); }).code, errc::bad_token);
  EXPECT_EQ(error_of([&] { static_cast<void>(then.page(some, {.matches = 0})); }).code, errc::invalid_argument);
  // a function of this program is called where its memory is
  const filter mine = filter::of("mine", 1, [](const item& i) { return i.value == "7"; });
  for (int owner = 0; owner < ranks(); ++owner) {
    if (c.reaches_directly(owner)) continue;
    EXPECT_EQ(error_of([&] { static_cast<void>(then.count(mine)); }).code, errc::unknown_function);
    break;
  }
  c.barrier();
  c.close();
}

}  // namespace
}  // namespace icecore::testing
