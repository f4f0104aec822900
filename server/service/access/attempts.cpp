#include "service/access/attempts.hpp"

#include <fmt/format.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "icecore/error.hpp"
#include "service/access/password.hpp"

namespace icecore::service {

namespace {
constexpr std::size_t bucket_count = 4096;
}

attempts::attempts(unsigned burst, std::chrono::milliseconds refill)
    : burst_(burst), refill_(refill), buckets_(bucket_count) {
  fill_random(key_.data(), key_.size());
}

attempts::bucket& attempts::of(std::string_view name) {
  std::string keyed(reinterpret_cast<const char*>(key_.data()), key_.size());
  keyed.append(name);
  std::array<unsigned char, SHA256_DIGEST_LENGTH> hash{};
  SHA256(reinterpret_cast<const unsigned char*>(keyed.data()), keyed.size(), hash.data());
  std::uint64_t first = 0;
  std::memcpy(&first, hash.data(), sizeof first);
  return buckets_[first % bucket_count];
}

void attempts::require(const bucket& b, time now) const {
  const auto filled_after = b.full_at - now;
  if (filled_after <= refill_ * (burst_ - 1)) return;
  const auto wait = std::chrono::ceil<std::chrono::seconds>(filled_after - refill_ * (burst_ - 1));
  throw error(errc::limit_reached,
              fmt::format("too many wrong passwords for this name; try again in {} s", wait.count()));
}

void attempts::require(std::string_view name, time now) {
  const std::lock_guard lock(mutex_);
  require(of(name), now);
}

void attempts::take(std::string_view name, time now) {
  const std::lock_guard lock(mutex_);
  bucket& b = of(name);
  require(b, now);
  b.full_at = std::max(b.full_at, now) + refill_;
}

void attempts::give_back(std::string_view name) {
  const std::lock_guard lock(mutex_);
  of(name).full_at -= refill_;
}

}  // namespace icecore::service
