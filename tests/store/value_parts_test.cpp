// Values that are given in parts are those that the parts make when they are joined, however long they are and wherever
// they are cut.
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "icecore/icecore.hpp"
#include "support/expect.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

std::string random_bytes(std::size_t size) {
  std::mt19937_64 random(size);
  std::string bytes(size, '\0');
  for (char& each : bytes) each = static_cast<char>(random());
  return bytes;
}

std::vector<std::string_view> cut(std::string_view whole, const std::vector<std::size_t>& sizes) {
  std::vector<std::string_view> parts;
  for (const std::size_t size : sizes) {
    parts.push_back(whole.substr(0, size));
    whole.remove_prefix(parts.back().size());
  }
  parts.push_back(whole);
  return parts;
}

class ValueParts : public ::testing::TestWithParam<setting> {
 protected:
  scratch folder_{GetParam().where};
  std::filesystem::path path_ = folder_ / "store.ice";
  [[nodiscard]] options opening() const { return GetParam().options_at(path_); }
};

TEST_P(ValueParts, are_joined_in_the_store_however_they_are_cut) {
  const std::vector<std::vector<std::size_t>> cuts = {{}, {0}, {1}, {128}, {128, 0, 4'097}, {3, 524'288, 524'287, 9}};
  const std::array sizes = {std::size_t{0}, std::size_t{100}, mebibyte - 1, mebibyte, 2 * mebibyte + 77};
  {
    store s(path_, opening());
    for (const std::size_t size : sizes) {
      const std::string whole = random_bytes(size);
      for (std::size_t c = 0; c < cuts.size(); ++c) {
        const std::string key = std::to_string(size) + " " + std::to_string(c);
        s.insert_parts(key, cut(whole, cuts[c]));  // a new key
        EXPECT_EQ(s.find(key)->bytes(), whole) << key;
        s.insert(key, "between");
        s.insert_parts(key, cut(whole, cuts[c]));  // and one that is there
        EXPECT_EQ(s.find(key)->bytes(), whole) << key;
      }
    }
    s.tag("all");
  }
  EXPECT_TRUE(verify_file(path_).ok());
  const store s(path_, opening());
  for (const std::size_t size : sizes) {
    const std::string whole = random_bytes(size);
    for (std::size_t c = 0; c < cuts.size(); ++c) {
      const std::string key = std::to_string(size) + " " + std::to_string(c);
      EXPECT_EQ(s.find(key)->bytes(), whole) << key;
      std::vector<std::string> written;
      for (const auto& [v, value] : s.history(key)) written.emplace_back(value.value_or("removed"));
      EXPECT_EQ(written, std::vector<std::string>({whole, "between", whole})) << key;
    }
  }
}

TEST_P(ValueParts, that_are_too_long_together_are_refused) {
  store s(path_, opening());
  const std::string_view much(reinterpret_cast<const char*>(this), std::size_t{1} << 31);  // not looked at
  const std::array parts = {much, much};
  expect_error(errc::value_too_large, "4294967296 bytes", [&] { s.insert_parts("key", parts); });
  expect_error(errc::key_too_long, "65536 bytes",
               [&] { s.insert_parts(std::string(65'536, 'k'), cut(random_bytes(mebibyte), {})); });
  EXPECT_FALSE(s.find("key"));
}

INSTANTIATE_TEST_SUITE_P(Stores, ValueParts,
                         ::testing::Values(setting{place::tmpfs, durability::none},
                                           setting{place::disk, durability::tag},
                                           setting{place::tmpfs, durability::operation, index_kind::persistent}),
                         [](const auto& one) { return one.param.name(); });

}  // namespace
}  // namespace icecore::testing
