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

}  // namespace

store open_to_read(const std::string& path, const read_arguments& read) {
  options opening;
  opening.accept_copy = read.accept_copy;
  opening.accept_damage = read.accept_damage;
  opening.crash = read.crash;
  opening.placements = placements_of(read.placements);
  opening.access = access::read_only;
  opening.creation = creation::open_existing;
  return store(path, with_progress(opening));
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

store open_to_write(const std::string& path, const write_arguments& write, creation creation) {
  return store(path, with_progress(options_to_write(write, creation)));
}

}  // namespace icecore::cli
