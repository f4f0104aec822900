// What a crash may leave on the medium.
//
// A medium is fed a trace, event by event. It knows what is surely there (the guaranteed bytes) and, for each unit, the
// stores that may or may not have arrived since:
//
//   lines (persistent memory): a unit is 64 bytes. Its stores arrive in their order, 8 bytes at a time at least; those
//     before a flush have arrived once the flusher fences.
//   sectors (page cache): a unit is 512 bytes, each written at a moment of its own; those before a sync have arrived
//     once it returns.
//
// So a crash leaves, for each unit, a prefix of its stores: that is a choice. File size and name are units of their
// own.
//
//   media m(unit::line, content);
//   for (const event& e : t) { if (may_crash_before(e)) { choices c(m); c.for_each(512, random, [&](choice&){...}); }
//     m.apply(e); }
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "trace.hpp"

namespace icecore::crash {

enum class unit : std::uint8_t { line = 6, sector = 9 };  // the logarithm of its bytes

/// The bytes of a file after a crash.
using image = std::vector<std::byte>;

class media {
 public:
  /// A file that is whole and durable, or none.
  media(unit granularity, std::span<const std::byte> content, bool exists);

  void apply(const event& e);

  /// What the program that made the trace sees: what is left where it was killed and the machine lives on.
  [[nodiscard]] const image& working() const noexcept { return working_; }

  /// One unit that a crash may leave in several states.
  struct open_unit {
    std::uint32_t number;
    std::vector<std::uint32_t> prefixes;  ///< counts of stores that leave different bytes; the first is 0
  };

 private:
  friend class choices;
  static constexpr unsigned writers_max = 4;

  struct store {
    std::uint64_t time;
    std::uint64_t value;
    std::uint32_t offset;
    std::uint8_t size;
  };
  struct flushed {
    std::uint32_t number;
    std::uint64_t time;
  };

  void guarantee(std::uint32_t number, std::uint64_t before);
  void guarantee_all(std::uint64_t before);
  void reach(std::uint64_t size);

  unsigned shift_;
  bool lines_;
  image guaranteed_;
  image working_;
  std::uint64_t time_ = 0;
  std::vector<std::vector<store>> pending_;  // of each unit
  std::vector<std::uint32_t> dirty_;         // units with pending stores
  std::array<std::vector<flushed>, writers_max> flushed_;
  std::array<std::uint64_t, writers_max> sync_began_{};
  struct size_change {
    std::uint64_t time;
    std::uint64_t size;
  };
  std::vector<size_change> sizes_;  // the first is durable
  bool may_be_missing_;             // the file's name is not durable yet
};

/// All that a crash at this moment may leave.
class choices {
 public:
  explicit choices(const media& of);

  /// How many there are; saturates.
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

  /// Visits all of them if they are at most `most`; else none, all, each alone, all but one, and random ones, about
  /// `most` in all. The bytes are valid during the call only. `missing`: there is no file.
  using visitor = std::function<void(std::span<const std::byte> bytes, bool missing)>;
  void for_each(std::uint64_t most, std::mt19937_64& random, const visitor& visit) const;

 private:
  struct made;

  const media& of_;
  std::vector<media::open_unit> units_;
  std::uint64_t count_ = 1;
};

}  // namespace icecore::crash
