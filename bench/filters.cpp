// What an expression costs for each row: icecore_filter_costs [EXPRESSION]... prints ns a row, of rows that are in the
// cache.
//
// Without expressions: one of each kind of operator. The median of 21 runs; half of the rows match most conditions.
#include <fmt/format.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "filter/program.hpp"
#include "measure.hpp"

namespace {

using namespace icecore;

constexpr std::size_t row_count = 4096;

struct table {
  std::vector<std::string> key_bytes, value_bytes;
  std::vector<std::string_view> keys, values;
  std::vector<version> versions;

  table() {
    bench::random_numbers random(1);
    for (std::size_t i = 0; i < row_count; ++i) {
      const double price = static_cast<double>(random.below(200));
      const auto qty = static_cast<std::uint32_t>(random.below(100));
      const std::uint64_t number = random.below(1000);
      std::string value(20, '\0');
      std::memcpy(value.data(), &price, 8);
      std::memcpy(value.data() + 8, &qty, 4);
      std::memcpy(value.data() + 12, &number, 8);
      value +=
          fmt::format(R"({{"name": "customer {}", "city": {{"zip": [{}, {}]}}}})", random.below(1000), qty, number);
      key_bytes.push_back(fmt::format("{}/{:08}", i % 2 == 0 ? "eu" : "us", i));
      value_bytes.push_back(std::move(value));
      versions.push_back(i);
    }
    keys.assign(key_bytes.begin(), key_bytes.end());
    values.assign(value_bytes.begin(), value_bytes.end());
  }

  /// How many rows match.
  [[nodiscard]] std::size_t count(const detail::filter_program& program, detail::scratch& memory) const {
    std::size_t found = 0;
    for (std::size_t at = 0; at < row_count; at += detail::rows_max) {
      const detail::rows block{
          .size = detail::rows_max, .keys = &keys[at], .values = &values[at], .versions = &versions[at]};
      found += static_cast<std::size_t>(std::popcount(program.test(block, memory)));
    }
    return found;
  }
};

void measure(const table& rows, const std::string& text) {
  const layout columns("price f64, qty u32, number u64, text bytes");
  const filter made(text, columns);
  detail::scratch memory;
  std::vector<double> ns;
  std::size_t found = rows.count(made.program(), memory);
  for (int run = 0; run < 21; ++run) {
    constexpr int times = 20;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i) found += rows.count(made.program(), memory);
    ns.push_back(bench::seconds_since(begin) * 1e9 / times / row_count);
  }
  const double matching = static_cast<double>(found) / row_count / (1 + 21 * 20);
  fmt::print("{:>8.2f} ns  {:>5.1f} %  {}\n", bench::median(ns), 100 * matching, text);
}

}  // namespace

int main(int count, char** arguments) {
  const table rows;
  std::vector<std::string> texts(arguments + 1, arguments + count);
  if (texts.empty()) {
    texts = {"true",
             "price > 100.0",
             "qty < 50",
             "number >= 500",
             "version > 2048",
             "qty > price",
             "number > qty",
             "price * 2 > 200",
             "number + 1 > 500",
             "number * qty > 10000",
             "number / qty > 10",
             "number & 1 = 1",
             "number >> 1 > 250",
             "-number < -500",
             "number between 250 and 750",
             "number in (1, 5, 7, 100, 500)",
             "price > 100 and qty < 50",
             "price > 100 or qty < 50",
             "if(qty < 50, price, 0.0) > 100",
             "i64(price) > 100",
             "f64(number) > 500",
             "key > 'eu/9'",
             "starts_with(key, 'eu/')",
             "length(text) > 50",
             "text like '%customer 1%'",
             "text like '{\"name\": \"customer 1%'",
             "text like '%a_m%z%'",
             "text ~ 'customer 1'",
             "text ~ 'customer [0-9]+7\"'",
             "json(text, 'city.zip[0]') > 50",
             "price > 190 and json(text, 'city.zip[0]') > 50"};
  }
  for (const std::string& text : texts) measure(rows, text);
  return 0;
}
