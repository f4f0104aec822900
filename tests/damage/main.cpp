// icecore_damage: random damage to stores of each kind, each judged by the truth: a right answer, or an error.
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>
#include <new>
#include <thread>

#include "corruption.hpp"
#include "subject.hpp"
#include "ways.hpp"

namespace icecore::damaging {
namespace {

struct arguments {
  std::uint64_t corruptions = 10'000;
  std::uint64_t seed = 1;
  std::uint64_t seconds = 0;
  std::uint64_t failures = 1;
  unsigned jobs = 0;
  std::string kind;
  std::string keep;
  std::optional<std::uint64_t> store;
  std::optional<std::uint64_t> corruption;
};

constexpr std::uint64_t per_store = 250;  // corruptions
constexpr unsigned jobs_max = 64;

/// What came of the corruptions of one kind.
struct counts {
  std::uint64_t unchanged = 0;
  std::uint64_t right = 0;
  std::uint64_t reported = 0;
  std::uint64_t wrong = 0;

  counts& operator+=(const counts& o) {
    unchanged += o.unchanged;
    right += o.right;
    reported += o.reported;
    wrong += o.wrong;
    return *this;
  }
};
using table = std::map<std::string, counts>;

/// In memory that all workers share.
struct shared_state {
  std::atomic<std::uint64_t> next_item;
  std::atomic<std::uint64_t> failures;
  struct position {
    std::atomic<std::uint64_t> item, corruption;
    std::atomic<unsigned> way;
    std::atomic<bool> busy;
  };
  std::array<position, jobs_max> at;
};

std::uint64_t mixed(std::uint64_t x) noexcept {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9U;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// The store before and after it was damaged, as files that the command line reads: of a failure.
void keep_files(const std::string& folder, const char* name, const crash::left_files& files) {
  for (unsigned n = 0; n < crash::files_max; ++n) {
    if (!files[n].there) continue;
    const std::string path = folder + "/" + name + "." + std::to_string(n) + ".ice";
    std::FILE* const out = std::fopen(path.c_str(), "wb");  // no call of the simulated machine's
    const std::size_t size = files[n].bytes.size();
    const bool complete = out != nullptr && std::fwrite(files[n].bytes.data(), 1, size, out) == size;
    if (out != nullptr) std::fclose(out);
    if (!complete) std::fprintf(stderr, "cannot keep %s: %s\n", path.c_str(), std::strerror(errno));
  }
}

class runner {
 public:
  runner(const arguments& a, shared_state& all) : arguments_(a), all_(all) {
    for (const store_kind& k : all_kinds()) {
      if (k.name().find(a.kind) != std::string::npos) kinds_.push_back(k);
    }
    if (kinds_.empty()) throw std::invalid_argument("no kind of store has '" + a.kind + "' in its name");
    for (std::uint64_t left = a.corruptions; left > 0; left -= std::min(left, per_store)) {
      ++stores_;
    }
  }

  [[nodiscard]] std::uint64_t items() const { return stores_ * kinds_.size(); }
  [[nodiscard]] const store_kind& kind_of(std::uint64_t item) const { return kinds_[item % kinds_.size()]; }
  [[nodiscard]] std::uint64_t store_of(std::uint64_t item) const {
    return arguments_.store ? *arguments_.store : item / kinds_.size();
  }

  [[nodiscard]] std::string replay(std::uint64_t item, std::uint64_t number) const {
    return "icecore_damage --seed " + std::to_string(arguments_.seed) + " --kind " + kind_of(item).name() +
           " --store " + std::to_string(store_of(item)) + " --corruption " + std::to_string(number);
  }

  /// One store with its corruptions, from the one with this number on.
  void run(std::uint64_t item, std::uint64_t from, shared_state::position& at, table& results) {
    const store_kind& kind = kind_of(item);
    std::uint64_t seed = mixed(arguments_.seed * 0x9e3779b97f4a7c15U + store_of(item) + 1);
    for (const char c : kind.name()) seed = mixed(seed + static_cast<unsigned char>(c));
    const subject s = make_subject(kind, seed);
    const std::uint64_t end = std::min(per_store, arguments_.corruptions - item / kinds_.size() * per_store);
    for (std::uint64_t i = arguments_.corruption.value_or(from); i < end || arguments_.corruption; ++i) {
      at.corruption = i;
      one(s, item, i, mixed(seed + i), results);
      if (arguments_.corruption || all_.failures >= arguments_.failures) return;
    }
  }

 private:
  void one(const subject& s, std::uint64_t item, std::uint64_t number, std::uint64_t seed, table& results) {
    alarm(300);
    const itimerval seconds_of_work{{0, 0}, {30, 0}};
    setitimer(ITIMER_PROF, &seconds_of_work, nullptr);
    const corruption c = corrupt(s, seed);
    counts& of_kind = results[s.kind.name()];
    counts& of_damage = results[c.what];
    counts now;
    if (changed_bytes(s.files.view(), c.files.view()).none()) {
      now.unchanged = 1;
    } else {
      const outcome done = use(s, c, all_ways[mixed(seed) % std::size(all_ways)]);
      (!done.wrong.empty() ? now.wrong : done.reported ? now.reported : now.right) = 1;
      if (!done.wrong.empty()) {
        ++all_.failures;
        std::fprintf(stderr, "FAILED: %s, %s: %s\n  replay: %s\n", s.kind.name().c_str(), c.detail.c_str(),
                     done.wrong.c_str(), replay(item, number).c_str());
        if (!arguments_.keep.empty()) {
          keep_files(arguments_.keep, "before", s.files.view());
          keep_files(arguments_.keep, "damaged", c.files.view());
        }
      }
    }
    of_kind += now;
    of_damage += now;
  }

  const arguments& arguments_;
  shared_state& all_;
  std::vector<store_kind> kinds_;
  std::uint64_t stores_ = 0;  // of each kind
};

// A crash of the store must say where it was: told by the handler of the signal.
const runner* signal_runner = nullptr;
shared_state* signal_state = nullptr;
shared_state::position* signal_at = nullptr;

[[noreturn]] void on_signal(int number) {
  const bool hangs = number == SIGALRM || number == SIGPROF;
  ++signal_state->failures;
  std::fprintf(stderr, "FAILED: %s: the store %s (signal %d)\n  replay: %s\n",
               signal_runner->kind_of(signal_at->item).name().c_str(), hangs ? "hangs" : "crashed", number,
               signal_runner->replay(signal_at->item, signal_at->corruption).c_str());
  _exit(1);
}

/// What a worker tells when it has done a store: a line for each kind.
void tell(int to, const table& results) {
  std::string text;
  for (const auto& [what, c] : results) {
    text += what + "\t" + std::to_string(c.unchanged) + " " + std::to_string(c.right) + " " +
            std::to_string(c.reported) + " " + std::to_string(c.wrong) + "\n";
  }
  // a pipe takes so little as one piece
  if (!text.empty() && write(to, text.data(), text.size()) < 0) _exit(2);
}

void work(runner& runs, const arguments& a, shared_state& all, unsigned me, int to,
          std::chrono::steady_clock::time_point end) {
  shared_state::position& at = all.at[me];
  signal_at = &at;
  for (const int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM, SIGPROF}) signal(number, on_signal);
  const auto over = [&] {
    return all.failures >= a.failures || (a.seconds != 0 && std::chrono::steady_clock::now() > end);
  };
  std::uint64_t from = 0;
  if (at.busy) from = at.corruption + 1;  // the worker before this one died there
  while (!over()) {
    if (from == 0) at.item = all.next_item++;
    if (at.item >= runs.items()) break;
    at.busy = true;
    table results;
    runs.run(at.item, from, at, results);
    tell(to, results);
    at.busy = false;
    from = 0;
  }
  at.busy = false;
}

table read_results(const std::string& text) {
  table all;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    const std::size_t tab = text.find('\t', at);
    counts c;
    if (std::sscanf(text.c_str() + tab, "%lu %lu %lu %lu", &c.unchanged, &c.right, &c.reported, &c.wrong) == 4)
      all[text.substr(at, tab - at)] += c;
    at = end + 1;
  }
  return all;
}

void print(const table& all) {
  std::printf("%-24s %12s %12s %12s %12s\n", "", "no change", "all right", "reported", "wrong");
  for (const auto& [what, c] : all)
    std::printf("%-24s %12lu %12lu %12lu %12lu\n", what.c_str(), c.unchanged, c.right, c.reported, c.wrong);
}

int run_all(const arguments& a) {
  void* memory = mmap(nullptr, sizeof(shared_state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  auto& all = *new (memory) shared_state{};
  runner runs(a, all);
  signal_runner = &runs;
  signal_state = &all;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(a.seconds);
  const unsigned jobs = std::min(jobs_max, a.jobs != 0 ? a.jobs : std::max(1U, std::thread::hardware_concurrency()));
  int pipes[2];
  if (pipe(pipes) != 0) throw std::runtime_error("pipe failed");
  std::map<pid_t, unsigned> workers;
  const auto start = [&](unsigned me) {
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child < 0) throw std::runtime_error("fork failed");
    if (child == 0) {
      close(pipes[0]);
      work(runs, a, all, me, pipes[1], end);
      _exit(0);
    }
    workers[child] = me;
  };
  for (unsigned me = 0; me < jobs; ++me) start(me);
  std::string text;
  std::thread reader([&] {
    std::array<char, 4096> piece;
    for (ssize_t size; (size = read(pipes[0], piece.data(), piece.size())) > 0;)
      text.append(piece.data(), static_cast<std::size_t>(size));
  });
  while (!workers.empty()) {
    int status = 0;
    const pid_t ended = wait(&status);
    const unsigned me = workers.at(ended);
    workers.erase(ended);
    if (status != 0 && all.failures < a.failures) start(me);
  }
  close(pipes[1]);
  reader.join();
  table kinds;
  table damages;
  counts total;
  for (const auto& [what, c] : read_results(text)) {
    (what.find(',') != std::string::npos ? kinds : damages)[what] += c;
    if (what.find(',') != std::string::npos) total += c;
  }
  print(kinds);
  print(damages);
  std::printf("%lu random corruptions that changed something, seed %lu: %lu reported, %lu answered rightly, ",
              total.right + total.reported + total.wrong, a.seed, total.reported, total.right);
  if (all.failures == 0) {
    std::puts("no wrong answer");
  } else {
    std::printf("%lu FAILED\n", all.failures.load());
  }
  return all.failures == 0 ? 0 : 1;
}

int main_of(int argc, char** argv) {
  arguments a;
  CLI::App app(
      "Damages stores of each kind at random, uses them in all ways, and compares every answer with the truth: it is "
      "right, or an error that tells of damage.");
  app.add_option("--corruptions", a.corruptions, "of each kind of store")->capture_default_str();
  app.add_option("--seed", a.seed)->capture_default_str();
  app.add_option("--seconds", a.seconds, "stop after so long; 0: never")->capture_default_str();
  app.add_option("--failures", a.failures, "stop after so many")->capture_default_str();
  app.add_option("--jobs", a.jobs, "processes; 0: one a core")->capture_default_str();
  app.add_option("--kind", a.kind,
                 "stores whose kind has this in its name: btree, skip_list or persistent,closed or "
                 "killed,1 or 2 files");
  app.add_option("--keep", a.keep, "a folder for the files of the last failure, before and after the damage");
  app.add_option("--store", a.store, "the store of this number alone")->needs("--kind");
  app.add_option("--corruption", a.corruption, "of this store this corruption alone")->needs("--store");
  CLI11_PARSE(app, argc, argv);
  if (a.store) a.corruptions = std::min(a.corruptions, per_store);
  return run_all(a);
}

}  // namespace
}  // namespace icecore::damaging

int main(int argc, char** argv) {
  try {
    return icecore::damaging::main_of(argc, argv);
  } catch (const std::exception& failed) {
    std::cerr << "icecore_damage: " << failed.what() << "\n";
    return 2;
  }
}
