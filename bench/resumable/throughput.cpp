// Figure 1: the throughput of other operations while a query sleeps at each item.
#include <sys/prctl.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "../isolated.hpp"
#include "../measure.hpp"
#include "figures.hpp"

namespace icecore::bench::resumable {

void load(subject& into, std::uint64_t keys, std::size_t item_size) {
  std::vector<char> item(item_size);
  for (std::uint64_t i = 0; i < keys; i += 2) {
    const std::uint64_t key = random_key(i / 2) % (keys / 2) * 2;  // in no order, as far as they differ
    fill(item, key);
    into.insert(key, {item.data(), item.size()});
  }
  for (std::uint64_t key = 0; key < keys; key += 2) {  // those that were not drawn
    fill(item, key);
    into.insert(key, {item.data(), item.size()});
  }
}

void operate(subject& on, const mix& does, std::uint64_t keys, std::uint64_t random, std::span<char> item) {
  const std::uint64_t key = (random >> 8) % keys;
  const auto choice = static_cast<unsigned>((random & 255U) * 100 / 256);
  if (choice < does.gets) {
    on.get(key);
  } else if (choice < does.gets + does.inserts) {
    fill(item, key);
    on.insert(key, {item.data(), item.size()});
  } else {
    on.remove(key);
  }
}

void sleep_us(unsigned us) { std::this_thread::sleep_for(std::chrono::microseconds(us)); }

namespace {

/// Nanoseconds that this thread had a core.
std::uint64_t own_cpu_ns() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<std::uint64_t>(used.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(used.tv_nsec);
}

}  // namespace

outcome throughput(const settings& chosen, const kind& of, structure is, const mix& does, unsigned threads) {
  const shared_array<outcome> result(1);
  const std::filesystem::path folder = chosen.folder / "resumable";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  constexpr unsigned limit_s = 600;
  run_and_kill(limit_s, [&] {
    prctl(PR_SET_TIMERSLACK, 1UL);  // nanoseconds: sleeps of 100 us are of 100 us; threads inherit it
    constexpr double inserts_a_second = 4e6;
    const auto inserts = static_cast<std::uint64_t>(inserts_a_second * (chosen.seconds + 1)) + chosen.keys;
    // Never closed: the process is killed.
    subject* const s =
        of.open({.folder = folder, .is = is, .keys = chosen.keys, .inserts = inserts, .item_size = 8}).release();
    load(*s, chosen.keys, 8);
    std::atomic<bool> operations_end{false};
    std::atomic<bool> query_ends{false};
    std::atomic<bool> query_runs{false};
    std::jthread asking([&] {
      try {
        for (;;) {
          s->query([&] {
            query_runs.store(true, std::memory_order_release);
            if (query_ends.load(std::memory_order_acquire)) throw stopped{};
            sleep_us(chosen.sleep_us);
          });
        }
      } catch (const stopped&) {
      }
    });
    while (!query_runs.load(std::memory_order_acquire)) std::this_thread::yield();
    std::atomic<std::uint64_t> done{0};
    std::atomic<std::uint64_t> cpu_ns{0};
    std::jthread clock([&] {
      std::this_thread::sleep_for(std::chrono::duration<double>(chosen.seconds));
      operations_end.store(true, std::memory_order_release);
    });
    const double seconds = timed_in_threads(threads, [&](unsigned thread) {
      random_numbers random(thread + 1);
      std::array<char, 8> item{};
      std::uint64_t own = 0;
      const std::uint64_t before_ns = own_cpu_ns();
      while (!operations_end.load(std::memory_order_relaxed)) {  // a hint
        operate(*s, does, chosen.keys, random.below(~std::uint64_t{0}), item);
        ++own;
      }
      done.fetch_add(own, std::memory_order_relaxed);  // joining orders both
      cpu_ns.fetch_add(own_cpu_ns() - before_ns, std::memory_order_relaxed);
    });
    query_ends.store(true, std::memory_order_release);
    asking.join();
    const auto operations = static_cast<double>(done.load(std::memory_order_relaxed));
    const double cpu_seconds = 1e-9 * static_cast<double>(cpu_ns.load(std::memory_order_relaxed));
    result[0] = {operations / seconds, operations, static_cast<double>(s->bytes()), operations / cpu_seconds};
  });
  std::filesystem::remove_all(folder);
  return result[0];
}

}  // namespace icecore::bench::resumable
