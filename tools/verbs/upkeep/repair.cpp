// repair: writes everything intact of a damaged store to a new one, and reports the rest.
#include <fmt/format.h>

#include <memory>

#include "icecore/store.hpp"
#include "line/command_line.hpp"
#include "text/json.hpp"
#include "text/output.hpp"
#include "text/progress.hpp"
#include "text/text.hpp"
#include "verbs/upkeep/damage_table.hpp"

namespace icecore::cli {
namespace {

struct repair_arguments {
  std::string damaged;
  std::string repaired;
  std::vector<std::string> placements;
  std::vector<std::string> moved;
  crash_kind crash = crash_kind::unknown;
  cli::format format = cli::format::table;
};

void print_json(const repair_report& report) {
  for (const damage& d : report.losses) out().line(json_object().add("lost", damage_to_json(d)).text());
  for (const damage& d : report.repaired) out().line(json_object().add("repaired", damage_to_json(d)).text());
  for (const unknown_versions& u : report.unknown) {
    json_object range;
    range.bytes("key", u.key).add("first", u.first).add("last", u.last);
    out().line(json_object().add("unknown", range).text());
  }
  json_object summary;
  summary.add("complete", report.complete()).add("losses", report.losses.size());
  summary.add("repaired_places", report.repaired.size()).add("unknown_ranges", report.unknown.size());
  summary.add("keys", report.keys).add("records", report.records).add("tags", report.tags);
  summary.add("queries", report.queries).add("feeds", report.feeds).add("holds", report.holds);
  out().line(summary.add("clock", report.clock).text());
}

void print_table(const repair_report& report, const std::string& damaged, const std::string& path) {
  if (!report.losses.empty()) out().line("Lost:");
  print_damages(report.losses, damaged, out());
  if (!report.repaired.empty()) out().line("Damaged, nothing lost:");
  print_damages(report.repaired, damaged, out());
  if (!report.unknown.empty())
    out().line("The values of these keys are unknown; the new store does not have the keys in these versions:");
  table unknown({">from version", ">to version", "key"});
  for (const unknown_versions& u : report.unknown) {
    unknown.row({fmt::format("{}", u.first), fmt::format("{}", u.last), shown(u.key, 60)});
  }
  unknown.print(out());
  if (report.feeds != 0) out().line(fmt::format("{} feeds go on", grouped(report.feeds)));
  if (report.holds != 0) out().line(fmt::format("{} holds hold the same versions", grouped(report.holds)));
  if (report.queries != 0) out().line(fmt::format("{} queries start anew", grouped(report.queries)));
  out().line(fmt::format("{}: {} keys, {} records, {} tags up to version {}; {}", shown(path), grouped(report.keys),
                         grouped(report.records), grouped(report.tags), report.clock,
                         report.complete() ? "nothing is lost" : fmt::format("{} losses", report.losses.size())));
}

exit_code repair(const repair_arguments& a) {
  progress_bar bar("reading", 0, "B");
  const repair_report report = icecore::repair({.from = a.damaged,
                                                .to = a.repaired,
                                                .on_progress =
                                                    [&](const progress& p) {
                                                      bar.retitle(p.what, p.total, p.unit == "bytes" ? "B" : p.unit);
                                                      bar.update(p.done);
                                                    },
                                                .placements = placements_of(a.placements),
                                                .moved = placements_of(a.moved),
                                                .crash = a.crash});
  bar.finish();
  if (a.format == cli::format::json) {
    print_json(report);
  } else {
    print_table(report, a.damaged, a.repaired);
  }
  return report.complete() ? exit_code::ok : exit_code::damage_found;
}

}  // namespace

void add_repair_verb(command_line& line) {
  const auto a = std::make_shared<repair_arguments>();
  verb verb = line.add_verb("repair", "Make a new store from the intact part of a damaged one",
                            "  icecore repair damaged.ice repaired.ice\n"
                            "  icecore repair damaged.ice repaired.ice -o json | jq -c 'select(.unknown)'\n"
                            "The damaged store is not changed. Exit code 0 if nothing is lost, 6 if something is.");
  verb.add_store(a->damaged, "The damaged store's file");
  verb.add_option("NEW", a->repaired, "The new store's file; it must not exist yet")
      .required()
      .type_name("")
      .completes(value_kind::file);
  verb.add_placements(a->placements, "A secondary file of the new store, for threads of a NUMA node (may be repeated)");
  verb.add_list("--moved", a->moved, "Where a secondary file of the damaged store is (may be repeated)", "PATH");
  verb.add_crash(a->crash);
  verb.add_format(a->format);
  verb.runs([a] { return repair(*a); });
}

}  // namespace icecore::cli
