#include "service/snapshot/writing.hpp"

#include <fmt/format.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <fstream>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "icecore/error.hpp"
#include "service/json_text.hpp"
#include "service/snapshot/files.hpp"
#include "service/snapshot/stepped_back.hpp"
#include "service/steps.hpp"

namespace icecore::service {
namespace {

using namespace std::chrono_literals;
using json = nlohmann::json;
using std::filesystem::path;

// Writes the file, durable, and adds what the manifest says of it.
void write_file(const snapshot_part& what, const path& folder, std::vector<snapshot_file>& files,
                const icecore::progress_function& on_progress) {
  const path to = folder / what.as.file;
  make_folder(to.parent_path());
  what.taken.write(to, on_progress);
  const auto look = [&](std::string_view) {
    if (on_progress) on_progress({.what = "reading what was written", .done = 0, .total = 0, .unit = "bytes"});
  };
  const file_digest is = digest_of(to, look);
  snapshot_file done = what.as;
  done.version = what.taken.version();
  done.bytes = is.bytes;
  done.sha256 = is.sha256;
  files.push_back(std::move(done));
}

snapshot_report report_of(const path& to, const std::vector<snapshot_file>& files) {
  snapshot_report report{.path = to, .parts = {}};
  for (const snapshot_file& each : files) {
    if (each.database.empty()) continue;
    if (!report.parts.empty() && report.parts.back().database == each.database) {
      report.parts.back().bytes += each.bytes;
    } else {
      report.parts.push_back({.database = each.database, .version = each.version, .bytes = each.bytes});
    }
  }
  return report;
}

}  // namespace

std::vector<snapshot_part> captured(const std::vector<snapshot_source>& all, const icecore::store& catalog) {
  std::vector<snapshot_part> parts;
  // In the order of their names.
  std::vector<std::unique_ptr<held_still>> held;
  held.reserve(all.size());
  for (const snapshot_source& each : all) held.push_back(each.open->hold());
  for (std::size_t i = 0; i < all.size(); ++i) {
    parts.push_back({.as = {.file = "databases/" + std::to_string(all[i].number) + "/store.ice",
                            .database = all[i].name,
                            .sha256 = {}},
                     .taken = held[i]->take(),
                     .kept = held[i]->keep()});
  }
  parts.push_back(
      {.as = {.file = std::string(catalog_name), .database = {}, .sha256 = {}}, .taken = catalog.checkpoint()});
  return parts;
}

snapshot_report write_snapshot_of_server(const server_snapshot& what, const icecore::progress_function& on_progress) {
  new_folder folder(what.to);
  std::vector<snapshot_part> parts = what.capture();
  snapshot_manifest manifest{.server = what.identity, .place = what.place, .files = {}};
  std::uint64_t done = 0;
  std::uint64_t total = 0;
  for (const snapshot_part& part : parts) total += part.taken.bytes();
  stepped_back([&] {
    while (!parts.empty()) {
      const std::uint64_t bytes = parts.front().taken.bytes();
      write_file(parts.front(), folder.place(), manifest.files, [&](const icecore::progress&) { what.look(); });
      parts.erase(parts.begin());  // what was dropped meanwhile takes no space any longer
      done += bytes;
      if (on_progress) on_progress({.what = "writing the snapshot", .done = done, .total = total, .unit = "bytes"});
      what.look();
    }
  });
  write_manifest(folder.place(), manifest);
  folder.complete();
  return report_of(what.to, manifest.files);
}

// ---- Groups ----

struct group_snapshots::running {
  path to;
  std::optional<new_folder> folder;  // the first server's
  std::vector<snapshot_part> parts;
  std::atomic<bool> cancelled{false};  // relaxed: it publishes nothing
  std::mutex mutex;                    // guards what follows
  std::condition_variable changed;
  bool over = false;
  std::optional<failure> failed;

  [[nodiscard]] path list_of(std::uint32_t server) const {
    return new_folder::partial_of(to) / fmt::format("rank-{}.json", server);
  }
  void write(std::uint32_t server) noexcept {
    std::optional<failure> why;
    try {
      std::vector<snapshot_file> files;
      stepped_back([&] {
        for (const snapshot_part& part : parts) {
          write_file(part, new_folder::partial_of(to), files, [this](const icecore::progress&) {
            if (cancelled.load(std::memory_order_relaxed))
              throw icecore::error(errc::cancelled, "the snapshot was given up");
          });
        }
      });
      write_whole(list_of(server), text_of(files));
    } catch (...) {
      why = failure_of(std::current_exception());
    }
    parts.clear();
    const std::lock_guard lock(mutex);
    failed = std::move(why);
    over = true;
    changed.notify_all();
  }
  void cancel_and_wait() {
    cancelled.store(true, std::memory_order_relaxed);
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return over; });
  }
};

group_snapshots::~group_snapshots() {
  if (running_ == nullptr) return;
  running_->cancel_and_wait();
}

std::string group_snapshots::order(const char* step, const path& to) const {
  return of_.link->everywhere(
      json_text(json{{"do", "snapshot"}, {"database", ""}, {"with", {{"step", step}, {"to", to.native()}}}}));
}

snapshot_report group_snapshots::write(const path& to, const icecore::progress_function& on_progress) {
  static_cast<void>(order("begin", to));
  try {
    std::chrono::milliseconds pause = 2ms;
    while (order("look", to) != "over") {
      if (on_progress) on_progress({.what = "writing the snapshot", .done = 0, .total = 0, .unit = "bytes"});
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, std::chrono::milliseconds(200));
    }
    return report_of(to, files_in(to, order("end", to)));
  } catch (...) {
    try {
      static_cast<void>(order("abandon", to));
    } catch (const icecore::error&) {  // the group is stopping: its end does it
    }
    throw;
  }
}

std::string group_snapshots::execute(const std::string& step, const path& to) {
  if (step == "begin") {
    begin(to);
    return {};
  }
  if (step == "abandon") {  // at each server, what there is of it
    abandon();
    return {};
  }
  return step == "look" ? look() : end();
}

void group_snapshots::begin(const path& to) {
  auto made = std::make_shared<running>();
  made->to = to;
  std::vector<snapshot_source> all;
  steps together(of_.link);
  together.agree([&] {
    if (running_ != nullptr) {
      throw icecore::error(errc::limit_reached, "another snapshot of the group is being written; wait for its end");
    }
    all = of_.databases();
    if (of_.link->index() == 0) made->folder.emplace(to);
  });
  {
    // hold() and take() are collective, and go on to their ends whatever fails here: no server waits for another one.
    std::vector<std::unique_ptr<held_still>> held;
    held.reserve(all.size());
    made->parts.reserve(all.size() + 1);
    for (const snapshot_source& each : all) held.push_back(each.open->hold());
    for (std::size_t i = 0; i < all.size(); ++i) {
      together.attempt([&] {
        made->parts.push_back({.as = {.file = fmt::format("databases/{}/rank-{}.ice", all[i].number, of_.link->index()),
                                      .database = all[i].name,
                                      .sha256 = {}},
                               .taken = held[i]->take()});
      });
    }
  }
  if (of_.link->index() == 0) {  // no database is made and no user changed while an order is executed
    together.attempt([&] {
      made->parts.push_back({.as = {.file = std::string(catalog_name), .database = {}, .sha256 = {}},
                             .taken = of_.catalog->checkpoint()});
    });
  }
  together.agree();
  running_ = made;
  of_.pool->post([made, server = of_.link->index()] { made->write(server); });
}

void group_snapshots::require_running() const {
  if (running_ == nullptr) throw icecore::error(errc::unavailable, "no snapshot of the group is being written");
}

std::string group_snapshots::look() {
  bool over = false;
  steps(of_.link).agree([&] {
    require_running();
    const std::lock_guard lock(running_->mutex);
    over = running_->over;
    if (running_->failed) raise(*running_->failed);
  });
  return of_.link->everywhere_is(over) ? "over" : "writing";
}

// By the first server.
std::string group_snapshots::complete() {
  snapshot_manifest manifest{.server = of_.identity, .place = of_.place, .dependent = true, .files = {}};
  std::vector<std::vector<snapshot_file>> lists;
  for (std::uint32_t server = 0; server < of_.link->size(); ++server) {
    const path list = running_->list_of(server);
    std::ifstream in(list, std::ios::binary);
    if (!in) {
      throw icecore::error(errc::io,
                           fmt::format("{}: the first server does not see what server {} has written: a snapshot of a "
                                       "group goes to a folder that all its servers share",
                                       list.native(), server));
    }
    lists.push_back(files_in(list, std::string{std::istreambuf_iterator<char>(in), {}}));
  }
  for (std::size_t i = 0; i < lists.front().size(); ++i) {  // by database, then by server
    for (const auto& list : lists) {
      if (i < list.size()) manifest.files.push_back(list[i]);
    }
  }
  write_manifest(running_->folder->place(), manifest);
  for (std::uint32_t server = 0; server < of_.link->size(); ++server)
    std::filesystem::remove(running_->list_of(server));
  running_->folder->complete();
  return text_of(manifest.files);
}

std::string group_snapshots::end() {
  std::string told;
  steps(of_.link).agree([&] {
    require_running();
    if (of_.link->index() == 0) told = complete();
  });
  running_.reset();
  return told;
}

void group_snapshots::abandon() {
  if (running_ == nullptr) return;
  running_->cancel_and_wait();
  std::error_code ignored;
  if (of_.link->index() != 0) std::filesystem::remove_all(new_folder::partial_of(running_->to), ignored);
  running_.reset();  // the first server's folder goes with it
}

}  // namespace icecore::service
