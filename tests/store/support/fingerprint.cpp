#include "support/fingerprint.hpp"

#include <string_view>

namespace icecore::testing {

std::uint64_t fingerprint(const snapshot& of) {
  std::uint64_t hash = 1'469'598'103'934'665'603U;
  const auto mix = [&hash](std::string_view bytes) {
    for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 1'099'511'628'211U;
    hash = (hash ^ bytes.size()) * 1'099'511'628'211U;
  };
  for (const auto& [key, value] : of.range()) {
    mix(key);
    mix(value);
  }
  return hash;
}

}  // namespace icecore::testing
