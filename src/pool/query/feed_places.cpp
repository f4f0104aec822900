#include "pool/query/feed_places.hpp"

#include <cstring>

#include "icecore/options.hpp"

namespace icecore {
namespace {

constexpr std::uint64_t definition_at = sizeof(format::query_head) + feed_places::count * sizeof(format::feed_place);
constexpr std::uint64_t room_for_key = format::round_up(key_size_max, format::cache_line_size);

constexpr std::uint64_t keys_at(std::uint64_t definition_size) noexcept {
  return format::round_up(definition_at + definition_size, format::cache_line_size);
}

}  // namespace

bool feed_places::is_feed(const query_space& space, link head_segment) noexcept {
  const format::query_head& head = space.head_at(head_segment);
  if (head.parts != count || head.definition_size < sizeof(std::uint16_t)) return false;
  std::uint16_t layout = 0;
  std::memcpy(&layout, reinterpret_cast<const std::byte*>(&head) + definition_at, sizeof layout);
  return format::kind_of(layout) == format::query_kind::feed;
}

std::uint64_t feed_places::size_of(std::uint64_t definition_size, bool with_keys) noexcept {
  return keys_at(definition_size) + (with_keys ? count * room_for_key : 0);
}

std::uint64_t feed_places::behind_definition(std::uint64_t definition_size, bool with_keys) noexcept {
  return size_of(definition_size, with_keys) - definition_at - definition_size;
}

format::feed_place& feed_places::line(std::uint32_t number) const noexcept {
  return reinterpret_cast<format::feed_place*>(&space_->head_at(head_) + 1)[number];
}

std::byte* feed_places::key_of(std::uint32_t number) const noexcept {
  format::query_head& head = space_->head_at(head_);
  return reinterpret_cast<std::byte*>(&head) + keys_at(head.definition_size) + number * room_for_key;
}

std::uint32_t feed_places::crc_of(const format::feed_place& of, const std::byte* key) const noexcept {
  const format::query_head& head = space_->head_at(head_);
  std::uint32_t crc = space_->pools().codec().record_seed(space_->pools().segment_at(head_).generation, head_);
  crc = crc32c(crc32c(crc, head.id[0]), head.id[1]);
  crc = crc32c(crc, &of, offsetof(format::feed_place, crc));
  return of.key_size == 0 ? crc : crc32c(crc, key, of.key_size);
}

std::optional<feed_places::place> feed_places::intact(std::uint32_t number) const noexcept {
  place found{number, {}, {}};
  std::memcpy(&found.line, &line(number), sizeof found.line);
  if (found.line.sequence == 0 || found.line.key_size > key_size_max) return std::nullopt;
  const std::byte* key = key_of(number);
  if (found.line.key_size > 0) {
    const std::uint64_t end = space_->place_of(key) + found.line.key_size;
    if (space_->place_of(key) == null_link || end > space_->pools().segment_at(head_).end()) return std::nullopt;
    found.key = {reinterpret_cast<const char*>(key), found.line.key_size};
  }
  if (found.line.crc != crc_of(found.line, key)) return std::nullopt;
  return found;
}

std::optional<feed_places::place> feed_places::newest() const noexcept {
  const auto one = intact(0);
  const auto other = intact(1);
  if (!one || !other) return one ? one : other;
  return one->line.sequence > other->line.sequence ? one : other;
}

void feed_places::store(std::uint32_t number, std::uint64_t sequence, format::feed_place made,
                        std::string_view key) const noexcept {
  persistence& persist = space_->pools().persist();
  made.sequence = sequence;
  made.key_size = static_cast<std::uint32_t>(key.size());
  if (!key.empty()) {
    std::memcpy(key_of(number), key.data(), key.size());
    persist.flush(key_of(number), key.size());
  }
  made.crc = crc_of(made, key_of(number));
  std::memcpy(&line(number), &made, sizeof made);
  persist.flush(&line(number), sizeof made);
}

void feed_places::persist(const place& one) const {
  persistence& persist = space_->pools().persist();
  if (!one.key.empty()) persist.flush(one.key.data(), one.key.size());
  persist.persist(&line(one.number), sizeof(format::feed_place));
}

}  // namespace icecore
