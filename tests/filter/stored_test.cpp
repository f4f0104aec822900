// Stored filters: the same bytes and answers after reading, and never a crash over bytes that are none.
#include <gtest/gtest.h>

#include <bit>
#include <string>

#include "base/checksum.hpp"
#include "icecore/error.hpp"
#include "icecore/snapshot.hpp"
#include "table.hpp"

namespace icecore::testing {
namespace {

constexpr const char* expressions[] = {
    "true",
    "null",
    "price > 100.0 and starts_with(key, 'eu/') and name ~ 'GmbH$'",
    "qty in (1, 2, -3, null, 18446744073709551615) or before.qty between 0x10 and 1e300",
    "json(value, 'a.b[2]') = 'x' and not removed or first",
    "if(version > 7, length(rest), -qty * 3 / 2 % 5) & 7 | 1 ^ 2 << 1 >> 1 = ~0",
    "name like 'a!%%' escape '!' and substr(name, 1, 2) = x'00ff' and coalesce(price, 0.5) is not null",
    "json(value, 'a')",
};

const layout& columns() {
  static const layout one("price f64, qty u32 be, name bytes(4), rest bytes");
  return one;
}

TEST(stored, filters_come_back_as_the_same_bytes) {
  for (const char* const text : expressions) {
    const filter made(text, columns());
    const filter again = filter::from_stored(made.stored());
    EXPECT_EQ(again.stored(), made.stored()) << text;
    EXPECT_EQ(again.explain(), made.explain()) << text;
    EXPECT_EQ(again.fingerprint(), made.fingerprint()) << text;
    EXPECT_EQ(again.program().needs(), made.program().needs()) << text;
  }
  EXPECT_NE(filter("true").fingerprint(), filter("false").fingerprint());
}

TEST(stored, normal_text_has_the_same_meaning) {
  for (const char* const text : expressions) {
    const std::string normal = filter(text, columns()).explain();
    const filter again(normal.substr(0, normal.find('\n')), columns());
    if (std::string_view(text) != "json(value, 'a')") {
      EXPECT_EQ(again.stored(), filter(text, columns()).stored()) << normal;
    }
  }
}

/// What this release wrote once is read by all later ones: these bytes never change.
TEST(stored, filters_of_this_release_are_read_for_ever) {
  const filter made("price > 100.0 and starts_with(key, 'eu/')", columns());
  std::string hexadecimal;
  for (const std::byte one : made.stored()) hexadecimal += fmt::format("{:02x}", static_cast<unsigned>(one));
  EXPECT_EQ(hexadecimal,
            "494601"  // IF, version 1
            "1e02"    // and, of two
            "2c10057072696365"
            "0a000008"            // >, column "price" of type f64, no flags, at 0, 8 bytes
            "040000000000005940"  // 100.0
            "360a"
            "0503"
            "65752f"  // starts_with, key, 'eu/'
            "1b6a28cf");
}

template <typename Read>
void survives_damage(const std::vector<std::byte>& bytes, Read read) {
  const auto expect_refused = [&](const std::vector<std::byte>& damaged) {
    try {
      read(damaged);
      ADD_FAILURE() << "taken";
    } catch (const error& told) {
      EXPECT_EQ(told.code(), errc::bad_token);
    }
  };
  for (std::size_t size = 0; size < bytes.size(); ++size)
    expect_refused({bytes.begin(), bytes.begin() + static_cast<long>(size)});
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (const unsigned flip : {1U, 0x80U, 0xffU}) {
      auto damaged = bytes;
      damaged[i] ^= static_cast<std::byte>(flip);
      expect_refused(damaged);
    }
  }
  auto longer = bytes;
  longer.push_back(std::byte{0});
  expect_refused(longer);
}

TEST(stored, damage_is_refused) {
  for (const char* const text : expressions) {
    survives_damage(filter(text, columns()).stored(), [](const auto& bytes) { return filter::from_stored(bytes); });
  }
}

/// With a right checksum, so that what is behind it is read.
void reseal(std::vector<std::byte>& bytes) {
  const std::uint32_t sum = crc32c(0, bytes.data(), bytes.size() - 4);
  std::memcpy(bytes.data() + bytes.size() - 4, &sum, 4);
}

TEST(stored, forged_bytes_are_refused_or_are_a_filter) {
  table rows;
  rows.add("key", std::string(64, 'x'));
  for (const char* const text : expressions) {
    const std::vector<std::byte> bytes = filter(text, columns()).stored();
    for (std::size_t i = 0; i + 4 < bytes.size(); ++i) {
      for (const unsigned change : {1U, 2U, 3U, 4U, 8U, 16U, 32U, 64U, 128U, 255U}) {
        auto forged = bytes;
        forged[i] ^= static_cast<std::byte>(change);
        reseal(forged);
        try {
          const filter made = filter::from_stored(forged);
          EXPECT_EQ(made.stored(), forged) << "one form only";
          if (!made.program().needs().changes) static_cast<void>(rows.matches(made));
        } catch (const error& told) {
          EXPECT_TRUE(told.code() == errc::bad_token || told.code() == errc::unknown_function) << told.message();
        }
      }
    }
  }
}

TEST(stored, forged_nesting_is_refused) {
  std::vector<std::byte> bytes;
  for (const char c : std::string("IF\x01")) bytes.push_back(static_cast<std::byte>(c));
  for (int i = 0; i < 100'000; ++i) bytes.push_back(static_cast<std::byte>(detail::operation::negation));
  bytes.resize(bytes.size() + 4);
  reseal(bytes);
  EXPECT_THROW(static_cast<void>(filter::from_stored(bytes)), error);
}

TEST(stored, a_later_form_says_so) {
  std::vector<std::byte> bytes = filter("true").stored();
  bytes[2] = std::byte{2};
  reseal(bytes);
  try {
    static_cast<void>(filter::from_stored(bytes));
    ADD_FAILURE();
  } catch (const error& told) {
    EXPECT_EQ(told.code(), errc::bad_token);
    EXPECT_EQ(told.message(), "the stored filter is not valid: it was written by a later icecore");
  }
}

caller_function even(std::uint64_t revision) {
  return {.name = "even", .revision = revision, .evaluate = [](std::span<const item> items, std::span<bool> flags) {
            for (std::size_t i = 0; i < items.size(); ++i) flags[i] = items[i].value.size() % 2 == 0;
          }};
}

TEST(functions, are_called_for_rows_that_are_undecided_alone) {
  std::size_t called = 0;
  const filter count = filter::of("count", 1, [&](const item& one) {
    ++called;
    return one.key == "b";
  });
  table rows;
  for (const char* const key : {"a", "b", "c"}) rows.add(key, "value");
  EXPECT_EQ(rows.matches(filter::all_of({count, filter("key != 'a'")})), (std::vector<bool>{false, true, false}));
  EXPECT_EQ(called, 2U);
  EXPECT_EQ(rows.matches(filter::any_of({count, filter("key = 'a'")})), (std::vector<bool>{true, true, false}));
  EXPECT_EQ(called, 4U);
  EXPECT_EQ(rows.matches(filter::all_of({})), (std::vector<bool>{true, true, true}));
  EXPECT_EQ(rows.matches(filter::any_of({})), (std::vector<bool>{false, false, false}));
}

TEST(functions, get_blocks_and_see_single_rows_as_well) {
  const filter made = filter::of("even", 1, even(1).evaluate);
  EXPECT_TRUE(made.matches("key", "ab"));
  EXPECT_FALSE(made.matches("key", "abc"));
  table rows;
  std::vector<bool> expected;
  for (std::size_t i = 0; i < 150; ++i) {
    rows.add("k" + std::to_string(i), std::string(i, 'x'));
    expected.push_back(i % 2 == 0);
  }
  EXPECT_EQ(rows.matches(made), expected);
}

TEST(functions, may_themselves_use_filters) {
  const filter inner("length(value) > 2");
  const filter outer = filter::of("outer", 1, [&](const item& one) { return inner.matches(one.key, one.value); });
  EXPECT_TRUE(filter::all_of({outer, outer}).matches("k", "abc"));
  EXPECT_FALSE(outer.matches("k", "ab"));
}

TEST(functions, that_throw_are_heard) {
  const filter made = filter::of("throws", 1, [](const item&) -> bool { throw std::runtime_error("no model"); });
  EXPECT_THROW(static_cast<void>(made.matches("k", "v")), std::runtime_error);
  EXPECT_TRUE(filter("true").matches("k", "v"));
}

TEST(functions, are_stored_by_name_and_revision) {
  const filter made = filter::all_of({filter::of("even", 3, even(3).evaluate), filter("key = 'k'")});
  const filter again = filter::from_stored(made.stored(), [](std::string_view name, std::uint64_t revision) {
    EXPECT_EQ(name, "even");
    return even(revision);
  });
  EXPECT_EQ(again.stored(), made.stored());
  EXPECT_TRUE(again.matches("k", "ab"));
  EXPECT_NE(made.explain().find("<function 'even' revision 3>"), std::string::npos);

  const auto expect_unknown = [&](const function_resolver& resolve, std::string_view message) {
    try {
      static_cast<void>(filter::from_stored(made.stored(), resolve));
      ADD_FAILURE();
    } catch (const error& told) {
      EXPECT_EQ(told.code(), errc::unknown_function);
      EXPECT_EQ(told.message(), message);
    }
  };
  expect_unknown({}, "the stored filter calls the function 'even' of revision 3, which is not given");
  expect_unknown([](auto, auto) { return caller_function{}; },
                 "the stored filter calls the function 'even' of revision 3, which is not given");
  expect_unknown([](auto, auto) { return even(4); },
                 "the stored filter calls the function 'even' of revision 3, and 'even' of revision 4 is given");
}

}  // namespace
}  // namespace icecore::testing
