#include "support/image.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace icecore::testing {
namespace {

constexpr std::size_t word_bytes = 8;
constexpr std::size_t size_unit = 512;
constexpr std::size_t run_words_max = 255;

/// Takes bytes from the front; behind the end there are zeros.
class bytes_in_turn {
 public:
  explicit bytes_in_turn(std::span<const std::uint8_t> bytes) : rest_(bytes) {}

  [[nodiscard]] bool empty() const noexcept { return rest_.empty(); }
  std::span<const std::uint8_t> take(std::size_t count) {
    const auto taken = rest_.first(std::min(count, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  std::size_t number(std::size_t bytes) {
    std::size_t value = 0;
    unsigned shift = 0;
    for (const std::uint8_t byte : take(bytes)) {
      value |= std::size_t{byte} << shift;
      shift += 8;
    }
    return value;
  }

 private:
  std::span<const std::uint8_t> rest_;
};

void put(std::vector<std::byte>& file, std::size_t at, std::span<const std::uint8_t> bytes) {
  if (at >= file.size() || bytes.empty()) return;
  std::memcpy(file.data() + at, bytes.data(), std::min(bytes.size(), file.size() - at));
}

void append(std::vector<std::uint8_t>& to, std::size_t number, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) to.push_back(static_cast<std::uint8_t>(number >> (8 * i)));
}

/// The words of a file; the last may be cut.
class words {
 public:
  explicit words(std::span<const std::byte> file) : file_(file) {}
  [[nodiscard]] std::size_t size() const noexcept { return (file_.size() + word_bytes - 1) / word_bytes; }
  [[nodiscard]] std::uint64_t operator[](std::size_t i) const noexcept {
    std::uint64_t word = 0;
    std::memcpy(&word, file_.data() + i * word_bytes, std::min(word_bytes, file_.size() - i * word_bytes));
    return word;
  }
  /// The words from `i` on, to be looked at together: most of a file is zeros. Past the end of the whole ones: ones.
  using block = std::array<std::uint64_t, 8>;
  [[nodiscard]] block block_at(std::size_t i) const noexcept {
    block all;
    all.fill(1);
    if ((i + all.size()) * word_bytes <= file_.size())
      std::memcpy(all.data(), file_.data() + i * word_bytes, sizeof all);
    return all;
  }
  /// How many words from `i` on are the same, counted to `most`.
  [[nodiscard]] std::size_t equal_from(std::size_t i, std::size_t most) const noexcept {
    const std::size_t last = std::min(size(), i + most);
    std::size_t end = i + 1;
    while (end < last && (*this)[end] == (*this)[i]) ++end;
    return end - i;
  }

 private:
  std::span<const std::byte> file_;
};

}  // namespace

image expand(std::span<const std::uint8_t> description) {
  bytes_in_turn in(description);
  image made;
  made.flags = static_cast<std::uint8_t>(in.number(1));
  made.file.resize(in.number(2) % (image_bytes_max / size_unit + 1) * size_unit);
  while (!in.empty()) {
    const std::size_t at = in.number(2) * word_bytes;
    const std::size_t count = in.number(1);
    if (count != 0) {
      put(made.file, at, in.take(count * word_bytes));
      continue;
    }
    const std::size_t times = in.number(2);
    const auto word = in.take(word_bytes);
    for (std::size_t i = 0; i < times && at + i * word_bytes < made.file.size(); ++i) {
      put(made.file, at + i * word_bytes, word);
    }
  }
  return made;
}

std::vector<std::uint8_t> describe(const image& of) {
  std::vector<std::uint8_t> out{of.flags};
  append(out, of.file.size() / size_unit, 2);
  const words all(of.file);
  const words::block zeros{};
  constexpr std::size_t repeated_min = 4;
  for (std::size_t i = 0; i < all.size();) {
    if (all.block_at(i) == zeros) {
      i += zeros.size();
      continue;
    }
    if (all[i] == 0) {
      ++i;
      continue;
    }
    append(out, i, 2);
    if (const std::size_t times = all.equal_from(i, 0xffff); times >= repeated_min) {
      append(out, 0, 1);
      append(out, times, 2);
      append(out, all[i], word_bytes);
      i += times;
      continue;
    }
    // a single zero word costs less than a new run
    std::size_t end = i + 1;
    while (end < all.size() && end - i < run_words_max && all.equal_from(end, repeated_min) < repeated_min &&
           (all[end] != 0 || (end + 1 < all.size() && all[end + 1] != 0))) {
      ++end;
    }
    append(out, end - i, 1);
    for (; i < end; ++i) append(out, all[i], word_bytes);
  }
  return out;
}

}  // namespace icecore::testing
