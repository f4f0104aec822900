// The typed map: encodings keep the order of their type, and everything that the store does is there with types.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "icecore/icecore.hpp"
#include "support/expect.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

template <class T>
std::string encoded(const T& key) {
  std::string bytes(key_codec<T>::size, '\0');
  key_codec<T>::encode(key, bytes.data());
  return bytes;
}

template <class T>
void expect_order_kept(const T& a, const T& b) {
  RC_ASSERT((a < b) == (encoded(a) < encoded(b)));
  RC_ASSERT((a == b) == (encoded(a) == encoded(b)));
  RC_ASSERT(key_codec<T>::decode(encoded(a).data()) == a);
}

RC_GTEST_PROP(KeyCodec, integers_of_every_width_keep_their_order, (std::int64_t a, std::int64_t b, unsigned shift)) {
  // shifted, so that small and large numbers of both signs occur
  a >>= shift % 64;
  b >>= shift / 64 % 64;
  expect_order_kept<std::int64_t>(a, b);
  expect_order_kept<std::uint64_t>(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b));
  expect_order_kept<std::int32_t>(static_cast<std::int32_t>(a), static_cast<std::int32_t>(b));
  expect_order_kept<std::uint32_t>(static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(b));
  expect_order_kept<std::int16_t>(static_cast<std::int16_t>(a), static_cast<std::int16_t>(b));
  expect_order_kept<std::uint16_t>(static_cast<std::uint16_t>(a), static_cast<std::uint16_t>(b));
  expect_order_kept<std::int8_t>(static_cast<std::int8_t>(a), static_cast<std::int8_t>(b));
  expect_order_kept<std::uint8_t>(static_cast<std::uint8_t>(a), static_cast<std::uint8_t>(b));
  expect_order_kept<char>(static_cast<char>(a), static_cast<char>(b));
}

RC_GTEST_PROP(KeyCodec, floating_point_numbers_keep_their_order, (std::uint64_t a, std::uint64_t b)) {
  const double wide_a = std::bit_cast<double>(a);
  const double wide_b = std::bit_cast<double>(b);
  if (!std::isnan(wide_a) && !std::isnan(wide_b)) expect_order_kept(wide_a, wide_b);
  const float narrow_a = std::bit_cast<float>(static_cast<std::uint32_t>(a));
  const float narrow_b = std::bit_cast<float>(static_cast<std::uint32_t>(b));
  if (!std::isnan(narrow_a) && !std::isnan(narrow_b)) expect_order_kept(narrow_a, narrow_b);
}

RC_GTEST_PROP(KeyCodec, arrays_pairs_and_tuples_keep_their_order,
              (std::int16_t a, std::int16_t b, std::int8_t c, std::int8_t d)) {
  expect_order_kept<std::array<std::int16_t, 2>>({a, c}, {b, d});
  expect_order_kept<std::pair<std::int8_t, std::uint16_t>>({c, static_cast<std::uint16_t>(a)},
                                                           {d, static_cast<std::uint16_t>(b)});
  expect_order_kept<std::tuple<std::int8_t, std::int16_t, std::int64_t>>({c, a, b}, {d, b, a});
}

TEST(KeyCodec, encodings_are_a_format_to_rely_on) {
  using namespace std::string_literals;
  EXPECT_EQ(encoded(std::uint32_t{0x01020304}), "\1\2\3\4"s);
  EXPECT_EQ(encoded(std::int32_t{0}), "\x80\0\0\0"s);
  EXPECT_EQ(encoded(std::int32_t{-1}), "\x7f\xff\xff\xff"s);
  EXPECT_EQ(encoded(std::numeric_limits<std::int64_t>::min()), std::string(8, '\0'));
  EXPECT_EQ(encoded(1.0), "\xbf\xf0\0\0\0\0\0\0"s);
  EXPECT_EQ(encoded(-1.0), "\x40\x0f\xff\xff\xff\xff\xff\xff"s);
  EXPECT_EQ(encoded(std::pair<std::uint8_t, std::uint16_t>(1, 2)), "\1\0\2"s);
}

TEST(KeyCodec, zeros_are_one_key_and_all_nans_are_the_last) {
  EXPECT_EQ(encoded(-0.0), encoded(0.0));
  EXPECT_EQ(encoded(-0.0F), encoded(0.0F));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(encoded(nan), encoded(-nan));
  EXPECT_EQ(encoded(nan), encoded(std::bit_cast<double>(0xfff0'0000'0000'0001U)));
  EXPECT_LT(encoded(std::numeric_limits<double>::infinity()), encoded(nan));
  EXPECT_TRUE(std::isnan(key_codec<double>::decode(encoded(nan).data())));
  EXPECT_LT(encoded(-std::numeric_limits<double>::infinity()), encoded(std::numeric_limits<double>::lowest()));
  EXPECT_LT(encoded(-std::numeric_limits<double>::denorm_min()), encoded(0.0));
  EXPECT_LT(encoded(0.0), encoded(std::numeric_limits<double>::denorm_min()));
}

struct particle {
  double x;
  float mass;
  std::int16_t kind;
  friend bool operator==(const particle&, const particle&) = default;
};
enum class layer : std::uint8_t { input = 3, hidden = 7 };

class TypedMap : public ::testing::Test {
 protected:
  scratch folder_;
  store store_{folder_ / "typed.ice"};
};

TEST_F(TypedMap, does_with_types_what_the_store_does_with_bytes) {
  map<std::int64_t, particle> particles(store_);
  const particle first{1.5, 2.0F, 3};
  const particle second{-1.5, 4.0F, 5};
  EXPECT_EQ(particles.insert(-7, first), 1U);
  particles.insert(9, second);
  particles.insert(-100, second);
  const version one = store_.tag("one");
  particles.insert(-7, second);
  EXPECT_TRUE(particles.remove(9).has_value());
  EXPECT_FALSE(particles.remove(10).has_value());
  map<std::int64_t, particle>::batch both;
  both.insert(1, first);
  both.remove(-100);
  EXPECT_EQ(both.size(), 2U);
  EXPECT_EQ(particles.apply(both), 2U);
  const version two = store_.tag();

  EXPECT_EQ(particles.find(-7), second);
  EXPECT_EQ(particles.find(-7, one), first);
  EXPECT_EQ(particles.find(9), std::nullopt);
  EXPECT_TRUE(particles.contains(9, one));
  EXPECT_FALSE(particles.contains(9));
  const std::vector<std::int64_t> keys = {9, -7, 55};
  std::vector<std::optional<particle>> found(3);
  particles.find_many(keys, one, found);
  EXPECT_EQ(found, (std::vector<std::optional<particle>>{second, first, std::nullopt}));
  particles.find_many(keys, std::vector<version>{two, two, one}, found);
  EXPECT_EQ(found, (std::vector<std::optional<particle>>{std::nullopt, second, std::nullopt}));

  std::vector<std::int64_t> order;
  for (const auto& [key, value] : particles.at("one").range()) order.push_back(key);
  EXPECT_EQ(order, (std::vector<std::int64_t>{-100, -7, 9}));
  order.clear();
  for (const auto& [key, value] : particles.at(one).range(-7, std::nullopt).reversed()) order.push_back(key);
  EXPECT_EQ(order, (std::vector<std::int64_t>{9, -7}));
  EXPECT_EQ(particles.at(one).lower_bound(-99)->key, -7);
  EXPECT_EQ(particles.at(one).upper_bound(-7)->value, second);
  EXPECT_EQ(particles.at(one).first()->key, -100);
  EXPECT_EQ(particles.latest().last()->key, 1);
  EXPECT_FALSE(particles.at(one).lower_bound(10).has_value());

  std::vector<std::optional<particle>> histories;
  for (const auto& [version, value] : particles.history(9)) histories.push_back(value);
  EXPECT_EQ(histories, (std::vector<std::optional<particle>>{std::nullopt, second}));
  const auto past = particles.history_oldest_first(-7);
  EXPECT_EQ(past.front().value, first);
  std::map<std::int64_t, bool> changed;  // key -> whether it is still there
  for (const auto& [key, before, after] : particles.diff(one, two)) changed[key] = after.has_value();
  EXPECT_EQ(changed, (std::map<std::int64_t, bool>{{-100, false}, {-7, true}, {1, true}, {9, false}}));
}

TEST_F(TypedMap, many_keys_are_found_in_groups) {
  map<std::uint32_t, std::uint32_t> squares(store_);
  std::vector<std::uint32_t> keys(1000);
  for (std::uint32_t n = 0; n < 1000; ++n) {
    keys[n] = n * 2;
    if (n % 3 == 0) squares.insert(n * 2, n * n);
  }
  std::vector<std::optional<std::uint32_t>> found(1000);
  squares.latest().find_many(keys, found);
  for (std::uint32_t n = 0; n < 1000; ++n) {
    EXPECT_EQ(found[n], n % 3 == 0 ? std::optional(n * n) : std::nullopt);
  }
  found.resize(999);
  expect_error(errc::invalid_argument, "999", [&] { squares.latest().find_many(keys, found); });
}

template <class K, class V>
void expect_columns(store& s, const std::map<K, V>& wanted) {
  map<K, V> typed(s);
  for (const auto& [key, value] : wanted) typed.insert(key, value);
  for (const unsigned threads : {1U, 3U}) {
    const auto columns = typed.latest().columns(threads);
    ASSERT_EQ(columns.keys.size(), wanted.size());
    std::size_t i = 0;
    for (const auto& [key, value] : wanted) {
      ASSERT_EQ(columns.keys[i], key);
      ASSERT_EQ(columns.values[i], value);
      ++i;
    }
    std::vector<V> only_values(wanted.size());
    EXPECT_EQ(typed.latest().extract({}, only_values, threads), wanted.size());
    EXPECT_EQ(only_values, columns.values);
    std::vector<K> only_keys(wanted.size());
    EXPECT_EQ(typed.latest().extract(only_keys, {}, threads), wanted.size());
    EXPECT_EQ(only_keys, columns.keys);
  }
  std::vector<K> keys(wanted.size());
  std::vector<V> values(wanted.size() - 1);
  expect_error(errc::invalid_argument, "", [&] { typed.latest().extract(keys, values); });
}

TEST_F(TypedMap, columns_of_doubles_come_out_decoded_and_in_order) {
  std::map<double, float> wanted;
  for (int i = -100'000; i < 100'000; ++i) wanted[i * 0.37] = static_cast<float>(i);
  expect_columns(store_, wanted);
}

TEST_F(TypedMap, columns_of_keys_that_are_smaller_encoded_than_in_memory_come_out_right) {
  static_assert(key_codec<std::pair<std::uint16_t, std::int64_t>>::size <
                sizeof(std::pair<std::uint16_t, std::int64_t>));
  std::map<std::pair<std::uint16_t, std::int64_t>, std::array<std::int32_t, 3>> wanted;
  for (int i = 0; i < 70'000; ++i) wanted[{static_cast<std::uint16_t>(i % 256), i - 35'000}] = {i, -i, 7};
  expect_columns(store_, wanted);
}

TEST_F(TypedMap, strings_are_views_into_the_pool) {
  map<std::string, std::string> words(store_);
  words.insert("layer1/bias", "0.5");
  words.insert("", "");
  const value found = words.find("layer1/bias").value();
  EXPECT_EQ(found, "0.5");
  EXPECT_EQ(found.data(), store_.find("layer1/bias")->data()) << "a string was copied";
  EXPECT_EQ(words.find(""), "");
  const auto present = words.latest();
  EXPECT_EQ(present.lower_bound("layer")->key, "layer1/bias");
}

TEST_F(TypedMap, enumerations_and_booleans_have_a_place) {
  map<layer, bool> frozen(store_);
  frozen.insert(layer::hidden, true);
  frozen.insert(layer::input, false);
  EXPECT_EQ(frozen.find(layer::hidden), true);
  EXPECT_EQ(frozen.find(layer::input), false);
  EXPECT_EQ(frozen.latest().first()->key, layer::input);
}

TEST_F(TypedMap, visits_come_with_types) {
  map<std::int32_t, std::int32_t> numbers(store_);
  for (std::int32_t n = -500; n < 500; ++n) numbers.insert(n, -n);
  std::atomic<std::int64_t> sum{0};
  numbers.latest().for_each([&](std::int32_t key, std::int32_t value) { sum += key * 1000 + value; }, 3);
  EXPECT_EQ(sum, -500'000 + 500);
}

TEST_F(TypedMap, keys_and_values_of_other_types_are_an_error_and_never_read_as_something_else) {
  store_.insert("12345", "123");
  map<std::uint64_t, std::uint64_t> wrong(store_);
  map<std::string, std::uint64_t> wrong_value(store_);
  wrong.insert(7, 7);
  expect_error(errc::invalid_argument, "3 bytes", [&] { static_cast<void>(wrong_value.find("12345")); });
  expect_error(errc::invalid_argument, "3 bytes",
               [&] { static_cast<void>(wrong_value.history_oldest_first("12345")); });
  expect_error(errc::invalid_argument, "5 bytes", [&] { static_cast<void>(wrong.latest().last()); });
  expect_error(errc::invalid_argument, "5 bytes", [&] {
    for (const auto& one : wrong.latest().range()) static_cast<void>(one);
  });
  expect_error(errc::invalid_argument, "5 bytes",
               [&] { wrong.latest().for_each([](std::uint64_t, std::uint64_t) {}, 2); });
  expect_error(errc::invalid_argument, "", [&] { static_cast<void>(wrong.latest().columns()); });
  EXPECT_EQ(wrong.find(7), 7U);
}

TEST_F(TypedMap, values_are_read_at_any_alignment) {
  struct alignas(32) wide {
    std::array<double, 4> lanes;
    bool operator==(const wide&) const = default;
  };
  map<std::string, wide> lanes(store_);
  for (std::size_t size = 0; size < 40; ++size) {
    lanes.insert(std::string(size, 'k'), wide{{1.0, 2.0, 3.0, static_cast<double>(size)}});
  }
  for (std::size_t size = 0; size < 40; ++size) {
    EXPECT_EQ(lanes.find(std::string(size, 'k'))->lanes[3], static_cast<double>(size));
  }
}

}  // namespace
}  // namespace icecore::testing
