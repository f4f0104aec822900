// Kills processes that run kept queries, over and over, and compares what each next process finds with an undisturbed
// scan, byte for byte: no row is lost, doubled or moved, and what a process has seen is there in the next (Q1 to Q3).
//
//   icecore_query_kills --kills 2000 --seed 7
//
// Each round makes a store of one of the settings, and asks it several queries. Runners have 1 to 8 threads and chunks
// of one key or many. In a shared store two processes run at a time: one may be refused as busy, and follows at once
// when the other one is killed. Some rounds drop queries while readers are at their rows.
#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <random>
#include <thread>

#include "icecore/icecore.hpp"
#include "icecore/query.hpp"
#include "support/process.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

struct arguments {
  std::uint64_t kills = 2000;
  std::uint64_t seed = 1;
  double seconds = 0;
};

/// What processes tell each other: the most that one has seen of the query that is under way.
struct seen {
  std::atomic<std::uint64_t> rows;
  std::atomic<std::uint64_t> examined;
  std::atomic<std::uint64_t> acknowledged;
  std::atomic<int> step;
  std::atomic<int> running;  ///< processes of this life that have begun to run the query
  std::atomic<int> ended;    ///< and that have ended it
};

/// Keeps the greatest.
void raise_to(std::atomic<std::uint64_t>& to, std::uint64_t number) {
  std::uint64_t now = to;
  while (now < number && !to.compare_exchange_weak(now, number)) {
  }
}

constexpr int finished = 0;
constexpr int paused = 1;
constexpr int wrong = 2;

/// A question and its answer, computed by a scan of one thread.
struct question {
  std::string name;
  std::string text;
  query_keeps keep;
  std::vector<std::pair<std::string, std::string>> answer{};
  std::uint64_t keys = 0;
};

class round {
 public:
  round(std::mt19937_64& random, std::uint64_t number) : random_(random), number_(number), folder_(pick_place()) {}

  /// Returns how many processes were killed; throws what is wrong.
  std::uint64_t run(std::uint64_t kills_left) {
    make_store();
    std::uint64_t kills = 0;
    std::optional<child> opener;
    if (shares_) {
      seen_->step = 0;
      opener.emplace([&] { return share(); });
      wait_for_step(1);
    }
    for (question& q : questions_) kills += ask(q, kills_left - std::min(kills, kills_left));
    if (shares_) {
      seen_->step = 2;
      if (opener->wait() != 0) fail("the process that shares the store failed");
    }
    options how = opening();
    how.shared_as.clear();
    store s(path_, how);
    if (const auto report = s.verify(); !report.ok()) fail(report.damages.front().what);
    return kills;
  }
  /// How many of the kills came while a query ran.
  [[nodiscard]] std::uint64_t amid() const noexcept { return amid_; }
  [[nodiscard]] std::string name() const { return where_.name() + (shares_ ? ", shared" : ""); }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(fmt::format("round {}, {}: {}", number_, name(), what));
  }
  std::uint64_t draw(std::uint64_t below) { return random_() % below; }

  place pick_place() {
    static const std::vector<setting> all{
        {place::tmpfs, durability::operation},
        {place::tmpfs, durability::operation, index_kind::persistent},
        {place::tmpfs, durability::operation, index_kind::persistent},
        {place::tmpfs, durability::tag, index_kind::skip_list, 2},
        {place::tmpfs, durability::none, index_kind::hash},
        {place::tmpfs, durability::operation, index_kind::list},
        {place::disk, durability::tag},
        {place::disk, durability::none, index_kind::persistent},
    };
    where_ = all[draw(all.size())];
    // with the other indexes a kill amid a write poisons the store for all
    shares_ = where_.index == index_kind::persistent && where_.where == place::tmpfs && draw(2) == 0;
    return where_.where;
  }
  [[nodiscard]] options opening() const {
    options how = where_.options_at(path_);
    if (shares_) how.shared_as = common_;
    return how;
  }
  [[nodiscard]] options for_runner() const {
    if (!shares_) return opening();
    options how;
    how.access = access::attached;
    how.shared_as = common_;
    return how;
  }
  void wait_for_step(int step) const {
    while (seen_->step < step) std::this_thread::sleep_for(100us);
  }

  void make_store() {
    const std::uint64_t keys = where_.index == index_kind::list ? 300 : 2'000 + draw(40'000);
    const std::string pad(draw(60), 'p');
    options how = opening();
    how.shared_as.clear();
    how.durability = durability::none;
    store s(path_, how);
    for (int generation = 0; generation < 2; ++generation) {
      batch many;
      for (std::uint64_t i = 0; i < keys; ++i) {
        const std::string key = pad + std::to_string(draw(10 * keys));
        draw(5) == 0 ? many.remove(key) : many.insert(key, std::to_string(draw(1000)));
      }
      s.apply(many);
      version_ = s.tag();
    }
    const std::string shares[] = {"ends_with(value, '7')", "length(value) < 3", "true", "value = '77'",
                                  "not ends_with(value, '7')"};
    for (int i = 0; i < 3; ++i) {
      question q{fmt::format("query {}", i), shares[draw(std::size(shares))],
                 draw(4) == 0 ? query_keeps::count : query_keeps::keys};
      const filter where(q.text);
      const auto then = s.at(version_);
      for (const auto& [key, value] : then.range()) {
        ++q.keys;
        if (where.matches(key, value)) q.answer.emplace_back(key, value);
      }
      questions_.push_back(std::move(q));
    }
  }

  /// Opens the store for the others, until they have done.
  int share() {
    store s(path_, opening());
    seen_->step = 1;
    wait_for_step(2);
    return 0;
  }

  /// Whether the rows that are there are the first ones of the answer.
  static bool is_right(query& q, const question& asked, std::uint64_t from, bool all) {
    if (asked.keep == query_keeps::count) return !all || q.progress().rows == asked.answer.size();
    std::uint64_t n = from;
    auto rows = q.results(from);
    for (const auto& row : rows) {
      if (n >= asked.answer.size() || row.number != n) return false;
      if (row.key != asked.answer[n].first || row.value != asked.answer[n].second) return false;
      ++n;
    }
    return all ? n == asked.answer.size() : n >= from;
  }

  /// One process: finds what the last one saw, runs, and tells what it sees.
  int live(const question& asked, const run_options& how, bool may_be_busy) const {
    store s(path_, for_runner());
    std::optional<query> q;
    try {
      q = s.query(asked.name);
    } catch (const error& e) {
      if (e.code() != errc::no_such_query) throw;
      if (seen_->rows != 0 || seen_->examined != 0) return wrong + 1;
      try {
        q = s.start({.name = asked.name, .at = version_, .where = filter(asked.text), .keep = asked.keep});
      } catch (const error& taken) {  // by the process beside this one
        if (!may_be_busy || taken.code() != errc::query_exists) throw;
        q = s.query(asked.name);
      }
    }
    // read before the query is: a process beside this one may see more meanwhile
    const std::uint64_t rows = seen_->rows;
    const std::uint64_t examined = seen_->examined;
    const std::uint64_t acknowledged = seen_->acknowledged;
    const query_progress before = q->progress();
    if (before.rows < rows) {
      fmt::print("rows {} of {} examined, state {}, runs {}; seen {} of {}\n", before.rows, before.examined,
                 static_cast<int>(before.state), before.runs, rows, examined);
      std::fflush(stdout);
      return wrong + 2;
    }
    if (before.examined < examined) return wrong + 3;
    if (q->acknowledged() < acknowledged) return wrong + 4;
    if (!is_right(*q, asked, 0, before.state == query_state::finished)) return wrong + 5;
    run_options own = how;
    own.on_progress = [&](const query_progress& p) {
      raise_to(seen_->rows, p.rows);
      raise_to(seen_->examined, p.examined);
    };
    try {
      ++seen_->running;
      const query_progress after = q->run(own);
      ++seen_->ended;
      raise_to(seen_->rows, after.rows);
      raise_to(seen_->examined, after.examined);
      if (after.examined > asked.keys) return wrong + 6;
      if (asked.keep == query_keeps::keys && !may_be_busy) {
        std::uint64_t there = 0;
        for (auto all = q->results(0, false); [[maybe_unused]] const auto& row : all) ++there;
        q->acknowledge(there);
        raise_to(seen_->acknowledged, there);
      }
      if (after.state != query_state::finished) return paused;
      if (after.examined != asked.keys) return wrong + 7;
      return is_right(*q, asked, 0, true) ? finished : wrong + 8;
    } catch (const error& e) {
      if (may_be_busy && e.code() == errc::query_busy) return paused;
      throw;
    }
  }

  std::uint64_t ask(const question& asked, std::uint64_t kills_left) {
    seen_->rows = seen_->examined = seen_->acknowledged = 0;
    std::uint64_t kills = 0;
    for (int life = 0;; ++life) {
      const unsigned processes = shares_ ? 1 + static_cast<unsigned>(draw(2)) : 1;
      std::vector<std::unique_ptr<child>> runners;
      seen_->running = seen_->ended = 0;
      for (unsigned i = 0; i < processes; ++i) {
        run_options how;
        how.threads = 1 + static_cast<unsigned>(draw(8));
        how.every_item = draw(3) == 0;
        how.every = std::chrono::microseconds(50 + draw(2000));
        if (draw(3) == 0) how.keys = 1 + draw(asked.keys);
        runners.push_back(std::make_unique<child>([&, how] { return live(asked, how, processes > 1); }));
      }
      // most are killed while they run; ever later, so that each query ends
      const bool at_once = draw(5) == 0;
      const auto wait = std::chrono::microseconds(draw(1000 + 100 * static_cast<std::uint64_t>(life)));
      const bool kills_one = kills < kills_left;
      if (kills_one) {
        const auto latest = std::chrono::steady_clock::now() + 2s;
        while (!at_once && seen_->running == 0 && std::chrono::steady_clock::now() < latest) {
          std::this_thread::sleep_for(20us);
        }
        std::this_thread::sleep_for(wait);
        runners.front()->kill(SIGKILL);
        amid_ += seen_->running > seen_->ended ? 1 : 0;
      }
      bool done = false;
      for (const auto& runner : runners) {
        const int ended = runner->wait();
        if (ended == -SIGKILL) {
          ++kills;
        } else if (ended == finished) {
          done = true;
        } else if (ended != paused) {
          fail(fmt::format("'{}' of {} keys, {} rows: a process ended with {}, in life {} of the query", asked.text,
                           asked.keys, asked.answer.size(), ended, life));
        }
      }
      if (done) break;
    }
    child dropper([&] {
      store s(path_, for_runner());
      query q = s.query(asked.name);
      if (!is_right(q, asked, asked.answer.size() / 2, true)) return wrong + 9;
      if (number_ % 2 == 0) q.drop();
      return finished;
    });
    if (const int ended = dropper.wait(); ended != finished) fail(fmt::format("dropping ended with {}", ended));
    return kills;
  }

  std::mt19937_64& random_;
  std::uint64_t number_;
  setting where_{};
  bool shares_ = false;
  scratch folder_;
  scratch memory_{place::tmpfs};
  std::filesystem::path path_ = folder_ / "store";
  std::filesystem::path common_ = memory_ / "common";
  version version_ = 0;
  std::vector<question> questions_;
  shared<seen> seen_;
  std::uint64_t amid_ = 0;
};

int run(const arguments& how) {
  const auto begun = std::chrono::steady_clock::now();
  std::mt19937_64 random(how.seed);
  std::uint64_t kills = 0;
  std::uint64_t amid = 0;
  std::uint64_t rounds = 0;
  while (kills < how.kills) {
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begun;
    if (how.seconds > 0 && taken.count() > how.seconds) break;
    try {
      round one(random, rounds);
      kills += one.run(std::min<std::uint64_t>(40, how.kills - kills));
      amid += one.amid();
    } catch (const std::exception& e) {
      fmt::print("FAILED: {}\n  replay: icecore_query_kills --seed {}\n", e.what(), how.seed);
      return 1;
    }
    ++rounds;
  }
  fmt::print("{} processes killed in {} rounds, {} of them while a query ran, seed {}: every row was right\n", kills,
             rounds, amid, how.seed);
  return 0;
}

}  // namespace
}  // namespace icecore::testing

int main(int argc, char** argv) {
  icecore::testing::arguments how;
  CLI::App app("Kills processes that run kept queries, and compares what is left with an undisturbed scan.");
  app.add_option("--kills", how.kills, "processes to kill")->capture_default_str();
  app.add_option("--seed", how.seed, "of all choices but the instants of the kills")->capture_default_str();
  app.add_option("--seconds", how.seconds, "stop after so long; 0: never")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return icecore::testing::run(how);
}
