#include "pool/root/file_role.hpp"

#include <sys/random.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/raise.hpp"
#include "pool/pool.hpp"
#include "pool/root/lost_root.hpp"
#include "pool/root/placements.hpp"

namespace icecore {
namespace {

const char* name_of(medium m) noexcept {
  return m == medium::memory              ? "a memory file system"
         : m == medium::persistent_memory ? "persistent memory"
                                          : "a block device";
}

}  // namespace

// ---- The first file ----

void first_file::check(const format::root& r, const std::string& path, const options& opening) const {
  if (r.pool_number != 0) {
    const std::string_view first(r.files.paths, r.files.path_size[0]);
    raise(errc::not_a_store, "{}: is file {} of {} of a store; open the store by its first file{}{}", path,
          r.pool_number + 1, r.pool_count, first.empty() ? "" : ", which was ", first);
  }
  const bool unfinished = is_unfinished(r);
  if (unfinished && (opening.access == access::read_only || !opening.copy_of.empty())) {
    raise(errc::not_a_store, "{}: the creation of a store was cut off here; open it for writing first", path);
  }
  if (unfinished && opening.creation == creation::open_existing) {
    raise(errc::no_such_store, "{}: the creation of a store was cut off here, and creating one was not asked for",
          path);
  }
}

std::optional<file_role::stand_in> first_file::stand_in_for(const pool_file& file, std::uint64_t size) const {
  const auto rebuilt = root_from_segments(file, size);
  if (!rebuilt) return std::nullopt;
  return stand_in{*rebuilt, "both root pages are damaged: the clock and all else that they held are lost"};
}

void first_file::name_store(format::root& r, const pool_file& file, const options& opening) const {
  if (getrandom(r.pool_id, sizeof r.pool_id, 0) != sizeof r.pool_id) {
    raise_errno(errno, "getrandom", file.path().native());
  }
  r.pool_count = file_count(file.path(), opening);
}

void first_file::choose_durability(durability_info& how, const pool_file& file, const options& opening) const {
  how.mode = opening.durability;
  if (how.mode == durability::best_available) {
    how.mode = how.medium == medium::persistent_memory ? durability::operation
               : how.medium == medium::block_device    ? durability::tag
                                                       : durability::none;
  }
  how.deferred = opening.deferred_durability;
  how.emulated = how.medium == medium::memory && how.mode != durability::none;
  if (how.emulated && !opening.emulate_durability) {
    raise(errc::not_durable,
          "{}: {} is memory and forgets at power off: durability '{}' cannot be given there; use another device, "
          "durability none, or ask for emulation",
          file.path().native(), how.filesystem, how.mode == durability::tag ? "tag" : "operation");
  }
}

file_role::persisted first_file::persisted_by(const pool_file& /*file*/,
                                              const std::function<std::shared_ptr<persistence>()>& make) const {
  return {make(), 0};
}

// ---- Secondary files ----

bool secondary_file::is_of_store(const format::root& r) const noexcept {
  return pool_seed_of(r) == first_.codec().pool_seed();
}

void secondary_file::check(const format::root& r, const std::string& path, const options& /*opening*/) const {
  const std::string& of = first_.file().path().native();
  if (!is_of_store(r)) {
    raise(errc::missing_file, "{}: does not belong to the store {}, whose file {} should be here", path, of,
          number() + 1);
  }
  if (r.pool_number != number()) {
    raise(errc::missing_file, "{}: is file {} of the store {}, but file {} should be here: have two been swapped?",
          path, r.pool_number + 1, of, number() + 1);
  }
  const format::root first = first_.roots().read();
  if (is_stand_in(first)) return;  // the session is not known
  const std::uint64_t mine = r.files.session;
  const std::uint64_t its = first.files.session;
  const bool in_session = mine == its || mine == first.files.session_before;
  // file 0 is closed last
  const bool left_open = r.state == format::root_state::open && first.state == format::root_state::clean &&
                         its == first.files.session_before;
  if (!in_session || left_open) {
    const char* const which = mine >> 32 < its >> 32   ? "this file is an older copy"
                              : mine >> 32 > its >> 32 ? "the first file is an older copy"
                                                       : "one of the two is a copy";
    raise(errc::missing_file,
          "{}: file {} of the store {} and the first file are not from the same time: {}; put back the files that "
          "belong together",
          path, number() + 1, of, which);
  }
}

bool secondary_file::closed_elsewhere() const { return first_.roots().read().state == format::root_state::clean; }

std::optional<file_role::stand_in> secondary_file::stand_in_for(const pool_file& /*file*/, std::uint64_t size) const {
  format::root r = first_.roots().read();
  r.sequence = 0;
  r.pool_number = number();
  r.files = {};  // these are the first file's names of all files
  r.file_size = size;
  r.used_end = size;
  r.state = format::root_state::open;
  return stand_in{r, "both root pages are damaged: the file's former length is not known"};
}

void secondary_file::name_store(format::root& r, const pool_file& /*file*/, const options& /*opening*/) const {
  const format::root first = first_.roots().read();
  std::memcpy(r.pool_id, first.pool_id, sizeof r.pool_id);
  r.pool_number = number();
  r.pool_count = first.pool_count;
}

void secondary_file::choose_durability(durability_info& how, const pool_file& file, const options& /*opening*/) const {
  if (how.medium != first_.durability().medium) {
    raise(errc::invalid_argument,
          "{}: lies on {}, but the store's first file, {}, lies on {}; all files of a store must lie on one kind of "
          "medium",
          file.path().native(), name_of(how.medium), first_.file().path().native(),
          name_of(first_.durability().medium));
  }
  how = first_.durability();
}

file_role::persisted secondary_file::persisted_by(const pool_file& file,
                                                  const std::function<std::shared_ptr<persistence>()>& /*make*/) const {
  auto all = first_.persist_of_all();
  const unsigned number = all->add_file(file.descriptor(), file.path().native());
  return {std::move(all), number};
}

void new_secondary_file::check(const format::root& r, const std::string& path, const options& /*opening*/) const {
  if (is_of_store(r) && r.pool_number != 0 && r.files.session == 0) return;  // left by an interrupted creation
  raise(errc::store_exists, "{}: exists already; each file of a new store needs a new path", path);
}

}  // namespace icecore
