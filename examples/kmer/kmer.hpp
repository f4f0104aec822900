// k-mers: sequences of k bases, two bits per base, in one 128-bit word whose order is the order of their letters.
//
//   const kmers::coder coder(31);
//   kmers::kmer x = *coder.parse("GATTACA...");
//   store.insert(coder.key('k', coder.canonical(x)), ...);      // the same key for both strands
//
// k is odd, so no k-mer is its own reverse complement, and at most 63.
// Threads: everything here is a value. Cost: O(1), except reverse_complement and text, which are O(k).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kmers {

__extension__ typedef unsigned __int128 kmer;

/// A is 0, C 1, G 2, T 3: the complement of b is 3 - b.
using base = std::uint8_t;
inline constexpr int base_count = 4;

inline constexpr int k_max = 63;

[[nodiscard]] constexpr std::optional<base> base_of(char letter) noexcept {
  switch (letter) {
    case 'A':
      return base{0};
    case 'C':
      return base{1};
    case 'G':
      return base{2};
    case 'T':
      return base{3};
    default:
      return std::nullopt;
  }
}

[[nodiscard]] constexpr char letter_of(base b) noexcept { return "ACGT"[b]; }
[[nodiscard]] constexpr base complement(base b) noexcept { return static_cast<base>(3 - b); }

/// The other strand of a text of A, C, G and T; other letters stay unchanged.
[[nodiscard]] inline std::string reverse_complement(std::string_view text) {
  std::string other(text.rbegin(), text.rend());
  for (char& letter : other) {
    if (const auto b = base_of(letter)) letter = letter_of(complement(*b));
  }
  return other;
}

/// Everything that depends on k.
class coder {
 public:
  /// Precondition: k odd, 3 to k_max.
  explicit constexpr coder(int k) noexcept : k_(k), mask_((kmer{1} << (2 * k)) - 1) {}

  [[nodiscard]] constexpr int k() const noexcept { return k_; }
  /// Bytes of a k-mer in a key.
  [[nodiscard]] constexpr std::size_t bytes() const noexcept { return static_cast<std::size_t>(k_ + 3) / 4; }

  [[nodiscard]] constexpr base first(kmer x) const noexcept { return static_cast<base>(x >> (2 * (k_ - 1))); }
  [[nodiscard]] static constexpr base last(kmer x) noexcept { return static_cast<base>(x & 3); }
  /// Drops the first base and appends b.
  [[nodiscard]] constexpr kmer shifted(kmer x, base b) const noexcept { return ((x << 2) | b) & mask_; }
  /// Drops the last base and puts b in front.
  [[nodiscard]] constexpr kmer shifted_back(kmer x, base b) const noexcept {
    return (x >> 2) | (kmer{b} << (2 * (k_ - 1)));
  }

  [[nodiscard]] constexpr kmer reverse_complement(kmer x) const noexcept {
    kmer other = 0;
    for (int i = 0; i < k_; ++i, x >>= 2) other = (other << 2) | complement(last(x));
    return other;
  }
  /// The smaller of a k-mer and its reverse complement, which stands for both.
  [[nodiscard]] constexpr kmer canonical(kmer x) const noexcept { return std::min(x, reverse_complement(x)); }

  /// Empty unless the text is k letters of A, C, G and T.
  [[nodiscard]] std::optional<kmer> parse(std::string_view text) const noexcept {
    if (text.size() != static_cast<std::size_t>(k_)) return std::nullopt;
    kmer x = 0;
    for (const char letter : text) {
      const auto b = base_of(letter);
      if (!b) return std::nullopt;
      x = shifted(x, *b);
    }
    return x;
  }
  [[nodiscard]] std::string text(kmer x) const {
    std::string letters(static_cast<std::size_t>(k_), ' ');
    for (auto place = letters.rbegin(); place != letters.rend(); ++place, x >>= 2) *place = letter_of(last(x));
    return letters;
  }

  /// One letter for the kind of key, then the k-mer: keys of one kind are in the order of their k-mers.
  [[nodiscard]] std::string key(char kind, kmer x) const {
    std::string key(1 + bytes(), kind);
    for (std::size_t i = bytes(); i > 0; --i, x >>= 8) key[i] = static_cast<char>(x & 0xff);
    return key;
  }
  /// Precondition: a key that key() made, possibly with more bytes after it.
  [[nodiscard]] kmer of_key(std::string_view key) const noexcept {
    kmer x = 0;
    for (const char byte : key.substr(1, bytes())) x = (x << 8) | static_cast<unsigned char>(byte);
    return x;
  }

 private:
  int k_;
  kmer mask_;
};

struct kmer_hash {
  [[nodiscard]] std::size_t operator()(kmer x) const noexcept {
    std::uint64_t h = (static_cast<std::uint64_t>(x >> 64) * 0x9e3779b97f4a7c15U) ^ static_cast<std::uint64_t>(x);
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9U;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebU;
    return h ^ (h >> 31);
  }
};

}  // namespace kmers
