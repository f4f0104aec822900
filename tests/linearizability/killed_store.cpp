#include "killed_store.hpp"

#include <signal.h>

#include <algorithm>
#include <cstring>

#include "base/memory/sanitizer.hpp"
#include "content.hpp"
#include "support/model.hpp"
#include "support/process.hpp"

namespace icecore::testing {
namespace {

// A sanitizer makes opening and each call slower by about this: lives last longer, so that as much happens in them.
#if defined(ICECORE_UNDER_ADDRESS_SANITIZER) || defined(ICECORE_UNDER_THREAD_SANITIZER)
constexpr std::uint64_t slowness = 10;
#else
constexpr std::uint64_t slowness = 1;
#endif

/// How often a point is passed in a life, roughly: the plan's count is below.
[[nodiscard]] std::uint64_t passes_of(kill_point point, bool only_opening) {
  if (only_opening) return point == kill_point::stat ? 14 : 6;
  switch (point) {
    case kill_point::flush:
    case kill_point::fence:
      return 4'000;
    case kill_point::sync:
      return 120;
    case kill_point::stat:
      return 60;
    case kill_point::populate:
      return 16;
    default:
      return 3;
  }
}

}  // namespace

/// What a life and its supervisor share.
struct killed_store::shared_life {
  std::array<client_log, clients + 1> logs;  // the last one is of who packs
  std::atomic<std::uint32_t> openings;
  std::atomic<std::uint32_t> struck;
  std::array<char, 1000> failure;
};

killed_store::killed_store(std::filesystem::path path, setting how, std::uint64_t seed,
                           std::chrono::milliseconds life_max)
    : path_(std::move(path)),
      how_(how),
      life_max_us_(slowness * static_cast<std::uint64_t>(life_max.count()) * 1000),
      state_(mix(seed)),
      was_durable_(how.index == index_kind::persistent) {
  history_.origin = how.name() + " seed " + std::to_string(seed);
}

std::uint64_t killed_store::random() { return mix(state_ += 0x9e3779b97f4a7c15U); }

kill_plan killed_store::draw_plan(bool only_opening) {
  if (random(2) == 0) return {};
  std::vector<kill_point> points = {kill_point::sync, kill_point::stat, kill_point::file_sync};
  if (only_opening) {
    points.insert(points.end(), {kill_point::hostname, kill_point::allocate, kill_point::populate});
  } else {
    points.insert(points.end(), {kill_point::allocate, kill_point::populate, kill_point::truncate});
    if (random(8) == 0) points = {kill_point::hostname};
    if (how_.durability == durability::operation && random(4) != 0) points = {kill_point::flush, kill_point::fence};
  }
  const kill_point point = points[random(points.size())];
  // small counts as often as large ones
  const std::uint64_t most = std::uint64_t{1}
                             << random(64 - static_cast<unsigned>(__builtin_clzll(passes_of(point, only_opening))));
  return {point, static_cast<std::uint32_t>(1 + random(most)), random(2) == 0};
}

options killed_store::draw_options() {
  options opening = how_.options_at(path_);
  opening.recovery_threads = static_cast<unsigned>(random(4));
  opening.huge_pages = random(4) == 0;
  return opening;
}

/// Waits for the end that the plan foresees, or brings it about in time. False if the child ended well by itself.
bool killed_store::kill_child(child& victim, const kill_plan& plan, shared_life& notes, std::uint64_t after_us) {
  // a planned end gets more time: it may never come
  const std::uint64_t limit_us = plan.point == kill_point::none ? after_us : after_us + 2 * life_max_us_;
  const auto until = ticks_ns() + static_cast<std::int64_t>(limit_us) * 1000;
  while (notes.struck == 0 && ticks_ns() < until) {
    const auto left_us = (until - ticks_ns()) / 1000;
    std::this_thread::sleep_for(std::chrono::microseconds(plan.point == kill_point::none
                                                              ? std::max<std::int64_t>(left_us, 0)
                                                              : std::clamp<std::int64_t>(left_us, 0, 500)));
  }
  victim.kill(SIGKILL);
  const int end = victim.wait();
  if (end == 0) return false;
  promise(end == -SIGKILL, [&] {
    return "the process that used the store ended with " + std::to_string(end) + ": " + notes.failure.data();
  });
  if (notes.struck == 0) {
    ++counts_.by_time;
  } else {
    ++counts_.at_point[notes.struck];
  }
  return true;
}

/// In the child: until killed.
void killed_store::write(const kill_plan& plan, shared_life& notes, std::uint64_t seed) {
  arm(plan, notes.struck);
  state_ = seed;
  const habits usual(random());
  for (;;) {
    store s(path_, draw_options());
    replace_line_functions(s);
    ++notes.openings;
    std::atomic<bool> stop{false};
    const std::uint64_t clients_seed = random();
    const auto until_close = std::chrono::microseconds(random(3 * life_max_us_));
    in_threads(clients + (is_packed_ ? 2 : 1), [&](unsigned thread) {
      if (thread == clients) {
        std::this_thread::sleep_for(until_close);
        stop = true;
        return;
      }
      try {
        if (thread > clients) return pack_again_and_again(s, notes.logs[clients], clients_seed, stop);
        client(s, notes.logs[thread],
               {.number = thread,
                .seat = thread,
                .life = static_cast<std::uint32_t>(history_.lives.size()),
                .seed = clients_seed,
                .usual = usual,
                .seats_apart = is_packed_ ? clients : 0})
            .run(stop);
      } catch (...) {
        stop = true;
        throw;
      }
    });
    s.close();
  }
}

void killed_store::live() {
  const shared<shared_life> notes;
  const kill_plan plan = draw_plan(false);
  const std::uint64_t seed = random();
  const std::uint64_t after_us = random(life_max_us_);
  {
    child writer([&] {
      try {
        write(plan, *notes, seed);
      } catch (const std::exception& failure) {
        std::strncpy(notes->failure.data(), failure.what(), notes->failure.size() - 1);
      }
      return 70;
    });
    static_cast<void>(kill_child(writer, plan, *notes, after_us));
  }
  ++counts_.kills;
  created_ = created_ || notes->openings != 0;
  counts_.opening += notes->openings == 0 ? 1 : 0;
  counts_.reopenings += notes->openings > 1 ? notes->openings - 1 : 0;
  life& now = history_.lives.emplace_back();
  now.end_ns = ticks_ns();
  for (const client_log& log : notes->logs) now.clients.push_back(log.operations());
  counts_.packings += static_cast<std::uint64_t>(
      std::ranges::count_if(now.clients.back(), [](const operation& o) { return o.return_ns != 0; }));
  while (random(3) == 0) kill_a_recovery();
  inspect_all();
}

void killed_store::kill_a_recovery() {
  const shared<shared_life> notes;
  const kill_plan plan = draw_plan(true);
  options opening = draw_options();
  opening.change_index = created_ && random(3) == 0;
  if (opening.change_index && random(2) == 0) opening.index = static_cast<index_kind>(1 + random(3));
  was_durable_ = was_durable_ || (opening.change_index && opening.index == index_kind::persistent);
  const std::uint64_t after_us = random(slowness * 3'000);
  const bool packs = is_packed_ && created_ && random(2) == 0;
  packed_alone_ += packs ? 1 : 0;
  child opener([&] {
    arm(plan, notes->struck);
    try {
      if (packs) static_cast<void>(compact(path_, opening, {.threads = 1}));
      store s(path_, opening);
      if (opening.change_index && s.stats().index != opening.index) throw broken_promise("not the index asked for");
      s.close();
    } catch (const std::exception& failure) {
      std::strncpy(notes->failure.data(), failure.what(), notes->failure.size() - 1);
      return 70;
    }
    return 0;
  });
  counts_.recovery_kills += kill_child(opener, plan, *notes, after_us) ? 1 : 0;
}

void killed_store::inspect_all() {
  ++counts_.lives;
  const std::uint64_t chance = random(4);
  // a creation that was cut off leaves nothing to read
  if (chance != 0 && created_) inspect(access::read_only);
  if (chance < 2 || !created_) inspect(access::read_write);
  created_ = true;
}

void killed_store::inspect(access how) {
  options opening = draw_options();
  opening.access = how;
  inspection found{};
  found.begin_ns = ticks_ns();
  store s(path_, opening);
  counts_.crashes_seen += s.stats().recovered_from_crash ? 1 : 0;
  counts_.read_only += how == access::read_only ? 1 : 0;
  found.clock = s.clock();
  // One that is opened at once closes a version that a crash left open: the writer's opening, or this one.
  found.closed_by_openings = (was_durable_ ? 2 : 0) + packed_alone_;
  packed_alone_ = 0;
  found.keys = inspect_keys(s);
  for (const tag_info& t : s.tags()) {
    const std::uint64_t number = tag_number(t.name);
    promise(number != garbled && t.note == tag_note(number) && s.find_tag(t.name)->version == t.version,
            [&] { return "a tag named " + show(t.name) + " with note " + show(t.note) + " after the kill"; });
    found.tags.push_back({t.version, number});
  }
  for (int i = 0; i < 4 && found.clock > 1; ++i) {
    const version at = i == 0 ? found.clock - 1 : random(found.clock);
    const std::uint32_t group = i < 2 ? all_groups : static_cast<std::uint32_t>(key_group::contended);
    found.digests.push_back({at, group, digest(s.at(at), group)});
  }
  const auto report = s.verify();
  promise(report.ok(), [&] {
    return "verify() after the kill: " + report.damages.front().structure + ": " + report.damages.front().what;
  });
  s.close();
  found.end_ns = ticks_ns();
  history_.lives.back().inspections.push_back(std::move(found));
}

std::vector<found_key> killed_store::inspect_keys(const store& s) {
  std::vector<found_key> all;
  for (const std::string_view name : s.keys()) {
    const std::uint32_t number = key_number(name);
    promise(number != unknown_key, [&] { return "a key nobody wrote is there after the kill: " + show(name); });
    std::vector<found_record> records;
    for (const auto& [at, value] : s.history(name)) records.push_back({at, number_of_value(value)});
    std::ranges::reverse(records);
    const std::uint64_t newest = records.empty() ? 0 : records.back().value;
    promise(number_of_value(s.find(name)) == newest, [&] {
      return "after the kill find(" + show(name) + ") gives another value than the newest record of its history";
    });
    auto& known = known_[number];
    const auto differs = std::ranges::mismatch(known, records);
    const auto same = static_cast<std::size_t>(differs.in1 - known.begin());
    all.push_back({number, same, {differs.in2, records.end()}});
    known = std::move(records);
  }
  return all;
}

}  // namespace icecore::testing
