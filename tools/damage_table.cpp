#include "damage_table.hpp"

#include <fmt/format.h>

#include "text.hpp"

namespace icecore::cli {

json damage_to_json(const damage& d) {
  json line{{"offset", d.offset}, {"structure", d.structure}, {"what", d.what}};
  if (d.key) line["key"] = bytes_to_json(*d.key);
  if (d.version) line["version"] = *d.version;
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
