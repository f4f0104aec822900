// What every fuzz target is: one function of bytes, called by libFuzzer, or by replay.cpp with the kept inputs.
//
// It returns when the bytes were handled as documented, errors included, and aborts with a message where a promise was
// broken. libFuzzer keeps the input of an execution that aborts, lasts too long or takes too much memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

/// libFuzzer's own mutation, for mutators that do more.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t size_max);

namespace icecore::testing {

/// Set by whoever has the time to look at each input as closely as can be (replay.cpp, run --closely).
inline bool looks_closely = std::getenv("ICECORE_FUZZ_CLOSELY") != nullptr;

/// Whether this input goes all the ways there are: one in sixty-four does, always the same ones; the others only those
/// that find most.
[[nodiscard]] inline bool look_closely_at(const std::uint8_t* data, std::size_t size) noexcept {
  std::uint32_t sum = 2'166'136'261U;  // FNV-1a
  for (std::size_t i = 0; i < size; ++i) sum = (sum ^ data[i]) * 16'777'619U;
  return looks_closely || (sum >> 26U) == 0;
}

/// Runs one execution; what it throws is a broken promise.
template <class Execution>
void must_hold(const Execution& run) {
  try {
    run();
  } catch (const std::exception& broken) {
    std::fprintf(stderr, "broken promise: %s\n", broken.what());
    std::abort();
  }
}

}  // namespace icecore::testing
