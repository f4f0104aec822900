// icecore_crash: explores what power cuts and kills leave of a store, and judges each image.
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "base/threads.hpp"
#include "explore.hpp"
#include "fibers.hpp"

namespace icecore::crash {
namespace {

struct arguments {
  std::string mode = "line";
  std::uint64_t images = 1'000'000;
  std::uint64_t seed = 1;
  std::uint64_t seconds = 0;
  unsigned jobs = 0;
  std::uint64_t per_point = 4096;
  std::uint64_t recoveries = 128;
  std::uint64_t deep = 16;
  std::string durability = "any";
  std::string index = "any";
  std::string queries = "some";
  std::string feeds = "some";
  std::string deferred = "some";
  std::string packs = "some";
  std::string expires = "some";
  std::string holds = "some";
  std::string mixes = "some";
  std::string beside = "some";
  unsigned writers = 0;
  unsigned files = 0;
  bool full_nodes = false;
  bool full_tags = false;
  bool full_segments = false;
  std::optional<std::uint64_t> story;
  std::optional<std::uint64_t> image;
  std::string save;
  bool quiet = false;
};

/// What a worker has done, in memory shared with the others.
struct tally {
  std::atomic<std::uint64_t> stories, moments, exhausted, images, kills, nested, deep;
  std::atomic<std::uint64_t> next_story, current_story[64], current_image[64];
  std::atomic<bool> failed;

  void add(const explored& e) {
    stories += e.stories;
    moments += e.moments;
    exhausted += e.exhausted;
    images += e.images;
    kills += e.kills;
    nested += e.nested;
    deep += e.deep;
  }
};

/// Each story has its own way to open the store, drawn from its seed unless it is given.
story_options options_of(const arguments& a, std::uint64_t seed) {
  std::uint64_t draw = (seed + 0x9e3779b97f4a7c15U) * 0xbf58476d1ce4e5b9U;
  draw ^= draw >> 31;
  const auto one_of = [&draw](std::uint64_t n) {
    const std::uint64_t chosen = draw % n;
    draw = draw / n * 0x94d049bb133111ebU ^ draw >> 29;
    return chosen;
  };
  story_options how;
  how.on = a.mode == "line" ? device::persistent_memory : device::disk;
  // what the device is for more often than the other modes
  const durability line[] = {durability::operation, durability::operation, durability::tag, durability::none};
  const durability page[] = {durability::tag, durability::tag, durability::operation, durability::none};
  how.durability = a.mode == "line" ? line[one_of(4)] : page[one_of(4)];
  if (a.durability == "none") how.durability = durability::none;
  if (a.durability == "tag") how.durability = durability::tag;
  if (a.durability == "operation") how.durability = durability::operation;
  const index_kind in_memory[] = {index_kind::btree, index_kind::skip_list, index_kind::hash, index_kind::list};
  how.index = in_memory[one_of(std::size(in_memory))];
  if (a.index == "btree") how.index = index_kind::btree;
  if (a.index == "skip_list") how.index = index_kind::skip_list;
  if (a.index == "list") how.index = index_kind::list;
  if (a.index == "hash") how.index = index_kind::hash;
  const unsigned writers[] = {1, 2, 1, 2, 3};
  how.writers = a.writers != 0 ? a.writers : writers[one_of(5)];
  const bool persistent_index = one_of(2) == 0;
  if (a.index == "persistent" || (a.index == "any" && persistent_index)) how.index = index_kind::persistent;
  const bool several = one_of(4) == 0;
  how.files = a.files != 0 ? a.files : several ? files_max : 1;
  how.reads_all = one_of(8) == 0;
  how.full_nodes = a.full_nodes;
  how.full_tags = a.full_tags;
  how.full_segments = a.full_segments;
  how.changes_mode = one_of(4) == 0;
  const bool third = one_of(3) == 0;
  how.queries = a.queries == "always" || (a.queries == "some" && third);
  // what start() makes durable of other writers' is not known here
  if (how.queries && how.writers > 1) how.durability = durability::operation;
  const bool half = one_of(2) == 0;
  how.feeds = how.queries && (a.feeds == "always" || (a.feeds == "some" && half));
  const bool defers = one_of(2) == 0;
  const bool may_defer = how.durability == durability::operation && !(how.queries && how.writers > 1);
  how.deferred = may_defer && (a.deferred == "always" || (a.deferred == "some" && defers));
  const bool packs = one_of(3) == 0;
  how.packs = how.writers == 1 && (a.packs == "always" || (a.packs == "some" && packs));
  const bool expires = one_of(2) == 0;
  how.expires = how.packs && (a.expires == "always" || (a.expires == "some" && expires));
  const bool holds = one_of(2) == 0;
  how.holds = how.expires && (a.holds == "always" || (a.holds == "some" && holds));
  // What a crash leaves is reckoned by contents of the whole store, one behind each operation. Looking at a content
  // makes durable on a disk what was deferred: nothing would be.
  if (how.expires) how.queries = how.feeds = false;
  if (how.expires && how.on == device::disk) how.deferred = false;
  const bool beside = one_of(4) == 0;
  how.beside = how.packs && (a.beside == "always" || (a.beside == "some" && beside));
  const bool mixes = one_of(8) == 0 && a.packs == "some" && a.expires == "some" && a.holds == "some";
  if (a.mixes == "always" || (a.mixes == "some" && mixes)) {
    how.mixes = how.queries = how.feeds = true;
    how.packs = how.expires = how.holds = how.deferred = how.changes_mode = how.beside = false;
    how.durability = durability::operation;
  }
  return how;
}

std::string replay(const arguments& a, std::uint64_t seed, std::optional<std::uint64_t> image) {
  std::string command = "icecore_crash --mode " + a.mode + " --story " + std::to_string(seed);
  if (image) command += " --image " + std::to_string(*image);
  command += " --per-point " + std::to_string(a.per_point) + " --recoveries " + std::to_string(a.recoveries);
  if (a.durability != "any") command += " --durability " + a.durability;
  if (a.index != "any") command += " --index " + a.index;
  if (a.queries != "some") command += " --queries " + a.queries;
  if (a.feeds != "some") command += " --feeds " + a.feeds;
  if (a.deferred != "some") command += " --deferred " + a.deferred;
  if (a.packs != "some") command += " --packs " + a.packs;
  if (a.expires != "some") command += " --expires " + a.expires;
  if (a.holds != "some") command += " --holds " + a.holds;
  if (a.beside != "some") command += " --beside " + a.beside;
  if (a.mixes != "some") command += " --mixes " + a.mixes;
  if (a.writers != 0) command += " --writers " + std::to_string(a.writers);
  if (a.files != 0) command += " --files " + std::to_string(a.files);
  if (a.full_nodes) command += " --full-nodes";
  if (a.full_tags) command += " --full-tags";
  if (a.full_segments) command += " --full-segments";
  return command;
}

// A crash of the store under test must say where it was: told by the handler of the signal.
const arguments* signal_arguments = nullptr;
const explorer* signal_explorer = nullptr;
std::uint64_t signal_story = 0;

[[noreturn]] void on_signal(int number) {
  const char* what = number == SIGALRM ? "hangs" : "crashed";
  std::fprintf(stderr, "FAILED: the store %s (signal %d)\n  replay: %s\n", what, number,
               replay(*signal_arguments, signal_story,
                      signal_explorer == nullptr ? std::nullopt : std::optional(signal_explorer->at() - 1))
                   .c_str());
  _exit(1);
}

/// The first file as `path`, the others beside it with their numbers.
void save(const left_files& left, const std::string& path) {
  for (unsigned n = 0; n < files_max; ++n) {
    if (!left[n].there) continue;
    std::ofstream(n == 0 ? path : path + "." + std::to_string(n), std::ios::binary)
        .write(reinterpret_cast<const char*>(left[n].bytes.data()), static_cast<std::streamsize>(left[n].bytes.size()));
  }
}

bool run_story(const arguments& a, std::uint64_t seed, tally& all) {
  constexpr unsigned seconds_max = 900;  // of a story with all its images
  alarm(seconds_max);
  signal_story = seed;
  explored done;
  explorer_options how;
  how.per_point = a.per_point;
  how.nest_kill_one_in = a.recoveries;
  how.nest_one_in = 8 * a.recoveries;
  how.deep_one_in = a.deep;
  how.only = a.image;
  explorer e(how, done);
  signal_explorer = nullptr;
  std::optional<failure> failed;
  try {
    const story s = record_story(options_of(a, seed), seed);
    signal_explorer = &e;
    failed = e.explore(s);
  } catch (const std::exception& thrown) {
    failed = {seed, e.at(), std::string("an error in the story itself: ") + thrown.what(), {}};
  }
  all.add(done);
  if (!failed) return true;
  if (!a.save.empty()) save(failed->left.view(), a.save);
  if (!all.failed.exchange(true)) {
    std::fprintf(stderr, "FAILED: %s\n  replay: %s\n", failed->what.c_str(), replay(a, seed, failed->image).c_str());
  }
  return false;
}

int work(const arguments& a, tally& all, std::chrono::steady_clock::time_point end) {
  for (const int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM}) signal(number, on_signal);
  while (!all.failed && all.images + all.kills < a.images) {
    if (a.seconds != 0 && std::chrono::steady_clock::now() > end) break;
    if (!run_story(a, all.next_story++, all)) return 1;
  }
  return 0;
}

void report(const arguments& a, const tally& all, double seconds, bool over) {
  std::printf(
      "%s%s mode: %llu images of power cuts, %llu of kills, %llu of them nested; %llu moments (%llu exhausted) of "
      "%llu stories; %llu judged deeply; %.0f s%s",
      over ? "" : "\r", a.mode.c_str(), static_cast<unsigned long long>(all.images),
      static_cast<unsigned long long>(all.kills), static_cast<unsigned long long>(all.nested),
      static_cast<unsigned long long>(all.moments), static_cast<unsigned long long>(all.exhausted),
      static_cast<unsigned long long>(all.stories), static_cast<unsigned long long>(all.deep), seconds,
      over ? "\n" : "");
  std::fflush(stdout);
}

int explore_all(const arguments& a) {
  mallopt(M_MMAP_THRESHOLD, 1 << 28);  // an image after the other: what one has freed the next takes
  mallopt(M_TRIM_THRESHOLD, 1 << 28);
  void* shared = mmap(nullptr, sizeof(tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw std::bad_alloc();
  auto& all = *new (shared) tally{};
  all.next_story = a.seed;
  signal_arguments = &a;
  if (a.story) {
    for (const int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM}) signal(number, on_signal);
    const bool good = run_story(a, *a.story, all);
    report(a, all, 0, true);
    std::puts(good ? "no violation" : "violated");
    return good ? 0 : 1;
  }
  const auto begin = std::chrono::steady_clock::now();
  const unsigned jobs = a.jobs != 0 ? a.jobs : std::max(1U, std::thread::hardware_concurrency());
  std::vector<pid_t> children;
  for (unsigned i = 0; i < jobs; ++i) {
    const pid_t child = fork();
    if (child < 0) throw std::runtime_error("fork failed");
    if (child == 0) _exit(work(a, all, begin + std::chrono::seconds(a.seconds)));
    children.push_back(child);
  }
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  bool good = true;
  std::size_t running = children.size();
  while (running > 0) {
    int status = 0;
    const pid_t ended = waitpid(-1, &status, WNOHANG);
    if (ended > 0) {
      --running;
      if (status != 0) good = false, all.failed = true;
      continue;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    if (!a.quiet && isatty(STDOUT_FILENO) != 0) report(a, all, seconds(), false);
  }
  report(a, all, seconds(), true);
  std::puts(good ? "no violation" : "violated");
  return good ? 0 : 1;
}

int main_of(int argc, char** argv) {
  fibers::on_change = [](unsigned fiber) { icecore::detail::own_thread_number = fiber; };
  arguments a;
  CLI::App app(
      "Explores what power cuts and kills may leave of a store: runs short stories of writers on a simulated machine, "
      "enumerates what each crash may leave on the medium, opens every image and judges it.");
  app.add_option("--mode", a.mode, "line: persistent memory, 64-byte lines; page: page cache, 512-byte sectors")
      ->check(CLI::IsMember({"line", "page"}))
      ->capture_default_str();
  app.add_option("--images", a.images, "stop after so many images")->capture_default_str();
  app.add_option("--seed", a.seed, "number of the first story")->capture_default_str();
  app.add_option("--seconds", a.seconds, "stop after so long; 0: never")->capture_default_str();
  app.add_option("--jobs", a.jobs, "processes; 0: one a core")->capture_default_str();
  app.add_option("--per-point", a.per_point, "images of one moment at most; stories draw a part of it each")
      ->check(CLI::Range(std::uint64_t{8}, std::uint64_t{1} << 20))
      ->capture_default_str();
  app.add_option(
         "--recoveries", a.recoveries,
         "of so many kills, and eight times as many power cuts, one is followed by another crash in the recovery")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 30))
      ->capture_default_str();
  app.add_option("--deep", a.deep, "of so many images one is verified, its versions are read, and it is used")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 30))
      ->capture_default_str();
  app.add_option("--durability", a.durability, "of all stories; recoveries in a quarter of them have one of their own")
      ->check(CLI::IsMember({"any", "none", "tag", "operation"}))
      ->capture_default_str();
  app.add_option("--index", a.index, "of all stories")
      ->check(CLI::IsMember({"any", "volatile", "btree", "skip_list", "list", "hash", "persistent"}))
      ->capture_default_str();
  app.add_option("--queries", a.queries, "kept queries in stories: in a third of them, or not")
      ->check(CLI::IsMember({"some", "always", "never"}))
      ->capture_default_str();
  app.add_option("--feeds", a.feeds, "feeds in stories that have kept queries: in half of these, or not")
      ->check(CLI::IsMember({"some", "always", "never"}))
      ->capture_default_str();
  app.add_option("--deferred", a.deferred,
                 "deferred durability, where it is that of operations: in half of these stories, or not")
      ->check(CLI::IsMember({"some", "always", "never"}))
      ->capture_default_str();
  app.add_option("--packs", a.packs, "compactions between operations: in a third of the stories of one writer, or not")
      ->check(CLI::IsMember({"some", "always", "never"}));
  app.add_option("--expires", a.expires,
                 "retention, and keys that are forgotten, in stories with compactions: in half of them, or not")
      ->check(CLI::IsMember({"some", "always", "never"}));
  app.add_option("--holds", a.holds, "Of these stories, which hold versions: some, always, never")
      ->check(CLI::IsMember({"some", "always", "never"}));
  app.add_option("--beside", a.beside,
                 "a reader beside the writer, across compactions: in a quarter of the stories with these, or not")
      ->check(CLI::IsMember({"some", "always", "never"}));
  app.add_option("--mixes", a.mixes,
                 "several writers, kept queries and feeds beside compactions that let versions expire: in an eighth of "
                 "the stories, or not")
      ->check(CLI::IsMember({"some", "always", "never"}));
  app.add_option("--writers", a.writers, "of all stories; 0: one, two or three")->check(CLI::Range(0U, 4U));
  app.add_option("--files", a.files, "of the stores of all stories; 0: one, in a quarter of them two")
      ->check(CLI::Range(0U, files_max));
  app.add_flag("--full-nodes", a.full_nodes,
               "nodes of the persistent index are about to split in all its stories, not only in a third");
  app.add_flag("--full-tags", a.full_tags, "likewise the newest block of the persistent index's list of tags");
  app.add_flag("--full-segments", a.full_segments, "likewise a writer's segment, while others have room");
  app.add_option("--story", a.story, "this story only");
  app.add_option("--image", a.image, "of this story this image only, judged deeply")->needs("--story");
  app.add_option("--save", a.save, "write the image that failed to this file");
  app.add_flag("--quiet", a.quiet, "no progress");
  CLI11_PARSE(app, argc, argv);
  return explore_all(a);
}

}  // namespace
}  // namespace icecore::crash

int main(int argc, char** argv) {
  try {
    return icecore::crash::main_of(argc, argv);
  } catch (const std::exception& failed) {
    std::cerr << "icecore_crash: " << failed.what() << "\n";
    return 2;
  }
}
