// A client of the gRPC door that speaks HTTP/2 byte by byte, as no library does: it stops where it likes.
//
//   slow_client half(port);  half.greet();  half.begin("/icecore.v1.Store/Put");  half.send_data(some);
//   EXPECT_TRUE(half.has_ended(30s));
#pragma once

#include <google/protobuf/message_lite.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace icecore::doors {

/// A client that speaks HTTP/2 byte by byte, of one stream.
class slow_client {
 public:
  explicit slow_client(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(port);
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&where), sizeof where), 0);
  }
  ~slow_client() { ::close(socket_); }
  slow_client(const slow_client&) = delete;
  slow_client& operator=(const slow_client&) = delete;

  void send(std::string_view bytes) { (void)!::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  void greet() {
    send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    send(frame(4, 0, 0, ""));
  }
  /// Greets, and takes no byte of any answer: its windows are shut.
  void greet_without_reading() {
    send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    send(frame(4, 0, 0, std::string("\0\x04\0\0\0\0", 6)));  // INITIAL_WINDOW_SIZE
  }
  void begin(const std::string& path) { send(headers(path, 1)); }
  void send_data(const std::string& bytes, bool last = false) { send(frame(0, last ? 1 : 0, 1, bytes)); }
  void ask(const std::string& path, const google::protobuf::MessageLite& request) {
    begin(path);
    send_data(message(request.SerializeAsString()), true);
  }

  /// What comes within the time; true if the stream, or the connection, has ended.
  bool has_ended(std::chrono::milliseconds within) {
    pollfd waits{.fd = socket_, .events = POLLIN, .revents = 0};
    while (!ended_ && ::poll(&waits, 1, static_cast<int>(within.count())) > 0) {
      std::array<char, 4096> some{};
      const ssize_t came = ::recv(socket_, some.data(), some.size(), 0);
      if (came <= 0) ended_ = true;
      if (came > 0) came_.append(some.data(), static_cast<std::size_t>(came));
      look();
    }
    return ended_;
  }

  static std::string headers(const std::string& path, int stream) {
    return frame(1, 4, stream,
                 header(":method", "POST") + header(":scheme", "http") + header(":path", path) +
                     header(":authority", "localhost") + header("content-type", "application/grpc") +
                     header("te", "trailers"));
  }
  static std::string frame(int type, int flags, int stream, const std::string& body) {
    std::string out;
    for (const std::size_t byte : {body.size() >> 16, body.size() >> 8, body.size()}) out += static_cast<char>(byte);
    out += static_cast<char>(type);
    out += static_cast<char>(flags);
    out += std::string(3, '\0');
    out += static_cast<char>(stream);
    return out + body;
  }
  /// A message as gRPC sends it.
  static std::string message(const std::string& bytes) {
    std::string out(3, '\0');
    out += static_cast<char>(bytes.size() >> 8);
    out += static_cast<char>(bytes.size());
    return out + bytes;
  }

 private:
  static std::string header(const std::string& name, const std::string& value) {
    std::string out(1, '\0');
    out += static_cast<char>(name.size());
    out += name;
    out += static_cast<char>(value.size());
    return out + value;
  }
  /// The end of stream 1: a frame of it with END_STREAM, or RST_STREAM.
  void look() {
    while (came_.size() >= 9) {
      const auto byte = [&](std::size_t at) { return static_cast<std::size_t>(static_cast<unsigned char>(came_[at])); };
      const std::size_t size = byte(0) << 16 | byte(1) << 8 | byte(2);
      if (came_.size() < 9 + size) return;
      if (byte(8) == 1 && (byte(3) == 3 || (byte(3) <= 1 && (byte(4) & 1) != 0))) ended_ = true;
      came_.erase(0, 9 + size);
    }
  }
  int socket_;
  std::string came_;
  bool ended_ = false;
};

}  // namespace icecore::doors
