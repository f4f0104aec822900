#include "stratum/block/values_elsewhere.hpp"

#include <algorithm>
#include <utility>

#include "base/checksum.hpp"
#include "base/raise.hpp"

namespace icecore::stratum {

using format::value_reference;

values_elsewhere::values_elsewhere(std::vector<one> all) : all_(std::move(all)), checked_(all_.size()) {
  std::ranges::sort(all_, {}, [](const one& each) { return each.where.at; });
  for (const one& each : all_) bytes_ += each.where.size;
}

std::optional<std::size_t> values_elsewhere::find(const value_reference& where) const noexcept {
  const auto found = std::ranges::lower_bound(all_, where.at, {}, [](const one& each) { return each.where.at; });
  if (found == all_.end() || found->where.at != where.at || found->where.size != where.size) return std::nullopt;
  return static_cast<std::size_t>(found - all_.begin());
}

const char* values_elsewhere::fails(std::size_t i) const noexcept {
  const one& value = all_[i];
  if (value.bytes == nullptr) return "its file is missing";
  return crc32c(0, value.bytes, value.where.size) == value.crc ? nullptr : "checksum mismatch of the value";
}

std::string_view values_elsewhere::at(const value_reference& where) const {
  const auto i = find(where);
  if (!i) {
    raise(errc::damaged, "packed records refer to a value of {} bytes at {:#x}, where the manifest names none",
          where.size, where.at);
  }
  const one& value = all_[*i];
  if (value.bytes == nullptr)
    raise(errc::missing_file, "{}: the file is missing, which holds packed values", value.file);
  const std::string_view bytes(reinterpret_cast<const char*>(value.bytes), value.where.size);
  // relaxed: no data depends on the bit. The bytes were there before anything led to them, and do not change
  if (checked_[*i].load(std::memory_order_relaxed)) return bytes;
  if (const char* what = fails(*i)) {
    raise(errc::damaged, "{}: damaged at byte {} (packed value): {}", value.file, value.offset, what);
  }
  checked_[*i].store(true, std::memory_order_relaxed);
  return bytes;
}

}  // namespace icecore::stratum
