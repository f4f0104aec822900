// The other process of killed_test.cpp.
//
//   wire_peer serve TRANSPORT            serves; tells its port on standard output
//   wire_peer serve_little TRANSPORT     the same, with the limits of settings_with_little_memory()
//   wire_peer call TRANSPORT PORT        calls without end; tells when the first answer was there
//   wire_peer flood TRANSPORT PORT       asks for long answers and takes none; tells when it has asked
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "wire_support.hpp"

int main(int count, char** arguments) {
  using namespace icecore::wire;
  using namespace icecore::wire::testing;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (count < 3) return 2;
  const std::string role = arguments[1];
  const transport way = std::string(arguments[2]) == "tcp" ? transport::tcp : transport::shared_memory;
  const auto tell = [](unsigned number) {
    std::printf("%u\n", number);
    std::fflush(stdout);
  };
  if (role.starts_with("serve")) {
    service answers;
    const server_endpoint server(role == "serve" ? settings_of_server(way) : settings_with_little_memory(way), answers);
    tell(server.address().port);
    for (;;) pause();
  }
  client_settings settings;
  settings.address = {.host = "127.0.0.1",
                      .port = static_cast<std::uint16_t>(std::atoi(count > 3 ? arguments[3] : "0"))};
  settings.token = job_token;
  settings.ucx.way = way;
  settings.background_progress = false;
  client_endpoint client(settings);
  if (role == "call") {
    for (unsigned calls = 0;; ++calls) {
      const std::size_t bytes = calls % 8 == 0 ? 300'000 : 40;
      if (client.call(echo, 0, pattern(bytes), soon()).how != outcome::answered) return 1;
      if (calls == 0) tell(0);
    }
  }
  // Progress is made only where a call waits, and none does: the answers stay where they are.
  for (int i = 0; i < 200; ++i)
    client.start(
        fill, 0, number(i % 2 == 0 ? 60'000 : 4'000), [](answer&&) {}, soon());
  tell(0);
  for (;;) pause();
}
