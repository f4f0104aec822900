#include "support/killed_writer.hpp"

#include <signal.h>

#include <charconv>

#include "support/model.hpp"

namespace icecore::testing {
namespace {

[[nodiscard]] std::string own_prefix(unsigned thread) { return std::to_string(thread).append("-"); }
[[nodiscard]] std::string counter_key(unsigned thread) { return own_prefix(thread).append("counter"); }

[[nodiscard]] std::string tag_name(unsigned life, std::uint64_t number) {
  return std::to_string(life).append("-").append(std::to_string(number));
}

}  // namespace

std::uint64_t fingerprint(const snapshot& of) {
  std::uint64_t hash = 1'469'598'103'934'665'603U;
  const auto mix = [&hash](std::string_view bytes) {
    for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 1'099'511'628'211U;
    hash = (hash ^ bytes.size()) * 1'099'511'628'211U;
  };
  for (const auto& [key, value] : of.range()) {
    mix(key);
    mix(value);
  }
  return hash;
}

std::vector<batch::operation> kill_loop::operations_of(unsigned thread, std::uint64_t n) {
  const auto key = [&](std::uint64_t number) { return own_prefix(thread) + std::to_string(number % 50); };
  const std::string value = std::to_string(n);
  if (n % 4 == 0) return {{counter_key(thread), value}};
  switch (n % 64) {
    case 5:
    case 37:
      return {{key(n * 7), std::nullopt}};
    case 9:
    case 41:
      return {{key(n), value}, {key(n + 1), std::nullopt}, {key(n + 2), value}};
    case 17:
      return {{own_prefix(thread) + "new-" + value, value}};
    case 33:
      return {{key(n * 7), value + std::string(5'000 + n % 3'000, static_cast<char>('a' + n % 26))}};
    case 49:
      return {{own_prefix(thread) + std::string(200 + n % 100, 'k'), value + std::string(n % 300, 'v')}};
    default:
      return {{key(n * 7), value}};
  }
}

void kill_loop::replay(past& all, unsigned thread, std::uint64_t n, version belongs_to) {
  for (const auto& [key, value] : operations_of(thread, n)) {
    auto& records = all[key];
    const bool there = !records.empty() && records.back().value.has_value();
    if (!value && !there) continue;  // a remove of what is not there leaves no trace
    records.push_back({belongs_to, value});
  }
}

void kill_loop::write(store& s, notes& log, unsigned thread, const std::atomic<bool>& stop) {
  write_notes& own = log.write[thread];
  while (!stop) {
    const std::uint64_t index = own.acknowledged.load();
    if (index == writes_max) return;
    const auto operations = operations_of(thread, done_[thread] + index + 1);
    own.begun.store(index + 1);
    version belongs_to = 0;
    if (operations.size() > 1) {
      batch together;
      for (const auto& [key, value] : operations) value ? together.insert(key, *value) : together.remove(key);
      belongs_to = s.apply(together);
    } else if (operations[0].value) {
      belongs_to = s.insert(operations[0].key, *operations[0].value);
    } else {
      belongs_to = s.remove(operations[0].key).value_or(0);
    }
    own.versions[index] = belongs_to;
    own.acknowledged.store(index + 1);
  }
}

void kill_loop::tag(store& s, notes& log, const std::atomic<bool>& stop) {
  tag_notes& own = log.tag;
  while (!stop) {
    const std::uint64_t index = own.acknowledged.load();
    if (index == tags_max) return;
    own.begun.store(index + 1);
    const version closed = index % 2 == 0 ? s.tag(tag_name(life_, index), "note") : s.tag();
    own.versions[index] = closed;
    own.fingerprints[index] = fingerprint(s.at(closed));
    own.acknowledged.store(index + 1);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void kill_loop::read(const store& s, notes& log, const std::atomic<bool>& stop) {
  for (unsigned i = 0; !stop; ++i) {
    const unsigned thread = i % writers;
    const auto found = s.find(counter_key(thread));
    if (!found) continue;
    std::uint64_t counter = 0;
    std::from_chars(found->data(), found->data() + found->size(), counter);
    if (counter > log.write[thread].seen) log.write[thread].seen = counter;
  }
}

int kill_loop::live(notes& log, unsigned seed) {
  std::mt19937 random(seed);
  for (;;) {  // until killed
    options opening = how_.options();
    opening.recovery_threads = random() % 4;
    store s(path_, opening);
    log.opened = true;
    std::atomic<bool> stop{false};
    const auto length = std::chrono::microseconds(random() % 30'000);
    in_threads(writers + 3, [&](unsigned thread) {
      if (thread < writers) return write(s, log, thread, stop);
      if (thread == writers) return tag(s, log, stop);
      if (thread == writers + 1) return read(s, log, stop);
      std::this_thread::sleep_for(length);
      stop = true;
    });
    s.close();
  }
}

void kill_loop::cycle(std::chrono::milliseconds life_max) {
  ++life_;
  const shared<notes> log;
  const unsigned seed = static_cast<unsigned>(random_());
  child writer([&] { return live(*log, seed); });
  const auto life_us = random_() % static_cast<std::uint32_t>(life_max.count() * 1000);
  std::this_thread::sleep_for(std::chrono::microseconds(life_us));
  writer.kill(SIGKILL);
  const int end = writer.wait();
  promise(end == -SIGKILL, [&] { return "the writer ended by itself with " + std::to_string(end); });
  const store s(path_, how_.options());
  recoveries_ += s.stats().recovered_from_crash ? 1 : 0;
  check(s, *log);
}

void kill_loop::check(const store& s, const notes& log) {
  const version least = clock_ + log.tag.acknowledged;
  const version most = clock_ + log.tag.begun;
  promise(least <= s.clock() && s.clock() <= most, [&] {
    return "after the kill the clock is " + std::to_string(s.clock()) + ", not in " + std::to_string(least) + " .. " +
           std::to_string(most);
  });
  for (unsigned thread = 0; thread < writers; ++thread) check_thread(s, log, thread);
  check_tags(s, log);
  const auto report = s.verify();
  promise(report.ok(), [&] {
    return "verify() after recovery: " + report.damages.front().structure + ": " + report.damages.front().what;
  });
  clock_ = s.clock();  // checking has closed the version that was open
}

void kill_loop::check_thread(const store& s, const notes& log, unsigned thread) {
  const write_notes& own = log.write[thread];
  const std::uint64_t acknowledged = own.acknowledged;
  const std::uint64_t begun = own.begun;
  for (std::uint64_t i = 0; i < acknowledged; ++i) {
    replay(past_[thread], thread, done_[thread] + i + 1, own.versions[i]);
    promise(own.versions[i] < s.clock() + 1, [] { return std::string("a version from before the crash lies ahead"); });
  }
  acknowledged_total_ += acknowledged;
  done_[thread] += acknowledged;
  std::string why;
  bool right = matches(s, past_[thread], thread, why);
  if (begun > acknowledged) {  // the write in flight either took effect or never does
    past with = past_[thread];
    replay(with, thread, done_[thread] + 1, 0);
    std::string why_not_with;
    const bool took_effect = !right && matches(s, with, thread, why_not_with);
    if (took_effect) {
      right = true;
      past_[thread] = std::move(with);
      ++done_[thread];
    } else if (!right) {
      why += "; nor with the write in flight: " + why_not_with;
    }
  }
  promise(right, [&] { return "after kill " + std::to_string(life_) + ": " + why; });
  const auto counter = s.find(counter_key(thread));
  std::uint64_t kept = 0;
  if (counter) std::from_chars(counter->data(), counter->data() + counter->size(), kept);
  promise(kept >= own.seen, [&] {
    return "a reader saw " + std::to_string(own.seen) + " but after the crash it is " + std::to_string(kept);
  });
}

bool kill_loop::matches(const store& s, const past& wanted, unsigned thread, std::string& why) const {
  for (const auto& [key, records] : wanted) {
    const auto found = s.history(key).oldest_first();
    for (std::size_t i = 0; i < std::max(found.size(), records.size()); ++i) {
      const bool same = i < found.size() && i < records.size() && found[i].value == records[i].value &&
                        (records[i].belongs_to == 0 || records[i].belongs_to == found[i].version);
      if (same) continue;
      why = "record " + std::to_string(i) + " of " + show(key) + " is " +
            (i < found.size() ? show_found(found[i].value) + " in " + std::to_string(found[i].version) : "missing") +
            " instead of " +
            (i < records.size() ? show_found(records[i].value) + " in " + std::to_string(records[i].belongs_to)
                                : "the end");
      return false;
    }
  }
  // nothing that was never written: all keys of this thread are known
  std::size_t present = 0;
  for (const auto& [key, records] : wanted) present += !records.empty() && records.back().value ? 1 : 0;
  std::size_t found = 0;
  for (const auto& one : s.latest().prefix(own_prefix(thread))) found += one.key.empty() ? 0 : 1;
  if (found == present) return true;
  why = std::to_string(found) + " keys instead of " + std::to_string(present);
  return false;
}

void kill_loop::check_tags(const store& s, const notes& log) {
  for (std::uint64_t i = 0; i < log.tag.acknowledged; ++i) {
    tags_.push_back({log.tag.versions[i], log.tag.fingerprints[i], i % 2 == 0 ? tag_name(life_, i) : ""});
  }
  version before = 0;
  for (const kept_tag& tag : tags_) {
    promise(tag.closed > before, [&] { return "version " + std::to_string(tag.closed) + " was given out twice"; });
    before = tag.closed;
    promise(tag.closed < s.clock(), [&] { return "version " + std::to_string(tag.closed) + " is open again"; });
    promise(fingerprint(s.at(tag.closed)) == tag.fingerprint,
            [&] { return "version " + std::to_string(tag.closed) + " gives another answer after the crash"; });
    if (tag.name.empty()) continue;
    const auto found = s.find_tag(tag.name);
    promise(found && found->version == tag.closed && found->note == "note",
            [&] { return "the acknowledged tag " + tag.name + " is lost or another"; });
  }
}

}  // namespace icecore::testing
