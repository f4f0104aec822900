#include "sharing_round.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <thread>

#include "icecore/icecore.hpp"
#include "support/model.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

/// How a process ends: it was told that the store is poisoned, or closed; or it has noted what went wrong.
constexpr int found_poisoned = 71;
constexpr int found_closed = 72;
constexpr int has_failed = 70;
/// Opening again and again is what finds defects: a store does not grow large.
constexpr unsigned sessions_of_a_store = 12;

std::chrono::microseconds us(std::uint64_t n) { return std::chrono::microseconds(n); }

}  // namespace

void sharing_round::counts::add(const counts& other) noexcept {
  sessions += other.sessions;
  kills += other.kills;
  kills_of_openers += other.kills_of_openers;
  attached += other.attached;
  compactions += other.compactions;
  poisoned += other.poisoned;
  writes += other.writes;
  finds += other.finds;
  versions += other.versions;
}

sharing_round::sharing_round(random_numbers& random, const std::filesystem::path& folder)
    : random_(random), path_(folder / "store") {
  static const std::vector<setting> all{
      {place::tmpfs, durability::operation, index_kind::persistent},
      {place::tmpfs, durability::operation, index_kind::persistent},
      {place::tmpfs, durability::operation, index_kind::persistent},
      {place::tmpfs, durability::operation, index_kind::persistent, 3},
      {place::tmpfs, durability::tag, index_kind::persistent},
      {place::tmpfs, durability::none, index_kind::persistent},
      {place::tmpfs, durability::operation, index_kind::btree},
      {place::tmpfs, durability::tag, index_kind::skip_list},
      {place::tmpfs, durability::none, index_kind::hash},
  };
  where_ = all[draw(all.size())];
  seats_ = 2 + static_cast<unsigned>(draw(ledger::writers_max - 1));
  kills_ = !one_in(4);
  expires_ = one_in(2);
  life_us_ = 3'000 + draw(40'000);
  // what happens when the store is packed for the first time is worth as much as all that follows
  const bool is_hasty = one_in(2);
  session_us_ = 20'000 + draw(is_hasty ? 100'000 : 300'000);
  pause_us_ = 500 + draw(is_hasty ? 4'000 : 30'000);
}

std::string sharing_round::name() const {
  return where_.name() + ", " + std::to_string(seats_) + " processes" + (kills_ ? "" : " that are not killed") +
         (expires_ ? ", versions expire" : "");
}

options sharing_round::opening() const {
  options how = where_.options_at(path_);
  how.shared_as = common_;
  how.huge_pages = false;
  return how;
}

// ---- In the children ----

template <class Work>
int sharing_round::told(const Work& work) const {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // one that is killed leaves nobody behind
  std::string failure;
  try {
    work();
    return 0;
  } catch (const error& e) {
    if (e.code() == errc::poisoned) {
      notes_->is_poisoned = true;
      return found_poisoned;
    }
    if (e.code() == errc::closed || e.code() == errc::no_such_store) return found_closed;
    failure = e.what();
  } catch (const std::exception& e) {
    failure = e.what();
  }
  if (!notes_->has_failed.exchange(true)) failure.copy(notes_->failure.data(), notes_->failure.size() - 1);
  return has_failed;
}

/// Until it is killed, or told to close the store; then all others have ended.
void sharing_round::open(std::uint64_t seed) const {
  store s(path_, opening());
  if (expires_ && s.retention().keeps_all()) s.set_retention({.newest = 2});
  random_numbers random(seed);
  own_keys mine(*ledger_, 0);
  for (unsigned writer = 0; writer < seats_; ++writer) own_keys(*ledger_, writer).take_over(s);
  for (unsigned i = 0; i < ledger::noted_max; ++i) check_noted(s, *ledger_, i);
  notes_->is_open = true;
  in_threads(2, [&](unsigned thread) {
    if (thread == 1) return pack(s, seed);
    while (!notes_->closes) {
      const std::uint64_t chance = random() % 1'000;
      if (chance < 500) {
        mine.write_one(s, random);
      } else if (chance < 985) {
        check_any(s, *ledger_, seats_, random);
      } else if (chance < 992) {
        note(s.latest(), *ledger_);
      } else if (chance < 994) {
        s.tag();
      } else if (chance < 999) {
        check_noted(s, *ledger_, static_cast<unsigned>(random()));
      } else {
        check_sound(s.verify(), "verify() of the process that packs");
      }
    }
  });
  s.close();
}

void sharing_round::pack(store& s, std::uint64_t seed) const {
  random_numbers random(seed + 1);
  while (!notes_->closes) {
    std::this_thread::sleep_for(us(random() % pause_us_));
    const std::uint64_t at_once = random() % 2 == 0 ? std::uint64_t{8} << 10 : 0;
    static_cast<void>(
        s.compact({.whole = random() % 3 == 0, .threads = 1, .bytes_at_once = at_once, .on_progress = {}}));
    ++notes_->compactions;
  }
}

/// Attaches, leaves and attaches again, until it is killed or told to stop.
void sharing_round::attach(unsigned writer, std::uint64_t seed) const {
  random_numbers random(seed);
  own_keys mine(*ledger_, writer);
  options how;
  how.access = access::attached;
  how.shared_as = common_;
  how.huge_pages = false;
  for (bool is_first = true; !notes_->stops; is_first = false) {
    store s(path_, how);
    ++notes_->attached;
    if (is_first) mine.take_over(s);
    const auto until = clock::now() + us(random() % life_us_);
    while (!notes_->stops && clock::now() < until) {
      const std::uint64_t chance = random() % 1'000;
      if (chance < 550) {
        mine.write_one(s, random);
      } else if (chance < 985) {
        check_any(s, *ledger_, seats_, random);
      } else if (chance < 990 && where_.durability != durability::tag) {
        note(s.latest(), *ledger_);
      } else if (chance < 999) {
        check_noted(s, *ledger_, static_cast<unsigned>(random()));
      } else {
        check_sound(s.verify(), "verify() of a process that is attached");
      }
    }
    s.close();
  }
}

// ---- In the one that starts them ----

void sharing_round::check_failure() const {
  promise(!notes_->has_failed, [&] { return std::string(notes_->failure.data()); });
}

void sharing_round::start(unsigned seat) {
  const std::uint64_t seed = random_();
  taken_[seat] = std::make_unique<child>(
      [this, seat, seed] { return told([&] { seat == 0 ? open(seed) : attach(seat, seed); }); });
}

void sharing_round::note_end(unsigned seat, int status) {
  taken_[seat].reset();
  check_failure();
  promise(status == 0 || status == -SIGKILL || status == found_poisoned || status == found_closed,
          [&] { return "a process ended with " + std::to_string(status) + (status < 0 ? ", a signal" : ""); });
  promise(status != found_poisoned || kills_, [] { return "the store is poisoned, and nobody was killed"; });
}

/// Of those that have ended by themselves.
void sharing_round::look_for_ends() {
  for (unsigned seat = 0; seat < seats_; ++seat) {
    siginfo_t about{};
    const bool has_ended =
        taken_[seat] != nullptr &&
        waitid(P_PID, static_cast<id_t>(taken_[seat]->pid()), &about, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        about.si_pid != 0;
    if (has_ended) note_end(seat, taken_[seat]->wait());
  }
  check_failure();
}

void sharing_round::kill_amid(clock::time_point until) {
  const auto opener_dies_at = one_in(4) ? clock::time_point::max() : clock::now() + us(draw(session_us_));
  while (clock::now() < until && !notes_->is_poisoned) {
    std::this_thread::sleep_for(us(draw(1 + 2 * life_us_ / seats_)));
    look_for_ends();
    auto seat = static_cast<unsigned>(1 + draw(seats_ - 1));
    if (kills_ && clock::now() >= opener_dies_at && taken_[0] != nullptr) seat = 0;
    if (kills_ && taken_[seat] != nullptr) {
      taken_[seat]->kill(SIGKILL);
      note_end(seat, taken_[seat]->wait());
      ++done_.kills;
      done_.kills_of_openers += seat == 0 ? 1 : 0;
    }
    if (seat != 0 && taken_[seat] == nullptr && !one_in(4)) start(seat);
  }
}

void sharing_round::end_all() {
  const bool kills_all = kills_ && one_in(3);
  const auto end = [&](unsigned seat) {
    if (taken_[seat] == nullptr) return;
    if (kills_all) taken_[seat]->kill(SIGKILL);
    note_end(seat, taken_[seat]->wait());
  };
  notes_->stops = true;
  for (unsigned seat = 1; seat < seats_; ++seat) end(seat);
  notes_->closes = true;
  end(0);
}

void sharing_round::session() {
  constexpr auto opening_max = 60s;
  notes_->is_open = notes_->stops = notes_->closes = notes_->is_poisoned = false;
  std::filesystem::remove(common_);
  taken_.clear();
  taken_.resize(seats_);
  start(0);
  const auto begun = clock::now();
  // some are killed while they open it
  const auto dies_at = kills_ && one_in(4) ? begun + us(draw(20'000)) : clock::time_point::max();
  while (!notes_->is_open && taken_[0] != nullptr) {
    std::this_thread::sleep_for(100us);
    look_for_ends();
    promise(clock::now() < begun + opening_max, [] { return "opening does not end"; });
    if (clock::now() < dies_at || taken_[0] == nullptr) continue;
    taken_[0]->kill(SIGKILL);
    note_end(0, taken_[0]->wait());
    ++done_.kills;
    ++done_.kills_of_openers;
  }
  was_open_ = was_open_ || notes_->is_open;
  if (taken_[0] != nullptr) {
    for (unsigned seat = 1; seat < seats_; ++seat) start(seat);
    kill_amid(clock::now() + us(draw(session_us_)));
  }
  end_all();
  done_.poisoned += notes_->is_poisoned ? 1 : 0;
  ++done_.sessions;
}

/// In a child: what is found may bring it down.
void sharing_round::inspect() {
  child looks([&] {
    return told([&] {
      check_sound(verify_file(path_), "verify_file()");
      options how = where_.options_at(path_);
      how.access = access::read_only;
      const store s(path_, how);
      for (unsigned writer = 0; writer < seats_; ++writer) own_keys(*ledger_, writer).take_over(s);
      for (unsigned i = 0; i < ledger::noted_max; ++i) check_noted(s, *ledger_, i);
      check_sound(s.verify(), "verify() of a reader");
    });
  });
  const int status = looks.wait();
  check_failure();
  promise(status == 0, [&] { return "who looks at the store ended with " + std::to_string(status); });
}

void sharing_round::run(clock::time_point until) {
  for (unsigned i = 0; i < sessions_of_a_store && (i == 0 || clock::now() < until); ++i) {
    session();
    if (was_open_ && one_in(2)) inspect();  // a creation that was cut off leaves nothing to read
  }
  done_.attached = notes_->attached;
  done_.compactions = notes_->compactions;
  done_.writes = ledger_->writes;
  done_.finds = ledger_->finds;
  done_.versions = ledger_->versions_checked;
}

}  // namespace icecore::testing
