#include "names.hpp"

namespace icecore::skv {

namespace {

constexpr std::string_view prefix = "skv.";
constexpr std::string_view digits = "0123456789ABCDEF";

bool is_plain(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-';
}

}  // namespace

std::string database_of(std::string_view pds) {
  std::string name(prefix);
  for (const char c : pds) {
    if (is_plain(c)) {
      name += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    name += '_';
    name += digits[byte >> 4];
    name += digits[byte & 15];
  }
  return name;
}

std::optional<std::string> pds_of(std::string_view database) {
  if (!database.starts_with(prefix)) return std::nullopt;
  std::string pds;
  for (std::size_t i = prefix.size(); i < database.size(); ++i) {
    if (database[i] != '_') {
      pds += database[i];
      continue;
    }
    if (i + 2 >= database.size()) return std::nullopt;
    const std::size_t high = digits.find(database[i + 1]);
    const std::size_t low = digits.find(database[i + 2]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    pds += static_cast<char>(high << 4 | low);
    i += 2;
  }
  return pds;
}

skv_pds_id_t identifier_of(std::string_view pds) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a, mixed once more
  for (const char c : pds) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  hash = (hash ^ (hash >> 32)) * 0xd6e8feb86659fd93U;
  hash ^= hash >> 32;
  return {static_cast<unsigned int>(hash >> 32), static_cast<unsigned int>(hash)};
}

}  // namespace icecore::skv
