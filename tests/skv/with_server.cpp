// Runs a program beside a server: with_server PROGRAM [ARGUMENT]... The program gets, behind its arguments, the name of
// a configuration file for SKV, and the server's address in the environment; its status is this program's.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "test_server.hpp"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: with_server PROGRAM [ARGUMENT]...\n", stderr);
    return 2;
  }
  test_server server;
  std::string folder = "/tmp/icecore-with-server-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return 2;
  const std::string address = server.host_and_port();
  const std::size_t colon = address.rfind(':');
  std::ofstream(folder + "/machines") << address.substr(0, colon) << ' ' << address.substr(colon + 1) << '\n';
  std::ofstream(folder + "/token") << test_server::token << '\n';
  std::string configuration = folder + "/skv_server.conf";
  std::ofstream(configuration) << "SKV_SERVER_MACHINE_FILE = " << folder << "/machines\nICECORE_TOKEN_FILE = " << folder
                               << "/token\n";
  setenv("ICECORE_ADDRESS", server.address().c_str(), 1);
  setenv("ICECORE_ADDRESS_TOKEN", test_server::token, 1);
  std::vector<char*> arguments(argv + 1, argv + argc);
  arguments.push_back(configuration.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  int status = 1;
  if (posix_spawnp(&child, argv[1], nullptr, nullptr, arguments.data(), environ) != 0 ||
      waitpid(child, &status, 0) != child) {
    std::perror(argv[1]);
  }
  std::filesystem::remove_all(folder);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
