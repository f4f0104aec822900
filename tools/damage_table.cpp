#include "damage_table.hpp"

#include <fmt/format.h>

#include "text.hpp"

namespace icecore::cli {

json_object damage_to_json(const damage& d) {
  json_object line;
  line.add("offset", d.offset).bytes("structure", d.structure).bytes("what", d.what);
  if (d.key) line.bytes("key", *d.key);
  if (d.version) line.add("version", *d.version);
  return line;
}

void print_damages(const std::vector<damage>& damages, output& to) {
  table rows({">offset", "structure", ">version", "key", "what"});
  for (const damage& d : damages) {
    rows.row({fmt::format("{}", d.offset), d.structure, d.version ? fmt::format("{}", *d.version) : "-",
              d.key ? shown(*d.key, 60) : "-", shown(d.what)});
  }
  rows.print(to);
}

}  // namespace icecore::cli
