#include "wire/transport/control_socket.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "wire/transport/failure.hpp"

namespace icecore::wire {

namespace {

using addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

std::string text_of(const socket_address& address) { return address.host + ":" + std::to_string(address.port); }

std::string reason_of(int error) { return std::generic_category().message(error); }

addresses resolve(const socket_address& address, int flags) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &wanted, &found);
  if (failed != 0) throw failure("the address " + text_of(address) + " is unknown: " + gai_strerror(failed));
  return {found, &freeaddrinfo};
}

void set_option(int socket, int level, int option, int value) noexcept {
  static_cast<void>(
      setsockopt(socket, level, option, &value, sizeof value));  // an option that is missing costs speed only
}

}  // namespace

descriptor::~descriptor() {
  if (number_ >= 0) ::close(number_);
}

socket_address parse_address(const std::string& text) {
  socket_address address;
  const std::size_t colon = text.rfind(':');
  const bool bracketed = text.starts_with('[') && colon != std::string::npos && colon > 0 && text[colon - 1] == ']';
  if (colon != std::string::npos) address.host = bracketed ? text.substr(1, colon - 2) : text.substr(0, colon);
  const char* const begin = text.data() + std::min(colon + 1, text.size());
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, address.port);
  if (colon == std::string::npos || address.host.empty() || error != std::errc() || stop != end ||
      (!bracketed && address.host.find(':') != std::string::npos)) {
    throw failure("'" + text + "' is no address: write host:port, or [address]:port for IPv6");
  }
  return address;
}

wake_up::wake_up() : event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!event_) throw failure("eventfd: " + reason_of(errno));
}

void wake_up::ring() const noexcept {
  const std::uint64_t one = 1;  // full: whoever is to be woken has not even read the last ones
  static_cast<void>(!::write(event_.number(), &one, sizeof one));
}

void wake_up::silence() const noexcept {
  std::uint64_t count = 0;
  static_cast<void>(!::read(event_.number(), &count, sizeof count));
}

int milliseconds_until(steady_time deadline, int at_most_ms) noexcept {
  const auto rest = deadline - std::chrono::steady_clock::now();
  if (rest <= rest.zero()) return 0;
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(rest).count();
  return static_cast<int>(std::min<std::int64_t>(ms, at_most_ms));
}

descriptor listen_at(socket_address& address) {
  const addresses found = resolve(address, AI_PASSIVE);
  int error = 0;
  for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    descriptor socket(::socket(each->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (socket) set_option(socket.number(), SOL_SOCKET, SO_REUSEADDR, 1);
    if (!socket || ::bind(socket.number(), each->ai_addr, each->ai_addrlen) != 0 ||
        ::listen(socket.number(), 128) != 0) {
      error = errno;
      continue;
    }
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    if (getsockname(socket.number(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
      throw failure("getsockname: " + reason_of(errno));
    }
    address.port = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                                     : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
    return socket;
  }
  throw failure("cannot listen at " + text_of(address) + ": " + reason_of(error));
}

control_socket::control_socket(descriptor socket) : socket_(std::move(socket)) {
  const int flags = fcntl(number(), F_GETFL);
  if (flags < 0 || fcntl(number(), F_SETFL, flags | O_NONBLOCK) < 0) throw failure("fcntl: " + reason_of(errno));
  set_option(number(), IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(number(), SOL_SOCKET, SO_KEEPALIVE, 1);  // after 10 s of silence a probe each 3 s, three of them
  set_option(number(), IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set_option(number(), IPPROTO_TCP, TCP_KEEPINTVL, 3);
  set_option(number(), IPPROTO_TCP, TCP_KEEPCNT, 3);
  set_option(number(), IPPROTO_TCP, TCP_USER_TIMEOUT, 20'000);
}

std::string control_socket::peer() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (getpeername(number(), reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "an unknown address";
  }
  return std::string(host) + ":" + port;
}

read_state control_socket::read_some(std::size_t body_bytes_max) {
  const std::size_t most = record_header_bytes + body_bytes_max;
  while (bytes_.size() < most) {
    std::byte piece[4096];
    const ssize_t count = ::recv(number(), piece, std::min(sizeof piece, most - bytes_.size()), 0);
    if (count > 0) {
      bytes_.append(std::span(piece, static_cast<std::size_t>(count)));
    } else if (count == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
      return read_state::ended;
    } else {
      break;
    }
  }
  return read_state::open;
}

void control_socket::consume(std::size_t record_bytes) {
  byte_buffer rest(bytes_.view().subspan(std::min(record_bytes, bytes_.size())));
  bytes_ = std::move(rest);
}

bool control_socket::write_now(std::span<const std::byte> bytes) noexcept {
  if (!socket_) return false;
  const ssize_t count = ::send(number(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return count == static_cast<ssize_t>(bytes.size());
}

bool control_socket::write_all(std::span<const std::byte> bytes, steady_time deadline) noexcept {
  while (!bytes.empty()) {
    const ssize_t count = ::send(number(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(count));
      continue;
    }
    if (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return false;
    pollfd writable{number(), POLLOUT, 0};
    if (poll(&writable, 1, milliseconds_until(deadline, 60'000)) == 0 && std::chrono::steady_clock::now() >= deadline) {
      return false;
    }
  }
  return true;
}

std::optional<record_kind> control_socket::take_record(byte_buffer& body) {
  for (bool ended = false;;) {
    bool malformed = false;
    if (const auto read = next_record(unread(), record_bytes_max, malformed)) {
      const record_kind kind = read->kind;
      body = byte_buffer(read->body);
      consume(record_header_bytes + read->body.size());
      goodbye said;
      if (kind != record_kind::goodbye) return kind;
      if (!decode(body.view(), said)) throw failure("the server at " + peer() + " sent a damaged goodbye");
      throw failure("the server at " + peer() + " refuses: " + std::string(describe(said.reason)) +
                        (said.text.empty() ? "" : ": " + said.text),
                    said.reason);
    }
    if (malformed) throw failure(peer() + " does not speak icecore's protocol", close_reason::malformed);
    if (ended) throw failure("the server closed the connection during the handshake", close_reason::lost);
    const std::size_t before = unread().size();
    ended = read_some(record_bytes_max) == read_state::ended;
    if (!ended && unread().size() == before) return std::nullopt;
  }
}

void control_socket::raise_too_slow() const {
  throw failure("the server at " + peer() + " did not answer the handshake in time", close_reason::too_slow);
}

record_kind control_socket::read_record(byte_buffer& body, steady_time deadline) {
  for (;;) {
    if (const auto taken = take_record(body)) return *taken;
    pollfd readable{number(), POLLIN, 0};
    const int wait_ms = milliseconds_until(deadline, 60'000);
    if (poll(&readable, 1, wait_ms) == 0 && std::chrono::steady_clock::now() >= deadline) raise_too_slow();
  }
}

control_socket connect_to(const socket_address& address, steady_time deadline) {
  const addresses found = resolve(address, 0);
  int error = 0;
  for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    descriptor socket(::socket(each->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket) {
      error = errno;
      continue;
    }
    error = ::connect(socket.number(), each->ai_addr, each->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      pollfd writable{socket.number(), POLLOUT, 0};
      while (poll(&writable, 1, milliseconds_until(deadline, 60'000)) <= 0 &&
             std::chrono::steady_clock::now() < deadline) {
      }
      socklen_t size = sizeof error;
      if (writable.revents == 0) {
        error = ETIMEDOUT;
      } else if (getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
        error = errno;
      }
    }
    if (error == 0) return control_socket(std::move(socket));
  }
  throw failure("cannot connect to " + text_of(address) + ": " + reason_of(error), close_reason::lost);
}

}  // namespace icecore::wire
