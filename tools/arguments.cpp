#include "arguments.hpp"

#include <utility>

#include "text.hpp"

namespace icecore::cli {

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
