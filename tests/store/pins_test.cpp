// What was read stays valid as long as what it came from, whatever becomes of the store: it is closed, opened by
// another process and written on, destroyed; and the store itself keeps nothing back: locks go at once, memory with the
// last pin.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <barrier>
#include <fstream>
#include <sstream>
#include <unordered_set>

#include "icecore/icecore.hpp"
#include "support/expect.hpp"
#include "support/model.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"
#include "support/shared_store.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

/// Bytes of addresses that this process has mapped of a file.
std::uint64_t mapped_bytes(const std::filesystem::path& file) {
  std::ifstream maps("/proc/self/maps");
  std::uint64_t sum = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find(file.native()) == std::string::npos) continue;
    const std::size_t dash = line.find('-');
    sum += std::stoull(line.substr(dash + 1), nullptr, 16) - std::stoull(line.substr(0, dash), nullptr, 16);
  }
  return sum;
}

difference difference_of(std::string_view key, std::string_view before, std::string_view after) {
  return {key, before, after};
}

void cpu_pause() {
  std::atomic_signal_fence(std::memory_order_seq_cst);  // an iteration that the compiler keeps
}

void write_much(const std::filesystem::path& path, const options& opening) {
  store s(path, opening);
  for (int i = 0; i < 3000; ++i) {
    s.insert("a", "later " + std::to_string(i));
    s.insert("new " + std::to_string(i), std::string(200, 'n'));
  }
  s.tag();
}

class Pins : public ::testing::TestWithParam<setting> {
 protected:
  [[nodiscard]] options opening() const { return GetParam().options_at(path_); }
  void make_store() const {
    store made(path_, opening());
    made.insert("a", "1");
    made.insert("b", std::string(100'000, 'b'));
    made.insert("c", "3");
    made.tag("one");
    made.insert("a", "2");
    made.remove("c");
    made.tag("two");
  }

  scratch folder_{GetParam().where};
  std::filesystem::path path_ = folder_ / "pinned.ice";
};

TEST_P(Pins, whatever_was_read_outlives_the_store_and_its_next_writers) {
  make_store();
  std::optional<store> s(std::in_place, path_, opening());
  const std::optional<value> newest = s->find("a");
  const std::optional<value> before = s->at("one").find("a");
  const value large = s->find("b", 1).value();
  const snapshot one = s->at("one");
  const auto seen = one.find("c");
  const auto last = one.last();
  cursor at = s->at(1).cursor();
  at.seek("b");
  auto range = s->at(1).range();
  auto in_range = range.begin();
  key_history past = s->history("a");
  auto in_past = past.begin();
  const auto changes = s->history("c").oldest_first();
  const auto items = s->at(1).items(2);
  const auto keys = s->keys();
  diff_range difference = s->diff(1, 2);
  auto in_difference = difference.begin();
  const std::vector<std::string_view> wanted = {"a", "nothing", "c"};
  std::vector<std::optional<std::string_view>> found(3);
  const pin holds = s->find_many(wanted, 1, found);
  map<std::string, std::string> words(*s);
  const auto word = words.find("a");

  s->close();
  write_much(path_, opening());  // throws errc::locked unless the lock is gone
  s.reset();

  EXPECT_EQ(newest, "2");
  EXPECT_EQ(before, "1");
  EXPECT_EQ(large, std::string(100'000, 'b'));
  EXPECT_EQ(seen, "3");
  EXPECT_EQ(last, (item{"c", "3"}));
  EXPECT_EQ(at->key, "b");
  EXPECT_EQ(at->value.size(), 100'000U);
  EXPECT_EQ(*in_range, (item{"a", "1"}));
  EXPECT_EQ(*in_past, (change{2, "2"}));
  EXPECT_EQ(changes, (std::vector<change>{{1, "3"}, {2, std::nullopt}}));
  EXPECT_EQ(items.size(), 3U);
  EXPECT_EQ(items[2], (item{"c", "3"}));
  EXPECT_EQ(keys, (std::vector<std::string_view>{"a", "b", "c"}));
  EXPECT_EQ(*in_difference, difference_of("a", "1", "2"));
  EXPECT_EQ(found[0], "1");
  EXPECT_FALSE(found[1]);
  EXPECT_EQ(found[2], "3");
  EXPECT_EQ(word, "2");

  const auto closed = [](const auto& call) { expect_error(errc::closed, "closed", call); };
  closed([&] { static_cast<void>(one.find("a")); });
  closed([&] { static_cast<void>(snapshot(one).find("a")); });
  closed([&] { one.find_many(wanted, found); });
  closed([&] { static_cast<void>(one.first()); });
  closed([&] { static_cast<void>(one.size()); });
  closed([&] { static_cast<void>(one.size_bound()); });
  closed([&] { static_cast<void>(one.items()); });
  closed([&] { static_cast<void>(one.extract()); });
  closed([&] { static_cast<void>(one.extract(fixed_columns{})); });
  closed([&] { one.for_each([](const item&) {}); });
  closed([&] { static_cast<void>(one.history("a")); });
  closed([&] { at.next(); });
  EXPECT_FALSE(at.valid()) << "a move that throws leaves the cursor at its item";
  closed([&] { at.previous(); });
  closed([&] { at.seek("a"); });
  closed([&] { at.seek_first(); });
  closed([&] { at.seek_last(); });
  closed([&] { ++in_range; });
  EXPECT_TRUE(in_range == range.end());
  closed([&] { static_cast<void>(range.begin()); });
  closed([&] { ++in_past; });
  closed([&] { static_cast<void>(past.newest_first()); });
  closed([&] { static_cast<void>(difference.begin()); });
  EXPECT_EQ(*in_past, (change{2, "2"})) << "a step that throws leaves the change that was there";
}

TEST_P(Pins, the_last_pin_gives_the_memory_back_and_until_then_only_the_file_is_mapped) {
  make_store();
  std::optional<store> s(std::in_place, path_, opening());
  std::optional<value> first = s->find("a");
  std::optional<value> second = first;
  std::optional<snapshot> then = s->at(1);
  EXPECT_EQ(s->stats().pins, 3U);
  EXPECT_GT(mapped_bytes(path_), 0U);
  s->close();
  std::uint64_t bytes = 0;
  for (const auto& each : std::filesystem::directory_iterator(folder_.path())) {
    bytes += std::filesystem::file_size(each) + (std::uint64_t{4} << 20);  // and what alignment costs
  }
  EXPECT_GT(mapped_bytes(path_), 0U);
  EXPECT_LE(mapped_bytes(path_), bytes) << "addresses that were reserved for growth are kept";
  first.reset();
  then.reset();
  EXPECT_EQ(second, "2");
  EXPECT_GT(mapped_bytes(path_), 0U);
  second.reset();
  EXPECT_EQ(mapped_bytes(path_), 0U);

  s.emplace(path_, opening());
  first = s->find("a");
  first.reset();
  EXPECT_EQ(s->stats().pins, 0U);
  s.reset();
  EXPECT_EQ(mapped_bytes(path_), 0U) << "a store without pins keeps memory when it is closed";
}

INSTANTIATE_TEST_SUITE_P(Settings, Pins,
                         ::testing::Values(setting{place::tmpfs, durability::operation},
                                           setting{place::tmpfs, durability::operation, index_kind::persistent, 3},
                                           setting{place::tmpfs, durability::none, index_kind::skip_list},
                                           setting{place::disk, durability::tag, index_kind::persistent}),
                         [](const auto& tested) { return tested.param.name(); });

// ---- Counting ----

class PinCounts : public ::testing::Test {
 protected:
  scratch folder_;
  std::filesystem::path path_ = folder_ / "counted.ice";
};

TEST_F(PinCounts, threads_that_release_while_another_closes_give_up_the_memory_once_and_only_then) {
  constexpr unsigned threads = 4;
  constexpr int rounds = 300;
  const deadline in_time("pins of a closing store", 100s);
  { store(path_).insert("a", std::string(5000, 'x')); }
  std::optional<store> s;
  std::barrier together(threads + 1);
  std::atomic<int> wrong{0};
  std::vector<std::jthread> readers;
  for (unsigned t = 0; t < threads; ++t) {
    readers.emplace_back([&, t] {
      for (int round = 0; round < rounds; ++round) {
        together.arrive_and_wait();  // it is open
        value held = s->find("a").value();
        const value copied = held;
        together.arrive_and_wait();  // it is being closed
        for (unsigned i = 0; i < (t * 97U + static_cast<unsigned>(round) * 31U) % 400; ++i) cpu_pause();
        held = value(copied);
        if (held.bytes().front() != 'x' || held.bytes().back() != 'x') ++wrong;
      }
    });
  }
  for (int round = 0; round < rounds; ++round) {
    s.emplace(path_);
    together.arrive_and_wait();
    together.arrive_and_wait();
    s->close();
  }
  readers.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(mapped_bytes(path_), 0U) << "a store's memory was never given up";
}

TEST_F(PinCounts, more_threads_than_there_are_lines_of_their_own_are_counted) {
  constexpr unsigned threads = 200;
  std::optional<store> s(std::in_place, path_);
  s->insert("a", "1");
  s->tag();
  std::barrier together(threads + 1);
  std::vector<std::optional<snapshot>> handed(threads);
  std::vector<std::jthread> others;
  for (unsigned t = 0; t < threads; ++t) {
    others.emplace_back([&, t] {
      together.arrive_and_wait();  // none counts alone
      const auto found = s->find("a");
      handed[t] = s->at(1);
      for (int i = 0; i < 100; ++i) static_cast<void>(s->find("a"));
      together.arrive_and_wait();
      together.arrive_and_wait();
      handed[(t + 1) % threads].reset();  // what another thread took
    });
  }
  together.arrive_and_wait();
  together.arrive_and_wait();
  EXPECT_EQ(s->stats().pins, 2 * threads);
  s->close();
  EXPECT_GT(mapped_bytes(path_), 0U);
  together.arrive_and_wait();
  others.clear();
  EXPECT_EQ(mapped_bytes(path_), 0U);
}

TEST_F(PinCounts, threads_that_end_leave_their_pins_behind) {
  std::optional<store> s(std::in_place, path_);
  s->insert("a", "1");
  std::vector<value> kept;
  for (int i = 0; i < 500; ++i) {
    std::jthread([&] { kept.push_back(s->find("a").value()); }).join();
    if (i % 3 == 0) std::jthread([&] { kept.erase(kept.begin()); }).join();
  }
  EXPECT_EQ(s->stats().pins, kept.size());
  s->close();
  while (!kept.empty()) {
    EXPECT_GT(mapped_bytes(path_), 0U);
    EXPECT_EQ(kept.back(), "1");
    std::jthread([&] { kept.pop_back(); }).join();
  }
  EXPECT_EQ(mapped_bytes(path_), 0U);
}

TEST_F(PinCounts, a_pin_belongs_to_the_store_that_was_open_when_it_was_taken) {
  std::optional<store> s(std::in_place, path_);
  s->insert("a", "of the first");
  s->tag();
  const snapshot old = s->at(1);
  s->close();
  const auto other = folder_ / "other.ice";
  store next(other);
  next.insert("a", "of the next");
  next.tag();
  const snapshot young = next.at(1);
  EXPECT_EQ(young.find("a"), "of the next");
  expect_error(errc::closed, "closed", [&] { static_cast<void>(old.find("a")); });
  EXPECT_EQ(next.stats().pins, 1U);
}

TEST_F(PinCounts, a_child_may_release_what_its_parent_read) {
  std::optional<store> s(std::in_place, path_);
  s->insert("a", "1");
  std::optional<value> held = s->find("a");
  child other([&] {
    if (held != "1") return 1;
    held.reset();
    s.reset();
    return 0;
  });
  EXPECT_EQ(other.wait(), 0);
  EXPECT_EQ(s->stats().pins, 1U);
  EXPECT_EQ(s->find("a"), "1");
  s->close();
  EXPECT_EQ(held, "1");
}

TEST_F(PinCounts, a_checkpoint_of_a_closed_store_is_refused) {
  std::optional<store> s(std::in_place, path_);
  s->insert("a", "1");
  const checkpoint now = s->checkpoint();
  s.reset();
  EXPECT_GT(now.bytes(), 0U);
  expect_error(errc::closed, "closed", [&] { now.write(folder_ / "copy.ice"); });
}

// ---- Shared processes ----

struct signals {
  std::atomic<int> step;
};

class SharedPins : public SharedStore {};

TEST_P(SharedPins, an_attached_process_keeps_what_it_read_when_all_have_closed) {
  const shared<signals> log;
  child other([&] {
    wait_for(log, 1);
    std::optional<store> s(std::in_place, path_, beside());
    const value held = s->find("a").value();
    const snapshot then = s->at(1);
    const auto seen = then.find("b");
    log->step = 2;
    wait_for(log, 3);  // the first has closed it
    if (held != "1" || seen != "2") return 1;
    try {
      static_cast<void>(then.find("a"));
      return 2;
    } catch (const error& failure) {
      if (failure.code() != errc::closed) return 3;
    }
    s.reset();
    log->step = 4;
    wait_for(log, 5);  // somebody else has written it
    return held == "1" && seen == "2" ? 0 : 4;
  });
  {
    store s(path_, first());
    s.insert("a", "1");
    s.insert("b", "2");
    s.tag();
    log->step = 1;
    wait_for(log, 2);
    s.close();
  }
  log->step = 3;
  wait_for(log, 4);
  write_much(path_, GetParam().options_at(path_));
  log->step = 5;
  EXPECT_EQ(other.wait(), 0);
}

TEST_P(SharedPins, pins_of_a_killed_process_are_nobodys) {
  const shared<signals> log;
  child other([&] {
    wait_for(log, 1);
    const store s(path_, beside());
    const value held = s.find("a").value();
    log->step = 2;
    wait_for(log, 100);
    return 0;
  });
  store s(path_, first());
  s.insert("a", "1");
  log->step = 1;
  wait_for(log, 2);
  other.kill(SIGKILL);
  EXPECT_EQ(other.wait(), -SIGKILL);
  EXPECT_EQ(s.stats().pins, 0U);
  s.insert("a", "2");
  s.close();
  EXPECT_EQ(mapped_bytes(path_), 0U);
  EXPECT_EQ(store(path_, GetParam().options_at(path_)).find("a"), "2");
}

INSTANTIATE_TEST_SUITE_P(Settings, SharedPins,
                         ::testing::Values(setting{place::tmpfs, durability::operation},
                                           setting{place::tmpfs, durability::operation, index_kind::persistent}),
                         [](const auto& tested) { return tested.param.name(); });

// ---- The handle ----

static_assert(std::is_nothrow_move_constructible_v<value> && std::is_nothrow_move_assignable_v<value>);
static_assert(std::is_convertible_v<const value&, std::string_view>);
static_assert(!std::is_convertible_v<value, std::string_view>, "the view would outlive the value");
static_assert(std::is_same_v<decltype(std::declval<const snapshot&>().find("")), std::optional<std::string_view>>);
static_assert(std::is_same_v<decltype(std::declval<snapshot>().find("")), std::optional<value>>);
static_assert(std::is_convertible_v<const char (&)[5], value> && !std::is_convertible_v<char (&)[5], value>);
static_assert(sizeof(snapshot) == 2 * sizeof(void*));

template <class S>
concept gives_views = requires(S&& s) { std::forward<S>(s).first(); };
static_assert(gives_views<const snapshot&> && !gives_views<snapshot>, "a temporary's views would dangle");
static_assert(gives_views<const typed_snapshot<int, std::string>&> && !gives_views<typed_snapshot<int, std::string>>);
static_assert(gives_views<typed_snapshot<int, double>>, "copies need no snapshot");

TEST_F(PinCounts, what_was_moved_from_holds_nothing_and_reads_nothing) {
  store s(path_);
  s.insert("a", "1");
  s.tag();
  snapshot then = s.at(1);
  cursor at = then.cursor();
  at.seek_first();
  diff_range changes = s.diff(0, 1);
  key_history past = s.history("a");
  const std::uint64_t pins = s.stats().pins;
  const snapshot snapshot_now = std::move(then);
  const cursor cursor_now = std::move(at);
  const diff_range changes_now = std::move(changes);
  const key_history past_now = std::move(past);
  EXPECT_EQ(s.stats().pins, pins);
  EXPECT_EQ(cursor_now->value, "1");
  // NOLINTBEGIN(bugprone-use-after-move): it says what they are then
  EXPECT_FALSE(at.valid());
  expect_error(errc::closed, "closed", [&] { at.seek_first(); });
  expect_error(errc::closed, "closed", [&] { static_cast<void>(then.find("a")); });
  expect_error(errc::closed, "closed", [&] { static_cast<void>(changes.begin()); });
  expect_error(errc::closed, "closed", [&] { static_cast<void>(past.newest_first()); });
  // NOLINTEND(bugprone-use-after-move)
}

TEST_F(PinCounts, a_value_is_used_as_a_string_view) {
  store s(path_);
  s.insert("a", "first");
  s.insert("b", "second");
  const value a = s.find("a").value();
  const value b = s.find("b").value();
  const std::string_view seen = a;
  EXPECT_EQ(seen.data(), a.data());
  EXPECT_EQ(a, "first");
  EXPECT_EQ("first", a);
  EXPECT_EQ(a, std::string("first"));
  EXPECT_NE(a, b);
  EXPECT_LT(a, b);
  EXPECT_LT(a, "later");
  EXPECT_TRUE(s.find("a") == std::optional<std::string_view>("first"));
  EXPECT_EQ(std::string(a), "first");
  EXPECT_EQ(std::string(a.begin(), a.end()), "first");
  std::ostringstream out;
  out << a << ' ' << b.size();
  EXPECT_EQ(out.str(), "first 6");
  EXPECT_EQ(std::hash<value>{}(a), std::hash<std::string_view>{}("first"));
  const std::unordered_set<value> some{a, b, a};
  EXPECT_EQ(some.size(), 2U);
  EXPECT_EQ(s.find("c").value_or("none"), "none");
  EXPECT_TRUE(value().empty());
}

TEST_F(PinCounts, moving_takes_no_pin_and_copying_takes_one) {
  store s(path_);
  s.insert("a", "1");
  value first = s.find("a").value();
  EXPECT_EQ(s.stats().pins, 1U);
  value moved = std::move(first);
  EXPECT_EQ(s.stats().pins, 1U);
  EXPECT_TRUE(first.empty());  // NOLINT(bugprone-use-after-move): it says what it is then
  first = moved;
  EXPECT_EQ(s.stats().pins, 2U);
  first = std::move(moved);
  EXPECT_EQ(s.stats().pins, 1U);
  value& same = first;
  first = same;
  EXPECT_EQ(first, "1");
  EXPECT_EQ(s.stats().pins, 1U);
  EXPECT_FALSE(s.find("b"));
  EXPECT_TRUE(s.contains("a"));
  EXPECT_EQ(s.stats().pins, 1U) << "an answer without a value keeps a pin";
}

}  // namespace
}  // namespace icecore::testing
