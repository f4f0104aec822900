// verify: checks a store file that may be too damaged to open.
#include <fmt/format.h>

#include <memory>

#include "icecore/store.hpp"
#include "line/arguments.hpp"
#include "line/command_line.hpp"
#include "text/json.hpp"
#include "text/output.hpp"
#include "text/progress.hpp"
#include "text/text.hpp"
#include "verbs/upkeep/damage_table.hpp"

namespace icecore::cli {
namespace {

struct verify_arguments {
  std::string store;
  std::vector<std::string> placements;
  cli::format format = cli::format::table;
};

void print_json(const verify_report& report) {
  for (const damage& d : report.damages) out().line(json_object().add("damage", damage_to_json(d)).text());
  json_object summary;
  summary.add("ok", report.ok()).add("damages", report.damages.size()).add("segments", report.segments);
  summary.add("entries", report.entries).add("records", report.records).add("tags", report.tags);
  summary.add("queries", report.queries);
  out().line(summary.add("bytes", report.bytes).text());
}

void print_table(const verify_report& report, const std::string& path) {
  print_damages(report.damages, path, out());
  const std::string checked =
      fmt::format("{} segments, {} entries, {} records, {} tags, {} queries, {} checked", grouped(report.segments),
                  grouped(report.entries), grouped(report.records), grouped(report.tags), grouped(report.queries),
                  human_bytes(static_cast<double>(report.bytes)));
  out().line(report.ok() ? fmt::format("{}: no damage  ({})", shown(path), checked)
                         : fmt::format("{}: {} damaged places  ({})", shown(path), report.damages.size(), checked));
}

exit_code verify(const verify_arguments& a) {
  progress_bar bar("verifying", 0, "B");
  const auto tell = [&](const progress& p) {
    bar.retitle(p.what, p.total, p.unit == "bytes" ? "B" : p.unit);
    bar.update(p.done);
  };
  const verify_report report = verify_file(a.store, tell, placements_of(a.placements));
  bar.finish();
  if (a.format == cli::format::json) {
    print_json(report);
  } else {
    print_table(report, a.store);
  }
  return report.ok() ? exit_code::ok : exit_code::damage_found;
}

}  // namespace

void add_verify_verb(command_line& line) {
  const auto a = std::make_shared<verify_arguments>();
  verb verb = line.add_verb("verify", "Check every structure of a store file and say what is damaged, and where",
                            "  icecore verify model.ice\n"
                            "  icecore verify model.ice -o json | jq -c 'select(.damage)'\n"
                            "Changes nothing. Exit code 0 if all is well, 6 if there is damage.");
  verb.add_store(a->store);
  verb.add_moved(a->placements);
  verb.add_format(a->format);
  verb.runs([a] { return verify(*a); });
}

}  // namespace icecore::cli
