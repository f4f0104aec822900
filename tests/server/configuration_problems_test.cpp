// What is wrong in a configuration is told with its place, what is allowed, and the nearest name that is known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "icecore/error.hpp"
#include "run/configuration/command_line.hpp"
#include "run/configuration/keys.hpp"
#include "run/configuration/reading.hpp"

namespace icecore::server {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// The message about this text; empty if nothing is wrong with it.
std::string problems(const std::string& toml) {
  try {
    configuration_reader reader;
    reader.read_text(toml, "test.toml");
    reader.check_contradictions();
    reader.require_no_problems();
    return {};
  } catch (const error& told) {
    EXPECT_EQ(told.code(), errc::bad_input);
    return told.message();
  }
}

std::string problems_of_flags(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "icecore-server");
  try {
    static_cast<void>(read_command_line(static_cast<int>(arguments.size()), arguments.data()));
    return {};
  } catch (const error& told) {
    return told.message();
  }
}

TEST(Problems, an_unknown_key_is_told_with_its_line_and_the_nearest_one) {
  EXPECT_EQ(problems("[limits]\n\nconections = 5\n"),
            "test.toml:3: there is no key limits.conections; is limits.connections meant?");
  EXPECT_EQ(problems("watchers = 5\n"), "test.toml:1: there is no key watchers; is limits.watchers meant?");
  EXPECT_EQ(problems("[limits]\nwholly_other_thing = 5\n"), "test.toml:2: there is no key limits.wholly_other_thing");
}

TEST(Problems, an_unknown_section_is_told_once) {
  EXPECT_EQ(problems("[limit]\nconnections = 5\nwatchers = 6\n"),
            "test.toml:1: there is no section [limit]; is [limits] meant?");
  EXPECT_EQ(problems("[server.name]\nx = 1\n"),
            "test.toml:1: there is no section [server.name]; is [server.log] meant?");
  EXPECT_EQ(problems("limits = 3\n"), "test.toml:1: there is no key limits; is the section [limits] meant?");
  EXPECT_EQ(problems("[[limits]]\nconnections = 3\n"),
            "test.toml:1: there is no key limits; is the section [limits] meant?");
  EXPECT_EQ(problems("[server]\nlog = \"text\"\n"),
            "test.toml:2: there is no key server.log; is the section [server.log] meant?");
}

TEST(Problems, a_wrong_type_is_told_with_what_is_allowed) {
  EXPECT_EQ(problems("[limits]\nconnections = \"many\"\n"),
            "test.toml:2: limits.connections = \"many\": it must be a whole number from 1 to 1000000");
  EXPECT_EQ(problems("[limits]\nconnections = \"5\"\n"),
            "test.toml:2: limits.connections = \"5\": it must be a whole number from 1 to 1000000");
  EXPECT_EQ(problems("[access]\nusers = \"true\"\n"), "test.toml:2: access.users = \"true\": it must be true or false");
  EXPECT_THAT(problems("[limits]\nread_limit = 30\n"),
              StartsWith("test.toml:2: limits.read_limit = 30: it must be a du"));
  EXPECT_THAT(problems("[server]\nname = ['a']\n"), StartsWith("test.toml:2: server.name = an array: it must be"));
  EXPECT_THAT(problems("[server]\nthreads = 1.5\n"), HasSubstr("a number with a fraction: it must be a whole number"));
  EXPECT_THAT(problems("[server]\nname = 2024-05-01\n"), HasSubstr("a date or time: it must be"));
}

TEST(Problems, every_key_refuses_values_of_other_types) {
  for (const key& k : keys()) {
    const char* const wrong = k.type == toml_type::boolean ? "1" : "true";
    EXPECT_EQ(problems("[" + std::string(k.section) + "]\n" + std::string(k.name) + " = " + wrong + "\n"),
              "test.toml:2: " + k.path() + " = " + wrong + ": it must be " + k.allowed);
  }
}

TEST(Problems, values_out_of_range_are_refused_and_bounds_are_not) {
  EXPECT_EQ(problems("[limits]\ntransaction_operations = 1\n"), "");
  EXPECT_EQ(problems("[limits]\ntransaction_operations = 1000000\n"), "");
  EXPECT_NE(problems("[limits]\ntransaction_operations = 0\n"), "");
  EXPECT_NE(problems("[limits]\ntransaction_operations = 1000001\n"), "");
  EXPECT_NE(problems("[limits]\ntransaction_operations = -1\n"), "");
  EXPECT_EQ(problems("[limits]\nrequest_bytes = \"64 KiB\"\n"), "");
  EXPECT_THAT(problems("[limits]\nrequest_bytes = 65535\n"),
              HasSubstr("limits.request_bytes = 65535: it must be a size from \"64 KiB\" to \"1 GiB\""));
  EXPECT_NE(problems("[limits]\nrequest_bytes = \"1025 MiB\"\n"), "");
  EXPECT_EQ(problems("[defaults]\nrule = \"every 1ms\"\n"), "");
  EXPECT_NE(problems("[defaults]\nrule = \"every 999us\"\n"), "");
  EXPECT_NE(problems("[defaults]\nrule = \"every\"\n"), "");
  EXPECT_NE(problems("[defaults]\nrule = \"sometimes\"\n"), "");
  EXPECT_THAT(problems("[defaults]\nindex = \"btre\"\n"),
              EndsWith("it must be \"btree\", \"skip_list\", \"persistent\", \"list\" or \"hash\""));
  EXPECT_NE(problems("[server]\nname = \"two words\"\n"), "");
  EXPECT_NE(problems("[server]\nname = \"" + std::string(65, 'a') + "\"\n"), "");
  EXPECT_NE(problems("[server]\ndata = \"a\\u0000b\"\n"), "");
}

TEST(Problems, what_a_message_shows_is_bounded_and_printable) {
  const std::string told = problems("[server]\nname = \"\\u001b[31m" + std::string(5'000, 'x') + "\"\n");
  EXPECT_LT(told.size(), 400U);
  EXPECT_THAT(told, AllOf(HasSubstr("\\u001b"), ::testing::Not(HasSubstr("\x1b"))));
  EXPECT_THAT(problems("\"a\\u001bb\" = 1\n"), ::testing::Not(HasSubstr("\x1b")));
}

TEST(Problems, all_are_told_at_once_up_to_twenty) {
  EXPECT_EQ(problems("[server]\nthreads = -1\n[access]\nusers = 3\n"),
            "test.toml:2: server.threads = -1: it must be a whole number from 0 to 1024\n"
            "test.toml:4: access.users = 3: it must be true or false");
  std::string many = "[limits]\n";
  for (int i = 0; i < 50; ++i) many += "key_" + std::to_string(i) + " = 1\n";
  EXPECT_THAT(problems(many), EndsWith("\nand 30 more"));
}

TEST(Problems, what_is_no_toml_is_told_with_its_line) {
  EXPECT_THAT(problems("[server]\nname = \n"), StartsWith("test.toml:2: "));
  EXPECT_THAT(problems("[server]\nname = \"a\"\nname = \"b\"\n"), StartsWith("test.toml:"));
  EXPECT_THAT(problems("[server]\nthreads = 99999999999999999999999\n"), StartsWith("test.toml:"));
  EXPECT_THAT(problems("[server\n"), StartsWith("test.toml:1: "));
  EXPECT_EQ(problems(std::string("\n\0", 2)), "test.toml:2: the control character 0x00, which TOML does not allow");
  EXPECT_EQ(problems("[server]\nname = 'a\xff'\n"), "test.toml:2: the byte 0xff is no UTF-8");
  EXPECT_EQ(problems("\xef\xbb\xbf[server]\r\nname = '\xc3\xa9'\r\n").find("UTF-8"), std::string::npos);
}

TEST(Problems, what_nests_deep_or_is_long_is_refused_before_it_is_parsed) {
  EXPECT_THAT(problems("x = " + std::string(60'000, '[')), StartsWith("test.toml:1: nested more than 16 deep"));
  std::string tables = "x = ";
  for (int i = 0; i < 10'000; ++i) tables += "{a=";
  EXPECT_THAT(problems(tables), StartsWith("test.toml:1: nested more than 16 deep"));
  std::string dots = "a";
  for (int i = 0; i < 20'000; ++i) dots += ".a";
  EXPECT_THAT(problems("\n" + dots + " = 1"), StartsWith("test.toml:2: nested more than 16 deep"));
  EXPECT_THAT(problems(std::string(70'000, '#')), HasSubstr("70000 bytes; a configuration has at most 65536"));
  // brackets and dots in strings and comments mean nothing
  EXPECT_EQ(problems("[server] # [[[[[[[[[[[[[[[[[[[[\ndata = \"[[[[[[[[[[[[[[[[[[[[\\\"[[[\"\n"), "");
  EXPECT_EQ(problems("[server]\ndata = '''\n[[[[[[[[[[[[[[[[[[[[['''\n").find("nested"), std::string::npos);
}

TEST(Problems, addresses_that_others_reach_need_tls_and_users) {
  const std::string open = "[listen]\ngrpc = \"0.0.0.0:7480\"\n";
  EXPECT_THAT(problems(open), AllOf(StartsWith("test.toml:2: listen.grpc = \"0.0.0.0:7480\": other machines"),
                                    HasSubstr("tls.certificate, tls.key and access.users = true")));
  const std::string tls = "[tls]\ncertificate = \"c\"\nkey = \"k\"\n";
  const std::string users = "[access]\nusers = true\n";
  EXPECT_NE(problems(open + tls), "");
  EXPECT_NE(problems(open + users), "");
  EXPECT_EQ(problems(open + tls + users), "");
  EXPECT_NE(problems("[listen]\nhttp = \"[::]:7481\"\n"), "");
  EXPECT_NE(problems("[listen]\nhttp = \"some.host:7481\"\n"), "");
  EXPECT_EQ(problems("[listen]\nhttp = \"localhost:7481\"\n"), "");
}

TEST(Problems, contradictions_name_both_sides) {
  EXPECT_THAT(problems("[tls]\ncertificate = \"c\"\n"), HasSubstr("tls.certificate = \"c\": its private key"));
  EXPECT_THAT(problems("[tls]\nkey = \"k\"\n"), HasSubstr("tls.key = \"k\": its certificate"));
  EXPECT_THAT(problems("[tls]\nclient_ca = \"k\"\n"), HasSubstr("tls.client_ca"));
  EXPECT_THAT(problems("[tls]\nrequire_client_certificate = true\n"), HasSubstr("tls.client_ca"));
  EXPECT_THAT(problems("[listen]\ngrpc = \"\"\n"), HasSubstr("no door is open for requests"));
  EXPECT_THAT(problems("[listen]\nhttp = \"127.0.0.1:7480\"\n"),
              HasSubstr("test.toml:2: listen.http = \"127.0.0.1:7480\": listen.grpc has the same address"));
  EXPECT_THAT(problems("[listen]\nucx = \"127.0.0.1:7482\"\n"), HasSubstr("ucx.token_file is needed"));
  const std::string many = "[listen]\nucx = \"127.0.0.1:7482\"\n[limits]\nconnections = ";
  EXPECT_THAT(problems(many + "65536\n"), HasSubstr("limits.connections = 65536: with the door for UCX"));
  EXPECT_THAT(problems(many + "65535\n"), Not(HasSubstr("limits.connections")));
  EXPECT_THAT(problems("[limits]\nconnections = 65536\n"), Not(HasSubstr("limits.connections")));
  EXPECT_THAT(problems("[group]\nmode = \"independent\"\n"), HasSubstr("group.name is needed"));
  EXPECT_THAT(problems("[group]\nmode = \"independent\"\nname = \"g\"\nindex = 2\nsize = 2\n"),
              HasSubstr("test.toml:4: group.index = 2: it must be less than group.size, 2"));
  EXPECT_THAT(problems("[group]\nmode = \"dependent\"\nname = \"g\"\nsize = 2\n"), HasSubstr("where MPI says it"));
  EXPECT_THAT(problems("[group]\nindex = 0\n"), HasSubstr("mode \"independent\" alone"));
  EXPECT_EQ(problems("[limits]\nrequest_bytes = \"64 MiB\"\nin_flight_bytes = \"32 MiB\"\n"),
            "test.toml:2: limits.request_bytes = \"64 MiB\": it must be at most limits.in_flight_bytes = \"32 MiB\"");
  EXPECT_THAT(problems("[limits]\nin_flight_bytes = \"32 MiB\"\n"), StartsWith("default: limits.request_bytes"));
  EXPECT_THAT(problems("[limits]\nconnections = 5\nconnections_per_user = 6\n"), HasSubstr("limits.connections = 5"));
  EXPECT_THAT(problems("[access]\ninitial_administrator_password_file = \"p\"\n"), HasSubstr("access.users = true"));
  EXPECT_THAT(problems("[access]\nmetrics_token_file = \"p\"\n"), HasSubstr("access.users = true"));
}

TEST(Problems, of_flags_name_the_flag) {
  EXPECT_EQ(problems_of_flags({"--limits-conections=5"}),
            "there is no flag --limits-conections; is --limits-connections meant?; --help lists them");
  EXPECT_EQ(problems_of_flags({"--data", "/tmp", "--limits-connections", "0"}),
            "--limits-connections: limits.connections = \"0\": it must be a whole number from 1 to 1000000");
  EXPECT_THAT(problems_of_flags({"--limits-connections"}), HasSubstr("--limits-connections"));
  EXPECT_THAT(problems_of_flags({"--data", "/tmp", "--data", "/tmp"}), HasSubstr("--data"));
  EXPECT_THAT(problems_of_flags({"extra"}), HasSubstr("extra"));
  EXPECT_THAT(problems_of_flags({}), HasSubstr("give --data FOLDER"));
}

TEST(Problems, files_that_cannot_be_read_are_named) {
  EXPECT_THAT(problems_of_flags({"-c", "/nowhere/icecore.toml"}),
              StartsWith("/nowhere/icecore.toml: cannot be opened"));
  EXPECT_THAT(problems_of_flags({"-c", "/tmp"}), StartsWith("/tmp: a folder"));
  EXPECT_THAT(problems_of_flags({"-c", "/dev/zero"}), StartsWith("/dev/zero: more than 65536 bytes"));
}

}  // namespace
}  // namespace icecore::server
