// TLS for the HTTP door: version 1.3 alone, certificates from files.
//
//   const auto context = make_tls({.certificate = "server.crt", .key = "server.key"});
//
// Errors: errc::bad_input, which names the file and what OpenSSL says: no such file, no certificate, a key of another
// certificate, a key with a password (which nobody is asked for).
// Threads: pure. Lifetime: connections hold the context they began with, so files can be read anew while they go on.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <filesystem>
#include <memory>
#include <string>

namespace icecore::server::http {

struct tls_files {
  std::filesystem::path certificate = {};  ///< and those between it and the root; empty: no TLS
  std::filesystem::path key = {};
  std::filesystem::path client_ca = {};  ///< who signs clients' certificates; empty: they are not looked at
  bool require_client_certificate = false;
};

[[nodiscard]] std::shared_ptr<boost::asio::ssl::context> make_tls(const tls_files& files);

/// The common name of the client's certificate; empty if it has shown none, or if the certificate has not exactly one.
/// Precondition: the handshake is done, by a context of make_tls(), which lets only verified certificates pass.
[[nodiscard]] std::string certified_name(SSL* connected);

}  // namespace icecore::server::http
