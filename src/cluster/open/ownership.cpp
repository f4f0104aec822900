// Which rank holds a key.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "icecore/cluster.hpp"

namespace icecore {
namespace {

/// MurmurHash64A (Appleby, public domain). Part of a cluster's format on disk: it never changes.
std::uint64_t hash_of(std::string_view key) noexcept {
  constexpr std::uint64_t multiplier = 0xc6a4a7935bd1e995;
  constexpr int shift = 47;
  std::uint64_t hash = key.size() * multiplier;
  while (key.size() >= sizeof(std::uint64_t)) {
    std::uint64_t word;
    std::memcpy(&word, key.data(), sizeof word);
    word *= multiplier;
    word ^= word >> shift;
    word *= multiplier;
    hash = (hash ^ word) * multiplier;
    key.remove_prefix(sizeof word);
  }
  if (!key.empty()) {
    std::uint64_t word = 0;
    std::memcpy(&word, key.data(), key.size());
    hash = (hash ^ word) * multiplier;
  }
  hash = (hash ^ (hash >> shift)) * multiplier;
  return hash ^ (hash >> shift);
}

std::string hexadecimal(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

}  // namespace

ownership ownership::by_hash() { return {}; }

ownership ownership::by_function(std::string name, function owner) {
  ownership made;
  made.rule_ = rule::function;
  made.name_ = std::move(name);
  made.owner_ = std::move(owner);
  return made;
}

ownership ownership::by_ranges(std::vector<std::string> splits) {
  ownership made;
  made.rule_ = rule::ranges;
  made.splits_ = std::move(splits);
  return made;
}

int ownership::owner_of(std::string_view key, int ranks) const {
  switch (rule_) {
    case rule::function: {
      const int owner = owner_(key, ranks);
      if (owner >= 0 && owner < ranks) return owner;
      throw error(errc::invalid_argument,
                  fmt::format("the ownership function '{}' returned rank {} for a key, but the ranks are 0 to {}",
                              name_, owner, ranks - 1));
    }
    case rule::ranges:
      return static_cast<int>(std::upper_bound(splits_.begin(), splits_.end(), key) - splits_.begin());
    default:
      return static_cast<int>(hash_of(key) % static_cast<std::uint64_t>(ranks));
  }
}

void ownership::check(int ranks) const {
  if (rule_ == rule::function) {
    if (!owner_)
      throw error(errc::invalid_argument, "ownership by a function needs a function, but the given one is empty");
    const bool one_word = !name_.empty() && std::none_of(name_.begin(), name_.end(), [](char c) {
      return static_cast<unsigned char>(c) <= ' ' || c == '\x7f';
    });
    if (!one_word) throw error(errc::invalid_argument, "an ownership function's name must be one word, without spaces");
  }
  if (rule_ != rule::ranges) return;
  if (splits_.size() + 1 != static_cast<std::size_t>(ranks)) {
    throw error(errc::invalid_argument,
                fmt::format("{} splits for {} ranks: ownership by ranges needs one split fewer than there are ranks",
                            splits_.size(), ranks));
  }
  if (std::adjacent_find(splits_.begin(), splits_.end(), std::greater_equal<>()) != splits_.end()) {
    throw error(errc::invalid_argument, "the splits of ownership by ranges must be in ascending order");
  }
}

std::string ownership::description() const {
  if (rule_ == rule::hash) return "hash";
  if (rule_ == rule::function) return "function " + name_;
  std::string text = "ranges";
  for (const std::string& split : splits_) text.append(1, ' ').append(hexadecimal(split)).append(1, '.');
  return text;
}

}  // namespace icecore
