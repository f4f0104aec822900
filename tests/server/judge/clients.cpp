#include "judge/clients.hpp"

#include <atomic>
#include <deque>
#include <mutex>
#include <random>
#include <thread>

#include "icecore/error.hpp"

namespace icecore::judge {
namespace {

using service::condition;
using service::operation;
using service::transaction;

bool is_unknown(const icecore::error& e) {
  return e.code() == errc::unavailable || e.code() == errc::outcome_unknown || e.code() == errc::deadline_exceeded ||
         e.code() == errc::poisoned || e.code() == errc::cancelled;
}

class client {
 public:
  client(target& subject, const recording& how, int number)
      : subject_(subject),
        how_(how),
        number_(number),
        random_(how.seed * 1000 + static_cast<unsigned>(number)),
        log_(number),
        seen_(how.keys) {}

  /// Throws what is no answer at all: errors that nothing explains.
  void ask() {
    if (reads_only())
      std::this_thread::sleep_for(std::chrono::microseconds(50));  // else they are done before others begin
    const std::int64_t call = now_ns();
    const unsigned which = pick(reads_only() ? 26 : 100);
    if (which < 22) {
      const unsigned k = pick(how_.keys);
      const auto found = subject_.find(key(k));
      log_.find(key(k), found, call);
      seen_[k] = found ? found->version : 0;
    } else if (which < 26) {
      const icecore::key_bounds bounds = some_bounds();
      const scanned came = subject_.scan(bounds);
      log_.scan("scan", bounds, came, call);
    } else if (which < 27) {
      subject_.tag();
    } else {
      write(some_transaction(which));
    }
  }
  [[nodiscard]] bool reads_only() const { return static_cast<unsigned>(number_) <= how_.readers; }
  event_log& log() { return log_; }

 private:
  unsigned pick(unsigned below) { return static_cast<unsigned>(random_() % below); }
  static std::string key(unsigned k) { return {'k', static_cast<char>('0' + k / 10), static_cast<char>('0' + k % 10)}; }
  std::string some_key() { return key(pick(how_.keys)); }
  std::string new_value() { return std::to_string(number_) + "." + std::to_string(++values_); }
  icecore::key_bounds some_bounds() {
    icecore::key_bounds bounds;
    if (pick(2) == 0) bounds.from = some_key();
    if (pick(2) == 0) bounds.to = some_key();
    return bounds;
  }
  operation get(std::string of) { return {.what = operation::kind::get, .key = std::move(of)}; }

  transaction some_transaction(unsigned which) {
    transaction t;
    if (which < 47) {
      t.then.push_back(operation::put(some_key(), new_value()));
    } else if (which < 55) {
      t.then.push_back({.what = operation::kind::put_new, .key = some_key(), .value = new_value()});
    } else if (which < 63) {
      t.then.push_back(operation::remove(some_key()));
    } else if (which < 81) {  // what was read is changed if it is still that
      const unsigned k = pick(how_.keys);
      t.conditions.push_back({.key = key(k), .is = condition::kind::version_is, .version = seen_[k]});
      t.then.push_back(operation::put(key(k), new_value()));
      t.otherwise.push_back(get(key(k)));
    } else if (which < 92) {
      for (unsigned n = 2 + pick(3), k = pick(how_.keys); n > 0; --n, k = (k + 1) % how_.keys) {
        if (pick(3) > 0) {
          t.then.push_back(operation::put(key(k), new_value()));
        } else {
          t.then.push_back(operation::remove(key(k)));
        }
      }
      t.conditions.push_back(
          {.key = some_key(), .is = pick(2) == 0 ? condition::kind::present : condition::kind::absent});
      t.otherwise.push_back(get(some_key()));
      t.otherwise.push_back(get(some_key()));
    } else if (which < 95) {
      const unsigned k = pick(how_.keys);
      t.then.push_back({.what = operation::kind::remove_range, .key = key(k), .end = key(k) + "~"});
      t.then.push_back(operation::put(some_key(), new_value()));
      if (t.then[1].key == t.then[0].key) t.then.pop_back();
    } else {
      t.then.push_back({.what = operation::kind::get_range, .key = some_key(), .limit = pick(4)});
      t.then.push_back(get(some_key()));
    }
    return t;
  }

  void write(const transaction& asked) {
    const std::int64_t call = now_ns();
    try {
      const service::outcome came = subject_.write(asked);
      log_.write(asked, &came, call);
      if (asked.then.size() == 1 && came.succeeded && came.results[0].is == service::operation_result::state::done) {
        const std::string& of = asked.then[0].key;
        if (asked.then[0].what == operation::kind::put) {
          seen_[static_cast<unsigned>((of[1] - '0') * 10 + of[2] - '0')] = came.version;
        }
      }
    } catch (const icecore::error& e) {
      if (is_unknown(e)) log_.write(asked, nullptr, call);
      throw;
    }
  }

  target& subject_;
  const recording& how_;
  const int number_;
  std::mt19937_64 random_;
  event_log log_;
  std::uint64_t values_ = 0;
  std::vector<icecore::version> seen_;  // of each key, the version of the newest record that this client saw
};

// Watches until it has told everything up to a version; now and then it begins again where it was.
class watcher {
 public:
  watcher(target& subject, int number, icecore::key_bounds bounds, unsigned resumed_after)
      : subject_(subject), number_(number), bounds_(std::move(bounds)), resumed_after_(resumed_after), log_(0) {}

  void run(const std::atomic<icecore::version>& until) {
    icecore::version told = 0;
    auto held = begin(told);
    for (unsigned parts = 1; until == 0 || told < until; ++parts) {
      const watch_part part = held->next();
      if (part.changes.empty() && part.told == told) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        continue;
      }
      log_.told(number_, part);
      told = part.told;
      if (resumed_after_ != 0 && parts % resumed_after_ == 0) held = begin(told);
    }
  }
  event_log& log() { return log_; }

 private:
  std::unique_ptr<target_watch> begin(icecore::version after) {
    number_ += 100;
    log_.watch(number_, after, bounds_);
    return subject_.watch(after, bounds_);
  }
  target& subject_;
  int number_;
  const icecore::key_bounds bounds_;
  const unsigned resumed_after_;
  event_log log_;
};

// The first error of any thread.
class first_error {
 public:
  void note() {
    const std::lock_guard lock(mutex_);
    if (!what_) what_ = std::current_exception();
  }
  void check() {
    const std::lock_guard lock(mutex_);
    if (what_) std::rethrow_exception(what_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr what_;
};

class session {
 public:
  session(target& subject, const recording& how, history_file& into)
      : subject_(subject),
        how_(how),
        into_(into),
        rounds_((how.operations + how.round_operations - 1) / how.round_operations) {
    for (unsigned i = 0; i < how.clients; ++i) clients_.emplace_back(subject, how, static_cast<int>(i) + 1);
  }

  void run() {
    if (how_.watches) {
      watchers_.emplace_back(subject_, 1, icecore::key_bounds{}, 0);
      watchers_.emplace_back(subject_, 2, icecore::key_bounds{}, 5);
      watchers_.emplace_back(subject_, 3, icecore::key_bounds{"k03", "k09"}, 3);
    }
    std::atomic<icecore::version> until{0};
    std::vector<std::thread> watching;
    for (watcher& each : watchers_) {
      watching.emplace_back([&] {
        try {
          each.run(until);
        } catch (...) {
          errors_.note();
        }
      });
    }
    icecore::version newest = 1;
    try {
      quiet();
      for (std::uint64_t r = 0; r < rounds_; ++r) newest = round(how_.break_it && r + 2 == rounds_);
    } catch (...) {
      errors_.note();
    }
    until = newest;
    for (std::thread& each : watching) each.join();
    for (watcher& each : watchers_) into_.add(each.log());
    errors_.check();
  }

 private:
  icecore::version round(bool broken) {
    std::vector<std::thread> asking;
    std::atomic<unsigned> asked{0};
    for (client& each : clients_) {
      asking.emplace_back([&, broken] {
        try {
          const unsigned mine = how_.round_operations / how_.clients;
          for (unsigned i = 0; i < mine || (broken && each.reads_only()); ++i, ++asked) each.ask();
        } catch (const icecore::error& e) {
          if (!broken || !is_unknown(e)) errors_.note();
        } catch (...) {
          errors_.note();
        }
      });
    }
    if (broken) {
      while (asked < how_.round_operations / 5) std::this_thread::yield();
      how_.break_it();
    }
    for (std::thread& each : asking) each.join();
    if (broken) how_.mend_it();
    for (client& each : clients_) into_.add(each.log());
    errors_.check();
    return quiet();
  }

  icecore::version quiet() {
    event_log log(0);
    const std::int64_t call = now_ns();
    const scanned all = subject_.scan({});
    log.scan("quiet", {}, all, call);
    into_.add(log);
    return all.version;
  }

  target& subject_;
  const recording& how_;
  history_file& into_;
  const std::uint64_t rounds_;
  std::deque<client> clients_;
  std::deque<watcher> watchers_;
  first_error errors_;
};

}  // namespace

void record(target& subject, const recording& how, history_file& into) { session(subject, how, into).run(); }

}  // namespace icecore::judge
