#include "doors/http/connection.hpp"

#include <algorithm>
#include <array>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <optional>
#include <type_traits>
#include <utility>

#include "doors/http/tls.hpp"

namespace icecore::server::http {

namespace {

namespace beast = boost::beast;
namespace wire = boost::beast::http;
using plain_stream = beast::tcp_stream;
using tls_stream = beast::ssl_stream<beast::tcp_stream>;

constexpr std::chrono::milliseconds linger_limit{2'000};
constexpr std::size_t linger_bytes_max = std::size_t{256} << 10;

template <class Stream>
class stream_connection final : public connection, public std::enable_shared_from_this<stream_connection<Stream>> {
 public:
  stream_connection(Stream stream, std::shared_ptr<boost::asio::ssl::context> tls, shared& common)
      : tls_(std::move(tls)), stream_(std::move(stream)), common_(common), buffer_(common.header_bytes_max) {
    ++common_.connections;
    common_.on_connections();
  }
  ~stream_connection() override {
    release_output();
    --common_.connections;
    common_.on_connections();
  }

  void start() {
    if constexpr (std::is_same_v<Stream, tls_stream>) {
      begin_step();
      stream_.async_handshake(boost::asio::ssl::stream_base::server,
                              [self = this->shared_from_this()](beast::error_code failed) {
                                if (failed) return self->common_.on_failed_handshake(failed.message());
                                self->certified_ = certified_name(self->stream_.native_handle());
                                self->read();
                              });
    } else {
      read();
    }
  }

  void finish() override {
    finishing_ = true;
    if (!sending_) beast::get_lowest_layer(stream_).close();
  }

 private:
  /// From now on the connection has `read_limit` for its next step, however many pieces that takes.
  void begin_step() { beast::get_lowest_layer(stream_).expires_after(common_.read_limit); }

  void read() {
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(common_.header_bytes_max));
    parser_->body_limit(0);
    begin_step();
    wire::async_read(stream_, buffer_, *parser_,
                     [self = this->shared_from_this()](beast::error_code failed, std::size_t) { self->got(failed); });
  }

  void got(beast::error_code failed) {
    if (failed == wire::error::end_of_stream) return close();
    if (failed == wire::error::header_limit || failed == wire::error::buffer_overflow) {
      return send(refusal(431, "the request's header is too long"), false);
    }
    if (failed == wire::error::body_limit || failed == wire::error::unexpected_body) {
      return send(refusal(413, "no body is expected"), false);
    }
    if (failed && failed.category() == wire::make_error_code(wire::error::bad_method).category() &&
        failed != wire::error::partial_message) {
      return send(refusal(400, "this is no request of HTTP/1.1"), false);
    }
    if (failed) return;  // the socket failed or took too long: there is nobody to tell
    const auto& request = parser_->get();
    if (request.version() >= 11 && request.find(wire::field::host) == request.end()) {
      return send(refusal(400, "HTTP/1.1 needs the field Host"), false);
    }
    const auto method = request.method_string();
    const auto target = request.target();
    const auto shown = request[wire::field::authorization];
    send(answer_to({.method = {method.data(), method.size()},
                    .target = {target.data(), target.size()},
                    .by = {.authorization = {shown.data(), shown.size()}, .certified = certified_}},
                   common_.from),
         request.keep_alive());
  }

  void send(answer told, bool keep_alive) {
    if (told.body.size() > common_.output_bytes_max - common_.output_bytes) {
      const std::string_view path = told.path;
      told = refusal(503, "too many answers are being sent; try again");
      told.path = path;
    }
    common_.on_answer(told);
    response_.emplace(static_cast<wire::status>(told.status), 11);
    response_->set(wire::field::server, "icecore-server");
    response_->set(wire::field::content_type, {told.content_type.data(), told.content_type.size()});
    response_->set(wire::field::cache_control, "no-store");
    response_->set("X-Content-Type-Options", "nosniff");
    if (told.status == 401) response_->set(wire::field::www_authenticate, "Bearer");
    if (told.status == 405) response_->set(wire::field::allow, "GET, HEAD");
    response_->keep_alive(keep_alive && !finishing_);
    response_->content_length(told.body.size());
    if (told.with_body) {
      held_bytes_ = told.body.size();
      common_.output_bytes += held_bytes_;
      response_->body() = std::move(told.body);
    }
    sending_ = true;
    begin_step();
    serializer_.emplace(*response_);
    const auto sent = [self = this->shared_from_this()](beast::error_code failed, std::size_t) {
      self->finish_sending(failed);
    };
    // the answer to HEAD has a length and no body, which a serializer would take for an error if it wrote the body
    if (told.with_body) {
      wire::async_write(stream_, *serializer_, sent);
    } else {
      wire::async_write_header(stream_, *serializer_, sent);
    }
  }

  void finish_sending(beast::error_code failed) {
    const bool again = !failed && response_->keep_alive() && !finishing_;
    sending_ = false;
    serializer_.reset();
    response_.reset();
    release_output();
    if (failed) return;
    again ? read() : close();
  }

  void release_output() { common_.output_bytes -= std::exchange(held_bytes_, 0); }

  /// Tells the other side that this is all.
  void close() {
    if constexpr (std::is_same_v<Stream, tls_stream>) {
      begin_step();
      stream_.async_shutdown([self = this->shared_from_this()](beast::error_code) { self->linger(); });
    } else {
      linger();
    }
  }

  /// Reads what the other side still sends, for a while: closing a socket with unread bytes would reset the connection,
  /// and the other side might lose the answer.
  void linger() {
    auto& socket_stream = beast::get_lowest_layer(stream_);
    beast::error_code ignored;
    socket_stream.socket().shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
    socket_stream.expires_after(std::min<std::chrono::milliseconds>(common_.read_limit, linger_limit));
    throw_away(linger_bytes_max);
  }

  void throw_away(std::size_t bytes_max) {
    if (finishing_ || bytes_max == 0) return;
    beast::get_lowest_layer(stream_).async_read_some(
        boost::asio::buffer(thrown_away_),
        [self = this->shared_from_this(), bytes_max](beast::error_code failed, std::size_t got) {
          if (!failed) self->throw_away(bytes_max - std::min(got, bytes_max));
        });
  }

  std::shared_ptr<boost::asio::ssl::context> tls_;  ///< what the stream refers to
  Stream stream_;
  shared& common_;
  beast::flat_buffer buffer_;  ///< never grows beyond the bound of a header
  std::optional<wire::request_parser<wire::empty_body>> parser_;
  std::optional<wire::response<wire::string_body>> response_;
  std::optional<wire::response_serializer<wire::string_body>> serializer_;
  std::array<char, 1024> thrown_away_;
  std::string certified_;       ///< the common name of the client's certificate
  std::size_t held_bytes_ = 0;  ///< of common_.output_bytes
  bool sending_ = false;
  bool finishing_ = false;
};

}  // namespace

std::shared_ptr<connection> serve(boost::asio::ip::tcp::socket socket, std::shared_ptr<boost::asio::ssl::context> tls,
                                  shared& common) {
  if (tls) {
    tls_stream stream(std::move(socket), *tls);
    auto made = std::make_shared<stream_connection<tls_stream>>(std::move(stream), std::move(tls), common);
    made->start();
    return made;
  }
  auto made = std::make_shared<stream_connection<plain_stream>>(plain_stream(std::move(socket)), nullptr, common);
  made->start();
  return made;
}

}  // namespace icecore::server::http
