#include "line/opening.hpp"

#include <memory>

#include "text/progress.hpp"

namespace icecore::cli {
namespace {

options with_progress(options opening) {
  opening.on_progress = [bar = std::make_shared<progress_bar>("opening", 0, "")](const progress& p) {
    bar->retitle(p.what, p.total, p.unit == "bytes" ? "B" : p.unit);
    bar->update(p.done);
    if (p.total != 0 && p.done >= p.total) bar->finish();
  };
  return opening;
}

options reading(const read_arguments& read) {
  options opening;
  opening.accept_copy = read.accept_copy;
  opening.accept_damage = read.accept_damage;
  opening.never_locks = read.never_locks;
  opening.crash = read.crash;
  opening.placements = placements_of(read.placements);
  opening.access = access::read_only;
  opening.creation = creation::open_existing;
  return with_progress(opening);
}

}  // namespace

opened_store open_to_read(const std::string& path, const read_arguments& read) {
  if (session* const shell = session::of(path); shell != nullptr) return shell->lend_to_read();
  return opened_store(store(path, reading(read)));
}

opened_store open_to_watch(const std::string& path, const read_arguments& read) {
  if (session* const shell = session::of(path); shell != nullptr) return shell->lend_to_read();
  options opening = reading(read);
  opening.never_locks = true;
  return opened_store(store(path, opening));
}

options options_to_write(const write_arguments& write, creation creation) {
  options opening;
  opening.creation = creation;
  opening.durability = write.durability;
  opening.emulate_durability = write.emulate;
  opening.crash = write.crash;
  opening.index = write.index;
  opening.change_index = write.change_index;
  opening.placements = placements_of(write.placements);
  return opening;
}

opened_store open_to_write(const std::string& path, const write_arguments& write, creation creation) {
  if (session* const shell = session::of(path); shell != nullptr) return shell->lend_to_write();
  return opened_store(store(path, with_progress(options_to_write(write, creation))));
}

}  // namespace icecore::cli
