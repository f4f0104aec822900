// What memory orders allow to fibers, which run in the order of the program: data races (two accesses to the same
// bytes, one of them storing and not both atomic, that nothing puts one behind the other), and loads that show older
// values.
//
//   memory_orders::begin(writers, seed);  fibers::run(...);  memory_orders::end();
//   if (!memory_orders::race().empty()) ...
//
// Each writer has a vector clock, which it hands on by what it stores with release, and takes up by what it loads with
// acquire (C++20, intro.races; ThreadSanitizer does so: K. Serebryany, T. Iskhodzhanov, WBIA 2009). A race is found in
// any interleaving in which both accesses happen, however far apart. With a seed an atomic load shows now and then (a
// quarter of a writer's loads, or nearly all) any value that the word has had since the newest store that the reader
// must see: one that happens before, one that was seen by itself or by a load that happens before, one that was
// sequentially consistent if it is so itself, or one of before a fence that both have (as in B. Norris, B. Demsky:
// CDSChecker, OOPSLA 2013). A read-modify-write, and an exchange that fails, sees the newest. What an operation of the
// store did is visible to all that are called after it has returned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace icecore::crash::memory_orders {

inline constexpr unsigned writers_max = 4;

/// Whether accesses are looked at.
inline bool looking = false;

/// From here on they are; all before is ordered before all that comes. With a seed, loads may show older values.
void begin(unsigned writers, std::optional<std::uint64_t> seed);
void end() noexcept;
/// The first race since begin(), for people; empty: there is none.
[[nodiscard]] const std::string& race() noexcept;

enum class access : std::uint8_t { read, write, atomic_read, atomic_write };

/// `from`: the instruction, for people.
void look_at(access what, const volatile void* begin, std::size_t size, const void* from);
inline void at(access what, const volatile void* begin, std::size_t size, const void* from) {
  if (looking) look_at(what, begin, size, from);
}

/// An atomic word: one place, always of one size.
struct word {
  const volatile void* at;
  std::size_t size;
};

// What atomic operations order; `order` is the compiler's number.
/// What a load of the word shows; `newest` is in memory.
[[nodiscard]] std::uint64_t loaded(word of, int order, std::uint64_t newest);
/// A load that shows the newest.
void exchange_failed(word of, int order, std::uint64_t newest);
/// After a store, or a read-modify-write, over what was there before.
void stored(word of, int order, std::uint64_t before, std::uint64_t value);
void exchanged(word of, int order, std::uint64_t before, std::uint64_t value);
void fenced(int order);
// And locks.
void locked(const volatile void* lock);
void unlocked(const volatile void* lock);
// And operations of the store, for what is visible: not for races.
void called();
void returned();

/// This memory is given out anew.
void forget(const volatile void* begin, std::size_t size);

}  // namespace icecore::crash::memory_orders
