// The C interface of icecore::remote: c_program.c against a server.
#include <gtest/gtest.h>

#include "test_server.hpp"

extern "C" int icecore_remote_c_test(const char* address, const char* token);

TEST(RemoteC, every_function_does_what_the_class_does) {
  test_server server;
  EXPECT_EQ(icecore_remote_c_test(server.address().c_str(), test_server::token), 0);
}
