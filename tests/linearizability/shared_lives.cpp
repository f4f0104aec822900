// Lives of several processes that share one store. Each incarnation of a process is a client of its own: one that was
// killed never calls again, and its last call may have taken effect at any time until the life's end, since survivors
// finish it, or see to it that it never happens.
#include <signal.h>

#include <cstring>

#include "killed_store.hpp"
#include "support/model.hpp"

namespace icecore::testing {
namespace {

using namespace std::chrono_literals;

/// Processes of one life: their numbers are told by eight bits of a value.
constexpr std::uint32_t incarnations_max = 250;

}  // namespace

struct killed_store::shared_session {
  std::array<client_log, incarnations_max> logs;
  std::array<std::atomic<std::uint32_t>, incarnations_max> struck;
  std::atomic<bool> open;
  std::atomic<bool> stop;   ///< all that are attached end
  std::atomic<bool> close;  ///< the one that opened the store closes it
  std::atomic<bool> failed;
  std::array<char, 1000> failure;
};

/// In the child: until it is killed, or told to stop.
void killed_store::write_shared(shared_session& notes, std::uint32_t number, std::uint32_t seat,
                                const kill_plan& plan) {
  options opening = draw_options();
  opening.shared_as = memory_ / "common";
  if (number != 0) opening.access = access::attached;
  store s(path_, opening);
  notes.open = true;
  arm(plan, notes.struck[number]);
  replace_line_functions(s);
  habits usual(random());
  if (number != 0) usual.keep_to_what_attached_may(how_.durability != durability::tag);
  client one(s, notes.logs[number],
             {.number = number,
              .seat = seat,
              .life = static_cast<std::uint32_t>(history_.lives.size()),
              .seed = random(),
              .usual = usual});
  std::atomic<bool>& until = number == 0 ? notes.close : notes.stop;
  one.run(until);
  while (!until) std::this_thread::sleep_for(1ms);  // its log is full
  s.close();
}

std::unique_ptr<child> killed_store::start(shared_session& notes, std::uint32_t number, std::uint32_t seat) {
  // the one that opens the store dies at a random moment, or not at all
  const kill_plan plan = number == 0 ? kill_plan{} : draw_plan(false);
  const std::uint64_t seed = random();
  return std::make_unique<child>([&, number, seat, plan, seed] {
    state_ = seed;
    try {
      write_shared(notes, number, seat, plan);
      return 0;
    } catch (const std::exception& failure) {
      std::strncpy(notes.failure.data(), failure.what(), notes.failure.size() - 1);
      notes.failed = true;
      return 70;
    }
  });
}

void killed_store::note_end(shared_session& notes, std::uint32_t number, child& ended, bool may_have_ended_well) {
  const int end = ended.wait();
  if (end == 0 && may_have_ended_well) return;
  promise(end == -SIGKILL, [&] {
    return "a process that shared the store ended with " + std::to_string(end) + ": " + notes.failure.data();
  });
  ++counts_.kills;
  if (const std::uint32_t point = notes.struck[number]; point != 0) {
    ++counts_.at_point[point];
  } else {
    ++counts_.by_time;
  }
}

void killed_store::live_shared(std::uint32_t processes) {
  const shared<shared_session> notes;
  std::filesystem::remove(memory_ / "common");
  struct seat_taken {
    std::unique_ptr<child> by;
    std::uint32_t number;
  };
  std::vector<seat_taken> seats(processes);
  std::uint32_t started = 0;
  const auto take = [&](std::uint32_t seat) {
    seats[seat] = {start(*notes, started, seat), started};
    ++started;
  };
  take(0);
  while (!notes->open && !notes->failed) std::this_thread::sleep_for(100us);
  created_ = true;
  for (std::uint32_t seat = 1; seat < processes; ++seat) take(seat);

  const bool opener_dies = random(3) == 0;
  const std::uint32_t numbers = processes + 30 + static_cast<std::uint32_t>(random(30));
  while (started < numbers && !notes->failed) {
    std::this_thread::sleep_for(std::chrono::microseconds(random(life_max_us_)));
    const auto seat = static_cast<std::uint32_t>(1 + random(processes - 1));
    seats[seat].by->kill(SIGKILL);
    note_end(*notes, seats[seat].number, *seats[seat].by, false);
    if (opener_dies && started == numbers / 2) {
      seats[0].by->kill(SIGKILL);
      note_end(*notes, 0, *seats[0].by, false);
    }
    take(seat);
  }
  const bool all_killed = random(2) == 0;
  const auto end = [&](std::uint32_t seat) {
    if (seat == 0 && opener_dies) return;
    if (all_killed) seats[seat].by->kill(SIGKILL);
    note_end(*notes, seats[seat].number, *seats[seat].by, true);
  };
  notes->stop = true;
  for (std::uint32_t seat = 1; seat < processes; ++seat) end(seat);
  notes->close = true;
  end(0);

  life& now = history_.lives.emplace_back();
  now.end_ns = ticks_ns();
  for (std::uint32_t i = 0; i < started; ++i) now.clients.push_back(notes->logs[i].operations());
  inspect_all();
}

}  // namespace icecore::testing
