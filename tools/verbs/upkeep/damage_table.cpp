#include "verbs/upkeep/damage_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "text/text.hpp"

namespace icecore::cli {

json_object damage_to_json(const damage& d) {
  json_object line;
  line.bytes("file", d.file).add("offset", d.offset).bytes("structure", d.structure).bytes("what", d.what);
  if (d.key) line.bytes("key", *d.key);
  if (d.version) line.add("version", *d.version);
  return line;
}

void print_damages(const std::vector<damage>& damages, const std::string& store, output& to) {
  const bool one_file = std::ranges::all_of(damages, [&](const damage& d) { return d.file == store; });
  std::vector<std::string> columns{">offset", "structure", ">version", "key", "what"};
  if (!one_file) columns.insert(columns.begin(), "file");
  table rows(columns);
  for (const damage& d : damages) {
    std::vector<std::string> row{fmt::format("{}", d.offset), d.structure,
                                 d.version ? fmt::format("{}", *d.version) : "-", d.key ? shown(*d.key, 60) : "-",
                                 shown(d.what)};
    if (!one_file) row.insert(row.begin(), shown(d.file));
    rows.row(row);
  }
  rows.print(to);
}

}  // namespace icecore::cli
