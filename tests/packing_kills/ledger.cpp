#include "ledger.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "support/model.hpp"

namespace icecore::testing {
namespace {

/// Most writes go to these: they have long histories.
constexpr unsigned contended = 20;

std::string key_of(unsigned writer, unsigned key) { return fmt::format("key {:03} of {}", key, writer); }

constexpr bool removes(std::uint64_t number) noexcept { return number == 0 || number % 5 == 4; }

/// Many short ones, and some that have more than a segment's granule.
std::string value_of(unsigned writer, unsigned key, std::uint64_t number) {
  std::string value = fmt::format("{} {} {} ", number, key, writer);
  const std::uint64_t chance = (number * 0x9e3779b97f4a7c15U) >> 40;
  const std::uint64_t length = chance % 100 < 70 ? chance % 61 : chance % 100 < 97 ? chance % 601 : chance % 9'001;
  return value.append(length, static_cast<char>('a' + chance % 26));
}

/// The number of the write that has left this; empty if none has.
std::optional<std::uint64_t> number_of(unsigned writer, unsigned key, std::string_view value) {
  std::uint64_t number = 0;
  std::from_chars(value.data(), value.data() + value.size(), number);
  if (removes(number) || value_of(writer, key, number) != value) return std::nullopt;
  return number;
}

struct may_be {
  std::uint64_t least;
  std::uint64_t most;
};

/// Throws unless one of these writes has left what was found.
void check_found(unsigned writer, unsigned key, may_be numbers, const std::optional<value>& found) {
  bool is_right = false;
  if (found) {
    const auto number = number_of(writer, key, found->bytes());
    is_right = number && *number >= numbers.least && *number <= numbers.most;
  } else {
    for (std::uint64_t n = numbers.least; n <= numbers.most && !is_right; ++n) is_right = removes(n);
  }
  promise(is_right, [&] {
    return fmt::format("{} is {}; its last acknowledged write was {}, the last one that was begun {}",
                       key_of(writer, key), found ? "'" + show(found->bytes()) + "'" : "not there", numbers.least,
                       numbers.most);
  });
}

std::uint64_t digest_of(const snapshot& s) {
  std::uint64_t digest = 0xcbf29ce484222325U;  // FNV-1a
  const auto add = [&](std::string_view bytes) {
    for (const char c : bytes) digest = (digest ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    digest = (digest ^ bytes.size()) * 0x100000001b3U;
  };
  for (const auto& [key, value] : s.range()) {
    add(key);
    add(value);
  }
  return digest;
}

}  // namespace

void own_keys::take_over(const store& s) {
  for (unsigned key = 0; key < ledger::keys; ++key) {
    ledger::line& line = line_of(key);
    const may_be numbers{line.acknowledged, line.begun};
    const auto found = s.find(key_of(writer_, key));
    check_found(writer_, key, numbers, found);
    if (numbers.least == numbers.most) continue;
    if (found) {
      line.acknowledged = *number_of(writer_, key, found->bytes());
    } else if (removes(numbers.most)) {
      line.acknowledged = numbers.most;
    }
  }
}

void own_keys::write_one(store& s, random_numbers& random) {
  const auto draw = [&](std::uint64_t below) { return static_cast<unsigned>(random() % below); };
  constexpr unsigned batched_max = 6;
  const bool is_batch = draw(12) == 0;
  const unsigned count = is_batch ? 2 + draw(batched_max - 1) : 1;
  const unsigned first = draw(4) == 0 ? draw(ledger::keys - count + 1) : draw(contended);
  batch together;
  std::vector<std::uint64_t> numbers;
  for (unsigned i = 0; i < count; ++i) {
    numbers.push_back(line_of(first + i).begun + 1);
    line_of(first + i).begun = numbers.back();
    const std::string key = key_of(writer_, first + i);
    removes(numbers.back()) ? together.remove(key) : together.insert(key, value_of(writer_, first + i, numbers.back()));
  }
  if (is_batch) {
    s.apply(together);
  } else if (removes(numbers.front())) {
    static_cast<void>(s.remove(key_of(writer_, first)));
  } else {
    s.insert(key_of(writer_, first), value_of(writer_, first, numbers.front()));
  }
  for (unsigned i = 0; i < count; ++i) line_of(first + i).acknowledged = numbers[i];
  all_->writes += count;
}

void check_any(const store& s, ledger& all, unsigned writers, random_numbers& random) {
  const auto writer = static_cast<unsigned>(random() % writers);
  const auto key = static_cast<unsigned>(random() % (random() % 2 == 0 ? contended : ledger::keys));
  const ledger::line& line = all.lines[writer][key];
  const std::uint64_t least = line.acknowledged;
  const auto found = s.find(key_of(writer, key));
  check_found(writer, key, {least, line.begun}, found);
  ++all.finds;
}

void note(const snapshot& s, ledger& all) {
  const std::uint64_t digest = digest_of(s);
  ledger::noted_version& place = all.noted[all.noted_count++ % ledger::noted_max];
  place.at = 0;
  place.digest = digest;
  place.at = s.version();
}

void check_noted(const store& s, ledger& all, unsigned number) {
  ledger::noted_version& place = all.noted[number % ledger::noted_max];
  version at = place.at;
  const std::uint64_t digest = place.digest;
  // else another one is being noted there
  if (at == 0 || place.at != at) return;
  try {
    const std::uint64_t now = digest_of(s.at(at));
    if (place.at != at) return;
    promise(now == digest, [&] { return fmt::format("version {} does not show any more what it did", at); });
    ++all.versions_checked;
  } catch (const error& e) {
    if (e.code() != errc::version_expired) throw;
    place.at.compare_exchange_strong(at, 0);
  }
}

void check_sound(const verify_report& report, const char* of) {
  promise(report.ok(),
          [&] { return fmt::format("{}: {}: {}", of, report.damages.front().structure, report.damages.front().what); });
}

}  // namespace icecore::testing
