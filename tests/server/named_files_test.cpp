// Files that a configuration names, of which --check promises that a server starts with them.
#include "run/program/named_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "certificates.hpp"
#include "icecore/error.hpp"
#include "run/program/program.hpp"
#include "run/program/server.hpp"
#include "support/scratch.hpp"

namespace icecore::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class NamedFiles : public ::testing::Test {
 protected:
  NamedFiles() {
    const testing::certificate_authority authority("an authority");
    authority.write(folder_ / "ca");
    authority.sign("localhost", folder_ / "certificate", folder_ / "key");
    authority.sign("localhost", folder_ / "another", folder_ / "anothers-key");
    std::ofstream(folder_ / "empty");
    std::ofstream(folder_ / "short") << "seven77\n";
    std::ofstream(folder_ / "long") << "a token of 21 letters\n";
  }
  [[nodiscard]] file_reference file(const char* name) const { return {(folder_ / name).native()}; }
  [[nodiscard]] configuration good() const {
    configuration told;
    told.tls = {.certificate = file("certificate"), .key = file("key"), .client_ca = file("ca")};
    told.access = {
        .users = true, .initial_administrator_password_file = file("short"), .metrics_token_file = file("long")};
    told.ucx.token_file = file("long");
    return told;
  }
  static std::string problems_of(const configuration& told) {
    try {
      require_usable_files(told);
      return {};
    } catch (const error& wrong) {
      EXPECT_EQ(wrong.code(), errc::bad_input);
      return wrong.message();
    }
  }

  icecore::testing::scratch folder_{icecore::testing::place::tmpfs};
};

TEST_F(NamedFiles, that_can_be_used_are_no_problem) { EXPECT_THAT(problems_of(good()), IsEmpty()); }

TEST_F(NamedFiles, of_tls_are_certificates_and_their_key) {
  configuration told = good();
  told.tls.key = file("anothers-key");
  EXPECT_THAT(problems_of(told), AllOf(HasSubstr("anothers-key"), HasSubstr("key")));
  told.tls.key = file("certificate");
  EXPECT_THAT(problems_of(told), HasSubstr("the private key of"));
  told = good();
  told.tls.certificate = file("long");
  EXPECT_THAT(problems_of(told), HasSubstr("cannot be used as the server's certificate"));
  told = good();
  told.tls.client_ca = file("long");
  EXPECT_THAT(problems_of(told), HasSubstr("cannot be used as certificates of those who sign"));
}

TEST_F(NamedFiles, of_secrets_are_long_enough_and_all_problems_are_told) {
  configuration told = good();
  told.access.initial_administrator_password_file = file("empty");
  told.access.metrics_token_file = file("short");
  told.ucx.token_file = file("short");
  EXPECT_THAT(problems_of(told),
              AllOf(HasSubstr("access.initial_administrator_password_file: " + file("empty").given),
                    HasSubstr("\naccess.metrics_token_file: " + file("short").given),
                    HasSubstr("at least 16 bytes, and this has 7\n"),
                    HasSubstr("\nucx.token_file: " + file("short").given), HasSubstr("at least 8 bytes")));
}

TEST_F(NamedFiles, that_are_pipes_are_left_to_the_start) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  configuration told = good();
  told.access.initial_administrator_password_file = file("pipe");
  EXPECT_THAT(problems_of(told), IsEmpty());
}

TEST_F(NamedFiles, a_server_with_users_does_not_start_where_nobody_could_log_in) {
  configuration told;
  told.server.data = folder_ / "data";
  told.listen.grpc = {};
  told.listen.http = {"127.0.0.1", 0};
  told.access.users = true;
  log out({.file = folder_ / "log"});
  try {
    const running_server serving(told, out);
    FAIL();
  } catch (const error& refused) {
    EXPECT_EQ(refused.code(), errc::bad_input);
    EXPECT_THAT(refused.message(), HasSubstr("access.initial_administrator_password_file"));
  }
  told.access.initial_administrator_password_file = file("long");
  running_server(told, out).stop(std::chrono::steady_clock::now() + std::chrono::seconds(30));
  told.access.initial_administrator_password_file = {};
  EXPECT_NO_THROW(running_server(told, out).stop(std::chrono::steady_clock::now() + std::chrono::seconds(30)))
      << "root is there";
}

TEST_F(NamedFiles, a_server_of_a_dependent_group_is_not_started_alone) {
  configuration told;
  told.server.data = folder_ / "data";
  told.group = {.mode = group_mode::dependent, .name = "g"};
  try {
    static_cast<void>(serve(told, nullptr));
    FAIL();
  } catch (const error& refused) {
    EXPECT_EQ(refused.code(), errc::bad_input);
    EXPECT_THAT(refused.message(), HasSubstr("icecore-server-mpi"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "data"));
}

TEST_F(NamedFiles, are_looked_into_by_check_and_before_a_start) {
  const std::string data = folder_ / "data";
  const auto ends = [&](std::vector<const char*> more) {
    more.insert(more.begin(), {"icecore-server", "--data", data.c_str()});
    return run_program(
        static_cast<int>(more.size()), more.data(), [](const command_line&) { return 77; }, restore);
  };
  const std::string token = file("short").given;
  EXPECT_EQ(ends({}), 77);
  EXPECT_EQ(ends({"--ucx-token-file", token.c_str()}), 2);
  EXPECT_EQ(ends({"--ucx-token-file", token.c_str(), "--check"}), 2);
  EXPECT_EQ(ends({"--ucx-token-file", file("long").given.c_str(), "--check"}), 0);
}

TEST(Program, ends_with_two_where_the_folder_is_not_the_one_to_serve_or_to_make) {
  const std::vector<const char*> told{"icecore-server", "--data", "nowhere"};
  for (const errc why : {errc::other_cluster, errc::store_exists}) {
    const auto refuses = [why](const command_line&) -> int { throw error(why, "another place"); };
    EXPECT_EQ(run_program(static_cast<int>(told.size()), told.data(), refuses, restore), 2);
  }
}

}  // namespace
}  // namespace icecore::server
