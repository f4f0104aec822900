// Error codes: each has its own text, and the standard's condition if there is one.
#include "icecore/error.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <string>
#include <system_error>

#include "base/raise.hpp"

namespace icecore {
namespace {

constexpr int last_code = static_cast<int>(errc::not_owner);

TEST(error, every_code_has_a_text_of_its_own) {
  std::set<std::string> texts;
  for (int code = 1; code <= last_code; ++code) texts.insert(category().message(code));
  EXPECT_EQ(texts.size(), static_cast<std::size_t>(last_code));
  for (const std::string& text : texts) EXPECT_EQ(text.find("unknown icecore"), std::string::npos) << text;
  EXPECT_EQ(category().message(last_code + 1), "unknown icecore error " + std::to_string(last_code + 1));
  EXPECT_EQ(category().message(0), "unknown icecore error 0");
  EXPECT_STREQ(category().name(), "icecore");
}

TEST(error, compares_with_what_the_standard_calls_the_same) {
  EXPECT_EQ(make_error_code(errc::invalid_argument), std::errc::invalid_argument);
  EXPECT_EQ(make_error_code(errc::no_space), std::errc::no_space_on_device);
  EXPECT_EQ(make_error_code(errc::io), std::errc::io_error);
  EXPECT_EQ(make_error_code(errc::permission), std::errc::permission_denied);
  EXPECT_EQ(make_error_code(errc::no_such_store), std::errc::no_such_file_or_directory);
  EXPECT_EQ(make_error_code(errc::store_exists), std::errc::file_exists);
  EXPECT_EQ(make_error_code(errc::read_only), std::errc::read_only_file_system);
  const std::error_code damaged = errc::damaged;
  EXPECT_EQ(damaged.default_error_condition().category(), category()) << "the standard has none";
  EXPECT_NE(damaged, std::errc::io_error);
}

TEST(error, of_a_system_call_tells_call_place_and_reason) {
  const auto code_of = [](int number) {
    try {
      raise_errno(number, "fcntl", "some/where");
    } catch (const error& reported) {
      EXPECT_EQ(reported.message(), std::string("some/where: fcntl failed: ") + std::strerror(number));
      return static_cast<errc>(reported.code().value());
    }
  };
  for (const int number : {ENOSPC, EDQUOT, EFBIG}) EXPECT_EQ(code_of(number), errc::no_space);
  for (const int number : {EACCES, EPERM, EROFS}) EXPECT_EQ(code_of(number), errc::permission);
  for (const int number : {EIO, ENXIO, EINVAL}) EXPECT_EQ(code_of(number), errc::io);
}

}  // namespace
}  // namespace icecore
