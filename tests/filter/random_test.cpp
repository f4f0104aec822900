// Random expressions give what a naive evaluator of the language gives, and what SQLite gives where it has the same
// language.
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <string>

#include "base/memory/sanitizer.hpp"
#include "filter/results/projection.hpp"
#include "filter/tree/explain.hpp"
#include "reference.hpp"
#include "table.hpp"
#ifdef ICECORE_HAS_SQLITE
#include "sqlite.hpp"
#endif

namespace icecore::testing {
namespace {

using tag = tagged::tag;

std::uint64_t count_of(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}
std::uint64_t expressions() { return count_of("ICECORE_EXPRESSIONS", memory_is_watched ? 300 : 2000); }
std::uint64_t seed() { return count_of("ICECORE_SEED", 1); }

/// Rows as a block has them.
struct block_of_rows {
  std::vector<reference_row> all;
  std::vector<std::string_view> keys, values, before;
  std::vector<version> versions;
  detail::rows block;

  block_of_rows(random_expressions& random, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) all.push_back(random.row());
    for (std::size_t i = 0; i < size; ++i) {
      keys.emplace_back(all[i].key);
      values.emplace_back(all[i].value);
      before.emplace_back(all[i].before ? std::string_view(*all[i].before) : std::string_view());
      versions.push_back(all[i].version);
      block.has_before |= std::uint64_t{all[i].before.has_value()} << i;
      block.removed |= std::uint64_t{all[i].removed} << i;
      block.first |= std::uint64_t{all[i].first} << i;
    }
    block.size = size;
    block.keys = keys.data();
    block.values = values.data();
    block.before = before.data();
    block.versions = versions.data();
  }
};

tagged tagged_of(const detail::datum& one) {
  switch (one.type) {
    case detail::kind::boolean:
      return tagged::of(one.word != 0);
    case detail::kind::integer:
      return tagged::of(one.big ? static_cast<wide>(one.word) : static_cast<wide>(static_cast<std::int64_t>(one.word)));
    case detail::kind::real:
      return tagged::of(std::bit_cast<double>(one.word));
    case detail::kind::bytes:
      return tagged::of(std::string(one.text));
    default:
      return {};
  }
}

/// What a column of results can hold: a whole number of its type alone.
tagged in_column(tagged one, detail::column_type type) {
  constexpr wide signed_max = (wide{1} << 63) - 1;
  if (one.is != tag::integer) return one;
  const bool fits = type == detail::column_type::u64 ? one.integer >= 0 : one.integer <= signed_max;
  return fits ? one : tagged{};
}

TEST(random_expressions, give_what_a_naive_evaluator_gives) {
  random_expressions random(seed());
  const layout columns(reference_layout);
  detail::scratch memory;
  for (std::uint64_t n = 0; n < expressions(); ++n) {
    constexpr tag types[] = {tag::boolean, tag::boolean, tag::integer, tag::real, tag::bytes};
    const tag type = types[n % std::size(types)];
    const expression one = random.make(type, 1 + static_cast<int>(n % 5));
    const std::string text = text_of(one);
    SCOPED_TRACE(text);
    const block_of_rows rows(random, n % 3 == 0 ? 1 + n % 64 : 64);
    const detail::projection select({text}, columns);
    auto out = select.columns();
    const std::uint64_t mask = rows.block.mask() & (n % 7 == 0 ? 0x123456789abcdef1 : ~0ULL);
    select.evaluate(rows.block, mask, memory, out);
    std::size_t place = 0;
    for (std::size_t i = 0; i < rows.all.size(); ++i) {
      if ((mask >> i & 1U) == 0) continue;
      const tagged expected = in_column(evaluate(one, rows.all[i]), select.type(0));
      const tagged found = tagged_of(out[0].at(place++));
      ASSERT_EQ(found, expected) << "row " << i << ": " << shown(found) << " in place of " << shown(expected)
                                 << "; value " << shown(tagged::of(rows.all[i].value));
    }
    if (type != tag::boolean) continue;
    const filter condition(text, columns);
    const std::uint64_t matches = condition.program().test(rows.block, memory);
    const filter again = filter::from_stored(condition.stored());
    ASSERT_EQ(again.program().test(rows.block, memory), matches);
    ASSERT_EQ(again.stored(), condition.stored());
    const std::string normal = detail::text_of(condition.program().tree());
    ASSERT_EQ(filter(normal, columns).program().test(rows.block, memory), matches) << normal;
    for (std::size_t i = 0; i < rows.all.size(); ++i) {
      const tagged expected = evaluate(one, rows.all[i]);
      ASSERT_EQ((matches >> i & 1U) != 0, !expected.is_null() && expected.boolean) << "row " << i;
    }
  }
}

/// An expression over the key alone, as scans seek them.
expression about_keys(std::mt19937_64& random, int depth) {
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const auto text = [&] {
    constexpr char letters[] = {'a', 'b', '\0', '\xff'};
    std::string out(below(4), 'a');
    for (char& c : out) c = letters[below(4)];
    return expression{.op = "literal", .literal = tagged::of(out)};
  };
  const expression key{.op = "key"};
  if (depth > 0 && below(3) > 0) {
    if (below(4) == 0) return {.op = "not", .of = {about_keys(random, depth - 1)}};
    expression one{.op = below(2) == 0 ? "and" : "or"};
    for (std::size_t i = 0; i < 2 + below(2); ++i) one.of.push_back(about_keys(random, depth - 1));
    return one;
  }
  const std::vector<std::string> comparisons = {"=", "!=", "<", "<=", ">", ">="};
  switch (below(7)) {
    case 0:
      return {.op = "starts_with", .of = {key, text()}};
    case 1:
      return {.op = "between", .of = {key, text(), text()}};
    case 2:
      return {.op = "in", .of = {key, text(), text(), below(4) == 0 ? expression{.op = "literal"} : text()}};
    case 3: {
      const std::vector<std::string> patterns = {"a%", "ab%", "a_b", "%b", "ab", "", "b%a%"};
      return {.op = "like", .literal = tagged::of(patterns[below(patterns.size())]), .of = {key}};
    }
    case 4:
      return {.op = comparisons[below(6)], .of = {text(), key}};
    case 5:
      if (below(3) == 0) return {.op = "literal", .literal = below(2) == 0 ? tagged{} : tagged::of(below(2) == 0)};
      return {.op = "<", .of = {{.op = "length", .of = {key}}, {.op = "literal", .literal = tagged::of(wide{2})}}};
    default:
      return {.op = comparisons[below(6)], .of = {key, text()}};
  }
}

TEST(random_expressions, match_no_key_outside_of_their_ranges) {
  std::mt19937_64 random(seed());
  std::vector<std::string> keys = {""};
  for (std::size_t i = 0; i < keys.size() && keys[i].size() < 3; ++i) {
    for (const char c : {'\0', 'a', 'b', 'c', '\xff'}) keys.push_back(keys[i] + c);
  }
  std::uint64_t inside = 0;
  std::uint64_t matching = 0;
  for (std::uint64_t n = 0; n < expressions(); ++n) {
    const expression one = about_keys(random, 3);
    const std::string text = text_of(one);
    const filter condition(text);
    const auto ranges = condition.program().key_ranges();
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      ASSERT_TRUE(!ranges[i].to || ranges[i].from < *ranges[i].to) << text;
      if (i > 0) {
        ASSERT_TRUE(ranges[i - 1].to && *ranges[i - 1].to <= ranges[i].from) << text;
      }
    }
    for (const std::string& key : keys) {
      const bool in = std::any_of(ranges.begin(), ranges.end(), [&](const auto& range) {
        return range.from <= key && (!range.to || key < *range.to);
      });
      const tagged truth = evaluate(one, {.key = key});
      const bool matches = !truth.is_null() && truth.boolean;
      ASSERT_TRUE(in || !matches) << text << " matches " << shown(tagged::of(key)) << "\n" << condition.explain();
      inside += in ? 1 : 0;
      matching += matches ? 1 : 0;
    }
  }
  EXPECT_LT(inside, matching * 3 / 2) << "ranges that leave nothing out would be right, too";
}

TEST(key_ranges, are_what_a_reader_expects) {
  const auto expect = [](std::string_view text, std::string_view keys) {
    const std::string told = filter(text).explain();
    const std::size_t from = told.find("\nkeys: ") + 7;
    EXPECT_EQ(told.substr(from, told.find('\n', from) - from), keys) << text;
  };
  expect("starts_with(key, 'eu/')", "['eu/', 'eu0')");
  expect("key >= 'a' and key < 'c' and length(value) > 3", "['a', 'c')");
  expect("key ~ '^eu/[0-9]'", "['eu/', 'eu0')");
  expect("key ~ '^ab*c'", "['a', 'b')");
  expect("key ~ '^ab|c'", "[first, last)");
  expect("key ~ 'ab'", "[first, last)");
  expect("key like 'eu/%'", "['eu/', 'eu0')");
  expect("key like 'eu/7'", "['eu/7', x'65752f3700')");
  expect("key = 'a' and key = 'b'", "none");
  expect("starts_with(key, x'ffff')", "[x'ffff', last)");
  expect("not (key < 'b' or key > 'c')", "['b', x'6300')");
  expect("length(value) > 3 or key = 'a'", "[first, last)");
  expect("null", "none");
}

#ifdef ICECORE_HAS_SQLITE
/// SQLite loses the sign of zero.
bool same(const tagged& a, const tagged& b) {
  return a == b || (a.is == tag::real && b.is == tag::real && a.real == 0 && b.real == 0);
}

TEST(random_expressions, give_what_sqlite_gives) {
  random_expressions random(seed() + 1'000'000, true);
  const layout columns(reference_layout);
  detail::scratch memory;
  sqlite oracle;
  for (std::uint64_t n = 0; n < expressions();) {
    const block_of_rows rows(random, 64);
    oracle.set_rows(rows.all);
    for (int times = 0; times < 20 && n < expressions(); ++times, ++n) {
      constexpr tag types[] = {tag::boolean, tag::boolean, tag::integer, tag::real, tag::bytes};
      const tag type = types[n % std::size(types)];
      const expression one = random.make(type, 1 + static_cast<int>(n % 4));
      const detail::projection select({text_of(one)}, columns);
      auto out = select.columns();
      select.evaluate(rows.block, rows.block.mask(), memory, out);
      const std::vector<tagged> expected = oracle.evaluate(sql_of(one), type);
      for (std::size_t i = 0; i < rows.all.size(); ++i) {
        const tagged found = tagged_of(out[0].at(i));
        ASSERT_TRUE(same(found, expected[i]))
            << text_of(one) << "\n"
            << sql_of(one) << "\nrow " << i << ": " << shown(found) << " in place of " << shown(expected[i])
            << "; value " << shown(tagged::of(rows.all[i].value));
      }
    }
  }
}
#endif

}  // namespace
}  // namespace icecore::testing
