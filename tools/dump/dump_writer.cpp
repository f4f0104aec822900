#include "dump/dump_writer.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <string>
#include <vector>

#include "dump/dump_format.hpp"
#include "dump/dump_order.hpp"
#include "icecore/version.hpp"
#include "text/json.hpp"
#include "text/progress.hpp"

namespace icecore::cli {
namespace {

/// Writes the lines of a dump and updates their checksum.
class dump_writer {
 public:
  explicit dump_writer(output& to) : to_(&to) {}

  void header(const store& of, std::uint64_t records, std::uint64_t tags) {
    line_ = fmt::format(R"({{"icecore_dump":{},"clock":{},"records":{},"tags":{})", dump_format_version, of.clock(),
                        records, tags);
    ranges("lost_versions", of.lost_versions().ranges());
    ranges("expired_versions", of.expired_versions());
    line_ += fmt::format(R"(,"written_by":"icecore {}"}})", library_version());
    end_line();
  }

  void ranges(std::string_view name, std::span<const version_range> some) {
    if (some.empty()) return;
    std::string list;
    for (const auto& [first, end] : some) list += fmt::format("{}[{},{}]", list.empty() ? "" : ",", first, end);
    line_ += fmt::format(R"(,"{}":[{}])", name, list);
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

}  // namespace

void write_dump(const store& s, std::uint64_t records_in_memory, output& to) {
  const version_order order(s, records_in_memory);
  const std::vector<tag_info> tags = s.tags();
  progress_bar bar("dumping", order.records(), "records");
  dump_writer writer(to);
  writer.header(s, order.records(), tags.size());
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

}  // namespace icecore::cli
