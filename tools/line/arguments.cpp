#include "line/arguments.hpp"

#include <charconv>
#include <utility>

#include "icecore/error.hpp"

#include "text/text.hpp"

namespace icecore::cli {

std::string_view index_name(index_kind kind) {
  switch (kind) {
    case index_kind::skip_list:
      return "skip_list";
    case index_kind::persistent:
      return "persistent";
    case index_kind::list:
      return "list";
    case index_kind::hash:
      return "hash";
    case index_kind::btree:
      break;
  }
  return "btree";
}

std::vector<placement> placements_of(const std::vector<std::string>& arguments) {
  std::vector<placement> placements;
  for (const std::string& text : arguments) {
    placement p{text, -1};
    // a path may contain an @ too, so only a number after it is a node
    if (const std::size_t at = text.rfind('@'); at != std::string::npos && at + 1 < text.size()) {
      const char* const end = text.data() + text.size();
      int node = -1;
      const auto read = std::from_chars(text.data() + at + 1, end, node);
      if (read.ec == std::errc() && read.ptr == end) p = {text.substr(0, at), node};
    }
    if (p.path.empty()) throw error(errc::invalid_argument, "--placement " + text + ": the path is missing");
    placements.push_back(std::move(p));
  }
  return placements;
}

std::string bytes_of(const std::string& argument, bool hex) { return hex ? from_hex(argument) : argument; }

key_bounds bounds_of(const bounds_arguments& bounds, bool hex) {
  key_bounds out;
  if (bounds.prefix) out = key_bounds::of_prefix(bytes_of(*bounds.prefix, hex));
  if (bounds.from) {
    std::string from = bytes_of(*bounds.from, hex);
    if (!out.from || *out.from < from) out.from = std::move(from);
  }
  if (bounds.to) {
    std::string to = bytes_of(*bounds.to, hex);
    if (!out.to || to < *out.to) out.to = std::move(to);
  }
  return out;
}

}  // namespace icecore::cli
