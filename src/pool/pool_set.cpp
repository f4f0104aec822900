// Creation, and what a power cut leaves at each step:
//   1. The first file grows and is zero: an unfinished creation, as for a store of one file.
//   2. Its root says how many files there will be and names none: unfinished. The next creation goes on with its id.
//   3. Each secondary file gets a root with the store's id and no session. It belongs to no store until step 4; the
//      next creation takes it over.
//   4. The first file's root names all files (M3): the store exists.
// How a session begins, and what a crash leaves:
//   1. The first root names the new session and the one before: each file belongs to one of the two.
//   2. The roots of the secondary files get the new session, one after the other.
//   3. The first root says that all files belong to the new session (M1). After a crash before this step, the next
//      opening uses the same number and resumes at step 2.
// How it ends: the roots of the secondary files say "closed", then that of the first (M2). A crash between these leaves
// the first root open: the store is read as after any crash.
#include "pool/pool_set.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "base/raise.hpp"
#include "base/threads.hpp"
#include "pool/file/numa.hpp"
#include "pool/root/boot.hpp"

namespace icecore {
namespace {

/// The newest root of a file that another process may have open.
std::optional<format::root> root_at(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return std::nullopt;
  alignas(format::root) std::array<std::byte, 2 * format::page_size> pages{};
  const ssize_t count = ::pread(descriptor, pages.data(), pages.size(), 0);
  ::close(descriptor);
  if (count != static_cast<ssize_t>(pages.size())) return std::nullopt;
  return newest_root(pages.data());
}

bool same_store(const format::root& a, const format::root& b) noexcept {
  return std::memcmp(a.pool_id, b.pool_id, sizeof a.pool_id) == 0;
}

/// A session's number: a count in the upper half, and below it a random number that differs from that of any copy.
std::uint64_t session_after(std::uint64_t session) noexcept {
  std::uint32_t random = 0;
  // without a random number the count must suffice
  if (::getrandom(&random, sizeof random, 0) != sizeof random) random = 1;
  return ((session >> 32) + 1) << 32 | random;
}

}  // namespace

pool_set::pool_set(const std::filesystem::path& path, const options& opening) : path_(path) {
  nodes_.fill(-1);
  add(std::make_unique<pool>(path, opening));
  const format::root root = first().roots().read();
  count_ = root.pool_count;
  if (!opening.copy_of.empty()) {
    copy_secondary(opening);
    copy_pages(opening);  // last: all that can be refused cheaply is refused before
  } else if (is_unfinished(root)) {
    make_secondary(opening);
  } else {
    relocate(opening);
    open_secondary(opening);
  }
  for (std::size_t i = 0; i < placed_.size(); ++i) nodes_[i] = placed_[i].node;
}

pool_set::pool_set(const std::filesystem::path& path, const options& opening, std::span<pool_space> with)
    : path_(path) {
  nodes_.fill(-1);
  add(std::make_unique<pool>(path, opening, with[0], first_file()));
  const format::root root = first().roots().read();
  count_ = root.pool_count;
  placed_ = named_files(root, path_);
  for (std::uint16_t n = 0; n < count_; ++n) nodes_[n] = placed_[n].node;
  for (std::uint16_t n = 1; n < count_; ++n) {
    add(std::make_unique<pool>(placed_[n].path, opening, with[n], secondary_file(first(), n, nodes_[n])));
  }
}

pool_set::pool_set(const std::filesystem::path& path, const options& opening, beside_writer how) : path_(path) {
  nodes_.fill(-1);
  add(std::make_unique<pool>(path, opening, how, first_file()));
  count_ = first().roots().read().pool_count;
  relocate(opening);
  for (std::uint16_t n = 0; n < count_; ++n) nodes_[n] = placed_[n].node;
  for (std::uint16_t n = 1; n < count_; ++n) {
    add(std::make_unique<pool>(placed_[n].path, opening, how, secondary_file(first(), n, nodes_[n])));
  }
}

void pool_set::share(std::span<pool_space> with) {
  for (pool* p : there_) p->share(with[p->number()]);
}

void pool_set::grow_ahead(link place) noexcept {
  pool* const p = find(link_pool(place));
  if (p->size() < background_growth_from || !grows_in_background_) return p->grow_ahead();
  background* const growth = background_growth();
  if (growth == nullptr) return p->grow_ahead();
  const auto wanted = [](const other_memory& m) { return m.of->wanted(); };
  // whoever has the mutex makes memory ready, or has just changed what there is
  const std::unique_lock lock(other_mutex_, std::try_to_lock);
  if (!lock || p->wants_growth() || std::ranges::any_of(other_memory_, wanted)) growth->ask();
}

void pool_set::grow_in_background(std::initializer_list<memory_ahead*> other) {
  const std::scoped_lock lock(other_mutex_);
  other_memory_.clear();
  for (memory_ahead* of : other) other_memory_.push_back({of, false});
  if (!grows_in_background_) grows_in_background_ = true;  // later calls, beside other threads, find it set
}

bool pool_set::ask_background() noexcept {
  background* const growth = background_growth();
  if (growth != nullptr) growth->ask();
  return growth != nullptr;
}

/// The work of the thread. Files first, and between the pieces of other memory: who finds no room in them waits.
void pool_set::grow_a_piece() noexcept {
  for (pool* p : there_) {
    if (p->size() >= background_growth_from) p->grow_in_background();
  }
  bool more = false;
  {
    const std::scoped_lock lock(other_mutex_);
    for (other_memory& each : other_memory_) {
      if (!each.under_way && !each.of->wanted()) continue;
      each.under_way = each.of->make_ready();
      more = more || each.under_way;
    }
  }
  if (!more) return;
  // acquire: as ask_background(). None if it is ending
  if (background* const growth = growth_.load(std::memory_order_acquire); growth != nullptr) growth->ask();
}

/// Begins it at the first call. Null if no thread can be made: writers grow the files, as without it.
background* pool_set::background_growth() noexcept {
  // acquire: pairs with the store below
  if (background* const begun = growth_.load(std::memory_order_acquire); begun != nullptr) return begun;
  std::call_once(growth_begins_, [this] {
    try {
      auto made = std::make_unique<background>([this] { grow_a_piece(); });
      growth_.store(made.release(), std::memory_order_release);  // release: the object is complete
    } catch (const std::exception&) {
      return;
    }
  });
  return growth_.load(std::memory_order_acquire);
}

void pool_set::end_background_growth() noexcept {
  // acquire, release: as where it begins. Its destruction waits until its work is done.
  std::unique_ptr<background>(growth_.exchange(nullptr, std::memory_order_acq_rel)).reset();
  other_memory_.clear();
}

void pool_set::add(std::unique_ptr<pool> one) {
  const std::uint16_t number = one->number();
  bases_[number] = one->base();
  there_.push_back(one.get());
  pools_[number] = std::move(one);
}

void pool_set::remove_created_files() const noexcept {
  for (pool* p : there_) p->remove_created_file();
}

void pool_set::make_secondary(const options& opening) {
  try {
    placed_ = files_of(path_, opening);
    count_ = static_cast<std::uint16_t>(placed_.size());
    for (const placement& p : placed_) require_node(p.node, p.path);
    format::root named = first().roots().read();
    name_files(named, placed_);  // before any file is made: there may be no room for the names
    if (named.pool_count != count_) {
      first().roots().update([&](format::root& r) { r.pool_count = count_; });  // interrupted, had other placements
    }
    if (count_ == 1) return;
    for (std::uint16_t n = 1; n < count_; ++n) {
      add(std::make_unique<pool>(placed_[n].path, opening, new_secondary_file(first(), n, placed_[n].node)));
    }
    first().roots().update([&](format::root& r) {
      name_files(r, placed_);
      r.index = static_cast<std::uint8_t>(opening.index);
    });
  } catch (...) {
    remove_created_files();
    throw;
  }
}

/// `opening.placements` say where the store's files are now.
void pool_set::relocate(const options& opening) {
  const format::root root = first().roots().read();
  placed_ = named_files(root, path_);
  if (is_stand_in(root)) {  // it names no files
    find_without_root(opening);
    return;
  }
  for (const placement& p : opening.placements) {
    if (same_place(p.path, path_)) {
      placed_.front().node = p.node;
      continue;
    }
    if (count_ == 1) {
      raise(errc::invalid_argument,
            "{}: is a store of one file, and {} is not part of it; icecore repair can write it to a new store of "
            "several files",
            path_.native(), p.path.native());
    }
    const auto its_root = root_at(p.path);
    if (!its_root || !same_store(*its_root, root) || its_root->pool_number == 0 || its_root->pool_number >= count_) {
      if (opening.accept_damage) continue;
      raise(errc::missing_file,
            "{}: is not one of the {} files of the store {}; placements of an existing store say where its files were "
            "moved to",
            p.path.native(), count_, path_.native());
    }
    placement& known = placed_[its_root->pool_number];
    known = {p.path, p.node >= 0 ? p.node : known.node};
  }
}

/// Only the placements and the files themselves lead to the secondary files: their checksums have the first one's
/// seed.
void pool_set::find_without_root(const options& opening) {
  for (const placement& p : opening.placements) {
    if (same_place(p.path, path_)) continue;
    const auto its_root = root_at(p.path);
    const bool belongs = its_root && pool_seed_of(*its_root) == codec().pool_seed() && its_root->pool_number != 0 &&
                         its_root->pool_count <= format::files_max && its_root->pool_number < its_root->pool_count;
    if (!belongs) {
      raise(errc::missing_file, "{}: is not a file of the store {}", p.path.native(), path_.native());
    }
    count_ = std::max(count_, its_root->pool_count);
    placed_.resize(count_);
    placed_[its_root->pool_number] = p;
  }
}

void pool_set::open_secondary(const options& opening) {
  options how = opening;
  how.creation = creation::open_existing;
  for (std::uint16_t n = 1; n < count_; ++n) {
    const std::filesystem::path& path = placed_[n].path;
    if (path.empty()) {
      missing_.push_back(
          {n,
           fmt::format(
               "{}: the path of file {} of the store is not known: both root pages are damaged; name it as a placement",
               path_.native(), n + 1)});
      continue;
    }
    try {
      add(std::make_unique<pool>(path, how, secondary_file(first(), n, placed_[n].node)));
    } catch (const error& e) {
      const bool gone = e.code() == errc::no_such_store;
      const bool missing = gone || e.code() == errc::not_a_store || e.code() == errc::missing_file;
      if (!missing) throw;
      std::string what = e.message();
      if (gone || e.code() == errc::not_a_store) {
        what = fmt::format(
            "{}: file {} of the store {} {}; if it was moved, name its new path (options::placements, --placement)",
            path.native(), n + 1, path_.native(),
            gone ? "is missing" : "should be here, but this is not a file of an icecore store");
      }
      if (!opening.accept_damage) throw error(errc::missing_file, what);
      missing_.push_back({n, std::move(what)});
    }
  }
  // A killed process may have left a joint certificate, and records of it in other files, in the caches alone. They are
  // durable before a root is written in place of the one before (P2). Opening the first file has synced that file.
  if (count_ > 1 && shared() && roots().read().certificate == format::certificate_kind::joint) persist().sync();
}

void pool_set::copy_secondary(const options& opening) {
  const std::vector<placement> from = named_files(first().roots().read(), opening.copy_of);
  placed_ = files_of(path_, opening);
  if (placed_.size() == 1) {
    for (std::uint16_t n = 1; n < count_; ++n) placed_.push_back({default_path(path_, n), -1});
  }
  if (placed_.size() != count_) {
    raise(errc::invalid_argument, "{}: has {} files, but its copy would have {}; name one placement for each file",
          opening.copy_of.native(), count_, placed_.size());
  }
  for (const placement& p : placed_) require_node(p.node, p.path);
  options how = opening;
  for (std::uint16_t n = 1; n < count_; ++n) {
    how.copy_of = from[n].path;
    add(std::make_unique<pool>(placed_[n].path, how, secondary_file(first(), n, placed_[n].node)));
  }
}

void pool_set::copy_pages(const options& opening) {
  constexpr std::uint64_t step = std::uint64_t{64} << 20;
  const std::uint64_t total = size();
  std::uint64_t before = 0;  // of the files that are complete
  std::uint64_t reported = 0;
  for (pool* p : there_) {
    p->copy_pages(thread_count(opening.recovery_threads), [&](std::uint64_t copied) {
      if (!opening.on_progress || before + copied - reported <= step) return;
      reported = before + copied;
      opening.on_progress({"copying", reported, total, "bytes"});
    });
    before += p->size();
  }
}

void pool_set::finish_copy() {
  try {
    for (pool* p : there_) {
      if (p->number() != 0) p->finish_copy([&](format::root& r) { name_first(r, path_); });
    }
    first().finish_copy([&](format::root& r) {
      r.anchor = null_link;  // the heads belong to no index yet
      if (count_ > 1) name_files(r, placed_);
    });
  } catch (...) {
    remove_created_files();
    throw;
  }
}

void pool_set::start_session(const std::function<void(format::root&)>& change) {
  if (count_ == 1) {
    roots().update_both(change);  // P6
    return;
  }
  const format::root before = roots().read();
  const bool cut_off = before.files.session != before.files.session_before;
  const std::uint64_t session = cut_off ? before.files.session : session_after(before.files.session);
  roots().update([&](format::root& r) {
    name_files(r, placed_);
    r.files.session = session;
  });
  for (pool* p : there_) {
    if (p->number() == 0) continue;
    const std::uint64_t inode = p->file().inode();
    p->roots().update_both([&](format::root& r) {  // P6
      r.state = format::root_state::open;
      r.pool_count = count_;
      r.durability = static_cast<std::uint8_t>(recovery_mode());
      read_boot_id(r.boot_id);
      r.inode = inode;
      r.files.session = session;
      name_first(r, path_);
    });
  }
  roots().update_both([&](format::root& r) {  // P6
    change(r);
    r.files.session_before = session;
  });
}

void pool_set::end_session(const std::function<void(format::root&)>& change) {
  for (pool* p : there_) p->settle();
  for (pool* p : there_) {
    if (p->number() == 0) continue;
    p->roots().update([used_end = p->used_end()](format::root& r) {
      r.state = format::root_state::clean;
      r.used_end = used_end;
      r.file_size = used_end;
    });
  }
  roots().update([&](format::root& r) {
    change(r);
    r.used_end = first().used_end();
    r.file_size = r.used_end;
  });
  live().writer_pid = 0;
  for (pool* p : there_) {
    p->live().writer_pid = 0;
    p->file().shrink(p->used_end());
  }
}

bool pool_set::contains_by_now(link l, std::uint64_t bytes) const noexcept {
  if (contains(l, bytes)) return true;
  pool* const p = find(link_pool(l));
  if (p == nullptr || !p->is_observed()) return false;
  try {
    p->follow();
  } catch (const std::exception&) {  // there are no addresses for it
    return false;
  }
  return contains(l, bytes);
}

std::uint64_t pool_set::size() const noexcept {
  std::uint64_t bytes = 0;
  for (const pool* p : there_) bytes += p->size();
  return bytes;
}

std::uint64_t pool_set::capacity() const noexcept {
  std::uint64_t bytes = 0;
  for (const pool* p : there_) bytes += p->capacity();
  return bytes;
}

std::vector<damage> pool_set::damages() const {
  std::vector<damage> all;
  for (const pool* p : there_) {
    for (damage& d : p->damages()) all.push_back(std::move(d));
  }
  for (const absent& a : missing_) all.push_back({make_link(a.number, 0), "file", a.what, std::nullopt, std::nullopt});
  return all;
}

const std::string& pool_set::origin(link l) const noexcept {
  const std::uint16_t number = link_pool(l);
  if (const pool* p = find(number)) return p->origin();
  return number < placed_.size() ? placed_[number].path.native() : first().origin();
}

std::string pool_set::place_of(link l) const {
  return count_ == 1 ? fmt::format("byte {}", link_offset(l)) : fmt::format("byte {} of {}", link_offset(l), origin(l));
}

damage pool_set::localized(damage found) const {
  found.file = origin(found.offset);
  found.offset = link_offset(found.offset);
  return found;
}

segment pool_set::allocate(std::uint64_t bytes, std::uint16_t number, std::uint32_t magic,
                           const std::function<void(const segment&)>& claim) {
  try {
    return pools_[number]->allocate(bytes, magic, claim);
  } catch (const error& e) {
    if (e.code() != errc::no_space || count_ == 1) throw;
    for (pool* p : there_) {
      if (p->number() == number) continue;
      try {
        return p->allocate(bytes, magic, claim);
      } catch (const error& other) {
        if (other.code() != errc::no_space) throw;
      }
    }
    throw;
  }
}

std::vector<std::filesystem::path> secondary_files(const std::filesystem::path& path) {
  std::vector<std::filesystem::path> own;
  const auto root = root_at(path);
  if (!root || root->pool_number != 0 || root->pool_count > format::files_max || !has_sound_paths(*root)) return own;
  if (is_unfinished(*root)) return own;
  const std::vector<placement> named = named_files(*root, path);
  for (std::uint16_t n = 1; n < root->pool_count; ++n) {
    if (is_file_of(named[n].path, n, *root)) own.push_back(named[n].path);
  }
  return own;
}

bool is_file_of(const std::filesystem::path& path, std::uint16_t number, const format::root& of) {
  const auto its_root = root_at(path);
  return its_root && same_store(*its_root, of) && its_root->pool_number == number;
}

std::uint64_t session_of_copy(std::uint64_t session) noexcept { return session_after(session); }

}  // namespace icecore
