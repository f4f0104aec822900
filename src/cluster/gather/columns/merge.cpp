#include "cluster/gather/columns/merge.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/threads.hpp"
#include "cluster/gather/columns/key_word.hpp"
#include "cluster/gather/columns/tournament.hpp"

namespace icecore::ranks {
namespace {

/// The number of parts that a thread merges at once: loads of one part depend on each other, loads of several do not.
constexpr std::size_t lanes = 4;

/// Fewer pairs than these are not worth a separate thread.
constexpr std::size_t pairs_per_thread_min = 16'384;

bool of_words(const pairs_view& p) noexcept { return p.keys.width == word_bytes && p.values.width == word_bytes; }

/// [a, a_end) of one input and [b, b_end) of the other: their merged pairs go to a + b onward.
struct part {
  std::size_t a, a_end, b, b_end;
};

/// Splits `a` into about equal parts, each with the matching pairs of `b`. All keys of a part are less than all keys of
/// the next; if the two inputs share a key, both copies are in the same part.
std::vector<part> split(const pairs_view& a, const pairs_view& b, std::size_t parts) {
  std::vector<part> made;
  made.reserve(parts);
  part rest{0, a.count, 0, b.count};
  for (std::size_t i = 1; i < parts; ++i) {
    const std::size_t cut = a.count * i / parts;
    if (cut <= rest.a) continue;
    const std::size_t b_cut = b.lower_bound(a.keys[cut]);
    made.push_back({rest.a, cut, rest.b, b_cut});
    rest.a = cut;
    rest.b = b_cut;
  }
  made.push_back(rest);
  return made;
}

/// Two inputs and an output of 8-byte keys and values.
struct word_merge {
  const char* a_keys;
  const char* a_values;
  const char* b_keys;
  const char* b_values;
  char* out_keys;
  char* out_values;

  /// Merges one pair: loads both heads and selects one, without a branch that could be mispredicted. Returns whether
  /// their keys are equal.
  [[gnu::always_inline]] bool step(part& p) const noexcept {
    const std::uint64_t a_key = load_word(a_keys + p.a * word_bytes);
    const std::uint64_t b_key = load_word(b_keys + p.b * word_bytes);
    const std::uint64_t a_value = load_word(a_values + p.a * word_bytes);
    const std::uint64_t b_value = load_word(b_values + p.b * word_bytes);
    const bool take_b = swapped_if_little(b_key) < swapped_if_little(a_key);
    const std::uint64_t mask = std::uint64_t{0} - take_b;  // arithmetic, so that the compiler makes no branch of it
    const std::size_t to = (p.a + p.b) * word_bytes;
    store_word(out_keys + to, a_key ^ ((a_key ^ b_key) & mask));
    store_word(out_values + to, a_value ^ ((a_value ^ b_value) & mask));
    p.a += std::size_t{1} - take_b;
    p.b += take_b;
    return a_key == b_key;
  }

  void copy(const char* keys, const char* values, std::size_t from, std::size_t n, std::size_t to) const noexcept {
    if (n == 0) return;
    std::memcpy(out_keys + to * word_bytes, keys + from * word_bytes, n * word_bytes);
    std::memcpy(out_values + to * word_bytes, values + from * word_bytes, n * word_bytes);
  }

  bool finish(part p) const noexcept {
    bool equal = false;
    while (p.a < p.a_end && p.b < p.b_end) equal |= step(p);
    copy(a_keys, a_values, p.a, p.a_end - p.a, p.a + p.b);
    p.a = p.a_end;
    copy(b_keys, b_values, p.b, p.b_end - p.b, p.a + p.b);
    return equal;
  }

  /// Merges `lanes` parts in lockstep, as long as none can end.
  bool together(std::array<part, lanes>& parts) const noexcept {
    bool equal = false;
    for (;;) {
      std::size_t safe = SIZE_MAX;  // number of steps that no input of any part can end within
      for (const part& p : parts) safe = std::min({safe, p.a_end - p.a, p.b_end - p.b});
      if (safe == 0) return equal;
      std::array<part, lanes> now = parts;
      for (; safe > 0; --safe) {
        equal |= step(now[0]);
        equal |= step(now[1]);
        equal |= step(now[2]);
        equal |= step(now[3]);
      }
      parts = now;
    }
  }

  /// Returns whether some key was in both inputs.
  bool run(std::span<const part> parts) const noexcept {
    static_assert(lanes == 4, "together() has a step for each");
    bool equal = false;
    std::size_t done = 0;
    if (parts.size() == lanes) {
      std::array<part, lanes> all;
      std::copy(parts.begin(), parts.end(), all.begin());
      equal |= together(all);
      for (const part& p : all) equal |= finish(p);
      done = lanes;
    }
    for (; done < parts.size(); ++done) equal |= finish(parts[done]);
    return equal;
  }
};

/// Writes items to a column of the output, one after the other.
class column_writer {
 public:
  column_writer(column& to, std::size_t item, std::uint64_t byte) noexcept : to_(&to), item_(item), byte_(byte) {}

  void append(std::string_view bytes) noexcept {
    if (to_->width == 0) to_->offsets[item_] = byte_;
    if (!bytes.empty()) std::memcpy(to_->bytes.data() + byte_, bytes.data(), bytes.size());
    ++item_;
    byte_ += bytes.size();
  }

 private:
  column* to_;
  std::size_t item_;
  std::uint64_t byte_;
};

class pairs_writer {
 public:
  pairs_writer(pairs& to, std::size_t item, std::uint64_t key_byte, std::uint64_t value_byte) noexcept
      : keys_(to.keys, item, key_byte), values_(to.values, item, value_byte) {}

  void append(const pairs_view& from, std::size_t i) noexcept {
    keys_.append(from.keys[i]);
    values_.append(from.values[i]);
  }

 private:
  column_writer keys_;
  column_writer values_;
};

/// Returns a key that both hold, if there is one.
std::optional<std::string> merge_part(const pairs_view& a, const pairs_view& b, const part& of, pairs& out,
                                      std::size_t out_begin) {
  pairs_writer to(out, out_begin + of.a + of.b,
                  out_begin * out.keys.width + a.keys.begin_of(of.a) + b.keys.begin_of(of.b),
                  out_begin * out.values.width + a.values.begin_of(of.a) + b.values.begin_of(of.b));
  std::optional<std::string> twice;
  std::size_t i = of.a;
  std::size_t j = of.b;
  while (i < of.a_end && j < of.b_end) {
    const int order = a.keys[i].compare(b.keys[j]);
    if (order == 0) twice = a.keys[i];
    if (order <= 0) {
      to.append(a, i++);
    } else {
      to.append(b, j++);
    }
  }
  while (i < of.a_end) to.append(a, i++);
  while (j < of.b_end) to.append(b, j++);
  return twice;
}

/// Some key that both hold. O(smaller log larger): used only for an error message.
std::optional<std::string> common_key(const pairs_view& a, const pairs_view& b) {
  if (a.count > b.count) return common_key(b, a);
  for (std::size_t i = 0; i < a.count; ++i) {
    const std::size_t place = b.lower_bound(a.keys[i]);
    if (place < b.count && b.keys[place] == a.keys[i]) return std::string(a.keys[i]);
  }
  return std::nullopt;
}

std::optional<std::string> merge_two_of_words(const pairs_view& a, const pairs_view& b, pairs& out, unsigned threads,
                                              std::size_t to) {
  const word_merge merge{a.keys.bytes,
                         a.values.bytes,
                         b.keys.bytes,
                         b.values.bytes,
                         out.keys.bytes.data() + to * word_bytes,
                         out.values.bytes.data() + to * word_bytes};
  const std::vector<part> parts = split(a, b, std::size_t{threads} * lanes);
  std::vector<char> equal(threads, 0);
  run_on_threads(threads, [&](unsigned thread) {
    const std::size_t first = std::min(parts.size(), std::size_t{thread} * lanes);
    const std::size_t last = std::min(parts.size(), first + lanes);
    equal[thread] = merge.run(std::span(parts).subspan(first, last - first)) ? 1 : 0;
  });
  if (std::find(equal.begin(), equal.end(), 1) == equal.end()) return std::nullopt;
  return common_key(a, b);
}

std::optional<std::string> merge_two_of_any(const pairs_view& a, const pairs_view& b, pairs& out, unsigned threads,
                                            std::size_t to) {
  const std::vector<part> parts = split(a, b, threads);
  std::vector<std::optional<std::string>> twice(parts.size());
  run_on_threads(static_cast<unsigned>(parts.size()),
                 [&](unsigned thread) { twice[thread] = merge_part(a, b, parts[thread], out, to); });
  for (auto& key : twice) {
    if (key) return std::move(key);
  }
  return std::nullopt;
}

/// Reads the heads of an input: 8-byte keys as numbers, other keys as views.
struct word_reader {
  using key_type = std::uint64_t;
  static key_type key_at(const pairs_view& input, std::size_t i) noexcept {
    return load_key_word(input.keys.bytes + i * word_bytes);
  }
  static std::string text(key_type key) { return key_of_word(key); }
};
struct any_reader {
  using key_type = std::string_view;
  static key_type key_at(const pairs_view& input, std::size_t i) noexcept { return input.keys[i]; }
  static std::string text(key_type key) { return std::string(key); }
};

/// Appends 8-byte items without looking at sizes.
class word_writer {
 public:
  explicit word_writer(pairs& to) noexcept : keys_(to.keys.bytes.data()), values_(to.values.bytes.data()) {}

  void append(const pairs_view& from, std::size_t i) noexcept {
    store_word(keys_, load_word(from.keys.bytes + i * word_bytes));
    store_word(values_, load_word(from.values.bytes + i * word_bytes));
    keys_ += word_bytes;
    values_ += word_bytes;
  }

 private:
  char* keys_;
  char* values_;
};

template <class Reader, template <class> class Heads, class Writer>
std::optional<std::string> merge_inputs(std::span<const pairs_view> inputs, Writer to) {
  using key_type = typename Reader::key_type;
  std::vector<key_type> first;
  first.reserve(inputs.size());
  for (const pairs_view& input : inputs) first.push_back(Reader::key_at(input, 0));
  std::vector<std::size_t> next(inputs.size(), 0);
  Heads<key_type> least{std::span<const key_type>(first)};
  std::optional<key_type> last;
  std::optional<std::string> twice;
  while (least.size() > 0) {
    const key_type key = least.key();
    const std::size_t i = least.input();
    const pairs_view& input = inputs[i];
    if (last == key) twice = Reader::text(key);
    last = key;
    to.append(input, next[i]++);
    if (next[i] < input.count) {
      least.replace(Reader::key_at(input, next[i]));
    } else {
      least.remove();
    }
  }
  return twice;
}

}  // namespace

std::optional<std::string> merge_two(const pairs_view& a, const pairs_view& b, pairs& out, unsigned threads,
                                     std::size_t to) {
  if (a.count < b.count) return merge_two(b, a, out, threads, to);
  const auto worth = static_cast<unsigned>(std::min<std::size_t>((a.count + b.count) / pairs_per_thread_min, threads));
  const unsigned used = std::max(1U, worth);
  return of_words(a) && of_words(b) ? merge_two_of_words(a, b, out, used, to) : merge_two_of_any(a, b, out, used, to);
}

std::optional<std::string> merge_many(std::span<const pairs_view> inputs, pairs& out, heads how) {
  std::vector<pairs_view> filled;
  filled.reserve(inputs.size());
  for (const pairs_view& input : inputs) {
    if (input.count > 0) filled.push_back(input);
  }
  if (std::all_of(filled.begin(), filled.end(), of_words)) {
    const word_writer to(out);
    return how == heads::tournament ? merge_inputs<word_reader, tournament>(filled, to)
                                    : merge_inputs<word_reader, linear_scan>(filled, to);
  }
  const pairs_writer to(out, 0, 0, 0);
  return how == heads::tournament ? merge_inputs<any_reader, tournament>(filled, to)
                                  : merge_inputs<any_reader, linear_scan>(filled, to);
}

}  // namespace icecore::ranks
