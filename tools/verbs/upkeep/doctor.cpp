// doctor: what the machine, and the place of a store, can give; and what to change.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "doctor/findings.hpp"
#include "icecore/version.hpp"
#include "line/command_line.hpp"
#include "text/colour.hpp"
#include "text/json.hpp"
#include "text/output.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

namespace fs = std::filesystem;

struct doctor_arguments {
  std::string store;
  colouring colours = colouring::automatic;
  cli::format format = cli::format::table;
};

std::string_view light_name(light one) {
  return one == light::green ? "green" : one == light::yellow ? "yellow" : "red";
}

colour colour_of(light one) {
  return one == light::green ? colour::green : one == light::yellow ? colour::yellow : colour::red;
}

/// The folder to look at: the store's, the folder itself if it is one, or the present one.
fs::path folder_of(const std::string& store) {
  if (store.empty()) return ".";
  std::error_code failure;
  if (fs::is_directory(store, failure)) return store;
  const fs::path folder = fs::path(store).parent_path();
  return folder.empty() ? fs::path(".") : folder;
}

doctor_findings look(const doctor_arguments& a) {
  doctor_findings found;
  std::error_code failure;
  if (!a.store.empty() && fs::exists(a.store, failure) && !fs::is_directory(a.store, failure)) {
    look_at_store(a.store, found);
  } else if (!a.store.empty() && !fs::exists(a.store, failure)) {
    found.push_back(
        {light::green, "store", fmt::format("none is at {} yet; icecore put makes one", shown(a.store)), ""});
  }
  const fs::path folder = folder_of(a.store);
  look_at_file_system(folder, found);
  look_at_durability(folder, found);
  look_at_huge_pages(is_memory(folder), found);
  look_at_numa(found);
  look_at_limits(found);
  look_at_shared_memory(found);
  look_at_crash_evidence(found);
  look_at_mpi(found);
  return found;
}

void print_page(const doctor_findings& found, const doctor_arguments& a) {
  const bool coloured = is_coloured(a.colours);
  std::size_t parts = 0;
  for (const doctor_finding& f : found) parts = std::max(parts, f.part.size());
  std::size_t counts[3] = {};
  for (const doctor_finding& f : found) {
    ++counts[static_cast<std::size_t>(f.colour)];
    const std::string name = fmt::format("{:<6}", light_name(f.colour));
    out().line(fmt::format("{}  {:<{}}  {}", painted(name, colour_of(f.colour), coloured), f.part, parts, f.found));
    if (!f.advice.empty()) out().line(fmt::format("{:<{}}  -> {}", "", 8 + parts, f.advice));
  }
  out().line(fmt::format("\nicecore {} in {}: {} green, {} yellow, {} red", library_version(),
                         shown(fs::absolute(folder_of(a.store)).lexically_normal().string()), counts[0], counts[1],
                         counts[2]));
}

exit_code doctor(const doctor_arguments& a) {
  const doctor_findings found = look(a);
  if (a.format == cli::format::json) {
    for (const doctor_finding& f : found) {
      json_object line;
      line.bytes("light", light_name(f.colour)).bytes("part", f.part).bytes("found", f.found);
      if (!f.advice.empty()) line.bytes("advice", f.advice);
      out().line(line.text());
    }
  } else {
    print_page(found, a);
  }
  const bool red = std::ranges::any_of(found, [](const doctor_finding& f) { return f.colour == light::red; });
  return red ? exit_code::negative : exit_code::ok;
}

}  // namespace

void add_doctor_verb(command_line& line) {
  const auto a = std::make_shared<doctor_arguments>();
  verb verb = line.add_verb("doctor", "Say what this machine, and the place of a store, can give, and what to change",
                            "  icecore doctor\n"
                            "  icecore doctor /mnt/data/model.ice\n"
                            "  icecore doctor /mnt/data -o json | jq -c 'select(.light != \"green\")'\n"
                            "green: good as it is. yellow: it works, but slower, or with less durability, than could "
                            "be. red: something that\n"
                            "icecore needs is missing. A small store is made in the folder to try it, and removed. "
                            "Exit code 1 if there is red.");
  verb.add_option("STORE", a->store, "A store, or a folder for stores (default: the present folder)")
      .type_name("")
      .completes(value_kind::file);
  verb.add_colour(a->colours);
  verb.add_format(a->format);
  verb.runs([a] { return doctor(*a); });
}

}  // namespace icecore::cli
