// Changes dumps as their structure has it: lines come and go and change places, numbers count up and down. Half of the
// results get last and first lines that agree with what is between: without them nothing changed would be accepted.
#include <zlib.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "support/fuzz_target.hpp"

namespace icecore::testing {
namespace {

[[nodiscard]] std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

[[nodiscard]] bool holds(const std::string& line, const char* what) { return line.find(what) != std::string::npos; }

/// Writes `number` behind `"name":` in place of the digits there.
void set_number(std::string& line, const std::string& name, std::uint64_t number) {
  const std::string label = '"' + name + "\":";
  std::size_t from = line.find(label);
  if (from == std::string::npos) return;
  from += label.size();
  std::size_t to = from;
  while (to < line.size() && std::isdigit(static_cast<unsigned char>(line[to])) != 0) ++to;
  line.replace(from, to - from, std::to_string(number));
}

/// Makes counts and checksum right.
[[nodiscard]] std::string sealed(std::vector<std::string> lines) {
  if (lines.size() < 2) return {};
  lines.pop_back();
  const auto count = [&](const char* what) {
    return static_cast<std::uint64_t>(
        std::count_if(lines.begin() + 1, lines.end(), [&](const std::string& line) { return holds(line, what); }));
  };
  const std::uint64_t records = count("\"key\":");
  const std::uint64_t tags = count("\"tag\":");
  set_number(lines.front(), "records", records);
  set_number(lines.front(), "tags", tags);
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  const auto crc = static_cast<unsigned>(crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()));
  char last[128];
  std::snprintf(last, sizeof last, "{\"end\":true,\"records\":%llu,\"tags\":%llu,\"crc32\":\"%08x\"}\n",
                static_cast<unsigned long long>(records), static_cast<unsigned long long>(tags), crc);
  return text + last;
}

void change_number(std::string& line, std::minstd_rand& random) {
  std::vector<std::size_t> digits;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (std::isdigit(static_cast<unsigned char>(line[i])) != 0) digits.push_back(i);
  }
  if (digits.empty()) return;
  char& digit = line[digits[random() % digits.size()]];
  digit = static_cast<char>('0' + (static_cast<unsigned>(digit - '0') + 1 + random() % 9) % 10);
}

/// Lines only: the first and the last stay where they are.
void change_lines(std::vector<std::string>& lines, std::minstd_rand& random) {
  if (lines.size() < 3) return;
  const auto any = [&] { return static_cast<std::ptrdiff_t>(1 + random() % (lines.size() - 2)); };
  const auto one = lines.begin() + any();
  const auto other = lines.begin() + any();
  switch (random() % 5) {
    case 0:
      lines.insert(one, std::string(*other));
      break;
    case 1:
      if (lines.size() > 3) lines.erase(one);
      break;
    case 2:
      std::iter_swap(one, other);
      break;
    default:
      change_number(*one, random);
  }
}

}  // namespace
}  // namespace icecore::testing

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t size_max,
                                               unsigned seed) {
  using namespace icecore::testing;
  std::minstd_rand random(seed);
  if (random() % 2 == 0) size = LLVMFuzzerMutate(data, size, size_max);
  auto lines = lines_of({reinterpret_cast<const char*>(data), size});
  if (random() % 2 == 0) change_lines(lines, random);
  std::string text;
  if (random() % 2 == 0) text = sealed(lines);
  if (text.empty()) {
    for (const std::string& line : lines) text += line + '\n';
  }
  size = std::min(text.size(), size_max);
  std::memcpy(data, text.data(), size);
  return size;
}
