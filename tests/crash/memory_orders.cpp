#include "memory_orders.hpp"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fibers.hpp"

namespace icecore::crash::memory_orders {
namespace {

/// Of each writer, how much of what it did is ordered before.
struct clock {
  std::array<std::uint32_t, writers_max> of{};
  void join(const clock& other) noexcept {
    for (unsigned w = 0; w < writers_max; ++w) of[w] = std::max(of[w], other.of[w]);
  }
};

struct writer {
  clock now;
  clock released;                // what its last release fence hands on by relaxed stores
  clock seen;                    // what its relaxed loads have met: an acquire fence takes it up
  clock visible;                 // what it must see, by fences and the order of operations, besides what happens before
  std::uint64_t last_fence = 0;  // moment of its last sequentially consistent one
  unsigned shows_older_of_16 = 0;  // loads
};

/// A value that an atomic word had.
struct made {
  std::uint64_t value = 0;
  unsigned by = 0;
  std::uint32_t at = 0;      // its writer's clock; 0: it was there
  std::uint64_t moment = 0;  // of the sequentially consistent ones
  clock handed_on;
};

/// At this clock of its own, a writer saw the value of this index, and none newer.
struct sighting {
  std::uint32_t at = 0;
  std::size_t value = 0;
};

/// The values of an atomic word, the newest last.
struct history {
  std::size_t size = 0;
  std::vector<made> values;
  std::array<std::vector<sighting>, writers_max> seen;  // by each writer, ascending
};

/// When each writer last did each kind of access; 0: never.
using accesses = std::array<std::array<std::uint32_t, writers_max>, 4>;

/// Accesses to a word of 8 bytes, and to parts of it.
struct word_state {
  accesses full{};
  std::unique_ptr<std::array<accesses, 8>> bytes;
  bool has_values = false;  // an atomic word begins in it
};

struct state {
  std::array<writer, writers_max> writers;
  std::unordered_map<std::uintptr_t, clock> handed_on;  // by each lock
  std::unordered_map<std::uintptr_t, word_state> words;
  std::unordered_map<std::uintptr_t, history> values;  // of atomic words, since somebody stored there otherwise
  std::string found;
  std::mt19937_64 random;
  clock fenced;                      // what was done before sequentially consistent fences
  clock returned;                    // and before operations returned, or what these had to see
  std::uint64_t returned_fence = 0;  // moment of the last fence of an operation that has returned
  std::uint64_t moment = 0;
};

/// Whether all fibers use it as if each had its own, or take turns in it: the thread's variables, and its own stack,
/// where the program that runs them has what it knows of them.
class shared_by_fibers {
 public:
  shared_by_fibers() {
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) std::abort();
    void* lowest = nullptr;
    pthread_attr_getstack(&attributes, &lowest, &stack_bytes_);
    pthread_attr_destroy(&attributes);
    stack_ = reinterpret_cast<std::uintptr_t>(lowest);
    variables_ = reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer()) - variables_bytes;
  }
  [[nodiscard]] bool contains(std::uintptr_t at) const noexcept {
    return at - stack_ < stack_bytes_ || at - variables_ < variables_bytes;
  }

 private:
  static constexpr std::uintptr_t variables_bytes = 64 << 10;  // below the pointer, at least so many are theirs
  std::uintptr_t stack_ = 0;
  std::size_t stack_bytes_ = 0;
  std::uintptr_t variables_ = 0;
};
state& world() {
  static auto* one = new state;
  return *one;
}
bool busy = false;  // its own memory is no fiber's

bool active() noexcept { return looking && !busy && fibers::active(); }

struct entered {
  entered() noexcept { busy = true; }
  ~entered() { busy = false; }
};

bool releases(int order) noexcept { return order >= __ATOMIC_RELEASE; }
bool acquires(int order) noexcept {
  return order == __ATOMIC_CONSUME || order == __ATOMIC_ACQUIRE || order >= __ATOMIC_ACQ_REL;
}
std::uintptr_t key_of(const volatile void* at) noexcept { return reinterpret_cast<std::uintptr_t>(at); }
writer& own() noexcept { return world().writers[fibers::current()]; }

void take_up(writer& w, const clock& from, int order) noexcept { (acquires(order) ? w.now : w.seen).join(from); }
const clock& hands_on(const writer& w, int order) noexcept { return releases(order) ? w.now : w.released; }
void tick() noexcept { ++own().now.of[fibers::current()]; }

constexpr std::array<const char*, 4> names = {"read", "write", "atomic read", "atomic write"};

bool conflict(access a, access b) noexcept {
  const auto writes = [](access x) { return x == access::write || x == access::atomic_write; };
  const auto is_atomic = [](access x) { return x == access::atomic_read || x == access::atomic_write; };
  return (writes(a) || writes(b)) && !(is_atomic(a) && is_atomic(b));
}

}  // namespace

const std::string& race() noexcept { return world().found; }

void begin(unsigned writers, std::optional<std::uint64_t> seed) {
  state& s = world();
  s.random.seed(seed.value_or(0));
  s.fenced = s.returned = {};
  s.moment = s.returned_fence = 0;
  s.handed_on.clear();
  s.words.clear();
  s.values.clear();
  s.found.clear();
  s.writers = {};
  // Some errors need a single new value among older ones: a writer that meets hardly anything but these finds them.
  constexpr std::array<unsigned, 4> older_of_16 = {4, 4, 10, 15};
  for (unsigned w = 0; w < writers && w < writers_max; ++w) {
    s.writers[w].now.of[w] = 1;
    if (seed) s.writers[w].shows_older_of_16 = older_of_16[s.random() % older_of_16.size()];
  }
  looking = true;
}

void end() noexcept { looking = false; }

namespace {

void forget_values(std::uintptr_t word, word_state& of) {
  if (!std::exchange(of.has_values, false)) return;
  for (std::uintptr_t at = word; at < word + 8; ++at) world().values.erase(at);
}

/// One access, looked at word by word.
class looked_at {
 public:
  looked_at(access what, const volatile void* begin, const void* from) noexcept
      : what_(what), begin_(begin), from_(from), me_(fibers::current()), now_(own().now) {}

  void full(word_state& word) const {
    compare(word.full);
    if (word.bytes != nullptr) std::ranges::for_each(*word.bytes, [this](const accesses& a) { compare(a); });
    note(word.full);
  }
  void part(word_state& word, std::size_t first, std::size_t end) const {
    compare(word.full);
    if (word.bytes == nullptr) word.bytes = std::make_unique<std::array<accesses, 8>>();
    for (std::size_t i = first; i < end; ++i) {
      compare((*word.bytes)[i]);
      note((*word.bytes)[i]);
    }
  }

 private:
  void note(accesses& in) const noexcept { in[static_cast<unsigned>(what_)][me_] = now_.of[me_]; }

  void compare(const accesses& with) const {
    for (unsigned kind = 0; kind < with.size(); ++kind) {
      if (!conflict(what_, static_cast<access>(kind))) continue;
      for (unsigned w = 0; w < writers_max; ++w) {
        if (w != me_ && with[kind][w] > now_.of[w]) tell(kind, w);
      }
    }
  }

  void tell(unsigned kind, unsigned other) const {
    if (!world().found.empty()) return;
    char text[200];
    std::snprintf(text, sizeof text, "data race: %s at %p of writer %u, by the instruction at %p, and %s of writer %u",
                  names[static_cast<unsigned>(what_)], const_cast<const void*>(begin_), me_, from_, names[kind], other);
    world().found = text;
  }

  access what_;
  const volatile void* begin_;
  const void* from_;
  unsigned me_;
  const clock& now_;
};

}  // namespace

void look_at(access what, const volatile void* begin, std::size_t size, const void* from) {
  if (!active()) return;
  const entered here;
  static const shared_by_fibers shared;
  const std::uintptr_t first = key_of(begin);
  if (shared.contains(first) || fibers::is_own_stack(begin)) return;
  const looked_at one(what, begin, from);
  constexpr std::uintptr_t word = 8;
  const std::uintptr_t end = first + size;
  for (std::uintptr_t at = first / word * word; at < end; at += word) {
    word_state& of = world().words[at];
    if (what == access::write) forget_values(at, of);
    if (first <= at && at + word <= end) {
      one.full(of);
    } else {
      one.part(of, std::max(first, at) - at, std::min(end, at + word) - at);
    }
  }
}

namespace {

history& history_of(word of, std::uint64_t there) {
  const std::uintptr_t key = key_of(of.at);
  history& h = world().values[key];
  if (h.values.empty() || h.size != of.size || h.values.back().value != there) {
    made first;
    first.value = there;
    h = {of.size, {first}, {}};
    world().words[key / 8 * 8].has_values = true;
  }
  return h;
}

/// Whether what another writer did at this clock of its own comes before what this one does now.
bool is_before(const writer& w, unsigned other, std::uint32_t at) noexcept {
  return at <= std::max(w.now.of[other], w.visible.of[other]);
}

/// The newest value that was seen by this writer, or by another one whose look comes before: no load goes back behind
/// it (C++20, intro.races, read-read coherence).
std::size_t newest_seen(const history& h, const writer& w) noexcept {
  std::size_t newest = 0;
  for (unsigned other = 0; other < writers_max; ++other) {
    const auto last = std::ranges::find_if(h.seen[other].rbegin(), h.seen[other].rend(),
                                           [&](const sighting& one) { return is_before(w, other, one.at); });
    if (last != h.seen[other].rend()) newest = std::max(newest, last->value);
  }
  return newest;
}

void see(history& h, std::size_t value) {
  std::vector<sighting>& mine = h.seen[fibers::current()];
  const std::uint32_t now = own().now.of[fibers::current()];
  if (!mine.empty() && mine.back().value >= value) return;
  if (!mine.empty() && mine.back().at == now) {
    mine.back().value = value;
  } else {
    mine.push_back({now, value});
  }
}

/// The oldest value that a load of this order by this writer may show.
std::size_t oldest_for(const history& h, const writer& w, int order) noexcept {
  const bool consistent = order == __ATOMIC_SEQ_CST;
  const std::size_t seen = newest_seen(h, w);
  std::size_t i = h.values.size() - 1;
  for (; i > seen; --i) {
    const made& m = h.values[i];
    const bool before = is_before(w, m.by, m.at);
    const bool fenced = m.moment != 0 && (consistent || m.moment <= w.last_fence);
    if (before || fenced || (consistent && m.at <= world().fenced.of[m.by])) break;
  }
  return i;
}

void note(history& h, made m) {
  constexpr std::size_t kept = 16;
  if (h.values.size() == kept) {
    h.values.erase(h.values.begin());
    for (auto& of_one : h.seen) {
      for (sighting& one : of_one) one.value -= one.value == 0 ? 0 : 1;
    }
  }
  h.values.push_back(std::move(m));
  see(h, h.values.size() - 1);
}

made made_now(std::uint64_t value, int order) noexcept {
  const unsigned me = fibers::current();
  return {value, me, own().now.of[me], order == __ATOMIC_SEQ_CST ? ++world().moment : 0, {}};
}

}  // namespace

std::uint64_t loaded(word of, int order, std::uint64_t newest) {
  if (!active()) return newest;
  const entered here;
  state& s = world();
  history& h = history_of(of, newest);
  std::size_t shown = h.values.size() - 1;
  if (own().shows_older_of_16 != 0 && s.random() % 16 < own().shows_older_of_16) {
    const std::size_t oldest = oldest_for(h, own(), order);
    shown = s.random() % 2 == 0 ? oldest : oldest + s.random() % (h.values.size() - oldest);
  }
  see(h, shown);
  take_up(own(), h.values[shown].handed_on, order);
  return h.values[shown].value;
}

void exchange_failed(word of, int order, std::uint64_t newest) {
  if (!active()) return;
  const entered here;
  history& h = history_of(of, newest);
  see(h, h.values.size() - 1);
  take_up(own(), h.values.back().handed_on, order);
}

void stored(word of, int order, std::uint64_t before, std::uint64_t value) {
  if (!active()) return;
  const entered here;
  made m = made_now(value, order);
  m.handed_on = hands_on(own(), order);
  note(history_of(of, before), std::move(m));
  tick();
}

void exchanged(word of, int order, std::uint64_t before, std::uint64_t value) {
  if (!active()) return;
  const entered here;
  history& h = history_of(of, before);
  const clock passes = h.values.back().handed_on;
  take_up(own(), passes, order);
  made m = made_now(value, order);
  m.handed_on = hands_on(own(), order);
  m.handed_on.join(passes);  // what was handed on before goes on: a release sequence
  note(h, std::move(m));
  tick();
}

void called() {
  if (!active()) return;
  own().visible.join(world().returned);
  own().last_fence = std::max(own().last_fence, world().returned_fence);
}

void returned() {
  if (!active()) return;
  // A fence orders also what happens after it elsewhere (C++20, atomics.order, p4): who is told of this operation must
  // see what its fences make it see.
  world().returned.join(own().now);
  world().returned.join(own().visible);
  world().returned_fence = std::max(world().returned_fence, own().last_fence);
  tick();
}

void fenced(int order) {
  if (!active()) return;
  const entered here;
  if (acquires(order)) own().now.join(own().seen);
  if (releases(order)) own().released = own().now;
  if (order == __ATOMIC_SEQ_CST) {
    own().visible.join(world().fenced);
    world().fenced.join(own().now);
    own().last_fence = ++world().moment;
  }
  tick();
}

void locked(const volatile void* lock) {
  if (!active()) return;
  const entered here;
  own().now.join(world().handed_on[key_of(lock)]);
}

void unlocked(const volatile void* lock) {
  if (!active()) return;
  const entered here;
  world().handed_on[key_of(lock)] = own().now;
  tick();
}

void forget(const volatile void* begin, std::size_t size) {
  if (!active()) return;
  const entered here;
  constexpr std::uintptr_t word = 8;  // what is given out begins with one
  for (std::uintptr_t at = key_of(begin); at < key_of(begin) + size; at += word) {
    const auto known = world().words.find(at);
    if (known == world().words.end()) continue;
    forget_values(at, known->second);
    world().words.erase(known);
  }
}

}  // namespace icecore::crash::memory_orders
