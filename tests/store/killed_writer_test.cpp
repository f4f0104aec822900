// A process that shares a store with the persistent index is killed amid a write, at many points of it. The others go
// on, and its operation has taken effect completely or not at all.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/memory/sanitizer.hpp"
#include "icecore/icecore.hpp"
#include "store/core.hpp"
#include "support/expect.hpp"
#include "support/line_functions.hpp"
#include "support/model.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"
#include "support/seed.hpp"
#include "support/shared_store.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

/// State shared by the killed process and the others.
struct progress {
  std::atomic<std::uint32_t> done;     ///< steps of the script that returned
  std::atomic<std::uint64_t> flushes;  ///< flushes and fences of them
  std::atomic<int> at;                 ///< how far the two are, if they take turns
};

/// One call that may be cut off, and its effect.
struct step {
  std::function<void(store&)> call;
  std::function<void(model&)> effect;
};
using script = std::vector<step>;

[[nodiscard]] step inserting(std::string key, std::string value) {
  return {[=](store& s) { s.insert(key, value); }, [=](model& m) { m.insert(key, value); }};
}
[[nodiscard]] step removing(std::string key) {
  return {[=](store& s) { s.remove(key); }, [=](model& m) { m.remove(key); }};
}
[[nodiscard]] step applying(const batch& all) {
  return {[=](store& s) { s.apply(all); }, [=](model& m) { m.apply(all); }};
}

/// What the process to be killed does; `round` makes its keys unique.
struct scenario {
  const char* name;
  script (*steps)(unsigned round);
  unsigned steps_max;  ///< instructions of it at which it may be killed
};

[[nodiscard]] std::string own(unsigned round, const char* what) { return what + std::to_string(round); }

const scenario scenarios[] = {
    {"new_key", [](unsigned round) { return script{inserting(own(round, "new"), "value")}; }, 6'000},
    {"update", [](unsigned round) { return script{inserting("of all", own(round, "update"))}; }, 6'000},
    {"removal", [](unsigned) { return script{removing("of all")}; }, 6'000},
    {"large_value", [](unsigned round) { return script{inserting(own(round, "large"), std::string(6'000, 'l'))}; },
     8'000},
    {"batch",
     [](unsigned round) {
       batch all;
       all.insert(own(round, "batched"), "new");
       all.insert(own(round, "other batched"), std::string(300, 'b'));
       all.insert("of all", own(round, "batched"));
       all.insert("of many", own(round, "batched"));
       all.remove("to go");
       return script{applying(all)};
     },
     16'000},
    {"segment", [](unsigned round) { return script{inserting(own(round, "long"), std::string(40'000, 's'))}; }, 2'000},
    {"growth", [](unsigned round) { return script{inserting(own(round, "huge"), std::string(700'000, 'g'))}; }, 3'000},
    {"split",
     [](unsigned round) {
       script many;
       for (char c = 'a'; c <= 'z'; ++c) many.push_back(inserting(own(round, "split") + c, "value"));
       return many;
     },
     0},
};

/// Set in the process that is to be killed.
struct {
  progress* at = nullptr;
  std::uint64_t last = 0;
} counted;

void count_line_function() {
  if (counted.at->flushes.fetch_add(1) + 1 == counted.last) kill_this_process();
}

class KilledWriter : public SharedStore {
 protected:
  void SetUp() override {
    store_.emplace(path_, first());
    for (const char* key : {"of all", "of many", "to go", "first", "last"}) {
      store_->insert(key, key);
      expected_.insert(key, key);
    }
  }

  /// In the process to be killed: kills it at the flush or fence of this number.
  void count_line_functions_of(store& s, std::uint64_t last) {
    counted.at = &*progress_;
    counted.last = last;
    call_at_line_functions<count_line_function>(s);
  }
  /// In the process to be killed: attaches and runs the script, and calls `ready` in between.
  template <class Ready>
  void run(const script& all, Ready ready) {
    store s(path_, beside());
    static_cast<void>(s.find("first"));
    ready(s);
    for (const step& one : all) {
      one.call(s);
      ++progress_->done;
    }
  }

  /// What is there must be the effect of the script up to where it was cut off. Then all processes go on.
  void go_on(const script& all, unsigned round) {
    for (std::uint32_t i = 0; i < progress_->done; ++i) all[i].effect(expected_);
    // Keys of a batch that never took effect may be there, without a value.
    for (const std::string_view key : store_->keys()) {
      if (store_->history(key).oldest_first().empty()) expected_.records[std::string(key)];
    }
    if (!is_there(expected_) && progress_->done < all.size()) all[progress_->done].effect(expected_);
    ASSERT_NO_THROW(compare_histories(*store_, expected_));
    const auto write = [&](const std::string& key, const std::string& value) {
      store_->insert(key, value);
      expected_.insert(key, value);
    };
    write("of all", own(round, "survivor"));
    write(own(round, "survivor"), "new");
    write("to go", "again");
    if (round % 2 == 0) {
      store_->tag();
      expected_.close_version();
    }
    ASSERT_NO_THROW(compare_histories(*store_, expected_));
    if (round % 8 == 0) {
      ASSERT_TRUE(store_->verify().ok());
    }
    progress_->done = 0;
    progress_->flushes = 0;
  }
  [[nodiscard]] bool is_there(const model& content) const {
    try {
      compare_histories(*store_, content);
      return true;
    } catch (const broken_promise&) {
      return false;
    }
  }

  /// Kills a process at one flush or fence of the scenario after the other, until it completes. After each kill the
  /// survivors call `met(round)` first.
  template <class Met>
  void kill_at_each_line_function(const scenario& each, unsigned& round, Met met) {
    unsigned kills = 0;
    for (std::uint64_t at = 1;; ++at) {
      SCOPED_TRACE(at);
      const script all = each.steps(++round);
      child writer([&] {
        run(all, [&](store& s) { count_line_functions_of(s, at); });
        return 0;
      });
      const int end = writer.wait();
      ASSERT_NO_FATAL_FAILURE(met(round));
      ASSERT_NO_FATAL_FAILURE(go_on(all, round));
      if (end == 0) break;
      ASSERT_EQ(end, -SIGKILL);
      ++kills;
    }
    EXPECT_GE(kills, 3U);
  }

  /// Closes the store, verifies it and opens it again.
  void check_all() {
    compare_everything(*store_, expected_);
    store_->close();
    store_.reset();
    const auto report = verify_file(path_);
    ASSERT_TRUE(report.ok()) << report.damages.front().structure << ": " << report.damages.front().what;
    store_.emplace(path_, first());
    EXPECT_TRUE(store_->stats().recovered_instantly);
    EXPECT_FALSE(store_->stats().recovered_from_crash);
    compare_everything(*store_, expected_);
  }

  /// In the process to be killed, which opens the store and tags it. Calls `ready` in between, and `ended` before it
  /// would close.
  template <class Ready, class Ended>
  void open_and_tag(const std::string& name, Ready ready, Ended ended) {
    store s(path_, first());
    s.insert("first", name);
    ready(s);
    s.tag(name, "note");
    ++progress_->done;
    ended();
  }

  /// Goes on beside a process that did this and was killed.
  void go_on_without_opener(std::optional<store>& other, const std::string& name, unsigned& tagged) {
    other->insert("of all", name);
    EXPECT_EQ(other->find("first"), name);
    EXPECT_EQ(other->find("of all"), name);
    // so many that one of them begins where the killed process wrote
    for (int i = 0; i < 10; ++i) {
      store another(path_, beside());
      another.insert("of many", name);
      EXPECT_EQ(another.find("of all"), name);
    }
    expect_error(errc::invalid_argument, "has ended", [&] { static_cast<void>(other->compact()); });
    other->tag("without " + name);
    other->sync();
    EXPECT_EQ(other->at("without " + name).find("of all"), name);
    const bool was_told = other->find_tag(name).has_value();
    const auto report = other->verify();
    EXPECT_TRUE(report.ok()) << report.damages.front().structure << ": " << report.damages.front().what;
    expect_error(errc::locked, "attached", [&] { const store s(path_, GetParam().options_at(path_)); });
    other.reset();
    std::filesystem::remove(common_);
    ASSERT_TRUE(verify_file(path_).ok());
    store_.emplace(path_, first());
    EXPECT_TRUE(store_->stats().recovered_instantly);
    const bool there = store_->find_tag(name).has_value();
    EXPECT_EQ(there, was_told) << "who went on saw another tag than who opens the store";
    EXPECT_TRUE(there || progress_->done == 0);
    tagged += there ? 1 : 0;
    EXPECT_EQ(store_->find("of all"), name);
    ASSERT_TRUE(store_->verify().ok());
    progress_->done = 0;
    progress_->flushes = 0;
    store_->close();
    ASSERT_TRUE(verify_file(path_).ok());
  }

  const shared<progress> progress_;
  model expected_;
  std::optional<store> store_;
};

TEST_P(KilledWriter, at_any_flush_or_fence_is_made_up_for) {
  if (GetParam().durability != durability::operation) GTEST_SKIP() << "nothing is flushed by lines";
  const deadline soon("survivors of a killed writer", 280s);
  unsigned round = 0;
  for (const scenario& each : scenarios) {
    SCOPED_TRACE(each.name);
    ASSERT_NO_FATAL_FAILURE(kill_at_each_line_function(each, round, [](unsigned) {}));
    ASSERT_NO_FATAL_FAILURE(check_all());
  }
}

TEST_P(KilledWriter, though_it_opened_the_store_and_was_tagging_it_is_made_up_for_at_any_flush_or_fence) {
  if (GetParam().durability != durability::operation) GTEST_SKIP() << "nothing is flushed by lines";
  const deadline soon("survivors of a killed opener", 280s);
  unsigned tagged = 0;
  unsigned kills = 0;
  store_->tag("before", "so that the list of tags has room");
  for (std::uint64_t at = 1;; ++at) {
    SCOPED_TRACE(at);
    store_.reset();
    child opener([&] {
      open_and_tag(
          own(static_cast<unsigned>(at), "tag"),
          [&](store& s) {
            progress_->at = 1;
            while (progress_->at == 1) std::this_thread::sleep_for(100us);
            count_line_functions_of(s, at);
          },
          [] { ::kill(getpid(), SIGKILL); });
      return 0;
    });
    while (progress_->at == 0) std::this_thread::sleep_for(100us);
    std::optional<store> other(std::in_place, path_, beside());
    progress_->at = 2;
    ASSERT_EQ(opener.wait(), -SIGKILL);
    const bool survived = progress_->done != 0;
    kills += survived ? 0 : 1;
    progress_->at = 0;
    ASSERT_NO_FATAL_FAILURE(go_on_without_opener(other, own(static_cast<unsigned>(at), "tag"), tagged));
    if (survived) break;
  }
  EXPECT_GE(kills, 3U);
  EXPECT_GE(tagged, 2U);
}

// Attaching, or a call that stops all writers, recovers the dead writer before any thread has met its keys.
TEST_P(KilledWriter, who_finishes_it_before_anybody_has_met_its_keys_is_not_refused) {
  if (GetParam().durability != durability::operation) GTEST_SKIP() << "nothing is flushed by lines";
  const deadline soon("who finishes a killed writer", 280s);
  unsigned round = 0;
  for (const scenario& each : scenarios) {
    SCOPED_TRACE(each.name);
    ASSERT_NO_FATAL_FAILURE(kill_at_each_line_function(each, round, [&](unsigned now) {
      if (now % 2 == 0) {
        ASSERT_NO_THROW(static_cast<void>(store_->stats()));
      } else {
        ASSERT_NO_THROW(store(path_, beside()));
      }
    }));
  }
  ASSERT_NO_FATAL_FAILURE(check_all());
}

// One process is killed amid the insert of a key. A survivor meets the key before any process has recovered the dead
// writer, and is killed too. What the survivor read stays true.
TEST_P(KilledWriter, what_a_survivor_was_shown_of_its_key_stays_so_though_it_is_killed_too) {
  if (GetParam().durability != durability::operation) GTEST_SKIP() << "nothing is flushed by lines";
  const deadline soon("survivors killed after a killed writer", 280s);
  struct reported {
    std::atomic<int> stage;
    std::atomic<version> closed;
    std::atomic<bool> found;
  };
  store_.reset();
  for (const bool makes_it : {false, true}) {
    unsigned kills = 0;
    for (std::uint64_t at = 1;; ++at) {
      SCOPED_TRACE(at);
      const shared<reported> seen;
      const std::string key = (makes_it ? "made by both " : "read by one ") + std::to_string(at);
      child survivor([&] {
        store s(path_, first());
        seen->stage = 1;
        while (seen->stage != 2) std::this_thread::sleep_for(100us);
        if (makes_it) {
          s.insert(key, "of the survivor");
        } else {
          seen->closed = s.tag();
          seen->found = s.find(key, seen->closed).has_value();
        }
        ::kill(getpid(), SIGKILL);
        return 0;
      });
      while (seen->stage != 1) std::this_thread::sleep_for(100us);
      child writer([&] {
        run({inserting(key, "of the killed one")}, [&](store& s) { count_line_functions_of(s, at); });
        return 0;
      });
      const int end = writer.wait();
      seen->stage = 2;
      ASSERT_EQ(survivor.wait(), -SIGKILL);
      std::filesystem::remove(common_);
      store_.emplace(path_, first());
      EXPECT_TRUE(store_->stats().recovered_instantly);
      if (makes_it) {
        EXPECT_EQ(store_->find(key), "of the survivor");
      } else {
        EXPECT_EQ(store_->find(key, seen->closed).has_value(), seen->found.load());
      }
      ASSERT_TRUE(store_->verify().ok());
      store_->close();
      store_.reset();
      ASSERT_TRUE(verify_file(path_).ok());
      progress_->done = 0;
      progress_->flushes = 0;
      if (end == 0) break;
      ASSERT_EQ(end, -SIGKILL);
      ++kills;
    }
    EXPECT_GE(kills, 3U);
  }
}

#if !defined(ICECORE_UNDER_ADDRESS_SANITIZER) && !defined(ICECORE_UNDER_THREAD_SANITIZER)
#if defined(ICECORE_LONG_TESTS)
constexpr unsigned points = 1'000;
#else
constexpr unsigned points = 16;
#endif

/// A stopped process, which is run instruction by instruction and then killed.
class stepped {
 public:
  explicit stepped(const std::function<void()>& work) : pid_(fork()) {
    if (pid_ != 0) {
      until_stopped();
      return;
    }
    try {
      ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
      work();
    } catch (const std::exception& failure) {
      std::fprintf(stderr, "stepped: %s\n", failure.what());
    }
    _exit(0);
  }
  ~stepped() {
    ::kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) == pid_) {
    }
  }
  stepped(const stepped&) = delete;
  stepped& operator=(const stepped&) = delete;

  /// Runs until it stops itself.
  void until_stopped() {
    int status = 0;
    if (waitpid(pid_, &status, 0) != pid_ || !WIFSTOPPED(status) || WSTOPSIG(status) != SIGSTOP)
      throw broken_promise("the process did not come to where it is stepped from");
  }
  /// Runs at most this many instructions. Returns how many it ran until it stopped itself or ended.
  unsigned step(unsigned most) {
    for (unsigned i = 0; i < most; ++i) {
      int status = 0;
      if (ptrace(PTRACE_SINGLESTEP, pid_, nullptr, nullptr) != 0) return i;
      if (waitpid(pid_, &status, 0) != pid_ || !WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP) return i;
    }
    return most;
  }

 private:
  pid_t pid_;
};

[[nodiscard]] bool may_trace() {
  const pid_t other = fork();
  if (other == 0) _exit(ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0 ? 0 : 1);
  int status = 0;
  return waitpid(other, &status, 0) == other && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_P(KilledWriter, at_any_instruction_is_made_up_for) {
  if (!may_trace()) GTEST_SKIP() << "no process may be traced here";
  std::uint64_t random = 1;
  unsigned round = 0;
  for (const scenario& each : scenarios) {
    if (each.steps_max == 0) continue;
    SCOPED_TRACE(each.name);
    unsigned length = 0;
    for (unsigned i = 0; i <= points; ++i) {
      SCOPED_TRACE(i);
      const script all = each.steps(++round);
      {
        stepped writer([&] {
          run(all, [](store&) { ::raise(SIGSTOP); });
          ::raise(SIGSTOP);
        });
        random = random * 6364136223846793005U + 1442695040888963407U;
        // the first process is let go, and its instructions are counted: the others are killed at points over that
        // length
        const unsigned part = length / points + 1;
        const unsigned at = i == 0 ? each.steps_max : (i - 1) * part + static_cast<unsigned>(random >> 33) % part;
        const unsigned went = writer.step(at);
        if (i == 0) length = went;
      }
      ASSERT_NO_FATAL_FAILURE(go_on(all, round));
    }
    ASSERT_NO_FATAL_FAILURE(check_all());
  }
}

/// Also under the gate, if tags are durable: a process that waits for the gate gets through.
TEST_P(KilledWriter, though_it_opened_the_store_the_others_go_on_until_the_last_one_ends) {
  if (!may_trace()) GTEST_SKIP() << "no process may be traced here";
  const deadline soon("survivors of a killed opener", 280s);
  unsigned length = 0;
  unsigned tagged = 0;
  constexpr unsigned openers = points / 2;
  for (unsigned i = 0; i <= openers; ++i) {
    SCOPED_TRACE(i);
    store_.reset();
    std::optional<store> other;
    {
      stepped opener([&] {
        open_and_tag(
            own(i, "tag"), [](store&) { ::raise(SIGSTOP); }, [] { ::raise(SIGSTOP); });
      });
      other.emplace(path_, beside());
      const unsigned went = opener.step(i == 0 ? 30'000 : i * length / openers - length / openers / 3);
      if (i == 0) length = went;
    }
    ASSERT_NO_FATAL_FAILURE(go_on_without_opener(other, own(i, "tag"), tagged));
  }
  EXPECT_GT(tagged, 0U);
  EXPECT_LT(tagged, openers + 1);
}
#endif

[[nodiscard]] std::vector<setting> lasting_settings() {
  std::vector<setting> all;
  for (const setting& s : all_settings()) {
    if (s.index == index_kind::persistent && !s.deferred) all.push_back(s);  // else it cannot be shared
  }
  all.push_back({place::tmpfs, durability::operation, index_kind::persistent, 2});
  return all;
}

/// What is left of such a batch stays where it was, behind what counts in its segment.
TEST(KilledBatch, leaves_a_sound_store_that_can_be_given_any_index) {
  const deadline soon("batches that are killed", 120s);
  const scratch folder;
  const std::filesystem::path path = folder / "killed.ice";
  options opening;
  opening.index = index_kind::persistent;
  opening.shared_as = folder / "common";
  options attached = opening;
  attached.access = access::attached;
  const shared<std::atomic<int>> begun;
  store s(path, opening);
  std::mt19937_64 random(test_seed());
  for (int i = 0; i < 2000; ++i) s.insert("key " + std::to_string(i), "0");
  for (int life = 0; life < 12; ++life) {
    *begun = 0;
    child writer([&]() -> int {
      store beside(path, attached);
      batch many;
      for (int i = 0; i < 2000; ++i) many.insert("key " + std::to_string(i), std::to_string(life));
      for (;;) {
        *begun = 1;
        beside.apply(many);
      }
    });
    while (*begun == 0) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
    writer.kill(SIGKILL);
    EXPECT_EQ(writer.wait(), -SIGKILL);
    s.insert("key 0", "a survivor's");
    s.tag(std::to_string(life));
  }
  s.close();
  EXPECT_TRUE(verify_file(path).ok());
  for (const index_kind kind : {index_kind::btree, index_kind::persistent}) {
    options changed;
    changed.index = kind;
    changed.change_index = true;
    const store again(path, changed);
    EXPECT_TRUE(again.verify().ok());
    EXPECT_EQ(again.at("11").find("key 0"), "a survivor's");
  }
}

INSTANTIATE_TEST_SUITE_P(EverySetting, KilledWriter, ::testing::ValuesIn(lasting_settings()),
                         [](const auto& tried) { return tried.param.name(); });

}  // namespace
}  // namespace icecore::testing
