// What a feed that the store keeps is: written once, when it is made. It lies in a head segment as a query's definition
// does, and its first number says that it is none of a query.
//
// Threads: values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/byte_stream.hpp"
#include "base/raise.hpp"
#include "icecore/options.hpp"
#include "pool/query/query_space.hpp"

namespace icecore::detail {

struct feed_definition {
  std::string name;
  version after = 0;
  bool snapshot = false;
  std::int64_t created_ns = 0;
  std::vector<std::byte> filter;  ///< its stored form

  [[nodiscard]] std::vector<std::byte> encoded() const {
    byte_writer out;
    out.number(format::feed_definition_layout);
    out.text(name);
    out.number(after);
    out.number(static_cast<std::uint8_t>(snapshot ? 1 : 0));
    out.number(created_ns);
    out.text({reinterpret_cast<const char*>(filter.data()), filter.size()});
    return out.bytes();
  }
  /// errc::damaged, with `what` before it, if these bytes are no definition.
  [[nodiscard]] static feed_definition decoded(std::span<const std::byte> bytes, const std::string& what) {
    const auto refuse = [&] { raise(errc::damaged, "{}: the feed's definition cannot be read", what); };
    byte_reader in(bytes, refuse);
    if (const auto layout = in.number<std::uint16_t>(); layout != format::feed_definition_layout) {
      raise(errc::unsupported_format, "{}: the feed's definition has layout {}; this icecore reads layout {}", what,
            layout, format::feed_definition_layout);
    }
    feed_definition d;
    d.name = in.text();
    d.after = in.number<version>();
    const auto snapshot = in.number<std::uint8_t>();
    d.snapshot = snapshot == 1;
    d.created_ns = in.number<std::int64_t>();
    const std::string_view filter = in.text();
    const auto* at = reinterpret_cast<const std::byte*>(filter.data());
    d.filter.assign(at, at + filter.size());
    if (!in.at_end() || snapshot > 1) refuse();
    return d;
  }
};

}  // namespace icecore::detail
