#include "dump/dump_reader.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "dump/dump_format.hpp"
#include "icecore/error.hpp"
#include "text/file_error.hpp"
#include "text/text.hpp"

namespace icecore::cli {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t read_bytes = std::size_t{1} << 18U;
constexpr std::string_view cut_off = "the dump was cut off; make it again, or copy it again";

/// The inverse of append_json(bytes). errc::bad_input names `what`.
std::string bytes_from_json(const json& value, std::string_view what) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.size() == 1 && value.contains("base64") && value["base64"].is_string()) {
    return from_base64(value["base64"].get_ref<const std::string&>());
  }
  throw error(errc::bad_input, fmt::format("\"{}\" is neither a string nor {{\"base64\": \"...\"}}", what));
}

}  // namespace

void dump_reader::fail(std::string_view what) const {
  throw error(errc::bad_input, fmt::format("{}, line {}: {}", name_, line_number_, what));
}

bool dump_reader::fill() {
  if (descriptor_ < 0) return false;
  buffer_.erase(0, position_);
  position_ = 0;
  const std::size_t filled = buffer_.size();
  buffer_.resize(filled + read_bytes);
  ssize_t count = 0;
  do {
    count = ::read(descriptor_, buffer_.data() + filled, read_bytes);
  } while (count < 0 && errno == EINTR);
  if (count < 0) fail_on_file(name_, "reading");
  buffer_.resize(filled + static_cast<std::size_t>(count));
  bytes_read_ += static_cast<std::uint64_t>(count);
  return count > 0;
}

/// Reads the next line, without its end, into line_; false at the end of the input.
bool dump_reader::read_line() {
  std::size_t searched = position_;
  std::size_t end = buffer_.find('\n', searched);
  while (end == std::string::npos) {
    searched = buffer_.size() - position_;
    if (searched > dump_line_bytes_max) {
      ++line_number_;
      fail("the line is longer than any line of a dump; is this an icecore dump?");
    }
    if (!fill()) break;
    end = buffer_.find('\n', searched);
  }
  line_was_ended_ = end != std::string::npos;
  if (!line_was_ended_) end = buffer_.size();
  if (!line_was_ended_ && end == position_) return false;
  line_.assign(buffer_, position_, end - position_);
  position_ = std::min(buffer_.size(), end + 1);
  ++line_number_;
  return true;
}

/// Reads the next line as a JSON object; updates line_ and the checksum.
dump_reader::json dump_reader::read_object() {
  if (!read_line()) {
    ++line_number_;
    fail(cut_off);
  }
  const auto add = [&](std::string_view text) {
    crc_ = static_cast<std::uint32_t>(::crc32_z(crc_, reinterpret_cast<const Bytef*>(text.data()), text.size()));
  };
  json object;
  try {
    object = json::parse(line_);
  } catch (const json::parse_error& wrong) {
    if (!line_was_ended_) fail(cut_off);
    fail(fmt::format("not valid JSON at character {}", wrong.byte));
  } catch (const json::out_of_range&) {
    fail("a number is too large");
  }
  if (!object.is_object()) fail("not a JSON object");
  add(line_);
  if (line_was_ended_) add("\n");
  return object;
}

void dump_reader::allow_only(const json& object, std::initializer_list<std::string_view> members) const {
  for (const auto& [name, value] : object.items()) {
    if (std::find(members.begin(), members.end(), name) == members.end()) {
      fail(fmt::format("the member \"{}\" is not allowed here", shown(name, 60)));
    }
  }
}

std::uint64_t dump_reader::number(const json& object, const char* member, std::uint64_t max) const {
  const auto found = object.find(member);
  if (found == object.end()) fail(fmt::format("the member \"{}\" is missing", member));
  if (!found->is_number_unsigned() || found->get<std::uint64_t>() > max) {
    fail(fmt::format("\"{}\" is not a whole number from 0 to {}", member, max));
  }
  return found->get<std::uint64_t>();
}

std::string dump_reader::bytes(const json& object, const char* member) const {
  const auto found = object.find(member);
  if (found == object.end()) fail(fmt::format("the member \"{}\" is missing", member));
  try {
    return bytes_from_json(*found, member);
  } catch (const error& wrong) {
    fail(wrong.message());
  }
}

dump_header dump_reader::header() {
  if (!read_line()) {
    throw error(errc::bad_input, fmt::format("{}: nothing to read; `icecore dump` writes at least two lines", name_));
  }
  // The first line may be anything; every line that is not a header gets the same error.
  const json object = json::parse(line_, nullptr, false);
  if (!object.is_object() || !object.contains("icecore_dump")) {
    fail("this is not an icecore dump: a dump begins with {\"icecore_dump\":1, ...}");
  }
  const auto format = number(object, "icecore_dump", std::numeric_limits<std::uint32_t>::max());
  if (format != dump_format_version) {
    fail(fmt::format("the dump has format {}; this icecore reads format {}: use a newer icecore", format,
                     dump_format_version));
  }
  allow_only(object, {"icecore_dump", "clock", "records", "tags", "lost_versions", "expired_versions", "written_by"});
  line_ += line_was_ended_ ? "\n" : "";
  crc_ = static_cast<std::uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(line_.data()), line_.size()));
  constexpr auto any = std::numeric_limits<std::uint64_t>::max();
  dump_header header{
      number(object, "clock", version_max), number(object, "records", any), number(object, "tags", any), {}, {}};
  if (header.clock == 0) fail("\"clock\" is 0, but the first version of a store is 1");
  clock_ = header.clock;
  for (const version_range& lost : ranges_of(object, "lost_versions")) header.lost.add(lost);
  header.expired = ranges_of(object, "expired_versions");
  return header;
}

std::vector<version_range> dump_reader::ranges_of(const json& header, const char* name) const {
  std::vector<version_range> ranges;
  const auto found = header.find(name);
  if (found == header.end()) return ranges;
  const auto is_version = [this](const json& v) { return v.is_number_unsigned() && v.get<version>() <= clock_; };
  const auto is_range = [&](const json& r) {
    return r.is_array() && r.size() == 2 && is_version(r[0]) && is_version(r[1]) && r[0] != 0 && r[0] < r[1];
  };
  if (!found->is_array() || !std::all_of(found->begin(), found->end(), is_range)) {
    fail(fmt::format("\"{}\" must be ranges [first, end] of versions below the clock", name));
  }
  for (const json& range : *found) ranges.push_back({range[0].get<version>(), range[1].get<version>()});
  return ranges;
}

std::optional<dump_item> dump_reader::next() {
  const std::uint32_t crc_before = crc_;
  const json object = read_object();
  if (object.contains("key")) {
    ++records_;
    return record_of(object);
  }
  if (object.contains("tag")) {
    ++tags_;
    return tag_of(object);
  }
  if (!object.contains("end"))
    fail("the line is neither a record (\"key\"), nor a tag (\"tag\"), nor the end (\"end\")");
  check_trailer(object, crc_before);
  return std::nullopt;
}

dump_record dump_reader::record_of(const json& object) {
  allow_only(object, {"version", "key", "value", "removed", "size"});
  dump_record record{number(object, "version", clock_), bytes(object, "key"), std::nullopt};
  if (record.key.size() > key_size_max)
    fail(fmt::format("a key of {} bytes is too long; the maximum is {}", record.key.size(), key_size_max));
  const bool removed = object.contains("removed");
  if (object.contains("value") + object.contains("size") + removed != 1) {
    fail("a record must have exactly one of \"value\", \"size\" and \"removed\"");
  }
  if (removed) {
    if (object["removed"] != true) fail("\"removed\" must be true");
  } else if (object.contains("value")) {
    record.value = bytes(object, "value");
  } else {
    record.value = value_in_parts(object);
  }
  return record;
}

std::string dump_reader::value_in_parts(const json& object) {
  const std::uint64_t size = number(object, "size", value_size_max);
  std::string value;
  while (value.size() < size) {
    const json part = read_object();
    allow_only(part, {"part"});
    const std::string more = bytes(part, "part");
    // Does not reserve the size that the input claims: memory grows only with the bytes that really come.
    if (more.empty() || more.size() > size - value.size()) {
      fail(fmt::format("a part has {} bytes, but must have 1 to {} (the value has {})", more.size(),
                       size - value.size(), size));
    }
    value += more;
  }
  return value;
}

tag_info dump_reader::tag_of(const json& object) const {
  allow_only(object, {"version", "tag", "time_ns", "note"});
  tag_info tag{number(object, "version", clock_), 0, bytes(object, "tag"), bytes(object, "note")};
  const auto time = object.find("time_ns");
  constexpr auto max = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (time == object.end() || !time->is_number_integer() ||
      (time->is_number_unsigned() && time->get<std::uint64_t>() > max)) {
    fail("\"time_ns\" is not a signed 64-bit number");
  }
  tag.time_ns = time->get<std::int64_t>();
  if (tag.version >= clock_)
    fail(fmt::format("version {} has a tag, but is not below the clock {}", tag.version, clock_));
  return tag;
}

void dump_reader::check_trailer(const json& object, std::uint32_t crc) {
  allow_only(object, {"end", "records", "tags", "crc32"});
  constexpr auto any = std::numeric_limits<std::uint64_t>::max();
  const auto records = number(object, "records", any);
  const auto tags = number(object, "tags", any);
  if (records != records_ || tags != tags_) {
    fail(fmt::format(
        "{} records and {} tags were read, but the dump's last line says {} and {}: lines are missing or were added",
        records_, tags_, records, tags));
  }
  const std::string wanted = bytes(object, "crc32");
  const std::string found = fmt::format("{:08x}", crc);
  if (wanted != found) {
    fail(
        fmt::format("the checksum of the lines is {}, but the dump's last line says {}: the dump was damaged or edited",
                    found, wanted));
  }
  if (read_line()) fail("there is more after the dump's last line");
}

}  // namespace icecore::cli
