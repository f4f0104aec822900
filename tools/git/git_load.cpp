#include "git/git_load.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <thread>

#include "git/git_repository.hpp"
#include "git/ordered_pipeline.hpp"
#include "git/resident_pages.hpp"
#include "line/opening.hpp"
#include "text/json.hpp"
#include "text/output.hpp"
#include "text/progress.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

/// With durability none, a load syncs this often. It syncs right after a tag, when sync() closes no version, so version
/// numbers do not depend on time.
constexpr auto between_syncs = std::chrono::seconds(5);

constexpr std::size_t note_bytes_max = 65'535;

volatile std::sig_atomic_t stop_signal = 0;

/// While this object lives, SIGINT and SIGTERM only request a stop: the load ends after the current commit.
class stop_requests {
 public:
  stop_requests() {
    struct sigaction asked {};
    asked.sa_handler = [](int number) { stop_signal = number; };
    sigaction(SIGINT, &asked, &interrupt_);
    sigaction(SIGTERM, &asked, &terminate_);
  }
  ~stop_requests() {
    sigaction(SIGINT, &interrupt_, nullptr);
    sigaction(SIGTERM, &terminate_, nullptr);
  }
  stop_requests(const stop_requests&) = delete;
  stop_requests& operator=(const stop_requests&) = delete;

 private:
  struct sigaction interrupt_ {};
  struct sigaction terminate_ {};
};

/// A commit that was read from git and can be written to the store.
struct loaded_commit {
  git_commit_info info;
  batch changes;
  std::uint64_t inserts = 0;
  std::uint64_t bytes = 0;  // bytes of all values
  [[nodiscard]] std::uint64_t weight() const noexcept { return bytes; }
};

loaded_commit read_commit(const git_reader& from, const std::vector<git_oid>& chain, std::size_t index) {
  loaded_commit commit;
  commit.info = from.info(chain[index]);
  commit.info.subject.resize(std::min(commit.info.subject.size(), note_bytes_max));
  from.changes(index > 0 ? &chain[index - 1] : nullptr, chain[index], [&](const git_change& c) {
    if (c.value) {
      commit.changes.insert(c.path, *c.value);
      commit.bytes += c.value->size();
      ++commit.inserts;
    } else {
      commit.changes.remove(c.path);
    }
  });
  return commit;
}

/// The results of a load.
struct tally {
  std::size_t commits_before = 0;  // already in the store
  std::size_t commits = 0;
  std::uint64_t paths = 0;
  std::uint64_t bytes = 0;
  double seconds = 0;
};

class git_loader {
 public:
  git_loader(const git_load_arguments& arguments, store& into, std::vector<git_oid> chain)
      : arguments_(&arguments), into_(&into), chain_(std::move(chain)) {
    find_place();
  }

  /// Returns false if it was asked to stop before the end.
  bool run() {
    const stop_requests stopping;
    const auto start = std::chrono::steady_clock::now();
    const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
    ordered_pipeline<loaded_commit> commits(
        done.commits_before, chain_.size(), arguments_->threads != 0 ? arguments_->threads : cores, [this] {
          auto reader = std::make_shared<git_reader>(arguments_->repository);
          return [this, reader](std::size_t index) { return read_commit(*reader, chain_, index); };
        });
    progress_bar bar("loading", chain_.size(), "commits");
    std::size_t index = done.commits_before;
    while (const auto commit = commits.take()) {
      write(*commit, index);
      done.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      bar.update(++index, human_bytes(static_cast<double>(done.bytes) / std::max(done.seconds, 1e-9)) + "/s");
      if (stop_signal != 0) return index == chain_.size();
    }
    return true;
  }

  tally done;

 private:
  /// The number of commits that the store already holds. Its tags must be the beginning of the chain.
  void find_place() {
    const auto tags = into_->tags();
    for (std::size_t i = 0; i < tags.size(); ++i) {
      const std::string expected = i < chain_.size() ? "commit " + hash_text(chain_[i]) : "the end of the chain";
      if (i < chain_.size() && tags[i].name == hash_text(chain_[i])) continue;
      throw error(
          errc::bad_input,
          fmt::format("{}: tag {} of the store is '{}', but the chain of {} in {} has {} in this place: the store "
                      "holds another history (or the branch was rewritten); load this one into a new store",
                      arguments_->store, i + 1, shown(tags[i].name, 80), shown(arguments_->ref, 80),
                      arguments_->repository, expected));
    }
    done.commits_before = tags.size();
    tagged_before_ = tags.empty() ? 0 : tags.back().version;
  }

  void write(const loaded_commit& commit, std::size_t index) {
    const bool first = index == done.commits_before;
    if (!commit.changes.empty() && !(first && is_applied(commit))) (void)into_->apply(commit.changes);
    const std::string name = hash_text(chain_[index]);
    (void)into_->tag(tag_options{.name = name, .note = commit.info.subject, .time_ns = commit.info.time_ns});
    done.commits += 1;
    done.paths += commit.changes.size();
    done.bytes += commit.bytes;
    sync_if_due();
  }

  /// A killed load may have applied the commit without tagging it. A batch is in the store completely or not at all, so
  /// its first key shows which.
  bool is_applied(const loaded_commit& commit) const {
    key_history records = into_->history(commit.changes.operations().front().key);
    const auto newest = records.begin();
    const bool applied = newest != records.end() && newest->version > tagged_before_;
    if (tagged_before_ == 0) {
      const std::uint64_t expected = applied ? commit.inserts : 0;
      if (const auto found = into_->stats().records; found != expected) {
        throw error(
            errc::store_exists,
            fmt::format("{}: the store holds {} records that are not from this repository; load into a new store",
                        arguments_->store, found));
      }
    }
    return applied;
  }

  void sync_if_due() {
    const auto now = std::chrono::steady_clock::now();
    if (arguments_->write.durability != durability::none || now < next_sync_) return;
    into_->sync();
    next_sync_ = now + between_syncs;
  }

  const git_load_arguments* arguments_;
  store* into_;
  std::vector<git_oid> chain_;
  version tagged_before_ = 0;
  std::chrono::steady_clock::time_point next_sync_ = std::chrono::steady_clock::now() + between_syncs;
};

void report_json(const git_load_arguments& a, const tally& t, const statistics& s, std::uint64_t file_bytes,
                 std::uint64_t packed_bytes, bool whole) {
  const double seconds = std::max(t.seconds, 1e-9);
  json_object line;
  line.bytes("repository", a.repository).bytes("ref", a.ref).add("complete", whole);
  line.add("commits_before", t.commits_before).add("commits", t.commits).add("paths", t.paths).add("bytes", t.bytes);
  line.add("seconds", t.seconds);
  line.add("commits_per_second", static_cast<double>(t.commits) / seconds);
  line.add("bytes_per_second", static_cast<double>(t.bytes) / seconds);
  line.add("store_used_bytes", s.used_bytes).add("store_file_bytes", file_bytes);
  line.add("git_unpacked_bytes", s.value_bytes).add("git_packed_bytes", packed_bytes);
  out().line(line.text());
}

void report_table(const git_load_arguments& a, const tally& t, const statistics& s, std::uint64_t file_bytes,
                  std::uint64_t packed_bytes) {
  const auto line = [](std::string_view what, const std::string& value) {
    out().line(fmt::format("{:<16}{}", what, value));
  };
  const auto size = [](std::uint64_t bytes) { return human_bytes(static_cast<double>(bytes)); };
  const double seconds = std::max(t.seconds, 1e-9);
  line("store", shown(a.store));
  line("repository", fmt::format("{} at {}", shown(a.repository), shown(a.ref)));
  line("commits",
       fmt::format("{}{}", grouped(t.commits),
                   t.commits_before == 0 ? "" : fmt::format("  ({} were there already)", grouped(t.commits_before))));
  line("paths changed", grouped(t.paths));
  line("values", size(t.bytes));
  line("seconds", fmt::format("{:.2f}", t.seconds));
  line("speed", fmt::format("{:.0f} commits/s, {:.1f} MB/s", static_cast<double>(t.commits) / seconds,
                            static_cast<double>(t.bytes) / 1e6 / seconds));
  line("store bytes", fmt::format("{} used, {} file", size(s.used_bytes), size(file_bytes)));
  const auto compared = [&](std::uint64_t bytes) {
    return fmt::format("{}; the store takes {:.3f} of it", size(bytes),
                       static_cast<double>(s.used_bytes) / std::max(static_cast<double>(bytes), 1.0));
  };
  line("git, unpacked", compared(s.value_bytes));
  line("git, packed", compared(packed_bytes) + " (its files, of all refs)");
}

}  // namespace

exit_code load_git(const git_load_arguments& a) {
  std::vector<git_oid> chain;
  std::uint64_t packed_bytes = 0;
  {
    const git_reader repository(a.repository);
    chain = repository.first_parent_chain(a.ref);
    packed_bytes = repository.object_bytes();
  }
  resident_bound bound({a.store});
  store s = open_to_write(a.store, a.write, creation::open_or_create);
  for (const file_statistics& file : s.stats().files) bound.add(file.path);
  git_loader loader(a, s, std::move(chain));
  const bool whole = loader.run();
  const statistics holds = s.stats();
  s.close();
  const std::uint64_t file_bytes = std::filesystem::file_size(a.store);
  if (a.format == cli::format::json) {
    report_json(a, loader.done, holds, file_bytes, packed_bytes, whole);
  } else {
    report_table(a, loader.done, holds, file_bytes, packed_bytes);
  }
  if (whole) return exit_code::ok;
  fmt::print(stderr, "icecore: {}: stopped after {} commits; start the same command again to continue\n", a.store,
             loader.done.commits_before + loader.done.commits);
  return exit_code::interrupted;
}

}  // namespace icecore::cli
