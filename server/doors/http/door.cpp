#include "doors/http/door.hpp"

#include <fmt/format.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <future>
#include <thread>
#include <vector>

#include "doors/http/connection.hpp"
#include "icecore/error.hpp"

namespace icecore::server::http {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::chrono::seconds finish_limit{2};
constexpr std::chrono::milliseconds accept_pause{100};

[[noreturn]] void refuse(const options& given, std::string_view what, const error_code& failed) {
  throw error(errc::io, fmt::format("http {}:{}: {}: {}", given.host, given.port, what, failed.message()));
}

tcp::endpoint endpoint_of(asio::io_context& io, const options& given) {
  error_code failed;
  const auto found = tcp::resolver(io).resolve(given.host, std::to_string(given.port), tcp::resolver::passive, failed);
  if (failed || found.empty()) refuse(given, "there is no such address", failed);
  const tcp::endpoint first = found.begin()->endpoint();
  if (given.host == "localhost" && !first.address().is_loopback()) {
    throw error(errc::io,
                "http localhost: it is not this machine's loopback address but " + first.address().to_string());
  }
  return first;
}

tcp::acceptor listen(asio::io_context& io, const options& given) {
  const tcp::endpoint endpoint = endpoint_of(io, given);
  tcp::acceptor acceptor(io);
  error_code failed;
  acceptor.open(endpoint.protocol(), failed);
  if (!failed) acceptor.set_option(tcp::acceptor::reuse_address(true), failed);
  if (!failed) acceptor.bind(endpoint, failed);
  if (!failed) acceptor.listen(asio::socket_base::max_listen_connections, failed);
  if (failed) refuse(given, "it cannot be listened on", failed);
  return acceptor;
}

}  // namespace

class door::state {
 public:
  state(options given, sources from, prometheus::Registry& registry, report_function report)
      : given_(std::move(given)),
        report_(std::move(report)),
        tls_(given_.tls.certificate.empty() ? nullptr : make_tls(given_.tls)),
        requests_(prometheus::BuildCounter()
                      .Name("icecore_http_requests_total")
                      .Help("Requests answered over HTTP, by path and status.")
                      .Register(registry)),
        open_(prometheus::BuildGauge()
                  .Name("icecore_http_connections")
                  .Help("Open connections of the HTTP door.")
                  .Register(registry)
                  .Add({})),
        refused_(prometheus::BuildCounter()
                     .Name("icecore_http_connections_refused_total")
                     .Help("Connections closed at once since there were too many, or whose TLS handshake failed.")
                     .Register(registry)),
        refused_full_(refused_.Add({{"reason", "too_many"}})),
        refused_tls_(refused_.Add({{"reason", "handshake"}})),
        common_{std::move(from),
                given_.header_bytes_max,
                given_.output_bytes_max,
                given_.read_limit,
                [this](const answer& told) { count(told); },
                [this] { open_.Set(static_cast<double>(common_.connections)); },
                [this](std::string_view reason) {
                  refused_tls_.Increment();
                  report_("http.handshake_failed", reason);
                }},
        acceptor_(listen(io_, given_)),
        pause_(io_),
        address_(address_of(acceptor_)),
        thread_([this] { run(); }) {}

  state(const state&) = delete;
  state& operator=(const state&) = delete;

  ~state() {
    asio::post(io_, [this] {
      stopping_ = true;
      error_code ignored;
      acceptor_.close(ignored);
      pause_.cancel();
      for (const auto& each : open_connections_) {
        if (const auto alive = each.lock()) alive->finish();
      }
    });
    if (finished_.get_future().wait_for(finish_limit) != std::future_status::ready) io_.stop();
    thread_.join();
  }

  [[nodiscard]] std::string address() const { return address_; }

  void reload_tls() {
    if (given_.tls.certificate.empty()) return;
    asio::post(io_, [this, fresh = make_tls(given_.tls)] { tls_ = fresh; });
  }

 private:
  static std::string address_of(const tcp::acceptor& acceptor) {
    const tcp::endpoint at = acceptor.local_endpoint();
    const std::string host = at.address().to_string();
    return at.address().is_v6() ? fmt::format("[{}]:{}", host, at.port()) : fmt::format("{}:{}", host, at.port());
  }

  void run() {
    accept();
    for (bool done = false; !done;) {
      try {
        io_.run();  // until there is nothing left to wait for
        done = true;
      } catch (const std::exception& failed) {  // no memory: the connection that wanted it ends
        report_("http.failed", failed.what());
      }
    }
    finished_.set_value();
  }

  void accept() {
    acceptor_.async_accept([this](error_code failed, tcp::socket socket) {
      if (stopping_) return;
      if (failed) {  // no descriptors or no memory: others may give some back
        report_("http.accept_failed", failed.message());
        pause_.expires_after(accept_pause);
        pause_.async_wait([this](error_code) {
          if (!stopping_) accept();
        });
        return;
      }
      admit(std::move(socket));
      accept();
    });
  }

  void admit(tcp::socket socket) {
    if (common_.connections >= given_.connections_max) {
      refused_full_.Increment();
      report_("http.too_many_connections", address_);
      return;  // the socket closes
    }
    std::erase_if(open_connections_, [](const auto& each) { return each.expired(); });
    open_connections_.push_back(serve(std::move(socket), tls_, common_));
  }

  void count(const answer& told) {
    requests_.Add({{"path", std::string(told.path)}, {"status", std::to_string(told.status)}}).Increment();
    if (!told.failed.empty()) report_("http.failed", told.failed);
  }

  const options given_;
  const report_function report_;
  std::shared_ptr<asio::ssl::context> tls_;  ///< of connections to come; of the door's thread once that runs
  prometheus::Family<prometheus::Counter>& requests_;
  prometheus::Gauge& open_;
  prometheus::Family<prometheus::Counter>& refused_;
  prometheus::Counter& refused_full_;
  prometheus::Counter& refused_tls_;
  shared common_;                                            // before io_, whose destructor destroys connections
  std::vector<std::weak_ptr<connection>> open_connections_;  ///< some may have ended
  bool stopping_ = false;                                    ///< of the door's thread
  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  const std::string address_;
  std::promise<void> finished_;
  std::thread thread_;
};

door::door(options given, sources from, prometheus::Registry& registry, report_function report)
    : state_(std::make_unique<state>(std::move(given), std::move(from), registry, std::move(report))) {}

door::~door() = default;

std::string door::address() const { return state_->address(); }

void door::reload_tls() { state_->reload_tls(); }

}  // namespace icecore::server::http
