#include "environment.hpp"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>

namespace papyruskv {
namespace {

using icecore::errc;
using icecore::error;

std::string_view variable(const char* name) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::string_view(text) : std::string_view();
}

/// The value of the variable, or `otherwise` if it is not set or empty.
long long number(const char* name, long long otherwise, long long least, long long greatest) {
  const std::string_view text = variable(name);
  if (text.empty()) return otherwise;
  long long value = 0;
  const auto read = std::from_chars(text.begin(), text.end(), value);
  if (read.ec == std::errc() && read.ptr == text.end() && value >= least && value <= greatest) return value;
  throw error(errc::invalid_argument, std::string(name) + " is '" + std::string(text) + "'; it must be a number from " +
                                          std::to_string(least) + " to " + std::to_string(greatest));
}

constexpr long long bytes_max = 1LL << 40;

int group_size() {
  constexpr long long each_rank_its_own = -1;
  const long long told = number("PAPYRUSKV_GROUP_SIZE", 0, each_rank_its_own, std::numeric_limits<int>::max());
  return told == each_rank_its_own ? 1 : static_cast<int>(told);
}

}  // namespace

environment read_environment() {
  environment read;
  read.group_size = group_size();
  constexpr long long sequential = 1;
  constexpr long long relaxed = 2;
  read.consistency = number("PAPYRUSKV_CONSISTENCY", relaxed, sequential, relaxed) == sequential
                         ? icecore::consistency::sequential
                         : icecore::consistency::relaxed;
  constexpr long long least_buffer = 256;
  if (!variable("PAPYRUSKV_REMOTE_BUFFER_SIZE").empty()) {
    read.staging_bytes = static_cast<std::size_t>(number("PAPYRUSKV_REMOTE_BUFFER_SIZE", 0, least_buffer, bytes_max));
  }
  constexpr long long cache_default = 128LL << 20;
  const bool caches = number("PAPYRUSKV_CACHE_REMOTE", 1, 0, std::numeric_limits<int>::max()) != 0;
  const long long cache_size = number("PAPYRUSKV_CACHE_SIZE", cache_default, 0, bytes_max);
  read.cache_bytes = caches ? static_cast<std::size_t>(cache_size) : 0;
  const auto asked = [](const char* name, bool otherwise) {
    return number(name, otherwise ? 1 : 0, 0, std::numeric_limits<int>::max()) != 0;
  };
  read.force_redistribute = asked("PAPYRUSKV_FORCE_REDISTRIBUTE", false);
  // as in PapyrusKV: a program that runs again on other ranks finds no database of an earlier run
  read.destroy_repository = asked("PAPYRUSKV_DESTROY_REPOSITORY", true);
  return read;
}

}  // namespace papyruskv
