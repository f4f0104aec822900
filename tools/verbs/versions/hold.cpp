// hold, release and holds: versions that never expire, by a name.
#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "line/command_line.hpp"
#include "line/opening.hpp"
#include "line/time.hpp"
#include "line/version_name.hpp"
#include "text/json.hpp"
#include "text/output.hpp"
#include "text/retention_text.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

struct hold_arguments {
  std::string store;
  std::string name;
  std::string at;
  read_arguments read;
  write_arguments write;
  cli::format format = cli::format::table;
};

exit_code hold(const hold_arguments& a) {
  opened_store s = open_to_write(a.store, a.write, creation::open_existing);
  std::optional<version> at;
  if (!a.at.empty()) at = version_named(s, a.at);
  const version held = s.hold_version(a.name, at);
  s.close();
  if (a.format == cli::format::json) {
    out().line(json_object().bytes("name", a.name).add("version", held).text());
  } else {
    out().line(fmt::format("{}", held));
  }
  return exit_code::ok;
}

exit_code release(const hold_arguments& a) {
  opened_store s = open_to_write(a.store, a.write, creation::open_existing);
  s.release_version(a.name);
  s.close();
  if (a.format == cli::format::json) out().line(json_object().bytes("name", a.name).add("released", true).text());
  return exit_code::ok;
}

exit_code list(const hold_arguments& a) {
  const opened_store s = open_to_read(a.store, a.read);
  table rows({"name", ">version", "created"});
  for (const held_version& h : s.held_versions()) {
    if (a.format == cli::format::json) {
      out().line(hold_json(h).text());
      continue;
    }
    const auto created = std::chrono::duration_cast<std::chrono::nanoseconds>(h.created.time_since_epoch());
    rows.row({shown(h.name), grouped(h.version), format_time(created.count())});
  }
  rows.print(out());
  return exit_code::ok;
}

}  // namespace

void add_hold_verbs(command_line& line) {
  const auto h = std::make_shared<hold_arguments>();
  verb verb = line.add_verb("hold", "Hold a version by a name: it never expires, whatever the retention",
                            "  icecore hold model.ice paper --at epoch-90\n"
                            "  icecore hold model.ice today                 # the present\n"
                            "  icecore holds model.ice\n"
                            "  icecore release model.ice paper\n"
                            "Prints the version. What it shows stays; versions before and behind it may expire.\n"
                            "A key that is forgotten goes from it, too.");
  verb.add_store(h->store);
  verb.add_option("NAME", h->name, "The hold's name").type_name("").required();
  verb.add_option("--at", h->at, fmt::format("The version (default: the present): {}", version_forms))
      .type_name("VERSION")
      .completes(value_kind::version);
  verb.add_changing(h->write);
  verb.add_format(h->format);
  verb.runs([h] { return hold(*h); });

  const auto r = std::make_shared<hold_arguments>();
  verb = line.add_verb("release", "End a hold: the next compaction may let its version expire",
                       "  icecore release model.ice paper");
  verb.add_store(r->store);
  verb.add_option("NAME", r->name, "The hold's name").required().type_name("").completes(value_kind::hold);
  verb.add_changing(r->write);
  verb.add_format(r->format);
  verb.runs([r] { return release(*r); });

  const auto l = std::make_shared<hold_arguments>();
  verb = line.add_verb("holds", "List the versions that are held, oldest version first",
                       "  icecore holds model.ice -o json");
  verb.add_store(l->store);
  verb.add_reading(l->read);
  verb.add_format(l->format);
  verb.runs([l] { return list(*l); });
}

}  // namespace icecore::cli
