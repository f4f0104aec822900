// One request of HTTP to a server of this machine, and all that it answers.
//
//   const std::string answer = http_get("127.0.0.1:7481", "/readyz");     // empty if nobody listens
//   http_get(address, "/metrics", "Authorization: Bearer TOKEN\r\n");
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>

namespace icecore::server::testing {

inline std::string http_get(const std::string& address, const std::string& path, const std::string& fields = {}) {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::string came;
  if (::connect(socket, reinterpret_cast<sockaddr*>(&where), sizeof where) == 0) {
    const std::string asked = "GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + fields + "\r\n";
    (void)!::send(socket, asked.data(), asked.size(), MSG_NOSIGNAL);
    std::array<char, 4096> some{};
    for (ssize_t n = 0; (n = ::recv(socket, some.data(), some.size(), 0)) > 0;) {
      came.append(some.data(), static_cast<std::size_t>(n));
    }
  }
  ::close(socket);
  return came;
}

}  // namespace icecore::server::testing
