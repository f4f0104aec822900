// Readers beside the process that writes: icecore_beside [KEYS]
//
// What refresh() costs after 1,000 inserts and a tag, in a store of KEYS keys (default 10,000,000), and what a reader
// that refreshes all the while costs the writer. Keys and values of 8 bytes, in /dev/shm, B+-tree, durability none. The
// writer and the reader are processes of their own.
//
//   refresh           median, least and most of 101 refreshes, half of the writes to new keys; each answer is checked
//   writer            inserts a second with a reader over without one, in turns: median of 9 ratios, least and most
//   opening           seconds that the reader took to open
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "icecore/store.hpp"
#include "measure.hpp"

namespace {

using namespace icecore;
using bench::bytes_of;
using bench::require;

constexpr std::uint64_t writes = 1000;
constexpr int rounds = 101;

/// In memory that both processes see.
struct shared_state {
  std::atomic<std::uint64_t> tagged;  // the newest version that the reader is to show; 0: none yet
  std::atomic<std::uint64_t> key;     // whose value it has then
  std::atomic<std::uint64_t> value;
  std::atomic<std::uint64_t> answered;  // the version that the reader has shown
  std::atomic<bool> reads;              // the reader refreshes all the while
  std::atomic<bool> ends;
};

void wait_for(const std::atomic<std::uint64_t>& word, std::uint64_t value) {
  while (word.load() != value) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

int read_beside(const std::filesystem::path& path, shared_state& with) {
  options opening;
  opening.access = access::read_only;
  store reader(path, opening);
  require(reader.beside_writer(), "the reader is not beside the writer");
  fmt::print("opening           {:.2f} s for {} keys\n", reader.stats().recovery_seconds, reader.stats().keys);
  with.answered = reader.clock() - 1;
  std::vector<double> us;
  for (int i = 0; i < rounds; ++i) {
    const std::uint64_t before = with.answered;
    while (with.tagged == before) std::this_thread::sleep_for(std::chrono::microseconds(50));
    const std::uint64_t wanted = with.tagged;
    double took = 0;
    version shown = 0;
    while (shown < wanted) {  // until it is published, refresh() finds nothing
      const auto begin = std::chrono::steady_clock::now();
      shown = reader.refresh();
      took = bench::seconds_since(begin) * 1e6;
    }
    us.push_back(took);
    const std::uint64_t key = with.key;
    const std::uint64_t value = with.value;
    const auto found = reader.find(bytes_of(key));
    require(found && *found == bytes_of(value), "the value of the last write of a round");
    with.answered = wanted;
  }
  std::ranges::sort(us);
  fmt::print("refresh           {:.0f} us (least {:.0f}, most {:.0f}) after {} writes\n", us[us.size() / 2], us.front(),
             us.back(), writes);
  std::fflush(stdout);
  while (!with.ends) {
    if (with.reads) {
      static_cast<void>(reader.refresh());
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  return 0;
}

double inserts_a_second(store& s, std::uint64_t keys, bench::random_numbers& random) {
  const std::uint64_t count = std::min<std::uint64_t>(1'000'000, keys);
  std::vector<std::uint64_t> order(count);
  for (std::uint64_t& key : order) key = bench::random_key(random.below(keys));
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < count; ++i) {
    s.insert(bytes_of(order[i]), bytes_of(i));
    if (i % writes == 0) s.tag();
  }
  return static_cast<double>(count) / bench::seconds_since(begin);
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t keys = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10'000'000;
  if (keys == 0) {
    fmt::print(stderr, "Usage: icecore_beside [KEYS]   a number of keys from 1 (default: 10000000)\n");
    return 2;
  }
  void* const memory = ::mmap(nullptr, sizeof(shared_state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  require(memory != MAP_FAILED, "no shared memory");
  auto& with = *new (memory) shared_state{};
  const std::filesystem::path path = fmt::format("/dev/shm/icecore-beside-{}.ice", ::getpid());
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    wait_for(with.answered, ~std::uint64_t{0});
    return read_beside(path, with);
  }
  bench::random_numbers random(7);
  {
    options opening;
    opening.durability = durability::none;
    store s(path, opening);
    for (std::uint64_t i = 0; i < keys; ++i) {
      const std::uint64_t key = bench::random_key(i);
      s.insert(bytes_of(key), bytes_of(i));
    }
    const version loaded = s.tag("loaded");
    with.tagged = loaded;
    with.answered = ~std::uint64_t{0};
    wait_for(with.answered, loaded);
    std::uint64_t fresh = keys;
    for (int round = 0; round < rounds; ++round) {
      std::uint64_t key = 0;
      for (std::uint64_t i = 0; i < writes; ++i) {
        key = bench::random_key(i % 2 == 0 ? fresh++ : random.below(keys));
        s.insert(bytes_of(key), bytes_of(i));
      }
      with.key = key;
      with.value = writes - 1;
      const version tagged = s.tag(fmt::format("round {}", round));
      with.tagged = tagged;
      wait_for(with.answered, tagged);
    }
    std::vector<double> ratios;
    static_cast<void>(inserts_a_second(s, keys, random));
    for (int i = 0; i < 9; ++i) {
      with.reads = i % 2 == 0;
      const double one = inserts_a_second(s, keys, random);
      with.reads = i % 2 != 0;
      const double other = inserts_a_second(s, keys, random);
      ratios.push_back(i % 2 == 0 ? one / other : other / one);
    }
    std::ranges::sort(ratios);
    fmt::print("writer            {:.3f} of its inserts a second without a reader (least {:.3f}, most {:.3f})\n",
               ratios[ratios.size() / 2], ratios.front(), ratios.back());
    with.ends = true;
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  std::filesystem::remove(path);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
