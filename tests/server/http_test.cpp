// The HTTP door: what it answers, what it refuses, and that no client makes it wait or grow.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <openssl/ssl.h>
#include <prometheus/counter.h>
#include <prometheus/registry.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <fstream>
#include <mutex>
#include <thread>

#include "certificates.hpp"
#include "doors/http/door.hpp"
#include "doors/http/metrics_text.hpp"
#include "icecore/error.hpp"

namespace icecore::server::http {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
namespace fs = std::filesystem;

/// A connection by hand, which can misbehave.
class client {
 public:
  explicit client(const std::string& address, int receive_bytes = 0) {
    const std::size_t colon = address.rfind(':');
    std::string host = address.substr(0, colon);
    if (host.front() == '[') host = host.substr(1, host.size() - 2);
    addrinfo* found = nullptr;
    addrinfo wanted{};
    wanted.ai_socktype = SOCK_STREAM;
    if (::getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &wanted, &found) != 0)
      throw std::runtime_error(host);
    socket_ = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (receive_bytes > 0) ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    const timeval limit{30, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    const int connected = ::connect(socket_, found->ai_addr, found->ai_addrlen);
    ::freeaddrinfo(found);
    if (connected != 0) throw std::runtime_error("cannot connect to " + address);
  }
  client(const client&) = delete;
  client& operator=(const client&) = delete;
  ~client() { ::close(socket_); }

  void send(std::string_view text) const { (void)::send(socket_, text.data(), text.size(), MSG_NOSIGNAL); }
  /// All until the other side closes.
  [[nodiscard]] std::string receive_all() const {
    std::string all, piece(65'536, '\0');
    for (ssize_t got = 0; (got = ::recv(socket_, piece.data(), piece.size(), 0)) > 0;) {
      all.append(piece, 0, static_cast<std::size_t>(got));
    }
    return all;
  }
  /// One answer with its body, as its length says.
  [[nodiscard]] std::string receive_answer() const {
    std::string all;
    char c = 0;
    while (all.find("\r\n\r\n") == std::string::npos && ::recv(socket_, &c, 1, 0) == 1) all += c;
    const std::size_t length = all.find("Content-Length: ");
    if (length == std::string::npos) return all;
    const std::size_t end = all.size() + std::stoul(all.substr(length + 16));
    std::string piece(65'536, '\0');
    while (all.size() < end) {
      const ssize_t got = ::recv(socket_, piece.data(), std::min(piece.size(), end - all.size()), 0);
      if (got <= 0) break;
      all.append(piece, 0, static_cast<std::size_t>(got));
    }
    return all;
  }
  [[nodiscard]] int descriptor() const { return socket_; }

 private:
  int socket_;
};

std::string ask(const std::string& address, std::string_view request) {
  const client asking(address);
  asking.send(request);
  return asking.receive_all();
}

std::string get(const std::string& address, const std::string& target) {
  return ask(address, "GET " + target + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
}

class Http : public ::testing::Test {
 protected:
  door& open(options given = {}) {
    const auto keep = [this](const caller& by) {
      const std::lock_guard held(mutex_);
      callers_.emplace_back(std::string(by.authorization) + "|" + std::string(by.certified));
    };
    const sources from{.metrics =
                           [=, this](const caller& by) {
                             keep(by);
                             return metrics_();
                           },
                       .not_ready =
                           [=, this](const caller& by) {
                             keep(by);
                             return not_ready_();
                           }};
    opened_ = std::make_unique<door>(given, from, registry_, [this](std::string_view event, std::string_view detail) {
      const std::lock_guard held(mutex_);
      events_.emplace_back(std::string(event) + ": " + std::string(detail));
    });
    return *opened_;
  }
  std::vector<std::string> events() {
    const std::lock_guard held(mutex_);
    return events_;
  }

  std::vector<std::string> callers() {
    const std::lock_guard held(mutex_);
    return callers_;
  }

  prometheus::Registry registry_;
  std::function<std::string()> metrics_ = [this] { return metrics_text(registry_); };
  std::function<std::vector<std::string>()> not_ready_ = [] { return std::vector<std::string>(); };
  std::mutex mutex_;
  std::vector<std::string> events_;
  std::vector<std::string> callers_;  // what the sources were told of who asks: "AUTHORIZATION|COMMON NAME"
  std::unique_ptr<door> opened_;      // last: its thread uses all of the above
};

TEST_F(Http, metrics_are_those_of_the_registry) {
  prometheus::BuildCounter()
      .Name("things_total")
      .Help("Things.")
      .Register(registry_)
      .Add({{"kind", "a\"b"}})
      .Increment(3);
  const std::string told = get(open().address(), "/metrics");
  EXPECT_THAT(told, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(told, HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  EXPECT_THAT(told, HasSubstr("# TYPE things_total counter\nthings_total{kind=\"a\\\"b\"} 3\n"));
  EXPECT_THAT(told, HasSubstr("icecore_http_connections 1\n"));
  EXPECT_THAT(get(opened_->address(), "/metrics"),
              HasSubstr("icecore_http_requests_total{path=\"/metrics\",status=\"200\"} 1\n"));
}

TEST_F(Http, readiness_names_what_is_not_ready) {
  EXPECT_THAT(get(open().address(), "/readyz"), AllOf(StartsWith("HTTP/1.1 200 OK"), EndsWith("\r\n\r\nready\n")));
  not_ready_ = [] { return std::vector<std::string>{"database models: damaged", "a\nb"}; };
  EXPECT_THAT(get(open().address(), "/readyz"),
              AllOf(StartsWith("HTTP/1.1 503 "), EndsWith("\r\n\r\ndatabase models: damaged\na b\n")));
  not_ready_ = [] { return std::vector<std::string>(5'000, std::string(5'000, 'x')); };
  const std::string many = get(open().address(), "/readyz");
  EXPECT_LT(many.size(), 60'000U);
  EXPECT_THAT(many, EndsWith("\nand 4900 more\n"));
}

TEST_F(Http, the_process_is_healthy_as_long_as_it_answers) {
  not_ready_ = [] { return std::vector<std::string>{"all"}; };
  EXPECT_THAT(get(open().address(), "/healthz?verbose"), AllOf(StartsWith("HTTP/1.1 200 OK"), EndsWith("ok\n")));
}

TEST_F(Http, other_paths_and_methods_are_refused) {
  const std::string address = open().address();
  EXPECT_THAT(get(address, "/"), AllOf(StartsWith("HTTP/1.1 404 "), HasSubstr("/metrics, /healthz and /readyz")));
  EXPECT_THAT(get(address, "/healthz/"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(get(address, "/../metrics"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(ask(address, "DELETE /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("Allow: GET, HEAD\r\n")));
  EXPECT_THAT(ask(address, "FROBNICATE / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 405 "));
}

TEST_F(Http, head_is_get_without_a_body) {
  const client asking(open().address());
  asking.send("HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string both = asking.receive_all();
  const std::size_t end = both.find("\r\n\r\n") + 4;
  EXPECT_THAT(both.substr(0, end), HasSubstr("Content-Length: 3\r\n"));
  EXPECT_THAT(both.substr(end), AllOf(StartsWith("HTTP/1.1 200 OK"), EndsWith("ok\n")));
}

TEST_F(Http, a_connection_serves_request_after_request) {
  const client asking(open().address());
  for (int i = 0; i < 20; ++i) {
    asking.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_THAT(asking.receive_answer(), EndsWith("ok\n"));
  }
  asking.send("GET /healthz HTTP/1.0\r\n\r\n");
  EXPECT_THAT(asking.receive_all(), EndsWith("ok\n"));  // and then it closes
}

TEST_F(Http, what_is_no_request_is_told_so_and_closed) {
  const std::string address = open().address();
  for (const char* wrong :
       {"\r\n\r\n\r\n", "hello\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET / HTTP/1.1\r\n:\r\n\r\n",
        "GET /healthz HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"}) {
    EXPECT_THAT(ask(address, wrong), StartsWith("HTTP/1.1 400 ")) << wrong;
  }
  EXPECT_THAT(get(address, "/healthz"), EndsWith("ok\n"));
}

TEST_F(Http, bodies_are_refused) {
  const std::string address = open().address();
  EXPECT_THAT(ask(address, "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000000\r\n\r\n"),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(ask(address, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
              StartsWith("HTTP/1.1 413 "));
}

TEST_F(Http, headers_have_a_bound) {
  const std::string address = open({.header_bytes_max = 1024}).address();
  const std::string head = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: ";
  EXPECT_THAT(ask(address, head + std::string(1024 - head.size() - 4, 'x') + "\r\n\r\n"), EndsWith("ok\n"));
  EXPECT_THAT(ask(address, head + std::string(1024, 'x') + "\r\n\r\n"), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(ask(address, head + std::string(200'000, 'x')), StartsWith("HTTP/1.1 431 "));
}

TEST_F(Http, half_a_request_is_closed_after_the_read_limit_and_others_do_not_notice) {
  const std::string address = open({.read_limit = 300ms}).address();
  const client silent(address), half(address), slow(address);
  half.send("GET /healthz HT");
  std::atomic<bool> closed = false;
  std::thread dripping([&] {  // one byte at a time does not make the limit longer
    for (int i = 0; i < 1'000 && !closed; ++i) {
      slow.send("G");
      std::this_thread::sleep_for(20ms);
    }
  });
  EXPECT_THAT(get(address, "/healthz"), EndsWith("ok\n"));
  EXPECT_EQ(silent.receive_all(), "");
  EXPECT_EQ(half.receive_all(), "");
  EXPECT_EQ(slow.receive_all(), "");
  closed = true;
  dripping.join();
}

TEST_F(Http, connections_beyond_the_bound_are_closed_and_counted) {
  const std::string address = open({.connections_max = 2}).address();
  auto first = std::make_unique<client>(address);
  const client second(address);
  first->send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  second.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(first->receive_answer(), EndsWith("ok\n"));
  EXPECT_THAT(second.receive_answer(), EndsWith("ok\n"));
  EXPECT_EQ(client(address).receive_all(), "");
  second.send("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(second.receive_answer(), AllOf(HasSubstr("connections_refused_total{reason=\"too_many\"} 1\n"),
                                             HasSubstr("icecore_http_connections 2\n")));
  EXPECT_THAT(events(), ::testing::Contains("http.too_many_connections: " + address));
  first.reset();
  std::string told;  // the door sees the end of the first one soon
  for (int i = 0; i < 600 && told.empty(); ++i) told = get(address, "/healthz");
  EXPECT_THAT(told, EndsWith("ok\n"));
}

TEST_F(Http, answers_that_nobody_takes_have_a_bound_together) {
  constexpr std::size_t answer_bytes = 8U << 20;  // more than two sockets hold
  metrics_ = [] { return std::string(answer_bytes, 'x'); };
  const std::string address = open({.output_bytes_max = 2 * answer_bytes}).address();
  const auto lazy = std::array{std::make_unique<client>(address, 65'536), std::make_unique<client>(address, 65'536)};
  for (const auto& each : lazy) {
    each->send("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    char first = 0;
    ASSERT_EQ(::recv(each->descriptor(), &first, 1, 0), 1);  // the answer is under way
  }
  EXPECT_THAT(get(address, "/metrics"), AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("too many answers")));
  EXPECT_THAT(lazy[0]->receive_answer(), EndsWith(std::string(1000, 'x')));
  std::string told;
  for (int i = 0; i < 600 && told.size() < answer_bytes; ++i) told = get(address, "/metrics");
  EXPECT_GE(told.size(), answer_bytes);
}

TEST_F(Http, a_failing_source_is_told_to_the_log_and_not_to_the_client) {
  metrics_ = []() -> std::string { throw std::runtime_error("a secret reason"); };
  EXPECT_THAT(get(open().address(), "/metrics"), AllOf(StartsWith("HTTP/1.1 500 "), Not(HasSubstr("secret"))));
  EXPECT_THAT(events(), ::testing::Contains("http.failed: a secret reason"));
}

TEST_F(Http, sources_are_told_what_the_caller_shows) {
  const std::string address = open().address();
  EXPECT_THAT(get(address, "/metrics"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(
      ask(address, "GET /readyz HTTP/1.1\r\nHost: x\r\nauthorization: Bearer  a b \r\nConnection: close\r\n\r\n"),
      StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(callers(), ::testing::ElementsAre("|", "Bearer  a b|"));
}

TEST_F(Http, a_caller_whom_a_source_does_not_know_is_told_so) {
  metrics_ = []() -> std::string { throw error(errc::unauthenticated, "this token is unknown"); };
  EXPECT_THAT(get(open().address(), "/metrics"),
              AllOf(StartsWith("HTTP/1.1 401 "), HasSubstr("WWW-Authenticate: Bearer\r\n"),
                    EndsWith("\r\n\r\nthis token is unknown\n")));
  EXPECT_THAT(events(), ::testing::IsEmpty());
  metrics_ = []() -> std::string { throw error(errc::unavailable, "a secret reason"); };
  EXPECT_THAT(get(opened_->address(), "/metrics"), AllOf(StartsWith("HTTP/1.1 500 "), Not(HasSubstr("secret"))));
}

TEST_F(Http, an_address_in_use_or_without_meaning_is_told) {
  const std::string address = open().address();
  const auto port = static_cast<std::uint16_t>(std::stoul(address.substr(address.rfind(':') + 1)));
  prometheus::Registry another;
  const auto problem = [&](const options& given) -> std::string {
    try {
      const door second(given, {}, another, [](std::string_view, std::string_view) {});
    } catch (const error& told) {
      EXPECT_EQ(told.code(), errc::io);
      return told.message();
    }
    return {};
  };
  EXPECT_EQ(problem({.port = port}), "http " + address + ": it cannot be listened on: Address already in use");
  EXPECT_THAT(problem({.host = "203.0.113.1"}), HasSubstr("cannot be listened on: Cannot assign requested address"));
  EXPECT_THAT(problem({.host = "no.such.host.invalid"}), HasSubstr("there is no such address"));
}

TEST_F(Http, closing_ends_connections_that_wait_and_does_not_wait_for_them) {
  const std::string address = open({.read_limit = 10min}).address();
  const client idle(address), asked(address);
  asked.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(asked.receive_answer(), EndsWith("ok\n"));
  opened_.reset();
  EXPECT_EQ(idle.receive_all(), "");
  EXPECT_EQ(asked.receive_all(), "");
  EXPECT_THROW(static_cast<void>(client(address).receive_all()), std::runtime_error);
}

/// The same with TLS, and a client of OpenSSL.
class HttpTls : public Http {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("icecore_http_test_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    authority_.write(folder_ / "ca.crt");
    authority_.sign("server", folder_ / "server.crt", folder_ / "server.key");
    authority_.sign("client", folder_ / "client.crt", folder_ / "client.key");
    strangers_.sign("stranger", folder_ / "stranger.crt", folder_ / "stranger.key");
  }
  void TearDown() override {
    opened_.reset();
    fs::remove_all(folder_);
  }
  [[nodiscard]] tls_files files() const {
    return {.certificate = folder_ / "server.crt", .key = folder_ / "server.key"};
  }

  struct asked {
    std::string answer;  ///< empty if there was none
    std::string subject;
    std::string version;
  };
  [[nodiscard]] asked ask_tls(const std::string& address, const std::string& certificate = {},
                              int version_max = TLS1_3_VERSION, const std::string& path = "/healthz") const {
    const std::unique_ptr<SSL_CTX, testing::free_with<SSL_CTX_free>> context(SSL_CTX_new(TLS_client_method()));
    SSL_CTX_set_max_proto_version(context.get(), version_max);
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
    EXPECT_EQ(SSL_CTX_load_verify_locations(context.get(), (folder_ / "ca.crt").c_str(), nullptr), 1);
    if (!certificate.empty()) {
      EXPECT_EQ(SSL_CTX_use_certificate_chain_file(context.get(), (folder_ / (certificate + ".crt")).c_str()), 1);
      EXPECT_EQ(
          SSL_CTX_use_PrivateKey_file(context.get(), (folder_ / (certificate + ".key")).c_str(), SSL_FILETYPE_PEM), 1);
    }
    const client connected(address);
    const std::unique_ptr<SSL, testing::free_with<SSL_free>> tls(SSL_new(context.get()));
    SSL_set_fd(tls.get(), connected.descriptor());
    asked told;
    if (SSL_connect(tls.get()) != 1) return told;
    told.version = SSL_get_version(tls.get());
    const testing::certificate_pointer peer(SSL_get1_peer_certificate(tls.get()));
    char* const subject = X509_NAME_oneline(X509_get_subject_name(peer.get()), nullptr, 0);
    told.subject = subject;
    OPENSSL_free(subject);
    const std::string request = "GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    SSL_write(tls.get(), request.data(), static_cast<int>(request.size()));
    std::string piece(4096, '\0');
    for (int got = 0; (got = SSL_read(tls.get(), piece.data(), static_cast<int>(piece.size()))) > 0;) {
      told.answer.append(piece, 0, static_cast<std::size_t>(got));
    }
    return told;
  }

  fs::path folder_;
  testing::certificate_authority authority_{"authority"};
  testing::certificate_authority strangers_{"authority"};  // of the same name
};

TEST_F(HttpTls, answers_by_version_1_3_alone) {
  const std::string address = open({.tls = files()}).address();
  const asked told = ask_tls(address);
  EXPECT_THAT(told.answer, AllOf(StartsWith("HTTP/1.1 200 OK"), EndsWith("ok\n")));
  EXPECT_EQ(told.version, "TLSv1.3");
  EXPECT_EQ(ask_tls(address, {}, TLS1_2_VERSION).answer, "");
  EXPECT_THAT(get(address, "/healthz"), Not(HasSubstr("ok\n")));  // and not without TLS
  EXPECT_THAT(events(), ::testing::Contains(StartsWith("http.handshake_failed: ")));
  EXPECT_THAT(ask_tls(address).answer, EndsWith("ok\n"));
}

TEST_F(HttpTls, asks_for_a_certificate_of_the_authority) {
  tls_files with = files();
  with.client_ca = folder_ / "ca.crt";
  with.require_client_certificate = true;
  const std::string address = open({.tls = with}).address();
  EXPECT_EQ(ask_tls(address).answer, "");
  EXPECT_EQ(ask_tls(address, "stranger").answer, "");
  EXPECT_THAT(ask_tls(address, "client").answer, EndsWith("ok\n"));
  with.require_client_certificate = false;
  const std::string lenient = open({.tls = with}).address();
  EXPECT_THAT(ask_tls(lenient).answer, EndsWith("ok\n"));
  EXPECT_EQ(ask_tls(lenient, "stranger").answer, "");
}

TEST_F(HttpTls, sources_are_told_the_name_of_a_verified_certificate) {
  tls_files with = files();
  with.client_ca = folder_ / "ca.crt";
  const std::string address = open({.tls = with}).address();
  EXPECT_THAT(ask_tls(address, "client", TLS1_3_VERSION, "/readyz").answer, EndsWith("ready\n"));
  EXPECT_THAT(ask_tls(address, {}, TLS1_3_VERSION, "/readyz").answer, EndsWith("ready\n"));
  EXPECT_THAT(callers(), ::testing::ElementsAre("|client", "|"));
  callers_.clear();
  const std::string blind = open({.tls = files()}).address();  // asks for no certificate, so it verifies none
  EXPECT_THAT(ask_tls(blind, "stranger", TLS1_3_VERSION, "/readyz").answer, EndsWith("ready\n"));
  EXPECT_THAT(callers(), ::testing::ElementsAre("|"));
}

TEST_F(HttpTls, a_handshake_that_does_not_end_is_closed) {
  const std::string address = open({.tls = files(), .read_limit = 300ms}).address();
  const client silent(address);
  silent.send("\x16\x03\x01");
  EXPECT_EQ(silent.receive_all(), "");
  EXPECT_THAT(ask_tls(address).answer, EndsWith("ok\n"));
}

TEST_F(HttpTls, files_are_read_anew_when_told) {
  door& opened = open({.tls = files()});
  EXPECT_EQ(ask_tls(opened.address()).subject, "/CN=server");
  std::ofstream(folder_ / "server.crt") << "no certificate\n";
  EXPECT_THROW(opened.reload_tls(), error);
  EXPECT_EQ(ask_tls(opened.address()).subject, "/CN=server");
  authority_.sign("renewed", folder_ / "server.crt", folder_ / "server.key");
  opened.reload_tls();
  EXPECT_EQ(ask_tls(opened.address()).subject, "/CN=renewed");
}

TEST_F(HttpTls, files_that_do_not_fit_are_named) {
  const auto problem = [&](const tls_files& given) -> std::string {
    try {
      static_cast<void>(make_tls(given));
    } catch (const error& told) {
      EXPECT_EQ(told.code(), errc::bad_input);
      return told.message();
    }
    return {};
  };
  tls_files wrong = files();
  wrong.certificate = folder_ / "none.crt";
  EXPECT_THAT(problem(wrong),
              StartsWith((folder_ / "none.crt: it cannot be used as the server's certificate: ").string()));
  wrong = files();
  wrong.key = folder_ / "client.key";
  EXPECT_THAT(problem(wrong), StartsWith((folder_ / "client.key").string()));
  wrong.key = folder_ / "server.crt";
  EXPECT_THAT(problem(wrong), HasSubstr("it cannot be used as the private key of"));
  wrong = files();
  wrong.client_ca = folder_ / "server.key";
  EXPECT_THAT(problem(wrong), HasSubstr("server.key: it cannot be used as certificates of those who sign"));
}

}  // namespace
}  // namespace icecore::server::http
