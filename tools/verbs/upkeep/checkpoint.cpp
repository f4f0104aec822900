// checkpoint: copies a whole store to a file of its own, which gets its name only when it is complete and durable.
#include "icecore/checkpoint.hpp"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "line/command_line.hpp"
#include "line/opening.hpp"
#include "text/json.hpp"
#include "text/output.hpp"
#include "text/progress.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

struct checkpoint_arguments {
  std::string store;
  std::string file;
  crash_kind crash = crash_kind::unknown;
  std::vector<std::string> placements;
  cli::format format = cli::format::table;
};

exit_code write_checkpoint(const checkpoint_arguments& a) {
  read_arguments read;
  read.crash = a.crash;
  read.placements = a.placements;
  const opened_store s = open_to_read(a.store, read);
  const checkpoint now = s.checkpoint();
  progress_bar bar("writing", now.bytes(), "B");
  now.write(a.file, [&](const progress& p) { bar.update(p.done); });
  bar.finish();
  // the copy contains the open version too, because a store opened for reading does not close it
  if (a.format == cli::format::json) {
    out().line(json_object().add("clock", s.clock()).add("bytes", now.bytes()).text());
  } else {
    out().line(fmt::format("{}: all versions up to {}, {}", shown(a.file), s.clock(),
                           human_bytes(static_cast<double>(now.bytes()))));
  }
  return exit_code::ok;
}

}  // namespace

void add_checkpoint_verb(command_line& line) {
  const auto a = std::make_shared<checkpoint_arguments>();
  verb verb = line.add_verb(
      "checkpoint", "Write a copy of a store, every version and tag, to a file of its own",
      "  icecore checkpoint model.ice /scratch/model.ice\n"
      "  icecore checkpoint model.ice copy.ice -o json\n"
      "The copy gets its name only when it is complete and on its device. To copy a damaged store, see repair.");
  verb.add_store(a->store);
  verb.add_option("NEW", a->file, "The copy's file; it must not exist yet")
      .required()
      .type_name("")
      .completes(value_kind::file);
  verb.add_crash(a->crash);
  verb.add_moved(a->placements);
  verb.add_format(a->format);
  verb.runs([a] { return write_checkpoint(*a); });
}

}  // namespace icecore::cli
