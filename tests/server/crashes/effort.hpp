// How much of a test of crashes is run: so many of them, or for so long, as its environment asks.
//
//   effort asked("ICECORE_SERVER_KILLS", 100);          // 100 unless the variable says another number
//   for (std::uint64_t i = 0; asked.wants(i); ++i) ...  // with ICECORE_SERVER_SECONDS: while there is time, at least 5
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>

namespace icecore::service::crashes {

/// What a variable of the environment says.
[[nodiscard]] inline std::optional<std::uint64_t> asked_number(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  return std::strtoull(text, nullptr, 10);
}

/// Other ones with each seed: $ICECORE_SERVER_SEED.
[[nodiscard]] inline std::uint64_t asked_seed(std::uint64_t otherwise) {
  return asked_number("ICECORE_SERVER_SEED").value_or(otherwise);
}

class effort {
 public:
  explicit effort(std::uint64_t most) : most_(most) {}
  effort(const char* variable, std::uint64_t otherwise)
      : most_(asked_number(variable).value_or(otherwise)), seconds_(asked_number("ICECORE_SERVER_SECONDS")) {}

  /// Whether there is one more to be done after `done`.
  [[nodiscard]] bool wants(std::uint64_t done) const {
    if (!seconds_) return done < most_;
    return done < 5 || std::chrono::steady_clock::now() - begun_ < std::chrono::seconds(*seconds_);
  }

 private:
  std::uint64_t most_;
  std::optional<std::uint64_t> seconds_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

/// A folder grows with each life that it had: so many, then another one.
inline constexpr std::uint64_t kills_of_a_folder = 1000;

}  // namespace icecore::service::crashes
