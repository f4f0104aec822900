// What a filter finds in a snapshot: lazily, as totals, as columns, or page by page.
//
//   for (const auto& [key, value] : s.at("epoch-3").where(dear)) ...            // lazy, in key order
//   s.at(7).count(dear);  s.at(7).sum(dear, "qty");
//   const auto found = s.at(7).extract(dear, {"key", "price * qty as total"});   // columns
//   icecore::page p = s.at(7).page(dear, {.matches = 100}, token);               // token: where the next one begins
//
// Threads: a range belongs to one thread; columns and pages are values.
// Lifetime: views are valid as long as the range (its current item), or the page, that they came from.
// Cost: that of a scan of the keys that can match (filter::explain() says which), and the evaluation.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "icecore/filter.hpp"
#include "icecore/pin.hpp"
#include "icecore/snapshot.hpp"

namespace [[gnu::visibility("default")]] icecore {

/// The items of a snapshot that a filter matches, in key order: a C++ input range. It must stay in its place while it
/// is iterated.
class filtered_items : public std::ranges::view_interface<filtered_items> {
 public:
  using iterator = range_iterator<filtered_items, item>;

  filtered_items(pin holds, icecore::version at, filter where);
  ~filtered_items();
  filtered_items(filtered_items&&) noexcept;
  filtered_items& operator=(filtered_items&&) noexcept;

  /// Starts or restarts at the first match.
  [[nodiscard]] iterator begin() &;
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

 private:
  struct walk;
  friend iterator;
  void step();
  [[nodiscard]] bool at_end() const noexcept;
  [[nodiscard]] const item& current() const noexcept;

  std::unique_ptr<walk> walk_;
};

/// A number that an expression gives: exact whole numbers, or a double.
using result_number = std::variant<std::int64_t, std::uint64_t, double>;

/// The type of a column of results.
enum class result_type : std::uint8_t { boolean = 1, i64 = 2, u64 = 3, f64 = 4, bytes = 5 };

/// A column, in memory as Apache Arrow lays it out.
struct result_values {
  std::string name;
  result_type type;
  std::size_t size = 0;
  std::size_t nulls = 0;
  std::vector<std::uint64_t> validity;  ///< one bit a value, the lowest first: whether it is not null
  std::vector<std::uint64_t> words;     ///< i64, u64, f64: a word each; booleans: a bit each; a null is zero
  std::vector<std::uint64_t> offsets;   ///< bytes: value i is bytes[offsets[i] .. offsets[i + 1])
  std::vector<char> bytes;

  [[nodiscard]] bool is_null(std::size_t i) const noexcept { return (validity[i / 64] >> i % 64 & 1U) == 0; }
  /// Value i; a null is 0 or empty. Precondition: the column has that type.
  [[nodiscard]] std::int64_t i64(std::size_t i) const noexcept { return static_cast<std::int64_t>(words[i]); }
  [[nodiscard]] std::uint64_t u64(std::size_t i) const noexcept { return words[i]; }
  [[nodiscard]] double f64(std::size_t i) const noexcept;
  [[nodiscard]] bool boolean(std::size_t i) const noexcept { return (words[i / 64] >> i % 64 & 1U) != 0; }
  [[nodiscard]] std::string_view text(std::size_t i) const noexcept {
    return {bytes.data() + offsets[i], static_cast<std::size_t>(offsets[i + 1] - offsets[i])};
  }
};

/// How much one page may take: whichever limit comes first.
struct page_limits {
  std::uint64_t matches = 1000;
  std::optional<std::uint64_t> examined{};          ///< keys looked at
  std::optional<std::chrono::microseconds> time{};  ///< at least one key is looked at in any case
  bool reverse = false;                             ///< from the last key to the first
  /// Not empty: the tokens are signed with it (HMAC-SHA-256), and others are refused. For tokens that go through hands
  /// that must not choose where a page begins.
  std::string_view secret{};
  /// Whether the last page has a token too, behind which there is nothing: for whoever goes on elsewhere then.
  bool token_at_end = false;
};

/// A part of what a filter finds. The same token and the same limits of matches and keys give the same page each time.
struct page {
  pinned_list<item> items;
  /// Where the next page begins: opaque bytes, at most 128 and those of a key. Nothing is kept for it, so it never
  /// expires: it is good after a restart, on stores opened for reading, and in every later release.
  std::string token;
  std::uint64_t examined = 0;  ///< keys looked at for this page
  bool end = false;            ///< nothing is left; the token is empty, unless it was asked for
};

}  // namespace icecore
