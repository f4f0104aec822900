#include "platform.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>

#include "files.hpp"
#include "waiting.hpp"

namespace papyruskv {
namespace {

using icecore::errc;
using icecore::error;

/// The repository's folder; "$NAME" stands for the value of the environment variable NAME.
std::filesystem::path folder_of(const char* repository) {
  if (repository == nullptr || *repository == '\0') {
    throw error(errc::invalid_argument, "the repository must be the name of a folder, not NULL or empty");
  }
  if (*repository != '$') return repository;
  const char* const named = std::getenv(repository + 1);
  if (named != nullptr && *named != '\0') return named;
  throw error(errc::invalid_argument,
              std::string("the repository is '") + repository + "', but this environment variable is unset or empty");
}

MPI_Comm world() {
  if (mpi_runs()) return MPI_COMM_WORLD;
  throw error(errc::mpi, "MPI is not running: call MPI_Init before, and MPI_Finalize after papyruskv_finalize");
}

int only_one_of(int flags, std::initializer_list<int> choices, const char* what) {
  int chosen = 0;
  for (const int each : choices) {
    if ((flags & each) == 0) continue;
    if (chosen != 0) throw error(errc::invalid_argument, std::string("the flags name two ") + what);
    chosen = each;
  }
  return chosen;
}

constexpr std::string_view replaced_begin = ".replaced-";

void check_name(const char* name) {
  constexpr std::size_t name_size_max = 255 - replaced_begin.size();
  const std::string_view given = name != nullptr ? name : "";
  const bool fits = !given.empty() && given.size() <= name_size_max && given.find('/') == std::string_view::npos &&
                    given != "." && given != ".." && !given.starts_with(replaced_begin);
  if (fits) return;
  throw error(errc::invalid_argument,
              "'" + std::string(given) +
                  "' is not a valid name of a database: it must be the name of a folder in the repository, have 1 to "
                  "245 bytes without '/', and not begin with '.replaced-'");
}

/// Runs `work` and returns what it threw.
template <typename Work>
std::exception_ptr attempt(Work&& work) {
  try {
    std::forward<Work>(work)();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

/// Closes the database and returns the failure. Ranks that did not wait for a failed checkpoint get its failure here,
/// so ranks may differ: the caller throws it only after its collective steps.
std::exception_ptr closed(database& closing) {
  return attempt([&closing] { closing.close(); });
}

/// What a failed rank sends to the others.
struct failure_notice {
  std::int32_t code = 0;
  char text[1020] = "";
};

failure_notice notice_of(const std::exception_ptr& failure) noexcept {
  failure_notice notice;
  const auto say = [&notice](errc code, std::string_view text) {
    notice.code = static_cast<std::int32_t>(code);
    text.copy(notice.text, sizeof notice.text - 1);
  };
  try {
    std::rethrow_exception(failure);
  } catch (const error& e) {
    say(static_cast<errc>(e.code().value()), e.what());
  } catch (const std::exception& e) {
    say(errc::io, e.what());
  } catch (...) {  // a caller's function in C++ may throw anything
    say(errc::io, "an exception was thrown that is not a std::exception");
  }
  return notice;
}

/// The place of a database while a restart makes its replacement.
std::filesystem::path replaced_path(const std::filesystem::path& folder) {
  return folder.parent_path() / (std::string(replaced_begin) + folder.filename().native());
}

}  // namespace

own_communicator::~own_communicator() {
  if (mpi_runs()) MPI_Comm_free(&comm_);
}

icecore::protection protection_of(int flag) {
  switch (flag) {
    case PAPYRUSKV_RDWR:
      return icecore::protection::read_write;
    case PAPYRUSKV_WRONLY:
      return icecore::protection::write_only;
    case PAPYRUSKV_RDONLY:
      return icecore::protection::read_only;
    case PAPYRUSKV_UDONLY:
      return icecore::protection::update_only;
    default:
      throw error(
          errc::invalid_argument,
          std::to_string(flag) +
              " is not a protection: use PAPYRUSKV_RDWR, PAPYRUSKV_WRONLY, PAPYRUSKV_RDONLY or PAPYRUSKV_UDONLY");
  }
}

icecore::consistency consistency_of(int flag) {
  if (flag == PAPYRUSKV_SEQUENTIAL) return icecore::consistency::sequential;
  if (flag == PAPYRUSKV_RELAXED) return icecore::consistency::relaxed;
  throw error(errc::invalid_argument,
              std::to_string(flag) + " is not a consistency: use PAPYRUSKV_SEQUENTIAL or PAPYRUSKV_RELAXED");
}

icecore::barrier_level level_of(int flag) {
  if (flag == PAPYRUSKV_MEMTABLE) return icecore::barrier_level::memory;
  if (flag == PAPYRUSKV_SSTABLE) return icecore::barrier_level::storage;
  throw error(errc::invalid_argument,
              std::to_string(flag) + " is not a level: use PAPYRUSKV_MEMTABLE or PAPYRUSKV_SSTABLE");
}

platform::platform(const char* repository)
    : comm_(world()), signal_comm_(comm_.get()), signals_(signal_comm_.get(), [this] { answer_others(); }) {
  MPI_Comm_rank(comm_.get(), &rank_);
  MPI_Comm_size(comm_.get(), &ranks_);
  throw_on_all(attempt([&] {
    environment_ = read_environment();
    repository_ = folder_of(repository);
    std::error_code reason;
    std::filesystem::create_directories(repository_, reason);
    if (reason) throw error(errc::io, repository_.string() + ": cannot make the repository: " + reason.message());
  }));
}

// ---- The table ----

void platform::refuse(int handle) const {
  throw error(errc::invalid_argument, "no open database has the handle " + std::to_string(handle));
}

int platform::keep(std::unique_ptr<database> made) {
  int handle = last_handle_;
  do ++handle;
  while (slot_of(handle).kept != nullptr);  // terminates: at most databases_max are open at once, see open
  last_handle_ = handle;
  slot& free = slot_of(handle);
  free.kept = std::move(made);
  free.handle.store(handle, std::memory_order_relaxed);
  free.made.store(free.kept.get(), std::memory_order_release);  // see find
  return handle;
}

void platform::forget(int handle) {
  const std::scoped_lock alone(visitors_);
  slot& used = slot_of(handle);
  used.made.store(nullptr, std::memory_order_release);
  used.kept.reset();
}

template <typename Visit>
void platform::for_each(Visit visit) const {
  for (const slot& each : slots_) {
    if (each.made.load(std::memory_order_relaxed) == nullptr) continue;
    const std::shared_lock it_stays(visitors_);
    if (database* const made = each.made.load(std::memory_order_acquire)) visit(*made);
  }
}

// ---- Together ----

void platform::answer_others() const {
  for_each([](database& each) {
    if (each.destroyed() || each.data().has_progress_thread()) return;
    try {
      each.data().signal_wait(0, {});  // waits for no signal, but answers as any call does
    } catch (const error&) {           // the next call that uses that database reports it
    }
  });
}

void platform::barrier() const {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(comm_.get(), &request);
  wait_for([this] { answer_others(); }, request);
}

int platform::least(int mine) const {
  int of_all = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(&mine, &of_all, 1, MPI_INT, MPI_MIN, comm_.get(), &request);
  wait_for([this] { answer_others(); }, request);
  return of_all;
}

/// If some ranks failed, throws on all ranks the error of the lowest of them.
void platform::throw_on_all(const std::exception_ptr& mine) const {
  const int failed = least(mine ? rank_ : ranks_);
  if (failed == ranks_) return;
  failure_notice notice = failed == rank_ ? notice_of(mine) : failure_notice();
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibcast(&notice, sizeof notice, MPI_BYTE, failed, comm_.get(), &request);
  wait_for([this] { answer_others(); }, request);
  throw error(static_cast<errc>(notice.code), "rank " + std::to_string(failed) + ": " + notice.text);
}

/// Every rank removes what it finds, because each node may have its own folder.
void platform::remove(const std::filesystem::path& folder) const {
  barrier();
  throw_on_all(attempt([&] { remove_database(folder); }));
}

/// The same for renaming.
void platform::move(const std::filesystem::path& from, const std::filesystem::path& to) const {
  barrier();
  throw_on_all(attempt([&] {
    std::error_code failure;
    std::filesystem::rename(from, to, failure);
    if (!failure || failure == std::errc::no_such_file_or_directory) return;
    throw error(errc::io, from.string() + ": cannot be renamed to " + to.string() + ": " + failure.message());
  }));
}

/// An interrupted restart has moved the old database away: moves it back unless the new one is complete.
void platform::finish_restart(const std::filesystem::path& folder) const {
  const std::filesystem::path replaced = replaced_path(folder);
  std::error_code ignored;
  const bool left_here = std::filesystem::exists(replaced, ignored);
  if (all_ranks(!left_here)) return;
  const bool whole_here = std::filesystem::exists(folder / "manifest", ignored);  // written after all pools
  if (all_ranks(whole_here)) return remove(replaced);
  remove(left_here ? folder : replaced);  // a node with its own folder that had not moved it yet has nothing at
                                          // `replaced`
  move(replaced, folder);
}

// ---- Databases ----

opening platform::checked(const char* name, int flags, const papyruskv_option_t* wanted) const {
  check_name(name);
  constexpr int known = PAPYRUSKV_SEQUENTIAL | PAPYRUSKV_RELAXED | PAPYRUSKV_CREATE | PAPYRUSKV_RDWR |
                        PAPYRUSKV_WRONLY | PAPYRUSKV_RDONLY | PAPYRUSKV_UDONLY;
  if ((flags & ~known) != 0) throw error(errc::invalid_argument, "unknown flags: " + std::to_string(flags & ~known));
  const int consistency = only_one_of(flags, {PAPYRUSKV_SEQUENTIAL, PAPYRUSKV_RELAXED}, "consistencies");
  const int protection =
      only_one_of(flags, {PAPYRUSKV_RDWR, PAPYRUSKV_WRONLY, PAPYRUSKV_RDONLY, PAPYRUSKV_UDONLY}, "protections");
  opening how;
  how.name = name;
  how.folder = repository_ / name;
  if (protection != 0) how.protection = protection_of(protection);
  how.options.consistency = consistency != 0 ? consistency_of(consistency) : environment_.consistency;
  how.options.group_size = environment_.group_size;
  how.options.cache_bytes = environment_.cache_bytes;
  if (environment_.staging_bytes) how.options.staging_bytes = *environment_.staging_bytes;
  how.options.store.creation =
      (flags & PAPYRUSKV_CREATE) != 0 ? icecore::creation::open_or_create : icecore::creation::open_existing;
  if (wanted != nullptr) {
    how.hash = wanted->hash;
    how.value_size = wanted->vallen;
  }
  require_not_open(how);
  return how;
}

void platform::require_not_open(const opening& how) const {
  int open = 0;
  for_each([&](const database& each) {
    ++open;
    if (each.name() != how.name || each.destroyed()) return;
    throw error(errc::locked, "the database '" + how.name + "' is already open: use its handle, or close it first");
  });
  if (open == databases_max)
    throw error(errc::invalid_argument, "1,024 databases are open, which is the maximum; close one first");
}

/// Checks the hash against keys, because a function has no name that would show that it is another one.
void platform::require_fitting_hash(database& made) const {
  try {
    throw_on_all(attempt([&] {
      if (made.hash_fits()) return;
      throw error(errc::other_cluster,
                  "the database '" + made.name() + "' was made with another hash function; open it with that one");
    }));
  } catch (...) {  // on all ranks
    made.close();
    throw;
  }
}

int platform::open(opening how) {
  finish_restart(how.folder);
  auto made = std::make_unique<database>(comm_.get(), std::move(how), visitors_);
  if (made->hash() != nullptr) require_fitting_hash(*made);
  return keep(std::move(made));
}

int platform::restart(const char* path, opening how) {
  how.options.store.creation = icecore::creation::open_or_create;
  how.from = icecore::checkpoint_source{path, environment_.force_redistribute};
  finish_restart(how.folder);
  // if the checkpoint cannot be restored, the database that it replaces is moved back
  const std::filesystem::path folder = how.folder;
  const std::filesystem::path replaced = replaced_path(folder);
  move(folder, replaced);
  std::unique_ptr<database> made;
  try {
    made = std::make_unique<database>(comm_.get(), std::move(how), visitors_);
  } catch (...) {
    remove(folder);
    move(replaced, folder);
    throw;
  }
  try {
    remove(replaced);
  } catch (const std::exception&) {  // files that stay only take space
  }
  return keep(std::move(made));
}

void platform::close(int handle) {
  const std::exception_ptr failure = closed(find(handle));
  forget(handle);
  if (failure) std::rethrow_exception(failure);
}

int platform::destroy(int handle) {
  database& going = find(handle);
  static_cast<void>(going.data());  // throws if it was destroyed already
  const std::exception_ptr failure = closed(going);
  remove(going.folder());
  if (failure) std::rethrow_exception(failure);
  return going.add_event([] {});
}

void platform::set_hash(int handle, papyruskv_hash_fn_t hash) {
  database& changed = find(handle);
  if (hash == nullptr || hash == changed.hash()) return;
  changed.data().barrier();
  if (!all_ranks(changed.data().local().stats().records == 0)) {
    throw error(errc::invalid_argument, "the database '" + changed.name() +
                                            "' holds keys: its hash function can be changed only while it is empty");
  }
  const std::exception_ptr failure = closed(changed);
  remove(changed.folder());
  changed.open_again(comm_.get(), hash);
  barrier();  // a rank that is asked for an update has the function
  if (failure) std::rethrow_exception(failure);
}

// ---- Signals ----

void platform::notify(int signum, std::span<const int> ranks) {
  std::exception_ptr refused;
  const auto even_so = [&refused](auto&& work) {  // other ranks wait for the signal, so errors are kept until it is
                                                  // sent
    try {
      work();
    } catch (...) {
      if (!refused) refused = std::current_exception();
    }
  };
  for_each([&](database& each) {
    even_so([&] {
      if (!each.destroyed()) each.data().fence();
    });
  });
  even_so([&] { signals_.notify(signum, ranks); });
  if (refused) std::rethrow_exception(refused);
}

// ---- The end ----

void platform::finalize() {
  std::exception_ptr failure;
  const auto all_the_same = [&failure](auto&& work) {
    try {
      work();
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  };
  for (int handle = last_handle_ - databases_max + 1; handle <= last_handle_; ++handle) {
    if (handle <= 0 || slot_of(handle).kept == nullptr) continue;
    all_the_same([&] { close(slot_of(handle).handle.load(std::memory_order_relaxed)); });
  }
  signals_.finish();
  barrier();
  if (environment_.destroy_repository) all_the_same([&] { remove_repository(repository_); });
  barrier();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace papyruskv
