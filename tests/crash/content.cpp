#include "content.hpp"

namespace icecore::crash {
namespace {

std::uint64_t mixed(std::uint64_t x) noexcept {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9U;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

std::uint64_t hashed(std::string_view bytes) noexcept {
  std::uint64_t h = bytes.size();
  while (bytes.size() >= 8) {
    std::uint64_t word;
    __builtin_memcpy(&word, bytes.data(), 8);
    h = mixed(h ^ word);
    bytes.remove_prefix(8);
  }
  for (const char c : bytes) h = h * 257 + static_cast<unsigned char>(c);
  return mixed(h);
}

}  // namespace

std::uint64_t record_sum(std::string_view key, std::size_t place, const change& c) noexcept {
  const std::uint64_t value = c.value ? hashed(*c.value) : 77;
  return mixed(mixed(hashed(key) + place) ^ mixed(c.version * 2 + (c.value ? 1 : 0)) ^ value);
}

std::uint64_t tag_sum(const tag_info& t) noexcept {
  return mixed(mixed(t.version ^ 0x7a67) ^ hashed(t.name) ^ mixed(hashed(t.note)) ^
               static_cast<std::uint64_t>(t.time_ns));
}

options opening_options(const story_options& how, unsigned number) {
  options o;
  o.durability = how.durability;
  o.deferred_durability = how.deferred && how.durability == durability::operation;
  o.index = how.index;
  o.huge_pages = false;
  o.recovery_threads = 1;
  o.grow_in_background = false;  // fibers of one thread do everything
  o.publish_settled = false;
  o.check_values = how.reads_all;
  for (unsigned n = 1; n < how.files; ++n) o.placements.push_back({machine::path(number, n), -1});
  return o;
}

std::uint64_t state_sum(const snapshot& then) {
  std::uint64_t sum = 0;
  for (const auto& [key, value] : then.range()) sum += record_sum(key, 0, {0, value});
  return sum;
}

std::uint64_t content_sum(const store& s) {
  std::uint64_t sum = 0;
  for (const std::string_view key : s.keys()) {
    std::size_t place = 0;
    for (const change& c : s.history(key).oldest_first()) sum += record_sum(key, place++, c);
  }
  for (const tag_info& t : s.tags()) sum += tag_sum(t);
  for (const auto& [first, end] : s.expired_versions()) sum += mixed(mixed(first ^ 0x657870) + end);
  return sum;
}

std::string content_text(const store& s) {
  std::string text;
  for (const std::string_view key : s.keys()) {
    text.append("  ").append(key).append(":");
    for (const change& c : s.history(key).oldest_first()) {
      text.append(" v").append(std::to_string(c.version)).append("=");
      text.append(c.value ? c.value->substr(0, 12) : "removed");
    }
    text.append("\n");
  }
  for (const tag_info& t : s.tags()) {
    text.append("  tag '").append(t.name).append("' of v").append(std::to_string(t.version)).append("\n");
  }
  for (const auto& [first, end] : s.expired_versions()) {
    text.append("  expired: from v")
        .append(std::to_string(first))
        .append(" to before v")
        .append(std::to_string(end))
        .append("\n");
  }
  return text;
}

}  // namespace icecore::crash
