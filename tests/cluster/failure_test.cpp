// A rank that fails leaves nobody waiting: every allocation, send and receive of every call fails once, on each rank.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cluster/gather/ranks/failure.hpp"
#include "support/faults.hpp"
#include "support/ranks.hpp"

namespace icecore {
namespace {

using testing::fault;
using testing::faults;
using ::testing::HasSubstr;
using testing::key_of;
using testing::rank;
using testing::ranks;

/// Ends the job if nothing moves for half a minute: a rank that waits for ever must be a failure, not a lost machine.
class watchdog {
 public:
  watchdog() : thread_([this] { run(); }) {}
  ~watchdog() {
    ended_.store(true);
    thread_.join();
  }
  watchdog(const watchdog&) = delete;
  watchdog& operator=(const watchdog&) = delete;
  /// What is done now. Its text outlives this object.
  void at(const char* call, const char* what, int victim, long number) {
    call_.store(call);
    what_.store(what);
    victim_.store(victim);
    number_.store(number);
    moves_.fetch_add(1);
  }

 private:
  void run() {
    constexpr int looks_max = 300;
    int looks = 0;
    for (long seen = 0; !ended_.load(); std::this_thread::sleep_for(std::chrono::milliseconds(100))) {
      looks = moves_.load() == seen ? looks + 1 : 0;
      seen = moves_.load();
      if (looks < looks_max) continue;
      std::fprintf(stderr, "rank %d still waits: %s, failed %s %ld of rank %d\n", rank(), call_.load(), what_.load(),
                   number_.load(), victim_.load());
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }

  std::atomic<bool> ended_{false};
  std::atomic<long> moves_{0};
  std::atomic<const char*> call_{"nothing yet"};
  std::atomic<const char*> what_{"?"};
  std::atomic<int> victim_{0};
  std::atomic<long> number_{0};
  std::thread thread_;
};

/// What a call ended with.
struct ended {
  bool threw = false;
  bool rank_failed = false;
  std::string text;
};

template <typename Call>
ended ending_of(Call&& call) {
  try {
    call();
  } catch (const error& e) {
    return {true, e.code() == errc::rank_failed, e.message()};
  } catch (const std::exception& e) {
    return {true, false, e.what()};
  }
  return {};
}

/// How many ranks say yes.
int count_of(bool mine) {
  int one = mine ? 1 : 0;
  int all = 0;
  MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return all;
}

struct named_call {
  const char* name;
  bool collective;
  std::function<void(cluster&)> run;
};

cluster_options by_messages() {
  cluster_options o;
  o.group_size = 1;
  o.store.durability = durability::none;
  return o;
}

int next() { return (rank() + 1) % ranks(); }

const std::string& long_value() {
  static const std::string value(100'000, 'v');  // longer than what MPI sends at once
  return value;
}

std::vector<named_call> calls() {
  return {
      {"find", false, [](cluster& c) { static_cast<void>(c.find(key_of(c, next()))); }},
      {"find_many", false,
       [](cluster& c) {
         const std::string here = key_of(c, rank());
         const std::string there = key_of(c, next());
         static_cast<void>(c.find_many(std::vector<std::string_view>{here, there}));
       }},
      {"history", false, [](cluster& c) { static_cast<void>(c.history(key_of(c, next()))); }},
      {"tags", false, [](cluster& c) { static_cast<void>(c.tags()); }},
      {"insert and fence", false,
       [](cluster& c) {
         c.insert(key_of(c, next()), long_value());
         c.fence();
       }},
      {"insert_many and fence", false,
       [](cluster& c) {
         const std::string key = key_of(c, next(), 1);
         c.insert_many(std::vector<item>{{key, "1"}});
         c.fence(barrier_level::storage);
       }},
      {"a cursor", false,
       [](cluster& c) {
         cluster_cursor at = c.at(1).cursor();
         for (at.seek_first(); at.valid(); at.next()) {
         }
       }},
      {"signals", false,
       [](cluster& c) {
         const std::vector<int> to{next()};
         c.signal_notify(1, to);
       }},
      {"barrier", true, [](cluster& c) { c.barrier(barrier_level::storage); }},
      {"tag", true, [](cluster& c) { c.tag(); }},
      {"protect", true, [](cluster& c) { c.protect(protection::read_write); }},
      {"extract", true, [](cluster& c) { static_cast<void>(c.at(1).extract(extraction_method::opt_merge)); }},
      {"gather", true, [](cluster& c) { static_cast<void>(c.at(1).extract(extraction_method::gather)); }},
      {"distributed", true, [](cluster& c) { static_cast<void>(c.at(1).extract(extraction_method::distributed)); }},
      {"stream", true, [](cluster& c) { c.at(1).stream([](std::span<const item>) {}); }},
      {"find_by_broadcast", true, [](cluster& c) { static_cast<void>(c.at(1).find_by_broadcast("key")); }},
  };
}

class Failure : public testing::ClusterTest {
 protected:
  void SetUp() override {
    ClusterTest::SetUp();
    if (ranks() == 1) GTEST_SKIP() << "one rank has nobody to tell";
  }
  /// A cluster with a closed version 1 that has keys of all ranks.
  std::unique_ptr<cluster> opened() {
    auto c = std::make_unique<cluster>(MPI_COMM_WORLD, path(), by_messages());
    if (c->clock() == 1) {
      c->insert(key_of(*c, next()), long_value());
      c->tag("first");
    }
    return c;
  }

  /// Makes the number-th event of the victim in this call fail. Returns whether there was so many.
  bool fail_one(const named_call& called, int victim, fault kind, long number) {
    const std::string what = std::string(called.name) + ", " + name_of(kind) + " " + std::to_string(number) +
                             " of rank " + std::to_string(victim);
    dog_.at(called.name, name_of(kind), victim, number);
    if (!open_) open_ = opened();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank() == victim) faults::arm(kind, number);
    const ended mine = ending_of([&] { called.run(*open_); });
    const int threw = count_of(mine.threw);
    const bool happened = count_of(rank() == victim && faults::disarm()) > 0;
    EXPECT_TRUE(happened || !mine.threw) << what << ": " << mine.text;

    const ended after = ending_of([&] { open_->barrier(); });
    const int broken = count_of(after.threw);
    EXPECT_TRUE(broken == 0 || broken == ranks()) << what << ": " << broken << " ranks are reported";
    // who fails in the last step of a call may be alone with that, but then all are told with the next one
    EXPECT_TRUE(!called.collective || broken > 0 || threw == 0 || threw == ranks())
        << what << ": " << threw << " ranks threw";
    if (happened) ++failures_;
    if (broken == 0) return happened;
    EXPECT_TRUE(happened) << what << ": " << after.text;
    if (after.threw) {
      EXPECT_TRUE(after.rank_failed) << what << ": " << after.text;
      EXPECT_THAT(after.text, HasSubstr("rank " + std::to_string(victim) + " failed")) << what;
    }
    static_cast<void>(ending_of([&] { open_->close(); }));
    open_.reset();
    MPI_Barrier(MPI_COMM_WORLD);
    return true;
  }

  void fail_all(const named_call& called, fault kind, long numbers_max) {
    for (int victim = 0; victim < ranks(); ++victim) {
      for (long number = 0; number < numbers_max && fail_one(called, victim, kind, number); ++number) {
        if (count_of(HasFailure()) > 0) return;
      }
    }
  }

  void TearDown() override {
    open_.reset();
    ClusterTest::TearDown();
  }

  watchdog dog_;
  int failures_ = 0;
  std::unique_ptr<cluster> open_;
};

constexpr long all = 100'000;

TEST_F(Failure, of_any_allocation_reaches_every_rank) {
  for (const named_call& each : calls()) fail_all(each, fault::allocation, all);
  EXPECT_GT(failures_, 100);
}

TEST_F(Failure, of_any_send_reaches_every_rank) {
  for (const named_call& each : calls()) fail_all(each, fault::send, all);
  EXPECT_GT(failures_, 50);
}

TEST_F(Failure, of_any_reception_reaches_every_rank) {
  for (const named_call& each : calls()) fail_all(each, fault::receive, all);
  EXPECT_GT(failures_, 10);
}

TEST_F(Failure, of_looking_for_messages_reaches_every_rank) {
  constexpr long looks = 3;  // a waiting rank looks without end
  for (const named_call& each : calls()) fail_all(each, fault::look, looks);
}

TEST_F(Failure, of_opening_and_closing_reaches_every_rank) {
  const auto kinds = {fault::allocation, fault::send, fault::receive};
  const long step = testing::long_tests ? 1 : 23;
  for (const fault kind : kinds) {
    const long from = kind == fault::allocation ? step / 2 : 0;
    for (int victim = 0; victim < ranks(); ++victim) {
      bool happened = true;
      for (long number = from; happened; number += kind == fault::allocation ? step : 1) {
        dog_.at("opening", name_of(kind), victim, number);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank() == victim) faults::arm_at_reduction(kind, number);
        std::optional<cluster> c;
        const ended opening = ending_of([&] { c.emplace(MPI_COMM_WORLD, path(), by_messages()); });
        const int threw = count_of(opening.threw);
        EXPECT_TRUE(threw == 0 || threw == ranks())
            << name_of(kind) << " " << number << " of rank " << victim << ": " << threw << " ranks threw";
        if (c) static_cast<void>(ending_of([&] { c->close(); }));
        happened = count_of(rank() == victim && faults::disarm()) > 0;
        c.reset();
        if (count_of(HasFailure()) > 0) return;
      }
    }
  }
}

// What a wrong or lost message of one rank does to those who do not even talk to it.
TEST_F(Failure, of_a_rank_ends_the_waiting_of_those_in_a_tag) {
  cluster c(MPI_COMM_WORLD, path(), by_messages());
  const int victim = ranks() - 1;
  if (rank() == victim) faults::arm(fault::receive, 0);
  MPI_Barrier(MPI_COMM_WORLD);
  const ended asked = ending_of([&] {
    if (rank() == 0) static_cast<void>(c.find(key_of(c, victim)));
  });
  MPI_Barrier(MPI_COMM_WORLD);
  faults::disarm();
  const ended tagged = ending_of([&] { c.tag(); });
  EXPECT_TRUE(tagged.rank_failed) << tagged.text;
  EXPECT_THAT(tagged.text, HasSubstr("rank " + std::to_string(victim) + " failed"));
  EXPECT_TRUE(rank() != 0 || asked.rank_failed) << asked.text;
  EXPECT_TRUE(ending_of([&] { static_cast<void>(c.find("key")); }).rank_failed) << "and of every later call";
  EXPECT_TRUE(ending_of([&] { c.close(); }).threw);
}

// Each breaks its own cluster before it is told of the other: neither overwrites what was told already. One may be told
// before it fails itself, so there are several rounds.
TEST_F(Failure, of_two_ranks_at_once_reaches_every_rank) {
  constexpr int rounds_max = 50;
  bool at_once = false;
  for (int round = 0; round < rounds_max && !at_once; ++round) {
    cluster c(MPI_COMM_WORLD, path() / std::to_string(round), by_messages());
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank() < 2) faults::arm(fault::look, 0);
    const ended first = ending_of([&] { c.tag(); });
    const bool failed = faults::disarm();
    EXPECT_TRUE(failed ? first.threw : first.rank_failed) << first.text;
    const ended second = ending_of([&] { c.tag(); });
    EXPECT_TRUE(second.rank_failed) << second.text;
    EXPECT_THAT(second.text, ::testing::AnyOf(HasSubstr("rank 0 failed"), HasSubstr("rank 1 failed")));
    EXPECT_TRUE(ending_of([&] { c.close(); }).threw);
    at_once = count_of(failed) == std::min(2, ranks());
    if (count_of(HasFailure()) > 0) return;
  }
  EXPECT_TRUE(at_once);
  MPI_Barrier(MPI_COMM_WORLD);
  cluster c(MPI_COMM_WORLD, path(), by_messages());
  c.tag();
  c.close();
}

TEST_F(Failure, of_a_request_that_is_none_reaches_every_rank) {
  cluster_options o = by_messages();
  o.progress_thread = false;  // so that it is met in the tag of the rank that is asked
  cluster c(MPI_COMM_WORLD, path(), o);
  const int asked = ranks() - 1;
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank() == 0) faults::arm(fault::request, 0);
  const ended find = ending_of([&] {
    if (rank() == 0) static_cast<void>(c.find(key_of(c, asked)));
  });
  EXPECT_EQ(rank() == 0, faults::disarm());
  const ended tag = ending_of([&] { c.tag(); });
  EXPECT_TRUE(rank() != 0 || find.rank_failed) << find.text;
  EXPECT_TRUE(tag.rank_failed) << tag.text;
  EXPECT_THAT(tag.text, HasSubstr("rank 0 sent 2 bytes that are not a valid request"));
}

TEST_F(Failure, leaves_what_was_written_before) {
  {
    cluster c(MPI_COMM_WORLD, path(), by_messages());
    c.insert(key_of(c, next()), "kept");
    c.barrier();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank() == 0) faults::arm(fault::receive, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    static_cast<void>(ending_of([&] { static_cast<void>(c.find(key_of(c, 0, 1))); }));
    static_cast<void>(ending_of([&] { c.tag(); }));
    faults::disarm();
    static_cast<void>(ending_of([&] { c.close(); }));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  cluster c(MPI_COMM_WORLD, path(), by_messages());
  EXPECT_EQ(c.find(key_of(c, next())), "kept");
  c.close();
}

/// Each rank packs its store, which others share or reach by messages. Whatever fails where: all ranks throw or none
/// does, and nothing that was acknowledged is lost, in this cluster or, if a store cannot go on, in the next opening.
class CompactionFailure : public Failure, public ::testing::WithParamInterface<int> {
 protected:
  /// Returns whether the number-th event of the victim in a compaction came, and failed.
  bool fail_one_compaction(int victim, fault kind, long number) {
    const std::string what =
        std::string(name_of(kind)) + " " + std::to_string(number) + " of rank " + std::to_string(victim);
    dog_.at("compact", name_of(kind), victim, number);
    if (!open_) open();
    const std::string key = key_of(*open_, next(), 10 + rank());
    const std::string value = std::to_string(++written_);
    open_->insert(key, value);
    const std::string of_victim = key_of(*open_, victim, 100 + rank());
    long acknowledged = std::stol(open_->find(of_victim).value_or("0"));
    open_->barrier();
    MPI_Barrier(MPI_COMM_WORLD);
    // other ranks write in the victim's store meanwhile
    std::atomic<bool> ends{false};
    std::thread writer([&] {
      const ended ignored = ending_of([&] {
        for (; !ends && rank() != victim; ++acknowledged) {
          if (acknowledged % 64 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          open_->insert(of_victim, std::to_string(acknowledged + 1));
        }
      });
    });
    if (rank() == victim) faults::arm(kind, number);
    const ended mine = ending_of([&] { open_->compact({.threads = 1, .on_progress = {}}); });
    ends = true;
    writer.join();
    const int threw = count_of(mine.threw);
    const bool happened = count_of(rank() == victim && faults::disarm()) > 0;
    const ended after = ending_of([&] { open_->barrier(); });
    const int broken = count_of(after.threw);
    EXPECT_TRUE(broken == 0 || broken == ranks()) << what << ": " << broken << " ranks are reported";
    EXPECT_TRUE(broken > 0 || threw == 0 || threw == ranks()) << what << ": " << threw << " ranks threw";
    EXPECT_TRUE(happened || threw == 0) << what << ": " << mine.text;
    std::optional<std::string> found;
    const ended read = ending_of([&] {
      if (broken == 0) found = open_->find(key);
    });
    if (broken > 0 || count_of(read.threw) > 0) {
      static_cast<void>(ending_of([&] { open_->close(); }));
      open_.reset();
      MPI_Barrier(MPI_COMM_WORLD);
      open();
      found = open_->find(key);
    }
    EXPECT_EQ(found, value) << what << ": " << mine.text;
    if (rank() != victim) {  // the next one may be there, too: nobody was told what became of it
      const long there = std::stol(open_->find(of_victim).value_or("0"));
      EXPECT_GE(there, acknowledged) << what << ": " << mine.text;
      EXPECT_LE(there, acknowledged + 1) << what << ": " << mine.text;
    }
    EXPECT_TRUE(open_->local().verify().ok()) << what;
    open_->barrier();
    return happened;
  }
  void fail_all_compactions(fault kind, long step) {
    for (int victim = 0; victim < ranks(); ++victim) {
      for (long number = 0; fail_one_compaction(victim, kind, number); number += step) {
        ++failures_;
        if (count_of(HasFailure()) > 0) return;
      }
    }
  }

 private:
  void open() {
    cluster_options how;
    how.group_size = GetParam();
    how.consistency = consistency::sequential;
    open_ = std::make_unique<cluster>(MPI_COMM_WORLD, path(), how);
  }
  long written_ = 0;
};

TEST_P(CompactionFailure, reaches_every_rank_and_loses_nothing) {
  fail_all_compactions(fault::allocation, testing::long_tests ? 1 : 9);
  EXPECT_GT(failures_, 20);
  fail_all_compactions(fault::send, testing::long_tests ? 1 : 4);
  EXPECT_GT(failures_, 25);
}

INSTANTIATE_TEST_SUITE_P(GroupsOf, CompactionFailure, ::testing::Values(1, 0),
                         [](const auto& tested) { return tested.param == 1 ? "one_rank" : "a_node"; });

// A failure takes no memory, whatever it is, and fits.
TEST(failure, keeps_its_code_and_as_much_of_its_text_as_there_is_room_for) {
  const ranks::failure reported(errc::no_space, std::string(5000, 'x'));
  EXPECT_EQ(reported.text(), std::string(reported.text().size(), 'x'));
  const ranks::failure of_other = reported.of_rank(12);
  EXPECT_THAT(std::string(of_other.text()), ::testing::StartsWith("rank 12: xxx"));
  EXPECT_EQ(of_other.text().size(), reported.text().size());
  const auto thrown = testing::error_of([&] { of_other.raise(); });
  EXPECT_EQ(thrown.code, errc::no_space);
  EXPECT_THROW(ranks::failure::of(std::make_exception_ptr(std::bad_alloc())).raise(3), std::bad_alloc);
  EXPECT_EQ(ranks::failure::of(std::make_exception_ptr(7)).code(), static_cast<int>(errc::io));
  EXPECT_FALSE(ranks::failure::of(nullptr).happened());
}

}  // namespace
}  // namespace icecore
