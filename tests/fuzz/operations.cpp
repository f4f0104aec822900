// Sequences of calls, on a store and on a std::map with a past in lockstep (store/support/script.hpp).
//
// The first byte chooses the durability and the index and whether all is compared at the end; each 6 bytes after it are
// a step: what, key, other, size, and two of a seed.
#include <array>

#include "support/fuzz_target.hpp"
#include "support/memory_file.hpp"
#include "support/script.hpp"

namespace icecore::testing {
namespace {

constexpr std::size_t step_bytes = 6;
constexpr std::size_t steps_max = 32;

/// What the first byte of a step stands for: writes mostly, and seldom what reads everything or opens the store anew.
[[nodiscard]] step::kind kind_of(std::uint8_t byte) {
  using enum step::kind;
  constexpr std::uint8_t writes_from = 4 * kinds_of_step;
  static constexpr std::array writes = {insert, insert, insert, remove, batch, tag, label, insert};
  if (byte >= writes_from) return writes[byte % writes.size()];
  const auto kind = static_cast<step::kind>(byte % kinds_of_step);
  const bool costly = kind == latest || kind == misuse || kind >= compare;
  return costly && kind != keep && kind != look_back && byte >= kinds_of_step ? find : kind;
}

[[nodiscard]] step step_of(const std::uint8_t* bytes) {
  step one{};
  one.what = kind_of(bytes[0]);
  one.key = bytes[1];
  one.other = bytes[2];
  one.size = bytes[3];
  one.seed = bytes[4] | unsigned{bytes[5]} << 8;
  // two bits of this are a number of threads: no more than the one there is
  if (one.what == step::kind::columns) one.other &= ~2U;
  return one;
}

void execute(const memory_file& pool, const std::uint8_t* data, std::size_t size) {
  const std::uint8_t how = data[0];
  script steps;
  for (std::size_t at = 1; at + step_bytes <= size && steps.size() < steps_max; at += step_bytes) {
    steps.push_back(step_of(data + at));
  }
  pool.write(std::string_view());
  lockstep both(pool.path(), tmpfs_settings()[how % tmpfs_settings().size()]);
  both.run(steps);
  if ((how & 0x40) != 0) both.finish();
}

}  // namespace
}  // namespace icecore::testing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace icecore::testing;
  static const memory_file pool("pool");
  comparing_threads = 1;
  if (size == 0) return 0;
  must_hold([&] { execute(pool, data, size); });
  return 0;
}
