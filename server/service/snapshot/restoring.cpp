#include "service/snapshot/restoring.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <tuple>

#include "icecore/error.hpp"
#include "service/names.hpp"
#include "service/owner.hpp"
#include "service/snapshot/files.hpp"

namespace icecore::service {
namespace {

using std::filesystem::path;

std::string text_of(const group_place& place) {
  return fmt::format("server {} of {} of the group '{}'", place.index, place.size, place.name);
}

const snapshot_file& catalog_of(const snapshot_manifest& in, const path& folder) {
  for (const snapshot_file& each : in.files) {
    if (each.database.empty()) return each;
  }
  throw icecore::error(errc::damaged, fmt::format("{}: its manifest names no catalog", folder.native()));
}

std::set<std::string> databases_of(const snapshot_manifest& in) {
  std::set<std::string> names;
  for (const snapshot_file& each : in.files) names.insert(each.database);
  return names;
}

// The folder of a server that stays what it was: the files themselves.
void restore_as_it_was(const restore_source& source, const restore_request& what) {
  new_folder folder(what.to);
  std::uint64_t done = 0;
  std::uint64_t total = 0;
  for (const snapshot_file& next : source.first().files) total += next.bytes;
  for (const snapshot_file& next : source.first().files) {
    source.copy(next, folder.place() / next.file, what.on_progress, {done, total});
    done += next.bytes;
  }
  make_folder(folder.place() / "databases");
  folder.complete();
}

}  // namespace

restore_source::restore_source(std::vector<path> from) : from_(std::move(from)) {
  if (from_.empty()) throw icecore::error(errc::bad_input, "there is no snapshot to restore from");
  for (const path& each : from_) manifests_.push_back(read_manifest(each));
  if (from_.size() == 1) return;
  for (std::size_t i = 0; i < from_.size(); ++i) {
    const group_place& is = manifests_[i].place;
    const group_place must{.name = first().place.name,
                           .index = static_cast<std::uint32_t>(i),
                           .size = static_cast<std::uint32_t>(from_.size())};
    if (!manifests_[i].dependent && is == must) continue;
    throw icecore::error(
        errc::bad_input,
        fmt::format("{}: is a snapshot of {}, and must be one of {}: give one snapshot of each independent server, in "
                    "the order of their numbers",
                    from_[i].native(), manifests_[i].dependent ? "a dependent group" : text_of(is), text_of(must)));
  }
}

void restore_source::require_all() const {
  if (count() > 1 || first().dependent || first().place.size <= 1) return;
  throw icecore::error(errc::bad_input,
                       fmt::format("{}: is a snapshot of {} alone: to restore for another number of servers, give the "
                                   "snapshots of all {}",
                                   from_.front().native(), text_of(first().place), first().place.size));
}

void restore_source::check(const icecore::progress_function& on_progress) const {
  std::uint64_t done = 0;
  std::uint64_t total = 0;
  for (const snapshot_manifest& each : manifests_) {
    for (const snapshot_file& file : each.files) total += file.bytes;
  }
  for (std::size_t i = 0; i < from_.size(); ++i) {
    for (const snapshot_file& file : manifests_[i].files) {
      check_file(from_[i], file);
      done += file.bytes;
      if (on_progress) on_progress({.what = "checking the snapshot", .done = done, .total = total, .unit = "bytes"});
    }
  }
}

void restore_source::copy(const snapshot_file& what, const path& to, const icecore::progress_function& on_progress,
                          std::pair<std::uint64_t, std::uint64_t> done_of_total) const {
  make_folder(to.parent_path());
  const open_file out(to, O_WRONLY | O_CREAT | O_EXCL);
  std::uint64_t bytes = 0;
  check_file(from_.front(), what, [&](std::string_view piece) {
    bytes += piece.size();
    write_all(out, to, piece);
    if (on_progress) {
      on_progress(
          {.what = "restoring", .done = done_of_total.first + bytes, .total = done_of_total.second, .unit = "bytes"});
    }
  });
  if (::fsync(out.number()) != 0) failed_call(to, "fsync", errno);
}

catalog restore_source::copy_catalog(const path& to, const std::optional<group_place>& place) const {
  const std::set<std::string> names = databases_of(first());
  for (std::size_t i = 1; i < manifests_.size(); ++i) {
    const std::set<std::string> theirs = databases_of(manifests_[i]);
    if (theirs == names) continue;
    for (const auto& [some, others, where] :
         {std::tuple(&names, &theirs, i), std::tuple(&theirs, &names, std::size_t{0})}) {
      for (const std::string& name : *some) {
        if (others->contains(name)) continue;
        throw icecore::error(errc::bad_input,
                             fmt::format("{}: has no database '{}', which another server of the group has: make it "
                                         "there, or drop it everywhere, and write the snapshots again",
                                         from_[where].native(), name));
      }
    }
  }
  copy(catalog_of(first(), from_.front()), to, {}, {});
  catalog made(to);
  made.move_to(place);
  return made;
}

std::vector<path> restore_source::parts_of(const std::string& database) const {
  std::vector<path> all;
  for (std::size_t i = 0; i < from_.size(); ++i) {
    for (const snapshot_file* file : manifests_[i].files_of(database)) all.push_back(from_[i] / file->file);
  }
  if (all.empty()) {
    throw icecore::error(errc::damaged,
                         fmt::format("{}: its catalog has the database '{}', and its manifest names no file of it",
                                     from_.front().native(), database));
  }
  return all;
}

restore_notes restore_snapshot(const restore_request& what) {
  const restore_source source(what.from);
  if (source.count() == 1 && !source.first().dependent && (!what.place || *what.place == source.first().place)) {
    restore_as_it_was(source, what);
    return {};
  }
  const group_place place = what.place.value_or(group_place{});
  source.require_all();
  source.check(what.on_progress);
  new_folder folder(what.to);
  make_folder(folder.place() / "databases");
  restore_notes notes;
  {
    catalog known = source.copy_catalog(folder.place() / catalog_name, place);
    for (const catalog_entry& entry : known.databases()) {
      const path to = folder.place() / "databases" / std::to_string(entry.number);
      make_folder(to);
      placing how{.parts = source.parts_of(entry.settings.name),
                  .each_counts = source.each_counts(),
                  .leases = !source.each_counts(),
                  .to = to / "store.ice",
                  .index = entry.settings.index,
                  .on_progress = what.on_progress};
      if (place.size > 1) {
        how.owns = [&place](std::string_view key) { return owner_of(key, place.size) == place.index; };
      }
      append_notes(entry.settings.name, place_records(how), notes);
    }
    known.close();
  }
  folder.complete();
  return notes;
}

void append_notes(const std::string& database, const placed& done, restore_notes& to) {
  if (done.renumbered) {
    to.push_back(fmt::format("database '{}': its versions have new numbers, since those of the servers did not agree",
                             database));
  }
  if (!done.tags_left_out.empty()) {
    std::string names;
    for (std::size_t i = 0; i < done.tags_left_out.size() && i < 10; ++i) {
      names.append(names.empty() ? "" : ", ").append(done.tags_left_out[i]);
    }
    to.push_back(fmt::format("database '{}': {} tags are left out, which not all servers have in one order: {}{}",
                             database, done.tags_left_out.size(), names, done.tags_left_out.size() > 10 ? " ..." : ""));
  }
  if (done.leases_left_out) {
    to.push_back(fmt::format("database '{}': its leases are left out; the keys that they held stay", database));
  }
}

}  // namespace icecore::service
