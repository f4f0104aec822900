// Changes pool images as their structure has it: words are copied to other places, counted up or down, filled with
// numbers that matter; bytes of the description change as libFuzzer likes. Half of the results are resealed.
#include <algorithm>
#include <array>
#include <cstring>
#include <random>

#include "pool/format.hpp"
#include "support/fuzz_target.hpp"
#include "support/image.hpp"

namespace icecore::testing {
namespace {

class mutation {
 public:
  mutation(image& of, unsigned seed) : file_(of.file), random_(seed) {
    for (std::size_t at = 0; at + 8 <= file_.size(); at += 8) {
      if (word_at(at) != 0) used_.push_back(at);
    }
  }

  void run() {
    if (used_.empty()) return;
    for (std::size_t count = 1 + any(3); count > 0; --count) once();
  }

 private:
  std::size_t any(std::size_t below) { return random_() % below; }
  std::size_t used() { return used_[any(used_.size())]; }

  [[nodiscard]] std::uint64_t word_at(std::size_t at) const {
    std::uint64_t word;
    std::memcpy(&word, file_.data() + at, sizeof word);
    return word;
  }
  void set_word(std::size_t at, std::uint64_t word) { std::memcpy(file_.data() + at, &word, sizeof word); }
  void set_bytes(std::size_t at, std::uint64_t value, std::size_t bytes) {
    std::memcpy(file_.data() + at, &value, bytes);
  }

  /// A place in a word, and how many bytes of it: a field of any size.
  void change_field(std::size_t at) {
    const std::size_t bytes = std::size_t{1} << any(4);
    const std::size_t place = at + any(8 / bytes) * bytes;
    std::uint64_t value = 0;
    std::memcpy(&value, file_.data() + place, bytes);
    static constexpr std::array<std::uint64_t, 14> numbers = {0,    1,    2,      3,      7,          63,  64,
                                                              4095, 4096, 0x7fff, 0xffff, 0x7fffffff, ~0U, ~0ULL};
    switch (any(4)) {
      case 0:
        value = numbers[any(numbers.size())];
        break;
      case 1:
        value += any(17) - 8;
        break;
      case 2:
        value ^= std::uint64_t{1} << any(bytes * 8);
        break;
      default:
        value = any(2) != 0 ? file_.size() : used();  // a size or a link
    }
    set_bytes(place, value, bytes);
  }

  void once() {
    const std::size_t at = used();
    switch (any(6)) {
      case 0:
      case 1:
        return change_field(at);
      case 2:
        return set_word(at, word_at(used()));
      case 3: {
        const std::uint64_t word = word_at(at);
        const std::size_t other = used();
        set_word(at, word_at(other));
        return set_word(other, word);
      }
      case 4: {  // a run to another place: behind what is used, or over it
        const std::size_t size = std::min(8 * (1 + any(16)), file_.size() - at);
        const std::size_t to = std::min(any(2) != 0 ? used() : used_.back() + 8 + 8 * any(8), file_.size() - size);
        std::memmove(file_.data() + to, file_.data() + at, size);
        return;
      }
      default: {  // a run of zeros
        const std::size_t size = std::min(8 * (1 + any(8)), file_.size() - at);
        std::memset(file_.data() + at, 0, size);
      }
    }
  }

  std::vector<std::byte>& file_;
  std::vector<std::size_t> used_;
  std::minstd_rand random_;
};

}  // namespace
}  // namespace icecore::testing

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t size_max,
                                               unsigned seed) {
  using namespace icecore::testing;
  std::minstd_rand random(seed);
  if (size < 3 || random() % 4 == 0) {
    size = LLVMFuzzerMutate(data, size, size_max);
  } else {
    image changed = expand({data, size});
    mutation(changed, static_cast<unsigned>(random())).run();
    const auto description = describe(changed);
    size = std::min(description.size(), size_max);
    std::memcpy(data, description.data(), size);
  }
  if (size == 0) return size;
  const bool resealed = random() % 2 == 0;
  data[0] = static_cast<std::uint8_t>(resealed ? data[0] | image_flag::resealed : data[0] & ~image_flag::resealed);
  return size;
}
