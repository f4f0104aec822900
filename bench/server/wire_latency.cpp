// What the frames over UCX cost: an echo server in a process of its own, one client; round trips a second, one at a
// time and many under way, and the rate of answers of 128 KiB.
//
//   build/release/bench/server/wire_latency [shared_memory|tcp|automatic] [SECONDS] [RUNS]
//
// Beside it run ucx_perftest, which measures UCX alone (a round trip is twice its latency):
//   ucx_perftest -t am_lat -s 32 & sleep 1; ucx_perftest localhost -t am_lat -s 32            with UCX_TLS=posix or tcp
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "wire/client/client_endpoint.hpp"
#include "wire/format/fields.hpp"
#include "wire/server/server_endpoint.hpp"

namespace {

using namespace icecore::wire;
using clock_type = std::chrono::steady_clock;

constexpr std::uint16_t echo_operation = 1;
constexpr std::uint16_t fill_operation = 2;  // answers with as many bytes as the request says

class service final : public frame_handler {
  admission admit(const hello&, const std::string&) override { return {.accepted = true}; }
  void on_warning(const std::string& text) override {
    std::fprintf(stderr, "wire_latency: server: %s\n", text.c_str());
  }
  void on_request(request&& asked) override {
    if (asked.operation() == echo_operation) return asked.answer(status_ok, byte_buffer(asked.payload()));
    std::uint32_t bytes = 0;
    if (!field_reader(asked.payload()).u32(bytes)) return asked.answer(1);
    byte_buffer filled(bytes);
    std::memset(filled.data(), 0x5A, bytes);
    asked.answer(status_ok, std::move(filled));
  }
};

void serve(transport way, int port_to) {
  service echo;
  server_settings settings;
  settings.token = "the token of a benchmark";
  settings.ucx.way = way;
  server_endpoint server(settings, echo);
  const std::uint16_t port = server.address().port;
  if (write(port_to, &port, sizeof port) != sizeof port) std::_Exit(1);
  for (;;) pause();
}

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "wire_latency: %s\n", what);
  std::exit(1);
}

double measure(double seconds, const auto& one_round) {
  std::uint64_t done = 0;
  const auto begin = clock_type::now();
  double passed = 0;
  while (passed < seconds) {
    for (int i = 0; i < 64; ++i) done += one_round();
    passed = std::chrono::duration<double>(clock_type::now() - begin).count();
  }
  return static_cast<double>(done) / passed;
}

void report(const char* what, std::vector<double> rates) {
  std::sort(rates.begin(), rates.end());
  std::printf("%-34s %12.0f  (least %.0f, most %.0f)\n", what, rates[rates.size() / 2], rates.front(), rates.back());
}

}  // namespace

int main(int count, char** arguments) {
  const std::string named = count > 1 ? arguments[1] : "shared_memory";
  const double seconds = count > 2 ? std::atof(arguments[2]) : 1;
  const int runs = count > 3 ? std::atoi(arguments[3]) : 5;
  const transport way = named == "tcp"         ? transport::tcp
                        : named == "automatic" ? transport::automatic
                                               : transport::shared_memory;
  if ((named != "tcp" && named != "automatic" && named != "shared_memory") || seconds <= 0 || runs <= 0) {
    std::fprintf(stderr, "usage: wire_latency [shared_memory|tcp|automatic] [SECONDS] [RUNS]\n");
    return 2;
  }
  int port_pipe[2];
  if (pipe(port_pipe) != 0) fail("pipe failed");
  const pid_t server = fork();
  if (server == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    serve(way, port_pipe[1]);
  }
  std::uint16_t port = 0;
  if (read(port_pipe[0], &port, sizeof port) != sizeof port) fail("the server did not start");
  {
    client_settings settings;
    settings.address = {.host = "127.0.0.1", .port = port};
    settings.token = "the token of a benchmark";
    settings.ucx.way = way;
    client_endpoint client(settings);
    const std::vector<std::byte> pair(24);
    const auto never = steady_time::max();
    std::vector<double> calls, pipelined, filled;
    for (int run = 0; run < runs; ++run) {
      calls.push_back(measure(seconds, [&] {
        if (client.call(echo_operation, 0, byte_buffer(pair), never).how != outcome::answered) fail("no answer");
        return 1U;
      }));
      pipelined.push_back(measure(seconds, [&] {
        for (int i = 0; i < 256; ++i)
          client.start(
              echo_operation, 0, byte_buffer(pair), [](answer&&) {}, never);
        if (!client.drain(never)) fail("no answers");
        return 256U;
      }));
      byte_buffer wanted;
      field_writer(wanted).u32(131'072);
      filled.push_back(measure(seconds, [&] {
        for (int i = 0; i < 8; ++i)
          client.start(
              fill_operation, 0, byte_buffer(wanted.view()), [](answer&&) {}, never);
        if (!client.drain(never)) fail("no answers");
        return 8U;
      }));
    }
    std::printf("%s\n", named.c_str());
    report("calls of 24 bytes, one client, /s", calls);
    report("256 of 24 bytes under way, /s", pipelined);
    for (double& rate : filled) rate *= 131'072 / 1e6;
    report("answers of 128 KiB, 8 at a time, MB/s", filled);
  }
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
}
