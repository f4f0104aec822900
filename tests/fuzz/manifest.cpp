// A manifest of any bytes, and any slot that leads to it, with right checksums, in a store that was packed twice: the
// store is refused with a documented error, or read in all ways, verified, written on and packed once more. None of
// that ends in a crash, goes on for ever, or takes memory without bounds; unchanged, the store shows what it held.
//
//   OFFSET SIZE MEANING
//        0    1 bit 0: the checksums are made right; 1: the slot's counts are those of the bytes that follow; 2: there
//        is
//               no second copy
//        1   64 what the slot differs by from the true one (exclusive or)
//       65      likewise the manifest; what is beyond its end is new
#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/checksum.hpp"
#include "icecore/icecore.hpp"
#include "pool/manifest/manifest.hpp"
#include "store/engine.hpp"
#include "support/fuzz_target.hpp"
#include "support/model.hpp"
#include "support/reading.hpp"
#include "support/simulated_pool.hpp"

namespace icecore::testing {
namespace {

using format::manifest_slot;

constexpr std::uint8_t is_sealed = 1;
constexpr std::uint8_t counts_follow = 2;
constexpr std::uint8_t has_no_copy = 4;

[[nodiscard]] options opening_for(access how) {
  options opening;
  opening.access = how;
  opening.huge_pages = false;
  opening.recovery_threads = 1;
  opening.grow_in_background = false;
  opening.crash = crash_kind::machine;  // where it would be asked
  return opening;
}

/// A store of two strata, with expired versions and young records: as it is in its file, and what it shows.
class packed_store {
 public:
  explicit packed_store(const simulated_pool& pool) {
    const options opening = opening_for(access::read_write);
    for (int round = 0; round < 2; ++round) {
      {
        store s(pool.path(), opening);
        if (round == 0) s.set_retention({.tagged = true, .newest = 3});
        if (round == 0) s.insert("large", std::string(40'000, 'l'));  // it stays where it is
        for (int i = 0; i < (round == 0 ? 60 : 2); ++i) {
          s.insert("key-" + std::to_string(i % 20), "value " + std::to_string(i));
          s.tag(i % 8 == 0 ? tag_options{.name = "tag-" + std::to_string(round) + "-" + std::to_string(i)}
                           : tag_options{});
        }
      }
      static_cast<void>(compact(pool.path(), opening, {.threads = 1, .on_progress = {}}));
    }
    store s(pool.path(), opening);
    s.insert("young", "value");
    s.tag();
    const pool_set& pools = s.core().the_pool();
    packing_ = s.core().packing();
    pool_seed_ = pools.codec().pool_seed();
    segment_ = pools.segment_at(packing_.segment);
    shown_ = dump_of(s);
    s.close();
    file_.assign(pool.bytes().begin(), pool.bytes().end());
  }

  [[nodiscard]] const std::string& shown() const noexcept { return shown_; }

  [[nodiscard]] std::vector<std::byte> with(std::uint8_t flags, std::span<const std::uint8_t> changes) const {
    std::vector<std::byte> file = file_;
    manifest_slot slot;
    std::byte* const slot_at =
        file.data() + format::manifest_anchor_offset + packing_.number % 2 * sizeof(manifest_slot);
    std::memcpy(&slot, slot_at, sizeof slot);
    std::byte* const begin = file.data() + link_offset(segment_.first_record());
    const std::size_t room = segment_.size - sizeof(format::segment_header);
    if ((flags & has_no_copy) != 0) std::memset(begin + slot.size, 0, room - slot.size);
    const std::size_t in_slot = std::min(changes.size(), sizeof slot);
    for (std::size_t i = 0; i < in_slot; ++i) reinterpret_cast<std::uint8_t*>(&slot)[i] ^= changes[i];
    const std::size_t in_bytes = std::min(changes.size() - in_slot, room);
    for (std::size_t i = 0; i < in_bytes; ++i) begin[i] ^= static_cast<std::byte>(changes[in_slot + i]);
    if ((flags & counts_follow) != 0) {
      slot.expired %= 8;
      slot.extents = std::max<std::size_t>(in_bytes, packing_.extents.size() * sizeof(format::named_extent)) /
                     sizeof(format::named_extent);
      slot.values %= 4;
      slot.size = slot.extents * sizeof(format::named_extent) + slot.expired * sizeof(version_range) +
                  slot.values * sizeof(format::named_value);
    }
    if ((flags & is_sealed) != 0) seal(slot, begin, room);
    std::memcpy(slot_at, &slot, sizeof slot);
    return file;
  }

 private:
  void seal(manifest_slot& slot, const std::byte* bytes, std::size_t room) const {
    const std::size_t size = std::min<std::uint64_t>(slot.size, room);
    slot.bytes_crc = crc32c(crc32c(pool_seed_, std::uint64_t{slot.number}), bytes, size);
    slot.crc = 0;
    const std::uint32_t seed = crc32c(crc32c(pool_seed_, format::manifest_anchor_offset), std::uint64_t{slot.number});
    slot.crc = crc32c(seed, &slot, sizeof slot);
  }

  std::vector<std::byte> file_;
  manifest packing_;
  segment segment_{};
  std::uint32_t pool_seed_ = 0;
  std::string shown_;
};

/// Whether it ends without an error; those that there may be are documented, and say where.
template <class Do>
bool goes_well(const Do& what_is_done, const char* name) {
  try {
    what_is_done();
    return true;
  } catch (const error& failure) {
    const auto code = static_cast<errc>(failure.code().value());
    const bool is_refusal = code == errc::damaged || code == errc::missing_file || code == errc::truncated ||
                            code == errc::version_expired || code == errc::unsupported_format;
    promise(is_refusal && !failure.message().empty(), [&] { return std::string(name) + ": " + failure.message(); });
    return false;
  }
}

void run(const simulated_pool& pool, const packed_store& made, std::uint8_t flags,
         std::span<const std::uint8_t> changes) {
  pool.write(made.with(flags, changes));
  const bool is_unchanged =
      std::ranges::all_of(changes, [](std::uint8_t b) { return b == 0; }) && (flags & counts_follow) == 0;
  const bool is_read = goes_well(
      [&] {
        const store s(pool.path(), opening_for(access::read_only));
        static_cast<void>(goes_well([&] { static_cast<void>(s.verify()); }, "verify()"));
        if (is_unchanged) promise(dump_of(s) == made.shown(), [] { return std::string("it shows something else"); });
        static_cast<void>(goes_well([&] { static_cast<void>(dump_of(s)); }, "a dump"));
        for (const tag_info& t : s.tags()) {
          static_cast<void>(goes_well([&] { static_cast<void>(s.find("key-3", t.version)); }, "a find"));
        }
      },
      "opening for reading");
  promise(is_read || !is_unchanged, [] { return std::string("an unchanged store is refused"); });
  static_cast<void>(goes_well([&] { static_cast<void>(verify_file(pool.path())); }, "verify_file()"));
  static_cast<void>(goes_well(
      [&] {
        {
          store s(pool.path(), opening_for(access::read_write));
          s.insert("key-1", "written on");
          s.tag();
          promise(s.find("key-1") == "written on", [] { return std::string("what was written is not there"); });
        }
        static_cast<void>(
            compact(pool.path(), opening_for(access::read_write), {.whole = true, .threads = 1, .on_progress = {}}));
        const store s(pool.path(), opening_for(access::read_only));
        promise(s.find("key-1") == "written on", [] { return std::string("packed, it is not there any more"); });
      },
      "writing and packing"));
}

}  // namespace
}  // namespace icecore::testing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace icecore::testing;
  static const simulated_pool pool(0);
  static const packed_store made(pool);
  if (size == 0) return 0;
  must_hold([&] { run(pool, made, data[0], {data + 1, size - 1}); });
  return 0;
}
