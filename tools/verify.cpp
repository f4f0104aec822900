// verify: checks a store file that may be too damaged to open.
#include <fmt/format.h>

#include <memory>

#include "arguments.hpp"
#include "damage_table.hpp"
#include "icecore/store.hpp"
#include "json.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "text.hpp"

namespace icecore::cli {
namespace {

struct verify_arguments {
  std::string store;
  cli::format format = cli::format::table;
};

void print_json(const verify_report& report) {
  for (const damage& d : report.damages) out().line(json{{"damage", damage_to_json(d)}}.dump());
  const json summary{{"ok", report.ok()},         {"damages", report.damages.size()}, {"segments", report.segments},
                     {"entries", report.entries}, {"records", report.records},        {"tags", report.tags},
                     {"bytes", report.bytes}};
  out().line(summary.dump());
}

void print_table(const verify_report& report, const std::string& path) {
  print_damages(report.damages, out());
  const std::string checked = fmt::format("{} segments, {} entries, {} records, {} tags, {} checked",
                                          grouped(report.segments), grouped(report.entries), grouped(report.records),
                                          grouped(report.tags), human_bytes(static_cast<double>(report.bytes)));
  out().line(report.ok() ? fmt::format("{}: no damage  ({})", shown(path), checked)
                         : fmt::format("{}: {} damaged places  ({})", shown(path), report.damages.size(), checked));
}

exit_code verify(const verify_arguments& a) {
  progress_bar bar("verifying", 0, "B");
  const verify_report report = verify_file(a.store, [&](const progress& p) {
    bar.retitle(p.what, p.total, p.unit == "bytes" ? "B" : p.unit);
    bar.update(p.done);
  });
  bar.finish();
  if (a.format == cli::format::json) {
    print_json(report);
  } else {
    print_table(report, a.store);
  }
  return report.ok() ? exit_code::ok : exit_code::damage_found;
}

}  // namespace

void add_verify_verb(CLI::App& app, action& chosen) {
  const auto a = std::make_shared<verify_arguments>();
  CLI::App* verb = add_verb(app, "verify", "Check every structure of a store file and say what is damaged, and where",
                            "  icecore verify model.ice\n"
                            "  icecore verify model.ice -o json | jq -c 'select(.damage)'\n"
                            "Changes nothing. Exit code 0 if all is well, 6 if there is damage.");
  add_store(verb, a->store);
  add_format(verb, a->format);
  verb->callback([a, &chosen] { chosen = [a] { return verify(*a); }; });
}

}  // namespace icecore::cli
