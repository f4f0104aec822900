// dump: all versions and tags of a store as JSON Lines (docs/dump-format.md).
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "command_line.hpp"
#include "dump_format.hpp"
#include "dump_order.hpp"
#include "icecore/version.hpp"
#include "json.hpp"
#include "opening.hpp"
#include "output.hpp"
#include "progress.hpp"

namespace icecore::cli {
namespace {

struct dump_arguments {
  std::string store;
  std::string file;
  std::uint64_t records_in_memory = 8'000'000;
};

/// Writes the lines of a dump and keeps their checksum.
class dump_writer {
 public:
  explicit dump_writer(output& to) : to_(&to) {}

  void header(version clock, std::uint64_t records, std::uint64_t tags) {
    line_ = fmt::format(R"({{"icecore_dump":{},"clock":{},"records":{},"tags":{},"written_by":"icecore {}"}})",
                        dump_format_version, clock, records, tags, library_version());
    end_line();
  }

  void record(const versioned_record& r) {
    line_ = fmt::format("{{\"version\":{},\"key\":", r.version);
    append_json(line_, r.key);
    if (!r.value) {
      line_ += ",\"removed\":true";
    } else if (r.value->size() <= dump_part_bytes) {
      line_ += ",\"value\":";
      append_json(line_, *r.value);
    } else {
      parts(*r.value);
      return;
    }
    line_ += '}';
    end_line();
  }

  void tag(const tag_info& t) {
    line_ = fmt::format("{{\"version\":{},\"tag\":", t.version);
    append_json(line_, t.name);
    line_ += fmt::format(",\"time_ns\":{},\"note\":", t.time_ns);
    append_json(line_, t.note);
    line_ += '}';
    end_line();
  }

  void trailer(std::uint64_t records, std::uint64_t tags) {
    line_ = fmt::format(R"({{"end":true,"records":{},"tags":{},"crc32":"{:08x}"}})", records, tags, crc_);
    end_line();
  }

 private:
  void parts(std::string_view value) {
    fmt::format_to(std::back_inserter(line_), ",\"size\":{}}}", value.size());
    end_line();
    while (!value.empty()) {
      const std::string_view part = value.substr(0, dump_part_bytes);
      line_ = "{\"part\":";
      append_json(line_, part);
      line_ += '}';
      end_line();
      value.remove_prefix(part.size());
    }
  }

  void end_line() {
    line_ += '\n';
    crc_ = static_cast<std::uint32_t>(::crc32_z(crc_, reinterpret_cast<const Bytef*>(line_.data()), line_.size()));
    to_->write(line_);
  }

  output* to_;
  std::string line_;
  std::uint32_t crc_ = 0;
};

void write_dump(const store& s, std::uint64_t records_in_memory, output& to) {
  const version_order order(s, records_in_memory);
  const std::vector<tag_info> tags = s.tags();
  progress_bar bar("dumping", order.records(), "records");
  dump_writer writer(to);
  writer.header(s.clock(), order.records(), tags.size());
  std::uint64_t done = 0;
  auto next_tag = tags.begin();
  order.for_each([&](const versioned_record& r) {
    for (; next_tag != tags.end() && next_tag->version < r.version; ++next_tag) writer.tag(*next_tag);
    writer.record(r);
    bar.update(++done);
  });
  for (; next_tag != tags.end(); ++next_tag) writer.tag(*next_tag);
  writer.trailer(done, tags.size());
  to.flush();
}

[[noreturn]] void fail_on_file(const std::string& path, std::string_view call) {
  const int number = errno;
  const bool denied = number == EACCES || number == EPERM || number == EROFS;
  throw error(denied             ? errc::permission
              : number == ENOSPC ? errc::no_space
                                 : errc::io,
              fmt::format("{}: {} failed: {}", path, call, std::strerror(number)));
}

exit_code dump(const dump_arguments& a) {
  const store s = open_to_read(a.store);
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
  // A pipe or a terminal cannot be synced, and need not be.
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
  verb.add_option("--output", a->file, "Write to this file instead of standard output").type_name("FILE");
  verb.add_option("--records-in-memory", a->records_in_memory,
                  "Sort this many at once, 48 bytes each (default: 8,000,000); fewer take more passes over the store")
      .type_name("N");
  verb.runs([a] { return dump(*a); });
}

}  // namespace icecore::cli
