// What the variables PAPYRUSKV_... mean to databases.
#include "environment.hpp"

#include <gmock/gmock.h>

#include "support/repository.hpp"

namespace icecore::testing {
namespace {

using papyruskv::read_environment;
using ::testing::HasSubstr;

TEST(Environment, of_which_nothing_is_set_leaves_all_as_usual) {
  const papyruskv::environment read = read_environment();
  EXPECT_EQ(read.group_size, 0);
  EXPECT_EQ(read.consistency, consistency::relaxed);
  EXPECT_EQ(read.staging_bytes, std::nullopt);
  EXPECT_EQ(read.cache_bytes, std::size_t{128} << 20);
  EXPECT_FALSE(read.force_redistribute);
  EXPECT_TRUE(read.destroy_repository);
}

TEST(Environment, variables_say_what_databases_are_like) {
  const variable group("PAPYRUSKV_GROUP_SIZE", "3");
  const variable mode("PAPYRUSKV_CONSISTENCY", "1");
  const variable buffer("PAPYRUSKV_REMOTE_BUFFER_SIZE", "1024");
  const variable size("PAPYRUSKV_CACHE_SIZE", "1000000");
  const variable redistributes("PAPYRUSKV_FORCE_REDISTRIBUTE", "1");
  const variable destroys("PAPYRUSKV_DESTROY_REPOSITORY", "0");
  const papyruskv::environment read = read_environment();
  EXPECT_EQ(read.group_size, 3);
  EXPECT_EQ(read.consistency, consistency::sequential);
  EXPECT_EQ(read.staging_bytes, 1024U);
  EXPECT_EQ(read.cache_bytes, 1'000'000U);
  EXPECT_TRUE(read.force_redistribute);
  EXPECT_FALSE(read.destroy_repository);
}

TEST(Environment, some_values_have_a_meaning_of_their_own) {
  const variable group("PAPYRUSKV_GROUP_SIZE", "-1");
  const variable mode("PAPYRUSKV_CONSISTENCY", "2");
  const variable size("PAPYRUSKV_CACHE_SIZE", "1000000");
  const variable buffer("PAPYRUSKV_REMOTE_BUFFER_SIZE", "");
  const variable redistributes("PAPYRUSKV_FORCE_REDISTRIBUTE", "0");
  EXPECT_EQ(read_environment().group_size, 1) << "each rank for itself";
  EXPECT_EQ(read_environment().consistency, consistency::relaxed);
  EXPECT_EQ(read_environment().staging_bytes, std::nullopt) << "empty is as not set";
  EXPECT_FALSE(read_environment().force_redistribute);
  EXPECT_EQ(read_environment().cache_bytes, 1'000'000U);
  const variable caches("PAPYRUSKV_CACHE_REMOTE", "0");
  EXPECT_EQ(read_environment().cache_bytes, 0U) << "whatever its size is";
}

TEST(Environment, what_a_variable_cannot_mean_is_an_error_that_names_it) {
  const struct {
    const char* name;
    const char* value;
  } wrong[] = {{"PAPYRUSKV_GROUP_SIZE", "-2"},        {"PAPYRUSKV_GROUP_SIZE", "2147483648"},
               {"PAPYRUSKV_CONSISTENCY", "both"},     {"PAPYRUSKV_CONSISTENCY", "0"},
               {"PAPYRUSKV_CONSISTENCY", "3"},        {"PAPYRUSKV_REMOTE_BUFFER_SIZE", "255"},
               {"PAPYRUSKV_CACHE_REMOTE", "yes"},     {"PAPYRUSKV_CACHE_SIZE", "-1"},
               {"PAPYRUSKV_CACHE_SIZE", "1k"},        {"PAPYRUSKV_FORCE_REDISTRIBUTE", "-1"},
               {"PAPYRUSKV_DESTROY_REPOSITORY", " 1"}};
  for (const auto& [name, value] : wrong) {
    const variable set(name, value);
    const thrown reported = error_of([] { static_cast<void>(read_environment()); });
    EXPECT_EQ(reported.code, errc::invalid_argument) << name << '=' << value;
    EXPECT_THAT(reported.message, HasSubstr(name));
  }
}

}  // namespace
}  // namespace icecore::testing
