#include "service/access/password.hpp"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <vector>

#include "icecore/error.hpp"

namespace icecore::service {
namespace {

constexpr std::size_t salt_bytes = 16;
constexpr std::size_t hash_bytes = 32;

struct parameters {
  unsigned cost_log2 = 15;
  unsigned block_size = 8;
  unsigned parallel = 1;
  std::string salt{};
};

std::array<unsigned char, hash_bytes> scrypt(std::string_view password, const parameters& how) {
  std::array<unsigned char, hash_bytes> hash{};
  const std::uint64_t cost = std::uint64_t{1} << how.cost_log2;
  const std::uint64_t memory = 128 * cost * how.block_size;
  const std::uint64_t memory_max = memory + (std::uint64_t{4} << 20);
  const auto* salt = reinterpret_cast<const unsigned char*>(how.salt.data());
  if (EVP_PBE_scrypt(password.data(), password.size(), salt, how.salt.size(), cost, how.block_size, how.parallel,
                     memory_max, hash.data(), hash.size()) != 1) {
    throw error(errc::io, "OpenSSL could not compute a password's hash (scrypt); is there memory left?");
  }
  return hash;
}

std::optional<unsigned> number(std::string_view text, unsigned most) {
  unsigned value = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (wrong != std::errc{} || end != text.data() + text.size() || value == 0 || value > most) return std::nullopt;
  return value;
}

// The limits keep a damaged record from taking all memory or all time.
std::optional<std::pair<parameters, std::string>> parse(const std::string& kept) {
  std::vector<std::string_view> parts;
  for (std::string_view rest = kept;;) {
    const std::size_t end = rest.find('$');
    parts.push_back(rest.substr(0, end));
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  if (parts.size() != 6 || parts[0] != "scrypt") return std::nullopt;
  const auto cost = number(parts[1], 18);
  const auto block = number(parts[2], 16);
  const auto parallel = number(parts[3], 16);
  parameters how;
  std::string hash;
  if (!cost || !block || !parallel || !from_base64url(parts[4], how.salt) || !from_base64url(parts[5], hash) ||
      how.salt.empty() || hash.size() != hash_bytes) {
    return std::nullopt;
  }
  how.cost_log2 = *cost;
  how.block_size = *block;
  how.parallel = *parallel;
  return std::pair(std::move(how), std::move(hash));
}

constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

}  // namespace

void fill_random(unsigned char* into, std::size_t size) {
  if (RAND_bytes(into, static_cast<int>(size)) != 1) {
    throw error(errc::io, "OpenSSL has no random numbers; without them there are no passwords and no tokens");
  }
}

std::string to_base64url(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() * 4 + 2) / 3);
  std::uint32_t held = 0;
  unsigned bits = 0;
  for (const char c : bytes) {
    held = (held << 8U) | static_cast<unsigned char>(c);
    for (bits += 8; bits >= 6;) {
      bits -= 6;
      text.push_back(letters[(held >> bits) & 63U]);
    }
  }
  if (bits > 0) text.push_back(letters[(held << (6 - bits)) & 63U]);
  return text;
}

bool from_base64url(std::string_view text, std::string& bytes) {
  bytes.clear();
  bytes.reserve(text.size() * 3 / 4);
  std::uint32_t held = 0;
  unsigned bits = 0;
  for (const char c : text) {
    const std::size_t digit = letters.find(c);
    if (digit == std::string_view::npos) return false;
    held = (held << 6U) | static_cast<std::uint32_t>(digit);
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      bytes.push_back(static_cast<char>((held >> bits) & 255U));
    }
  }
  return bits < 6 && (held & ((1U << bits) - 1U)) == 0;  // what is left over are zeros, and less than a digit
}

namespace {

parameters with_new_salt() {
  parameters how;
  how.salt.resize(salt_bytes);
  fill_random(reinterpret_cast<unsigned char*>(how.salt.data()), how.salt.size());
  return how;
}

std::string kept_form(const parameters& how, const std::array<unsigned char, hash_bytes>& hash) {
  return fmt::format("scrypt${}${}${}${}${}", how.cost_log2, how.block_size, how.parallel, to_base64url(how.salt),
                     to_base64url({reinterpret_cast<const char*>(hash.data()), hash.size()}));
}

}  // namespace

std::string hash_password(std::string_view password) {
  const parameters how = with_new_salt();
  return kept_form(how, scrypt(password, how));
}

std::string hash_of_nobody() {
  std::array<unsigned char, hash_bytes> hash{};
  fill_random(hash.data(), hash.size());
  return kept_form(with_new_salt(), hash);
}

bool matches(std::string_view password, const std::string& kept) {
  const auto parsed = parse(kept);
  if (!parsed) check_hash(kept);
  const auto hash = scrypt(password, parsed->first);
  return CRYPTO_memcmp(hash.data(), parsed->second.data(), hash.size()) == 0;
}

void check_hash(const std::string& kept) {
  if (!parse(kept)) {
    throw error(errc::damaged, "a kept password is not of the form scrypt$COST$BLOCK$PARALLEL$SALT$HASH");
  }
}

password_gate::pass password_gate::enter() {
  std::unique_lock lock(mutex_);
  if (running_ >= running_max_) {
    if (waiting_ >= waiting_max_) {
      throw error(errc::limit_reached,
                  fmt::format("{} log-ins wait already, which is the limit; try again later", waiting_max_));
    }
    ++waiting_;
    const bool mine = left_.wait_for(lock, patience_, [this] { return running_ < running_max_; });
    --waiting_;
    if (!mine) {
      throw error(errc::limit_reached,
                  fmt::format("{} log-ins run at once, which is the limit, and none ended in {} ms; try again later",
                              running_max_, patience_.count()));
    }
  }
  ++running_;
  return pass(*this);
}

unsigned password_gate::waiting() {
  const std::lock_guard lock(mutex_);
  return waiting_;
}

void password_gate::leave() noexcept {
  {
    const std::lock_guard lock(mutex_);
    --running_;
  }
  left_.notify_one();
}

}  // namespace icecore::service
