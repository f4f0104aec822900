#include "explore.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "pool/root/root.hpp"

namespace icecore::crash {
namespace {

constexpr std::uint64_t large_bytes = 300'000;  // opening larger stores takes several times as long: fewer of them

/// The boot in which the session began that left the store open; 0 if none did. A recovery that was killed before its
/// session began leaves the one before.
std::uint64_t boot_of_session(const left_files& left) {
  if (!left[0].there || left[0].bytes.size() < 2 * format::page_size) return 0;
  const auto root = newest_root(left[0].bytes.data());
  if (!root) return 0;
  std::uint64_t boot = 0;
  for (const std::uint8_t byte : std::span(root->boot_id).last(sizeof boot)) boot = boot << 8 | byte;
  return boot;
}

judged_by judged_after(const expectation& e, crash_kind how) {
  judged_by by{.allowed = e.allowed(how),
               .closed = e.closed(how),
               .clock_min = e.clock_min(),
               .queries = e.queries(),
               .feeds = e.feeds(),
               .requests = e.requests(),
               .retentions = e.retentions(),
               .gone = e.gone()};
  by.writes = e.writes();
  by.expired_min = e.expired_min();
  by.expired_max = e.expired_max();
  return by;
}

left_by_crash left_after(const judged_by& by) {
  return {by.allowed,    by.closed, by.queries, by.feeds,       by.requests,
          by.retentions, by.gone,   by.writes,  by.expired_min, by.expired_max};
}

}  // namespace

std::optional<failure> explorer::explore(const story& s) {
  seed_ = s.seed;
  random_.seed(s.seed);
  number_ = 0;
  failed_.reset();
  ++into_->stories;
  const unit granularity = s.how.on == device::persistent_memory ? unit::line : unit::sector;
  constexpr std::uint64_t fractions[] = {1, 8, 32, 64, 128, 128, 128, 128};
  const std::uint64_t per_point =
      std::max<std::uint64_t>(8, how_.per_point / fractions[random_() % std::size(fractions)]);
  walk(s, media(granularity, s.before.view()), per_point);
  return failed_;
}

void explorer::walk(const story& s, media m, std::uint64_t per_point) {
  expectation e(s);
  for (std::size_t i = 0; i <= s.events.size() && !failed_; ++i) {
    const bool over = i == s.events.size();
    const event::kind what = over ? event::kind::end : s.events[i].what;
    // Between two of these moments the medium may hold only what it may hold at the later one.
    if (over || what == event::kind::fence || what == event::kind::sync_end || what == event::kind::directory_sync) {
      judge_moment(s, m, e, i, per_point);
    }
    if (over) break;
    m.apply(s.events[i]);
    e.apply(s.events[i]);
    if (what == event::kind::store || what == event::kind::resize) judge_kill(s, m, e, i);
  }
}

void explorer::judge_moment(const story& s, const media& m, const expectation& e, std::size_t index,
                            std::uint64_t per_point) {
  const choices all(m);
  const judged_by by = judged_after(e, crash_kind::power_cut);
  ++into_->moments;
  if (all.count() <= per_point) ++into_->exhausted;
  const std::uint64_t most = total_bytes(m.working()) > large_bytes ? per_point / 8 + 8 : per_point;
  all.for_each(most, random_, [&](const left_files& left) {
    if (!failed_) judge_one(s, crash_kind::power_cut, left, by, index, e, nullptr);
  });
}

void explorer::judge_kill(const story& s, const media& m, const expectation& e, std::size_t index) {
  const std::uint64_t larger = total_bytes(m.working()) > large_bytes ? 8 : 1;
  if (random_() % (how_.kill_one_in * (s.depth > 0 ? 4 : 1) * larger) != 0) return;
  const judged_by by = judged_after(e, crash_kind::kill);
  judge_one(s, crash_kind::kill, m.working(), by, index, e, &m);
}

void explorer::judge_one(const story& s, crash_kind how, const left_files& left, const judged_by& by, std::size_t index,
                         const expectation& e, const media* continued) {
  const std::uint64_t mine = number_++;
  const std::uint64_t nest_one_in = how == crash_kind::kill ? how_.nest_kill_one_in : how_.nest_one_in;
  const bool nests = random_() % nest_one_in == 0 && s.depth < how_.depth_max && left[0].there;
  const bool wanted = !how_.only || *how_.only == mine;
  if (wanted) {
    ++(how == crash_kind::kill ? into_->kills : into_->images);
    if (s.depth > 0) ++into_->nested;
    const bool deeply = how_.only || mine % how_.deep_one_in == 0;
    if (deeply) ++into_->deep;
    const bool killed = how == crash_kind::kill;
    const bool elsewhere = mine % how_.elsewhere_one_in == 0;
    machine::get().set_boot(killed && !elsewhere ? s.boot : s.boot + 1'000);
    machine::get().set_elsewhere(elsewhere);
    judged_by judging = by;
    judging.seed = mine;
    if (elsewhere) {
      const bool by_kill = killed && boot_of_session(left) == s.boot;
      judging.elsewhere = by_kill ? icecore::crash_kind::process : icecore::crash_kind::machine;
    }
    const std::string wrong = judge(s.how, left, std::move(judging), deeply);
    machine::get().set_elsewhere(false);
    if (!wrong.empty()) {
      std::string what = elsewhere ? "opened on another host:\n" : "";
      for (const auto& before : crashes_) what += before + "\n";
      failed_ = {seed_, mine, what + described(s, how, index, e) + "\n" + wrong, kept_files(left)};
      return;
    }
  }
  if (nests && (!how_.only || *how_.only > mine)) {
    crashes_.push_back(described(s, how, index, e));
    nest(s, how, left, by, e, continued);
    crashes_.pop_back();
  }
}

std::string explorer::described(const story& s, crash_kind how, std::size_t index, const expectation& e) {
  return std::string(how == crash_kind::kill ? "killed" : "power cut") + " at event " + std::to_string(index) + " of " +
         std::to_string(s.events.size()) + (s.depth > 0 ? " of recovery " + std::to_string(s.depth) : "") +
         ", in flight: " + e.in_flight();
}

void explorer::nest(const story& s, crash_kind how, const left_files& left, const judged_by& by, const expectation& e,
                    const media* continued) {
  constexpr std::uint64_t per_point = 24;
  if (how == crash_kind::kill) {
    // the power may fail while the killed process's stores are still on their way
    left_by_crash after_power_cut = left_after(by);
    after_power_cut.allowed = e.allowed(crash_kind::power_cut);
    after_power_cut.closed = e.closed(crash_kind::power_cut);
    after_power_cut.allowed.insert(after_power_cut.allowed.end(), by.allowed.begin(), by.allowed.end());
    const left_by_crash after_kill = left_after(by);
    walk(record_recovery(s, left, s.boot, std::move(after_power_cut), after_kill, random_()), *continued, per_point);
  } else {
    const unit granularity = s.how.on == device::persistent_memory ? unit::line : unit::sector;
    const left_by_crash after = left_after(by);
    walk(record_recovery(s, left, s.boot + 1, after, after, random_()), media(granularity, left), per_point);
  }
}

}  // namespace icecore::crash
