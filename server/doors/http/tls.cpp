#include "doors/http/tls.hpp"

#include <fmt/format.h>
#include <openssl/ssl.h>

#include "icecore/error.hpp"

namespace icecore::server::http {

namespace {

namespace ssl = boost::asio::ssl;

void require(const boost::system::error_code& failed, const std::filesystem::path& file, std::string_view what) {
  if (failed) {
    throw error(errc::bad_input, fmt::format("{}: it cannot be used as {}: {}", file.string(), what, failed.message()));
  }
}

}  // namespace

std::shared_ptr<ssl::context> make_tls(const tls_files& files) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_3_VERSION);
  context->set_options(ssl::context::default_workarounds | SSL_OP_NO_RENEGOTIATION);
  // otherwise OpenSSL would ask the terminal
  context->set_password_callback([](std::size_t, ssl::context::password_purpose) { return std::string(); });

  boost::system::error_code failed;
  context->use_certificate_chain_file(files.certificate.string(), failed);
  require(failed, files.certificate, "the server's certificate");
  context->use_private_key_file(files.key.string(), ssl::context::pem, failed);
  require(failed, files.key, fmt::format("the private key of {}", files.certificate.string()));
  if (SSL_CTX_check_private_key(context->native_handle()) != 1) {
    throw error(errc::bad_input,
                fmt::format("{}: this is not the private key of {}", files.key.string(), files.certificate.string()));
  }
  if (!files.client_ca.empty()) {
    context->load_verify_file(files.client_ca.string(), failed);
    require(failed, files.client_ca, "certificates of those who sign clients'");
    context->set_verify_mode(files.require_client_certificate ? ssl::verify_peer | ssl::verify_fail_if_no_peer_cert
                                                              : ssl::verify_peer);
  }
  return context;
}

}  // namespace icecore::server::http
