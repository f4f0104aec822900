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
// So a crash leaves, for each unit, a prefix of its stores: that is a choice. Sizes and names of files are units of
// their own.
//
//   media m(unit::line, files);
//   for (const event& e : t) { if (may_crash_before(e)) { choices c(m); c.for_each(512, random, [&](choice&){...}); }
//     m.apply(e); }
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "files.hpp"
#include "trace.hpp"

namespace icecore::crash {

enum class unit : std::uint8_t { line = 6, sector = 9 };  // the logarithm of its bytes

/// The bytes of all files after a crash, each in its place.
using image = std::vector<std::byte>;

class media {
 public:
  /// Files that are whole and durable, or not there.
  media(unit granularity, const left_files& files);

  void apply(const event& e);

  /// What the program that made the trace sees: what is left where it was killed and the machine lives on.
  [[nodiscard]] left_files working() const noexcept;

  /// One unit that a crash may leave in several states.
  struct open_unit {
    std::uint32_t number;
    std::vector<std::uint32_t> prefixes;  ///< counts of stores that leave different bytes; the first is 0
  };

 private:
  friend class choices;
  static constexpr unsigned writers_max = 12;

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

  struct size_change {
    std::uint64_t time;
    std::uint64_t size;
  };
  struct file {
    bool there = false;
    bool named = false;              ///< durably
    std::uint64_t size = 0;          ///< that the program sees
    std::vector<size_change> sizes;  ///< the first is durable
  };

  void guarantee(std::uint32_t number, std::uint64_t before);
  void guarantee_file(unsigned number, std::uint64_t before);
  void resize(unsigned number, std::uint64_t size);
  void reach(std::uint64_t end);

  unsigned shift_;
  bool lines_;
  image guaranteed_;
  image working_;
  std::uint64_t time_ = 0;
  std::vector<std::vector<store>> pending_;  // of each unit
  std::vector<std::uint32_t> dirty_;         // units with pending stores
  std::array<std::vector<flushed>, writers_max> flushed_;
  std::array<std::uint64_t, writers_max> sync_began_{};
  std::array<file, files_max> files_;
};

/// All that a crash at this moment may leave.
class choices {
 public:
  explicit choices(const media& of);

  /// How many there are; saturates.
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

  /// Visits all of them if they are at most `most`; else none, all, each alone, all but one, and random ones, about
  /// `most` in all. The bytes are valid during the call only.
  using visitor = std::function<void(const left_files& left)>;
  void for_each(std::uint64_t most, std::mt19937_64& random, const visitor& visit) const;

 private:
  struct made;
  /// Of each file, which of its sizes; `missing`: it is not there.
  using sizes = std::array<std::size_t, files_max>;
  static constexpr std::size_t missing = ~std::size_t{0};

  [[nodiscard]] static std::vector<sizes> all_sizes(const media& of);

  const media& of_;
  std::vector<media::open_unit> units_;
  std::vector<sizes> sizes_;
  std::uint64_t count_ = 1;
};

}  // namespace icecore::crash
