// Lives of several processes that share one store: one opens it, the others attach, and are killed and replaced while
// the rest goes on. Each client of each process that ever took a seat is one of its own: one that was killed never
// calls again, and its last call may have taken effect at any time until the life's end, since survivors finish it, or
// see to it that it never happens.
// Where the index does not outlive a kill, one amid a change poisons the store. Then each process must be told so, by
// itself and in time, and what is found afterwards must be sound.
#include <signal.h>
#include <sys/prctl.h>

#include <iostream>
#include <stdexcept>
#include <string>

#include "icecore/error.hpp"
#include "killed_store.hpp"
#include "stacks.hpp"
#include "support/model.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

/// Clients of one life: their numbers are told by eight bits of a value.
constexpr std::uint32_t clients_max = 250;
constexpr std::uint32_t clients_of_a_process_max = 3;
constexpr std::uint32_t replaced_min = 6;
constexpr std::uint32_t replaced_max = 19;
/// How a process ends that was told that the store is poisoned.
constexpr int found_poisoned = 71;
/// Whoever has not ended so long after it should have waits for ever.
constexpr auto end_max = 60s;

}  // namespace

struct killed_store::shared_session {
  std::array<client_log, clients_max> logs;
  std::array<std::atomic<std::uint32_t>, clients_max> struck;  ///< by process
  std::atomic<bool> open;
  std::atomic<bool> stop;   ///< all that are attached end
  std::atomic<bool> close;  ///< the one that opened the store closes it
  std::atomic<bool> poisoned;
  std::atomic<bool> failed;
  std::array<char, 1000> failure;
};

/// The processes of one life, by seats: the first one's opens the store.
class killed_store::sharing_processes {
 public:
  sharing_processes(killed_store& of, std::uint32_t count)
      : of_(of), seats_(count), clients_(1 + static_cast<std::uint32_t>(of.random(clients_of_a_process_max))) {
    if ((count + replaced_max) * clients_ > clients_max) throw std::invalid_argument("too many processes for one life");
  }

  void take(std::uint32_t seat);
  /// Of the process in this seat, which is replaced or was the last.
  void kill(std::uint32_t seat) const { seats_[seat].by->kill(SIGKILL); }
  /// Returns when it has ended: killed, told that the store is poisoned, or, if it may have, well.
  void note_end(std::uint32_t seat, bool may_have_ended_well);
  /// Of all, when all have ended.
  [[nodiscard]] std::vector<std::vector<operation>> recorded() const;

  [[nodiscard]] shared_session& notes() const noexcept { return *notes_; }
  [[nodiscard]] std::uint32_t started() const noexcept { return started_; }

 private:
  struct seat_taken {
    std::unique_ptr<child> by;
    std::uint32_t number = 0;
  };

  [[nodiscard]] int run(std::uint32_t number, std::uint32_t seat, const kill_plan& plan) const;
  [[nodiscard]] bool write(std::uint32_t number, std::uint32_t seat, const kill_plan& plan) const;
  [[nodiscard]] int end_of(std::uint32_t seat) const;

  killed_store& of_;
  const shared<shared_session> notes_;
  std::vector<seat_taken> seats_;
  std::uint32_t clients_;  ///< of each process
  std::uint32_t started_ = 0;
};

/// In the child: until it is killed, told to stop, or told that the store is poisoned, which is returned.
bool killed_store::sharing_processes::write(std::uint32_t number, std::uint32_t seat, const kill_plan& plan) const {
  const bool opens = number == 0;
  options opening = of_.draw_options();
  opening.shared_as = of_.memory_ / "common";
  if (!opens) opening.access = access::attached;
  store s(of_.path_, opening);
  notes_->open = true;
  arm(plan, notes_->struck[number]);
  replace_line_functions(s);
  habits usual(of_.random());
  if (!opens) usual.keep_to_what_attached_may(of_.how_.durability != durability::tag);
  const std::uint64_t seed = of_.random();
  const std::atomic<bool>& until = opens ? notes_->close : notes_->stop;
  bool poisoned = false;
  try {
    in_threads(clients_, [&](unsigned thread) {
      const std::uint32_t own = number * clients_ + thread;
      client(s, notes_->logs[own],
             {.number = own,
              .seat = seat * clients_ + thread,
              .life = static_cast<std::uint32_t>(of_.history_.lives.size()),
              .seed = seed,
              .usual = usual})
          .run(until);
      for (; !until; std::this_thread::sleep_for(1ms)) static_cast<void>(s.find(""));  // its log is full
    });
  } catch (const error& e) {
    if (e.code() != errc::poisoned) throw;
    poisoned = true;
    notes_->poisoned = true;
  }
  while (opens && !until) std::this_thread::sleep_for(1ms);  // its closing takes the shared file from those who attach
  s.close();
  return poisoned;
}

int killed_store::sharing_processes::run(std::uint32_t number, std::uint32_t seat, const kill_plan& plan) const {
  std::string failure;
  try {
    return write(number, seat, plan) ? found_poisoned : 0;
  } catch (const error& e) {
    if (e.code() == errc::poisoned) {  // when it attached, or closed
      notes_->poisoned = true;
      return found_poisoned;
    }
    failure = e.what();
  } catch (const std::exception& e) {
    failure = e.what();
  }
  failure.copy(notes_->failure.data(), notes_->failure.size() - 1);
  notes_->failed = true;
  return 70;
}

void killed_store::sharing_processes::take(std::uint32_t seat) {
  const std::uint32_t number = started_++;
  // the one that opens the store dies at a random moment, or not at all
  const kill_plan plan = number == 0 ? kill_plan{} : of_.draw_plan(false);
  const std::uint64_t seed = of_.random();
  seats_[seat] = {std::make_unique<child>([this, number, seat, plan, seed] {
                    prctl(PR_SET_PDEATHSIG, SIGKILL);  // a supervisor that is killed leaves nobody waiting for it
                    of_.state_ = seed;
                    return run(number, seat, plan);
                  }),
                  number};
}

int killed_store::sharing_processes::end_of(std::uint32_t seat) const {
  try {
    return seats_[seat].by->wait(end_max);
  } catch (const std::exception&) {
    std::cerr << "Process " << seats_[seat].by->pid() << " should have ended. Where all are that share the store:\n";
    for (const seat_taken& s : seats_) print_stacks_of(s.by->pid());
    throw broken_promise("a process that shared the store waits for ever: it did not end in " +
                         std::to_string(end_max.count()) + " s");
  }
}

void killed_store::sharing_processes::note_end(std::uint32_t seat, bool may_have_ended_well) {
  const int end = end_of(seat);
  if (end == 0 && may_have_ended_well) return;
  const bool make_robust = of_.how_.index == index_kind::persistent;
  if (end == found_poisoned && !make_robust) return;
  promise(end == -SIGKILL, [&] {
    return "a process that shared the store ended with " + std::to_string(end) + ": " + notes_->failure.data();
  });
  ++of_.counts_.kills;
  if (const std::uint32_t point = notes_->struck[seats_[seat].number]; point != 0) {
    ++of_.counts_.at_point[point];
  } else {
    ++of_.counts_.by_time;
  }
}

std::vector<std::vector<operation>> killed_store::sharing_processes::recorded() const {
  std::vector<std::vector<operation>> all;
  for (std::uint32_t i = 0; i < started_ * clients_; ++i) all.push_back(notes_->logs[i].operations());
  return all;
}

void killed_store::live_shared(std::uint32_t processes) {
  std::filesystem::remove(memory_ / "common");
  sharing_processes all(*this, processes);
  shared_session& notes = all.notes();
  const std::uint64_t kills_before = counts_.kills;
  all.take(0);
  while (!notes.open && !notes.failed && !notes.poisoned) std::this_thread::sleep_for(100us);
  created_ = true;
  for (std::uint32_t seat = 1; seat < processes; ++seat) all.take(seat);

  const auto replaced = static_cast<std::uint32_t>(replaced_min + random(replaced_max - replaced_min + 1));
  // where a kill may poison the store, the first one may be the life's last
  const std::uint64_t opener_dies_behind = how_.index == index_kind::persistent ? replaced / 2 : random(3);
  const bool opener_dies = random(3) == 0;
  bool opener_died = false;
  for (std::uint32_t i = 0; i < replaced && !notes.failed && !notes.poisoned; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(random(life_max_us_)));
    const auto seat = static_cast<std::uint32_t>(1 + random(processes - 1));
    all.kill(seat);
    all.note_end(seat, false);
    if (opener_dies && i == opener_dies_behind) {
      all.kill(0);
      all.note_end(0, false);
      opener_died = true;
    }
    all.take(seat);
  }
  // Of a poisoned store each process is told: it ends without being asked to.
  const bool is_poisoned = notes.poisoned;
  const bool all_killed = random(2) == 0;
  const auto end = [&](std::uint32_t seat) {
    if (seat == 0 && opener_died) return;
    if (all_killed) all.kill(seat);
    all.note_end(seat, !is_poisoned);
  };
  notes.stop = !is_poisoned;
  for (std::uint32_t seat = 1; seat < processes; ++seat) end(seat);
  notes.close = true;
  end(0);
  promise(!notes.poisoned || counts_.kills != kills_before, [] { return "a store was poisoned, and nobody killed"; });
  counts_.poisoned += notes.poisoned ? 1 : 0;

  history_.lives.push_back({.end_ns = ticks_ns(), .clients = all.recorded(), .inspections = {}});
  inspect_all();
}

}  // namespace icecore::testing
