// One writer at a time, readers while no one writes, forks, copies, and many threads that open and close.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <barrier>

#include "icecore/icecore.hpp"
#include "support/expect.hpp"
#include "support/model.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

class Sharing : public ::testing::Test {
 protected:
  scratch folder_;
  std::filesystem::path path_ = folder_ / "shared.ice";

  static options reading() {
    options opening;
    opening.access = access::read_only;
    return opening;
  }
  /// For reading, but not beside a process that writes (beside_test.cpp).
  static options alone() {
    options opening = reading();
    opening.beside_writer = false;
    return opening;
  }
  void make_store() const {
    store made(path_);
    made.insert("a", "1");
    made.tag("one");
  }
};

struct signals {
  std::atomic<int> step;
};

/// What a child does: it holds the store open until it may go on.
template <class Open>
auto holding(const shared<signals>& log, const Open& open) {
  return [&log, open] {
    const auto held = open();
    log->step = 1;
    while (log->step != 2) std::this_thread::sleep_for(1ms);
    return 0;
  };
}

void wait_for_step(const shared<signals>& log, int step) {
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (log->step != step) {
    promise(std::chrono::steady_clock::now() < end, [] { return std::string("the child does not come so far"); });
    std::this_thread::sleep_for(1ms);
  }
}

TEST_F(Sharing, a_second_writer_in_another_process_is_refused_with_the_pid_of_the_first) {
  const shared<signals> log;
  child first(holding(log, [&] { return store(path_); }));
  wait_for_step(log, 1);
  const std::string pid = std::to_string(first.pid());
  expect_error(errc::locked, pid, [&] { const store second(path_); });
  expect_error(errc::locked, pid, [&] { const store reader(path_, alone()); });
  EXPECT_TRUE(verify_file(path_).ok()) << "which reads beside the writer";
  log->step = 2;
  EXPECT_EQ(first.wait(), 0);
  EXPECT_EQ(store(path_).clock(), 1U);
}

TEST_F(Sharing, a_second_writer_in_the_same_process_is_refused) {
  const store first(path_);
  expect_error(errc::locked, std::to_string(getpid()), [&] { const store second(path_); });
  expect_error(errc::locked, std::to_string(getpid()), [&] { const store reader(path_, alone()); });
}

TEST_F(Sharing, readers_share_and_keep_a_writer_out) {
  make_store();
  const shared<signals> log;
  child other(holding(log, [&] { return store(path_, reading()); }));
  wait_for_step(log, 1);
  {
    const store here(path_, reading());
    const store also_here(path_, reading());
    EXPECT_EQ(here.find("a"), "1");
    EXPECT_EQ(also_here.at("one").find("a"), "1");
    expect_error(errc::locked, "", [&] { const store writer(path_); });
  }
  expect_error(errc::locked, "", [&] { const store writer(path_); });
  log->step = 2;
  EXPECT_EQ(other.wait(), 0);
  store(path_).insert("a", "2");
}

TEST_F(Sharing, a_killed_writer_leaves_no_lock) {
  make_store();
  const shared<signals> log;
  child writer(holding(log, [&] {
    store opened(path_);
    opened.insert("a", "written before the kill");
    return opened;
  }));
  wait_for_step(log, 1);
  writer.kill(SIGKILL);
  EXPECT_EQ(writer.wait(), -SIGKILL);
  const store again(path_);
  EXPECT_TRUE(again.stats().recovered_from_crash);
  EXPECT_EQ(again.find("a"), "written before the kill");
  EXPECT_EQ(again.at("one").find("a"), "1");
}

TEST_F(Sharing, a_reader_of_a_store_whose_writer_was_killed_reads_it_or_says_why_not_and_changes_nothing) {
  const shared<signals> log;
  child writer(holding(log, [&] {
    store opened(path_);
    opened.insert("a", "1");
    return opened;
  }));
  wait_for_step(log, 1);
  writer.kill(SIGKILL);
  EXPECT_EQ(writer.wait(), -SIGKILL);
  const auto written = std::filesystem::last_write_time(path_);
  const auto size = std::filesystem::file_size(path_);
  const store reader(path_, reading());
  EXPECT_EQ(reader.find("a"), "1");
  EXPECT_EQ(reader.latest().find("a"), "1");
  EXPECT_EQ(std::filesystem::last_write_time(path_), written);
  EXPECT_EQ(std::filesystem::file_size(path_), size);
}

TEST_F(Sharing, a_forked_child_is_asked_to_open_the_store_again) {
  make_store();
  auto opened = std::make_unique<store>(path_);
  const snapshot then = opened->at("one");
  child forked([&] {
    const auto refused = [](const auto& call) {
      try {
        call();
      } catch (const error& failure) {
        if (failure.code() == errc::forked) return true;
        std::fprintf(stderr, "%s\n", failure.what());
      }
      return false;
    };
    if (!refused([&] { opened->insert("a", "from the child"); })) return 1;
    if (!refused([&] { static_cast<void>(opened->remove("a")); })) return 2;
    if (!refused([&] { opened->tag(); })) return 3;
    if (!refused([&] { opened->sync(); })) return 4;
    if (!refused([&] { static_cast<void>(opened->find("a")); })) return 5;
    if (!refused([&] { static_cast<void>(opened->latest()); })) return 6;
    if (!refused([&] { opened->apply(batch{}); })) return 7;
    if (!refused([&] { static_cast<void>(opened->at(version{1})); })) return 8;
    if (!refused([&] { static_cast<void>(opened->stats()); })) return 9;
    if (!refused([&] { static_cast<void>(then.find("a")); })) return 10;
    opened.reset();  // this does not close the parent's store
    return 0;
  });
  EXPECT_EQ(forked.wait(), 0);
  opened->insert("a", "2");
  expect_error(errc::locked, "", [&] { const store second(path_); });
  opened->close();
  const store again(path_);
  EXPECT_FALSE(again.stats().recovered_from_crash);
  EXPECT_EQ(again.find("a"), "2");
}

TEST_F(Sharing, a_forked_child_keeps_no_lock_when_its_parent_has_closed) {
  auto opened = std::make_unique<store>(path_);
  const shared<signals> log;
  child forked([&] {
    log->step = 1;
    while (log->step != 2) std::this_thread::sleep_for(1ms);
    return 0;
  });
  wait_for_step(log, 1);
  opened->insert("a", "1");
  opened->close();
  EXPECT_EQ(store(path_).find("a"), "1");
  log->step = 2;
  EXPECT_EQ(forked.wait(), 0);
}

TEST_F(Sharing, a_forked_child_keeps_no_lock_when_its_parent_is_killed_and_can_read_what_it_had_found) {
  make_store();
  const shared<signals> log;
  child parent([&] {
    store opened(path_);
    const auto found = opened.find("a");
    if (fork() == 0) {
      log->step = 1;  // here, and not in its parent: what it inherited is closed by now
      while (log->step != 2) std::this_thread::sleep_for(1ms);
      log->step = found == "1" ? 3 : 4;
      _exit(0);
    }
    for (;;) std::this_thread::sleep_for(1s);
    return 0;
  });
  wait_for_step(log, 1);
  parent.kill(SIGKILL);
  EXPECT_EQ(parent.wait(), -SIGKILL);
  EXPECT_EQ(store(path_).find("a"), "1");
  log->step = 2;
  while (log->step == 2) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(log->step, 3);
}

TEST_F(Sharing, a_forked_child_keeps_no_checkpoint_in_which_its_parent_was_killed) {
  make_store();
  const auto to = folder_ / "checkpoint.ice";
  const shared<signals> log;
  child parent([&] {
    const store opened(path_);
    opened.checkpoint().write(to, [&](const progress&) {
      if (fork() == 0) {
        log->step = 1;  // here, and not in its parent: what it inherited is closed by now
        while (log->step != 2) std::this_thread::sleep_for(1ms);
        log->step = 3;
        _exit(0);
      }
      for (;;) std::this_thread::sleep_for(1s);
    });
    return 0;
  });
  wait_for_step(log, 1);
  parent.kill(SIGKILL);
  EXPECT_EQ(parent.wait(), -SIGKILL);
  std::string refused;
  try {
    store(path_).checkpoint().write(to);
  } catch (const error& e) {
    refused = e.message();
  }
  log->step = 2;
  wait_for_step(log, 3);
  EXPECT_EQ(refused, "");
  EXPECT_EQ(store(to, reading()).find("a"), "1");
}

TEST_F(Sharing, a_copy_made_under_a_live_writer_is_refused_unless_it_is_accepted) {
  make_store();
  const auto copy = folder_ / "copy.ice";
  {
    store opened(path_);
    opened.insert("a", "2");
    std::filesystem::copy_file(path_, copy);
  }
  expect_error(errc::copied, "copy.ice", [&] { const store second(copy); });
  expect_error(errc::copied, "copy.ice", [&] { const store second(copy, reading()); });
  options accepting;
  accepting.accept_copy = true;
  const store accepted(copy, accepting);
  EXPECT_EQ(accepted.at("one").find("a"), "1");
  EXPECT_EQ(store(path_).find("a"), "2");
}

TEST_F(Sharing, a_copy_of_a_closed_store_is_a_store) {
  make_store();
  const auto copy = folder_ / "copy.ice";
  std::filesystem::copy_file(path_, copy);
  store second(copy);
  second.insert("a", "in the copy");
  EXPECT_EQ(store(path_).find("a"), "1");
}

TEST_F(Sharing, a_store_that_was_renamed_while_closed_opens) {
  make_store();
  std::filesystem::rename(path_, folder_ / "renamed.ice");
  EXPECT_EQ(store(folder_ / "renamed.ice").find("a"), "1");
}

TEST_F(Sharing, many_threads_open_and_close_stores_of_their_own) {
  const deadline no_waiting("opening and closing", 100s);
  in_threads(64, [&](unsigned thread) {
    const auto own = folder_ / ("store-" + std::to_string(thread) + ".ice");
    for (unsigned life = 0; life < 8; ++life) {
      store opened(own);
      promise(opened.latest().size(1) == life, [] { return std::string("a reopened store lost something"); });
      opened.insert(std::to_string(life), std::to_string(thread));
      if (life % 2 == 0) opened.close();
    }
  });
}

TEST_F(Sharing, of_threads_that_open_one_store_each_gets_it_or_learns_that_it_is_locked) {
  const deadline no_waiting("opening one store", 100s);
  std::atomic<unsigned> opened_count{0};
  in_threads(64, [&](unsigned thread) {
    for (unsigned attempt = 0; attempt < 10; ++attempt) {
      try {
        store opened(path_);
        opened.insert(std::to_string(opened_count++), std::to_string(thread));
      } catch (const error& failure) {
        promise(failure.code() == errc::locked, [&] { return std::string(failure.what()); });
      }
    }
  });
  EXPECT_GT(opened_count, 0U);
  EXPECT_EQ(store(path_).latest().size(), opened_count);
}

TEST_F(Sharing, threads_that_come_and_go_leave_nothing_behind) {
  store opened(path_);
  const auto grown = [&] { return opened.stats().file_bytes; };
  std::barrier all_have_written(64);  // so that no later round has more threads at once
  in_threads(64, [&](unsigned thread) {
    opened.insert(std::to_string(thread), "first");
    all_have_written.arrive_and_wait();
  });
  const auto before = grown();
  for (unsigned round = 0; round < 20; ++round) {
    in_threads(64, [&](unsigned thread) { opened.insert(std::to_string(thread), std::to_string(round)); });
  }
  EXPECT_LE(grown(), before + (2U << 20)) << "each new thread takes space of its own for ever";
  EXPECT_EQ(opened.latest().size(), 64U);
}

}  // namespace
}  // namespace icecore::testing
