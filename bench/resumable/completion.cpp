// Figure 2: the time of a query whose process is killed at half of its items, from its start to its end, while another
// thread does operations. Opening counts for what is durable; volatile maps are loaded again, which does not count.
#include <sys/prctl.h>

#include <atomic>
#include <semaphore>
#include <stdexcept>
#include <thread>

#include "../isolated.hpp"
#include "../measure.hpp"
#include "figures.hpp"

namespace icecore::bench::resumable {
namespace {

struct shared {
  double until_killed;  // seconds
  double after;
  double bytes;
  double operations;
};

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

constexpr unsigned pause_us = 100;  // between two operations: space for items of 32 KiB is bounded

/// Operations in a thread of its own, until the process is killed.
void operate_for_ever(subject& s, std::uint64_t keys, std::size_t item_size, shared& tells, std::uint64_t seed) {
  std::thread([&s, &tells, keys, item_size, seed] {
    std::vector<char> item(item_size);
    random_numbers random(seed);
    for (;;) {
      operate(s, write_heavy, keys, random.below(~std::uint64_t{0}), item);
      tells.operations += 1;
      sleep_us(pause_us);
    }
  }).detach();
}

}  // namespace

outcome completion(const settings& chosen, const kind& of, structure is, std::size_t item_size) {
  const std::filesystem::path folder = (of.on_disk ? chosen.disk : chosen.folder) / "resumable";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const shared_array<shared> told(1);
  constexpr unsigned limit_s = 3600;
  const std::uint64_t keys = 2 * chosen.items;
  const opening how = {.folder = folder,
                       .is = is,
                       .keys = keys,
                       .inserts = 10 * keys + 100'000 / (item_size / 8),
                       .item_size = item_size};

  run_and_kill(limit_s, [&] {
    prctl(PR_SET_TIMERSLACK, 1UL);
    subject* const s = of.open(how).release();
    load(*s, keys, item_size);
    std::binary_semaphore half{0};
    std::binary_semaphore never{0};
    operate_for_ever(*s, keys, item_size, told[0], 1);
    const double begin = now_s();
    std::thread([&] {
      std::uint64_t items = 0;
      s->query([&] {
        if (items++ == chosen.items / 2) {
          told[0].until_killed = now_s() - begin;
          half.release();
          never.acquire();
        }
        sleep_us(chosen.sleep_us);
      });
    }).detach();
    half.acquire();
  });
  run_and_kill(limit_s, [&] {
    prctl(PR_SET_TIMERSLACK, 1UL);
    double begin = now_s();
    subject* const s = of.open(how).release();
    if (!of.durable) {
      load(*s, keys, item_size);
      begin = now_s();
    }
    operate_for_ever(*s, keys, item_size, told[0], 2);
    std::uint64_t items = 0;
    s->query([&] {
      ++items;
      sleep_us(chosen.sleep_us);
    });
    told[0].after = now_s() - begin;
    told[0].bytes = static_cast<double>(s->bytes());
    // what was done before the kill is not done again, except by what starts again
    if (of.name != "volatile" && items > chosen.items * 3 / 4) throw std::runtime_error("a query that began again");
  });
  std::filesystem::remove_all(folder);
  return {1 / (told[0].until_killed + told[0].after), told[0].operations, told[0].bytes, 0};
}

}  // namespace icecore::bench::resumable
