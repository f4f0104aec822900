// TLS of the gRPC door: version 1.3 alone, with certificates from files that are read again when they change.
//
//   require_tls_1_3();                                        // before the first credentials of the process
//   const auto credentials = tls_credentials(options.tls);
//
// gRPC of this version cannot be told a least version of TLS. It can be told the ciphers of TLS 1.2, by the variable
// GRPC_SSL_CIPHER_SUITES, which it reads once: one that needs a key both sides know in advance, which gRPC never
// has. So no handshake of TLS 1.2 succeeds; the ciphers of TLS 1.3 are not in that list, and stay. A test shows it.
// Errors: errc::invalid_argument for a file that cannot be read, is no certificate or key, or a key of another one.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "doors/grpc/door.hpp"

namespace icecore::doors {

/// For the whole process, its clients too. Not while another thread uses the environment.
void require_tls_1_3();
[[nodiscard]] std::shared_ptr<grpc::ServerCredentials> tls_credentials(const grpc_tls& files);

}  // namespace icecore::doors
