// Sequences of calls, on a store and on a std::map with a past in lockstep (store/support/script.hpp).
//
// The first byte chooses the durability and the index and whether all is compared at the end; each 6 bytes after it are
// a step: what, key, other, size, and two of a seed. Most executions are of few steps, of which only one may be costly.
#include <algorithm>
#include <array>

#include "support/fuzz_target.hpp"
#include "support/script.hpp"
#include "support/simulated_pool.hpp"

namespace icecore::testing {
namespace {

constexpr std::size_t step_bytes = 6;
constexpr std::size_t steps_max = 8;
constexpr std::size_t steps_max_closely = 32;

/// Reads everything, opens the store anew, or expects many errors.
[[nodiscard]] bool is_costly(step::kind kind) {
  using enum step::kind;
  return kind == latest || kind == misuse || kind == compare || kind == reopen || kind == reopen_read_only ||
         kind == crash || kind == pack;
}

/// What the first byte of a step stands for: writes mostly, and seldom what is costly.
[[nodiscard]] step::kind kind_of(std::uint8_t byte) {
  using enum step::kind;
  constexpr std::uint8_t writes_from = 4 * kinds_of_step;
  static constexpr std::array writes = {insert, insert, insert, remove, batch, tag, label, insert};
  if (byte >= writes_from) return writes[byte % writes.size()];
  const auto kind = static_cast<step::kind>(byte % kinds_of_step);
  return is_costly(kind) && byte >= kinds_of_step ? find : kind;
}

/// Long keys and large values, by the number that a step has: copying and comparing them takes all the time.
void shorten(step& one) {
  constexpr unsigned large_values_from = 29;  // of 32 sizes
  constexpr unsigned long_keys[] = {25, 26};  // of script_keys()
  if (one.size % 32 >= large_values_from && one.size < 0xe0) one.size -= 8;
  if (one.what == step::kind::batch) {  // the seeds from this one on say which sizes
    one.size %= 5;
    one.seed -= one.seed % 32 / 24 * 8;
  }
  const auto keys = static_cast<unsigned>(script_keys().size());
  const bool is_long = std::ranges::find(long_keys, one.key % keys) != std::end(long_keys);
  if (is_long && one.key < 5 * keys) one.key -= 2;
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

[[nodiscard]] script script_of(const std::uint8_t* data, std::size_t size, bool closely) {
  script steps;
  bool costly = false;
  const std::size_t count = closely ? steps_max_closely : steps_max;
  for (std::size_t at = 1; at + step_bytes <= size && steps.size() < count; at += step_bytes) {
    step one = step_of(data + at);
    if (!closely) {
      if (costly && is_costly(one.what)) continue;
      costly = costly || is_costly(one.what);
      shorten(one);
    }
    steps.push_back(one);
  }
  return steps;
}

void execute(const simulated_pool& pool, const std::uint8_t* data, std::size_t size) {
  const bool closely = look_closely_at(data, size);
  pool.write(std::string_view());
  const file_access files = {[&](const auto&) { return std::string(pool.text()); },
                             [&](const auto&, std::string_view content) { pool.write(content); }};
  lockstep both(pool.path(), tmpfs_settings()[data[0] % tmpfs_settings().size()], files);
  both.run(script_of(data, size, closely));
  if (closely && (data[0] & 0x40) != 0) {
    both.finish();
  } else {
    both.compare_histories();
  }
}

}  // namespace
}  // namespace icecore::testing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace icecore::testing;
  static const simulated_pool pool(0);
  comparing_threads = 1;
  if (size == 0) return 0;
  must_hold([&] { execute(pool, data, size); });
  return 0;
}
