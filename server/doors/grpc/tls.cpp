#include "doors/grpc/tls.hpp"

#include <fmt/format.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include "icecore/error.hpp"

namespace icecore::doors {

namespace {

using file = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;
using certificate = std::unique_ptr<X509, void (*)(X509*)>;
using private_key = std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)>;

file open_file(const std::string& path) {
  file opened(std::fopen(path.c_str(), "re"), std::fclose);
  if (!opened) {
    throw error(errc::invalid_argument,
                fmt::format("TLS: {}: {}", path, std::error_code(errno, std::generic_category()).message()));
  }
  return opened;
}

std::string why() {
  const unsigned long code = ERR_get_error();
  const char* const text = code == 0 ? nullptr : ERR_reason_error_string(code);
  ERR_clear_error();
  return text == nullptr ? "unknown" : text;
}

certificate read_certificate(const std::string& path) {
  const file opened = open_file(path);
  certificate found(PEM_read_X509(opened.get(), nullptr, nullptr, nullptr), X509_free);
  if (!found) throw error(errc::invalid_argument, fmt::format("TLS: {} holds no certificate in PEM: {}", path, why()));
  return found;
}

int no_password(char*, int, int, void*) { return 0; }

void check(const grpc_tls& files) {
  const certificate own = read_certificate(files.certificate);
  const file opened = open_file(files.key);
  // A key that is locked by a password is refused; without the function OpenSSL would ask the terminal.
  const private_key key(PEM_read_PrivateKey(opened.get(), nullptr, no_password, nullptr), EVP_PKEY_free);
  if (!key)
    throw error(errc::invalid_argument, fmt::format("TLS: {} holds no private key in PEM: {}", files.key, why()));
  if (X509_check_private_key(own.get(), key.get()) != 1) {
    ERR_clear_error();
    throw error(errc::invalid_argument,
                fmt::format("TLS: the key in {} is not that of the certificate in {}", files.key, files.certificate));
  }
  if (files.from_clients != grpc_tls::clients::no_certificate) {
    if (files.client_authorities.empty()) {
      throw error(errc::invalid_argument,
                  "TLS: client certificates are asked for, but no client authorities are given");
    }
    static_cast<void>(read_certificate(files.client_authorities));
  }
}

}  // namespace

void require_tls_1_3() {
  // "PSK": keys known in advance, for TLS 1.2. Overwritten, since a cipher that works would allow TLS 1.2 again.
  ::setenv("GRPC_SSL_CIPHER_SUITES", "PSK-AES128-GCM-SHA256", 1);
}

std::shared_ptr<grpc::ServerCredentials> tls_credentials(const grpc_tls& files) {
  check(files);
  const bool asks = files.from_clients != grpc_tls::clients::no_certificate;
  const auto provider = std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      files.key, files.certificate, asks ? files.client_authorities : std::string{},
      static_cast<unsigned>(std::max<std::int64_t>(1, files.reload_interval.count())));
  grpc::experimental::TlsServerCredentialsOptions options(provider);
  options.watch_identity_key_cert_pairs();
  if (asks) options.watch_root_certs();
  switch (files.from_clients) {
    case grpc_tls::clients::no_certificate:
      options.set_cert_request_type(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
      break;
    case grpc_tls::clients::may_show:
      options.set_cert_request_type(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
      break;
    case grpc_tls::clients::must_show:
      options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
      break;
  }
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace icecore::doors
