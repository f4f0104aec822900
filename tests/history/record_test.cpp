#include "history/record.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <new>
#include <string>
#include <vector>

namespace icecore {
namespace {

constexpr std::uint32_t seed = 77;

/// Zeroed, line-aligned memory with a record in it.
class placed_record {
 public:
  placed_record(const record_layout& layout, link batch, const std::string& key, const std::string& value)
      : memory_(layout.size() / 64 + 2), it_(reinterpret_cast<std::byte*>(memory_.data())) {
    it_.fill(layout, batch, key, value);
    it_.seal(seed);
  }
  [[nodiscard]] record& operator*() noexcept { return it_; }
  [[nodiscard]] record* operator->() noexcept { return &it_; }

 private:
  struct alignas(64) line {
    std::byte bytes[64]{};
  };
  std::vector<line> memory_;
  record it_;
};

TEST(record, of_eight_byte_keys_and_values_fits_a_cache_line) {
  EXPECT_EQ(record_layout::of_entry(8, 8, false).size(), 56U);
  EXPECT_EQ(record_layout::of_insert(8, false).size(), 56U);
  EXPECT_EQ(record_layout::of_remove(false).size(), 48U);
}

RC_GTEST_PROP(record, spans_as_few_lines_as_its_size_allows, (std::uint16_t key_size, std::uint16_t value_size)) {
  const std::uint64_t position = 8 * *rc::gen::inRange<std::uint64_t>(1, 10'000);
  const auto layout = record_layout::of_entry(key_size, value_size % format::large_value_size, false);
  const std::uint64_t start = layout.place(position);
  RC_ASSERT(start >= position && start - position < 64 && start % 8 == 0);
  const std::uint64_t lines = (start + layout.size() - 1) / 64 - start / 64 + 1;
  RC_ASSERT(lines == (layout.size() + 63) / 64);
}

RC_GTEST_PROP(record, starts_a_large_value_at_a_line, (std::uint16_t key_size, std::uint16_t more, bool batched)) {
  const std::uint64_t position = 8 * *rc::gen::inRange<std::uint64_t>(1, 10'000);
  const auto layout = record_layout::of_entry(key_size, format::large_value_size + more, batched);
  const std::uint64_t start = layout.place(position);
  RC_ASSERT(start >= position && start - position < 64 && start % 8 == 0);
  RC_ASSERT((start + layout.value_offset()) % 64 == 0);
}

RC_GTEST_PROP(record, gives_back_what_was_put_in, (const std::string& key, const std::string& value, bool batched)) {
  const auto layout = record_layout::of_entry(key.size(), value.size(), batched);
  placed_record r(layout, batched ? 4096 : null_link, key, value);
  RC_ASSERT(r->layout().plausible());
  RC_ASSERT(r->key() == key);
  RC_ASSERT(r->value() == value);
  RC_ASSERT(r->intact(seed));
  RC_ASSERT(!r->intact(seed + 1));
  if (batched) RC_ASSERT(r->batch() == 4096U);
}

/// Whether the record passes its checks, in the order of the record scan: first whether it can be a record at all.
bool passes(const record& r, std::uint64_t room) {
  const auto layout = r.layout();
  return layout.plausible() && layout.size() <= room && r.intact(seed) && r.value_intact();
}

void expect_every_bit_covered(placed_record& r, std::uint64_t size, std::uint64_t not_covered_from,
                              std::uint64_t not_covered_to) {
  ASSERT_TRUE(passes(*r, size));
  for (std::uint64_t bit = 0; bit < 8 * size; ++bit) {
    const std::uint64_t byte = bit / 8;
    const auto mask = std::byte{static_cast<unsigned char>(1U << (bit % 8))};
    const bool stamp = byte >= 8 && byte < 16;
    const bool exempt = stamp || (byte >= not_covered_from && byte < not_covered_to);
    r->address()[byte] ^= mask;
    EXPECT_EQ(passes(*r, size), exempt) << "bit " << bit % 8 << " of byte " << byte;
    r->address()[byte] ^= mask;
  }
}

TEST(record, every_bit_but_stamp_head_and_second_version_is_covered_by_the_checksum) {
  const auto entry = record_layout::of_entry(5, 11, true);
  placed_record e(entry, 4096, "apple", "value value");
  expect_every_bit_covered(e, entry.size(), 24, 40);

  const auto update = record_layout::of_insert(11, false);
  placed_record u(update, null_link, "", "value value");
  expect_every_bit_covered(u, update.size(), 0, 0);

  const auto tag = record_layout::of_tag(4, 6);
  placed_record t(tag, null_link, "name", "a note");
  expect_every_bit_covered(t, tag.size(), 0, 0);
}

TEST(record, every_bit_of_a_large_value_is_covered_by_its_own_checksum) {
  const std::string value(format::large_value_size, 'v');
  const auto layout = record_layout::of_insert(value.size(), false);
  placed_record r(layout, null_link, "", value);
  expect_every_bit_covered(r, layout.size(), 0, 0);
}

}  // namespace
}  // namespace icecore
