// The configuration of a server: what is written is read, flags override the file, and what is generated is up to date.
#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "icecore/error.hpp"
#include "run/configuration/command_line.hpp"
#include "run/configuration/keys.hpp"
#include "run/configuration/reading.hpp"

namespace icecore::server {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

command_line read(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "icecore-server");
  return read_command_line(static_cast<int>(arguments.size()), arguments.data());
}

configuration read_back(const std::string& toml) {
  configuration_reader reader;
  reader.read_text(toml, "test.toml");
  reader.require_no_problems();
  return reader.result();
}

std::string content(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::stringstream all;
  all << in.rdbuf();
  return all.str();
}

TEST(Units, sizes_are_read_and_written) {
  EXPECT_EQ(parse_bytes("0"), 0U);
  EXPECT_EQ(parse_bytes("512"), 512U);
  EXPECT_EQ(parse_bytes("64 MiB"), 64U << 20);
  EXPECT_EQ(parse_bytes("64MiB"), 64U << 20);
  EXPECT_EQ(parse_bytes("18446744073709551615"), ~std::uint64_t{0});
  for (const char* wrong : {"", " ", "MiB", "-1", "+1", "1.5 GiB", "64 MB", "64  MiB", " 64 MiB", "64 MiB ", "64 mib",
                            "18446744073709551616", "16777216 TiB", "0x10"}) {
    EXPECT_EQ(parse_bytes(wrong), std::nullopt) << wrong;
  }
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1536), "1536 B");
  EXPECT_EQ(bytes_text(std::uint64_t{3} << 40), "3 TiB");
}

TEST(Units, durations_are_read_and_written) {
  EXPECT_EQ(parse_duration("250 ms"), 250ms);
  EXPECT_EQ(parse_duration("1s"), 1s);
  EXPECT_EQ(parse_duration("2 min"), 2min);
  EXPECT_EQ(parse_duration("0 s"), 0s);
  for (const char* wrong : {"", "1", "s", "-1 s", "1.5 s", "1 S", "1 d", "9223372036854775808 us", "9223372036855 s"}) {
    EXPECT_EQ(parse_duration(wrong), std::nullopt) << wrong;
  }
  EXPECT_EQ(duration_text(0s), "0 s");
  EXPECT_EQ(duration_text(90s), "90 s");
  EXPECT_EQ(duration_text(120s), "2 min");
}

TEST(Units, addresses_are_read_and_written) {
  EXPECT_EQ(parse_address("127.0.0.1:7480"), (network_address{"127.0.0.1", 7480}));
  EXPECT_EQ(parse_address("[::1]:0"), (network_address{"::1", 0}));
  EXPECT_EQ(parse_address("node-7.example:65535"), (network_address{"node-7.example", 65535}));
  for (const char* wrong : {"", ":", ":80", "host", "host:", "host:65536", "host:-1", "host:8 0", "::1:80", "[::1]",
                            "[::1:80", "[x]:80", "[127.0.0.1]:80", "ho st:80", "ho\nst:80", "unix:/tmp/x"}) {
    EXPECT_EQ(parse_address(wrong), std::nullopt) << wrong;
  }
  EXPECT_EQ((network_address{"::1", 80}.text()), "[::1]:80");
  for (const char* inside : {"127.0.0.1:1", "127.255.0.9:1", "[::1]:1", "localhost:1"}) {
    EXPECT_TRUE(parse_address(inside)->is_loopback()) << inside;
  }
  for (const char* outside : {"0.0.0.0:1", "[::]:1", "128.0.0.1:1", "localhost.example:1", "127.0.0.1.example:1",
                              "[::ffff:127.0.0.1]:1", "2130706433:1"}) {
    EXPECT_FALSE(parse_address(outside)->is_loopback()) << outside;
  }
}

RC_GTEST_PROP(Units, what_is_written_is_read_as_the_same, (std::uint64_t bytes, std::uint64_t duration)) {
  RC_ASSERT(parse_bytes(bytes_text(bytes)) == bytes);
  const std::chrono::microseconds time(duration >> 1U);
  RC_ASSERT(parse_duration(duration_text(time)) == time);
}

TEST(Configuration, the_defaults_are_those_that_are_documented) {
  const configuration c = read_back("");
  EXPECT_EQ(c, configuration{});
  EXPECT_EQ(c.listen.grpc.text(), "127.0.0.1:7480");
  EXPECT_EQ(c.listen.http.text(), "127.0.0.1:7481");
  EXPECT_TRUE(c.listen.ucx.empty());
  EXPECT_EQ(c.limits.connections, 10'000U);
  EXPECT_EQ(c.limits.before_login_bytes, 4096U);
  EXPECT_EQ(c.defaults.rule, (version_rule_setting{version_rule_setting::kind::every, 1s}));
  EXPECT_EQ(c.defaults.durability, durability::best_available);
}

TEST(Configuration, a_file_sets_every_kind_of_value) {
  const configuration c = read_back(R"(
[server]
data = "/srv/ice \"1\"\\"
threads = 4
log = {format = "text", level = "debug", file = "/var/log/icecore.log"}
[listen]
grpc = "[::1]:0"
http = ""
[access]
users = true
[limits]
request_bytes = 1048576           # an integer is bytes
in_flight_bytes = "1 TiB"
read_limit = "1500 ms"
[defaults]
rule = "every 250 ms"
index = "hash"
durability = "tag"
)");
  EXPECT_EQ(c.server.data, "/srv/ice \"1\"\\");
  EXPECT_EQ(c.server.threads, 4U);
  EXPECT_EQ(c.log.format, log_format::text);
  EXPECT_EQ(c.log.level, log_level::debug);
  EXPECT_EQ(c.log.file, "/var/log/icecore.log");
  EXPECT_EQ(c.listen.grpc, (network_address{"::1", 0}));
  EXPECT_TRUE(c.listen.http.empty());
  EXPECT_TRUE(c.access.users);
  EXPECT_EQ(c.limits.request_bytes, 1U << 20);
  EXPECT_EQ(c.limits.in_flight_bytes, std::uint64_t{1} << 40);
  EXPECT_EQ(c.limits.read_limit, 1500ms);
  EXPECT_EQ(c.defaults.rule, (version_rule_setting{version_rule_setting::kind::every, 250ms}));
  EXPECT_EQ(c.defaults.index, index_kind::hash);
  EXPECT_EQ(c.defaults.durability, durability::tag);
}

RC_GTEST_PROP(Configuration, what_is_printed_is_read_as_the_same, ()) {
  const auto letters = [] {
    return *rc::gen::container<std::string>(rc::gen::elementOf(std::string("ab/.\"\\' #[]=-\xc3\xa9")));
  };
  configuration c;
  // a character of two bytes may be cut by chance: such a text is refused, and is not what this is about
  std::string text = letters();
  if (!find_key("server.data")->set(c, text)) text.clear();
  const auto below = [](std::uint64_t bound) { return *rc::gen::inRange<std::uint64_t>(0, bound); };
  c.server.threads = static_cast<unsigned>(below(1025));
  c.server.shutdown_limit = std::chrono::microseconds(below(3'000'000'000) + 100'000);
  c.limits.request_bytes = (64U << 10) + below(1U << 29);
  c.limits.free_disk_bytes = below(std::uint64_t{1} << 50);
  c.tls.require_client_certificate = *rc::gen::arbitrary<bool>();
  c.log.level = *rc::gen::element(log_level::debug, log_level::info, log_level::warning, log_level::error);
  c.defaults.rule = *rc::gen::element(version_rule_setting{version_rule_setting::kind::write, {}},
                                      version_rule_setting{version_rule_setting::kind::tag, {}},
                                      version_rule_setting{version_rule_setting::kind::every, 86400s},
                                      version_rule_setting{version_rule_setting::kind::every, 1234567us});
  RC_ASSERT(read_back(configuration_toml(c, toml_style::plain)) == c);
}

TEST(Configuration, every_key_takes_back_the_text_of_its_default) {
  for (const key& k : keys()) {
    configuration c;
    EXPECT_TRUE(k.set(c, k.text(configuration{}))) << k.path();
    EXPECT_EQ(c, configuration{}) << k.path();
    EXPECT_NE(section_purpose(k.section), "") << k.section;
    EXPECT_EQ(find_key(k.path()), &k);
  }
}

TEST(CommandLine, every_key_has_a_flag_that_overrides_the_file) {
  const std::string file = ::testing::TempDir() + "icecore_overrides.toml";
  std::ofstream(file) << "[server]\nname = 'of-the-file'\n[limits]\nwatchers = 7\nconnections = 8\n";
  const command_line told = read({"-c", file.c_str(), "--limits-connections", "9", "--log-level=debug", "--listen-http",
                                  "", "--listen-grpc", "localhost:0", "--data", "/tmp", "--access-users", "false"});
  EXPECT_EQ(told.action, command_line::kind::run);
  EXPECT_EQ(told.configuration.server.name, "of-the-file");
  EXPECT_EQ(told.configuration.limits.watchers, 7U);
  EXPECT_EQ(told.configuration.limits.connections, 9U);
  EXPECT_EQ(told.configuration.log.level, log_level::debug);
  EXPECT_TRUE(told.configuration.listen.http.empty());
  EXPECT_EQ(told.configuration.server.data, "/tmp");
  std::filesystem::remove(file);
  std::set<std::string> flags;
  for (const key& k : keys()) EXPECT_TRUE(flags.insert(k.flag()).second) << k.flag();
}

TEST(CommandLine, help_names_every_flag_and_its_default) {
  const command_line told = read({"--help"});
  EXPECT_EQ(told.action, command_line::kind::help);
  for (const key& k : keys()) EXPECT_THAT(told.output, HasSubstr(k.flag() + " "));
  EXPECT_THAT(read({"--version"}).output, ::testing::StartsWith("icecore-server "));
}

TEST(CommandLine, the_printed_configuration_is_the_effective_one) {
  const command_line told = read({"--print-configuration", "--limits-watchers", "12", "--defaults-rule", "write"});
  EXPECT_EQ(told.action, command_line::kind::print_configuration);
  const configuration again = read_back(told.output);
  EXPECT_EQ(again.limits.watchers, 12U);
  EXPECT_EQ(again.defaults.rule.when, version_rule_setting::kind::write);
  EXPECT_EQ(again, told.configuration);
}

TEST(CommandLine, check_looks_at_the_folder_and_the_files) {
  EXPECT_EQ(read({"--check", "--data", "/tmp"}).action, command_line::kind::check);
  try {
    static_cast<void>(read({"--check", "--ucx-token-file", "/nowhere/token", "--data", "/dev/null"}));
    FAIL() << "the file is not there";
  } catch (const error& told) {
    EXPECT_THAT(told.message(), HasSubstr("--ucx-token-file: ucx.token_file = \"/nowhere/token\": /nowhere/token"));
    EXPECT_THAT(told.message(), HasSubstr("--data: server.data = \"/dev/null\": not a folder"));
  }
}

TEST(Credentials, are_files_of_the_folder_that_systemd_names) {
  configuration c;
  ASSERT_TRUE(find_key("tls.key")->set(c, "credential:server.key"));
  unsetenv("CREDENTIALS_DIRECTORY");
  EXPECT_THROW(static_cast<void>(c.tls.key.path()), error);
  setenv("CREDENTIALS_DIRECTORY", "/run/credentials/icecore-server.service", 1);
  EXPECT_EQ(c.tls.key.path(), "/run/credentials/icecore-server.service/server.key");
  unsetenv("CREDENTIALS_DIRECTORY");
  for (const char* outside : {"credential:", "credential:..", "credential:../key", "credential:/etc/passwd"}) {
    EXPECT_FALSE(find_key("tls.key")->set(c, outside)) << outside;
  }
}

TEST(Reference, the_page_has_the_table_of_all_keys) {
  EXPECT_THAT(content(ICECORE_SOURCES "/docs/server.md"), HasSubstr(reference_table()))
      << "put the output of `icecore_server_reference table` into docs/server.md";
}

TEST(Reference, the_sample_that_packages_install_has_every_key) {
  const std::string sample = content(ICECORE_SOURCES "/packaging/icecore.toml");
  EXPECT_EQ(sample, sample_configuration()) << "write the output of `icecore_server_reference sample` there";
  configuration packaged;
  packaged.server.data = "/var/lib/icecore";
  EXPECT_EQ(read_back(sample), packaged);
  for (const key& k : keys()) EXPECT_THAT(sample, HasSubstr(std::string(k.name) + " = ")) << k.path();
}

TEST(Reference, the_manual_names_every_key) {
  const std::string page = manual_page();
  for (const key& k : keys()) EXPECT_THAT(page, HasSubstr("\\fB" + std::string(k.name) + "\\fR = "));
}

}  // namespace
}  // namespace icecore::server
