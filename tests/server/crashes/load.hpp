// What a server does until it is killed or loses its power, and what must be there afterwards.
//
//   progress_page& page = *new (shared memory) progress_page;
//   if (fork() == 0) serve(folder, page);                     // never returns
//   ... it is killed; or this is an image of what a power cut left ...
//   std::vector<std::string> wrong = compare(*page_as_it_was, opened_service, after::power_cut);
//   go_on_from(page, opened_service);                         // what is there is where the next process goes on
//
// The process serves four databases: threads write, read, scan, watch, tag and grant leases; one more makes and drops
// databases, users and roles, and writes snapshots of the service. What each has begun, and what it was answered, it
// writes into the page, which outlives the process.
// Threads: compare() and go_on_from() belong to the one that has the service alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "service/service.hpp"

namespace icecore::service::crashes {

inline constexpr unsigned database_count = 4;
inline constexpr unsigned writer_count = 3;
inline constexpr std::uint64_t tags_checked = 32;

using counter = std::atomic<std::uint64_t>;

// Each counter is raised by one thread, but `shown`, and read when the process is dead or stopped.
struct progress_of_database {
  counter begun[writer_count];
  counter answered[writer_count];
  counter shown[writer_count];  // by a find, a scan or a watch
  counter tags_begun;
  counter tags_answered;
  counter tag_least[tags_checked];  // what writer 0 had been answered before the tag
  counter tag_most[tags_checked];   // and what it had begun when the tag was answered
  counter leases_answered;
};
// Of things that are made one after the other, and end in the same order.
struct progress_of_made {
  counter begun;
  counter answered;
  counter ending;
  counter ended;
};
struct progress_page {
  progress_of_database databases[database_count];
  progress_of_made made;  // databases, each with one write
  progress_of_made users;
  counter snapshots_answered;
  counter answers;   // of this life: how many writes were answered
  counter pause_us;  // of each writer between two writes, by whoever starts the process
};
/// `to` = `from`; the process that writes `from` is stopped.
void copy(const progress_page& from, progress_page& to);

[[nodiscard]] database_settings settings_of(unsigned database);
/// The four databases, and the folder for snapshots. `folder`/data is the server's.
void make_databases(const std::filesystem::path& folder);

/// Serves until it is killed. Exits with 7, and says why, if anything fails.
[[noreturn]] void serve(const std::filesystem::path& folder, progress_page& page);

enum class after : std::uint8_t { kill, power_cut };

/// What the service does not keep of what the page says; empty: nothing.
[[nodiscard]] std::vector<std::string> compare(const progress_page& page, service& opened, after what);
/// The same of the snapshots of the service in this folder, the newest of which is restored to a folder of its own.
[[nodiscard]] std::vector<std::string> compare_snapshots(const progress_page& page,
                                                         const std::filesystem::path& folder);
/// What took effect, though it was not answered, is there from now on; what was lost, though nothing promised it, is
/// not.
void go_on_from(progress_page& page, service& opened);

}  // namespace icecore::service::crashes
