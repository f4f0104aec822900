// Servers that are killed while clients write, read, tag and watch: what was answered or shown is there afterwards.
//
// A child process serves four databases and writes into memory that it shares with this process what it has begun and
// what was answered. It is killed at a random moment; then the folder is opened again and compared. Rounds go on with
// the same folder. $ICECORE_SERVER_KILLS: how many (200 if it is not set).
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <future>
#include <random>
#include <thread>

#include "icecore/error.hpp"
#include "service/service.hpp"
#include "support/scratch.hpp"

namespace icecore::service {
namespace {

using namespace std::chrono_literals;
using icecore::testing::place;
using icecore::testing::scratch;

constexpr unsigned database_count = 4;
constexpr unsigned writer_count = 3;
constexpr std::uint64_t slots = 40;  // keys of a writer that take turns
constexpr std::uint64_t tags_checked = 32;

using counter = std::atomic<std::uint64_t>;

// All counters begin at 0 and never fall. They are written by the child, each by one thread, and read when it is dead.
struct progress_of_database {
  counter begun[writer_count];
  counter answered[writer_count];
  counter shown[writer_count];  // by a find, a scan or a watch
  counter tags_begun;
  counter tags_answered;
  counter tag_least[tags_checked];  // what writer 0 had been answered before the tag
  counter tag_most[tags_checked];   // and what it had begun when the tag was answered
  counter leases_answered;
};
struct progress_page {
  progress_of_database databases[database_count];
  counter answers;  // of this life: how many writes were answered
};

database_settings settings_of(unsigned d) {
  static const database_settings all[database_count] = {
      {.name = "write", .rule = version_rule::write, .durability = icecore::durability::operation},
      {.name = "every",
       .rule = version_rule::every,
       .interval = 2ms,
       .durability = icecore::durability::operation,
       .compression = value_compression::zstd},
      {.name = "tag", .rule = version_rule::tag, .durability = icecore::durability::tag},
      {.name = "memory", .rule = version_rule::write, .durability = icecore::durability::none}};
  return all[d];
}

std::string name_of(const char* what, std::uint64_t writer) { return what + std::to_string(writer); }
std::string slot_of(std::uint64_t writer, std::uint64_t i) {
  return "slot" + std::to_string(writer) + "/" + std::to_string(i % slots);
}

void raise_to(counter& what, std::uint64_t value) {
  std::uint64_t before = what.load();
  while (before < value && !what.compare_exchange_weak(before, value)) {
  }
}

outcome write(database& db, transaction what) {
  std::promise<result<outcome>> promised;
  db.write(std::move(what), [&](result<outcome> came) { promised.set_value(std::move(came)); });
  result<outcome> came = promised.get_future().get();
  if (const auto* failed = std::get_if<failure>(&came)) raise(*failed);
  return std::get<outcome>(std::move(came));
}

std::uint64_t number_in(database& db, const std::string& key, const point& at = newest{}) {
  const auto found = db.find(key, at);
  return found ? std::stoull(std::string(found->value())) : 0;
}

// Three keys a transaction; each writer has its own.
void keep_writing(database& db, progress_of_database& progress, counter& answers, unsigned w) {
  for (std::uint64_t i = progress.begun[w] + 1;; ++i) {
    const std::string value = std::to_string(i);
    transaction t;
    t.then = {operation::put(name_of("a", w), value), operation::put(slot_of(w, i), value),
              operation::put(name_of("b", w), value)};
    progress.begun[w] = i;
    write(db, std::move(t));
    progress.answered[w] = i;
    ++answers;
  }
}

void keep_reading(database& db, progress_of_database& progress) {
  for (unsigned n = 0;; ++n) {
    const unsigned w = n % writer_count;
    raise_to(progress.shown[w], number_in(db, name_of("a", w)));
    if (n % 8 != 0) continue;
    const auto rows = db.scan({.bounds = {"a", "b"}});
    for (row_block block; rows->next(block, {});) {
      for (std::size_t i = 0; i < block.size(); ++i) {
        raise_to(progress.shown[static_cast<unsigned>(block.keys[i][1] - '0')],
                 std::stoull(std::string(block.values[i])));
      }
    }
  }
}

void keep_watching(database& db, progress_of_database& progress) {
  const auto watch = db.watch_changes({.bounds = {"a", "b"}});
  for (;;) {
    const watched came = watch->next({});
    for (std::size_t i = 0; i < came.changes.size(); ++i) {
      raise_to(progress.shown[static_cast<unsigned>(came.changes.keys[i][1] - '0')],
               std::stoull(std::string(came.changes.values[i])));
    }
    if (came.changes.empty()) std::this_thread::sleep_for(1ms);
  }
}

void keep_tagging(database& db, progress_of_database& progress) {
  for (std::uint64_t n = progress.tags_begun + 1;; ++n) {
    progress.tag_least[n % tags_checked] = progress.answered[0].load();
    progress.tags_begun = n;
    const std::string name = name_of("tag", n);
    db.tag({.name = name});
    progress.tag_most[n % tags_checked] = progress.begun[0].load();
    progress.tags_answered = n;
    const std::uint64_t number = progress.leases_answered + 1;
    try {
      db.grant(1h, number);
    } catch (const icecore::error& e) {  // begun before the kill
      if (e.code() != errc::invalid_argument) throw;
    }
    transaction t;
    t.then.push_back(operation::put(name_of("leased", number), "x"));
    t.then.back().lease = number;
    write(db, std::move(t));
    progress.leases_answered = number;
    std::this_thread::sleep_for(2ms);
  }
}

[[noreturn]] void serve(const std::filesystem::path& folder, progress_page& page) {
  try {
    service s({.data = folder, .threads = 4});
    std::vector<std::thread> threads;
    const auto start = [&threads](auto what) {
      threads.emplace_back([what] {
        try {
          what();
        } catch (const std::exception& e) {
          std::fprintf(stderr, "the killed server: %s\n", e.what());
          ::_exit(7);
        }
      });
    };
    for (unsigned d = 0; d < database_count; ++d) {
      const auto db = s.find_database(principal::anyone(), settings_of(d).name);
      progress_of_database& progress = page.databases[d];
      for (unsigned w = 0; w < writer_count; ++w)
        start([db, &progress, &page, w] { keep_writing(*db, progress, page.answers, w); });
      start([db, &progress] { keep_reading(*db, progress); });
      start([db, &progress] { keep_watching(*db, progress); });
      start([db, &progress] { keep_tagging(*db, progress); });
    }
    for (std::thread& t : threads) t.join();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "the killed server: %s\n", e.what());
  }
  ::_exit(7);
}

void compare_writer(database& db, const progress_of_database& progress, unsigned w) {
  const std::uint64_t last = number_in(db, name_of("a", w));
  EXPECT_GE(last, progress.answered[w]) << "an answered write is lost";
  EXPECT_GE(last, progress.shown[w]) << "what was shown is lost";
  EXPECT_LE(last, progress.begun[w]);
  EXPECT_EQ(number_in(db, name_of("b", w)), last) << "half a transaction";
  for (std::uint64_t i = last > slots ? last - slots + 1 : 1; i <= last; ++i) {
    ASSERT_EQ(number_in(db, slot_of(w, i)), i) << "a write between is lost";
  }
}

void compare_tags(database& db, const progress_of_database& progress) {
  const std::uint64_t last = progress.tags_answered;
  for (std::uint64_t n = last > tags_checked - 2 ? last - tags_checked + 2 : 1; n <= last; ++n) {
    const tag_name tag{name_of("tag", n)};
    ASSERT_TRUE(db.find_tag(tag)) << tag.name;
    const std::uint64_t then = number_in(db, name_of("a", 0), tag);
    EXPECT_GE(then, progress.tag_least[n % tags_checked]) << tag.name;
    EXPECT_LE(then, progress.tag_most[n % tags_checked]) << tag.name;
    EXPECT_EQ(then, number_in(db, name_of("b", 0), tag)) << tag.name;
  }
}

void compare_leases(database& db, const progress_of_database& progress) {
  const std::uint64_t last = progress.leases_answered;
  if (last == 0) return;
  EXPECT_GE(db.leases().size(), last);
  const lease_info info = db.lease(last, true);
  EXPECT_EQ(info.granted, 1h);
  EXPECT_EQ(info.keys, std::vector<std::string>{name_of("leased", last)});
}

class KilledServers : public ::testing::Test {
 protected:
  void SetUp() override {
    void* memory = ::mmap(nullptr, sizeof(progress_page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    page_ = new (memory) progress_page;
  }
  void TearDown() override { ::munmap(page_, sizeof(progress_page)); }

  // So long after the first answers, or, if `at_start`, after the process was made.
  void kill_one(std::chrono::microseconds after, bool at_start) {
    page_->answers = 0;
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) serve(folder_ / "data", *page_);
    for (int i = 0; i < 10'000 && !at_start && page_->answers < 20; ++i) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(after);
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself: " << WEXITSTATUS(status);
  }
  void compare() {
    service s({.data = folder_ / "data", .threads = 4});
    ASSERT_TRUE(s.not_ready().empty()) << s.not_ready()[0].second.message;
    for (unsigned d = 0; d < database_count; ++d) {
      SCOPED_TRACE(settings_of(d).name);
      const auto db = s.find_database(principal::anyone(), settings_of(d).name);
      for (unsigned w = 0; w < writer_count; ++w) compare_writer(*db, page_->databases[d], w);
      compare_tags(*db, page_->databases[d]);
      compare_leases(*db, page_->databases[d]);
      // What took effect, though it was not answered, is there from now on.
      for (unsigned w = 0; w < writer_count; ++w) {
        page_->databases[d].begun[w] = page_->databases[d].answered[w] = number_in(*db, name_of("a", w));
      }
      if (db->find_tag(tag_name{name_of("tag", page_->databases[d].tags_answered + 1)})) {
        page_->databases[d].tag_most[(page_->databases[d].tags_answered + 1) % tags_checked] =
            page_->databases[d].begun[0].load();
        ++page_->databases[d].tags_answered;
      }
      page_->databases[d].tags_begun = page_->databases[d].tags_answered.load();
    }
    s.stop();
  }

  scratch folder_{place::disk};
  progress_page* page_ = nullptr;
};

}  // namespace

TEST_F(KilledServers, keep_what_was_answered_or_shown) {
  const char* wanted = std::getenv("ICECORE_SERVER_KILLS");
  const int kills = wanted != nullptr ? std::atoi(wanted) : 200;
  {
    service s({.data = folder_ / "data", .threads = 4});
    for (unsigned d = 0; d < database_count; ++d) s.create(principal::anyone(), settings_of(d));
  }
  std::mt19937 random(7);
  for (int i = 0; i < kills && !HasFailure(); ++i) {
    SCOPED_TRACE("kill " + std::to_string(i + 1));
    kill_one(std::chrono::microseconds(random() % 30'000), i % 5 == 4);
    if (!HasFailure()) compare();
  }
  for (unsigned d = 0; d < database_count; ++d) {
    EXPECT_GT(page_->databases[d].answered[0], 0U) << "nothing was written: the kills came too early";
    EXPECT_GT(page_->databases[d].tags_answered, 0U);
    std::printf("%s: %llu writes answered, %llu tags\n", settings_of(d).name.c_str(),
                static_cast<unsigned long long>(page_->databases[d].answered[0]),
                static_cast<unsigned long long>(page_->databases[d].tags_answered));
  }
}

}  // namespace icecore::service
