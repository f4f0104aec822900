// compact: packs what a store holds, so that it takes less space and is scanned faster. expire: packs if something
// expires.
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
  bool dry_run = false;
  bool only_if_expiring = false;
  unsigned threads = 0;
  std::uint64_t mib_at_once = 0;
  std::uint64_t mib_per_second = 0;
  bool compress = false;
  unsigned level = 3;
  cli::format format = cli::format::table;
};

void print_json(const compaction_report& report, double seconds) {
  json_object line;
  line.add("packed", report.packed).add("keys", report.keys).add("records", report.records);
  line.add("strata", report.strata).add("up_to", report.up_to);
  line.add("bytes_before", report.bytes_before).add("bytes_after", report.bytes_after);
  line.add("bytes_written", report.bytes_written).add("versions_expired", report.versions_expired);
  line.add("records_dropped", report.records_dropped).add("erased", report.erased);
  out().line(line.add("seconds", seconds).text());
}

/// "3 versions would expire, and 1 record that no kept version shows would go".
std::string what_would_go(const compaction_report& report) {
  return fmt::format("{} would expire, and {} that no kept version shows would go",
                     counted(report.versions_expired, "version", "versions"),
                     counted(report.records_dropped, "record", "records"));
}

std::string what_went(const compaction_report& report) {
  return fmt::format("{} expired; {} went that no kept version shows",
                     counted(report.versions_expired, "version has", "versions have"),
                     counted(report.records_dropped, "record", "records"));
}

/// What a dry run says of the store's size: "about 1.2 MB would be given back".
std::string size_change(const compaction_report& report, const compact_arguments& a) {
  const auto text = [](std::uint64_t bytes) { return human_bytes(static_cast<double>(bytes)); };
  if (report.bytes_after <= report.bytes_before) {
    return fmt::format("about {} would be given back", text(report.bytes_before - report.bytes_after));
  }
  const std::string more = text(report.bytes_after - report.bytes_before);
  if (a.compress) return fmt::format("it would take at most {} more", more);
  return fmt::format("it would take about {} more (without --compress, what is packed once more is not compressed)",
                     more);
}

void print_line(const compaction_report& report, const compact_arguments& a, double seconds) {
  const std::string& path = a.store;
  const std::string strata = counted(report.strata, "stratum", "strata");
  const std::string records = counted(report.records, "record", "records");
  const std::string keys = counted(report.keys, "key", "keys");
  const std::string after = human_bytes(static_cast<double>(report.bytes_after));
  if (a.dry_run && (report.bytes_written > 0 || report.versions_expired > 0 || report.records_dropped > 0)) {
    out().line(fmt::format("{}: would pack {} of {}, {} up to version {}; {} now, about {} then{}; {}", shown(path),
                           records, keys, strata, report.up_to, human_bytes(static_cast<double>(report.bytes_before)),
                           after, a.compress ? ", or less: what compression saves is not known before" : "",
                           size_change(report, a)));
    out().line(what_would_go(report));
    return;
  }
  if (!report.packed) {
    out().line(fmt::format("{}: nothing to pack; {} up to version {}, {}", shown(path), strata, report.up_to, after));
    return;
  }
  out().line(fmt::format("{}: {} of {} packed, {} up to version {}; {} before, {} after, in {:.2f} s", shown(path),
                         records, keys, strata, report.up_to, human_bytes(static_cast<double>(report.bytes_before)),
                         after, seconds));
  if (report.versions_expired > 0 || report.records_dropped > 0) out().line(what_went(report));
  if (!report.erased) {
    out().line(
        "a process that reads the store keeps the space of what went; compact again once it has ended, if keys "
        "were to be forgotten");
  }
}

void print_expired(const compaction_report& report, const compact_arguments& a, double seconds) {
  const std::string name = shown(a.store);
  const std::string before = human_bytes(static_cast<double>(report.bytes_before));
  const std::string after = human_bytes(static_cast<double>(report.bytes_after));
  if (!report.packed && report.versions_expired == 0 && report.records_dropped == 0) {
    out().line(fmt::format(
        "{}: nothing expires, and the store stays as it is; `icecore retention {}` shows what it keeps", name, name));
    return;
  }
  if (a.dry_run) {
    out().line(fmt::format("{}: {}; {} now, about {} then{}: {}", name, what_would_go(report), before, after,
                           a.compress ? ", or less" : "", size_change(report, a)));
    return;
  }
  out().line(fmt::format("{}: {}; {} before, {} after, in {:.2f} s", name, what_went(report), before, after, seconds));
  if (!report.erased) out().line("a process that reads the store keeps the space of what went until it ends");
}

std::uint64_t bytes_of(const std::string& option, std::uint64_t mib) {
  constexpr unsigned shift = 20;
  if (mib > UINT64_MAX >> shift) {
    throw error(errc::invalid_argument, fmt::format("{}: {} MiB are more than any device has", option, mib));
  }
  return mib << shift;
}

exit_code pack(const compact_arguments& a) {
  const auto start = std::chrono::steady_clock::now();
  progress_bar bar("packing", 0, "records");
  const auto tell = [&](const progress& p) {
    bar.retitle(p.what, p.total, p.unit == "bytes" ? "B" : p.unit);
    bar.update(p.done);
  };
  compaction_options how{.whole = a.whole,
                         .dry_run = a.dry_run,
                         .only_if_expiring = a.only_if_expiring,
                         .threads = a.threads,
                         .bytes_per_second = bytes_of("--limit-rate", a.mib_per_second),
                         .bytes_at_once = bytes_of("--at-once", a.mib_at_once),
                         .on_progress = tell};
  if (a.compress) {
    how.compression = compression::zstd;
    how.compression_level = static_cast<int>(std::min(a.level, 1000U));  // compact() says what is too much
  }
  const compaction_report report = icecore::compact(a.store, options_to_write(a.write, creation::open_existing), how);
  bar.finish();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (a.format == cli::format::json) {
    print_json(report, seconds);
  } else if (a.only_if_expiring) {
    print_expired(report, a, seconds);
  } else {
    print_line(report, a, seconds);
  }
  return exit_code::ok;
}

/// What both verbs take.
void add_options(verb& to, const std::shared_ptr<compact_arguments>& a, const std::string& whole,
                 const std::string& dry_run) {
  to.add_store(a->store);
  to.add_flag("--whole", a->whole, whole);
  const option compress = to.add_flag("--compress", a->compress, "Compress what is packed now, by zstd");
  to.add_option("--level", a->level, "zstd's level, from 1 to 19: a greater one takes more time for less space; 3")
      .type_name("N")
      .needs(compress);
  to.add_flag("--dry-run", a->dry_run, dry_run);
  to.add_option("--threads", a->threads, "Threads; 0: all cores").type_name("N");
  to.add_option("--limit-rate", a->mib_per_second, "Write at most so many MiB a second; 0: no limit").type_name("MIB");
  to.add_option("--at-once", a->mib_at_once,
                "Merge packed records by ranges of keys of about so many MiB, each by a change of its own, which takes "
                "little more space than that; 0: an eighth if the store has a retention or is large, else all")
      .type_name("MIB");
  to.add_changing(a->write);
  to.add_format(a->format);
  to.runs([a] { return pack(*a); });
}

}  // namespace

void add_compaction_verbs(command_line& line) {
  const auto a = std::make_shared<compact_arguments>();
  verb verb = line.add_verb(
      "compact", "Pack a store: its versions then take less space and are scanned faster",
      "  icecore compact model.ice\n"
      "  icecore compact model.ice --whole               # what is packed already, too: all in one stratum\n"
      "  icecore compact model.ice --compress            # smaller; reading inflates what it needs\n"
      "  icecore compact model.ice --dry-run             # what would go, and what it would give back\n"
      "  icecore compact model.ice -o json | jq .bytes_after\n"
      "Every version stays unless `icecore retention` says otherwise, and the store is used as before. No other\n"
      "process may have the store open; on the way it takes the space of what is packed twice. If the command is\n"
      "killed, the store is as before or as afterwards.");
  add_options(verb, a, "Pack once more what is packed already, so that there is one stratum",
              "Only say what would go and what it would give back; the store stays as it is");

  const auto e = std::make_shared<compact_arguments>();
  e->only_if_expiring = true;
  verb = line.add_verb(
      "expire", "Let the versions expire that a store's retention does not keep, and drop what only they show",
      "  icecore retention model.ice --tagged --newest 100     # what the store keeps from now on\n"
      "  icecore expire model.ice --dry-run                    # versions, records and bytes that would go\n"
      "  icecore expire model.ice\n"
      "  icecore expire model.ice --dry-run -o json | jq .versions_expired\n"
      "It packs the store, as `icecore compact` does, but only if something expires; if not, the store stays as it "
      "is.\n"
      "An expired version never comes back. No other process may have the store open. If the command is killed, the\n"
      "store is as before or as afterwards. With --compress what is packed now is compressed: without it, it is not,\n"
      "even if it was.");
  add_options(verb, e, "Drop records of expired versions also where most records stay, and pack these once more",
              "Only say how many versions and records would go, and how many bytes that would give back");
}

}  // namespace icecore::cli
