#include "arrow_import.hpp"

#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include "icecore/error.hpp"

namespace icecore::python {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& why) {
  throw error(errc::invalid_argument, what + ' ' + why);
}

/// The number behind a prefix of a format: the 16 of "w:16".
std::optional<std::size_t> number_behind(std::string_view format, std::string_view prefix) {
  if (!format.starts_with(prefix)) return std::nullopt;
  const std::string_view digits = format.substr(prefix.size());
  std::size_t number = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (failure != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

/// The size of an item of a type whose items have one; 0 if it is another type.
std::size_t item_bytes(std::string_view format) {
  if (const auto width = number_behind(format, "w:")) return *width;
  if (format.starts_with("ts") || format.starts_with("tD")) return 8;  // timestamps, durations
  if (format == "tdm" || format == "ttu" || format == "ttn") return 8;
  if (format == "tdD" || format == "tts" || format == "ttm") return 4;
  if (format.size() != 1) return 0;
  constexpr std::string_view ones = "cC";
  constexpr std::string_view twos = "sSe";
  constexpr std::string_view fours = "iIf";
  constexpr std::string_view eights = "lLg";
  if (ones.find(format[0]) != std::string_view::npos) return 1;
  if (twos.find(format[0]) != std::string_view::npos) return 2;
  if (fours.find(format[0]) != std::string_view::npos) return 4;
  return eights.find(format[0]) != std::string_view::npos ? 8 : 0;
}

void require_no_nulls(const ArrowArray& array, std::size_t first, std::size_t count, std::size_t item,
                      const std::string& what) {
  const auto* const validity = array.n_buffers > 0 ? static_cast<const std::uint8_t*>(array.buffers[0]) : nullptr;
  if (array.null_count == 0 || validity == nullptr) return;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t bit = first + i;
    if ((validity[bit / 8] >> bit % 8 & 1) == 0) {
      refuse(what, "have a null at item " + std::to_string(item + i) + ": drop or fill nulls first");
    }
  }
}

template <class Offset>
void append_by_offsets(const ArrowArray& array, std::vector<std::string_view>& items, const std::string& what) {
  const auto* const offsets = static_cast<const Offset*>(array.buffers[1]) + array.offset;
  const auto* const bytes = static_cast<const char*>(array.buffers[2]);
  for (std::int64_t i = 0; i < array.length; ++i) {
    if (offsets[i] < 0 || offsets[i + 1] < offsets[i]) refuse(what, "have offsets that decrease");
    items.emplace_back(bytes == nullptr ? "" : bytes + offsets[i],
                       static_cast<std::size_t>(offsets[i + 1] - offsets[i]));
  }
}

/// The layout of binary_view and utf8_view.
void append_views(const ArrowArray& array, std::vector<std::string_view>& items, const std::string& what) {
  struct view {
    std::int32_t size;
    std::int32_t prefix;
    std::int32_t buffer;
    std::int32_t offset;
  };
  static_assert(sizeof(view) == 16);
  constexpr std::int32_t short_bytes_max = 12;
  const auto* const views = static_cast<const char*>(array.buffers[1]) + array.offset * std::int64_t{sizeof(view)};
  const std::int64_t buffers = array.n_buffers - 3;  // behind validity and views; the last one has their sizes
  for (std::int64_t i = 0; i < array.length; ++i) {
    const char* const at = views + i * std::int64_t{sizeof(view)};
    view read{};
    std::memcpy(&read, at, sizeof read);
    if (read.size < 0) refuse(what, "have an item of a negative size");
    if (read.size <= short_bytes_max) {
      items.emplace_back(at + sizeof read.size, static_cast<std::size_t>(read.size));
    } else {
      if (read.buffer < 0 || read.buffer >= buffers || read.offset < 0) refuse(what, "have a view of no buffer");
      items.emplace_back(static_cast<const char*>(array.buffers[2 + read.buffer]) + read.offset,
                         static_cast<std::size_t>(read.size));
    }
  }
}

void append_fixed(const char* bytes, std::size_t width, std::int64_t count, std::vector<std::string_view>& items) {
  for (std::int64_t i = 0; i < count; ++i) items.emplace_back(bytes + i * static_cast<std::int64_t>(width), width);
}

/// Items that are lists of so many numbers.
void append_lists(const ArrowSchema& schema, const ArrowArray& array, std::size_t list_size,
                  std::vector<std::string_view>& items, const std::string& what) {
  const ArrowSchema& element = *schema.children[0];
  const ArrowArray& elements = *array.children[0];
  const std::size_t width = item_bytes(element.format);
  if (width == 0 || list_size == 0) {
    refuse(what, std::string("are lists of the type '") + element.format + "': give lists of at least one number");
  }
  const auto first = static_cast<std::size_t>(elements.offset) + static_cast<std::size_t>(array.offset) * list_size;
  require_no_nulls(elements, first, static_cast<std::size_t>(array.length) * list_size, 0,
                   "elements of the lists of " + what);
  const char* const bytes = static_cast<const char*>(elements.buffers[1]) + first * width;
  append_fixed(bytes, list_size * width, array.length, items);
}

/// A type that cannot be a column of bytes, in words, and what to do.
std::string in_words(std::string_view format) {
  if (format == "b") return "are bools, which Arrow keeps as bits: cast them to uint8 first";
  if (format.starts_with("d:")) return "are decimals: cast them to numbers or text first";
  if (format == "+l" || format == "+L" || format == "+vl" || format == "+vL") {
    return "are lists of different sizes: give lists of one size, or bytes";
  }
  if (format == "+m") return "are maps: give binary, text or numbers";
  return "are of the Arrow type '" + std::string(format) + "': give binary, text, numbers or fixed-size lists";
}

}  // namespace

arrow_items::~arrow_items() {
  for (ArrowArray& array : arrays_) array.release(&array);
}

void arrow_items::append(const ArrowSchema& schema, ArrowArray& array, const std::string& what) {
  arrays_.reserve(arrays_.size() + 1);
  const ArrowArray& taken = arrays_.emplace_back(array);
  array.release = nullptr;
  if (taken.length == 0) return;  // of any type: an empty column of some libraries is of the type null
  const std::string_view format = schema.format;
  if (format == "n") refuse(what, "have a null at item 0: drop or fill nulls first");
  if (schema.dictionary != nullptr) {
    refuse(what, "are categories: cast them to binary, text or numbers first");
  }
  items_.reserve(items_.size() + static_cast<std::size_t>(taken.length));
  const std::size_t before = items_.size();
  require_no_nulls(taken, static_cast<std::size_t>(taken.offset), static_cast<std::size_t>(taken.length), before, what);
  if (format == "z" || format == "u") {
    append_by_offsets<std::int32_t>(taken, items_, what);
  } else if (format == "Z" || format == "U") {
    append_by_offsets<std::int64_t>(taken, items_, what);
  } else if (format == "vz" || format == "vu") {
    append_views(taken, items_, what);
  } else if (const auto list_size = number_behind(format, "+w:")) {
    append_lists(schema, taken, *list_size, items_, what);
  } else if (const std::size_t width = item_bytes(format); width > 0) {
    const auto from = static_cast<std::size_t>(taken.offset) * width;
    append_fixed(static_cast<const char*>(taken.buffers[1]) + from, width, taken.length, items_);
  } else if (format.starts_with("+s")) {
    refuse(what, "are a table: give one of its columns");
  } else {
    refuse(what, in_words(format));
  }
}

}  // namespace icecore::python
