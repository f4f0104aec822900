// Reads a dump line by line and checks everything that can be checked without a store (docs/dump-format.md).
//
//   dump_reader dump(STDIN_FILENO, "standard input");
//   const dump_header header = dump.header();
//   while (auto item = dump.next()) std::visit(load_it, *item);
//
// Every error is errc::bad_input, and its message begins with the input's name and the line's number. Memory: one line
// and one value.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "icecore/options.hpp"
#include "icecore/version_ranges.hpp"

namespace icecore::cli {

struct dump_header {
  version clock;
  std::uint64_t records;
  std::uint64_t tags;
  version_ranges lost;
  std::vector<version_range> expired;
};

struct dump_record {
  icecore::version version;
  std::string key;
  std::optional<std::string> value;  ///< empty: removed
};

using dump_item = std::variant<dump_record, tag_info>;

class dump_reader {
  using json = nlohmann::ordered_json;

 public:
  dump_reader(int descriptor, std::string name) : descriptor_(descriptor), name_(std::move(name)) {}
  /// Reads a dump in memory, which is copied.
  dump_reader(std::string_view dump, std::string name)
      : descriptor_(-1), name_(std::move(name)), buffer_(dump), bytes_read_(dump.size()) {}
  dump_reader(const dump_reader&) = delete;
  dump_reader& operator=(const dump_reader&) = delete;

  /// Call this first, and only once.
  [[nodiscard]] dump_header header();
  /// The next record or tag; empty once the last line has been read and agrees with the lines before it.
  [[nodiscard]] std::optional<dump_item> next();

  [[nodiscard]] std::uint64_t bytes_read() const noexcept { return bytes_read_; }
  /// Throws `what` with the number of the line that was read last.
  [[noreturn]] void fail(std::string_view what) const;

 private:
  [[nodiscard]] bool read_line();
  [[nodiscard]] bool fill();
  [[nodiscard]] json read_object();
  [[nodiscard]] dump_record record_of(const json& object);
  [[nodiscard]] tag_info tag_of(const json& object) const;
  [[nodiscard]] std::vector<version_range> ranges_of(const json& header, const char* name) const;
  [[nodiscard]] std::string value_in_parts(const json& object);
  void check_trailer(const json& object, std::uint32_t crc);
  void allow_only(const json& object, std::initializer_list<std::string_view> members) const;
  [[nodiscard]] std::uint64_t number(const json& object, const char* member, std::uint64_t max) const;
  [[nodiscard]] std::string bytes(const json& object, const char* member) const;

  int descriptor_;  // -1: the whole dump is in the buffer
  std::string name_;
  std::string buffer_;
  std::size_t position_ = 0;  // in buffer_: the first byte after the lines that were read
  std::string line_;
  std::uint64_t line_number_ = 0;
  bool line_was_ended_ = true;
  std::uint64_t bytes_read_ = 0;
  std::uint32_t crc_ = 0;
  std::uint64_t records_ = 0;
  std::uint64_t tags_ = 0;
  version clock_ = 0;
};

}  // namespace icecore::cli
