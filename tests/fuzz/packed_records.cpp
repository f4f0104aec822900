// Packed records of any bytes, compressed or not: they are refused as damaged, or read. What verify() has nothing
// against can be read in all ways. If nobody has forged its checksums, each record is found, and compressed it says the
// same.
//
//   OFFSET SIZE MEANING
//        0    1 1: all checksums are made right (seal_extent.hpp); 0: it is as it is
//        1      the extent
#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "icecore/error.hpp"
#include "stratum/extent.hpp"
#include "stratum/frames/frame_cache.hpp"
#include "stratum/frames/frame_writer.hpp"
#include "stratum/strata.hpp"
#include "support/fuzz_target.hpp"
#include "support/seal_extent.hpp"

namespace icecore::testing {
namespace {

using stratum::extent;
using stratum::packed_record;

constexpr std::uint32_t seed = 77;
constexpr std::uint8_t is_sealed = 1;

void promise(bool kept, const char* what) {
  if (!kept) throw std::logic_error(what);
}

/// Bytes that begin at a multiple of 64, as segments do, and end where the sanitizer sees a read behind them.
class segment_bytes {
 public:
  explicit segment_bytes(std::size_t size)
      : size_(size), bytes_(static_cast<std::byte*>(::operator new(std::max<std::size_t>(size, 1), alignment))) {}
  ~segment_bytes() { ::operator delete(bytes_, alignment); }
  segment_bytes(const segment_bytes&) = delete;
  segment_bytes& operator=(const segment_bytes&) = delete;
  [[nodiscard]] std::span<std::byte> get() const noexcept { return {bytes_, size_}; }

 private:
  static constexpr std::align_val_t alignment{64};
  std::size_t size_;
  std::byte* bytes_;
};

[[nodiscard]] extent opened(std::span<const std::byte> media) {
  constexpr std::uint64_t cache_bytes = std::uint64_t{1} << 20;
  return extent::open(media, {.file = "fuzzed", .offset = 4096, .seed = seed},
                      std::make_shared<stratum::frame_cache>(cache_bytes));
}

/// Whether it ends without an error; the only one that there may be is errc::damaged, which says where.
template <class Read>
[[nodiscard]] bool is_read(const Read& read) {
  try {
    read();
    return true;
  } catch (const error& told) {
    promise(told.code() == errc::damaged, told.what());
    promise(std::string_view(told.what()).find("fuzzed: damaged at byte") != std::string_view::npos, told.what());
    return false;
  }
}

using told = std::tuple<std::string, version, bool, std::string>;  // key, version, removal, value
[[nodiscard]] told told_of(std::string_view key, const packed_record& r) {
  return {std::string(key), r.stamped, r.is_removal(), std::string(r.value)};
}

/// All records, by walking from key to key.
[[nodiscard]] std::vector<told> records_of(const extent& e) {
  std::vector<told> all;
  std::vector<std::string> keys;
  e.for_each_at(version_max, "", [&](std::string_view key, const packed_record&) {
    keys.emplace_back(key);
    return true;
  });
  for (const std::string& key : keys) {
    e.for_each_of(key, version_max, [&](const packed_record& r) {
      all.push_back(told_of(key, r));
      return true;
    });
  }
  return all;
}

/// A find of one and a find of many say the same; each record is found at its version, unless its block says what no
/// checksum can tell from the truth.
void find_each(std::span<const std::byte> media, const std::vector<told>& all, bool forged) {
  if (all.empty()) return;
  std::vector<stratum::packed_extent> one_extent;
  one_extent.push_back(
      {.stratum = 0, .first = std::get<version>(all.front()), .bytes = std::make_unique<const extent>(opened(media))});
  const stratum::strata packed(std::move(one_extent));
  const extent& e = packed.extent_at(0);
  std::vector<std::string_view> keys;
  std::vector<version> versions;
  for (const auto& [key, stamped, removal, value] : all) {
    keys.emplace_back(key);
    versions.push_back(stamped);
  }
  std::vector<std::optional<packed_record>> many(all.size());
  packed.find_many(
      keys, versions.data(), 1, [](std::size_t) { return true; },
      [&](std::size_t i, const std::optional<packed_record>& r) { many[i] = r; });
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto one = e.find(keys[i], versions[i]);
    promise(forged || (one && told_of(keys[i], *one) == all[i]), "a record is not found at its version");
    promise(one.has_value() == many[i].has_value() && (!one || told_of(keys[i], *one) == told_of(keys[i], *many[i])),
            "a find of many finds something else");
  }
}

/// Reads it in all ways; its records if verify() has nothing against it.
[[nodiscard]] std::optional<std::vector<told>> read(std::span<const std::byte> media, bool forged) {
  std::optional<std::vector<told>> all;
  static_cast<void>(is_read([&] {
    bool sound = true;
    {
      const extent e = opened(media);
      e.verify([&](std::string_view what, std::uint64_t) {
        promise(!what.empty(), "damage without a word");
        sound = false;
      });
    }
    const extent e = opened(media);
    std::vector<told> records;
    const bool walked = is_read([&] { records = records_of(e); });
    const bool found = is_read([&] {
      static_cast<void>(e.find("", version_max));
      static_cast<void>(e.find("key-5", 3));
      static_cast<void>(e.find(std::string(300, '\xff'), 1));
      if (sound && walked) find_each(media, records, forged);
    });
    if (!sound) return;
    promise(walked && found, "verify() finds nothing, but reading meets damage");
    promise(forged || records.size() == e.header().records, "a walk does not come to all records");
    all = std::move(records);
  }));
  return all;
}

}  // namespace
}  // namespace icecore::testing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace icecore::testing;
  if (size == 0) return 0;
  must_hold([&] {
    const segment_bytes media(size - 1);
    std::memcpy(media.get().data(), data + 1, size - 1);
    const bool forged = data[0] % 2 == is_sealed;
    if (forged) seal_extent(media.get(), seed);
    const auto all = read(media.get(), forged);
    if (!all || opened(media.get()).is_compressed()) return;
    std::vector<std::byte> frames;
    icecore::stratum::frame_writer(1).write(media.get(), seed, frames);
    const segment_bytes compressed(frames.size());
    std::ranges::copy(frames, compressed.get().begin());
    promise(read(compressed.get(), forged) == all, "compressed it says something else");
  });
  return 0;
}
