// dump: writes all versions and tags of a store as JSON Lines (docs/dump-format.md).
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "dump/dump_writer.hpp"
#include "line/command_line.hpp"
#include "line/opening.hpp"
#include "text/file_error.hpp"
#include "text/output.hpp"

namespace icecore::cli {
namespace {

struct dump_arguments {
  std::string store;
  read_arguments read;
  std::string file;
  std::uint64_t records_in_memory = 8'000'000;
  cli::format format = cli::format::json;
};

exit_code dump(const dump_arguments& a) {
  const opened_store s = open_to_read(a.store, a.read);
  if (a.file.empty() || a.file == "-") {
    write_dump(s, a.records_in_memory, out());
    return exit_code::ok;
  }
  const int descriptor = ::open(a.file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) fail_on_file(a.file, "creating it");
  struct closer {
    int descriptor;
    ~closer() { ::close(descriptor); }
  } const closing{descriptor};
  output to(descriptor, a.file);
  write_dump(s, a.records_in_memory, to);
  // A pipe or a terminal cannot be synced and does not need it.
  if (::fsync(descriptor) != 0 && errno != EINVAL && errno != EROFS) fail_on_file(a.file, "fsync");
  return exit_code::ok;
}

}  // namespace

void add_dump_verb(command_line& line) {
  const auto a = std::make_shared<dump_arguments>();
  verb verb = line.add_verb("dump", "Write all versions and tags as JSON Lines",
                            "  icecore dump model.ice > model.jsonl\n"
                            "  icecore dump model.ice | zstd > model.jsonl.zst\n"
                            "  icecore dump model.ice | icecore load copy.ice\n"
                            "  icecore dump model.ice | jq -c 'select(.tag)'\n"
                            "The format is described in docs/dump-format.md; `icecore load` reads it.");
  verb.add_store(a->store);
  verb.add_reading(a->read);
  verb.add_option("--output", a->file, "Write to this file instead of standard output")
      .type_name("FILE")
      .completes(value_kind::file);
  verb.add_option(
          "--records-in-memory", a->records_in_memory,
          "Sort this many records at once, 48 bytes each (default: 8,000,000); fewer take more passes over the store")
      .type_name("N");
  verb.add_formats(a->format, {cli::format::json});  // a dump has no other form, but a script may say it to every verb
  verb.runs([a] { return dump(*a); });
}

}  // namespace icecore::cli
