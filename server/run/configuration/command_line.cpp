#include "run/configuration/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <deque>
#include <vector>

#include "icecore/error.hpp"
#include "icecore/version.hpp"
#include "run/configuration/keys.hpp"
#include "run/configuration/reading.hpp"

namespace icecore::server {

namespace {

constexpr const char* description = "icecore-server: a key-value service that keeps every version.";
constexpr const char* footer =
    "Each key of the configuration file has a flag, which overrides the file. docs/server.md describes them all.\n"
    "SIGTERM and SIGINT stop the server within --shutdown-limit, a second one at once. SIGHUP opens the log anew.";

/// One flag and the text that it was given.
struct flag_slot {
  const key* of;
  std::string text;
  CLI::Option* option = nullptr;
};

struct parser {
  CLI::App app{description, "icecore-server"};
  std::string file;
  std::vector<std::string> restore;
  bool check = false;
  bool print = false;
  std::deque<flag_slot> slots;  ///< their places stay as they are

  parser() {
    app.set_version_flag("--version", std::string("icecore-server ") + library_version());
    app.footer(footer);
    app.add_option("-c,--configuration", file, "Read this file (TOML); flags override it")->type_name("FILE");
    app.add_flag("--check", check, "Check the configuration and the files that it names, and end: exit code 0 or 2");
    app.add_option("--restore", restore,
                   "Make the data folder (--data) from this snapshot of a service, and end; the folder must not exist. "
                   "Given once for each server of an independent group: from all of them together")
        ->type_name("FOLDER")
        ->expected(1)
        ->take_all();
    app.add_flag("--print-configuration", print, "Print the configuration that file and flags make, as TOML, and end");
    const configuration defaults;
    for (const key& k : keys()) {
      flag_slot& slot = slots.emplace_back();
      slot.of = &k;
      const std::string standard = k.toml(defaults);
      slot.option = app.add_option(k.flag(), slot.text, fmt::format("{} (default: {})", k.help, standard))
                        ->type_name("VALUE")
                        ->group(fmt::format("[{}]: {}", k.section, section_purpose(k.section)));
    }
  }
};

[[noreturn]] void refuse_unknown(const std::vector<std::string>& unknown) {
  const std::string first = unknown.front().substr(0, unknown.front().find('='));
  std::vector<std::string> flags{"--configuration",       "--check", "--restore",
                                 "--print-configuration", "--help",  "--version"};
  for (const key& k : keys()) flags.push_back(k.flag());
  const std::string nearest = nearest_name(first, flags);
  throw error(errc::bad_input, fmt::format("there is no flag {}{}; --help lists them", first,
                                           nearest.empty() ? "" : fmt::format("; is {} meant?", nearest)));
}

std::string help_text(const CLI::App& app) { return app.help(); }

}  // namespace

command_line read_command_line(int count, const char* const* arguments) {
  parser line;
  command_line told;
  try {
    line.app.parse(count, arguments);
  } catch (const CLI::CallForHelp&) {
    return {command_line::kind::help, {}, help_text(line.app)};
  } catch (const CLI::CallForVersion& version) {
    return {command_line::kind::help, {}, std::string(version.what()) + '\n'};
  } catch (const CLI::ExtrasError&) {
    refuse_unknown(line.app.remaining());
  } catch (const CLI::ParseError& wrong) {
    throw error(errc::bad_input, fmt::format("{}; --help lists the flags", wrong.what()));
  }

  configuration_reader reader;
  if (!line.file.empty()) reader.read_file(line.file);
  for (const flag_slot& slot : line.slots) {
    if (slot.option->count() > 0) reader.set(slot.of->path(), slot.text, slot.of->flag());
  }
  reader.check_contradictions();
  if (!line.print) reader.check_files();
  reader.require_no_problems();

  told.configuration = reader.result();
  if (line.print) {
    told.action = command_line::kind::print_configuration;
    told.output = configuration_toml(told.configuration, toml_style::plain);
  } else if (line.check) {
    told.action = command_line::kind::check;
  } else if (!line.restore.empty()) {
    told.action = command_line::kind::restore;
    told.restore_from.assign(line.restore.begin(), line.restore.end());
  }
  return told;
}

}  // namespace icecore::server
