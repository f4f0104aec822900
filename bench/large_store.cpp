// One large store: bytes of memory and of file per key, and the time to reopen it after its writer was killed.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <stdexcept>

#include "icecore/icecore.hpp"
#include "report.hpp"

namespace icecore::bench {
namespace {

/// What the writer passes to its parent before it is killed.
struct last_words {
  std::atomic<bool> complete;
  double insert_s;
  std::uint64_t anonymous_bytes;  // resident, private to the process, grown by filling the store
  std::uint64_t index_bytes;
  std::uint64_t used_bytes;
  std::uint64_t file_bytes;
};

[[nodiscard]] std::uint64_t resident_anonymous_bytes() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("RssAnon:")) return std::stoull(line.substr(8)) * 1024;
  }
  return 0;
}

using numbers = map<std::uint64_t, std::uint64_t>;

[[noreturn]] void write_and_die(const std::filesystem::path& path, std::uint64_t keys, unsigned threads,
                                last_words& words) {
  const std::uint64_t before = resident_anonymous_bytes();
  store s(path);
  words.insert_s = timed_in_threads(threads, [&](unsigned thread) {
    numbers all(s);
    for (std::uint64_t i = keys * thread / threads; i < keys * (thread + 1) / threads; ++i) {
      all.insert(random_key(i), i);
    }
  });
  const statistics now = s.stats();
  words.anonymous_bytes = resident_anonymous_bytes() - before;
  words.index_bytes = now.index_bytes;
  words.used_bytes = now.used_bytes;
  words.file_bytes = now.file_bytes;
  words.complete = true;
  ::kill(getpid(), SIGKILL);
  _exit(1);
}

void run_writer(const std::filesystem::path& path, std::uint64_t keys, unsigned threads, last_words& words) {
  const pid_t writer = fork();
  if (writer < 0) throw std::runtime_error("fork failed");
  if (writer == 0) {
    try {
      write_and_die(path, keys, threads, words);
    } catch (const std::exception& failure) {
      std::fprintf(stderr, "icecore_budgets: %s\n", failure.what());
    }
    _exit(1);
  }
  int status = 0;
  waitpid(writer, &status, 0);
  if (!words.complete) throw std::runtime_error("the writer could not fill the store");
}

}  // namespace

json measure_large(const settings& chosen, std::uint64_t keys) {
  const unsigned threads = chosen.threads.back();
  const scratch_file file(chosen.folder, "icecore-budgets-large");
  void* room = mmap(nullptr, sizeof(last_words), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) throw std::bad_alloc();
  auto& words = *new (room) last_words{};
  tell("a child fills the store with " + std::to_string(keys) + " keys");
  run_writer(file.path(), keys, threads, words);
  tell("reopening");
  const std::uint64_t before = resident_anonymous_bytes();
  const auto begin = std::chrono::steady_clock::now();
  store s(file.path());
  const double reopen_s = seconds_since(begin);
  const std::uint64_t reopened_bytes = resident_anonymous_bytes() - before;
  const statistics now = s.stats();
  if (now.keys != keys || !now.recovered_from_crash) throw std::runtime_error("the reopened store is not the same");
  const numbers all(s);
  random_numbers random(1);
  for (int n = 0; n < 100'000; ++n) {
    const std::uint64_t i = random.below(keys);
    if (all.find(random_key(i)) != i) throw std::runtime_error("a wrong answer after reopening");
  }
  tell("");
  const auto a_key = [keys](std::uint64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(keys); };
  json result = {{"keys", keys},
                 {"threads", threads},
                 {"insert_mops", static_cast<double>(keys) / words.insert_s / 1e6},
                 {"memory_bytes_a_key", a_key(words.anonymous_bytes)},
                 {"index_bytes_a_key", a_key(words.index_bytes)},
                 {"file_bytes_a_key", a_key(words.file_bytes)},
                 {"used_file_bytes_a_key", a_key(words.used_bytes)},
                 {"reopen_after_kill_s", reopen_s},
                 {"memory_bytes_a_key_after_reopening", a_key(reopened_bytes)},
                 {"index_bytes_a_key_after_reopening", a_key(now.index_bytes)}};
  munmap(room, sizeof(last_words));
  table shown({"a store of " + std::to_string(keys) + " keys, " + std::to_string(threads) + " threads", ""});
  shown.add({"insert, M/s", fixed(result["insert_mops"], 2)});
  shown.add({"memory, bytes a key (resident, anonymous)", fixed(result["memory_bytes_a_key"], 1)});
  shown.add({"  of these by the index", fixed(result["index_bytes_a_key"], 1)});
  shown.add({"file, bytes a key", fixed(result["file_bytes_a_key"], 1)});
  shown.add({"  of these in use", fixed(result["used_file_bytes_a_key"], 1)});
  shown.add({"reopen after SIGKILL, s", fixed(reopen_s, 3)});
  shown.add({"memory after reopening, bytes a key", fixed(result["memory_bytes_a_key_after_reopening"], 1)});
  shown.add({"  of these by the index", fixed(result["index_bytes_a_key_after_reopening"], 1)});
  shown.print();
  return result;
}

}  // namespace icecore::bench
