// Writes JSON in icecore's form: one object per line, members in a fixed order.
//
//   out().line(json_object().add("version", 3).bytes("name", name).text());        {"version":3,"name":"epoch-1"}
//
// Bytes that are text (text.hpp) become a JSON string, all others {"base64": "..."}. With --hex they always become a
// string of hexadecimal digits.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace icecore::cli {

/// Appends `bytes` to `out` as JSON.
void append_json(std::string& out, std::string_view bytes, bool hex = false);

/// An object, written member by member. Names come from our code, and need no escapes.
class json_object {
 public:
  json_object& bytes(std::string_view name, std::string_view value, bool hex = false);
  /// A value that is JSON already.
  json_object& json(std::string_view name, std::string_view value) { return raw(name, value); }
  json_object& add(std::string_view name, double value);
  json_object& add(std::string_view name, std::integral auto value) {
    if constexpr (std::same_as<decltype(value), bool>) {
      return raw(name, value ? "true" : "false");
    } else {
      return raw(name, std::to_string(value));
    }
  }
  json_object& add(std::string_view name, const json_object& value) { return raw(name, value.text()); }

  [[nodiscard]] std::string text() const { return '{' + members_ + '}'; }

 private:
  json_object& raw(std::string_view name, std::string_view value);

  std::string members_;
};

}  // namespace icecore::cli
