// reindex: gives an existing store another index, or packs its present index anew.
#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "line/command_line.hpp"
#include "line/opening.hpp"
#include "text/json.hpp"
#include "text/output.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

struct reindex_arguments {
  std::string store;
  write_arguments write;
  cli::format format = cli::format::table;
};

exit_code reindex(const reindex_arguments& a) {
  const auto start = std::chrono::steady_clock::now();
  opened_store s = open_to_write(a.store, a.write, creation::open_existing);
  const statistics now = s.stats();
  s.close();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (a.format == cli::format::json) {
    json_object line;
    line.bytes("index", index_name(now.index)).add("keys", now.keys).add("index_bytes", now.index_bytes);
    out().line(line.add("seconds", seconds).text());
  } else {
    out().line(fmt::format("{}: {} index of {} keys, {}, in {:.2f} s", shown(a.store), index_name(now.index),
                           grouped(now.keys), human_bytes(static_cast<double>(now.index_bytes)), seconds));
  }
  return exit_code::ok;
}

}  // namespace

void add_reindex_verb(command_line& line) {
  const auto a = std::make_shared<reindex_arguments>();
  verb verb = line.add_verb(
      "reindex", "Give a store another index, or rebuild the one it has, densely packed",
      "  icecore reindex model.ice --index persistent    # opens instantly from now on\n"
      "  icecore reindex model.ice --index btree         # the fastest one, built at each opening\n"
      "  icecore reindex model.ice --index persistent -o json | jq .index_bytes\n"
      "The store's contents do not change. If the command is killed, the store has one of the two indexes.");
  a->write.change_index = true;
  verb.add_store(a->store);
  verb.add_index(a->write,
                 "The new index: btree, skip_list (lock-free, slower), persistent (opens instantly), list (for few "
                 "keys) or hash (fastest finds, unordered)")
      .required();
  verb.add_changing(a->write);
  verb.add_format(a->format);
  verb.runs([a] { return reindex(*a); });
}

}  // namespace icecore::cli
