// scan: the keys and values of one version, in order.
#include <fmt/format.h>

#include <limits>
#include <memory>

#include "line/command_line.hpp"
#include "line/opening.hpp"
#include "line/version_name.hpp"
#include "text/json.hpp"
#include "text/output.hpp"
#include "text/progress.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

struct scan_arguments {
  std::string store;
  read_arguments read;
  view_arguments view;
  bounds_arguments bounds;
  hex_arguments hex;
  bool reverse = false;
  bool keys_only = false;
  bool null = false;
  std::uint64_t limit = std::numeric_limits<std::uint64_t>::max();
  cli::format format = cli::format::table;
};

void append_table_line(std::string& line, const item& i, const scan_arguments& a) {
  // On a terminal, values are truncated to fit on one line; other output is not truncated.
  const std::size_t columns = stdout_is_terminal() ? terminal_columns() : std::string::npos;
  line += a.hex.keys() ? to_hex(i.key) : shown(i.key);
  if (a.keys_only) return;
  line += '\t';
  const std::size_t used = (width(line) + 8) / 8 * 8;
  const std::size_t room =
      columns == std::string::npos ? columns : std::max<std::size_t>(columns, used + 13) - used - 4;
  line += a.hex.values() ? shown(to_hex(i.value), room) : shown(i.value, room);
}

void append_json_line(std::string& line, const item& i, const scan_arguments& a) {
  line += "{\"key\":";
  append_json(line, i.key, a.hex.keys());
  if (!a.keys_only) {
    line += ",\"value\":";
    append_json(line, i.value, a.hex.values());
  }
  line += '}';
}

exit_code scan(const scan_arguments& a) {
  const key_bounds bounds = bounds_of(a.bounds, a.hex.keys());
  const opened_store s = open_to_read(a.store, a.read);
  item_range items = view_of(s, a.view).range(bounds);
  if (a.reverse) items = items.reversed();
  progress_bar bar("scanning", 0, "keys");
  std::uint64_t count = 0;
  std::string line;
  if (a.limit == 0) return exit_code::ok;
  for (const item& i : items) {
    line.clear();
    if (a.null) {
      line = i.key;
    } else if (a.format == cli::format::json) {
      append_json_line(line, i, a);
    } else {
      append_table_line(line, i, a);
    }
    line += a.null ? '\0' : '\n';
    out().write(line);
    if (++count >= a.limit) break;
    if (!stdout_is_terminal()) bar.update(count);
  }
  return exit_code::ok;
}

}  // namespace

void add_scan_verb(command_line& line) {
  const auto a = std::make_shared<scan_arguments>();
  verb verb = line.add_verb("scan", "List keys and values of one version in key order",
                            "  icecore scan model.ice --prefix layer1/\n"
                            "  icecore scan model.ice --at epoch-3 --from a --to m --limit 10\n"
                            "  icecore scan model.ice --keys-only -0 | xargs -0 -n 1 echo\n"
                            "  icecore scan model.ice -o json | jq -r .key");
  verb.add_store(a->store);
  verb.add_reading(a->read);
  verb.add_view(a->view);
  verb.add_bounds(a->bounds);
  verb.add_flag("--reverse", a->reverse, "From the last key to the first");
  verb.add_limit(a->limit);
  const option keys_only = verb.add_flag("--keys-only", a->keys_only, "Keys without values");
  verb.add_hex(a->hex);
  verb.add_format(a->format);
  verb.add_flag("-0,--null", a->null, "With --keys-only: keys byte for byte, each ended by a zero byte")
      .needs(keys_only);
  verb.runs([a] { return scan(*a); });
}

}  // namespace icecore::cli
