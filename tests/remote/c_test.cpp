// The C interface of icecore::remote: c_program.c against a server, c_group_program.c against two independent ones.
#include <gtest/gtest.h>

#include "test_server.hpp"

extern "C" int icecore_remote_c_test(const char* address, const char* token);
extern "C" int icecore_remote_c_group_test(const char* addresses, const char* token);

TEST(RemoteC, every_function_does_what_the_class_does) {
  test_server server;
  EXPECT_EQ(icecore_remote_c_test(server.address().c_str(), test_server::token), 0);
}

TEST(RemoteC, differences_changes_and_watches_of_independent_servers_are_merged) {
  test_server a({.name = "g", .index = 0, .size = 2});
  test_server b({.name = "g", .index = 1, .size = 2});
  const std::string both = a.address() + "," + b.host_and_port();
  EXPECT_EQ(icecore_remote_c_group_test(both.c_str(), test_server::token), 0);
}
