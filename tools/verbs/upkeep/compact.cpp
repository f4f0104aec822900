// compact: packs what a store holds, so that it takes less space and is scanned faster.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "icecore/compaction.hpp"
#include "line/command_line.hpp"
#include "line/opening.hpp"
#include "text/json.hpp"
#include "text/output.hpp"
#include "text/progress.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

struct compact_arguments {
  std::string store;
  write_arguments write;
  bool whole = false;
  unsigned threads = 0;
  bool compress = false;
  unsigned level = 3;
  cli::format format = cli::format::table;
};

void print_json(const compaction_report& report, double seconds) {
  json_object line;
  line.add("packed", report.packed).add("keys", report.keys).add("records", report.records);
  line.add("strata", report.strata).add("up_to", report.up_to);
  line.add("bytes_before", report.bytes_before).add("bytes_after", report.bytes_after);
  line.add("bytes_written", report.bytes_written);
  out().line(line.add("seconds", seconds).text());
}

void print_line(const compaction_report& report, const std::string& path, double seconds) {
  const std::string strata = fmt::format("{} {}", grouped(report.strata), report.strata == 1 ? "stratum" : "strata");
  const std::string after = human_bytes(static_cast<double>(report.bytes_after));
  if (!report.packed) {
    out().line(fmt::format("{}: nothing to pack; {} up to version {}, {}", shown(path), strata, report.up_to, after));
    return;
  }
  out().line(fmt::format("{}: {} records of {} keys packed, {} up to version {}; {} before, {} after, in {:.2f} s",
                         shown(path), grouped(report.records), grouped(report.keys), strata, report.up_to,
                         human_bytes(static_cast<double>(report.bytes_before)), after, seconds));
}

exit_code pack(const compact_arguments& a) {
  const auto start = std::chrono::steady_clock::now();
  progress_bar bar("packing", 0, "records");
  const auto tell = [&](const progress& p) {
    bar.retitle(p.what, p.total, p.unit == "bytes" ? "B" : p.unit);
    bar.update(p.done);
  };
  compaction_options how{.whole = a.whole, .threads = a.threads, .on_progress = tell};
  if (a.compress) {
    how.compression = compression::zstd;
    how.compression_level = static_cast<int>(std::min(a.level, 1000U));  // compact() says what is too much
  }
  const compaction_report report = icecore::compact(a.store, options_to_write(a.write, creation::open_existing), how);
  bar.finish();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (a.format == cli::format::json) {
    print_json(report, seconds);
  } else {
    print_line(report, a.store, seconds);
  }
  return exit_code::ok;
}

}  // namespace

void add_compact_verb(command_line& line) {
  const auto a = std::make_shared<compact_arguments>();
  verb verb = line.add_verb(
      "compact", "Pack a store: its versions then take less space and are scanned faster",
      "  icecore compact model.ice\n"
      "  icecore compact model.ice --whole               # what is packed already, too: all in one stratum\n"
      "  icecore compact model.ice --compress            # smaller; reading inflates what it needs\n"
      "  icecore compact model.ice -o json | jq .bytes_after\n"
      "Every version stays, and the store is used as before. No other process may have the store open; on the way it\n"
      "takes the space of what is packed twice. If the command is killed, the store is as before or as afterwards.");
  verb.add_store(a->store);
  verb.add_flag("--whole", a->whole, "Pack once more what is packed already, so that there is one stratum");
  const option compress = verb.add_flag("--compress", a->compress, "Compress what is packed now, by zstd");
  verb.add_option("--level", a->level, "zstd's level, from 1 to 19: a greater one takes more time for less space; 3")
      .type_name("N")
      .needs(compress);
  verb.add_option("--threads", a->threads, "Threads; 0: all cores").type_name("N");
  verb.add_changing(a->write);
  verb.add_format(a->format);
  verb.runs([a] { return pack(*a); });
}

}  // namespace icecore::cli
