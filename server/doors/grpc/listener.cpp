#include "doors/grpc/listener.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <system_error>

#include "icecore/error.hpp"

namespace icecore::doors {

namespace {

constexpr int backlog = 1024;
constexpr int look_interval_ms = 1000;
constexpr std::chrono::milliseconds least_between_looks{100};

std::string reason(int number) { return std::error_code(number, std::generic_category()).message(); }

/// A bound and listening socket, or -1 and errno.
int listen_at(const addrinfo& address, std::uint16_t port) {
  const int made = ::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (made < 0) return -1;
  const int on = 1;
  ::setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.ai_family == AF_INET6) ::setsockopt(made, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  sockaddr_storage where{};
  std::memcpy(&where, address.ai_addr, address.ai_addrlen);
  if (address.ai_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&where)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(&where)->sin_port = htons(port);
  }
  if (::bind(made, reinterpret_cast<const sockaddr*>(&where), address.ai_addrlen) != 0 ||
      ::listen(made, backlog) != 0) {
    const int why = errno;
    ::close(made);
    errno = why;
    return -1;
  }
  return made;
}

std::uint16_t port_of(int listening) {
  sockaddr_storage where{};
  socklen_t size = sizeof where;
  if (::getsockname(listening, reinterpret_cast<sockaddr*>(&where), &size) != 0) return 0;
  return ntohs(where.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&where)->sin6_port
                                           : reinterpret_cast<const sockaddr_in*>(&where)->sin_port);
}

/// The peer's address and port, as connection_users has it.
std::string address_of(const sockaddr_storage& peer) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool six = peer.ss_family == AF_INET6;
  const void* const host = six ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(&peer)->sin6_addr)
                               : &reinterpret_cast<const sockaddr_in*>(&peer)->sin_addr;
  const std::uint16_t port = six ? reinterpret_cast<const sockaddr_in6*>(&peer)->sin6_port
                                 : reinterpret_cast<const sockaddr_in*>(&peer)->sin_port;
  ::inet_ntop(peer.ss_family, host, text.data(), text.size());
  return fmt::format("{}:{}", text.data(), ntohs(port));
}

}  // namespace

listener::listener(const std::string& host, std::uint16_t port, service::gauge& connections, connection_users& users,
                   std::function<void(int)> accepted)
    : gauge_(connections), users_(users), accepted_(std::move(accepted)), port_(port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int failed = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); failed != 0) {
    throw error(errc::invalid_argument,
                fmt::format("the address \"{}\" of the gRPC door: {}", host, ::gai_strerror(failed)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, ::freeaddrinfo);
  int why = 0;
  for (const addrinfo* a = addresses.get(); a != nullptr; a = a->ai_next) {
    if (a->ai_family != AF_INET && a->ai_family != AF_INET6) continue;
    const int made = listen_at(*a, port_);
    if (made < 0) {
      // A machine without IPv6 may have an address of it in /etc/hosts.
      if (errno != EAFNOSUPPORT && errno != EADDRNOTAVAIL) why = errno;
      if (why != 0) break;
      continue;
    }
    listening_.push_back(made);
    if (port_ == 0) port_ = port_of(made);  // the same one of every address
  }
  if (why != 0 || listening_.empty()) {
    for (const int one : listening_) ::close(one);
    throw error(errc::unavailable, fmt::format("the gRPC door cannot listen at {}:{}: {}", host, port,
                                               why != 0 ? reason(why) : "the machine has no such address"));
  }
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_ < 0) {
    const int failed_with = errno;
    for (const int one : listening_) ::close(one);
    throw error(errc::io,
                fmt::format("the gRPC door has no descriptor to stop its listener with: {}", reason(failed_with)));
  }
}

listener::~listener() {
  stop();
  for (const int one : listening_) ::close(one);
  if (wake_ >= 0) ::close(wake_);
}

void listener::start() {
  thread_ = std::thread([this] { run(); });
}

void listener::stop() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_, &one, sizeof one);  // an eventfd takes 8 bytes
  thread_.join();
  for (const int socket : listening_) ::close(socket);
  listening_.clear();
}

void listener::run() {
  std::vector<pollfd> waits;
  for (const int one : listening_) waits.push_back({.fd = one, .events = POLLIN, .revents = 0});
  waits.push_back({.fd = wake_, .events = POLLIN, .revents = 0});
  for (;;) {
    ::poll(waits.data(), waits.size(), look_interval_ms);
    if (waits.back().revents != 0) return;
    for (const pollfd& one : waits) {
      if (one.revents != 0) accept_from(one.fd);
    }
    forget_closed(std::chrono::milliseconds(look_interval_ms));
  }
}

void listener::accept_from(int listening) {
  for (;;) {
    sockaddr_storage peer{};
    socklen_t peer_bytes = sizeof peer;
    const int socket =
        ::accept4(listening, reinterpret_cast<sockaddr*>(&peer), &peer_bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      // Out of descriptors or memory: the connection stays in the backlog; poll() would report it at once again.
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        forget_closed(least_between_looks);
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
      return;
    }
    service::gauge::share held;
    if (!gauge_.try_take(1, held)) {
      forget_closed(least_between_looks);
      if (!gauge_.try_take(1, held)) {
        ::close(socket);
        continue;
      }
    }
    struct stat what {};
    ::fstat(socket, &what);
    const int on = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connections_.push_back({.socket = socket,
                            .inode = what.st_ino,
                            .held = std::move(held),
                            .address = address_of(peer),
                            .number = ++accepted_count_});
    users_.opened(connections_.back().address, accepted_count_);
    accepted_(socket);
  }
}

// At the limit each connection that comes would have all others looked at: so not more often than this.
void listener::forget_closed(std::chrono::milliseconds interval) {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ < interval) return;
  looked_ = now;
  std::erase_if(connections_, [this](const connection& one) {
    struct stat what {};
    if (::fstat(one.socket, &what) == 0 && S_ISSOCK(what.st_mode) && what.st_ino == one.inode) return false;
    users_.closed(one.address, one.number);
    return true;
  });
}

}  // namespace icecore::doors
