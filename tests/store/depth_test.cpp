// Long histories and large values are found correctly at any depth and size, at a cost that hardly grows.
#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "icecore/icecore.hpp"
#include "store/core.hpp"
#include "support/expect.hpp"
#include "support/model.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

/// The seconds that `count` finds take at random versions of a history `depth` deep. Each answer is checked.
double seconds_of_finds(const map<std::uint32_t, std::uint64_t>& deep, std::uint64_t depth, std::uint64_t count) {
  std::mt19937_64 random(depth);
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < count; ++i) {
    const version at = 1 + random() % depth;
    if (deep.find(1, at) != at) throw std::runtime_error("wrong value in version " + std::to_string(at));
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void run_deep(std::uint64_t depth) {
  const scratch folder;
  const auto path = folder / "deep.ice";
  {
    store s(path);
    map<std::uint32_t, std::uint64_t> deep(s);
    for (std::uint64_t v = 1; v <= depth; ++v) {
      deep.insert(1, v);
      ASSERT_EQ(s.tag(), v);
    }
    seconds_of_finds(deep, depth, 20'000);
    EXPECT_EQ(s.stats().records, depth);
    EXPECT_EQ(s.stats().keys, 1U);
  }
  store s(path);
  const map<std::uint32_t, std::uint64_t> deep(s);
  seconds_of_finds(deep, depth, 20'000);
  const auto oldest_first = deep.history_oldest_first(1);
  ASSERT_EQ(oldest_first.size(), depth);
  for (std::uint64_t v = 1; v <= depth; ++v) ASSERT_EQ(oldest_first[v - 1].version, v);
  version expected = depth;
  for (const auto& [version, value] : deep.history(1)) {
    ASSERT_EQ(version, expected);
    ASSERT_EQ(value, expected);
    --expected;
  }
  EXPECT_EQ(expected, 0U);
}

/// Pretends that the key has this many records: only in memory, while the store is open.
void pretend_depth(const store& s, std::string_view key, std::uint32_t depth) {
  const link entry = s.core().entry_of(key);
  s.core().records().at(entry).header().depth = depth;
}

TEST(Depth, a_write_that_a_history_has_no_room_for_is_refused_and_the_store_goes_on) {
  for (const index_kind kind : {index_kind::btree, index_kind::persistent}) {
    SCOPED_TRACE(static_cast<int>(kind));
    const scratch folder;
    options opening;
    opening.index = kind;
    store s(folder / "deep.ice", opening);
    s.insert("deep", "first");
    s.insert("other", "1");
    pretend_depth(s, "deep", format::depth_max);
    const auto records = s.stats().records;
    expect_error(errc::invalid_argument, "'deep' has 4294967295 records", [&] { s.insert("deep", "one more"); });
    expect_error(errc::invalid_argument, "'deep' has 4294967295 records", [&] { s.remove("deep"); });
    batch together;
    together.insert("a", "linked before the deep one");
    together.insert("deep", "one more");
    together.insert("new", "behind it");
    expect_error(errc::invalid_argument, "'deep' has 4294967295 records", [&] { s.apply(together); });
    EXPECT_EQ(s.find("deep"), "first");
    EXPECT_EQ(s.find("a"), std::nullopt);
    EXPECT_EQ(s.stats().records, records);
    EXPECT_EQ(s.insert("other", "2"), s.clock()) << "a refused write has stopped others";
    pretend_depth(s, "deep", 1);
    s.insert("deep", "second");
    s.close();
    const store again(folder / "deep.ice");
    EXPECT_EQ(again.find("deep"), "second");
    EXPECT_EQ(again.find("other"), "2");
    EXPECT_TRUE(again.verify().ok());
  }
}

#ifdef ICECORE_LONG_TESTS

TEST(Depth, a_history_a_million_deep_is_read_right_at_every_version) { run_deep(1'000'000); }

TEST(Depth, the_largest_value_is_kept_and_a_larger_one_is_refused) {
  const scratch folder;
  const auto path = folder / "huge.ice";
  if (std::filesystem::space(folder.path()).available < (std::uintmax_t{10} << 30)) GTEST_SKIP() << "needs 10 GiB";
  std::string huge(value_size_max, 'x');
  for (std::size_t i = 0; i < huge.size(); i += 4093) huge[i] = static_cast<char>(i >> 12);
  {
    store s(path);
    s.insert("huge", huge);
    s.insert("after", "small");
    EXPECT_TRUE(s.find("huge") == huge);
    huge.push_back('y');
    EXPECT_THROW(s.insert("larger", huge), error);
    batch some;
    EXPECT_THROW(some.insert("larger", huge), error);
    huge.pop_back();
    EXPECT_EQ(s.find("larger"), std::nullopt);
  }
  const store s(path);
  EXPECT_TRUE(s.find("huge") == huge);
  EXPECT_EQ(s.find("after"), "small");
  EXPECT_TRUE(s.verify().ok());
}

#else

/// What each version of a key shows, from its history, which is read record by record.
std::vector<std::optional<std::string> > answers_of(const store& s, const std::string& key) {
  std::vector<std::optional<std::string> > answers(s.clock());
  const auto records = s.history(key).oldest_first();
  std::size_t next = 0;
  std::optional<std::string> now;
  for (version at = 0; at < answers.size(); ++at) {
    for (; next < records.size() && records[next].version <= at; ++next) {
      now = records[next].value ? std::optional<std::string>(*records[next].value) : std::nullopt;
    }
    answers[at] = now;
  }
  return answers;
}

void expect_finds_agree_with_histories(const store& s, unsigned keys) {
  for (unsigned key = 0; key < keys; ++key) {
    const std::string name = std::to_string(key);
    const auto answers = answers_of(s, name);
    for (version at = 0; at < answers.size(); ++at) {
      ASSERT_EQ(s.find(name, at), answers[at]) << "key " << key << " in version " << at;
    }
  }
}

TEST(Depth, finds_agree_with_deep_histories_that_have_gaps_and_crowds) {
  const scratch folder;
  const auto path = folder / "gaps.ice";
  constexpr unsigned keys = 4;
  {
    store s(path);
    std::mt19937 random(3);
    for (unsigned n = 0; n < 40'000; ++n) {
      // runs of many records in one version, runs of many versions without a record, keys written at different rates
      const unsigned mood = n / 500 % 4;
      const std::string key = std::to_string(std::min(static_cast<unsigned>(random()) % 8, keys - 1));
      switch (random() % 6) {
        case 0:
          static_cast<void>(s.remove(key));
          break;
        default:
          s.insert(key, std::to_string(n));
      }
      if (mood == 1 || (mood == 2 && random() % 20 == 0)) s.tag();
      for (unsigned idle = 0; mood == 3 && idle < 3; ++idle) s.tag();
    }
    s.tag();
    expect_finds_agree_with_histories(s, keys);
  }
  expect_finds_agree_with_histories(store(path), keys);
}

TEST(Depth, finds_agree_with_deep_histories_that_many_threads_wrote) {
  const scratch folder;
  const auto path = folder / "threads.ice";
  {
    store s(path);
    in_threads(6, [&](unsigned thread) {
      std::mt19937 random(thread);
      for (unsigned n = 0; n < 6'000; ++n) {
        const std::string key = std::to_string(random() % 2);
        switch (random() % 8) {
          case 0:
            static_cast<void>(s.remove(key));
            break;
          case 1:
            s.tag();
            break;
          case 2: {
            const version at = s.clock() - 1;
            const auto first = s.find(key, at);
            promise(s.find(key, at) == first, [] { return std::string("two finds of one version differ"); });
            break;
          }
          default:
            s.insert(key, std::to_string(thread * 100'000 + n));
        }
      }
    });
    s.tag();
    expect_finds_agree_with_histories(s, 2);
  }
  expect_finds_agree_with_histories(store(path), 2);
}

TEST(Depth, a_history_a_hundred_thousand_deep_is_read_right_at_every_version) { run_deep(100'000); }

TEST(Depth, a_value_larger_than_its_type_allows_is_refused_before_it_is_read) {
  const scratch folder;
  store s(folder / "refused.ice");
  // the view lies about its size: a store that read the bytes would crash
  const std::string_view larger("x", value_size_max + 1);
  try {
    s.insert("larger", larger);
    ADD_FAILURE() << "no error";
  } catch (const error& failure) {
    EXPECT_EQ(failure.code(), errc::value_too_large) << failure.what();
  }
  EXPECT_EQ(s.stats().keys, 0U);
}

#endif

}  // namespace
}  // namespace icecore::testing
