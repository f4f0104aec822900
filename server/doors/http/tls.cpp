#include "doors/http/tls.hpp"

#include <fmt/format.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

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

std::string certified_name(SSL* connected) {
  struct free_certificate {
    void operator()(X509* of) const { X509_free(of); }
  };
  const std::unique_ptr<X509, free_certificate> shown(SSL_get1_peer_certificate(connected));
  if (shown == nullptr || SSL_get_verify_result(connected) != X509_V_OK) return {};
  X509_NAME* const subject = X509_get_subject_name(shown.get());
  const int first = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (first < 0 || X509_NAME_get_index_by_NID(subject, NID_commonName, first) >= 0) return {};
  unsigned char* text = nullptr;
  const int size = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, first)));
  if (size < 0) return {};
  std::string name(reinterpret_cast<const char*>(text), static_cast<std::size_t>(size));
  OPENSSL_free(text);
  return name;
}

}  // namespace icecore::server::http
